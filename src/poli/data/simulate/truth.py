"""The true normals of a simulated scan, also after it was voxelized."""

from __future__ import annotations

import numpy as np

from poli.data.simulate.places.place import Label
from poli.scan import Scan
from poli.voxels import voxel_numbers


def true_normals(scan: Scan, voxel: float = 0.0) -> np.ndarray:  # -> (N, 3), row by row as in voxel_downsample(scan, voxel)
    """Unit normals towards the sensor. A voxel's point stands for all of its returns, and its normal is their mean's direction.

    NaN where there is none: leaves point everywhere, and returns between two surfaces lie on neither. A voxel has one if half
    of its returns have.
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
