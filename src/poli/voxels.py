"""One point a voxel: what every LiDAR pipeline does to a scan before it looks for neighbours."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from poli.arrays import real_number
from poli.errors import InputError
from poli.kernel import kernel
from poli.scan import Scan, ScanLike

VoxelPick = Literal["mean", "first"]
VOXELS_REACH = 2**20  # from the middle to a side; three sides in one 64-bit key


def voxel_downsample(scan: ScanLike, size: float, pick: VoxelPick = "mean") -> Scan:
    """One point for each voxel of `size` metres, in the order of the voxels' first returns.

    `mean` is the average of the voxel's points (as Open3D and small_gicp do), with the fields of the return nearest to it, so that
    a ring or a normal stays one that was measured; `first` is the voxel's first return as it is (as KISS-ICP does).
    """
    size = real_number(size, "size", "a positive number", above=True)
    if pick not in get_args(VoxelPick):
        raise InputError(f"pick is {pick!r}; expected one of {', '.join(get_args(VoxelPick))}")
    scan = Scan.of(scan).clean()
    if not len(scan):
        return scan
    check_reach(scan.points, size)
    voxels, first = voxel_numbers(scan.points, size)
    if pick == "first":
        return scan.select(first)
    means, nearest = _means(scan.points, voxels, len(first))
    return Scan(means.astype(scan.points.dtype), scan.select(nearest).fields, scan.stamp, scan.dropped)


def check_reach(points: np.ndarray, size: float) -> None:  # (N, 3), finite
    """An error where a voxel's three numbers would not fit into one key."""
    reach = np.abs(points).max(initial=0.0) / size
    if not reach < VOXELS_REACH:
        middle = points.mean(axis=0, dtype=np.float64)
        if np.abs(points - middle).max() / size < VOXELS_REACH:  # coordinates of a map, not of a sensor
            raise InputError(
                f"voxels of {size} m: points lie {np.linalg.norm(middle) / 1000.0:.0f} km from the origin; subtract the sensor's "
                "position first"
            )
        raise InputError(
            f"voxels of {size} m: the scan reaches {reach:.0f} voxels far, more than {VOXELS_REACH}; take larger voxels or crop it"
        )


@kernel(inline="always")
def voxel_key(point, size):
    """The three numbers of a point's voxel as one."""
    key = np.int64(0)
    for a in range(3):
        key = key * (2 * VOXELS_REACH) + np.int64(np.floor(np.float64(point[a]) / size)) + VOXELS_REACH
    return key


@kernel(inline="always")
def find_slot(keys, numbers, key):
    """Where a key stands in a table of 2^n slots, or where it belongs: the first slot from its hash on with the key, or with -1."""
    last = len(numbers) - 1
    slot = ((key ^ (key >> 29)) * np.int64(-7046029254386353131)) >> 20 & last
    while numbers[slot] >= 0 and keys[slot] != key:
        slot = (slot + 1) & last
    return slot


@kernel
def voxel_numbers(points, size):
    """The voxel of each point (N,), numbered as they first appear, and their first points. By hashing: one pass, no sorting."""
    slots = 16
    while slots < 2 * len(points):
        slots *= 2
    keys, numbers = np.empty(slots, np.int64), np.full(slots, -1, np.int32)
    voxels, first = np.empty(len(points), np.int32), np.empty(len(points), np.int32)
    count = 0
    for i in range(len(points)):
        key = voxel_key(points[i], size)
        slot = find_slot(keys, numbers, key)
        if numbers[slot] < 0:
            keys[slot], numbers[slot] = key, count
            first[count] = i
            count += 1
        voxels[i] = numbers[slot]
    return voxels, first[:count].copy()


@kernel
def _means(points, voxels, count):
    """The mean of each voxel's points, and which of them is nearest to it."""
    means, members = np.zeros((count, 3)), np.zeros(count, np.int32)
    for i in range(len(points)):
        members[voxels[i]] += 1
        for a in range(3):
            means[voxels[i], a] += points[i, a]
    for v in range(count):
        for a in range(3):
            means[v, a] /= members[v]
    nearest, least = np.empty(count, np.int32), np.full(count, np.inf)
    for i in range(len(points)):
        v = voxels[i]
        squared = (points[i, 0] - means[v, 0]) ** 2 + (points[i, 1] - means[v, 1]) ** 2 + (points[i, 2] - means[v, 2]) ** 2
        if squared < least[v]:
            least[v], nearest[v] = squared, i
    return means, nearest
