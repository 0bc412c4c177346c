"""Errors of normals, samples and coverage against known surfaces."""

import numpy as np
import pytest

from benchmarks.metrics.surface import (
    angles,
    coverage,
    normal_errors,
    sample_distances,
)
from poli.ellipsoids import Ellipsoids
from poli.errors import InputError

RNG = np.random.default_rng(0)


def tilted(degrees):
    radians = np.radians(degrees)
    return np.stack([np.sin(radians), np.zeros_like(radians), np.cos(radians)], axis=1)


def up(count):
    return np.tile([0.0, 0.0, 1.0], (count, 1))


def test_angles_ignore_the_sign_and_resolve_small_values():
    degrees = np.array([0.0, 1e-7, 5.0, 89.0, 91.0, 180.0])
    np.testing.assert_allclose(angles(tilted(degrees), up(6)), [0.0, 1e-7, 5.0, 89.0, 89.0, 0.0], atol=1e-12)


def test_normal_errors():
    errors = normal_errors(tilted(np.array([0.0, 6.0, 8.0, 30.0])), up(4))
    assert errors.rmse == pytest.approx(np.sqrt((36 + 64 + 900) / 4))
    assert errors.median == pytest.approx(7.0)
    assert errors.close == 0.75
    assert errors.count == 4
    with pytest.raises(InputError, match=r"shape \(N, 3\)"):
        normal_errors(up(3), up(4))


def test_samples_of_a_slab_reflect_its_thickness():
    means = np.column_stack([RNG.uniform(-1.0, 1.0, (2_000, 2)), np.zeros(2_000)])
    field = Ellipsoids(means, np.tile(np.diag([1.0, 1.0, 0.1**2]), (2_000, 1, 1)))
    half, one = (sample_distances(field, sigma, lambda x: x[:, 2], np.random.default_rng(1)) for sigma in (0.5, 1.0))
    assert one.count == 8_000
    assert one.mean == pytest.approx(0.1 * 3 / 8, rel=0.03)  # the mean of |z| in a unit ball is 3/8
    assert half.mean == pytest.approx(one.mean / 2)
    assert half.median < one.median
    flat = sample_distances(Ellipsoids(means, np.tile(np.diag([1.0, 1.0, 0.0]), (2_000, 1, 1))), 1.0, lambda x: x[:, 2], RNG)
    assert flat.mean == pytest.approx(0.0, abs=1e-12)


def test_coverage_is_the_share_within_reach():
    surface = np.column_stack([np.linspace(0.0, 10.0, 101), np.zeros(101), np.zeros(101)])
    samples = np.array([[0.0, 0.0, 0.0], [10.0, 0.0, 0.0]])
    assert coverage(surface, samples, 1.05) == pytest.approx(22 / 101)
    assert coverage(surface, samples, 100.0) == 1.0
    assert coverage(surface, samples + [0.0, 0.0, 5.0], 1.0) == 0.0
