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
from poli.kernel import kernel, over_range
from poli.threads import run_chunks
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
        normals, flat = np.empty((len(means), 3)), np.empty((len(means), 3, 3))
        weights, flatness = np.empty(len(means)), np.empty(len(means))
        work = over_range(_surfaces, variances, axes, self.thickness**2, self.trust**2, normals, flat, weights, flatness)
        run_chunks(work, len(means), 2048)
        if self.kind == "raw":
            return GicpPoints(means, covariances + self.thickness**2 * np.eye(3), np.ones(len(means)), normals, flatness)
        return GicpPoints(means, flat, weights, normals, flatness)


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


@kernel
def _surfaces(variances, axes, thickness2, trust2, begin, end, normals, flat, weights, flatness):
    """Planes I - (1 - thickness^2) n n', their weights, and how well each normal is determined."""
    for i in range(begin, end):
        thin = max(variances[i, 0], 0.0)
        weights[i] = trust2 / (trust2 + thin)
        flatness[i] = 1.0 - thin / max(variances[i, 1], 1e-12)
        for a in range(3):
            normals[i, a] = axes[i, a, 0]
            for b in range(3):
                flat[i, a, b] = (1.0 if a == b else 0.0) - (1.0 - thickness2) * axes[i, a, 0] * axes[i, b, 0]
