"""The layer: forward equals `certify.solve`, gradients equal finite differences and the KKT system of the paper."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.data.pose_problems import random_problem
from benchmarks.experiments.layer import gradient_error
from oracles import kkt_weight_gradient, seeds
from poli import se3
from poli.certify import PosePrior, solve
from poli.errors import DegenerateError, InputError
from poli.train.pose_layer import certified_pose, chordal_gradient


def tensors(problem, dtype=torch.float64):
    return [torch.tensor(a, dtype=dtype) for a in (problem.source, problem.target, problem.information)]


def batch_of(rng, sizes, dtype=torch.float64):
    """Problems of different sizes, padded with matches of zero weight."""
    problems = [random_problem(rng, n, condition=100.0) for n in sizes]
    source, target = np.zeros((len(sizes), max(sizes), 3)), np.zeros((len(sizes), max(sizes), 3))
    information = np.zeros((len(sizes), max(sizes), 3, 3))
    for i, p in enumerate(problems):
        source[i, : sizes[i]], target[i, : sizes[i]], information[i, : sizes[i]] = p.source, p.target, p.information
    return problems, [torch.tensor(a, dtype=dtype) for a in (source, target, information)]


@given(seed=seeds, with_prior=st.booleans())
def test_gradients_against_central_differences(seed, with_prior):
    """With respect to points, weights, the prior's pose and its covariance."""
    assert gradient_error(np.random.default_rng(seed), with_prior) < 1e-4


@given(seed=seeds, count=st.integers(4, 12))
def test_weight_gradients_against_the_kkt_system(seed, count):
    rng = np.random.default_rng(seed)
    p = random_problem(rng, count, condition=100.0, noise=3.0)
    p.target[:] += p.T_target_source[:3, 3] * -1.0  # near the origin: far from it, the KKT system is ill-conditioned
    source, target, information = tensors(p)
    information.requires_grad_()
    by_pose = rng.standard_normal((4, 4))
    T = certified_pose(source, target, information).T_target_source
    (T * torch.tensor(by_pose)).sum().backward()
    by_x = np.concatenate([[0.0], by_pose[:3, :3].T.reshape(9), by_pose[:3, 3]])
    expected = kkt_weight_gradient(T.detach().numpy(), p.source, p.target, p.information, by_x)
    np.testing.assert_allclose(information.grad, expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())


def test_a_batch_equals_its_problems_one_by_one(rng):
    problems, (source, target, information) = batch_of(rng, [5, 30, 12])
    information.requires_grad_()
    batch = certified_pose(source, target, information)
    weights = torch.randn(3, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    (batch.T_target_source * weights).sum().backward()
    assert batch.certified.tolist() == [True] * 3
    for i, p in enumerate(problems):
        alone = tensors(p)
        alone[2].requires_grad_()
        single = certified_pose(*alone)
        assert single.T_target_source.shape == (4, 4)
        assert bool(single.certified)
        np.testing.assert_allclose(batch.T_target_source[i].detach(), single.T_target_source.detach(), atol=1e-10)
        np.testing.assert_allclose(single.T_target_source.detach(), solve(p.source, p.target, p.information).T_target_source)
        (single.T_target_source * weights[i]).sum().backward()
        n = len(p.source)
        np.testing.assert_allclose(information.grad[i, :n], alone[2].grad, atol=1e-10)


def test_gradcheck_of_torch_passes(rng):
    p = random_problem(rng, 6, condition=10.0, noise=2.0)
    source, target, information = (a.requires_grad_() for a in tensors(p))
    factors = torch.linalg.cholesky(information.detach()).requires_grad_()

    def pose(source, target, factors):
        return certified_pose(source, target, factors @ factors.transpose(-1, -2)).T_target_source

    assert torch.autograd.gradcheck(pose, (source, target, factors), eps=1e-6, atol=1e-5, rtol=1e-4)


def test_float32_in_float32_out(rng):
    p = random_problem(rng, 50, condition=10.0)
    source, target, information = tensors(p, torch.float32)
    information.requires_grad_()
    batch = certified_pose(source, target, information)
    batch.T_target_source.sum().backward()
    assert batch.T_target_source.dtype == information.grad.dtype == torch.float32
    np.testing.assert_allclose(batch.T_target_source.detach(), p.T_target_source, atol=0.1)


def test_one_prior_covariance_is_shared_by_the_batch(rng):
    """As for a learned Gamma: its gradient is the sum over the batch."""
    problems, (source, target, information) = batch_of(rng, [8, 8])
    prior = torch.tensor(np.stack([p.T_target_source @ se3.exp(0.1 * rng.standard_normal(6)) for p in problems]))
    covariance = torch.eye(6, dtype=torch.float64).mul(1e-3).requires_grad_()
    certified_pose(source, target, information, prior, covariance).T_target_source.square().sum().backward()
    total = torch.zeros(6, 6, dtype=torch.float64)
    for i in range(2):
        own = torch.eye(6, dtype=torch.float64).mul(1e-3).requires_grad_()
        answer = certified_pose(source[i], target[i], information[i], prior[i], own)
        expected = solve(*(a[i].numpy() for a in (source, target, information)), PosePrior(prior[i].numpy(), own.detach().numpy()))
        np.testing.assert_allclose(answer.T_target_source.detach(), expected.T_target_source)
        answer.T_target_source.square().sum().backward()
        total += own.grad
    np.testing.assert_allclose(covariance.grad, total, rtol=1e-9, atol=1e-12)


def test_the_chordal_gradient_against_autograd(rng):
    """Half the chordal prior, written as in `certify.quadratic`, differentiated by torch through the exponential map."""
    T = torch.tensor(random_problem(rng, 3).T_target_source)
    prior = T @ torch.tensor(se3.exp(0.3 * rng.standard_normal(6)))
    F = torch.tensor(rng.standard_normal((6, 6)))
    information = F @ F.T

    def half_prior(xi):
        twist = torch.zeros(4, 4, dtype=torch.float64)
        twist[0, 1], twist[0, 2], twist[1, 2] = -xi[2], xi[1], -xi[0]
        twist = twist - twist.T
        twist = torch.cat([torch.cat([twist[:3, :3], xi[3:, None]], 1), torch.zeros(1, 4, dtype=torch.float64)])
        moved = T @ torch.linalg.matrix_exp(twist)
        A, B, C = information[:3, :3], information[:3, 3:], information[3:, 3:]
        K = 0.5 * torch.trace(A) * torch.eye(3, dtype=torch.float64) - A
        M = prior[:3, :3].T @ moved[:3, :3]
        s = -0.5 * torch.stack([M[2, 1] - M[1, 2], M[0, 2] - M[2, 0], M[1, 0] - M[0, 1]])
        u = prior[:3, :3].T @ (prior[:3, 3] - moved[:3, 3])
        return torch.trace(K @ (torch.eye(3, dtype=torch.float64) - M)) + s @ B @ u + 0.5 * u @ C @ u

    xi = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    half_prior(xi).backward()
    np.testing.assert_allclose(chordal_gradient(T, prior, information), xi.grad, atol=1e-9)


def test_degenerate_problems_of_a_batch(rng):
    _, (source, target, information) = batch_of(rng, [8, 8, 8])
    information[1] = 0.0
    with pytest.raises(DegenerateError, match="problem 1 of the batch: 0 matches"):
        certified_pose(source, target, information)
    information.requires_grad_()
    batch = certified_pose(source, target, information, skip_degenerate=True)
    assert batch.certified.tolist() == [True, False, True]
    assert batch.solutions[1] is None
    np.testing.assert_array_equal(batch.T_target_source[1].detach(), np.eye(4))
    batch.T_target_source.sum().backward()
    assert information.grad[1].abs().max() == 0
    assert information.grad[0].abs().max() > 0


def test_bad_input_is_named(rng):
    source, target, information = tensors(random_problem(rng, 8))
    with pytest.raises(InputError, match="do not fit"):
        certified_pose(source[:3], target, information)
    with pytest.raises(InputError, match="both its pose and its covariance"):
        certified_pose(source, target, information, prior_covariance=torch.eye(6))
    with pytest.raises(InputError, match="floating-point"):
        certified_pose(source.to(torch.int64), target, information)
    with pytest.raises(InputError, match="do not fit a batch"):
        certified_pose(source, target, information, torch.eye(4), torch.eye(5))
    information[2, 0, 0] = torch.nan
    with pytest.raises(InputError, match="information: row 2 is not finite"):
        certified_pose(source, target, information)


def test_writing_to_an_input_between_forward_and_backward_is_caught(rng):
    """The layer shares the tensors' memory; torch's check must ensure that gradients are never silently wrong."""
    source, target, information = tensors(random_problem(rng, 8))
    information.requires_grad_()
    T = certified_pose(source, target, information).T_target_source
    source += 1.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        T.sum().backward()
