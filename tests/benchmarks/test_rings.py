"""Rings of real sensors, and rows interpolated between them."""

import numpy as np
import pytest

from benchmarks.data.rings import elevations_of, nearest_ring, ring_elevations, thin_rings
from benchmarks.rivals.range_interpolation import RangeInterpolation, interpolate

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
