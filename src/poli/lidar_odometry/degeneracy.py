"""Degenerate directions of an alignment: motions that the matched surfaces determine less well than the prediction does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.kernel import kernel
from poli.lidar_odometry.tuned import AGREEING, NORMAL, SHIFT, TURN, WRONG

_ROUNDS = 3

UNITS = np.repeat([TURN, SHIFT], 3)  # of the tangents


@dataclass(frozen=True, eq=False)
class Degeneracy:
    """How well the pose is determined in six directions, orthogonal in units of what a prediction leaves open.

    Directions are tangents (rotation, translation) in the source frame, of the size that a prediction leaves open: 2 degrees, 10
    cm, or a mixture. A direction of strength s is determined to 1 / sqrt(s) of that, and weak if s is below 1. The strengths of
    directions that are not weak are lower bounds.
    """

    directions: np.ndarray  # (6, 6), one per row
    strengths: np.ndarray  # (6,)
    weak: np.ndarray  # (6,) bool

    @property
    def any(self) -> bool:
        """Whether some direction is weak."""
        return bool(self.weak.any())

    @property
    def free(self) -> np.ndarray:  # (6, k)
        """Basis of the well-determined motions."""
        return self.directions[~self.weak].T

    def __str__(self) -> str:
        if not self.any:
            return "every direction is constrained"
        said = []
        for direction in self.directions[self.weak] / UNITS:
            for kind, part in (("turning about", direction[:3]), ("moving along", direction[3:])):
                length = np.linalg.norm(part)
                if length > 0.5:
                    x, y, z = part / length
                    said.append(f"{kind} ({x:+.2f}, {y:+.2f}, {z:+.2f})")
        return "unconstrained: " + ", ".join(said)


def degeneracy(
    points: np.ndarray,  # (K, 3) matched source points
    own_normals: np.ndarray,  # (K, 3) of these points
    normals: np.ndarray,  # (K, 3) of the matched target surfaces, in the source frame
    weights: np.ndarray,  # (K,)
    deviation: float,  # meters: standard deviation of a match across its surface, as if matches were independent
) -> Degeneracy:
    """Return how well the matches determine the pose in every direction.

    A motion (w, v) moves the point p by m = w x p + v. A match with the normal n contributes the information (n.m / deviation)^2
    about it. Noise in thousands of normals would add up to any information, so three things are different here:
    - (n.m)^2 is replaced by the product of n.m for both normals of the match, whose errors are largely independent.
    - Only what exceeds (NORMAL |m|)^2 counts: a surface says nothing about motions that are parallel to it within 10 degrees.
    - The matches that resist a motion most, up to 1 % of the weight of all, may be wrong and do not count.
    """
    wrong = WRONG * float(weights.sum()) / deviation**2
    information, motion = _summed(points, own_normals, normals, weights)
    information, motion = (np.outer(UNITS, UNITS) * sums / deviation**2 for sums in (information, motion))
    bound = information - NORMAL**2 * motion
    directions, strengths = np.zeros((0, 6)), np.zeros(0)
    if np.linalg.eigvalsh(bound)[0] < 1.0:
        matches = _Matches.of(points, own_normals, normals, weights / deviation**2, wrong)
        while len(directions) < 6 and (strengths < 1.0).all():
            strength, y = _weakest(matches, information, _complement(directions))
            directions, strengths = np.vstack([directions, y]), np.append(strengths, strength)
    rest = _complement(directions)
    rest = np.linalg.eigh(rest @ information @ rest.T)[1].T @ rest
    strengths = np.append(strengths, np.maximum(1.0, np.einsum("ki,ij,kj->k", rest, bound, rest)))
    directions = np.vstack([directions, rest])
    largest = directions[np.arange(6), np.abs(directions).argmax(axis=1)]
    return Degeneracy(directions * np.sign(largest)[:, None] * UNITS, strengths, strengths < 1.0)


@dataclass(frozen=True, eq=False)
class _Matches:
    rows: np.ndarray  # (K, 6): n.m of the motion y is rows @ y, where y is in `UNITS`
    own: np.ndarray  # (K, 6): the same for the normals of the source
    points: np.ndarray  # (K, 3)
    weights: np.ndarray  # (K,) 1 / variance
    wrong: float  # weight of the matches that may be wrong

    @classmethod
    def of(cls, points, own_normals, normals, weights, wrong: float) -> _Matches:
        cosines = np.einsum("ij,ij->i", own_normals, normals)
        kept = (np.abs(cosines) >= AGREEING) & (weights > 0.0)
        p, n = points[kept], normals[kept]
        own = own_normals[kept] * np.sign(cosines[kept])[:, None]
        rows, own_rows = (UNITS * np.concatenate([np.cross(p, m), m], axis=1) for m in (n, own))  # (K, 6)
        return cls(rows, own_rows, p, weights[kept], wrong)

    def information(self, chosen: np.ndarray) -> np.ndarray:  # (6, 6)
        """Sum of (n.m)(n'.m)."""
        A = (self.rows[chosen] * self.weights[chosen, None]).T @ self.own[chosen]
        return 0.5 * (A + A.T)

    def strength(self, y: np.ndarray) -> tuple[float, np.ndarray]:  # (6,) -> strength, (k,)
        """Information along a direction, and the matches that resist it most, which may be wrong and do not count."""
        u = UNITS * y
        moved = np.cross(u[:3], self.points) + u[3:]
        products, noise = (self.rows @ y) * (self.own @ y), NORMAL**2 * np.einsum("ij,ij->i", moved, moved)
        # Products of opposite signs are noise. There is as much of it among those of equal signs, so it is subtracted.
        resists = np.sign(products) * np.maximum(np.abs(products) - noise, 0.0)
        order = np.flatnonzero(resists > 0.0)
        order = order[np.argsort(-resists[order])]
        wrong = order[: np.searchsorted(np.cumsum(self.weights[order]), self.wrong, side="right")]
        return float(self.weights @ resists - self.weights[wrong] @ resists[wrong]), wrong


@kernel
def _summed(points, own_normals, normals, weights):
    """Return the sums of (n.m)(n'.m) and of |m|^2 over all matches whose normals agree, as quadratic forms of the motion."""
    A, G = np.zeros((6, 6)), np.zeros((6, 6))
    row, own = np.empty(6), np.empty(6)
    for i in range(len(points)):
        p, n, o, w = points[i], normals[i], own_normals[i], weights[i]
        cosine = n[0] * o[0] + n[1] * o[1] + n[2] * o[2]
        if not (abs(cosine) >= AGREEING and w > 0.0):
            continue
        sign = np.sign(cosine)
        for a in range(3):
            b, c = (a + 1) % 3, (a + 2) % 3
            row[a], row[3 + a] = p[b] * n[c] - p[c] * n[b], n[a]
            own[a], own[3 + a] = sign * (p[b] * o[c] - p[c] * o[b]), sign * o[a]
        for a in range(6):
            for b in range(a, 6):
                A[a, b] += 0.5 * w * (row[a] * own[b] + row[b] * own[a])
        for a in range(3):
            b, c = (a + 1) % 3, (a + 2) % 3
            G[a, a] += w * (p[b] * p[b] + p[c] * p[c])
            G[3 + a, 3 + a] += w
            G[a, 3 + b] -= w * p[c]
            G[a, 3 + c] += w * p[b]
        G[0, 1] -= w * p[0] * p[1]
        G[0, 2] -= w * p[0] * p[2]
        G[1, 2] -= w * p[1] * p[2]
    for a in range(6):
        for b in range(a):
            A[a, b], G[a, b] = A[b, a], G[b, a]
    return A, G


def _complement(directions: np.ndarray) -> np.ndarray:  # (k, 6) -> (6 - k, 6)
    return np.linalg.svd(directions, full_matrices=True)[2][len(directions) :] if len(directions) else np.eye(6)


def _weakest(matches: _Matches, information: np.ndarray, basis: np.ndarray) -> tuple[float, np.ndarray]:  # (k, 6) -> strength, (6,)
    """Find the direction in the span of the rows of `basis` about which the matches say least, without those that may be wrong."""
    y = np.linalg.eigh(basis @ information @ basis.T)[1][:, 0] @ basis
    strength, wrong = matches.strength(y)
    for _ in range(_ROUNDS):
        rest = information - matches.information(wrong)
        again = np.linalg.eigh(basis @ rest @ basis.T)[1][:, 0] @ basis
        found, wrong = matches.strength(again)
        if found >= strength:
            break
        strength, y = found, again
    return strength, y
