"""Choose between pose hypotheses by how well they align the whole clouds.

In sparse clouds, feature matches are few and mostly wrong, and a wrong pose may explain as many as the right one. All points
together are more reliable. Hypotheses are scored by the distance of the moved source to the target, the best are refined, and the
one with the best score after refinement is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from poli.certify import solve
from poli.errors import DegenerateError
from poli.kdtree.tree import KDTree
from poli.registration.tuned import SAME_WAY, THICKNESS


@dataclass(frozen=True)
class CloudPair:
    """Two clouds with their normals, and an index of the target."""

    source: np.ndarray  # (N, 3)
    source_normals: np.ndarray  # (N, 3)
    target: np.ndarray  # (M, 3)
    target_normals: np.ndarray  # (M, 3)
    index: KDTree

    def thinned(self, max_points: int) -> CloudPair:
        """Return a copy with at most `max_points` source points, evenly distributed in space."""
        order = KDTree(self.source).leaf_order  # neighbors are adjacent in it, which also speeds up queries
        rows = order[np.linspace(0, len(order) - 1, min(max_points, len(order))).astype(int)]
        return replace(self, source=self.source[rows], source_normals=self.source_normals[rows])

    def nearest(self, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (4, 4) -> (N,), (N,)
        """Return the distance and index of the target point nearest to each source point moved by `T`."""
        distance, found = self.index.nearest(1, self.source @ T[:3, :3].T + T[:3, 3])
        return distance[:, 0], found[:, 0]

    def covered(self, T: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:  # (4, 4) -> (N,), (N,) bool
        """Return which source points moved by `T` have the target within `reach`, and which of those face the same way."""
        distance, found = self.nearest(T)
        near = distance <= reach
        cosine = np.einsum("ni,ni->n", self.source_normals @ T[:3, :3].T, self.target_normals[found])
        return near, near & (cosine > SAME_WAY)

    def information(self, R: np.ndarray, rows: np.ndarray, found: np.ndarray) -> np.ndarray:  # -> (K, 3, 3)
        """Return GICP's weights of the pairs (source rows[i], target found[i]): the inverse of C_q + R C_p R', where every C is a
        plane across its normal. Scaled to 1 across the surface if the two normals agree."""
        n_p, n_q = self.source_normals[rows] @ R.T, self.target_normals[found]
        flat = n_p[:, :, None] * n_p[:, None, :] + n_q[:, :, None] * n_q[:, None, :]
        return 2.0 * THICKNESS * np.linalg.inv(2.0 * np.eye(3) - (1.0 - THICKNESS) * flat)


def closeness(surfaces: CloudPair, poses: np.ndarray, reach: float) -> np.ndarray:  # (H, 4, 4) -> (H,)
    """Return a coarse score of each pose: the mean over source points of max(0, 1 - (distance to the target / reach)^2), which is
    truncated least squares over the whole cloud."""
    moved = np.einsum("hij,nj->hni", poses[:, :3, :3], surfaces.source) + poses[:, None, :3, 3]
    distance = surfaces.index.nearest(1, moved.reshape(-1, 3))[0].reshape(moved.shape[:2])
    return np.maximum(0.0, 1.0 - (distance / reach) ** 2).mean(axis=1)


def fit(surfaces: CloudPair, T: np.ndarray, reach: float, across: float) -> float:  # (4, 4)
    """Return a finer score for refined poses: the same, of the distance across the surface, which sparse points measure far better
    than the distance between points. It distinguishes the sides of nearly symmetric objects."""
    distance, found = surfaces.nearest(T)
    d = surfaces.source @ T[:3, :3].T + T[:3, 3] - surfaces.target[found]
    by_source = np.einsum("ni,ni->n", d, surfaces.source_normals @ T[:3, :3].T)
    by_target = np.einsum("ni,ni->n", d, surfaces.target_normals[found])
    near = np.maximum(0.0, 1.0 - 0.5 * (by_source**2 + by_target**2) / across**2)
    return float(np.where(distance <= reach, near, 0.0).mean())


def distinct(poses: np.ndarray, scores: np.ndarray, points: np.ndarray, apart: float, max_poses: int) -> np.ndarray:  # -> (h,) rows
    """Return the best poses that differ: each moves the points at least `apart` (root mean square) from every better one."""
    mean = points.mean(axis=0)
    moments = (points - mean).T @ (points - mean) / len(points)
    # The mean of |A p - B p|^2 is tr((A - B) moments (A - B)') plus the squared step between the centroids, for all pairs at once.
    rotations = poses[:, :3, :3]
    centers = rotations @ mean + poses[:, :3, 3]
    turned = 2.0 * np.trace(moments) - 2.0 * (rotations @ moments).reshape(-1, 9) @ rotations.reshape(-1, 9).T
    squared = turned + ((centers[:, None] - centers[None]) ** 2).sum(axis=2)
    kept: list[int] = []
    for h in np.argsort(-scores, kind="stable"):
        if (squared[h, kept] >= apart**2).all():
            kept.append(int(h))
            if len(kept) == max_poses:
                break
    return np.array(kept)


def refine(surfaces: CloudPair, T: np.ndarray, reach: float, rounds: int = 10) -> np.ndarray:  # (4, 4) -> (4, 4)
    """Refine a pose by ICP with GICP's weights and certified solves. Soft matches: weights fall to 0 at `reach` and 90 degrees."""
    for _ in range(rounds):
        distance, found = surfaces.nearest(T)
        cosine = np.einsum("ni,ni->n", surfaces.source_normals @ T[:3, :3].T, surfaces.target_normals[found])
        trust = np.maximum(0.0, 1.0 - (distance / reach) ** 2) ** 2 * np.maximum(0.0, cosine)
        rows = np.flatnonzero(trust > 0.0)
        information = surfaces.information(T[:3, :3], rows, found[rows]) * trust[rows, None, None]
        try:
            refined = solve(surfaces.source[rows], surfaces.target[found[rows]], information).T_target_source
        except DegenerateError:  # too little overlap: keep the hypothesis as it is, others will score better
            return T
        step = surfaces.source @ (refined - T)[:3, :3].T + (refined - T)[:3, 3]
        T = refined
        if np.abs(step).max() < 0.01 * reach:
            break
    return T
