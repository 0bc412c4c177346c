"""The voxel grids of two scans, as an input of the sizes.

Scans are usually voxelized before they are matched, each in a grid that starts at its sensor. If the sensor moved by whole voxels,
the two grids coincide, voxels hold the same patches of the surface, and their means differ by little. If it moved by half a voxel
more, every mean lies between two of the other scan. With voxels of 1 m, the median of d'(2C)^-1 d differs by a factor of three
between the two, for the same scene, motion and C. The sizes therefore know the shift, along each axis of an ellipsoid.
"""

from __future__ import annotations

import math

import numpy as np

from poli.kernel import kernel
from poli.voxels import VOXELS_REACH, find_slot, voxel_key

GRID_INPUTS = 2  # of a scan: whether its grid is known, and its voxels
SHIFT_INPUTS = 3  # of a point: the shift along each axis of its ellipsoid
_TYPICAL = 0.5  # meters
# Sizes that people use: 3, 2.9, ... 1, 0.95, ... 0.1 meters. The first that fits is the right one: its fractions fit as well.
_SIZES = np.array([*range(300, 100, -10), *range(100, 5, -5)]) / 100.0
_FEW = 1024  # points that are tried first
_SHARED, _SHIFTED = 0.002, 0.02  # share of points in an occupied voxel: at most, by rounding; at least, in a grid that is shifted


def grid_inputs(voxel: float | None) -> np.ndarray:  # -> (2,)
    """Return whether there is a grid, and the logarithm of its voxels; zeros without one."""
    return np.array([1.0, math.log(voxel / _TYPICAL)]) if voxel else np.zeros(GRID_INPUTS)


def grid_shifts(
    voxel: float | None, T: np.ndarray, points: np.ndarray, origin: np.ndarray | float = 0.0
) -> np.ndarray:  # (4, 4), (N, 3), (3,) -> (N, 3)
    """Return how far the grids of two scans are shifted at each point, in voxels, from -1/2 to 1/2; zeros without a grid.

    `T` is the pose of the other scan in the frame of `points`, and `origin` where its grid starts, in its own frame. A point x lies
    at y = R'(x - t) in the other scan's frame, and y - origin - x is the shift, whose whole voxels do not matter.
    """
    if not voxel:
        return np.zeros((len(points), 3))
    shifts = ((points - T[:3, 3]) @ T[:3, :3] - origin - points) / voxel
    return shifts - np.round(shifts)


def voxel_of(points: np.ndarray) -> float | None:  # (N, 3)
    """Return the size of the voxels of points that were voxelized in a grid that starts at the origin, or None.

    It is the largest common size whose voxels hold one point each, if those of a grid shifted by half a voxel do not: voxels that
    are smaller than the distances of the points hold one each in any grid. A grid that starts elsewhere (Open3D's) is not found.
    """
    if not len(points) or np.abs(points).max() >= VOXELS_REACH * _SIZES[-1]:
        return None
    few = points[:_FEW]
    for size in _SIZES:
        if all(_shared(part, size) <= _SHARED * len(part) for part in (few, points)):
            return float(size) if _shared(points + 0.5 * size, size) >= _SHIFTED * len(points) else None
    return None


@kernel
def _shared(points, size):
    """Count the points in voxels that an earlier point occupies."""
    slots = 16
    while slots < 2 * len(points):
        slots *= 2
    keys, numbers = np.empty(slots, np.int64), np.full(slots, -1, np.int32)
    shared = 0
    for i in range(len(points)):
        key = voxel_key(points[i], size)
        slot = find_slot(keys, numbers, key)
        if numbers[slot] >= 0:
            shared += 1
        keys[slot], numbers[slot] = key, i
    return shared
