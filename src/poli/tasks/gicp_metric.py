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
from poli.ellipsoids.symmetric3 import thinnest
from poli.errors import InputError
from poli.kernel import kernel, over_range, readable
from poli.threads import run_chunks
from poli.validation import real_number

MetricKind = Literal["surfaces", "raw"]
SHAPE = 7  # numbers: the upper triangle of a covariance and a weight, side by side, so that a match costs one access to memory
WEIGHT = 6  # column
_FULL = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])  # columns of the entries of a covariance


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
        points = GicpPoints.empty(len(field))
        points.means[:] = field.means
        self.weigh(field.covariances, np.arange(len(field)), points)
        return points

    def weigh(self, covariances: np.ndarray, rows: np.ndarray, points: GicpPoints) -> None:  # (N, 3, 3), (k,)
        """Set shapes, normals and flatness of these rows of `points` from those of `covariances`."""
        how = (self.kind == "raw", self.thickness**2, self.trust**2)
        work = over_range(_weigh, readable(covariances), rows, *how, points.shapes, points.normals, points.flatness)
        run_chunks(work, len(rows), 1024)


@dataclass(frozen=True, eq=False)
class GicpPoints:
    """Points with the covariances and weights that GICP uses."""

    means: np.ndarray  # (N, 3)
    shapes: np.ndarray  # (N, SHAPE)
    normals: np.ndarray  # (N, 3)
    flatness: np.ndarray  # (N,) from 0, where the normal is undetermined, to 1

    @classmethod
    def empty(cls, count: int) -> GicpPoints:
        return cls(np.empty((count, 3)), np.empty((count, SHAPE)), np.empty((count, 3)), np.empty(count))

    def __len__(self) -> int:
        return len(self.means)

    def first(self, count: int) -> GicpPoints:
        """A view of the first rows."""
        return GicpPoints(self.means[:count], self.shapes[:count], self.normals[:count], self.flatness[:count])

    @property
    def weights(self) -> np.ndarray:  # (N,)
        return self.shapes[:, WEIGHT]

    @property
    def covariances(self) -> np.ndarray:  # (N, 3, 3)
        return self.shapes[:, _FULL]


@kernel
def _weigh(covariances, rows, raw, thickness2, trust2, begin, end, shapes, normals, flatness):
    """Planes I - (1 - thickness^2) n n', or covariances plus thickness^2; weights; and how well each normal is determined."""
    for k in range(begin, end):
        i = rows[k]
        C, shape = covariances[i], shapes[i]
        thin, middle, x, y, z = thinnest(C[0, 0], C[0, 1], C[0, 2], C[1, 1], C[1, 2], C[2, 2])
        thin = max(thin, 0.0)
        normals[i, 0], normals[i, 1], normals[i, 2] = x, y, z
        flatness[i] = 1.0 - thin / max(middle, 1e-12)
        if raw:
            shape[0], shape[3], shape[5] = C[0, 0] + thickness2, C[1, 1] + thickness2, C[2, 2] + thickness2
            shape[1], shape[2], shape[4], shape[6] = C[0, 1], C[0, 2], C[1, 2], 1.0
        else:
            s = 1.0 - thickness2
            shape[0], shape[3], shape[5] = 1.0 - s * x * x, 1.0 - s * y * y, 1.0 - s * z * z
            shape[1], shape[2], shape[4], shape[6] = -s * x * y, -s * x * z, -s * y * z, trust2 / (trust2 + thin)
