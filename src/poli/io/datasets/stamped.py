"""HeLiPR and MulRan: files named by their stamps, and poses matched by stamp."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from poli.errors import FormatError, InputError
from poli.io.datasets.files import FileDataset, numbered_files, posed_dataset
from poli.io.formats.bin import LAYOUT, read_packed
from poli.io.trajectory_files import read_stamped_poses
from poli.scan import Scan

SENSORS = ("velodyne", "ouster", "aeva", "avia")  # of HeLiPR
_XYZ = [("x", "<f4"), ("y", "<f4"), ("z", "<f4")]
_VELODYNE = np.dtype([*_XYZ, ("intensity", "<f4"), ("ring", "<u2"), ("time", "<f4")])
_OUSTER = np.dtype([*_XYZ, ("intensity", "<f4"), ("t", "<u4"), ("reflectivity", "<u2"), ("ring", "<u2"), ("ambient", "<u2")])
_AEVA_EARLY = np.dtype([*_XYZ, ("reflectivity", "<f4"), ("velocity", "<f4"), ("time_offset_ns", "<i4"), ("line", "u1")])
_AEVA = np.dtype([*_AEVA_EARLY.descr, ("intensity", "<f4")])
_AVIA = np.dtype([*_XYZ, ("reflectivity", "u1"), ("tag", "u1"), ("line", "u1"), ("offset_time", "<u4")])
_LAST_EARLY_AEVA = 1691936557946849179  # stamp of the last Aeva scan without intensity
_NANOSECONDS = ("t", "time_offset_ns", "offset_time")
_HELIPR_TOLERANCE = 1e-3  # seconds. Poses have the stamps of the scans. A millisecond is 2 cm at 20 m/s

_RINGS, _COLUMNS = 64, 1024  # of MulRan's Ouster OS1-64
_TURN = 0.1  # seconds
_MULRAN_TOLERANCE = 0.01  # seconds. Poses come every 10 ms, so the nearest one is at most 5 ms away: 5 cm at 10 m/s


def open_helipr(
    path: str | os.PathLike[str],
    sequence: str | None = None,
    sensor: str = "velodyne",
    poses: bool = True,
    tolerance: float = _HELIPR_TOLERANCE,
) -> FileDataset:
    """Open one sensor (velodyne, ouster, aeva or avia) of the sequence at `path` (or at `path`/`sequence`).

    Scans are `LiDAR/<Sensor>/<stamp>.bin`; each sensor has its own layout.
    `line` is renamed to `ring`, and per-point times become `time` in seconds from the stamp. Poses are read from
    `global_<Sensor>_gt.txt`, whose frame is shared by all sequences of a place, or else from `<Sensor>_gt.txt`; None if both are
    missing or with `poses=False`. Scans without a pose within `tolerance` seconds are skipped and reported.
    """
    folder = Path(path) / sequence if sequence is not None else Path(path)
    if sensor.lower() not in SENSORS:
        raise InputError(f"sensor is {sensor!r}; HeLiPR has {', '.join(SENSORS)}")
    title = sensor.lower().capitalize()
    if not (folder / "LiDAR").is_dir():
        raise FormatError(f"{folder}: contains no folder 'LiDAR'; pass the folder of one HeLiPR sequence, or its `sequence`")
    names = (f"global_{title}_gt.txt", f"{title}_gt.txt")
    pose_files = [folder / "LiDAR_GT" / name for name in names if (folder / "LiDAR_GT" / name).is_file()]
    trajectory = read_stamped_poses(pose_files[0], 7) if poses and pose_files else None
    name = f"helipr {folder.resolve().name} {sensor.lower()}"
    read = partial(_read_helipr, sensor=sensor.lower())
    return _stamped_dataset(name, folder / "LiDAR" / title, read, trajectory, tolerance)


def _read_helipr(path: Path, sensor: str) -> Scan:
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


def _extrinsic() -> np.ndarray:  # (4, 4)
    """Return MulRan's T_base_ouster as published (calib_base2ouster.txt): meters, and roll, pitch, yaw in degrees about x, y, z."""
    roll, pitch, yaw = np.deg2rad([0.0001, 0.0003, 179.6654])
    Rx = np.array([[1, 0, 0], [0, np.cos(roll), -np.sin(roll)], [0, np.sin(roll), np.cos(roll)]])
    Ry = np.array([[np.cos(pitch), 0, np.sin(pitch)], [0, 1, 0], [-np.sin(pitch), 0, np.cos(pitch)]])
    Rz = np.array([[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]])
    T = np.eye(4)
    T[:3, :3] = Rz @ Ry @ Rx
    T[:3, 3] = [1.7042, -0.021, 1.8047]
    return T


T_BASE_OUSTER = _extrinsic()


def open_mulran(
    path: str | os.PathLike[str],
    sequence: str | None = None,
    poses: bool = True,
    tolerance: float = _MULRAN_TOLERANCE,
) -> FileDataset:
    """Open the Ouster OS1-64 scans of the sequence at `path` (or at `path`/`sequence`): `Ouster/<stamp>.bin` and global_pose.csv.

    A full revolution of 65536 returns is stored column by column, which gives `ring` and `time`. Scans of another size (MulRan
    has a few) lack these fields. Poses are None if global_pose.csv is missing or with `poses=False`; scans without a pose within
    `tolerance` seconds are skipped and reported.
    """
    folder = Path(path) / sequence if sequence is not None else Path(path)
    scans = next((f for f in (folder / "Ouster", folder / "sensor_data" / "Ouster") if f.is_dir()), None)
    if scans is None:
        raise FormatError(f"{folder}: contains no folder 'Ouster'; pass the folder of one MulRan sequence, or sequence=")
    file = folder / "global_pose.csv"
    trajectory = None
    if poses and file.is_file():
        stamps, base = read_stamped_poses(file, 12, ",")
        trajectory = stamps, base @ T_BASE_OUSTER
    return _stamped_dataset(f"mulran {folder.resolve().name}", scans, _read_mulran, trajectory, tolerance)


def _read_mulran(path: Path) -> Scan:
    records = read_packed(path, LAYOUT)
    points = np.stack([records[axis] for axis in "xyz"], axis=1).astype(np.float32, copy=False)
    fields = {"intensity": np.ascontiguousarray(records["intensity"])}
    if len(records) == _RINGS * _COLUMNS:
        row = np.arange(len(records))
        fields["ring"] = (row % _RINGS).astype(np.uint16)
        fields["time"] = (row // _RINGS) * (_TURN / _COLUMNS)
    return Scan(points, fields)


def _stamped_dataset(
    name: str,
    folder: Path,
    read: Callable[[Path], Scan],
    trajectory: tuple[np.ndarray, np.ndarray] | None,  # (K,) int64 nanoseconds, ascending; (K, 4, 4)
    tolerance: float,  # seconds
) -> FileDataset:
    """Pair every scan with the pose nearest to its stamp. Scans without a pose within `tolerance` are skipped and reported."""
    by_stamp = numbered_files(folder, ".bin")
    files, stamps = tuple(by_stamp.values()), tuple(by_stamp)
    if trajectory is None:
        return FileDataset(name, files, read, stamps)
    if not tolerance >= 0.0:
        raise InputError(f"tolerance is {tolerance!r}; expected the largest time between scan and pose, in seconds")
    known, poses = trajectory
    rows = _nearest(np.array(stamps, np.int64), known, round(tolerance * 1e9))
    span = f"{known[0]} to {known[-1]}" if len(known) else "none"
    hint = f"increase the tolerance (scan stamps {stamps[0]} to {stamps[-1]}, pose stamps {span})"
    found = [poses[row] if row >= 0 else None for row in rows]
    return posed_dataset(name, files, read, stamps, found, f"no pose within {tolerance:g} s", hint)


def _nearest(stamps: np.ndarray, known: np.ndarray, tolerance: int) -> np.ndarray:  # (M,) int64, (K,) int64 -> (M,)
    """Return the row of `known` nearest to each of `stamps`, or -1 where no row is within `tolerance` nanoseconds."""
    if not len(known):
        return np.full(len(stamps), -1)
    after = np.searchsorted(known, stamps).clip(max=len(known) - 1)
    before = (after - 1).clip(min=0)
    rows = np.where(np.abs(stamps - known[before]) <= np.abs(known[after] - stamps), before, after)
    return np.where(np.abs(known[rows] - stamps) <= tolerance, rows, -1)
