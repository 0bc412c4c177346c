"""Which of several poses is right: the one under which the whole clouds lie on each other.

Matches of features are few and mostly wrong where points are sparse, and a wrong pose may explain as many as the right one. All
points together are not so easily fooled. A hypothesis is scored by how near the moved source comes to the target, the best are
refined, and the one that then scores best is believed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.certify import solve
from poli.errors import DegenerateError
from poli.estimation.neighbours import NeighbourIndex

_THICKNESS = 0.05  # variance of a surface across itself, against 1 along it: sparse points on curved surfaces are no thin planes


@dataclass(frozen=True)
class Surfaces:
    """Two clouds with their normals, and an index of the target."""

    source: np.ndarray  # (N, 3)
    source_normals: np.ndarray  # (N, 3)
    target: np.ndarray  # (M, 3)
    target_normals: np.ndarray  # (M, 3)
    index: NeighbourIndex

    def nearest(self, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (4, 4) -> (N,), (N,)
        """For every source point moved by `T` the nearest target point, and its distance."""
        found, distance = self.index.nearest(1, self.source @ T[:3, :3].T + T[:3, 3])
        return found[:, 0], distance[:, 0]

    def information(self, R: np.ndarray, rows: np.ndarray, found: np.ndarray) -> np.ndarray:  # -> (K, 3, 3)
        """GICP's weight of the pairs (source rows[i], target found[i]): the inverse of C_q + R C_p R', where every C is a plane
        across its normal. Scaled to 1 across the surface where the two normals agree."""
        n_p, n_q = self.source_normals[rows] @ R.T, self.target_normals[found]
        flat = n_p[:, :, None] * n_p[:, None, :] + n_q[:, :, None] * n_q[:, None, :]
        return 2.0 * _THICKNESS * np.linalg.inv(2.0 * np.eye(3) - (1.0 - _THICKNESS) * flat)


def overlap(surfaces: Surfaces, poses: np.ndarray, reach: float, most: int) -> np.ndarray:  # (H, 4, 4) -> (H,)
    """For every pose the mean over source points (at most `most` of them) of 1 - (distance to the target / reach)^2, no less than
    0 a point: truncated least squares again, over whole clouds. 1 where the clouds coincide."""
    points = spread(surfaces.source, most)
    moved = np.einsum("hij,nj->hni", poses[:, :3, :3], points) + poses[:, None, :3, 3]
    distance = surfaces.index.nearest(1, moved.reshape(-1, 3))[1].reshape(len(poses), len(points))
    return np.maximum(0.0, 1.0 - (distance / reach) ** 2).mean(axis=1)


def spread(points: np.ndarray, most: int) -> np.ndarray:  # (N, 3) -> (n, 3)
    """At most `most` of the points, evenly through their order."""
    return points[np.linspace(0, len(points) - 1, min(most, len(points))).astype(int)]


def distinct(poses: np.ndarray, scores: np.ndarray, points: np.ndarray, apart: float, most: int) -> np.ndarray:  # -> (h,) rows
    """The best poses that move the points to different places: `apart` (root mean square) from every better one."""
    mean = points.mean(axis=0)
    # |A p - B p|^2 summed over points, from their second moments alone.
    moments = np.einsum("ni,nj->ij", points - mean, points - mean) / len(points)
    centres = np.einsum("hij,j->hi", poses[:, :3, :3], mean) + poses[:, :3, 3]
    kept: list[int] = []
    for h in np.argsort(-scores, kind="stable"):
        turn = poses[kept, :3, :3] - poses[h, :3, :3]
        squared = np.einsum("kij,jl,kil->k", turn, moments, turn) + ((centres[kept] - centres[h]) ** 2).sum(axis=1)
        if (squared >= apart**2).all():
            kept.append(int(h))
            if len(kept) == most:
                break
    return np.array(kept)


def refine(surfaces: Surfaces, T: np.ndarray, reach: float, rounds: int = 10) -> np.ndarray:  # (4, 4) -> (4, 4)
    """ICP with GICP's weights, certified solves and soft matches: points beyond `reach` and normals that disagree do not pull."""
    for _ in range(rounds):
        found, distance = surfaces.nearest(T)
        cosine = np.einsum("ni,ni->n", surfaces.source_normals @ T[:3, :3].T, surfaces.target_normals[found])
        trust = np.maximum(0.0, 1.0 - (distance / reach) ** 2) ** 2 * np.maximum(0.0, cosine)
        rows = np.flatnonzero(trust > 0.0)
        information = surfaces.information(T[:3, :3], rows, found[rows]) * trust[rows, None, None]
        try:
            refined = solve(surfaces.source[rows], surfaces.target[found[rows]], information).T_target_source
        except DegenerateError:  # too little touches: leave the hypothesis as it is, others will score better
            return T
        step = surfaces.source @ (refined - T)[:3, :3].T + (refined - T)[:3, 3]
        T = refined
        if np.abs(step).max() < 0.01 * reach:
            break
    return T
