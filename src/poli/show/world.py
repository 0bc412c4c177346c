"""Fuse the ellipsoids of scans with known poses into one world."""

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

_LEAST = 64  # minimum points of a scan to fuse
FARTHEST = 120.0  # meters: farther returns are sparse and would mostly add empty space
_EVERYTHING = 1e9  # meters: keep all cells
_FINEST = 0.05  # meters, smallest cell size


@dataclass(frozen=True, eq=False)
class Moment:
    """One scan of a series."""

    number: int  # index in the dataset
    stamp: int | None  # nanoseconds
    scan: Scan
    field: Ellipsoids | None  # None if the scan has too few points
    T_world_scan: np.ndarray | None  # (4, 4); None if unknown
    cloud: Scan | None = None  # the points that the ellipsoids belong to


def spread(count: int, most: int) -> np.ndarray:
    """At most `most` evenly spaced indices below `count`, including the first and the last."""
    return np.arange(count) if count <= most else np.unique(np.linspace(0, count - 1, most).round().astype(int))


def moments(scans: Dataset, rows: np.ndarray, poses: np.ndarray | None, how: Estimates, first: int = 0) -> Iterator[Moment]:
    """Yield the scans `first + rows` of a dataset with their ellipsoids; `poses` (M, 4, 4) start at scan `first`."""
    for row in rows.tolist():
        scan = within_reach(scans[first + row])
        cloud = how.cloud(scan) if len(scan) >= _LEAST else scan
        field = how.field(cloud) if len(cloud) >= _LEAST else None
        pose = None if poses is None else check_pose(poses[row], f"pose {row}")
        yield Moment(first + row, scan.stamp, scan, field, pose, cloud)


def fused_world(series: Iterator[Moment], how: Estimates) -> tuple[Ellipsoids, int]:
    """Return one ellipsoid per observed cell, in the world frame, and the number of fused scans."""
    world = EllipsoidMap(max(how.size, _FINEST), _EVERYTHING)
    fused = 0
    for moment in series:
        if moment.field is not None and moment.T_world_scan is not None:
            world.add(moment.field, moment.T_world_scan)
            fused += 1
    return world.field, fused


def within_reach(scan: Scan) -> Scan:
    """The valid returns of a scan that are worth showing."""
    scan = scan.clean()
    near = (scan.points.astype(np.float64) ** 2).sum(axis=1) <= FARTHEST**2
    return scan if near.all() else scan.select(near)
