"""The true normals of a simulated scan, before or after voxelization."""

from __future__ import annotations

import numpy as np

from poli.data.simulate.places.place import Label
from poli.scan import Scan
from poli.voxels import voxel_numbers


def true_normals(scan: Scan, voxel: float = 0.0) -> np.ndarray:  # -> (N, 3), row by row as in voxel_downsample(scan, voxel)
    """Unit normals towards the sensor. The normal of a voxel is the direction of the mean normal of its returns.

    NaN where undefined: leaves have no common normal, and returns between two surfaces are on neither. A voxel has a normal if half
    of its returns have one.
    """
    sound = (scan.fields["mixed"] == 0) & (scan.fields["label"] != Label.LEAVES)
    normals = np.where(sound[:, None], scan.fields["normal"].astype(np.float64), 0.0)
    if voxel:
        voxels, first = voxel_numbers(scan.points, voxel)
        returns = np.bincount(voxels, minlength=len(first))
        share = np.bincount(voxels, sound, minlength=len(first)) / returns
        normals = np.stack([np.bincount(voxels, normals[:, a], minlength=len(first)) for a in range(3)], axis=1)
        sound = share >= 0.5
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.where(sound[:, None] & (length > 1e-9), normals / np.maximum(length, 1e-9), np.nan)
