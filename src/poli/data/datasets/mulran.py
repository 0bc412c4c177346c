"""MulRan: `<sequence>/Ouster/<stamp>.bin` (x y z intensity as float32) and `<sequence>/global_pose.csv` of the vehicle base."""

import os
from pathlib import Path

import numpy as np

from poli.data.datasets.file_dataset import FileDataset
from poli.data.datasets.stamped import stamped_dataset, stamped_files
from poli.data.datasets.stamped_poses import StampedPoses, read_stamped_poses
from poli.data.formats.kitti_bin import read_packed
from poli.errors import FormatError
from poli.scan import Scan

LAYOUT = np.dtype([(name, "<f4") for name in ("x", "y", "z", "intensity")])
_RINGS, _COLUMNS = 64, 1024
_TURN = 0.1  # seconds
# Poses come every 10 ms, so the nearest one is at most 5 ms away: 5 cm at 10 m/s.
_TOLERANCE = 0.01


def _extrinsic() -> np.ndarray:  # (4, 4)
    """Return T_base_ouster as published (calib_base2ouster.txt): meters, and roll, pitch, yaw in degrees about x, y, z."""
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
    tolerance: float = _TOLERANCE,
    min_range: float = 0.0,
) -> FileDataset:
    """Open the Ouster OS1-64 scans of the sequence at `path` (or at `path`/`sequence`).

    A full revolution of 65536 returns is stored column by column, which gives `ring` and `time`. Scans of another size (MulRan
    has a few) lack these fields. Poses are None if global_pose.csv is missing or with `poses=False`; scans without a pose within
    `tolerance` seconds are skipped and reported.
    """
    folder = Path(path) / sequence if sequence is not None else Path(path)
    scans = next((f for f in (folder / "Ouster", folder / "sensor_data" / "Ouster") if f.is_dir()), None)
    if scans is None:
        remedy = "pass the folder of one MulRan sequence, or {argument}"
        raise FormatError(f"{folder}: contains no folder 'Ouster'", argument="sequence", remedy=remedy)
    file = folder / "global_pose.csv"
    trajectory = None
    if poses and file.is_file():
        base = read_stamped_poses(file, 12, ",")
        trajectory = StampedPoses(base.stamps, base.poses @ T_BASE_OUSTER)
    return stamped_dataset(f"mulran {folder.resolve().name}", stamped_files(scans, ".bin"), _read, trajectory, tolerance, min_range)


def _read(path: Path) -> Scan:
    records = read_packed(path, LAYOUT)
    points = np.stack([records[axis] for axis in "xyz"], axis=1).astype(np.float32, copy=False)
    fields = {"intensity": np.ascontiguousarray(records["intensity"])}
    if len(records) == _RINGS * _COLUMNS:
        row = np.arange(len(records))
        fields["ring"] = (row % _RINGS).astype(np.uint16)
        fields["time"] = (row // _RINGS) * (_TURN / _COLUMNS)
    return Scan(points, fields)
