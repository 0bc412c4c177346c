"""The layer: forward equals `certify.solve`, and gradients equal finite differences. Motions in torch equal those in numpy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.data.pose_problems import random_problem
from benchmarks.experiments.layer import gradient_error
from oracles import seeds
from poli import se3
from poli.certify import PosePrior, solve
from poli.errors import DegenerateError
from poli.train import tensors3 as motion
from poli.train.pose_layer import certified_pose


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


def test_writing_to_an_input_between_forward_and_backward_is_caught(rng):
    """The layer shares the tensors' memory; torch's check must ensure that gradients are never silently wrong."""
    source, target, information = tensors(random_problem(rng, 8))
    information.requires_grad_()
    T = certified_pose(source, target, information).T_target_source
    source += 1.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        T.sum().backward()


# --- rigid motions against those in numpy


@given(st.integers(0, 10_000), st.floats(-9, 0))
def test_log_and_jacobian_agree_with_numpy(seed, exponent):
    xi = np.random.default_rng(seed).standard_normal(6) * 10.0**exponent / 3.0
    T = se3.exp(xi)
    assert motion.log(torch.from_numpy(T)).numpy() == pytest.approx(se3.log(T), abs=1e-9)
    expected = se3.right_jacobian_inverse(-xi)  # J_l(xi) = J_r(-xi)
    np.testing.assert_allclose(motion.left_jacobian_inverse(torch.from_numpy(xi)).numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(motion.inverse(torch.from_numpy(T)).numpy(), se3.inverse(T), atol=1e-12)


@pytest.mark.parametrize("size", [0.0, 1e-8, 1e-3, 0.3, 1.0])
def test_log_has_finite_and_right_gradients(size):
    xi = size * np.random.default_rng(1).standard_normal(6) / 3.0
    T = torch.from_numpy(se3.exp(xi)).requires_grad_()
    jacobian = torch.autograd.functional.jacobian(motion.log, T)
    assert torch.isfinite(jacobian).all()
    for axis in range(6):  # along right perturbations, the derivative of Log(T Exp(e)) is J_r^-1
        step = np.zeros(6)
        step[axis] = 1e-6
        moved = (se3.log(se3.exp(xi) @ se3.exp(step)) - se3.log(se3.exp(xi) @ se3.exp(-step))) / 2e-6
        tangent = se3.exp(xi) @ (se3.exp(step) - se3.exp(-step)) / 2e-6
        np.testing.assert_allclose((jacobian * torch.from_numpy(tangent)).sum((1, 2)).numpy(), moved, atol=2e-5)
