"""One point a voxel: what every LiDAR pipeline does to a scan before it looks for neighbours."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from poli.arrays import real_number
from poli.errors import InputError
from poli.scan import Scan, ScanLike

VoxelPick = Literal["mean", "first"]
_CELLS = 2**20  # a side; three of them in one 64-bit key


def voxel_downsample(scan: ScanLike, size: float, pick: VoxelPick = "mean") -> Scan:
    """One point for each voxel of `size` metres, in the order of the voxels' first returns.

    `mean` is the average of the voxel's points (as Open3D and small_gicp do), with the fields of the return nearest to it, so that
    a ring or a normal stays one that was measured; `first` is the voxel's first return as it is (as KISS-ICP does).
    """
    size = real_number(size, "size", "a positive number", above=True)
    if pick not in get_args(VoxelPick):
        raise InputError(f"pick is {pick!r}; expected one of {', '.join(get_args(VoxelPick))}")
    scan = scan if isinstance(scan, Scan) else Scan(scan)
    scan = scan.clean()
    if not len(scan):
        return scan
    cells = np.floor(scan.points.astype(np.float64) / size)
    cells -= cells.min(axis=0)
    if cells.max() >= _CELLS:
        raise InputError(f"voxels of {size} m: the scan is more than {_CELLS} voxels wide; take larger voxels or crop it")
    keys = cells.astype(np.int64) @ np.array([_CELLS * _CELLS, _CELLS, 1])
    _, first, voxel = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    if pick == "first":
        return scan.select(first[order])
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    voxel = rank[voxel]
    counts = np.bincount(voxel)
    means = np.stack([np.bincount(voxel, scan.points[:, axis]) for axis in range(3)], axis=1) / counts[:, None]
    far = ((scan.points - means[voxel]) ** 2).sum(axis=1)
    by_voxel = np.lexsort((far, voxel))
    nearest = by_voxel[np.concatenate([[0], np.cumsum(counts)[:-1]])]
    chosen = scan.select(nearest)
    return Scan(means.astype(scan.points.dtype), chosen.fields, scan.stamp, scan.dropped)
