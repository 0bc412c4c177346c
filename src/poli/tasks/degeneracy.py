"""Degenerate directions of an alignment: motions that no surface constrains, such as along a corridor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_FACING = 0.5  # a surface constrains a motion within 60 degrees of its normal; beyond that, noise in the normal dominates
_AGREEING = 0.9  # cosine of the two normals of a match; if they differ more, one is wrong and the match is not counted
_LEVER = 1.0  # meters from the axis; nearer surfaces constrain a rotation weakly
_LEAST_SHARE = 0.01  # of the weight of all matches; directions constrained by less are weak
_LEAST_MATCHES = 10.0


@dataclass(frozen=True, eq=False)
class Degeneracy:
    """How well the pose is constrained in six directions: the share of the matches' weight that constrains each.

    Directions are tangents (rotation, translation) in the source frame: three pure rotations, three pure translations.
    """

    directions: np.ndarray  # (6, 6), one per row
    shares: np.ndarray  # (6,)
    weak: np.ndarray  # (6,) bool

    @property
    def any(self) -> bool:
        return bool(self.weak.any())

    @property
    def free(self) -> np.ndarray:  # (6, k)
        """Basis of the well-constrained motions."""
        return self.directions[~self.weak].T

    def __str__(self) -> str:
        if not self.any:
            return "every direction is constrained"
        said = []
        for direction, weak in zip(self.directions, self.weak, strict=True):
            if weak:
                turns = bool(np.abs(direction[:3]).max() > 0)
                x, y, z = direction[:3] if turns else direction[3:]
                said.append(f"{'turning about' if turns else 'moving along'} ({x:+.2f}, {y:+.2f}, {z:+.2f})")
        return "unconstrained: " + ", ".join(said)


def degeneracy(
    points: np.ndarray,  # (K, 3) matched source points
    own_normals: np.ndarray,  # (K, 3) of these points
    normals: np.ndarray,  # (K, 3) of the matched target surfaces, in the source frame
    weights: np.ndarray,  # (K,)
) -> Degeneracy:
    """Return how well the matches constrain the pose along the principal directions of the normals (translations) and of the levers
    p x n (rotations). As in X-ICP, a direction is judged by the matches that face it, not by its eigenvalue, which noise in
    thousands of normals can make arbitrarily large."""
    weights = weights * (np.abs(np.einsum("ij,ij->i", own_normals, normals)) >= _AGREEING)
    levers = np.cross(points, normals)
    levers /= np.maximum(np.linalg.norm(levers, axis=1, keepdims=True), _LEVER)
    total = float(weights.sum())
    directions, shares, weak = np.zeros((6, 6)), np.zeros(6), np.ones(6, bool)
    for first, rows in ((0, levers), (3, normals)):
        axes = np.linalg.eigh((rows * weights[:, None]).T @ rows)[1].T
        directions[first : first + 3, first : first + 3] = axes
        resists = np.abs(rows @ axes.T) >= _FACING  # (K, 3)
        held = weights @ resists
        shares[first : first + 3] = held / max(total, 1e-12)
        weak[first : first + 3] = (shares[first : first + 3] < _LEAST_SHARE) | (resists.sum(axis=0) < _LEAST_MATCHES)
    return Degeneracy(directions, shares, weak)
