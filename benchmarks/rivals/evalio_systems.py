"""CT-ICP, MAD-ICP and LOAM as compiled in evalio, which needs no ROS: the authors' defaults, from scans with times and rings.

Their poses are brought to the stamps of the scans, where the true poses are. CT-ICP returns the start of a scan, MAD-ICP its end.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.rivals.tracks import Track, checked, from_first, moved_to_stamp, span, stamp_share
from poli.errors import InputError, MissingExtra
from poli.lidar_odometry.deskewing import deskew
from poli.scan import Scan, ScanLike
from poli.se3 import exp, inverse, log
from poli.threads import thread_count

_NEAREST, _FARTHEST = 0.3, 100.0  # meters: returns that the systems use; the map of CT-ICP reaches as far by its defaults
_PERIOD = 0.1  # seconds between scans without stamps

# The authors' profile for sensors carried by hand, as far as evalio has its options (DefaultRobustOutdoorLowInertia).
CT_LOW_INERTIA: Mapping[str, bool | int | float | str] = {
    "sample_voxel_size": 1.0,
    "init_num_frames": 100,
    "ct_init_num_frames": 100,
    "max_num_points_in_voxel": 30,
    "initialization": "INIT_NONE",
    "num_iters_icp": 20,
    "threshold_voxel_occupancy": 10,
    "beta_constant_velocity": 0.0,
    "beta_small_velocity": 0.01,
    "ls_max_num_iters": 20,
}

_POINT = np.dtype([("x", "<f8"), ("y", "<f8"), ("z", "<f8"), ("t", "<f8"), ("ring", "u1")])


def run_ct(scans: Iterable[ScanLike], settings: Mapping[str, bool | int | float | str] | None = None) -> Track:
    """Run CT-ICP: with point times as its authors do, without them with rigid scans."""
    every = list(checked(scans))
    timed = _timed(every)
    options = {"ls_num_threads": thread_count(), **(settings or {})}
    if timed:
        begins, seconds = _run("CTICP", every, options)
        return Track(from_first(_after_begin(begins, every)), seconds)
    # Of a rigid scan, CT-ICP estimates the end, but evalio returns the start, which is the end of the scan before. So the pose of
    # a scan comes with the next one, and the last scan is given twice.
    begins, seconds = _run("CTICP", [*every, every[-1]], {**options, "motion_compensation": "NONE"})
    return Track(from_first(begins[1:]), seconds[:-1])


def run_mad(scans: Iterable[ScanLike], keyframes: int = 8) -> Track:
    """Run MAD-ICP with evalio's number of key frames (its own command has 4; the errors are the same), without its limit on the
    time of a scan.

    With point times, its deskewing is on: it takes the times from the azimuth itself, for sensors that turn clockwise and start
    behind, and corrects to the end of the scan.
    """
    every = list(checked(scans))
    timed = _timed(every)
    options = {"num_keyframes": keyframes, "num_threads": thread_count(), "realtime": False, "deskew": timed}
    poses, seconds = _run("MadICP", every, options)
    if timed:
        poses = moved_to_stamp(poses, np.array([1.0 - stamp_share(scan) for scan in every]))
    return Track(from_first(poses), seconds)


def run_loam(scans: Iterable[ScanLike], scans_in_map: int = 3) -> Track:
    """Run LOAM on scans arranged by ring and azimuth, with evalio's number of scans in the local map or more.

    It does not deskew; scans with point times are deskewed with its own last motion, as KISS-ICP does.
    """
    every = scans if isinstance(scans, Sequence) else list(scans)  # read twice, and not kept
    rows, columns, rate = _size(checked(every))
    pipeline = _pipeline("LOAM", {"num_local_map_scans": scans_in_map}, rows, columns, rate)
    poses: list[np.ndarray] = []
    seconds = []
    elapsed, before = _PERIOD, None
    for number, scan in enumerate(checked(every)):
        start = time.perf_counter()
        here = scan
        if "time" in scan.fields and number > 1:
            here = deskew(scan, log(inverse(poses[-2]) @ poses[-1]) / elapsed)
        poses.append(_added(pipeline, _measurement(_arranged(here, rows, columns), _stamp(number, here))))
        seconds.append(time.perf_counter() - start)
        elapsed, before = _PERIOD if before is None else _elapsed(before, scan), scan
    return Track(from_first(np.stack(poses)), np.array(seconds))


def _size(scans: Iterable[Scan]) -> tuple[int, int, float]:
    """Rings, the most returns of a ring, and scans per second."""
    rows, columns, elapsed, before = 0, 0, [], None
    for scan in scans:
        if "ring" not in scan.fields:
            raise InputError("LOAM needs the ring of each point, but a scan has no field 'ring'")
        counts = np.bincount(scan.fields["ring"])
        rows, columns = max(rows, len(counts)), max(columns, int(counts.max()))
        if before is not None:
            elapsed.append(_elapsed(before, scan))
        before = scan
    return rows, columns, 1.0 / float(np.median(elapsed or [_PERIOD]))


def _timed(scans: list[Scan]) -> bool:
    return all("time" in scan.fields for scan in scans)


def _run(name: str, scans: list[Scan], options: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:  # (M, 4, 4), (M,)
    pipeline = _pipeline(name, options, 1, 1, _rate(scans))
    poses, seconds = [], []
    for number, scan in enumerate(scans):
        measurement = _measurement(scan, _stamp(number, scan))
        start = time.perf_counter()
        poses.append(_added(pipeline, measurement))
        seconds.append(time.perf_counter() - start)
    return np.stack(poses), np.array(seconds)


def _pipeline(name: str, options: Mapping[str, Any], rows: int, columns: int, rate: float) -> Any:
    try:
        from evalio import pipelines, types
    except ImportError:
        raise MissingExtra("comparing with CT-ICP, MAD-ICP and LOAM", "bench") from None
    kind = getattr(pipelines, name)
    pipeline = kind()
    unknown = pipeline.set_params({**kind.default_params(), **options})
    if unknown:
        raise InputError(f"evalio's {name} has no parameter {', '.join(unknown)}; its version is {kind.version()}")
    sensor = types.LidarParams(num_rows=rows, num_columns=columns, min_range=_NEAREST, max_range=_FARTHEST, rate=rate)
    pipeline.set_lidar_params(sensor)
    pipeline.set_imu_T_lidar(types.SE3.identity())
    pipeline.initialize()
    return pipeline


def _added(pipeline: Any, measurement: Any) -> np.ndarray:  # (4, 4)
    pipeline.add_lidar(measurement)
    ((_, pose),) = pipeline.saved_estimates()
    return np.array(pose.to_mat())


def _measurement(scan: Scan, nanoseconds: int) -> Any:
    """The scan in evalio's type, whose times start at the first point."""
    from evalio._cpp.helpers import DataType, Field, PointCloudMetadata, pc2_to_evalio
    from evalio.types import Stamp

    rows = np.zeros(len(scan), _POINT)
    rows["x"], rows["y"], rows["z"] = scan.points.T
    first = 0.0
    if "time" in scan.fields:
        first, _ = span(scan)
        rows["t"] = scan.fields["time"] - first
    if "ring" in scan.fields:
        rows["ring"] = scan.fields["ring"]
    kinds = {"<f8": DataType.FLOAT64, "|u1": DataType.UINT8}
    fields = [Field(name=n, datatype=kinds[_POINT[n].str], offset=_POINT.fields[n][1]) for n in _POINT.names]  # type: ignore[index,union-attr]
    size = _POINT.itemsize
    about = PointCloudMetadata(
        stamp=Stamp.from_nsec(nanoseconds + round(1e9 * first)), width=len(rows), height=1, point_step=size,
        row_step=size * len(rows), is_bigendian=0, is_dense=1,
    )  # fmt: skip
    return pc2_to_evalio(about, fields, rows.tobytes())


def _arranged(scan: Scan, rows: int, columns: int) -> Scan:
    """The rings one after another, each in the order of rotation and filled up with points at the origin, which LOAM ignores."""
    ring, azimuth = scan.fields["ring"].astype(np.int64), np.arctan2(scan.points[:, 1], scan.points[:, 0])
    order = np.lexsort((-azimuth, ring))
    ring = ring[order]
    column = np.arange(len(ring)) - np.searchsorted(ring, ring)
    points = np.zeros((rows * columns, 3))
    points[ring * columns + column] = scan.points[order]
    return Scan(points, {"ring": np.repeat(np.arange(rows), columns).astype(np.uint8)}, scan.stamp)


def _after_begin(begins: np.ndarray, scans: list[Scan]) -> np.ndarray:  # (M, 4, 4) -> (M, 4, 4)
    """Poses at the stamps, from those at the first points: from one start to the next, the motion is even.

    CT-ICP takes the first two scans for rigid and returns the origin for both, so the second one is found from the third.
    """
    if len(begins) < 3:
        return begins
    motions = [log(inverse(a) @ b) for a, b in pairwise(begins)]
    motions.append(motions[-1])
    elapsed = [_elapsed(a, b) for a, b in pairwise(scans)]
    elapsed.append(elapsed[-1])
    shares = [-span(scan)[0] / seconds for scan, seconds in zip(scans, elapsed, strict=True)]
    poses = [T @ exp(share * motion) for T, share, motion in zip(begins, shares, motions, strict=True)]
    poses[1] = begins[2] @ exp((shares[2] - 1.0) * motions[2])
    return np.stack(poses)


def _elapsed(before: Scan, here: Scan) -> float:
    """Seconds between two scans."""
    return _PERIOD if before.stamp is None or here.stamp is None else 1e-9 * (here.stamp - before.stamp)


def _rate(scans: list[Scan]) -> float:
    """Scans per second."""
    return 1.0 / float(np.median([_elapsed(a, b) for a, b in pairwise(scans)] or [_PERIOD]))


def _stamp(number: int, scan: Scan) -> int:
    """Nanoseconds after a start that leaves room for points before the first stamp, since evalio's stamps are not negative."""
    return 10**9 + (round(1e9 * _PERIOD * number) if scan.stamp is None else scan.stamp)
