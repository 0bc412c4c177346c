"""What an alignment leaves open: motions that no surface resists, such as that along a corridor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_FACING = 0.5  # a surface resists a motion if it faces it within 60 degrees; what resists less is noise in its normal
_AGREEING = 0.9  # cosine of the two normals of a match; where they differ more, one of them is wrong, and counts for no direction
_LEVER = 1.0  # meters from the axis: nearer surfaces say little about a rotation
_LEAST_SHARE = 0.01  # of the weight of all matches that must resist
_LEAST_MATCHES = 10.0


@dataclass(frozen=True, eq=False)
class Degeneracy:
    """Strength of the pose in six directions: the share of the matches' weight that resists a motion along each.

    Directions are tangents (rotation, translation) of the source's frame: three pure rotations, three pure translations.
    """

    directions: np.ndarray  # (6, 6), a row each
    shares: np.ndarray  # (6,)
    weak: np.ndarray  # (6,) bool

    @property
    def any(self) -> bool:
        return bool(self.weak.any())

    @property
    def free(self) -> np.ndarray:  # (6, k)
        """A basis of the motions that are well held."""
        return self.directions[~self.weak].T

    def __str__(self) -> str:
        if not self.any:
            return "every direction is held"
        said = []
        for direction, weak in zip(self.directions, self.weak, strict=True):
            if weak:
                turns = bool(np.abs(direction[:3]).max() > 0)
                x, y, z = direction[:3] if turns else direction[3:]
                said.append(f"{'turning about' if turns else 'moving along'} ({x:+.2f}, {y:+.2f}, {z:+.2f})")
        return "nothing resists " + ", ".join(said)


def degeneracy(
    points: np.ndarray,  # (K, 3) matched source points
    own_normals: np.ndarray,  # (K, 3) of theirs
    normals: np.ndarray,  # (K, 3) of the surfaces that they lie on, in the source's frame
    weights: np.ndarray,  # (K,)
) -> Degeneracy:
    """The directions are the principal ones of the normals (translations) and of the levers p x n (rotations). As in X-ICP, not
    their eigenvalues decide, which noise in thousands of normals adds up to anything, but how much faces each direction."""
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
