"""One point per voxel, with measured field values."""

import numpy as np
import pytest

from poli.errors import InputError
from poli.scan import Scan
from poli.voxels import voxel_downsample


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
