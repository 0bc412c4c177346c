"""KITTI raw: `DATE/DATE_drive_NNNN_sync/{velodyne_points, oxts}` and `DATE/calib_imu_to_velo.txt`.

Scans are not deskewed. Some are missing, so all files are matched by frame number.
"""

import os
from functools import partial
from pathlib import Path

import numpy as np

from poli.data.datasets.file_dataset import FileDataset
from poli.data.datasets.frames import frame_stamps, numbered
from poli.data.datasets.hdl64e import correct_elevation as corrected
from poli.data.datasets.hdl64e import read_or_empty_bin, scan_period
from poli.data.datasets.oxts import T_velodyne_imu, imu_trajectory
from poli.data.datasets.protocol import Skipped, warn_skipped
from poli.errors import FormatError, InputError
from poli.scan import Scan
from poli.se3 import inverse
from poli.spinning import Spin

SCANS = "velodyne_points"  # the folder by which a drive is recognized
_CALIBRATION = "calib_imu_to_velo.txt"  # in the folder of the date


def open_kitti_raw(
    path: str | os.PathLike[str],
    sequence: str | int | None = None,
    poses: bool = True,
    min_range: float = 0.0,
    correct_elevation: bool = True,
    deskewed: bool = False,
) -> FileDataset:
    """Open the drive at `path`, or the drive `sequence` ("0009" or "2011_09_26_drive_0009_sync") in a folder of drives or of dates.

    Points get a `time` in seconds from the stamp, derived from their azimuth, unless `deskewed`. Elevations are corrected as in
    `open_kitti`. Poses are those of the sensor at the stamps, from GPS and IMU (`oxts`), in a frame with x east, z up and the
    origin at the first scan. They are None if `oxts` or calib_imu_to_velo.txt is missing or with `poses=False`. Scans without a
    pose are skipped and reported. Returns closer than `min_range` meters are dropped.
    """
    drive = _locate(Path(path), sequence)
    name = f"kitti_raw {drive.name}"
    by_frame = numbered(drive / SCANS / "data", ".bin")
    frames = sorted(by_frame)
    stamps = frame_stamps(drive / SCANS / "timestamps.txt", frames)
    T_world_velo: np.ndarray | None = None
    skipped: tuple[Skipped, ...] = ()
    mount = next((f for f in (drive.parent / _CALIBRATION, drive / _CALIBRATION) if f.is_file()), None)
    if poses and mount is not None and (drive / "oxts" / "data").is_dir():
        T_imu_velo = inverse(T_velodyne_imu(mount))
        found = imu_trajectory(drive / "oxts", frames, stamps)
        kept = [row for row, T in enumerate(found) if T is not None]
        if not kept:
            raise FormatError(
                f"{name}: no scan has a GPS/IMU pose: the frames of {drive / 'oxts'} are others",
                argument="poses", value=False, remedy="pass {argument} to read the scans without poses",
            )  # fmt: skip
        why = "no GPS/IMU pose"
        skipped = tuple(Skipped(by_frame[frame].name, why) for frame, T in zip(frames, found, strict=True) if T is None)
        warn_skipped(name, skipped)
        T_world_velo = np.stack([T @ T_imu_velo for T in found if T is not None])
        T_world_velo[:, :3, 3] -= T_world_velo[0, :3, 3]
        frames, stamps = [frames[row] for row in kept], stamps and [stamps[row] for row in kept]
    period = None if deskewed else scan_period(stamps)
    read = partial(_read, correct=bool(correct_elevation), period=period)
    files = tuple(by_frame[frame] for frame in frames)
    return FileDataset(name, files, read, None if stamps is None else tuple(stamps), T_world_velo, skipped, min_range)


def drives(folder: Path) -> list[Path]:
    """Return the drives in a folder of drives, or in a folder of dates."""
    patterns = (f"*_drive_*/{SCANS}", f"*/*_drive_*/{SCANS}")
    return sorted(path.parent for pattern in patterns for path in folder.glob(pattern) if path.is_dir())


def _locate(path: Path, sequence: str | int | None) -> Path:
    if (path / SCANS).is_dir():
        drive = path.resolve()
        if sequence is not None and not _is_named(drive, sequence):
            raise InputError(f"{path}: this is the folder of one drive, not of {sequence!r}; omit the sequence")
        return drive
    there = drives(path) if path.is_dir() else []
    if not there:
        raise FormatError(
            f"{path}: contains no drive with a folder {SCANS!r}; pass the folder of a drive, of a date or of all dates"
        )
    chosen = there if sequence is None else [drive for drive in there if _is_named(drive, sequence)]
    if len(chosen) != 1:
        problem = "choose a sequence;" if sequence is None else f"{len(chosen)} drives are named {sequence!r};"
        available = ", ".join(drive.name for drive in there)
        raise InputError(f"{path}: {problem} available: {available}", argument="sequence")
    return chosen[0].resolve()


def _is_named(drive: Path, sequence: str | int) -> bool:
    name = str(sequence)
    return drive.name == name or (name.isdigit() and f"_drive_{name.zfill(4)}_" in f"{drive.name}_")


def _read(path: Path, correct: bool, period: float | None) -> Scan:
    scan = read_or_empty_bin(path)
    if correct and len(scan):
        scan = Scan(corrected(scan.points), scan.fields, scan.stamp, scan.dropped)
    return scan if period is None or not len(scan) else Spin().with_times(scan, period)
