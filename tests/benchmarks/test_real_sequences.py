"""Pairs of real scans, rings of real sensors, and rows interpolated between them."""

import numpy as np
import pytest

import poli
from benchmarks.data.real_sequences import (
    RealConfiguration,
    real_pairs,
    refined_pose,
    thin_beams,
)
from benchmarks.data.rings import elevations_of, nearest_ring, ring_elevations, thin_rings
from benchmarks.rivals.range_interpolation import RangeInterpolation, interpolate
from poli.errors import InputError
from poli.io.datasets import write_kitti
from poli.se3 import exp


def room(rng, count=6_000):
    """Floor and walls, in the world's frame."""
    points = rng.uniform([-10.0, -8.0, 0.0], [10.0, 8.0, 4.0], (count, 3))
    face = rng.integers(5, size=count)
    points[face == 0, 2] = 0.0
    points[face == 1, 0], points[face == 2, 0] = -10.0, 10.0
    points[face == 3, 1], points[face == 4, 1] = -8.0, 8.0
    return points


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three scans of a room in KITTI's layout; the second scan's pose is off by 4 cm."""
    root, rng = tmp_path_factory.mktemp("real"), np.random.default_rng(6)
    scans, poses = [], []
    for i in range(3):
        T = exp(np.array([0.0, 0.0, 0.05 * i, 0.5 * i, 0.1 * i, 1.5]))
        points = (room(rng) - T[:3, 3]) @ T[:3, :3] + 0.005 * rng.normal(size=(6_000, 3))
        car = rng.uniform(-0.5, 0.5, (50, 3))
        scans.append(poli.Scan(np.concatenate([points, car]).astype(np.float32)))
        T[:3, 3] += [0.0, 0.04, 0.0] if i == 1 else 0.0
        poses.append(T)
    write_kitti(root, "room", scans, np.stack(poses))
    return root


def test_poses_are_refined_where_it_helps(folder):
    pytest.importorskip("small_gicp")
    first = refined_pose(folder, "room", 0, 1.0)
    assert first.refined
    assert first.after < first.before
    assert first.shift == pytest.approx(0.04, abs=0.01)


def test_real_pairs_are_voxelized_cropped_and_matched(folder):
    pytest.importorskip("small_gicp")
    pairs = real_pairs(folder, RealConfiguration("room", 0.5, nearest=1.0), 8)
    assert [pair.row for pair in pairs] == [0, 1]
    for pair in pairs:
        assert np.linalg.norm(pair.q, axis=1).min() > 1.0
        assert len(pair.q) < 4_000
        found = pair.matches(0.5)
        assert len(found.rows) > 0.9 * len(pair.q)
        assert np.median(np.linalg.norm(found.d, axis=1)) < 0.5


def test_beams_are_thinned_by_elevation():
    elevation = np.radians(-24.8 + 26.8 / 63 * np.arange(64))
    points = 20.0 * np.stack([np.cos(elevation), np.zeros(64), np.sin(elevation)], axis=1)
    np.testing.assert_array_equal(thin_beams(points, 16), points[::4])
    np.testing.assert_array_equal(thin_beams(points, 32), points[::2])
    assert len(thin_beams(np.array([[1.0, 0.0, 1.0]]), 16)) == 0  # above the sensor's topmost row
    with pytest.raises(InputError, match="8, 16 or 32"):
        thin_beams(points, 5)


ELEVATIONS = np.linspace(-15.0, 15.0, 16)


def rays(elevations, azimuths) -> np.ndarray:  # degrees -> (N, 3)
    up, around = (np.radians(values).ravel() for values in np.meshgrid(elevations, azimuths))
    return np.stack([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)], axis=1)


def test_interpolated_rows_lie_on_the_plane_and_between_the_rings():
    ground, wall = rays(ELEVATIONS[ELEVATIONS < -2.0], np.arange(0.0, 360.0, 0.5)), rays(ELEVATIONS, np.arange(-40.0, 40.0, 0.5))
    ground *= (-1.8 / ground[:, 2])[:, None]  # 1.8 m below the sensor
    new = interpolate(ground, ELEVATIONS)[len(ground) :]
    np.testing.assert_allclose(new[:, 2], -1.8, atol=1e-6)
    from_rings = np.abs(elevations_of(new)[:, None] - ELEVATIONS[None, :]).min(axis=1)
    np.testing.assert_allclose(from_rings.min(), 0.5, atol=0.05)  # a quarter of the step, and never on a ring
    wall *= (10.0 / wall[:, 0])[:, None]
    dense = interpolate(wall, ELEVATIONS, RangeInterpolation(rows=1))
    np.testing.assert_array_equal(dense[: len(wall)], wall)
    np.testing.assert_allclose(dense[:, 0], 10.0, atol=1e-6)
    assert len(dense) == len(wall) * (2 * len(ELEVATIONS) - 1) // len(ELEVATIONS)


@pytest.mark.parametrize(("sensor", "count"), [("hdl32e", 32), ("os1_64", 64)])
def test_thinning_keeps_every_nth_ring(sensor, count):
    every = ring_elevations(sensor)
    points = 7.0 * rays(every, np.arange(0.0, 360.0, 10.0))
    thinned = thin_rings(points, sensor, 16)
    assert len(every) == count
    assert len(thinned) == 16 * 36
    np.testing.assert_allclose(np.unique(elevations_of(thinned).round(4)), ring_elevations(sensor, 16).round(4), atol=1e-3)
    assert set(nearest_ring(thinned, ring_elevations(sensor, 16))) == set(range(16))
