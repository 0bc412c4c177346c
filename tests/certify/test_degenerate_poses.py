"""Problems that leave the pose undetermined are refused despite rounding; nearly degenerate ones get the right pose, or none."""

import numpy as np
import pytest

from benchmarks.data.degenerate_problems import DEGENERATE, nudged, sound
from benchmarks.experiments.certificate import verdict
from oracles import random_pose
from poli.certify import PosePrior, solve
from poli.errors import DegenerateError, InputError


@pytest.mark.parametrize("kind", DEGENERATE)
def test_degenerate_problems_are_refused(kind):
    rng = np.random.default_rng(1)
    for _ in range(25):
        with pytest.raises(DegenerateError, match=r"undetermined|singular|collinear|directions in total"):
            solve(*DEGENERATE[kind](rng))


def test_many_matches_do_not_hide_a_free_direction():
    """Rounding errors of long sums accumulate."""
    rng = np.random.default_rng(0)
    cloud = rng.standard_normal((100_000, 3))
    cloud = np.linalg.qr(cloud - cloud.mean(axis=0))[0]
    with pytest.raises(DegenerateError, match="rotation about"):
        solve(cloud, -cloud, np.tile(np.eye(3), (len(cloud), 1, 1)))


@pytest.mark.parametrize("kind", DEGENERATE)
def test_poses_accepted_near_a_degenerate_problem_are_right(kind):
    rng = np.random.default_rng(2)
    for by in (1e-12, 1e-10, 1e-8, 1e-5, 1e-3, 1e-1):
        _, _, wrong, certified_wrong = verdict(rng, nudged(rng, DEGENERATE[kind](rng), by))
        assert not wrong
        assert not certified_wrong


def test_well_posed_problems_are_accepted_and_certified():
    rng = np.random.default_rng(3)
    poses = [solve(*sound(rng)) for _ in range(300)]
    assert sum(pose.certified for pose in poses) >= 297
    for pose in poses:
        assert np.linalg.eigvalsh(pose.gauss_newton)[0] > 0
        assert np.linalg.matrix_rank(pose.frame.tangent()) == 6


def test_a_prior_determines_what_the_matches_leave_open():
    rng = np.random.default_rng(4)
    prior = PosePrior.isotropic(np.eye(4), 0.1, 0.1)
    for kind in ("regular solids, mirrored", "targets in one place", "corridor, point to plane", "collinear source"):
        source, target, weights = DEGENERATE[kind](rng)
        size = np.linalg.norm(source - source.mean(axis=0))
        scale = np.einsum("nii->", weights)
        pose = solve(source / size, target / size, weights / scale, prior)
        assert np.linalg.eigvalsh(pose.hessian)[0] > 0


def test_the_information_has_no_rank_that_the_data_lacks():
    """Near a continuum of poses the linearized problem looks sharp although the cost is nearly flat."""
    octahedron = np.vstack([np.eye(3), -np.eye(3)])
    rng = np.random.default_rng(5)
    eyes = np.tile(np.eye(3), (6, 1, 1))
    pose = solve(octahedron, -octahedron + 1e-4 * rng.standard_normal((6, 3)), eyes)
    weakest = np.linalg.eigvalsh(pose.hessian)[0]
    assert weakest < 1e-3
    assert np.linalg.eigvalsh(pose.gauss_newton)[0] > 1.0
    assert np.linalg.eigvalsh(pose.information)[0] < 4 * weakest


def line(count: int) -> np.ndarray:
    return np.outer(np.arange(count), [1.0, 2.0, 3.0])


EYES = np.tile(np.eye(3), (5, 1, 1))
CLOUD = np.random.default_rng(0).standard_normal((5, 3))


@pytest.mark.parametrize(
    ("source", "target", "information", "kind", "says"),
    [
        (CLOUD[:2], CLOUD[:2], EYES[:2], DegenerateError, "2 matches with weight; at least 3"),
        (line(5), CLOUD, EYES, DegenerateError, "5 source points are collinear"),
        (CLOUD, CLOUD, 0 * EYES, DegenerateError, "0 matches with weight"),
        (CLOUD, CLOUD, EYES * np.diag([1.0, 1, 0]), DegenerateError, r"sum of the weights is singular.*\(.*1.00\)"),
        (CLOUD, np.where(np.eye(5, 3) > 0, np.nan, CLOUD), EYES, InputError, "target: row 0 is not finite"),
        (CLOUD, CLOUD, EYES * np.array([[1, 9, 1], [1, 1, 1], [1, 1, 1.0]]) + np.eye(3, k=1), InputError, "row 0 is not symmetric"),
        (CLOUD, CLOUD, EYES * np.diag([1.0, 1, -1]), InputError, "row 0 is not positive semidefinite"),
        (CLOUD[:4], CLOUD, EYES, InputError, r"source \(4, 3\), target \(5, 3\)"),
    ],
)
def test_degenerate_and_bad_input_is_named(source, target, information, kind, says):
    with pytest.raises(kind, match=says):
        solve(source, target, information)


@pytest.mark.parametrize("value", [1e308, 1e160, 1e-200])
def test_sizes_that_overflow_are_refused(value):
    with pytest.raises(InputError, match="choose other units"):
        solve(CLOUD, CLOUD, value * EYES)
    if value > 1:
        with pytest.raises(InputError, match="choose other units"):
            solve(np.full((5, 3), value), CLOUD, EYES)


@pytest.mark.parametrize("covariance", [np.eye(5), -np.eye(6), np.full((6, 6), np.nan)])
def test_bad_priors_are_named(covariance):
    with pytest.raises(InputError, match="prior's covariance"):
        solve(CLOUD, CLOUD, EYES, PosePrior(np.eye(4), covariance))
    with pytest.raises(InputError, match="prior's T_target_source"):
        solve(CLOUD, CLOUD, EYES, PosePrior(2 * np.eye(4), np.eye(6)))


# --- and inputs that it must not refuse


def test_units_that_differ_by_many_powers_of_ten(rng):
    """A prior alone, in any units; ground that constrains one direction far better than GNSS the others; one anchor."""
    for rotation, translation in [(1e-3, 100.0), (1e-3, 1e3), (1e-4, 100.0), (1.0, 1e-6)]:
        pose = solve(CLOUD[:0], CLOUD[:0], EYES[:0], PosePrior.isotropic(random_pose(rng), rotation, translation))
        assert pose.certified
    ground = rng.uniform(-50, 50, (2000, 3)) * [1, 1, 0]
    tilt = random_pose(rng)
    normal = tilt[:3, 2]
    target = ground @ tilt[:3, :3].T + tilt[:3, 3]
    weights = np.tile(np.outer(normal, normal) / 0.001**2, (2000, 1, 1))
    pose = solve(ground, target, weights, PosePrior.isotropic(tilt, np.deg2rad(1.0), 3.0))
    np.testing.assert_allclose(pose.T_target_source, tilt, atol=1e-4)  # of a prior of three meters
    anchored = np.tile(np.eye(3), (5, 1, 1)) * np.array([1e10, 1, 1, 1, 1])[:, None, None]
    np.testing.assert_allclose(solve(CLOUD, CLOUD, anchored).T_target_source, np.eye(4), atol=1e-6)
