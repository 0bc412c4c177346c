"""Thin large maps for viewers: one point or ellipsoid per voxel of a size that leaves few enough."""

from __future__ import annotations

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.scan import Scan
from poli.voxels import VOXELS_REACH, check_reach, voxel_downsample, voxel_numbers

_LARGER = 1.1  # factor between the voxel sizes that are tried


def thin_points(scan: Scan, most: int) -> tuple[Scan, float | None]:
    """Return at most `most` points, each the mean of a voxel, and the size of the voxels in meters; None if all points remain."""
    size = voxel_for(scan.points, most)
    return (scan, None) if size is None else (voxel_downsample(scan.keep(), size), size)


def thin_field(field: Ellipsoids, most: int) -> tuple[Ellipsoids, float | None]:
    """Return at most `most` ellipsoids, each with the mean and covariance of all that are in its voxel, and the size of the voxels
    in meters; None if all ellipsoids remain. Merged ellipsoids cover the same surface; a subset would leave holes."""
    places = np.array(field.means)  # writable and contiguous: the types that the kernel is compiled for
    size = voxel_for(places, most)
    if size is None:
        return field, None
    voxels, first = voxel_numbers(places, size)
    count = np.bincount(voxels, minlength=len(first)).astype(np.float64)
    means = _sums(voxels, places, len(first)) / count[:, None]  # (n, 3)
    apart = places - means[voxels]
    spread = field.covariances + apart[:, :, None] * apart[:, None, :]
    covariances = (_sums(voxels, spread.reshape(-1, 9), len(first)) / count[:, None]).reshape(-1, 3, 3)
    normals = field.normals[first]  # which side faced the sensor
    return Ellipsoids.trusted(means, covariances, means + normals), size


def voxel_for(points: np.ndarray, most: int) -> float | None:  # (N, 3)
    """Return the smallest voxel size, to 10 %, that leaves at most `most` points; None if there are no more."""
    if len(points) <= most:
        return None
    reach = float(np.abs(points).max())
    low, high = reach / (0.5 * VOXELS_REACH), 2.0 * reach  # the largest has eight voxels in all
    check_reach(points, low)
    while high > _LARGER * low:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if len(voxel_numbers(points, middle)[1]) > most else (low, middle)
    return high


def _sums(groups: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:  # (N,), (N, c) -> (count, c)
    return np.stack([np.bincount(groups, column, count) for column in values.T], axis=1)
