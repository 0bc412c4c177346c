"""Grouping: the neighbors of each point, and invariance under motion of the cloud."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import random_pose
from poli.estimation.architecture import Architecture

pytest.importorskip("torch", reason="torch is not installed: pip install 'poli[train]'")
from poli.train.network_input import group

ARCHITECTURE = Architecture()


def cloud(seed: int, count: int = 200) -> np.ndarray:
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((count, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True) * (1.0 + 0.2 * np.sin(5.0 * points[:, :1]))


def test_levels_keep_one_point_in_four_and_spread_them_evenly():
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (1600, 3)) * [1.0, 1.0, 0.0]
    centers = group(points, ARCHITECTURE).levels[1].centers
    assert len(set(centers.tolist())) == 400
    gaps = np.linalg.norm(points[:, None] - points[centers], axis=2).min(axis=1)
    assert gaps.max() < 4.0 * np.sqrt(4.0 / 400)  # spacings of the kept points


def test_interpolation_reads_the_nearest_kept_points():
    points = cloud(1, 800)
    grouping = group(points, ARCHITECTURE)
    kept = points[grouping.levels[1].centers]
    distances = np.linalg.norm(points[:, None] - kept, axis=2)
    read = np.take_along_axis(distances, grouping.interpolations[0].neighbors, axis=1).max(axis=1)
    nearest = np.sort(distances, axis=1)[:, ARCHITECTURE.interpolated - 1]
    assert (read == nearest).mean() > 0.85  # the neighbors of the leading point are not all of them


@given(st.integers(0, 10_000))
def test_offsets_are_invariant_under_motion_and_scale(seed):
    points = cloud(seed)
    T = random_pose(np.random.default_rng(seed))
    scale = 10.0 ** np.random.default_rng(seed).uniform(-3, 3)
    before = group(points, ARCHITECTURE)
    after = group(scale * (points @ T[:3, :3].T + T[:3, 3]), ARCHITECTURE)
    # Eigenvectors of nearly equal eigenvalues may rotate by more than rounding, in a few points.
    for a, b in zip(before.levels, after.levels, strict=True):
        assert np.quantile(np.abs(a.offsets - b.offsets).max(axis=(1, 2)), 0.98) < 1e-3
        np.testing.assert_array_equal(a.neighbors, b.neighbors)
    np.testing.assert_allclose(after.spacing, scale * before.spacing, rtol=1e-9)


def test_frames_are_rotations_and_groups_have_radius_one():
    grouping = group(cloud(2), ARCHITECTURE)
    for level, k in zip(grouping.levels, ARCHITECTURE.neighbors, strict=True):
        frames = level.frames.astype(float)
        np.testing.assert_allclose(frames @ np.swapaxes(frames, 1, 2), np.tile(np.eye(3), (len(frames), 1, 1)), atol=1e-5)
        np.testing.assert_allclose(np.linalg.det(frames), 1.0, atol=1e-5)
        np.testing.assert_allclose((level.offsets[:, :k].astype(float) ** 2).sum(2).mean(1), 1.0, atol=1e-5)
    for interpolation in grouping.interpolations:
        np.testing.assert_allclose(interpolation.weights.sum(axis=1), 1.0, atol=1e-6)


def test_duplicates_and_lines_are_finite():
    for points in (np.zeros((20, 3)), np.repeat(cloud(4, 10), 5, axis=0), np.outer(np.arange(40.0), [1.0, 2.0, 3.0])):
        grouping = group(points, ARCHITECTURE)
        assert all(np.isfinite(level.offsets).all() and (level.radius > 0).all() for level in grouping.levels)
