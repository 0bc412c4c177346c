"""How well a pose aligns two whole clouds: scores to choose between hypotheses, and the probability that the best one is right.

In sparse clouds, feature matches are few and mostly wrong, and a wrong pose may explain as many as the right one. All points
together are more reliable. Hypotheses are scored by the distance of the moved source to the target, the best are refined, and the
one with the best score after refinement is chosen.

Any two scans have a best pose. If it is right, the upright surfaces of each scan are found in the other, nothing stands where the
other sensor looked through, no different pose fits nearly as well, and the surfaces that agree determine the position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from poli.certify import solve
from poli.densification.samples import scan_field
from poli.densification.sampling import sample_field
from poli.errors import DegenerateError
from poli.kdtree.tree import KDTree
from poli.registration.presets import DIRECTIONS, IN_FRONT, LEAST, SAME_WAY, STANDING, THICKNESS, ScanPreset
from poli.se3 import inverse
from poli.voxels import voxel_numbers

# --- Hypotheses.


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


# --- The verdict on the pose between two scans.


class ScanSurface(NamedTuple):
    """The points of a scan used for registration: one per voxel."""

    points: np.ndarray  # (V, 3)
    normals: np.ndarray  # (V, 3) unit, toward the sensor
    rows: np.ndarray  # (V,) a row of the scan in the voxel, or the parent of a sample in it

    @property
    def standing(self) -> np.ndarray:  # (V,) bool
        """Which points are on upright surfaces such as walls and trunks."""
        return np.abs(self.normals[:, 2]) <= STANDING


def scan_surface(points: np.ndarray, preset: ScanPreset, name: str = "scan") -> ScanSurface:  # (N, 3)
    """Return the ellipsoid means and samples, with the normals of their ellipsoids, averaged per voxel."""
    of_scan = scan_field(points, preset.densify)
    if of_scan is None:
        raise DegenerateError(f"{name}: {len(points)} points are too few to register a scan")
    samples = sample_field(of_scan, points, preset.densify)
    normals = of_scan.field.oriented_normals(np.zeros(3))
    every_point = np.concatenate([of_scan.field.means, samples.points])
    every_normal = np.concatenate([normals, normals[samples.ellipsoids]])
    first_return = np.unique(of_scan.owners, return_index=True)[1]  # of each ellipsoid
    every_row = np.concatenate([of_scan.rows[first_return], samples.parents])
    near = np.einsum("ni,ni->n", every_point, every_point) <= preset.max_range**2
    if near.sum() < LEAST:
        raise DegenerateError(f"{name}: {near.sum()} points within {preset.max_range:g} m are too few to register a scan")
    every_point, every_normal, every_row = every_point[near], every_normal[near], every_row[near]
    voxels, first = voxel_numbers(every_point, preset.voxel)
    means, sums = _sums(voxels, every_point) / np.bincount(voxels)[:, None], _sums(voxels, every_normal)
    length = np.linalg.norm(sums, axis=1)
    clear = length > 0.0  # opposite normals in one voxel may cancel
    return ScanSurface(means[clear], sums[clear] / length[clear, None], every_row[first[clear]])


def _sums(groups: np.ndarray, values: np.ndarray) -> np.ndarray:  # (N,), (N, 3) -> (V, 3)
    return np.stack([np.bincount(groups, values[:, axis]) for axis in range(3)], axis=1)


class Evidence(NamedTuple):
    """Evidence for a pose between two scans. Shares are means of both directions, source to target and back."""

    agreement: float  # 0..1, share of the upright surfaces that the other scan has, facing the same way
    contradiction: float  # 0..1, square root of the share of surfaces in its field of view that the other sensor looked through
    margin: float  # 0..1, how much worse the best different pose fits
    hold: float  # 0..0.5, how well the surfaces that agree determine the position: 0 if they slide, as along a bare tunnel


# What more of each evidence says: for the pose, or against it.
SIGNS = Evidence(1, -1, 1, 1)


def evidence_of(
    source: ScanSurface,
    target: ScanSurface,
    T_target_source: np.ndarray,  # (4, 4)
    reach: float,  # meters: maximum distance between points of one surface
    margin: float,
    upright: bool = True,
) -> Evidence:
    """Collect the evidence for a pose. Unless the scans are upright, all surfaces count, not only the upright ones."""
    agreement, contradiction, hold = [], [], []
    for moved, seen, T in ((source, target, T_target_source), (target, source, inverse(T_target_source))):
        counted = moved.standing if upright else np.ones(len(moved.points), bool)
        points, normals = moved.points[counted], moved.normals[counted]
        _, agrees = CloudPair(points, normals, seen.points, seen.normals, KDTree(seen.points)).covered(T, reach)
        agreement.append(float(agrees.mean()) if len(agrees) else 0.0)
        contradiction.append(looked_through(moved.points @ T[:3, :3].T + T[:3, 3], seen.points, reach))
        across = normals[agrees][:, :2] if upright else normals[agrees]  # the height is determined by the ground
        hold.append(float(np.linalg.eigvalsh(across.T @ across)[0]) / max(len(across), 1))
    return Evidence(float(np.mean(agreement)), float(np.sqrt(np.mean(contradiction))), margin, float(np.mean(hold)))


def looked_through(points: np.ndarray, seen: np.ndarray, reach: float) -> float:  # (N, 3), (M, 3): in the frame of a sensor
    """Return the share of points, among those in its field of view, in front of the surfaces that the sensor at the origin saw."""
    cells, of_seen = np.unique(_cells(seen), return_inverse=True)
    nearest = np.full(len(cells), np.inf)
    np.minimum.at(nearest, of_seen, np.linalg.norm(seen, axis=1))
    mine = _cells(points)
    at = np.minimum(np.searchsorted(cells, mine), len(cells) - 1)
    visible = cells[at] == mine
    if not visible.any():
        return 0.0
    before = np.linalg.norm(points, axis=1) < IN_FRONT * nearest[at] - reach
    return float(before[visible].mean())


def _cells(points: np.ndarray) -> np.ndarray:  # (N, 3) -> (N,)
    """Return the number of the cell of directions in which each point is seen."""
    azimuth, elevation = np.arctan2(points[:, 1], points[:, 0]), np.arctan2(points[:, 2], np.hypot(points[:, 0], points[:, 1]))
    around, up = (np.floor(np.degrees(angle) / DIRECTIONS).astype(np.int64) for angle in (azimuth, elevation))
    return around * 1000 + up


def probability_of(evidence: Evidence, coefficients: Sequence[float]) -> float:
    """Return the probability that a pose is right, if as many pairs of scans show different places as the same place."""
    constant, *slopes = coefficients
    return float(1.0 / (1.0 + np.exp(-(constant + np.dot(slopes, evidence)))))
