"""The certified pose: correct, proven and equivariant."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given

from benchmarks.data.pose_problems import PoseProblem, hostile_problem, random_problem
from oracles import local_minima, pose_cost, random_pose, seeds
from poli import se3
from poli.certify import solve
from poli.errors import DegenerateError


def stiff_problem(rng: np.random.Generator) -> PoseProblem:
    """A few points on a plane, with tiny weights in the plane and enormous ones across it."""
    count = int(rng.integers(3, 6))
    source, target = np.zeros((2, count, 3))
    source[:, :2], target[:, :2] = rng.standard_normal((2, count, 2))
    weights = np.zeros((count, 3, 3))
    thin = rng.standard_normal((count, 2))
    weights[:, :2, :2] = thin[:, :, None] * thin[:, None, :] + 0.01 * np.eye(2)
    weights[:, 2, 2] = 10 ** rng.uniform(2, 9)
    return PoseProblem(source, target, weights, np.eye(4))


@pytest.mark.parametrize(("make", "certified_share"), [(partial(hostile_problem, most=60), 0.99), (stiff_problem, 0.5)])
def test_no_local_solver_beats_a_certified_pose(make, certified_share):
    """100 problems, 20 random starts each, by a solver that shares no code with ours."""
    rng = np.random.default_rng(11)
    certified = 0
    for _ in range(100):
        p = make(rng)
        pose = solve(p.source, p.target, p.information)
        cost = pose_cost(pose.T_target_source, p.source, p.target, p.information)
        assert pose.cost == pytest.approx(cost, rel=1e-5)
        starts = np.stack([random_pose(rng, shift=10.0) for _ in range(20)])
        starts[:, :3, 3] = p.target.mean(0) - np.einsum("sij,j->si", starts[:, :3, :3], p.source.mean(0))
        starts[0] = pose.T_target_source @ se3.exp(1e-3 * rng.standard_normal(6))
        if pose.certified:
            certified += 1
            assert local_minima(p.source, p.target, p.information, starts).min() >= cost * (1 - 1e-6)
    assert certified >= certified_share * 100


def test_the_cost_of_precise_data_is_accurate(rng):
    """A micrometer of noise over a hundred meters: computed as a quadratic form, the cost would be lost to rounding."""
    source = 100.0 * rng.standard_normal((1000, 3))
    for noise in (1e-3, 1e-6):
        target = source + 5.0 + noise * rng.standard_normal((1000, 3))
        pose = solve(source, target, np.tile(np.eye(3) / noise**2, (1000, 1, 1)))
        assert pose.cost == pytest.approx(3000 - 6, rel=0.1)  # chi-square


def test_the_shortcut_and_the_relaxation_agree():
    rng = np.random.default_rng(5)
    ratios = []
    for _ in range(60):
        p = hostile_problem(rng)
        quick, full = (solve(p.source, p.target, p.information, shortcut=s) for s in (True, False))
        assert quick.certified
        assert full.certified
        np.testing.assert_allclose(quick.T_target_source, full.T_target_source, atol=1e-6)
        assert full.certificate.minimum_eigenvalue > -1e-9
        ratios.append(full.certificate.eigenvalue_ratio)
    assert min(ratios) > 1e3  # X is of rank one: the relaxation is tight


def test_hard_problems_use_the_relaxation():
    """Where the fast proof fails, the semidefinite program decides; the certificate records which one was used."""
    rng = np.random.default_rng(0)
    through = 0
    for _ in range(400):
        p = random_problem(rng, 4, condition=1e4, noise=10.0)
        pose = solve(p.source, p.target, p.information)
        assert pose.certified
        through += np.isfinite(pose.certificate.eigenvalue_ratio)
    assert through > 0


def test_equally_good_poses_far_apart_are_refused():
    """All targets in one place: four rotations that differ by half turns are equally good, and the error names one."""
    source = np.array([[1.0, 0, 0], [-1.0, 0, 0], [0, 2.0, 0], [0, -2.0, 0], [0, 0, 3.0], [0, 0, -3.0]])
    target, weights = np.zeros((6, 3)), np.tile(np.diag([1.0, 2.0, 3.0]), (6, 1, 1))
    with pytest.raises(DegenerateError, match=r"180 degrees about .*; add matches or a prior"):
        solve(source, target, weights)
    target = 1e-6 * np.random.default_rng(0).standard_normal((6, 3))  # a small difference decides between them
    pose = solve(source, target, weights)
    starts = np.stack([random_pose(np.random.default_rng(i), 0.0) for i in range(50)])
    found = local_minima(source, target, weights, starts)
    assert found.min() == pytest.approx(pose.cost, rel=1e-9)


def test_point_to_plane_weights(rng):
    """Weights of rank one are fine as long as together they constrain the pose."""
    T, source = random_pose(rng), rng.standard_normal((40, 3))
    normals = rng.standard_normal((40, 3))
    pose = solve(source, source @ T[:3, :3].T + T[:3, 3], np.einsum("ni,nj->nij", normals, normals))
    assert pose.certified
    np.testing.assert_allclose(pose.T_target_source, T, atol=1e-7)


def test_six_planes_that_do_not_meet_still_constrain_the_pose():
    """Six equations, six unknowns, no exact solution: the Gauss-Newton matrix is singular there, but the optimum is sharp."""
    rng = np.random.default_rng(0)
    sharp = 0
    for _ in range(20):
        source, target, normals = rng.standard_normal((3, 6, 3))
        try:
            pose = solve(source, target, np.einsum("ni,nj->nij", normals, normals))
        except DegenerateError:  # planes that meet do so in several poses
            continue
        if pose.cost > 1e-3:
            sharp += 1
            assert np.linalg.eigvalsh(pose.gauss_newton)[0] < 1e-8
            assert np.linalg.eigvalsh(pose.hessian)[0] > 1e-6
            assert np.linalg.matrix_rank(pose.information, tol=1e-9 * np.abs(pose.information).max()) == 5
    assert sharp > 0


def test_far_origins_lose_no_precision(rng):
    p = random_problem(rng, 50)
    far = np.array([5e5, 4e6, 100.0])
    near, moved = solve(p.source, p.target, p.information), solve(p.source + far, p.target + far, p.information)
    shifted = near.T_target_source.copy()
    shifted[:3, 3] += far - near.T_target_source[:3, :3] @ far
    np.testing.assert_allclose(moved.T_target_source[:3, :3], near.T_target_source[:3, :3], atol=1e-9)
    np.testing.assert_allclose(moved.T_target_source[:3, 3], shifted[:3, 3], atol=1e-2)
    residual = p.target + far - (p.source + far) @ moved.T_target_source[:3, :3].T - moved.T_target_source[:3, 3]
    np.testing.assert_allclose(np.einsum("ni,nij,nj->", residual, p.information, residual), near.cost, rtol=1e-3)


@given(seed=seeds)
def test_equivariance(seed):
    """Moving source or target moves the pose; permuting changes nothing; changing units scales the translation."""
    rng = np.random.default_rng(seed)
    p = random_problem(rng, 12, condition=1e3, noise=2.0)
    pose = solve(p.source, p.target, p.information)
    T, A, B = pose.T_target_source, random_pose(rng), random_pose(rng)
    source = p.source @ A[:3, :3].T + A[:3, 3]
    target = p.target @ B[:3, :3].T + B[:3, 3]
    weights = B[:3, :3] @ p.information @ B[:3, :3].T
    moved = solve(source, target, weights)
    np.testing.assert_allclose(moved.T_target_source, B @ T @ se3.inverse(A), atol=1e-7)
    assert moved.cost == pytest.approx(pose.cost, rel=1e-7)
    carry = se3.adjoint(se3.inverse(A))  # T Exp(d) A^-1 = (T A^-1) Exp(Ad(A) d)
    np.testing.assert_allclose(
        moved.information, carry.T @ pose.information @ carry, rtol=1e-5, atol=1e-6 * np.abs(moved.information).max()
    )
    order = rng.permutation(12)
    np.testing.assert_allclose(solve(p.source[order], p.target[order], p.information[order]).T_target_source, T, atol=1e-8)
    scaled = solve(10 * p.source, 10 * p.target, p.information)
    np.testing.assert_allclose(scaled.T_target_source[:3, :3], T[:3, :3], atol=1e-8)
    np.testing.assert_allclose(scaled.T_target_source[:3, 3], 10 * T[:3, 3], atol=1e-6)
    np.testing.assert_allclose(solve(p.source, p.target, 7 * p.information).T_target_source, T, atol=1e-8)


def test_the_information_is_the_inverse_covariance_of_the_pose():
    """Over many draws of the noise, the pose error is as large as the information predicts: its mean NEES is 6."""
    rng = np.random.default_rng(3)
    squares = []
    for _ in range(400):
        p = random_problem(rng, 40, condition=100.0)
        pose = solve(p.source, p.target, p.information)
        error = se3.log(se3.inverse(p.T_target_source) @ pose.T_target_source)
        squares.append(error @ pose.information @ error)
    assert np.mean(squares) == pytest.approx(6.0, rel=0.12)
