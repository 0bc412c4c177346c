"""GICP on ellipsoids: estimate the pose between two fields from an initial guess, with nearest points and ellipsoids as weights.

minimize over T   sum_i  w_i rho( d_i' (C_q + R C_p R')^-1 d_i ),   d_i = q_i - (R p_i + t)

q_i is the target mean nearest to the moved p_i, the C are those of `gicp_metric`, and rho is the Cauchy kernel. Its scale starts
wide (the guess may be half a meter off) and is halved in every step until it reaches the thickness of surfaces.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.kdtree.tree import KDTree
from poli.keywords import takes_config
from poli.se3 import check_pose, exp, nearest_rotation
from poli.tasks.degeneracy import Degeneracy, degeneracy
from poli.tasks.gicp_metric import GicpPoints, Metric
from poli.tasks.gicp_sums import NormalEquations, linearize
from poli.validation import real_number, whole_number

_STILL_ANGLE, _STILL_SHIFT = 1e-5, 1e-4  # radians and meters; smaller steps mean convergence
_SAME_MATCHES = 5e-3  # meters; matches are kept until the points may have moved this far
_FIT = 0.1  # meters; a point within this distance across a surface lies on it
_DAMPING = 1e-6
_DAMPED_OUT = 1e3
# The residuals of neighboring matches are correlated. Compared with the true poses of simulated drives, this many
# matches count as one.
_MATCHES_PER_INDEPENDENT = 8.0


@dataclass(frozen=True)
class GicpConfig:
    metric: Metric = field(default_factory=Metric)
    max_distance: float = 2.0  # meters; points farther apart are not matched
    robust: float = 1.0  # scale of the Cauchy kernel, in standard deviations
    start: float = 0.5  # meters: initial scale of the kernel
    iterations: int = 40

    def __post_init__(self) -> None:
        for name in ("max_distance", "robust"):
            real_number(getattr(self, name), f"gicp: {name}", "a positive number", above=True)
        real_number(self.start, "gicp: start", "a number of meters of at least 0")
        whole_number(self.iterations, "gicp: iterations", least=1)


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

    def __init__(self, field: Ellipsoids | GicpPoints, metric: Metric | None = None) -> None:
        weighed = field if isinstance(field, GicpPoints) else (metric or Metric())(field)
        if not len(weighed):
            raise InputError("target: no ellipsoids to align to")
        self.index = KDTree(weighed.means)
        self.weighed = weighed

    def __len__(self) -> int:
        return len(self.weighed)


@takes_config(GicpConfig)
def gicp(
    source: Ellipsoids,
    target: Ellipsoids,
    guess: np.ndarray | None = None,  # (4, 4) T_target_source; the identity if not given
    config: GicpConfig | None = None,
    *,
    metric: Metric = Metric(),  # noqa: B008
    max_distance: float = 2.0,
    robust: float = 1.0,
    start: float = 0.5,
    iterations: int = 40,
) -> Alignment:
    """Find the pose near `guess` that aligns `source` to `target`. To align many sources to one target, see `align`.

    Args:
        source: the ellipsoids to move.
        target: the ellipsoids to move them to.
        guess: T_target_source to start from; the identity if not given.
        config: the options as one object. Keywords override its values.
        metric: how ellipsoids become weights of matches.
        max_distance: meters; points farther apart are not matched.
        robust: scale of the Cauchy kernel, in standard deviations.
        start: initial scale of the kernel, in meters.
        iterations: maximum number of iterations.
    """
    config = config or GicpConfig()
    if not len(source):
        raise InputError("source: no ellipsoids to align")
    T = np.eye(4) if guess is None else check_pose(guess, "guess")
    return align(config.metric(source), Target(target, config.metric), T, config)


def align(source: GicpPoints, target: Target, guess: np.ndarray, config: GicpConfig) -> Alignment:  # guess (4, 4)
    """Align `source` to a prepared target. Unconstrained directions keep the value of the guess."""
    found = _minimize(source, target, guess, config, None)
    if not found.degeneracy.any or not found.matched:
        return found
    held = found.degeneracy
    again = _minimize(source, target, guess, config, held.free)
    return replace(again, degeneracy=held)


def _minimize(source: GicpPoints, target: Target, guess: np.ndarray, config: GicpConfig, free: np.ndarray | None) -> Alignment:
    """Run Gauss-Newton with Levenberg damping in the span of the columns of `free` (6, k)."""
    basis = np.eye(6) if free is None else free
    extent = float(np.sqrt((source.means**2).sum(axis=1).mean())) if len(source) else 1.0
    match = np.full(len(source), -1, np.int32)
    target_side = (target.index.leaf_order, target.weighed.covariances, target.weighed.weights)
    source_side = (np.ascontiguousarray(source.means), source.covariances, source.weights)
    # The kernel's unit is sqrt(2) thickness, the standard deviation of a residual across two agreeing surfaces.
    scale = max(config.robust, config.start / (np.sqrt(2.0) * config.metric.thickness))
    T, best, damping, moved = guess, None, _DAMPING, np.inf
    converged, iteration = False, 0
    while iteration < config.iterations:
        iteration += 1
        search = moved > _SAME_MATCHES
        moved = 0.0 if search else moved
        equations = linearize(target.index.tree, target_side, source_side, T, config.max_distance, scale, match, search)
        if not equations.matched or not basis.shape[1]:
            best = (T, equations)
            break
        if best is not None and _mean_cost(equations) > _mean_cost(best[1]):  # at the same scale: the step was too long
            T, equations, damping = best[0], best[1], damping * 16.0
            if damping > _DAMPED_OUT:
                converged = True
                break
        else:
            damping = max(damping / 4.0, _DAMPING)
        step = _step(equations, basis, damping)
        still = np.linalg.norm(step[:3]) < _STILL_ANGLE and np.linalg.norm(step[3:]) < _STILL_SHIFT
        before, T = T, nearest_rotation(T @ exp(step))
        moved += float(np.linalg.norm(step[:3])) * extent + float(np.linalg.norm(step[3:]))
        if scale > config.robust:
            scale, best = max(config.robust, 0.5 * scale), None
            continue
        best = (before, equations)
        if still:
            converged = True
            break
    assert best is not None or iteration == config.iterations
    equations = (
        best[1]
        if best is not None
        else linearize(target.index.tree, target_side, source_side, T, config.max_distance, scale, match, False)
    )
    return _summary(source, target, T, match, equations, config, iteration, converged)


def _mean_cost(equations: NormalEquations) -> float:
    return equations.cost / max(equations.weight, 1e-12)


def _step(equations: NormalEquations, basis: np.ndarray, damping: float) -> np.ndarray:  # (6,)
    H = basis.T @ equations.H @ basis
    H = H + np.diag(damping * np.diag(H) + 1e-12 * np.trace(H) + 1e-300)
    return basis @ np.linalg.solve(H, -(basis.T @ equations.g))


def _summary(
    source: GicpPoints,
    target: Target,
    T: np.ndarray,
    match: np.ndarray,
    equations: NormalEquations,
    config: GicpConfig,
    iterations: int,
    converged: bool,
) -> Alignment:
    rows = np.flatnonzero(match >= 0)
    R, t = T[:3, :3], T[:3, 3]
    points, hits = source.means[rows], target.index.leaf_order[match[rows]]
    normals = target.weighed.normals[hits]
    off = target.weighed.means[hits] - (points @ R.T + t)
    across = np.abs(np.einsum("ij,ij->i", off, normals))
    count = max(len(source), 1)
    residual = 1.4826 * float(np.median(across)) if len(rows) else float("inf")
    weights = source.weights[rows] * target.weighed.weights[hits]
    weights = weights / (1.0 + (across / (np.sqrt(2.0) * config.metric.thickness * config.robust)) ** 2)
    # Residuals weighted as in the fit: those on wrong surfaces would hide how well the others determine the pose.
    spread = max(float(np.sqrt(weights @ across**2 / max(weights.sum(), 1e-12))), config.metric.thickness)
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
        degeneracy(
            points,
            source.normals[rows],
            normals @ R,
            weights * source.flatness[rows] * target.weighed.flatness[hits],
            np.sqrt(_MATCHES_PER_INDEPENDENT) * spread,
        ),
    )
