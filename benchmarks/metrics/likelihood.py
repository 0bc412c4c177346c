"""How well covariances explain the matches of two scans: the likelihood of the residuals, and PCA tuned for it.

A match is a point q_i of the scan Q and its nearest neighbor p_i of the scan P under a pose: d_i = q_i - (R p_i + t). The
covariance C_i estimated at q_i implies d_i ~ N(0, 2 C_i): once for the surface at q_i and once for that at p_i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from poli.ellipsoids import gaussian
from poli.errors import InputError
from poli.estimation import pca
from poli.kdtree.tree import KDTree
from poli.options import real_array, real_number, whole_number
from poli.scan import ScanLike, points_of
from poli.se3 import check_pose

# Real matches have heavy tails (moving objects, surfaces seen by only one scan), and a few of them would dominate a pure Gaussian.
# So one match in ten is assumed to be an outlier, with a sigma of one meter.
OUTLIERS = 0.1
_OUTLIER_SIGMA = 1.0  # meters
_LEAST_GATE = 2.0  # meters
_LOG_2PI = np.log(2.0 * np.pi)

# Search range for tuning PCA: (log scale, log floor in meters). A floor at its lower bound means none: the scale alone is best.
_BOUNDS = ((np.log(1e-6), np.log(1e3)), (np.log(1e-4), np.log(1.0)))
_GRID_SCALES = np.log([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0])
_GRID_FLOORS = np.log([0.003, 0.01, 0.03, 0.1, 0.3])
_GRID_MATCHES = 20_000  # enough to choose a starting point
_STARTS = 3

# In thinned scans with small voxels, rings look like lines until k spans several of them: there the best k is in the hundreds.
NEIGHBORS = (6, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@dataclass(frozen=True, eq=False)
class Matches:
    """The matches of one pair of scans: all points of Q, the matched rows, and their residuals."""

    points: np.ndarray  # (N, 3), all points of Q
    rows: np.ndarray  # (M,), matched rows of Q
    d: np.ndarray  # (M, 3)

    @staticmethod
    def of(q: ScanLike, p: ScanLike, T_q_p: np.ndarray, gate: float) -> Matches:  # (N, 3), (K, 3), (4, 4)
        rows, d = match(q, p, T_q_p, gate)
        return Matches(points_of(q, "q"), rows, d)


@dataclass(frozen=True)
class TunedPca:
    """PCA with C = scale * C_pca(k) + floor^2 I, and its scores on the matches it was tuned on."""

    k: int
    scale: float
    floor: float  # meters
    nll: float  # nats per match, mean
    median_squared: float  # of d'(2C)^-1 d
    mean_squared: float

    def covariances(self, points: ScanLike) -> np.ndarray:  # (N, 3) -> (N, 3, 3)
        return self.scale * pca(points, k=self.k).covariances + self.floor**2 * np.eye(3)


def gate_for(voxel: float) -> float:
    """Maximum distance of a match in meters: 2 m or two voxels, whichever is larger."""
    return max(_LEAST_GATE, 2.0 * real_number(voxel, "voxel", "a positive number of meters", above=True))


def match(q: ScanLike, p: ScanLike, T_q_p: np.ndarray, gate: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of `q` (M,) with a point of `p` within `gate` meters under the pose, and their d = q - (R p + t) (M, 3)."""
    q, p, T = points_of(q, "q"), points_of(p, "p"), check_pose(T_q_p, "T_q_p")
    gate = real_number(gate, "gate", "a positive number of meters", above=True)
    moved = p @ T[:3, :3].T + T[:3, 3]
    distances, nearest = KDTree(moved).nearest(1, q)
    rows = np.flatnonzero(distances[:, 0] <= gate)
    return rows, q[rows] - moved[nearest[rows, 0]]


def nll(d: np.ndarray, covariances: np.ndarray) -> np.ndarray:  # (M, 3), (M, 3, 3) -> (M,)
    """-log(0.9 N(d; 0, 2C) + 0.1 N(d; 0, 1 m^2 I)) in nats, per match."""
    d, covariances = _checked(d, covariances)
    inlier = gaussian.log_likelihood(np.zeros_like(d), 2.0 * covariances, d)
    return -np.logaddexp(np.log(1.0 - OUTLIERS) + inlier, _log_outlier((d**2).sum(axis=1)))


def right(d: np.ndarray, covariances: np.ndarray) -> np.ndarray:  # (M, 3), (M, 3, 3) -> (M,)
    """Probability that each match is an inlier."""
    d, covariances = _checked(d, covariances)
    inlier = np.log(1.0 - OUTLIERS) + gaussian.log_likelihood(np.zeros_like(d), 2.0 * covariances, d)
    return np.exp(inlier - np.logaddexp(inlier, _log_outlier((d**2).sum(axis=1))))


def squared(d: np.ndarray, covariances: np.ndarray) -> np.ndarray:  # (M, 3), (M, 3, 3) -> (M,)
    """d'(2C)^-1 d: chi-square with 3 degrees of freedom (mean 3, median 2.37) if the residuals are Gaussian and C is correct."""
    d, covariances = _checked(d, covariances)
    return gaussian.mahalanobis_squared(np.zeros_like(d), 2.0 * covariances, d)


def tuned_pca(pairs: Sequence[Matches], ks: Sequence[int] = NEIGHBORS) -> TunedPca:
    """PCA with the k, global scale and floor that minimize the mean NLL over all matches of `pairs`."""
    if not any(len(pair.rows) for pair in pairs):
        raise InputError("tuned_pca: no matches to tune on; check that the pose is T_q_p and that the gate is wide enough")
    if not ks:
        raise InputError("tuned_pca: ks is empty; give at least one number of neighbors")
    return min((_tuned(pairs, whole_number(k, "k", least=1)) for k in ks), key=lambda tuned: tuned.nll)


def _tuned(pairs: Sequence[Matches], k: int) -> TunedPca:
    """The best scale and floor for one k. Neither rotates the axes, so in their frame everything is a sum over the axes."""
    parts = [_in_axes(pair, k) for pair in pairs]
    variances = np.concatenate([part[0] for part in parts])  # (M, 3)
    components = np.concatenate([part[1] for part in parts])  # (M, 3), squared
    found = min(
        (
            minimize(_mean_nll, start, (variances, components), "L-BFGS-B", jac=True, bounds=_BOUNDS)
            for start in _starts(variances, components)
        ),
        key=lambda result: result.fun,
    )
    scale, floor = np.exp(found.x)
    squares = (components / (2.0 * (scale * variances + floor**2))).sum(axis=1)
    return TunedPca(k, float(scale), float(floor), float(found.fun), float(np.median(squares)), float(squares.mean()))


def _in_axes(pair: Matches, k: int) -> tuple[np.ndarray, np.ndarray]:  # (M, 3), (M, 3)
    """PCA's variances at the matched points, and the squares of d along its axes."""
    field = pca(pair.points, k=k).select(pair.rows)
    return np.maximum(field.eigenvalues, 0.0), np.einsum("nij,ni->nj", field.axes, pair.d) ** 2


def _starts(variances: np.ndarray, components: np.ndarray) -> list[np.ndarray]:
    """Local minima on the grid. There can be two: thin ellipsoids that treat curved surfaces as outliers, and balls that cover
    everything."""
    few = slice(None, None, max(1, len(variances) // _GRID_MATCHES))
    grid = [[np.array((scale, floor)) for floor in _GRID_FLOORS] for scale in _GRID_SCALES]
    height = np.array([[_mean_nll(at, variances[few], components[few])[0] for at in line] for line in grid])
    around = np.pad(height, 1, constant_values=np.inf)
    low = [
        (height[i, j], i, j)
        for i in range(height.shape[0])
        for j in range(height.shape[1])
        if height[i, j] <= around[i : i + 3, j : j + 3].min()
    ]
    return [grid[i][j] for _, i, j in sorted(low)[:_STARTS]]


def _mean_nll(at: np.ndarray, variances: np.ndarray, components: np.ndarray) -> tuple[float, np.ndarray]:
    """The mean of `nll` at (log scale, log floor), and its gradient."""
    scaled, thick = np.exp(at[0]) * variances, np.exp(2.0 * at[1])
    v = 2.0 * (scaled + thick)  # (M, 3): variances of d along the axes
    inlier = np.log(1.0 - OUTLIERS) - 0.5 * (components / v + np.log(v) + _LOG_2PI).sum(axis=1)
    outlier = _log_outlier(components.sum(axis=1))
    total = np.logaddexp(inlier, outlier)
    by_v = 0.5 * np.exp(inlier - total)[:, None] * (1.0 - components / v) / v  # (M, 3)
    slopes = np.array([2.0 * (by_v * scaled).sum(), 4.0 * thick * by_v.sum()]) / len(v)
    return float(-total.mean()), slopes


def _log_outlier(squared_length: np.ndarray) -> np.ndarray:  # (M,) -> (M,)
    return np.log(OUTLIERS) - 0.5 * squared_length / _OUTLIER_SIGMA**2 - 3.0 * np.log(_OUTLIER_SIGMA) - 1.5 * _LOG_2PI


def _checked(d: np.ndarray, covariances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    d, covariances = real_array(d, "d"), real_array(covariances, "covariances")
    if d.ndim != 2 or d.shape[1] != 3 or covariances.shape != (len(d), 3, 3):
        raise InputError(
            f"d has shape {d.shape} and covariances {covariances.shape}; expected (M, 3) and (M, 3, 3): take the covariances of "
            "the matched rows, field.covariances[rows]"
        )
    return d, covariances
