"""The likelihood of matches, and PCA tuned to it."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import poli
from benchmarks.metrics.likelihood import Matches, gate_for, match, nll, squared, tuned_pca
from poli.se3 import exp


def covariances(rng, count):
    factors = rng.normal(size=(count, 3, 3)) * [0.02, 0.1, 0.3]
    return factors @ np.swapaxes(factors, 1, 2) + 1e-4 * np.eye(3)


def draw(rng, C):
    """Residuals distributed as the covariances say: N(0, 2C)."""
    return (np.linalg.cholesky(2.0 * C) @ rng.normal(size=(len(C), 3, 1)))[:, :, 0]


def rough_plane(rng, count=600):
    points = rng.uniform(-5.0, 5.0, (count, 3))
    points[:, 2] = 0.05 * rng.normal(size=count)
    return points


def test_nll_is_that_of_the_mixture():
    rng = np.random.default_rng(0)
    C, d = covariances(rng, 20), 0.3 * rng.normal(size=(20, 3))
    inlier = [multivariate_normal(cov=2.0 * c).pdf(x) for c, x in zip(C, d, strict=True)]
    expected = -np.log(0.9 * np.array(inlier) + 0.1 * multivariate_normal(cov=np.eye(3)).pdf(d))
    np.testing.assert_allclose(nll(d, C), expected, rtol=1e-9)


def test_matches_are_nearest_points_under_the_pose_within_the_gate():
    rng = np.random.default_rng(3)
    q, p = rng.uniform(-5.0, 5.0, (200, 3)), rng.uniform(-5.0, 5.0, (150, 3))
    T = exp(np.array([0.1, -0.2, 0.3, 0.5, 0.1, -0.4]))
    offsets = q[:, None] - (p @ T[:3, :3].T + T[:3, 3])
    distances = np.linalg.norm(offsets, axis=2)
    rows, d = match(q, p, T, gate=0.8)
    np.testing.assert_array_equal(rows, np.flatnonzero(distances.min(axis=1) <= 0.8))
    assert 0 < len(rows) < len(q)
    np.testing.assert_allclose(d, offsets[rows, distances[rows].argmin(axis=1)], atol=1e-12)
    assert gate_for(0.5) == 2.0
    assert gate_for(1.5) == 3.0


def test_tuned_pca_recovers_neighbors_scale_and_floor():
    rng = np.random.default_rng(4)
    pairs = []
    for _ in range(4):
        points = rough_plane(rng, 2_000)
        d = draw(rng, 0.2 * poli.pca(points, k=10).covariances + 0.03**2 * np.eye(3))
        outliers = rng.choice(len(d), len(d) // 10, replace=False)
        d[outliers] = rng.normal(size=(len(outliers), 3))
        pairs.append(Matches(points, np.arange(len(points)), d))
    tuned = tuned_pca(pairs, ks=(6, 10, 24))
    assert tuned.k == 10
    assert tuned.scale == pytest.approx(0.2, rel=0.1)
    assert tuned.floor == pytest.approx(0.03, rel=0.1)
    C = np.concatenate([tuned.covariances(pair.points)[pair.rows] for pair in pairs])
    d = np.concatenate([pair.d for pair in pairs])
    assert tuned.nll == pytest.approx(nll(d, C).mean())
    assert tuned.median_squared == pytest.approx(np.median(squared(d, C)))
    assert tuned.mean_squared == pytest.approx(squared(d, C).mean())
