"""Draw points from ellipsoids."""

import numpy as np

from poli.ellipsoids.symmetric3 import cholesky3


def uniform_in_ball(generator: np.random.Generator, count: int) -> np.ndarray:  # -> (count, 3)
    """Uniform in the unit ball: a uniform direction at a radius whose cube is uniform."""
    points = generator.standard_normal((count, 3))
    length = np.sqrt(np.einsum("ij,ij->i", points, points))
    points *= (np.cbrt(generator.random(count)) / np.maximum(length, np.finfo(float).tiny))[:, None]
    return points


def draw(means: np.ndarray, covariances: np.ndarray, unit: np.ndarray, radius: float) -> np.ndarray:
    """mu + r L u for `unit` (N, k, 3), flattened to (N k, 3) with the samples of one ellipsoid together."""
    factors = radius * cholesky3(covariances)
    return (unit @ np.swapaxes(factors, 1, 2) + means[:, None, :]).reshape(-1, 3)
