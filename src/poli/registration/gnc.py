"""Graduated non-convexity with truncated least squares (Yang et al. 2020) around the certified solver.

To limit the influence of wrong matches, the cost of a match is min(r^2, c^2). This is not convex, so it is approached from a convex
cost in rounds: solve with weights, recompute the weights from the residuals, and sharpen the cost until every weight is 0 or 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.certify import CertifiedPose, solve
from poli.errors import DegenerateError, InputError
from poli.options import real_array, real_number
from poli.registration.consistency import check_matches
from poli.registration.presets import SHARPEN

_MOST_ROUNDS = 100


@dataclass(frozen=True)
class RobustPose:
    """Result of `gnc`: the certified pose of the inliers. The certificate covers that last problem, not the choice of inliers."""

    pose: CertifiedPose
    inliers: np.ndarray  # (K,) bool

    @property
    def T_target_source(self) -> np.ndarray:  # (4, 4)
        """The pose."""
        return self.pose.T_target_source

    @property
    def certified(self) -> bool:
        """Whether no pose fits the inliers better."""
        return self.pose.certified


def gnc(
    source: np.ndarray,  # (K, 3) p
    target: np.ndarray,  # (K, 3) q
    noise_bound: float,
    information: np.ndarray | None = None,  # (K, 3, 3) W, in the target frame; the identity if not given
) -> RobustPose:
    """Return the pose of the inliers, the matches with residual r = sqrt(d' W d) <= `noise_bound`, where d = q - (R p + t).

    Without `information` the bound is a length; with inverse covariances it is in standard deviations.
    """
    source, target = check_matches(source, target)
    weights = np.tile(np.eye(3), (len(source), 1, 1)) if information is None else real_array(information, "information")
    if weights.shape != (len(source), 3, 3):
        raise InputError(f"information has shape {weights.shape}; expected ({len(source)}, 3, 3), one per match")
    bound = real_number(noise_bound, "noise_bound", "a positive number", above=True) ** 2

    trust = np.ones(len(source))  # w, the weight of each match
    mu = 0.0
    for number in range(_MOST_ROUNDS):
        squared = _residuals(source, target, weights, _solve(source, target, weights, trust).T_target_source)
        if number == 0:
            if squared.max() <= bound:  # nothing to reject
                break
            mu = bound / (2.0 * squared.max() - bound)
        trust = _trust(squared, bound, mu)
        if ((trust == 0.0) | (trust == 1.0)).all():
            break
        mu *= SHARPEN
    inliers = trust > 0.5
    return RobustPose(_solve(source, target, weights, inliers.astype(float)), inliers)


def _trust(squared: np.ndarray, bound: float, mu: float) -> np.ndarray:  # (K,) -> (K,)
    """Return the weights of equation 14 of the paper: 1 well within the bound, 0 well beyond it, decreasing in between."""
    falling = np.sqrt(bound * mu * (mu + 1.0) / np.maximum(squared, np.finfo(float).tiny)) - mu
    return np.where(squared <= mu / (mu + 1.0) * bound, 1.0, np.where(squared >= (mu + 1.0) / mu * bound, 0.0, falling))


def _residuals(source: np.ndarray, target: np.ndarray, weights: np.ndarray, T: np.ndarray) -> np.ndarray:  # -> (K,)
    d = target - (source @ T[:3, :3].T + T[:3, 3])
    return np.einsum("ni,nij,nj->n", d, weights, d)


def _solve(source: np.ndarray, target: np.ndarray, weights: np.ndarray, trust: np.ndarray) -> CertifiedPose:
    used = trust > 0.0
    if used.sum() < 3:
        raise DegenerateError(
            f"{int(used.sum())} of {len(source)} matches agree on a pose within the noise bound; at least 3 are needed; "
            "pass a larger `noise_bound`, or better matches"
        )
    return solve(source[used], target[used], weights[used] * trust[used, None, None])
