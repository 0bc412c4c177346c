"""The pose that best aligns matched points under full 3x3 weights, with a proof that no pose is better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from poli.certify import checks
from poli.certify.checks import error_of, least_curvature, low_minima, tie, weakest_turn
from poli.certify.quadratic import (
    FORMS,
    Frame,
    chordal_cost,
    chordal_form,
    derivatives,
    eliminate_translation,
    lifted,
    prior_gauss_newton,
    quadratic_form,
    residual_cost,
)
from poli.certify.rotation import cost, guess, polish, prove, round_to_rotation
from poli.certify.semidefinite import interior_point
from poli.certify.small import eigh, matvec
from poli.errors import InputError

GAP_TOLERANCE = 1e-6
_SMALLEST_COST = 1e-8  # of the size of M: smaller costs are zero up to rounding, and the gap is measured against this
_TINY = np.finfo(float).tiny
_MARGIN = 1.01  # times the least eigenvalue, which the second must exceed
_RANK = 1e-12  # of the largest eigenvalue of a 6 x 6 matrix with unit diagonal: rounding is about 1e-16


@dataclass(frozen=True)
class PosePrior:
    """A measured pose T~ and the covariance Gamma of its error Log(T^-1 T~), rotation (rad) first, then translation (m)."""

    T_target_source: np.ndarray  # (4, 4)
    covariance: np.ndarray  # (6, 6)

    @staticmethod
    def isotropic(T_target_source: np.ndarray, rotation: float, translation: float) -> PosePrior:
        """Equal standard deviations in all directions: `rotation` in radians, `translation` in meters."""
        if not (rotation > 0 and translation > 0):
            raise InputError(f"standard deviations of a prior must be positive, not {rotation} rad and {translation} m")
        return PosePrior(T_target_source, np.diag([rotation**2] * 3 + [translation**2] * 3))


@dataclass(frozen=True)
class Certificate:
    """Proof of global optimality, or how far the proof falls short. Eigenvalues are of matrices of size one."""

    eigenvalue_ratio: float  # of the relaxation's X, largest over second: large if the optimum is unique
    relative_gap: float  # between the pose's cost and the proven lower bound, relative to the cost (see `CertifiedPose.certified`)
    minimum_eigenvalue: float  # of the certificate matrix S: a proof requires it to be nonnegative, up to rounding
    second_eigenvalue: float  # of S: lower bound on how fast the cost grows away from the pose
    least_eigenvalue: float  # the second must exceed it to be clear of rounding and of costs that are equal in practice

    @property
    def unique(self) -> bool:
        """True if no other pose has the same cost: the null space of S contains this one alone, regardless of rounding."""
        return bool(self.second_eigenvalue > self.least_eigenvalue)

    @property
    def optimal(self) -> bool:
        """True if no pose has a lower cost, whether or not another has the same."""
        return bool(self.relative_gap <= GAP_TOLERANCE)

    @property
    def certified(self) -> bool:
        """True if the pose is proven to be the only optimum."""
        return self.optimal and self.unique


@dataclass(frozen=True)
class CertifiedPose:
    """The result of `solve`."""

    T_target_source: np.ndarray  # (4, 4)
    cost: float  # sum d' W d, and the prior's term
    certificate: Certificate
    frame: Frame  # the centered coordinates of the two matrices below
    gauss_newton: np.ndarray  # (6, 6)
    hessian: np.ndarray  # (6, 6), exact, of half the cost; needed for differentiation

    @property
    def certified(self) -> bool:
        """True if no pose has a lower cost and no other has the same, proven to a relative gap of 1e-6.

        The gap is relative to the cost, or to 1e-8 of the size of the problem if the cost is smaller, because of rounding.
        """
        return self.certificate.certified

    @property
    def information(self) -> np.ndarray:  # (6, 6)
        """Inverse covariance of the pose's right perturbation, rotation first: how well the data determine the pose.

        It is that of the linearized problem where the exact Hessian confirms it, and less where residuals make the cost flatter
        than the linearized problem predicts.
        """
        tangent = self.frame.tangent()
        return tangent.T @ _confirmed(self.gauss_newton, self.hessian) @ tangent

    @property
    def gap(self) -> float:
        """The gap of the certificate, relative to the cost."""
        return self.certificate.relative_gap


def solve(
    source: np.ndarray,  # (N, 3) p
    target: np.ndarray,  # (N, 3) q
    information: np.ndarray,  # (N, 3, 3) W, in the target's frame
    prior: PosePrior | None = None,
    shortcut: bool = True,
) -> CertifiedPose:
    """Minimize sum d' W d over all poses, d = q - (R p + t), by the tightened semidefinite relaxation of supplement SB.

    With a prior, its chordal form is added to the cost (equation 13). If the weights are inverse covariances of d, the returned
    information is the inverse covariance of the pose. Raises `DegenerateError` if the data do not determine the pose.
    `shortcut=False` solves the relaxation even if a guess can be proven optimal without it; the result is the same.
    """
    matches = checks.matches(source, target, information)

    # 1. Write the cost as a quadratic form in [1; vec(R); t], in centered coordinates of size one.
    anchor = None if prior is None else checks.prior(prior.T_target_source, prior.covariance)
    center = matches.center if anchor is None else matches.center_with(*anchor)
    Q, frame, spread = quadratic_form(matches.source, matches.target, matches.information, *center)
    Q_matches = Q
    if anchor is None:
        checks.spread(matches, spread)
    else:
        Q = Q + chordal_form(*anchor, frame)

    # 2. Eliminate the translation, which follows from the rotation.
    held = eigh(Q[10:, 10:].copy())
    checks.translation(*held)
    M, to_translation = eliminate_translation(Q, *held)
    size, offset = max(float(np.sqrt((M * M).sum())), _TINY), matches.farthest / frame.size
    error = error_of(Q, to_translation, size, offset)
    M /= size

    # 3. Find the best rotation and its proof: first a guess, which is usually right and fast to prove, or the relaxation.
    def total(R: np.ndarray) -> float:  # (3, 3): the cost computed from the residuals
        t = matvec(to_translation, lifted(R))
        fit = residual_cost(matches.source, matches.target, matches.information, frame, R, t)
        return fit if anchor is None else fit + chordal_cost(frame.pose(R, t), *anchor)

    R = guess(M, error)
    # If S vanishes on y alone, y y' is the only solution of the relaxation: X has one nonzero eigenvalue.
    certificate = _certificate(M, R, np.zeros(len(FORMS)), np.inf, error)
    rivals = R[None]
    if not (shortcut and certificate.certified):
        R, rivals, certificate = _relax(M, R, error, total)
    curvature, axis = weakest_turn(M, R, error)
    checks.rotation(curvature, axis, least_curvature(cost(M, R), error))
    best = total(R)
    if len(rivals) > 1:
        limit = best + tie(best, curvature, error, size, offset)
        checks.no_rival(R, [rival for rival in rivals if total(rival) <= limit])

    # 4. Express the pose in the caller's frame, and compute how well the data determine it.
    y = lifted(R)
    t = matvec(to_translation, y)
    x, T = np.concatenate([y, t]), frame.pose(R, t)
    gauss_newton, hessian = derivatives(Q_matches, x)[1], derivatives(Q, x)[2]  # of the matches alone, and of everything
    if anchor is not None:
        back = np.linalg.inv(frame.tangent())
        gauss_newton += back.T @ prior_gauss_newton(T, *anchor) @ back
    return CertifiedPose(T, best, certificate, frame, gauss_newton, hessian)


def _relax(
    M: np.ndarray,  # (10, 10)
    guess: np.ndarray,  # (3, 3)
    error: float,
    total: Callable[[np.ndarray], float],
) -> tuple[np.ndarray, np.ndarray, Certificate]:  # (3, 3), (K, 3, 3)
    """Solve the semidefinite relaxation, round and polish. If that proves nothing, return the best result of a wider search and
    all results that are about as good."""
    X, multipliers, _, _ = interior_point(M)
    R, ratio = round_to_rotation(X)
    certificate = _certificate(M, R := polish(M, R, error), multipliers, ratio, error)
    if certificate.optimal and not certificate.unique:
        # Many multipliers prove the bound. Do some prove uniqueness, too? S exceeds the least eigenvalue away from y if and only if
        # M, reduced by it there, has the same bound.
        y = lifted(R)
        away = np.eye(len(y)) - np.outer(y, y) / (y @ y)
        reaching = interior_point(M - _MARGIN * certificate.least_eigenvalue * away)[1]
        stricter = _certificate(M, R, reaching, ratio, error)
        certificate = max(certificate, stricter, key=lambda either: either.certified)
    if certificate.certified:
        return R, R[None], certificate
    found = low_minima(M, min((R, guess), key=lambda candidate: cost(M, candidate)), error)
    R = min(found, key=total)
    return R, found, _certificate(M, R, multipliers, ratio, error)


def _certificate(M: np.ndarray, R: np.ndarray, multipliers: np.ndarray, ratio: float, error: float) -> Certificate:
    gap, lowest, second = prove(M, R, multipliers)
    attained = cost(M, R)
    return Certificate(ratio, gap / max(attained, _SMALLEST_COST), lowest, second, least_curvature(attained, error))


def _confirmed(gauss_newton: np.ndarray, hessian: np.ndarray) -> np.ndarray:  # (6, 6), (6, 6) -> (6, 6)
    """Return the information G of the linearized problem, reduced where the exact Hessian H has less than half of it. Its rank
    never exceeds that of G or H, up to rounding."""
    scale = np.sqrt(np.maximum(np.diag(gauss_newton), _TINY))  # rotation and translation have different units
    values, vectors = eigh(gauss_newton / np.outer(scale, scale))
    held = values > _RANK * values[-1]
    root = vectors[:, held] * np.sqrt(values[held])  # G = root root' in scaled coordinates
    inverse = vectors[:, held] / np.sqrt(values[held])
    shares, axes = eigh(np.ascontiguousarray(inverse.T @ (hessian / np.outer(scale, scale)) @ inverse))  # H in units of G
    shares = np.clip(2.0 * np.where(shares > _RANK, shares, 0.0), 0.0, 1.0)
    factor = scale[:, None] * (root @ axes) * shares
    return factor @ factor.T
