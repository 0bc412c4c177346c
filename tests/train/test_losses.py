"""The losses against formulas written out in numpy, and their gradients against finite differences."""

from dataclasses import replace

import numpy as np
import pytest

from oracles import random_pose
from poli import certify, se3

torch = pytest.importorskip("torch")
from poli.train.losses import LossConfig, MatchBatch, pair_loss  # noqa: E402

COUNT = 12


def problem(seed: int, noise: float = 0.02, problems: int = 2):
    """Matches with measured poses, lower-triangular factors and frames; float64 throughout."""
    rng = np.random.default_rng(seed)
    source, target, measured = [], [], []
    for _ in range(problems):
        T = random_pose(rng)
        p = rng.standard_normal((COUNT, 3))
        source.append(p)
        target.append(p @ T[:3, :3].T + T[:3, 3] + 0.1 * rng.standard_normal((COUNT, 3)))
        measured.append(T @ se3.exp(noise * rng.standard_normal(6)))
    L = np.tril(0.05 * rng.standard_normal((problems, COUNT, 3, 3)))
    L[..., [0, 1, 2], [0, 1, 2]] = rng.uniform(0.05, 0.3, (problems, COUNT, 3))
    frames = np.stack([[random_pose(rng)[:3, :3] for _ in range(COUNT)] for _ in range(problems)])
    arrays = [np.stack(a) for a in (source, target)] + [np.ones((problems, COUNT)), np.stack(measured)]
    return MatchBatch(*(torch.from_numpy(a) for a in arrays)), torch.from_numpy(L), torch.from_numpy(frames)


def terms(kind, matches, L, frames, **options):
    config = LossConfig(kind=kind, **options)
    return pair_loss(config, matches, L, frames)


def covariances(L, frames):
    factor = (frames @ L).numpy()
    return factor @ np.swapaxes(factor, -1, -2)


def test_known_pose_loss_is_the_gaussian_likelihood():
    matches, L, frames = problem(1)
    C = covariances(L, frames)
    T = matches.T_measured.numpy()
    expected, squares = [], []
    for b in range(len(T)):
        d = matches.target[b].numpy() - matches.source[b].numpy() @ T[b, :3, :3].T - T[b, :3, 3]
        squared = np.einsum("ni,nij,nj->n", d, np.linalg.inv(2 * C[b]), d)
        expected.append(0.5 * np.mean(np.linalg.slogdet(2 * C[b])[1] + squared))
        squares.append(squared.mean())
    result = terms("tqc", matches, L, frames)
    assert result.total.item() == pytest.approx(np.mean(expected), rel=1e-9)
    assert result.nees == pytest.approx(np.mean(squares), rel=1e-9)
    assert result.pose == 0.0


@pytest.mark.parametrize("kind", ["ttqc", "ttqc-map"])
def test_the_loss_of_the_paper_written_out(kind):
    matches, L, frames = problem(2, problems=1)
    rotation, translation = 0.03, 0.05
    result = terms(kind, matches, L, frames, rotation_sigma=rotation, translation_sigma=translation)
    C = covariances(L, frames)[0]
    p, q, T_measured = matches.source[0].numpy(), matches.target[0].numpy(), matches.T_measured[0].numpy()
    prior = certify.PosePrior.isotropic(T_measured, rotation, translation) if kind == "ttqc-map" else None
    pose = certify.solve(p, q, np.linalg.inv(2 * C), prior).T_target_source
    gamma = np.diag([rotation**2] * 3 + [translation**2] * 3)
    xi = se3.log(se3.inverse(pose) @ T_measured)

    def residuals(T):
        return q - p @ T[:3, :3].T - T[:3, 3]

    def numeric(function):  # derivative by a right perturbation, by central differences
        columns = []
        for axis in range(6):
            step = np.zeros(6)
            step[axis] = 1e-6
            columns.append((function(pose @ se3.exp(step)) - function(pose @ se3.exp(-step))) / 2e-6)
        return np.stack(columns, axis=-1)

    J = numeric(residuals)
    J_xi = numeric(lambda T: se3.log(se3.inverse(T) @ T_measured))
    H = np.einsum("nia,nij,njb->ab", J, np.linalg.inv(2 * C), J) + J_xi.T @ np.linalg.inv(gamma) @ J_xi
    d = residuals(pose)
    data = 0.5 * (np.linalg.slogdet(2 * C)[1].sum() + np.einsum("ni,nij,nj->", d, np.linalg.inv(2 * C), d))
    pose_term = 0.5 * (xi @ np.linalg.inv(gamma) @ xi + np.linalg.slogdet(gamma)[1] + np.linalg.slogdet(H)[1])
    assert result.correspondence * COUNT == pytest.approx(data, rel=1e-6)
    assert result.pose * COUNT == pytest.approx(pose_term, rel=1e-5)
    assert result.total.item() * COUNT == pytest.approx(data + pose_term, rel=1e-5)
    assert result.certified == 1.0


@pytest.mark.parametrize("kind", ["tqc", "ttqc", "ttqc-map"])
def test_gradients_equal_finite_differences(kind):
    matches, L, frames = problem(3)
    options = {"rotation_sigma": 0.05, "translation_sigma": 0.05}
    variable = L.clone().requires_grad_()
    terms(kind, matches, variable, frames, **options).total.backward()
    rng = np.random.default_rng(0)
    for _ in range(4):
        direction = torch.from_numpy(np.tril(rng.standard_normal(L.shape)))
        step = 1e-6
        with torch.no_grad():
            high = terms(kind, matches, L + step * direction, frames, **options).total.item()
            low = terms(kind, matches, L - step * direction, frames, **options).total.item()
        assert (variable.grad * direction).sum().item() == pytest.approx((high - low) / (2 * step), rel=2e-4, abs=1e-7)


@pytest.mark.parametrize("kind", ["ttqc", "ttqc-map"])
def test_each_problem_may_have_its_own_gamma(kind):
    matches, L, frames = problem(6)
    sigmas = ((0.02, 0.05), (0.1, 0.01))
    each = []
    for b, (r, t) in enumerate(sigmas):
        alone = MatchBatch(*(part[b : b + 1] for part in (matches.source, matches.target, matches.weights, matches.T_measured)))
        each.append(terms(kind, alone, L[b : b + 1], frames[b : b + 1], rotation_sigma=r, translation_sigma=t))
    gamma = torch.stack([torch.diag(torch.tensor([r] * 3 + [t] * 3, dtype=torch.float64) ** 2) for r, t in sigmas])
    both = terms(kind, replace(matches, gamma=gamma), L, frames)
    assert both.total.item() == pytest.approx(np.mean([one.total.item() for one in each]), rel=1e-9)


def test_gated_matches_do_not_count():
    matches, L, frames = problem(4)
    weights = matches.weights.clone()
    weights[:, -4:] = 0.0
    far = matches.target.clone()
    far[:, -4:] += 100.0
    gated = terms("ttqc", MatchBatch(matches.source, far, weights, matches.T_measured), L, frames)
    cut = MatchBatch(matches.source[:, :-4], matches.target[:, :-4], matches.weights[:, :-4], matches.T_measured)
    assert gated.total.item() == pytest.approx(terms("ttqc", cut, L[:, :-4], frames[:, :-4]).total.item(), rel=1e-7)


@pytest.mark.parametrize(("kind", "spoiled"), [("ttqc", "points"), ("ttqc", "weights"), ("tqc", "weights")])
def test_an_unsolvable_problem_is_counted_and_does_not_affect_the_others(kind, spoiled):
    matches, L, frames = problem(7)
    alone = MatchBatch(*(t[1:].clone() for t in (matches.source, matches.target, matches.weights, matches.T_measured)))
    for part in (matches.source, matches.target) if spoiled == "points" else (matches.weights,):
        part[0] = 0.0  # one point, matched twelve times, or no match
    variable = L.clone().requires_grad_()
    result = terms(kind, matches, variable, frames)
    result.total.backward()
    assert result.total.item() == pytest.approx(terms(kind, alone, L[1:], frames[1:]).total.item(), rel=1e-9)
    assert torch.isfinite(variable.grad).all()
    assert not variable.grad[0].any()
    assert result.certified == 0.5
