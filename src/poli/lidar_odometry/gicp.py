"""GICP on ellipsoids: estimate the pose between two fields from an initial guess, with nearest points and ellipsoids as weights.

minimize over T   sum_i  w_i rho( d_i' (C_q + R C_p R')^-1 d_i ),   d_i = q_i - (R p_i + t)

q_i is the target mean nearest to the moved p_i, the C are those of `gicp_metric`, and rho is the Cauchy kernel. Its scale starts
wide (the guess may be half a meter off) and is halved in every step until it reaches the thickness of surfaces.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.kdtree.growing import GrowingTree
from poli.kernel import kernel
from poli.lidar_odometry.degeneracy import Degeneracy, degeneracy
from poli.lidar_odometry.deskewing import Sweep
from poli.lidar_odometry.gicp_kernel import (
    SAME_MATCH,
    WEIGHT,
    Metric,
    NearestPoints,
    NormalEquations,
    Source,
    WeightedPoints,
    linearize,
)
from poli.options import check, configured, lists_options, option
from poli.se3 import check_pose
from poli.se3_kernels import advanced

_STILL_ANGLE, _STILL_SHIFT = 1e-5, 1e-4  # radians and meters; smaller steps mean convergence
_LITTLE = 1e-4  # so do steps that lower the cost by less than this share; at 1e-3, errors in simulated drives grow by 3 %
# Factor of the kernel's scale from one iteration to the next. Shrinking it faster after short steps saves one iteration in nine,
# but errors over one scan grow by 1 % on MulRan and RoboSense E1R.
_SHRINK = 0.5
_FIT = 0.1  # meters; a point within this distance across a surface lies on it
_DAMPING = 1e-6
_DAMPED_OUT = 1e3
# The residuals of neighboring matches are correlated. Compared with the true poses of simulated drives, this many
# matches count as one.
_MATCHES_PER_INDEPENDENT = 8.0


@dataclass(frozen=True)
class GicpConfig:
    """Options of the alignment of two fields."""

    metric: Metric = option(Metric(), "How ellipsoids become weights of matches.")
    max_distance: float = option(2.0, "Points farther apart are not matched.", unit="meters", above=0.0)
    robust: float = option(1.0, "Scale of the Cauchy kernel, in standard deviations.", above=0.0)
    start: float = option(0.5, "Initial scale of the kernel.", unit="meters", least=0.0)
    iterations: int = option(40, "Maximum number of iterations.", least=1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, eq=False)
class Alignment:
    T_target_source: np.ndarray  # (4, 4)
    information: np.ndarray  # (6, 6) of the tangent xi = (rotation, translation) of T Exp(xi), scaled by the observed residuals
    matched: int
    overlap: float  # share of the source with a match within `max_distance`
    fit: float  # share of the source that lies on a target surface, within 10 cm across it
    residual: float  # meters: robust standard deviation across surfaces
    iterations: int
    converged: bool
    degeneracy: Degeneracy

    @property
    def covariance(self) -> np.ndarray:  # (6, 6)
        """Covariance of the pose. It does not show unconstrained directions; see `degeneracy`."""
        return np.linalg.inv(self.information + 1e-12 * np.trace(self.information) * np.eye(6))


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


@lists_options(GicpConfig)
def gicp(
    source: Ellipsoids,
    target: Ellipsoids,
    guess: np.ndarray | None = None,  # (4, 4) T_target_source; the identity if not given
    config: GicpConfig | None = None,
    **options: Any,
) -> Alignment:
    """Find the pose near `guess` that aligns `source` to `target`. To align many sources to one target, see `align`.

    Args:
        source: the ellipsoids to move.
        target: the ellipsoids to move them to.
        guess: T_target_source to start from; the identity if not given.
        config: the options as one object. Keywords override its fields.
    """
    config = configured(GicpConfig, config, options)
    if not len(source):
        raise InputError("source: no ellipsoids to align")
    T = np.eye(4) if guess is None else check_pose(guess, "guess")
    return align(config.metric(source), Target(target, config.metric), T, config)


def align(
    source: WeightedPoints,
    target: Target,
    guess: np.ndarray,  # (4, 4)
    config: GicpConfig,
    sweep: Sweep | None = None,
) -> Alignment:
    """Align `source` to a prepared target. Unconstrained directions keep the value of the guess.

    With a `sweep`, the means of `source` are its points, deskewed again in every iteration for the pose reached.
    """
    found = _minimize(source, target, guess, config, None, sweep)
    if not found.degeneracy.any or not found.matched:
        return found
    held = found.degeneracy
    again = _minimize(source, target, guess, config, held.free, sweep)
    return replace(again, degeneracy=held)


def _minimize(
    source: WeightedPoints, target: Target, guess: np.ndarray, config: GicpConfig, free: np.ndarray | None, sweep: Sweep | None
) -> Alignment:
    """Run Gauss-Newton with Levenberg damping in the span of the columns of `free` (6, k): one step for each scale of the kernel,
    then steps at the last scale until they stop."""
    basis = _EVERY if free is None else free
    # The kernel's unit is sqrt(2) thickness, the standard deviation of a residual across two agreeing surfaces.
    scale = max(config.robust, config.start / (np.sqrt(2.0) * config.metric.thickness))
    T, iteration = np.ascontiguousarray(guess), 0
    problem = _Problem(source, target, config, sweep)
    while scale > config.robust and iteration < config.iterations:
        iteration += 1
        equations = problem.linearize(T, scale)
        if not equations.matched:
            break
        T = advanced(T, _step(equations, basis, _DAMPING))
        scale = max(config.robust, _SHRINK * scale)
    # With exact matches: those that were kept may be wrong by a few millimeters.
    equations, best, damping, converged = problem.linearize(T, config.robust, same=0.0), T, _DAMPING, False
    while iteration < config.iterations and equations.matched and basis.shape[1]:
        iteration += 1
        step = _step(equations, basis, damping)
        T = advanced(best, step)
        tried = problem.linearize(T, config.robust)
        if _mean_cost(tried) > _mean_cost(equations):  # the step was too long
            damping *= 16.0
            converged = damping > _DAMPED_OUT
        else:
            still = np.linalg.norm(step[:3]) < _STILL_ANGLE and np.linalg.norm(step[3:]) < _STILL_SHIFT
            converged = bool(still or _mean_cost(tried) > (1.0 - _LITTLE) * _mean_cost(equations))
            best, equations, damping = T, tried, max(damping / 4.0, _DAMPING)
        if converged:
            break
    if best is not T:
        problem.linearize(best, config.robust)
    return _summary(problem.at(best), target, best, problem.matches, equations, config, iteration, converged)


_EVERY = np.eye(6)


class _Problem:
    """The points of an alignment and their matches."""

    def __init__(self, source: WeightedPoints, target: Target, config: GicpConfig, sweep: Sweep | None) -> None:
        self._weighed, self._target, self._max_distance = source, target, config.max_distance
        points = source.means if sweep is None else sweep.points
        self._source = Source(np.ascontiguousarray(points, np.float64), source.shapes, sweep)
        self.matches = NearestPoints.none(len(source))

    def at(self, T: np.ndarray) -> WeightedPoints:  # (4, 4)
        """The points at this pose: deskewed for it, if they have times."""
        sweep = self._source.sweep
        return self._weighed if sweep is None else replace(self._weighed, means=sweep.means(T))

    def linearize(self, T: np.ndarray, scale: float, same: float = SAME_MATCH) -> NormalEquations:  # (4, 4)
        target = self._target
        return linearize(target.tree.arrays, target.weighed.shapes, self._source, T, self._max_distance, scale, self.matches, same)


def _mean_cost(equations: NormalEquations) -> float:
    return equations.cost / max(equations.weight, 1e-12)


def _step(equations: NormalEquations, basis: np.ndarray, damping: float) -> np.ndarray:  # (6,)
    if basis is _EVERY:
        return _solve(equations.H, equations.g, damping)
    return basis @ _solve(np.ascontiguousarray(basis.T @ equations.H @ basis), basis.T @ equations.g, damping)


@kernel
def _solve(H, g, damping):  # (k, k), (k,) -> (k,)
    """Solve H x = -g with a damped diagonal, by Cholesky's method."""
    k = len(g)
    L, x = np.empty((k, k)), np.empty(k)
    trace = 0.0
    for a in range(k):
        trace += H[a, a]
    for a in range(k):
        for b in range(a + 1):
            total = H[a, b] + (damping * H[a, a] + 1e-12 * trace + 1e-300 if a == b else 0.0)
            for c in range(b):
                total -= L[a, c] * L[b, c]
            L[a, b] = np.sqrt(max(total, 1e-300)) if a == b else total / L[b, b]
    for a in range(k):
        total = -g[a]
        for c in range(a):
            total -= L[a, c] * x[c]
        x[a] = total / L[a, a]
    for a in range(k - 1, -1, -1):
        total = x[a]
        for c in range(a + 1, k):
            total -= L[c, a] * x[c]
        x[a] = total / L[a, a]
    return x


def _summary(
    source: WeightedPoints,
    target: Target,
    T: np.ndarray,
    matches: NearestPoints,
    equations: NormalEquations,
    config: GicpConfig,
    iterations: int,
    converged: bool,
) -> Alignment:
    rows = np.flatnonzero(matches.slots >= 0)
    across, weights, sure, normals = np.empty(len(rows)), np.empty(len(rows)), np.empty(len(rows)), np.empty((len(rows), 3))
    hits, weighed = target.tree.arrays.rows[matches.slots[rows]], target.weighed
    _match_surfaces(
        source.means, source.shapes, source.flatness, rows, matches.near, weighed.normals, weighed.flatness, hits,
        T, np.sqrt(2.0) * config.metric.thickness * config.robust, across, weights, sure, normals,
    )  # fmt: skip
    count = max(len(source), 1)
    residual = 1.4826 * float(np.median(across)) if len(rows) else float("inf")
    # Residuals weighted as in the fit: those on wrong surfaces would hide how well the others determine the pose.
    spread = max(float(np.sqrt((weights * across) @ across / max(weights.sum(), 1e-12))), config.metric.thickness)
    observed = 1.0
    if config.metric.kind == "surfaces" and len(rows):
        observed = max(residual**2, 1e-8) / (2.0 * config.metric.thickness**2)
    return Alignment(
        T,
        equations.H / (observed * _MATCHES_PER_INDEPENDENT),
        len(rows),
        len(rows) / count,
        float((across < _FIT).sum()) / count,
        residual,
        iterations,
        converged,
        degeneracy(source.means[rows], source.normals[rows], normals, sure, np.sqrt(_MATCHES_PER_INDEPENDENT) * spread),
    )


@kernel
def _match_surfaces(points, shapes, flatness, rows, near, normals, flatness_there, hits, T, scale, across, weights, sure, turned):
    """Of each match: the distance across the target's surface, the weight with the robust kernel and with the flatness of both
    surfaces, and the target's normal in the frame of the source."""
    for k in range(len(rows)):
        i, hit = rows[k], hits[k]
        p, q, n = points[i], near[i], normals[hit]
        distance = 0.0
        for a in range(3):
            distance += n[a] * (q[a] - T[a, 0] * p[0] - T[a, 1] * p[1] - T[a, 2] * p[2] - T[a, 3])
            turned[k, a] = T[0, a] * n[0] + T[1, a] * n[1] + T[2, a] * n[2]
        across[k] = abs(distance)
        weights[k] = shapes[i, WEIGHT] * q[3 + WEIGHT] / (1.0 + (distance / scale) ** 2)
        sure[k] = weights[k] * flatness[i] * flatness_there[hit]
