"""Gaussian computations, row by row over arrays. Covariances are factored, never inverted."""

from __future__ import annotations

import numpy as np

from poli.ellipsoids.symmetric3 import cholesky3, eigh3
from poli.errors import DegenerateError

# Ratio of variances: a thickness of one micrometer over one meter. It is compared with the smallest eigenvalue from Jacobi
# rotations, whose error is 2e-16 of the largest, 5,000 times less. Networks keep their ellipsoids above 1e-8, 10,000 times more.
# Covariances rounded to float32 have errors of 1e-7, and their singularity cannot be detected.
_SINGULAR = 1e-12
_FARTHEST = 1e300  # squared standard deviations: larger distances, and those that overflow float64, are reported as this


def regular_cholesky(covariances: np.ndarray) -> np.ndarray:  # (N, 3, 3) -> (N, 3, 3)
    """Return Cholesky factors, or raise an error that names the first singular covariance."""
    values = eigh3(covariances)[0]  # the last pivot of a factor is unreliable: rounding decides its sign
    singular = values[:, 0] <= _SINGULAR * values[:, 2]
    if singular.any():
        raise DegenerateError(
            f"{int(singular.sum())} of {len(values)} covariances are singular, the first is row {int(singular.argmax())}; "
            "a density needs volume; add a floor with .with_floor(sigma)"
        )
    return cholesky3(covariances)


def whiten(factors: np.ndarray, vectors: np.ndarray) -> np.ndarray:  # (N, 3, 3), (N, ..., 3) -> (N, ..., 3)
    """Return L^-1 v by forward substitution."""
    L = factors.reshape(factors.shape[0], *(1,) * (vectors.ndim - 2), 3, 3)
    x = vectors[..., 0] / L[..., 0, 0]
    y = (vectors[..., 1] - L[..., 1, 0] * x) / L[..., 1, 1]
    z = (vectors[..., 2] - L[..., 2, 0] * x - L[..., 2, 1] * y) / L[..., 2, 2]
    return np.stack([x, y, z], axis=-1)


def mahalanobis_squared(means: np.ndarray, covariances: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(x - mu)' C^-1 (x - mu); points (N, 3) or (N, k, 3)."""
    return _squared(means, regular_cholesky(covariances), points)


def log_likelihood(means: np.ndarray, covariances: np.ndarray, points: np.ndarray) -> np.ndarray:
    """log N(x; mu, C), with log|C| = 2 sum log L_kk; points (N, 3) or (N, k, 3)."""
    factors = regular_cholesky(covariances)
    half_log_det = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    return -0.5 * _squared(means, factors, points) - half_log_det.reshape(-1, *(1,) * (points.ndim - 2)) - 1.5 * np.log(2 * np.pi)


def kl_divergence(mean_a: np.ndarray, cov_a: np.ndarray, mean_b: np.ndarray, cov_b: np.ndarray) -> np.ndarray:  # -> (N,)
    """Kullback-Leibler divergence KL(a || b)."""
    factor_a, factor_b = regular_cholesky(cov_a), regular_cholesky(cov_b)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = whiten(factor_b, np.swapaxes(factor_a, 1, 2))  # rows are L_b^-1 applied to the columns of L_a
        trace = _bounded((ratio**2).sum(axis=(1, 2)))
        squared = _bounded((whiten(factor_b, mean_b - mean_a) ** 2).sum(axis=-1))
    half_log = np.log(np.diagonal(factor_b, axis1=1, axis2=2) / np.diagonal(factor_a, axis1=1, axis2=2)).sum(axis=1)
    return np.maximum(0.5 * (trace - 3.0 + squared) + half_log, 0.0)


def wasserstein(mean_a: np.ndarray, cov_a: np.ndarray, mean_b: np.ndarray, cov_b: np.ndarray) -> np.ndarray:  # -> (N,)
    """2-Wasserstein distance; singular covariances are allowed."""
    # Scale by the largest number of each pair: in some units squares of variances overflow float64.
    variance = np.maximum(np.abs(cov_a).max(axis=(1, 2)), np.abs(cov_b).max(axis=(1, 2)))
    unit = np.maximum(np.abs(mean_a - mean_b).max(axis=1), np.sqrt(variance))
    unit = np.where(unit > 0.0, unit, 1.0)
    step, cov_a, cov_b = (mean_a - mean_b) / unit[:, None], *(c / unit[:, None, None] / unit[:, None, None] for c in (cov_a, cov_b))
    factor = cholesky3(cov_a)
    # (A^1/2 B A^1/2)^1/2 has the trace of (L' B L)^1/2, since the two products share their eigenvalues.
    cross = np.sqrt(np.maximum(eigh3(np.swapaxes(factor, 1, 2) @ cov_b @ factor)[0], 0.0)).sum(axis=1)
    bures = np.trace(cov_a, axis1=1, axis2=2) + np.trace(cov_b, axis1=1, axis2=2) - 2.0 * cross
    return unit * np.sqrt((step**2).sum(axis=1) + np.maximum(bures, 0.0))


def affine_invariant(cov_a: np.ndarray, cov_b: np.ndarray) -> np.ndarray:  # -> (N,)
    """Affine-invariant Riemannian distance |log(A^-1/2 B A^-1/2)| of the covariances."""
    ratio = whiten(regular_cholesky(cov_a), np.swapaxes(regular_cholesky(cov_b), 1, 2))  # rows: L_a^-1 on columns of L_b
    size = np.abs(ratio).max(axis=(1, 2), keepdims=True)
    values = eigh3(np.swapaxes(ratio / size, 1, 2) @ (ratio / size))[0]
    logarithms = np.log(np.maximum(values, np.finfo(float).tiny)) + 2.0 * np.log(size[:, :, 0])
    return np.sqrt((logarithms**2).sum(axis=1))


def fuse(mean_a: np.ndarray, cov_a: np.ndarray, mean_b: np.ndarray, cov_b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the product of the two densities: C^-1 = A^-1 + B^-1, C^-1 mu = A^-1 a + B^-1 b.

    Computed as C = A (A + B)^-1 B, which only needs the sum to be regular: a flat ellipsoid stays exactly flat.
    """
    total = cov_a + cov_b
    regular_cholesky(total)
    size = np.abs(total).max(axis=(1, 2), keepdims=True)  # positive, since the sum is regular
    gain = np.swapaxes(np.linalg.solve(total / size, cov_a / size), 1, 2)  # A (A + B)^-1
    mean = mean_a + (gain @ (mean_b - mean_a)[..., None])[..., 0]
    covariance = gain @ cov_b
    return mean, 0.5 * (covariance + np.swapaxes(covariance, 1, 2))


def _squared(means: np.ndarray, factors: np.ndarray, points: np.ndarray) -> np.ndarray:  # (N, 3), (N, 3, 3), (N, ..., 3)
    with np.errstate(over="ignore", invalid="ignore"):
        return _bounded((whiten(factors, points - means.reshape(len(means), *(1,) * (points.ndim - 2), 3)) ** 2).sum(axis=-1))


def _bounded(squared: np.ndarray) -> np.ndarray:
    return np.minimum(np.nan_to_num(squared, nan=_FARTHEST, posinf=_FARTHEST), _FARTHEST)


# --- samples


def uniform_in_ball(generator: np.random.Generator, count: int) -> np.ndarray:  # -> (count, 3)
    """Draw uniformly in the unit ball: a uniform direction at a radius whose cube is uniform."""
    points = generator.standard_normal((count, 3))
    length = np.sqrt(np.einsum("ij,ij->i", points, points))
    points *= (np.cbrt(generator.random(count)) / np.maximum(length, np.finfo(float).tiny))[:, None]
    return points


def draw(means: np.ndarray, covariances: np.ndarray, unit: np.ndarray, radius: float) -> np.ndarray:
    """Return mu + r L u for `unit` (N, k, 3), flattened to (N k, 3) with the samples of each ellipsoid together."""
    factors = radius * cholesky3(covariances)
    return (unit @ np.swapaxes(factors, 1, 2) + means[:, None, :]).reshape(-1, 3)
