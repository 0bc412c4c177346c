"""Scans whose poses are known, as one world: their ellipsoids fused, and the way of the sensor through them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from poli.data.datasets import Dataset
from poli.ellipsoids import Ellipsoids
from poli.scan import Scan
from poli.se3 import check_pose
from poli.show.estimated import Estimates
from poli.tasks.odometry.ellipsoid_map import EllipsoidMap

_LEAST = 64  # points of a scan that is worth fusing
_FARTHEST = 120.0  # meters: returns beyond tell little, and a world of them is mostly air
_EVERYTHING = 1e9  # meters: nothing is forgotten
_FINEST = 0.05  # meters, of the world's cells


@dataclass(frozen=True, eq=False)
class Moment:
    """One scan of a series."""

    number: int  # in the data
    stamp: int | None  # nanoseconds
    scan: Scan
    field: Ellipsoids | None  # None where the scan has too few points
    T_world_scan: np.ndarray | None  # (4, 4); None where it is not known


def spread(count: int, most: int) -> np.ndarray:
    """At most so many of the numbers below `count`, evenly spaced, with the first and the last."""
    return np.arange(count) if count <= most else np.unique(np.linspace(0, count - 1, most).round().astype(int))


def moments(scans: Dataset, rows: np.ndarray, poses: np.ndarray | None, how: Estimates, first: int = 0) -> Iterator[Moment]:
    """The scans `first + rows` of a dataset, each with its ellipsoids; `poses` (M, 4, 4) are of the scans from `first` on."""
    for row in rows.tolist():
        scan = _within_reach(scans[first + row])
        cloud = how.cloud(scan) if len(scan) >= _LEAST else scan
        field = how.field(cloud) if len(cloud) >= _LEAST else None
        pose = None if poses is None else check_pose(poses[row], f"pose {row}")
        yield Moment(first + row, scan.stamp, scan, field, pose)


def fused_world(series: Iterator[Moment], how: Estimates) -> tuple[Ellipsoids, int]:
    """One ellipsoid in each cell that a scan saw, in the world's frame; and from how many scans."""
    world = EllipsoidMap(max(how.size, _FINEST), _EVERYTHING)
    fused = 0
    for moment in series:
        if moment.field is not None and moment.T_world_scan is not None:
            world.add(moment.field, moment.T_world_scan)
            fused += 1
    return world.field, fused


def _within_reach(scan: Scan) -> Scan:
    scan = scan.clean()
    near = (scan.points.astype(np.float64) ** 2).sum(axis=1) <= _FARTHEST**2
    return scan if near.all() else scan.select(near)
