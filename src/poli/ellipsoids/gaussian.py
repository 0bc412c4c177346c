"""Ellipsoids as densities: likelihoods, distances and samples, row by row. Covariances are factored, never inverted."""

from __future__ import annotations

from typing import Literal

import numpy as np

from poli.ellipsoids.field import Field, check_length
from poli.ellipsoids.symmetric3 import cholesky3, eigh3
from poli.errors import DegenerateError, InputError
from poli.options import real_array, real_number, whole_number

# Ratio of variances: a thickness of one micrometer over one meter. It is compared with the smallest eigenvalue from Jacobi
# rotations, whose error is 2e-16 of the largest, 5,000 times less. Networks keep their ellipsoids above 1e-8, 10,000 times more.
# Covariances rounded to float32 have errors of 1e-7, and their singularity cannot be detected.
_SINGULAR = 1e-12
_FARTHEST = 1e300  # squared standard deviations: larger distances, and those that overflow float64, are reported as this
_MOST_DEVIATIONS = 1e100  # limit of the radius that samples are drawn within


class Densities(Field):
    """The part of `Ellipsoids` about densities."""

    def mahalanobis(self, points: np.ndarray) -> np.ndarray:  # (N, 3) -> (N,) or (N, k, 3) -> (N, k)
        """Distance of points to their ellipsoids in standard deviations, row by row."""
        return np.sqrt(mahalanobis_squared(self.means, self.covariances, self._beside(points)))

    def log_likelihood(self, points: np.ndarray) -> np.ndarray:  # (N, 3) -> (N,) or (N, k, 3) -> (N, k)
        """log N(point; mean, covariance), row by row."""
        return log_likelihood(self.means, self.covariances, self._beside(points))

    def sample(
        self,
        per_point: int,
        max_sigma: float = 1.0,
        mode: Literal["uniform", "scaled"] = "uniform",
        seed: int | np.random.Generator = 0,
    ) -> np.ndarray:  # (N * per_point, 3)
        """Draw exactly `per_point` samples from each ellipsoid; those of ellipsoid i start at row i * per_point.

        `uniform` fills the ellipsoid of radius `max_sigma` standard deviations uniformly; `scaled` draws from
        N(mean, max_sigma^2 covariance).
        """
        per_point = whole_number(per_point, "per_point", least=0)
        max_sigma = real_number(max_sigma, "max_sigma", "a number of standard deviations of at least 0")
        if max_sigma > _MOST_DEVIATIONS:
            raise InputError(f"max_sigma is {max_sigma:.3g}; expected at most {_MOST_DEVIATIONS:g} standard deviations")
        if mode not in ("uniform", "scaled"):
            raise InputError(f"mode is {mode!r}; expected 'uniform' or 'scaled'")
        generator, count = np.random.default_rng(seed), len(self) * per_point
        unit = generator.standard_normal((count, 3))
        if mode == "uniform":  # a uniform direction at a radius whose cube is uniform
            length = np.sqrt(np.einsum("ij,ij->i", unit, unit))
            unit *= (np.cbrt(generator.random(count)) / np.maximum(length, np.finfo(float).tiny))[:, None]
        factors = max_sigma * cholesky3(self.covariances)
        return (unit.reshape(len(self), per_point, 3) @ np.swapaxes(factors, 1, 2) + self.means[:, None, :]).reshape(-1, 3)

    def _beside(self, points: np.ndarray) -> np.ndarray:
        points = real_array(points, "points")
        if points.ndim not in (2, 3) or points.shape[0] != len(self) or points.shape[-1] != 3:
            raise InputError(f"points have shape {points.shape}; expected ({len(self)}, 3) or ({len(self)}, k, 3)")
        check_length(points, "points")
        return points


def mahalanobis_squared(means: np.ndarray, covariances: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(x - mu)' C^-1 (x - mu); points (N, 3) or (N, k, 3)."""
    return _squared(means, _regular_cholesky(covariances), points)


def log_likelihood(means: np.ndarray, covariances: np.ndarray, points: np.ndarray) -> np.ndarray:
    """log N(x; mu, C), with log|C| = 2 sum log L_kk; points (N, 3) or (N, k, 3)."""
    factors = _regular_cholesky(covariances)
    half_log_det = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1).reshape(-1, *(1,) * (points.ndim - 2))
    return -0.5 * _squared(means, factors, points) - half_log_det - 1.5 * np.log(2 * np.pi)


def _regular_cholesky(covariances: np.ndarray) -> np.ndarray:  # (N, 3, 3) -> (N, 3, 3)
    """Return Cholesky factors, or raise an error that names the first singular covariance."""
    values = eigh3(covariances)[0]  # the last pivot of a factor is unreliable: rounding decides its sign
    singular = values[:, 0] <= _SINGULAR * values[:, 2]
    if singular.any():
        raise DegenerateError(
            f"{int(singular.sum())} of {len(values)} covariances are singular, the first is row {int(singular.argmax())}; "
            "a density needs volume; add a floor with .with_floor(sigma)"
        )
    return cholesky3(covariances)


def _whiten(factors: np.ndarray, vectors: np.ndarray) -> np.ndarray:  # (N, 3, 3), (N, ..., 3) -> (N, ..., 3)
    """Return L^-1 v by forward substitution."""
    L = factors.reshape(factors.shape[0], *(1,) * (vectors.ndim - 2), 3, 3)
    x = vectors[..., 0] / L[..., 0, 0]
    y = (vectors[..., 1] - L[..., 1, 0] * x) / L[..., 1, 1]
    z = (vectors[..., 2] - L[..., 2, 0] * x - L[..., 2, 1] * y) / L[..., 2, 2]
    return np.stack([x, y, z], axis=-1)


def _squared(means: np.ndarray, factors: np.ndarray, points: np.ndarray) -> np.ndarray:  # (N, 3), (N, 3, 3), (N, ..., 3)
    with np.errstate(over="ignore", invalid="ignore"):
        squared = (_whiten(factors, points - means.reshape(len(means), *(1,) * (points.ndim - 2), 3)) ** 2).sum(axis=-1)
    return np.minimum(np.nan_to_num(squared, nan=_FARTHEST, posinf=_FARTHEST), _FARTHEST)
