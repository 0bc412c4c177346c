"""The pose that best aligns matched points under full 3x3 weights, with a proof that no pose is better."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.certify import checks
from poli.certify.newton import cost, polish, polish_from_everywhere
from poli.certify.prior import chordal_cost, chordal_form, prior_gauss_newton
from poli.certify.proof import guess_and_prove, prove
from poli.certify.quadratic import Frame, derivatives, eliminate_translation, lifted, quadratic_form, residual_cost
from poli.certify.relaxation import round_to_rotation, solve_relaxation
from poli.certify.small import eigh, matvec
from poli.errors import InputError
from poli.kernel import kernel
from poli.se3 import check_pose

GAP_TOLERANCE = 1e-6
_SMALLEST_COST = 1e-8  # of the size of M: a smaller cost is within a few roundings of zero, and the gap is measured against this
_TINY = np.finfo(float).tiny
_UNIQUE = 1e-9  # the second eigenvalue of S above which the optimum is the only one


@dataclass(frozen=True)
class PosePrior:
    """A measured pose T~ and the covariance Gamma of its error Log(T^-1 T~), rotation (rad) first, then translation (m)."""

    T_target_source: np.ndarray  # (4, 4)
    covariance: np.ndarray  # (6, 6)

    @staticmethod
    def isotropic(T_target_source: np.ndarray, rotation: float, translation: float) -> PosePrior:
        """Equal standard deviations in all directions: `rotation` in radians, `translation` in metres."""
        if not (rotation > 0 and translation > 0):
            raise InputError(f"standard deviations of a prior must be positive, not {rotation} rad and {translation} m")
        return PosePrior(T_target_source, np.diag([rotation**2] * 3 + [translation**2] * 3))


@dataclass(frozen=True)
class Certificate:
    """Why the pose is globally optimal, or how far the proof is from it. Eigenvalues are of matrices of size one."""

    eigenvalue_ratio: float  # of the relaxation's X, largest over second: large when the optimum is unique
    relative_gap: float  # between the pose's cost and the proven lower bound, against the cost (see `CertifiedPose.certified`)
    minimum_eigenvalue: float  # of the certificate matrix S: a proof needs it to be no less than zero, to rounding

    @property
    def certified(self) -> bool:
        return self.relative_gap <= GAP_TOLERANCE


@dataclass(frozen=True)
class CertifiedPose:
    """The answer of `solve`."""

    T_target_source: np.ndarray  # (4, 4)
    cost: float  # sum d' W d, and the prior's term
    certificate: Certificate
    frame: Frame  # the centred coordinates that the two matrices below are in
    gauss_newton: np.ndarray  # (6, 6)
    hessian: np.ndarray  # (6, 6), exact, of half the cost: what differentiation needs

    @property
    def certified(self) -> bool:
        """True if no pose has a lower cost, proven to a relative gap of 1e-6 (of the cost, or of 1e-8 of the problem's own size
        where the cost is smaller than that: rounding allows no finer proof)."""
        return self.certificate.certified

    @property
    def information(self) -> np.ndarray:  # (6, 6)
        """How well the data determine the pose: the inverse covariance of its right perturbation, rotation first."""
        tangent = self.frame.tangent()
        return tangent.T @ self.gauss_newton @ tangent

    @property
    def gap(self) -> float:
        return self.certificate.relative_gap


def solve(
    source: np.ndarray,  # (N, 3) p
    target: np.ndarray,  # (N, 3) q
    information: np.ndarray,  # (N, 3, 3) W, in the target's frame
    prior: PosePrior | None = None,
    shortcut: bool = True,
) -> CertifiedPose:
    """Minimise sum d' W d over all poses, d = q - (R p + t), by the tightened semidefinite relaxation of supplement SB.

    With a prior its chordal form joins the cost (equation 13). If the weights are inverse covariances of d, the returned
    information is the inverse covariance of the pose. Raises `DegenerateError` where the data leave the pose open.
    `shortcut=False` solves the relaxation even where a guess can be proven optimal without it; the answer is the same.
    """
    matches = checks.matches(source, target, information)

    # 1. The cost as a quadratic form in [1; vec(R); t], in centred coordinates of size one.
    Q, frame, spread = quadratic_form(
        matches.source, matches.target, matches.information, matches.source_centre, matches.target_centre
    )
    Q_matches = Q
    if prior is None:
        checks.spread(matches.count, spread)
    else:
        T_prior = check_pose(prior.T_target_source, "the prior's T_target_source")
        prior_information = checks.prior_information(prior.covariance)
        Q = Q + chordal_form(T_prior, prior_information, frame)

    # 2. Without the translation, which follows from the rotation.
    held = eigh(Q[10:, 10:].copy())
    checks.translation(*held)
    M, to_translation = eliminate_translation(Q, *held)
    M /= max(np.sqrt((M * M).sum()), _TINY)

    # 3. The best rotation and the proof: first a guess, which is mostly right and quick to prove, else the relaxation.
    R, certificate = _guess(M)
    if not (shortcut and certificate.certified):
        R, certificate = _relax(M, R)

    # 4. The pose in the caller's frame, and how well the data determine it.
    t, gauss_newton, hessian = _describe(Q, Q_matches, R, to_translation)
    checks.pose(hessian)
    T = frame.pose(R, t)
    total = residual_cost(matches.source, matches.target, matches.information, frame, R, t)
    if prior is not None:
        total += chordal_cost(T, T_prior, prior_information)
        back = np.linalg.inv(frame.tangent())
        gauss_newton += back.T @ prior_gauss_newton(T, T_prior, prior_information) @ back
    return CertifiedPose(T, total, certificate, frame, gauss_newton, hessian)


def _guess(M: np.ndarray) -> tuple[np.ndarray, Certificate]:  # (10, 10)
    R, attained, gap, lowest, second = guess_and_prove(M)
    # If S vanishes on y alone, y y' is the only solution of the relaxation: one eigenvalue. Otherwise let the relaxation say.
    relative = gap / max(attained, _SMALLEST_COST) if second > _UNIQUE else np.inf
    return R, Certificate(np.inf, relative, lowest)


def _relax(M: np.ndarray, guess: np.ndarray) -> tuple[np.ndarray, Certificate]:  # (10, 10), (3, 3)
    """The semidefinite relaxation, rounded and polished; where it is not tight, the best that a wider search finds."""
    X, multipliers = solve_relaxation(M)
    R, ratio = round_to_rotation(X)
    certificate = _certificate(M, R := polish(M, R), multipliers, ratio)
    if not certificate.certified:
        R = min((polish_from_everywhere(M, start) for start in (R, guess)), key=lambda candidate: cost(M, candidate))
        certificate = _certificate(M, R, multipliers, ratio)
    return R, certificate


def _certificate(M: np.ndarray, R: np.ndarray, multipliers: np.ndarray, ratio: float) -> Certificate:
    gap, lowest, _ = prove(M, R, multipliers)
    return Certificate(ratio, gap / max(cost(M, R), _SMALLEST_COST), lowest)


@kernel
def _describe(Q, Q_matches, R, to_translation):
    """Translation, Gauss-Newton matrix of the matches alone, and exact Hessian of everything."""
    x = np.empty(13)
    x[:10] = lifted(R)
    t = matvec(to_translation, x[:10])
    x[10:] = t
    gauss_newton, hessian = derivatives(Q_matches, x)[1], derivatives(Q, x)[2]
    return t, gauss_newton, hessian
