"""Scans, and their reduction to one point per voxel."""

import numpy as np
import pytest

from oracles import random_pose
from poli import Scan
from poli.errors import InputError
from poli.scan import Dropped, points_of
from poli.voxels import voxel_downsample


def test_fields_follow_the_points(rng):
    scan = Scan(rng.standard_normal((5, 3)), {"ring": np.arange(5), "normal": rng.standard_normal((5, 3))}, stamp=17)
    some = scan.select(scan.fields["ring"] > 2)
    assert len(some) == 2
    np.testing.assert_array_equal(some.fields["ring"], [3, 4])
    assert some.fields["normal"].shape == (2, 3)
    assert some.stamp == 17
    assert list(scan.keep("ring").fields) == ["ring"]


def test_clean_drops_and_counts():
    points = np.array([[1, 2, 3], [0, 0, 0], [np.nan, 1, 1], [1, np.inf, 1], [0, 0, 1]], np.float32)
    clean = Scan(points, {"intensity": np.arange(5.0)}).clean()
    assert clean.dropped == Dropped(nonfinite=2, zero=1)
    np.testing.assert_array_equal(clean.fields["intensity"], [0, 4])
    assert clean.clean() is clean
    assert "3 dropped" in repr(clean)


def test_precision_is_kept(rng):
    assert Scan(np.zeros((1, 3), np.float32)).points.dtype == np.float32
    assert Scan(np.zeros((1, 3), np.int32)).points.dtype == np.float64
    far = np.array([[500_000.123, 4_000_000.456, 100.0]])
    np.testing.assert_array_equal(Scan(far).points, far)


def test_moving_far_away_keeps_millimeters(rng):
    points, T = rng.standard_normal((4, 3)).astype(np.float32), random_pose(rng)
    near = Scan(points).transform(T).points
    assert near.dtype == np.float32
    np.testing.assert_allclose(near, np.asarray(Scan(points)) @ T[:3, :3].T + T[:3, 3], atol=1e-5)
    T = np.eye(4)
    T[:3, 3] = [5e5, 4e6, 0.0]
    moved = Scan(points).transform(T).points
    np.testing.assert_allclose(moved - T[:3, 3], points, atol=1e-6)


@pytest.mark.parametrize(
    ("points", "fields", "says"),
    [
        (np.zeros((3, 2)), {}, r"shape \(3, 2\)"),
        (np.array([["a", "b", "c"]]), {}, "type"),
        (np.zeros((3, 3)), {"ring": np.zeros(2)}, "field 'ring'"),
        (np.zeros((3, 3)), {"x": np.zeros(3)}, "cannot be called 'x'"),
        (np.zeros((3, 3)), {"name": np.array(["a", "b", "c"])}, "field 'name'"),
    ],
)
def test_bad_scans_are_named(points, fields, says):
    with pytest.raises(InputError, match=says):
        Scan(points, fields)


def test_points_of_names_the_first_bad_row():
    points = np.ones((5, 3))
    points[3, 1] = np.nan
    with pytest.raises(InputError, match="1 of 5 rows are not finite, the first is row 3"):
        points_of(points)


def test_means_with_the_fields_of_the_nearest_return():
    points = np.array([[0.1, 0.1, 0.1], [0.2, 0.1, 0.1], [0.9, 0.1, 0.1], [1.5, 0.0, 0.0]])
    thin = voxel_downsample(Scan(points, {"ring": np.array([1, 2, 3, 4])}), 1.0)
    np.testing.assert_allclose(thin.points, [[0.4, 0.1, 0.1], [1.5, 0.0, 0.0]])
    np.testing.assert_array_equal(thin.fields["ring"], [2, 4])


def test_first_keeps_returns_unchanged():
    points = np.array([[1.5, 0.0, 0.0], [0.9, 0.1, 0.1], [0.1, 0.1, 0.1]])
    np.testing.assert_array_equal(voxel_downsample(points, 1.0, "first").points, points[:2])


def test_every_voxel_has_one_point_and_every_point_is_close_to_it(rng):
    points = rng.uniform(-20, 20, (5000, 3)).astype(np.float32)
    thin = voxel_downsample(points, 2.5).points
    cells = np.floor(points / 2.5)
    assert len(thin) == len(np.unique(cells, axis=0))
    assert thin.dtype == np.float32
    means = {tuple(c): points[(cells == c).all(axis=1)].mean(axis=0) for c in np.unique(cells, axis=0)[:50]}
    got = {tuple(c): p for c, p in zip(np.floor(thin / 2.5), thin, strict=True)}
    for cell, mean in means.items():
        np.testing.assert_allclose(got[cell], mean, atol=1e-5)


def test_bad_returns_are_dropped_and_counted():
    thin = voxel_downsample(np.array([[np.nan, 0, 0], [0.0, 0, 0], [1.0, 1.0, 1.0]]), 0.5)
    assert len(thin) == 1
    assert thin.dropped.total == 2
    assert len(voxel_downsample(np.zeros((0, 3)), 1.0)) == 0


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="size"):
        voxel_downsample(np.ones((3, 3)), 0.0)
    with pytest.raises(InputError, match="larger voxels"):
        voxel_downsample(np.array([[1.0, 1, 1], [1e6, 1, 1]]), 0.01)
    with pytest.raises(InputError, match="pick"):
        voxel_downsample(np.ones((3, 3)), 1.0, "last")  # type: ignore[arg-type]
