"""The probability that the pose between two scans is right, from what the scans say about it.

Any two scans have a best pose. If it is right, the upright surfaces of each scan are found in the other, nothing stands where the
other sensor looked through, no different pose fits nearly as well, and the surfaces that agree determine the position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from poli.densification.samples import scan_field
from poli.densification.sampling import sample_field
from poli.errors import DegenerateError
from poli.kdtree.tree import KDTree
from poli.registration.presets import ScanPreset
from poli.registration.tuned import DIRECTIONS, IN_FRONT, LEAST, STANDING
from poli.registration.verify import CloudPair
from poli.se3 import inverse
from poli.voxels import voxel_numbers


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
