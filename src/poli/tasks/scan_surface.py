"""The surface of a scan for registration: ellipsoid means and samples with normals, one point per voxel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from poli.errors import DegenerateError
from poli.tasks.densify.sampling import sample_field, scan_field
from poli.tasks.scan_presets import ScanPreset
from poli.voxels import voxel_numbers

_STANDING = 0.5  # maximum |z| of the normal of an upright surface
_LEAST = 16  # minimum number of points to search for a pose


class ScanSurface(NamedTuple):
    """The points of a scan used for registration: one per voxel."""

    points: np.ndarray  # (V, 3)
    normals: np.ndarray  # (V, 3) unit, toward the sensor
    rows: np.ndarray  # (V,) a row of the scan in the voxel, or the parent of a sample in it

    @property
    def standing(self) -> np.ndarray:  # (V,) bool
        """Which points are on upright surfaces such as walls and trunks."""
        return np.abs(self.normals[:, 2]) <= _STANDING


def scan_surface(points: np.ndarray, preset: ScanPreset, name: str = "scan") -> ScanSurface:  # (N, 3)
    """Return the ellipsoid means and samples, with the normals of their ellipsoids, averaged per voxel."""
    of_scan = scan_field(points, preset.densify)
    if of_scan is None:
        raise DegenerateError(f"{name}: {len(points)} points are too few to register a scan")
    samples = sample_field(of_scan, points, preset.densify)
    normals = of_scan.field.oriented_normals(np.zeros(3))
    every_point = np.concatenate([of_scan.field.means, samples.points])
    every_normal = np.concatenate([normals, normals[samples.ellipsoids]])
    every_row = np.concatenate([of_scan.rows[of_scan.members[of_scan.first]], samples.parents])
    near = np.einsum("ni,ni->n", every_point, every_point) <= preset.max_range**2
    if near.sum() < _LEAST:
        raise DegenerateError(f"{name}: {near.sum()} points within {preset.max_range:g} m are too few to register a scan")
    every_point, every_normal, every_row = every_point[near], every_normal[near], every_row[near]
    voxels, first = voxel_numbers(every_point, preset.voxel)
    means, sums = _sums(voxels, every_point) / np.bincount(voxels)[:, None], _sums(voxels, every_normal)
    length = np.linalg.norm(sums, axis=1)
    clear = length > 0.0  # opposite normals in one voxel may cancel
    return ScanSurface(means[clear], sums[clear] / length[clear, None], every_row[first[clear]])


def _sums(groups: np.ndarray, values: np.ndarray) -> np.ndarray:  # (N,), (N, 3) -> (V, 3)
    return np.stack([np.bincount(groups, values[:, axis]) for axis in range(3)], axis=1)
