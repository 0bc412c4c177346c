"""HeLiPR: `<sequence>/LiDAR/<Sensor>/<stamp>.bin`, poses in `<sequence>/LiDAR_GT`. Four sensors, four packed layouts."""

import os
from functools import partial
from pathlib import Path

import numpy as np

from poli.data.datasets.file_dataset import FileDataset
from poli.data.datasets.stamped import stamped_dataset, stamped_files
from poli.data.datasets.stamped_poses import read_stamped_poses
from poli.data.formats.kitti_bin import read_packed
from poli.errors import FormatError, InputError
from poli.scan import Scan

SENSORS = ("velodyne", "ouster", "aeva", "avia")
_XYZ = [("x", "<f4"), ("y", "<f4"), ("z", "<f4")]
_VELODYNE = np.dtype([*_XYZ, ("intensity", "<f4"), ("ring", "<u2"), ("time", "<f4")])
_OUSTER = np.dtype([*_XYZ, ("intensity", "<f4"), ("t", "<u4"), ("reflectivity", "<u2"), ("ring", "<u2"), ("ambient", "<u2")])
_AEVA_EARLY = np.dtype([*_XYZ, ("reflectivity", "<f4"), ("velocity", "<f4"), ("time_offset_ns", "<i4"), ("line", "u1")])
_AEVA = np.dtype([*_AEVA_EARLY.descr, ("intensity", "<f4")])
_AVIA = np.dtype([*_XYZ, ("reflectivity", "u1"), ("tag", "u1"), ("line", "u1"), ("offset_time", "<u4")])
_LAST_EARLY_AEVA = 1691936557946849179  # stamp of the last Aeva scan without intensity
_NANOSECONDS = ("t", "time_offset_ns", "offset_time")
# Poses have the stamps of the scans. A millisecond is 2 cm at 20 m/s.
_TOLERANCE = 1e-3


def open_helipr(
    path: str | os.PathLike[str],
    sequence: str | None = None,
    sensor: str = "velodyne",
    poses: bool = True,
    tolerance: float = _TOLERANCE,
    min_range: float = 0.0,
) -> FileDataset:
    """Open one sensor (velodyne, ouster, aeva or avia) of the sequence at `path` (or at `path`/`sequence`).

    `line` is renamed to `ring`, and per-point times become `time` in seconds from the stamp. Poses are read from
    `global_<Sensor>_gt.txt`, whose frame is shared by all sequences of a place, or else from `<Sensor>_gt.txt`; None if both are
    missing or with `poses=False`. Scans without a pose within `tolerance` seconds are skipped and reported.
    """
    folder = Path(path) / sequence if sequence is not None else Path(path)
    if sensor.lower() not in SENSORS:
        raise InputError(f"sensor is {sensor!r}; HeLiPR has {', '.join(SENSORS)}")
    title = sensor.lower().capitalize()
    if not (folder / "LiDAR").is_dir():
        remedy = "pass the folder of one HeLiPR sequence, or {argument}"
        raise FormatError(f"{folder}: contains no folder 'LiDAR'", argument="sequence", remedy=remedy)
    files = stamped_files(folder / "LiDAR" / title, ".bin")
    names = (f"global_{title}_gt.txt", f"{title}_gt.txt")
    pose_files = [folder / "LiDAR_GT" / name for name in names if (folder / "LiDAR_GT" / name).is_file()]
    trajectory = read_stamped_poses(pose_files[0], 7) if poses and pose_files else None
    name = f"helipr {folder.resolve().name} {sensor.lower()}"
    return stamped_dataset(name, files, partial(_read, sensor=sensor.lower()), trajectory, tolerance, min_range)


def _read(path: Path, sensor: str) -> Scan:
    layout = packed_layout(sensor, int(path.stem))
    records = read_packed(path, layout)
    points = np.stack([records[axis] for axis in "xyz"], axis=1).astype(np.float32, copy=False)
    fields = {}
    for name in layout.names[3:] if layout.names else ():
        values = np.ascontiguousarray(records[name])
        if name in _NANOSECONDS:
            fields["time"] = values * 1e-9
        else:
            fields["ring" if name == "line" else name] = values
    return Scan(points, fields)


def packed_layout(sensor: str, stamp: int) -> np.dtype:
    """Return the record layout of a scan of this sensor (one of `SENSORS`)."""
    if sensor == "aeva":
        return _AEVA_EARLY if stamp <= _LAST_EARLY_AEVA else _AEVA
    return {"velodyne": _VELODYNE, "ouster": _OUSTER, "avia": _AVIA}[sensor]
