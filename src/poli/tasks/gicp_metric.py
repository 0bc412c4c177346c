"""Convert ellipsoids to the covariances and weights that GICP uses.

A learned covariance predicts where the matched point of another scan is, and the prediction is right: matched points differ by
N(0, 2 C). Used directly, it is still a poor weight. Along a surface, the residual is small because the nearest point was chosen,
not because the pose is right, and weighting it holds the pose back. Only the residual across the surface carries information about
the pose. Each point therefore becomes a plane with the ellipsoid's normal, the same variance across for all points, and a standard
deviation of 1 m along it (GICP's regularization with POLI's directions). The size of the ellipsoid enters as a weight: points with
thick ellipsoids, in a bush or at an edge, count less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.ellipsoids.symmetric3 import eigh3
from poli.errors import InputError
from poli.validation import real_number

MetricKind = Literal["surfaces", "raw"]


@dataclass(frozen=True)
class Metric:
    """How ellipsoids become weights of matches.

    `surfaces`: variances (thickness^2, 1, 1) along the ellipsoid's axes, weight trust^2 / (trust^2 + smallest variance).
    `raw`: the covariance plus thickness^2, weight 1, as in the paper.
    """

    kind: MetricKind = "surfaces"
    thickness: float = 0.01  # meters: one sigma across a surface, including sensor noise; no covariance is thinner
    trust: float = 0.15  # meters: ellipsoids this thick have weight 0.5

    def __post_init__(self) -> None:
        if self.kind not in get_args(MetricKind):
            raise InputError(f"metric: kind is {self.kind!r}; expected one of {', '.join(get_args(MetricKind))}")
        real_number(self.thickness, "metric: thickness", "a positive number of meters", above=True)
        real_number(self.trust, "metric: trust", "a positive number of meters", above=True)

    def __call__(self, field: Ellipsoids) -> GicpPoints:
        return self.weigh(field.means, field.covariances)

    def weigh(self, means: np.ndarray, covariances: np.ndarray) -> GicpPoints:  # (N, 3), (N, 3, 3)
        variances, axes = eigh3(covariances)
        normals = np.ascontiguousarray(axes[:, :, 0])
        thin = np.maximum(variances[:, 0], 0.0)
        flatness = 1.0 - thin / np.maximum(variances[:, 1], 1e-12)
        if self.kind == "raw":
            return GicpPoints(means, covariances + self.thickness**2 * np.eye(3), np.ones(len(means)), normals, flatness)
        flat = np.eye(3) - (1.0 - self.thickness**2) * normals[:, :, None] * normals[:, None, :]
        return GicpPoints(means, flat, self.trust**2 / (self.trust**2 + thin), normals, flatness)


@dataclass(frozen=True, eq=False)
class GicpPoints:
    """Points with the covariances and weights that GICP uses."""

    means: np.ndarray  # (N, 3)
    covariances: np.ndarray  # (N, 3, 3)
    weights: np.ndarray  # (N,)
    normals: np.ndarray  # (N, 3)
    flatness: np.ndarray  # (N,) from 0, where the normal is undetermined, to 1

    def __len__(self) -> int:
        return len(self.means)
