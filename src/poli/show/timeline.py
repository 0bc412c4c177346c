"""The frames of a timeline: scans with their ellipsoids, thinned so that the page of a whole drive stays small."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from poli.data.datasets import Dataset
from poli.scan import Scan
from poli.show.estimated import Estimates
from poli.show.parts import Frame
from poli.show.scalars import scalars_of
from poli.show.thinning import voxel_for
from poli.show.world import FARTHEST, Moment, within_reach
from poli.voxels import voxel_downsample

MOST_BYTES = 38_000_000  # of all frames; base64 adds a third, and the map a few megabytes: the page stays below 60 MB
_POINT, _ELLIPSOID, _SCALAR = 6, 20, 2  # bytes
_PROBES = 6  # scans that the sizes of the voxels are chosen by
_MARGIN = 0.9  # other scans may have more points
_SECOND = 1e9  # nanoseconds


@dataclass(frozen=True)
class Thinning:
    """What is left of each scan of a timeline."""

    points: float | None  # meters: one point per voxel of this size; None: all points
    how: Estimates  # of the ellipsoids; the voxels may be larger than asked for

    def caption(self, count: int) -> str:
        points = f"returns within {FARTHEST:g} m" if self.points is None else f"one return per voxel of {self.points:g} m"
        return f"timeline of {count:,} scans: {points}, ellipsoids of {self.how.caption}"


def thinning_for(data: Dataset, rows: np.ndarray, how: Estimates, first: int = 0, most: int = MOST_BYTES) -> Thinning:
    """Choose voxels so that `rows` of a dataset fit into `most` bytes, half of them points and half ellipsoids."""
    probes = [within_reach(data[first + row]) for row in rows[:: max(1, len(rows) // _PROBES)].tolist()]
    room = _MARGIN * most / max(len(rows), 1) / 2.0  # bytes
    scalars = max((_SCALAR * len(scalars_of(scan)) for scan in probes), default=0)
    points = _size(probes, int(room / (_POINT + scalars)))
    shapes = _size(probes, int(room / (_ELLIPSOID + scalars)))
    return Thinning(points, how if shapes is None or shapes <= how.size else replace(how, voxel=shapes))


def frames_of(series: Iterable[Moment], thinning: Thinning, share_world: bool) -> Iterator[Frame]:
    """The frames of a series; with `share_world`, moved into the world by their poses."""
    began: int | None = None
    for moment in series:
        if moment.stamp is not None and began is None:
            began = moment.stamp
        scan = moment.scan
        shown = scan if thinning.points is None or not len(scan) else voxel_downsample(scan, thinning.points, pick="first")
        pose = moment.T_world_scan if share_world else None
        field = moment.field if pose is None or moment.field is None else moment.field.transform(pose)
        yield Frame(
            f"Scan {moment.number}",
            _moved(shown, pose),
            scalars_of(shown),
            field,
            {} if moment.cloud is None or field is None else scalars_of(moment.cloud),
            np.zeros(3) if pose is None else pose[:3, 3],
            None if moment.stamp is None or began is None else (moment.stamp - began) / _SECOND,
            len(scan),
        )


def _moved(scan: Scan, pose: np.ndarray | None) -> np.ndarray:  # (N, 3)
    return scan.points.astype(np.float64) if pose is None else scan.points.astype(np.float64) @ pose[:3, :3].T + pose[:3, 3]


def _size(probes: list[Scan], most: int) -> float | None:
    """A voxel, of two digits, that leaves about `most` points of a scan; None if no scan has more."""
    sizes = [voxel_for(np.array(scan.points), max(most, 1)) for scan in probes]
    larger = [size for size in sizes if size is not None]
    return _rounded_up(float(np.mean(larger))) if larger else None


def _rounded_up(size: float) -> float:
    power = 10.0 ** (np.floor(np.log10(size)) - 1.0)
    return float(f"{np.ceil(size / power) * power:.2g}")
