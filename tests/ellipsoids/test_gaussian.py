"""Densities and samples of a field, against textbook formulas."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from oracles import random_covariances, random_field, seeds
from poli import Ellipsoids
from poli.errors import DegenerateError


@given(seeds)
def test_log_likelihood_and_mahalanobis_against_scipy(seed):
    rng = np.random.default_rng(seed)
    field = random_field(rng, 5)
    points = field.means[:, None] + rng.standard_normal((5, 4, 3))
    for i in range(5):
        density = stats.multivariate_normal(field.means[i], field.covariances[i])
        np.testing.assert_allclose(field.log_likelihood(points)[i], density.logpdf(points[i]), rtol=1e-9)
        d = points[i] - field.means[i]
        squared = np.einsum("ki,ij,kj->k", d, np.linalg.inv(field.covariances[i]), d)
        np.testing.assert_allclose(field.mahalanobis(points)[i] ** 2, squared, rtol=1e-9)
    np.testing.assert_allclose(field.log_likelihood(points[:, 0]), field.log_likelihood(points)[:, 0])


def test_flat_ellipsoids_are_refused_where_a_density_is_needed():
    field = Ellipsoids(np.zeros((2, 3)), np.stack([np.eye(3), np.diag([1.0, 1.0, 0.0])]))
    with pytest.raises(DegenerateError, match="first is row 1"):
        field.log_likelihood(np.zeros((2, 3)))


def test_planes_up_to_rounding_count_as_flat(rng):
    """Whether a covariance is singular must not depend on the last bit of its entries."""
    normals = rng.standard_normal((2000, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    planes = np.eye(3) - normals[:, :, None] * normals[:, None, :]
    for i in range(0, 2000, 100):
        with pytest.raises(DegenerateError, match="100 of 100"):
            Ellipsoids(np.zeros((100, 3)), planes[i : i + 100]).log_likelihood(np.zeros((100, 3)))


@given(seeds, st.integers(1, 9), st.floats(0.1, 3.0))
def test_uniform_samples_stay_inside_and_belong_to_their_parents(seed, per_point, max_sigma):
    field = random_field(np.random.default_rng(seed))
    samples = field.sample(per_point, max_sigma, seed=seed)
    assert samples.shape == (len(field) * per_point, 3)
    assert (field.mahalanobis(samples.reshape(len(field), per_point, 3)) <= max_sigma * (1 + 1e-9)).all()


def test_uniform_samples_fill_the_ellipsoid_evenly():
    """The cube of the radius and the cosine of any angle are uniform."""
    covariance = random_covariances(np.random.default_rng(1), 1)
    field = Ellipsoids(np.array([[1.0, 2.0, 3.0]]), covariance)
    white = np.linalg.solve(np.linalg.cholesky(covariance[0]), (field.sample(20_000, max_sigma=2.0, seed=3) - field.means).T).T
    radius = np.linalg.norm(white, axis=1)
    assert stats.kstest((radius / 2.0) ** 3, "uniform").pvalue > 1e-3
    for axis in range(3):
        assert stats.kstest(0.5 + 0.5 * white[:, axis] / radius, "uniform").pvalue > 1e-3


def test_scaled_samples_have_the_scaled_covariance():
    field = Ellipsoids(np.zeros((1, 3)), random_covariances(np.random.default_rng(1), 1))
    samples = field.sample(200_000, max_sigma=0.5, mode="scaled", seed=0)
    np.testing.assert_allclose(np.cov(samples.T), 0.25 * field.covariances[0], atol=0.004)
