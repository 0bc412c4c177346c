"""GICP on ellipsoids: estimate the pose between two fields from an initial guess.

    minimize over T   sum_i  w_i rho( d_i' W_i d_i )

    d_i = R'(q_i - t) - p_i           residual in the source frame; q_i is the target mean nearest to the moved p_i
    W_i = (C_p + R' C_q R)^-1         the covariances C and the weights w_i are made from ellipsoids by `matching.Metric`
    J_i = [hat(p_i), -I]              derivative of d_i by (rotation, translation) of T Exp(dx)
    H = sum w rho' J'WJ,  g = sum w rho' J'Wd      normal equations of one step, H dx = -g: `normal_equations`

rho is the Cauchy kernel. Its scale starts wide (the guess may be half a meter off) and is halved in every step until it reaches the
thickness of surfaces. `gicp_kernel` matches points and adds up the equations in one pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.lidar_odometry import gicp_kernel
from poli.lidar_odometry.degeneracy import Degeneracy, degeneracy
from poli.lidar_odometry.deskewing import Sweep
from poli.lidar_odometry.matching import Matching, Metric, NormalEquations, Target, WeightedPoints
from poli.lidar_odometry.tuned import FIT, LITTLE, MATCHES_PER_INDEPENDENT, SHRINK, STILL_ANGLE, STILL_SHIFT
from poli.options import check, configured, lists_options, option
from poli.se3 import check_pose, hat
from poli.se3_kernels import advanced

_DAMPING, _DAMPED_OUT = 1e-6, 1e3  # relative: Levenberg's smallest damping, and the one at which no step helps
_EVERY = np.eye(6)


def normal_equations(
    source: WeightedPoints,
    target: WeightedPoints,  # the match of each source point
    T: np.ndarray,  # (4, 4) T_target_source
    scale: float,  # of the robust kernel, in standard deviations
    follow: np.ndarray | None = None,  # (N,) how far each point moves if the pose moves by 1; see `Sweep`
) -> NormalEquations:
    """The formulas as matrices, match by match. `Matching.linearize` computes the same, faster, and finds the matches."""
    R, t, p = T[:3, :3], T[:3, 3], source.means
    d = (target.means - t) @ R - p  # (N, 3)
    W = np.linalg.inv(source.covariances + R.T @ target.covariances @ R)  # (N, 3, 3)
    J = np.concatenate([hat(p), np.tile(-np.eye(3), (len(p), 1, 1))], axis=2)  # (N, 3, 6)
    if follow is not None:
        J *= follow[:, None, None]
    squared = np.einsum("ni,nij,nj->n", d, W, d)
    weights = source.weights * target.weights
    W *= (weights / (1.0 + squared / scale**2))[:, None, None]  # Cauchy's weight is the slope of rho
    H = np.einsum("nia,nij,njb->ab", J, W, J)
    g = np.einsum("nia,nij,nj->a", J, W, d)
    cost = weights @ (scale**2 * np.log(1.0 + squared / scale**2))
    return NormalEquations(H, g, float(cost), float(weights.sum()), len(p))


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
    """The pose between two fields, and how well it is determined."""

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
    found = _minimize(source, target, guess, config, _EVERY, sweep)
    if not found.degeneracy.any or not found.matched:
        return found
    again = _minimize(source, target, guess, config, found.degeneracy.free, sweep)
    return replace(again, degeneracy=found.degeneracy)


def _minimize(
    source: WeightedPoints, target: Target, guess: np.ndarray, config: GicpConfig, basis: np.ndarray, sweep: Sweep | None
) -> Alignment:
    """Run Gauss-Newton with Levenberg damping in the span of the columns of `basis` (6, k): one step for each scale of the kernel,
    then steps at the last scale until they stop."""
    # The kernel's unit is sqrt(2) thickness, the standard deviation of a residual across two agreeing surfaces.
    scale = max(config.robust, config.start / (np.sqrt(2.0) * config.metric.thickness))
    T, iteration = np.ascontiguousarray(guess), 0
    matching = Matching(source, target, config.max_distance, sweep)
    while scale > config.robust and iteration < config.iterations:
        iteration += 1
        equations = matching.linearize(T, scale)
        if not equations.matched:
            break
        T = advanced(T, _step(equations, basis, _DAMPING))
        scale = max(config.robust, SHRINK * scale)
    # With exact matches: those that were kept may be wrong by a few millimeters.
    equations, best, damping, converged = matching.linearize(T, config.robust, same=0.0), T, _DAMPING, False
    while iteration < config.iterations and equations.matched and basis.shape[1] and not converged:
        iteration += 1
        step = _step(equations, basis, damping)
        T = advanced(best, step)
        tried = matching.linearize(T, config.robust)
        if tried.mean_cost > equations.mean_cost:  # the step was too long
            damping *= 16.0
            converged = damping > _DAMPED_OUT
        else:
            still = np.linalg.norm(step[:3]) < STILL_ANGLE and np.linalg.norm(step[3:]) < STILL_SHIFT
            converged = bool(still or tried.mean_cost > (1.0 - LITTLE) * equations.mean_cost)
            best, equations, damping = T, tried, max(damping / 4.0, _DAMPING)
    if best is not T:
        matching.linearize(best, config.robust)
    return _summary(matching, target.weighed, best, equations, config, iteration, converged)


def _step(equations: NormalEquations, basis: np.ndarray, damping: float) -> np.ndarray:  # (6,)
    if basis is _EVERY:
        return gicp_kernel.solve(equations.H, equations.g, damping)
    return basis @ gicp_kernel.solve(np.ascontiguousarray(basis.T @ equations.H @ basis), basis.T @ equations.g, damping)


def _summary(
    matching: Matching,
    target: WeightedPoints,
    T: np.ndarray,  # (4, 4)
    equations: NormalEquations,
    config: GicpConfig,
    iterations: int,
    converged: bool,
) -> Alignment:
    source, rows = matching.source(T), np.flatnonzero(matching.slots >= 0)
    across, weights, sure, normals = np.empty(len(rows)), np.empty(len(rows)), np.empty(len(rows)), np.empty((len(rows), 3))
    gicp_kernel.match_surfaces(
        source.means, source.shapes, source.flatness, rows, matching.near, target.normals, target.flatness, matching.rows[rows],
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
        T_target_source=T,
        information=equations.H / (observed * MATCHES_PER_INDEPENDENT),
        matched=len(rows),
        overlap=len(rows) / count,
        fit=float((across < FIT).sum()) / count,
        residual=residual,
        iterations=iterations,
        converged=converged,
        degeneracy=degeneracy(source.means[rows], source.normals[rows], normals, sure, np.sqrt(MATCHES_PER_INDEPENDENT) * spread),
    )
