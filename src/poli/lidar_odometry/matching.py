"""What GICP aligns: ellipsoids as points with covariances and weights, and the match of each in the target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.kdtree.growing import GrowingTree
from poli.kernel import over_range, readable
from poli.lidar_odometry import gicp_kernel
from poli.lidar_odometry.deskewing import MOTION, Sweep
from poli.lidar_odometry.tuned import SAME_MATCH
from poli.options import check, option
from poli.threads import run_chunks

_FULL = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])  # columns of the entries of a covariance
_UPPER = np.triu_indices(6)
_NOTHING, _AT_REST = np.empty(0), np.zeros(MOTION)


@dataclass(frozen=True)
class Metric:
    """How ellipsoids become covariances and weights of matches. For another metric, add a kind here and in `gicp_kernel.weigh`.

    `surfaces`: variances (thickness^2, 1, 1) along the ellipsoid's axes, weight trust^2 / (trust^2 + smallest variance).
    `raw`: the covariance plus thickness^2, weight 1, as in the paper.

    A learned covariance predicts where the matched point of another scan is, and the prediction is right: matched points differ by
    N(0, 2 C). Used directly, it is still a poor weight. Along a surface, the residual is small because the nearest point was
    chosen, not because the pose is right, and weighting it holds the pose back. Only the residual across the surface carries
    information about the pose. By default, each point therefore becomes a plane with the ellipsoid's normal, the same variance
    across for all points, and a standard deviation of 1 m along it (GICP's regularization with POLI's directions). The size of the
    ellipsoid enters as a weight: points with thick ellipsoids, in a bush or at an edge, count less.
    """

    kind: Literal["surfaces", "raw"] = option("surfaces", "Which covariances and weights.")
    thickness: float = option(
        0.01, "One sigma across a surface, including sensor noise; no covariance is thinner.", unit="meters", above=0.0
    )
    trust: float = option(0.15, "Ellipsoids this thick have weight 0.5.", unit="meters", above=0.0)

    def __post_init__(self) -> None:
        check(self)

    def __call__(self, field: Ellipsoids) -> WeightedPoints:
        """Return the points of a field with their covariances and weights."""
        points = WeightedPoints.empty(len(field))
        points.means[:] = field.means
        self.weigh(field.covariances, np.arange(len(field)), points)
        return points

    def weigh(self, covariances: np.ndarray, rows: np.ndarray, points: WeightedPoints) -> None:  # (N, 3, 3), (k,)
        """Set shapes, normals and flatness of these rows of `points` from those of `covariances`."""
        how = (self.kind == "raw", self.thickness**2, self.trust**2)
        work = over_range(gicp_kernel.weigh, readable(covariances), rows, *how, points.shapes, points.normals, points.flatness)
        run_chunks(work, len(rows), 1024)


@dataclass(frozen=True, eq=False)
class WeightedPoints:
    """Points with the covariances and weights that GICP uses."""

    means: np.ndarray  # (N, 3)
    shapes: np.ndarray  # (N, SHAPE)
    normals: np.ndarray  # (N, 3)
    flatness: np.ndarray  # (N,) from 0, where the normal is undetermined, to 1

    @classmethod
    def empty(cls, count: int) -> WeightedPoints:
        """Return room for `count` points."""
        return cls(np.empty((count, 3)), np.empty((count, gicp_kernel.SHAPE)), np.empty((count, 3)), np.empty(count))

    def __len__(self) -> int:
        return len(self.means)

    def first(self, count: int) -> WeightedPoints:
        """A view of the first rows."""
        return WeightedPoints(self.means[:count], self.shapes[:count], self.normals[:count], self.flatness[:count])

    @property
    def weights(self) -> np.ndarray:  # (N,)
        """How much each point counts, from 0 to 1."""
        return self.shapes[:, gicp_kernel.WEIGHT]

    @property
    def covariances(self) -> np.ndarray:  # (N, 3, 3)
        """C of each point."""
        return self.shapes[:, _FULL]


class Target:
    """A field prepared as the target of alignments."""

    def __init__(self, field: Ellipsoids | WeightedPoints, metric: Metric | None = None) -> None:
        weighed = field if isinstance(field, WeightedPoints) else (metric or Metric())(field)
        if not len(weighed):
            raise InputError("target: no ellipsoids to align to")
        self.weighed = weighed
        self.tree = GrowingTree(weighed.means)

    def update(self, weighed: WeightedPoints, changed: np.ndarray) -> None:  # (k,)
        """Replace the points by others that differ from them in the rows `changed` and may be more."""
        self.weighed = weighed
        self.tree.update(weighed.means, changed)

    def __len__(self) -> int:
        return len(self.weighed)


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """Normal equations H dx = -g for the tangent `dx` of `T Exp(dx)`."""

    H: np.ndarray  # (6, 6)
    g: np.ndarray  # (6,)
    cost: float
    weight: float  # of all matches, before the robust kernel
    matched: int

    @property
    def mean_cost(self) -> float:
        """Cost per weight: poses that match fewer points can be compared."""
        return self.cost / max(self.weight, 1e-12)


class Matching:
    """The points of an alignment, and the nearest target point of each, which is kept while it cannot have changed.

    With a `sweep`, the points are those of it, deskewed for every pose.
    """

    def __init__(self, source: WeightedPoints, target: Target, max_distance: float, sweep: Sweep | None = None) -> None:
        self._weighed, self._target, self._max_distance, self._sweep = source, target, max_distance, sweep
        self._points = np.ascontiguousarray(source.means if sweep is None else sweep.points, np.float64)
        self.slots = np.full(len(source), -1, np.int32)  # in the target's tree; -1: no match
        self.near = np.empty((len(source), 3 + gicp_kernel.SHAPE))  # mean and shape of the match: copies, adjacent in memory
        # Position at the last search, and distances to the two nearest there; -1: never searched.
        self._searched = np.full((len(source), 5), -1.0)

    @property
    def rows(self) -> np.ndarray:  # (N,)
        """The row of the target that each point is matched to; -1: none."""
        return np.where(self.slots >= 0, self._target.tree.arrays.rows[self.slots], -1)

    def source(self, T: np.ndarray) -> WeightedPoints:  # (4, 4)
        """The points at this pose: deskewed for it, if they have times."""
        return self._weighed if self._sweep is None else replace(self._weighed, means=self._sweep.means(T))

    def linearize(self, T: np.ndarray, scale: float, same: float = SAME_MATCH) -> NormalEquations:  # (4, 4)
        """Match the points at this pose and return the normal equations. Points that moved by less than `same` keep their match."""
        sweep, target = self._sweep, self._target
        times, follow, motion = (_NOTHING, _NOTHING, _AT_REST) if sweep is None else (sweep.times, sweep.follow, sweep.motion(T))
        sums = np.zeros((-(-len(self._points) // gicp_kernel.BLOCK), gicp_kernel.SUMS))
        points = (self._points, times, self._weighed.shapes, follow)
        how = (np.ascontiguousarray(T), motion, self._max_distance**2, scale**2, same)
        found = (self.slots, self.near, self._searched)
        work = over_range(gicp_kernel.linearize, target.tree.arrays, target.weighed.shapes, *points, *how, *found, sums)
        run_chunks(work, len(sums), 4)
        total = sums.sum(axis=0)
        upper = np.zeros((6, 6))
        upper[_UPPER] = total[: gicp_kernel.GRADIENT]
        g, (cost, weight, matched) = total[gicp_kernel.GRADIENT : gicp_kernel.COST].copy(), total[gicp_kernel.COST :].tolist()
        return NormalEquations(upper + np.triu(upper, 1).T, g, cost, weight, int(matched))
