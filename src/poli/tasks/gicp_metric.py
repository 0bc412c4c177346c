"""How ellipsoids enter GICP: what becomes of a covariance before it weighs a match.

A learned covariance says where the matched point of another scan will lie, and it is right about that: matched points differ by
N(0, 2 C). Yet used as it is, it is a poor weight. Along a surface the nearest point of another scan is near wherever the scan was
taken: that part of the residual is small because the nearest point was chosen, not because the pose is right, and a weight that
believes it holds the pose back. Only what lies across a surface tells of the pose. So a point becomes a plane: its direction is
the ellipsoid's, its variance across is one for all, along it is a meter (GICP's regularization, with POLI's directions). What
the network says of the size is kept as trust: a point whose ellipsoid is thick, in a bush or at an edge, counts for less.
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
    """`surfaces`: variances (thickness^2, 1, 1) along the ellipsoid's axes, weight trust^2 / (trust^2 + its least variance).
    `raw`: the covariance as it is, thickened by `thickness`, weight one; the paper's way."""

    kind: MetricKind = "surfaces"
    thickness: float = 0.01  # meters: one sigma across a surface, sensor noise included; no covariance is thinner
    trust: float = 0.15  # meters: ellipsoids as thick as this count half

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
    """Points as GICP takes them."""

    means: np.ndarray  # (N, 3)
    covariances: np.ndarray  # (N, 3, 3)
    weights: np.ndarray  # (N,)
    normals: np.ndarray  # (N, 3)
    flatness: np.ndarray  # (N,) from 0, where the thinnest axis might as well be another, to 1

    def __len__(self) -> int:
        return len(self.means)
