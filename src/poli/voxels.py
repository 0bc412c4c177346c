"""Voxel grids: downsampling, and voxel numbers of points by hashing."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from poli.errors import InputError
from poli.kernel import kernel
from poli.options import real_number
from poli.scan import Scan, ScanLike

VoxelPick = Literal["mean", "first"]
VOXELS_REACH = 2**20  # voxels from the origin to either side; three coordinates fit into one 64-bit key
_TIE = 1e-6  # relative, of squared distances to the mean: a thousand times their rounding error


def voxel_downsample(scan: ScanLike, size: float, pick: VoxelPick = "mean") -> Scan:
    """Return one point per voxel of `size` meters, in the order of the voxels' first points.

    `mean` is the average of the points in a voxel, as in Open3D and small_gicp. It receives the fields of the point nearest to the
    average, so that rings and normals are measured ones. If several points are equally near, which is always so for two, the one
    with the smallest (x, y, z) is used. `first` is the first point in a voxel, as in KISS-ICP, and depends on the point order.
    """
    size = real_number(size, "size", "a positive number", above=True)
    if pick not in get_args(VoxelPick):
        raise InputError(f"pick is {pick!r}; expected one of {', '.join(get_args(VoxelPick))}")
    scan = Scan.of(scan).clean()
    if pick == "mean" or not len(scan):
        return voxel_means(scan, size)
    check_reach(scan.points, size)
    return scan.select(voxel_numbers(scan.points, size)[1])


def voxel_means(scan: Scan, size: float) -> Scan:
    """As `voxel_downsample`, for a scan that is known to be clean: checking a scan of 64 beams takes as long as numbering it."""
    if not len(scan):
        return scan
    check_reach(scan.points, size)
    voxels, first = voxel_numbers(scan.points, size)
    means, nearest = _means(scan.points, voxels, len(first))
    fields = {name: values[nearest] for name, values in scan.fields.items()}
    return Scan(means.astype(scan.points.dtype), fields, scan.stamp, scan.dropped)


def check_reach(points: np.ndarray, size: float) -> None:  # (N, 3), finite
    """Raise if the three coordinates of a voxel would not fit into one key."""
    with np.errstate(over="ignore"):
        reach = float(np.abs(points).max(initial=0.0)) / np.float64(size)
    if not reach < VOXELS_REACH:
        middle = 0.5 * points.min(axis=0).astype(np.float64) + 0.5 * points.max(axis=0)
        spread = np.abs(points.astype(np.float64) - middle).max()
        if spread < VOXELS_REACH * np.float64(size):  # map coordinates instead of sensor coordinates
            raise InputError(
                f"voxels of {size} m: points lie {np.linalg.norm(middle) / 1000.0:.0f} km from the origin; "
                "subtract the sensor's position first"
            )
        raise InputError(
            f"voxels of {size} m: the scan extends {reach:.0f} voxels, more than {VOXELS_REACH}; use larger voxels or crop it"
        )


@kernel(inline="always")
def voxel_key(point, size):
    """Return the three coordinates of a point's voxel as one integer."""
    key = np.int64(0)
    for a in range(3):
        key = key * (2 * VOXELS_REACH) + np.int64(np.floor(np.float64(point[a]) / size)) + VOXELS_REACH
    return key


@kernel(inline="always")
def find_slot(keys, numbers, key):
    """Return the slot of a key in a table of 2^n slots: the first slot, starting at its hash, that has the key or is empty (-1)."""
    last = len(numbers) - 1
    slot = ((key ^ (key >> 29)) * np.int64(-7046029254386353131)) >> 20 & last
    while numbers[slot] >= 0 and keys[slot] != key:
        slot = (slot + 1) & last
    return slot


@kernel
def fill_slots(keys, numbers, held):
    """Enter the keys of rows 0, 1, ... into an empty table of 2^n slots."""
    for row in range(len(held)):
        slot = find_slot(keys, numbers, held[row])
        keys[slot], numbers[slot] = held[row], row


@kernel
def voxel_numbers(points, size):
    """Number the voxels in order of appearance. Return the voxel of each point (N,) and the first point of each voxel.

    Uses hashing: one pass, no sorting.
    """
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
    """Return the mean of the points in each voxel, and the index of the point nearest to it."""
    means, members = np.zeros((count, 3)), np.zeros(count, np.int32)
    for i in range(len(points)):
        members[voxels[i]] += 1
        for a in range(3):
            means[voxels[i], a] += points[i, a]
    for v in range(count):
        for a in range(3):
            means[v, a] /= members[v]
    nearest, least, squared = np.full(count, -1, np.int32), np.full(count, np.inf), np.empty(len(points))
    for i in range(len(points)):
        v = voxels[i]
        squared[i] = (points[i, 0] - means[v, 0]) ** 2 + (points[i, 1] - means[v, 1]) ** 2 + (points[i, 2] - means[v, 2]) ** 2
        least[v] = min(least[v], squared[i])
    for i in range(len(points)):
        v = voxels[i]
        # Ties differ by rounding error, about 1e-16 of the coordinates over the voxel's size: at most 1e-9 within VOXELS_REACH.
        if squared[i] <= (1.0 + _TIE) * least[v] and (nearest[v] < 0 or _before(points[i], points[nearest[v]])):
            nearest[v] = i
    return means, nearest


@kernel(inline="always")
def _before(a, b):
    return a[0] < b[0] or (a[0] == b[0] and (a[1] < b[1] or (a[1] == b[1] and a[2] < b[2])))
