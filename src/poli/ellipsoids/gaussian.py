"""Ellipsoids as densities: likelihoods, distances, fusion and samples, row by row. Covariances are factored, never inverted."""

from __future__ import annotations

from typing import Literal, Self

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

    def kl(self, other: Field) -> np.ndarray:  # (N,)
        """Kullback-Leibler divergence KL(self || other) in nats, row by row."""
        self._check_pair(other)
        mine, its = _regular_cholesky(self.covariances), _regular_cholesky(other.covariances)
        with np.errstate(over="ignore", invalid="ignore"):
            ratio = _whiten(its, np.swapaxes(mine, 1, 2))  # rows are the other's L^-1 applied to the columns of this L
            trace = _bounded((ratio**2).sum(axis=(1, 2)))
            squared = _bounded((_whiten(its, other.means - self.means) ** 2).sum(axis=-1))
        half_log = np.log(np.diagonal(its, axis1=1, axis2=2) / np.diagonal(mine, axis1=1, axis2=2)).sum(axis=1)
        return np.maximum(0.5 * (trace - 3.0 + squared) + half_log, 0.0)

    def wasserstein(self, other: Field) -> np.ndarray:  # (N,)
        """2-Wasserstein distance in meters, row by row; flat ellipsoids are fine."""
        self._check_pair(other)
        # Scale by the largest number of each pair: in some units squares of variances overflow float64.
        variance = np.maximum(np.abs(self.covariances).max(axis=(1, 2)), np.abs(other.covariances).max(axis=(1, 2)))
        unit = np.maximum(np.abs(self.means - other.means).max(axis=1), np.sqrt(variance))
        unit = np.where(unit > 0.0, unit, 1.0)
        step, wide = (self.means - other.means) / unit[:, None], unit[:, None, None]
        A, B = (field.covariances / wide / wide for field in (self, other))
        factor = cholesky3(A)
        # (A^1/2 B A^1/2)^1/2 has the trace of (L' B L)^1/2, since the two products share their eigenvalues.
        cross = np.sqrt(np.maximum(eigh3(np.swapaxes(factor, 1, 2) @ B @ factor)[0], 0.0)).sum(axis=1)
        bures = np.trace(A, axis1=1, axis2=2) + np.trace(B, axis1=1, axis2=2) - 2.0 * cross
        return unit * np.sqrt((step**2).sum(axis=1) + np.maximum(bures, 0.0))

    def riemannian(self, other: Field) -> np.ndarray:  # (N,)
        """Affine-invariant Riemannian distance |log(A^-1/2 B A^-1/2)| of the covariances, row by row; the means are ignored."""
        self._check_pair(other)
        mine, its = _regular_cholesky(self.covariances), _regular_cholesky(other.covariances)
        ratio = _whiten(mine, np.swapaxes(its, 1, 2))  # rows: this L^-1 on columns of the other's
        size = np.abs(ratio).max(axis=(1, 2), keepdims=True)
        values = eigh3(np.swapaxes(ratio / size, 1, 2) @ (ratio / size))[0]
        logarithms = np.log(np.maximum(values, np.finfo(float).tiny)) + 2.0 * np.log(size[:, :, 0])
        return np.sqrt((logarithms**2).sum(axis=1))

    def fuse(self, other: Field) -> Self:
        """Fuse two fields row by row: the product of the densities, C^-1 = A^-1 + B^-1 and C^-1 mu = A^-1 a + B^-1 b.

        Computed as C = A (A + B)^-1 B, which only needs the sum to be regular: a flat ellipsoid stays exactly flat.
        """
        self._check_pair(other)
        total = self.covariances + other.covariances
        _regular_cholesky(total)
        size = np.abs(total).max(axis=(1, 2), keepdims=True)  # positive, since the sum is regular
        gain = np.swapaxes(np.linalg.solve(total / size, self.covariances / size), 1, 2)  # A (A + B)^-1
        mean = self.means + (gain @ (other.means - self.means)[..., None])[..., 0]
        covariance = gain @ other.covariances
        return self.trusted(mean, 0.5 * (covariance + np.swapaxes(covariance, 1, 2)), self.viewpoint)

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

    def _check_pair(self, other: Field) -> None:
        if len(other) != len(self):
            raise InputError(f"fields have {len(self)} and {len(other)} ellipsoids; row-by-row operations need equal sizes")

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
        return _bounded((_whiten(factors, points - means.reshape(len(means), *(1,) * (points.ndim - 2), 3)) ** 2).sum(axis=-1))


def _bounded(squared: np.ndarray) -> np.ndarray:
    return np.minimum(np.nan_to_num(squared, nan=_FARTHEST, posinf=_FARTHEST), _FARTHEST)
