"""Experimental: refine a pose by ICP whose residuals are taken from quadrics instead of planes.

For a source point moved to x and its nearest target point q, with u the part of x - q within the tangent plane, the surface at x is
not q + u but q + u + h_q(u) n_q, where h_q is the height of the target's quadric. The source's quadric says the same of q, at -u.
The residual

    d = q + (h_q(u) n_q - h_p(-u) R n_p) / 2 - x

uses both. It enters the certified solver with the weights of GICP, (C_q + R C_p R')^-1, and the Cauchy kernel. Matches and heights
are those of the previous pose. docs/results/quadric_icp.md says where it helps.
"""

from __future__ import annotations

import numpy as np

from poli.certify import CertifiedPose, solve
from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.kdtree.tree import KDTree
from poli.se3 import check_pose
from poli.validation import real_number, whole_number

_ROBUST = 3.0  # standard deviations, scale of the Cauchy kernel
_STILL = 1e-6  # of a pose's entries: smaller changes end the iteration


def quadric_icp(
    source: Ellipsoids,
    target: Ellipsoids,
    guess: np.ndarray | None = None,  # (4, 4) T_target_source
    max_distance: float = 2.0,
    rounds: int = 30,
    curved: bool = True,
) -> CertifiedPose:
    """Return the pose near `guess` that aligns two fields with curvature; with `curved=False`, their planes instead.

    The result is certified optimal for the last matches, not over all matches."""
    real_number(max_distance, "max_distance", "a positive number of meters", above=True)
    whole_number(rounds, "rounds", least=1)
    T = np.eye(4) if guess is None else check_pose(guess, "guess")
    if curved:
        source.second_order, target.second_order  # noqa: B018  (raises if there is none)
    index, found = KDTree(target.means), None
    for _ in range(rounds):
        R = T[:3, :3]
        moved = source.means @ R.T + T[:3, 3]
        distance, nearest = index.nearest(1, moved)
        rows = np.flatnonzero(distance[:, 0] <= max_distance)
        if len(rows) < 3:
            near = f"{len(rows)} points of the source are within {max_distance:g} m of the target"
            raise InputError(f"{near}; a better guess is needed")
        p, q = source.select(rows), target.select(nearest[rows, 0])
        ends = q.means + (_bent(p, q, moved[rows] - q.means, R) if curved else 0.0)
        information = np.linalg.inv(q.covariances + R @ p.covariances @ R.T)
        d = ends - moved[rows]
        deviation = np.einsum("ni,nij,nj->n", d, information, d)
        found = solve(p.means, ends, information / (1.0 + deviation / _ROBUST**2)[:, None, None])
        still = np.abs(found.T_target_source - T).max() < _STILL
        T = found.T_target_source
        if still:
            break
    assert found is not None
    return found


def _bent(p: Ellipsoids, q: Ellipsoids, offset: np.ndarray, R: np.ndarray) -> np.ndarray:  # (N, 3) x - q -> (N, 3)
    """Return how far the surfaces between matched points are from their planes."""
    normals = p.normals @ R.T
    along_q = offset - np.einsum("ni,ni->n", offset, q.normals)[:, None] * q.normals
    along_p = -offset + np.einsum("ni,ni->n", offset, normals)[:, None] * normals
    h_q, h_p = q.second_order.height_at(along_q), p.second_order.height_at(along_p @ R)
    return 0.5 * (h_q[:, None] * q.normals - h_p[:, None] * normals)
