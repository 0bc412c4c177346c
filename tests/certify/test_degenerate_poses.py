"""Problems that leave the pose undetermined are refused despite rounding; nearly degenerate ones get the right pose, or none."""

import numpy as np
import pytest

from benchmarks.data.degenerate_problems import DEGENERATE, nudged, sound
from benchmarks.experiments.certificate import verdict
from poli.certify import PosePrior, solve
from poli.errors import DegenerateError


@pytest.mark.parametrize("kind", DEGENERATE)
def test_degenerate_problems_are_refused(kind):
    rng = np.random.default_rng(1)
    for _ in range(25):
        with pytest.raises(DegenerateError, match=r"undetermined|singular|collinear|directions in total"):
            solve(*DEGENERATE[kind](rng))


@pytest.mark.parametrize("size", [1e-6, 1e-3, 0.3, 1.0, 7.7, 1e6])
def test_mirrored_octahedra_of_any_size_are_refused(size):
    octahedron = size * np.vstack([np.eye(3), -np.eye(3)])
    for shift in (0.0, 1e3, 1e6):
        with pytest.raises(DegenerateError, match="rotation about"):
            solve(octahedron + shift * size, -octahedron, np.tile(np.eye(3), (6, 1, 1)))


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
