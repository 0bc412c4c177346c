"""KITTI raw: `DATE/DATE_drive_NNNN_sync/{velodyne_points, oxts}` and `DATE/calib_imu_to_velo.txt`.

Scans are not deskewed. Some are missing, so all files are matched by frame number. Poses are those of the GPS/IMU unit:
`oxts/data/NNNNNNNNNN.txt`, one packet per frame.
"""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from poli.errors import FormatError, InputError
from poli.io.datasets.files import FileDataset, numbered_files, posed_dataset
from poli.io.datasets.kitti import Hdl64eReader, check_ascending, read_calibration, read_or_empty_bin, scan_period
from poli.io.trajectory_files import finite_numbers, rigid_poses
from poli.se3 import exp, inverse, log

_EARTH = 6_378_137.0  # meters: radius of the sphere of the projection, as in the raw data's development kit
_LONGEST = 500_000_000  # nanoseconds between two packets to interpolate a pose
SCANS = "velodyne_points"  # the folder by which a drive is recognized
_CALIBRATION = "calib_imu_to_velo.txt"  # in the folder of the date


def open_kitti_raw(
    path: str | os.PathLike[str],
    sequence: str | int | None = None,
    poses: bool = True,
    correct_elevation: bool = True,
    deskewed: bool = False,
) -> FileDataset:
    """Open the drive at `path`, or the drive `sequence` ("0009" or "2011_09_26_drive_0009_sync") in a folder of drives or of dates.

    Points get a `time` in seconds from the stamp, derived from their azimuth, unless `deskewed`. Elevations are corrected as in
    `open_kitti`. Poses are those of the sensor at the stamps, from GPS and IMU (`oxts`), in a frame with x east, z up and the
    origin at the first scan. They are None if `oxts` or calib_imu_to_velo.txt is missing or with `poses=False`. Scans without a
    pose are skipped and reported.
    """
    drive = _locate(Path(path), sequence)
    name = f"kitti_raw {drive.name}"
    by_frame = numbered_files(drive / SCANS / "data", ".bin")
    frames, files = list(by_frame), tuple(by_frame.values())
    stamps = _frame_stamps(drive / SCANS / "timestamps.txt", frames)
    mount = next((f for f in (drive.parent / _CALIBRATION, drive / _CALIBRATION) if f.is_file()), None)
    if poses and mount is not None and (drive / "oxts" / "data").is_dir():
        T_imu_velo = inverse(_T_velodyne_imu(mount))
        found = [None if T is None else T @ T_imu_velo for T in _imu_trajectory(drive / "oxts", frames, stamps)]
        hint = f"the frames of {drive / 'oxts'} are others"
        scans = posed_dataset(name, files, read_or_empty_bin, stamps, found, "no GPS/IMU pose", hint)
        assert scans.poses is not None
        scans.poses[:, :3, 3] -= scans.poses[0, :3, 3]
    else:
        scans = FileDataset(name, files, read_or_empty_bin, None if stamps is None else tuple(stamps))
    return replace(scans, read=Hdl64eReader(scans.files, bool(correct_elevation), not deskewed, scan_period(scans.stamps)))


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
        raise FormatError(f"{path}: no drive with a folder {SCANS!r}; pass the folder of a drive, of a date or of all dates")
    chosen = there if sequence is None else [drive for drive in there if _is_named(drive, sequence)]
    if len(chosen) != 1:
        problem = "choose one by sequence=;" if sequence is None else f"{len(chosen)} drives are named {sequence!r};"
        available = ", ".join(drive.name for drive in there)
        raise InputError(f"{path}: {problem} available: {available}")
    return chosen[0].resolve()


def _is_named(drive: Path, sequence: str | int) -> bool:
    name = str(sequence)
    return drive.name == name or (name.isdigit() and f"_drive_{name.zfill(4)}_" in f"{drive.name}_")


def _frame_stamps(path: Path, frames: list[int]) -> list[int] | None:
    """Read the stamp of each frame in nanoseconds since 1970; None if there is no file.

    Line i belongs to frame i, whether its file is there or not; if there are as many lines as files, lines belong to files.
    """
    if not path.is_file():
        return None
    lines = path.read_text("ascii", errors="replace").rstrip().splitlines()
    rows = frames if len(lines) > frames[-1] else list(range(len(lines)))
    stamps = [_nanoseconds(path, row, lines[row]) for row in rows]
    check_ascending(path, stamps, rows if len(rows) == len(frames) else frames)
    return stamps


def _nanoseconds(path: Path, row: int, text: str) -> int:
    """Convert "2011-09-26 13:02:25.951199337"."""
    try:
        stamp = np.datetime64(text.strip().replace(" ", "T", 1), "ns")
        if np.isnat(stamp) or ":" not in text:
            raise ValueError
    except ValueError:
        raise FormatError(f"{path}: line {row + 1} ({text[:40]}) is not a time; expected 2011-09-26 13:02:25.951199337") from None
    return int(stamp.astype(np.int64))


def _imu_trajectory(folder: Path, frames: list[int], stamps: list[int] | None) -> list[np.ndarray | None]:  # each (4, 4)
    """Return T_world_imu of each scan, None where unknown. The origin is at the first packet; x points east, y north, z up.

    Scans and packets of a frame differ by some milliseconds, so poses are interpolated if both have stamps.
    """
    packets = numbered_files(folder / "data", ".txt")
    numbers = list(packets)
    poses = _poses(list(packets.values()))
    times = _frame_stamps(folder / "timestamps.txt", numbers) if stamps is not None else None
    if stamps is None or times is None:
        by_frame = dict(zip(numbers, poses, strict=True))
        return [by_frame.get(frame) for frame in frames]
    return [_at(stamp, times, poses) for stamp in stamps]


def _at(stamp: int, times: list[int], poses: np.ndarray) -> np.ndarray | None:  # (4, 4)
    """Interpolate between the packets before and after; extrapolate at the ends by up to one interval."""
    if len(times) < 2:
        return poses[0] if abs(stamp - times[0]) <= _LONGEST else None
    before = min(max(int(np.searchsorted(times, stamp, side="right")) - 1, 0), len(times) - 2)
    interval = times[before + 1] - times[before]
    share = (stamp - times[before]) / interval
    if interval > _LONGEST or not -1.0 <= share <= 2.0:
        nearest = before + (share > 0.5)
        return poses[nearest] if stamp == times[nearest] else None
    return poses[before] @ exp(share * log(inverse(poses[before]) @ poses[before + 1]))


def _poses(files: list[Path]) -> np.ndarray:  # (K, 4, 4)
    """Convert packets to poses by the Mercator projection, scaled by the latitude of the first packet."""
    values = np.array([_packet(path) for path in files])  # latitude, longitude (degrees), altitude, roll, pitch, yaw (radians)
    latitude, longitude = np.deg2rad(values[:, 0]), np.deg2rad(values[:, 1])
    poses = np.tile(np.eye(4), (len(files), 1, 1))
    scale = _EARTH * np.cos(latitude[0])
    poses[:, 0, 3] = scale * longitude
    poses[:, 1, 3] = scale * np.arctanh(np.sin(latitude))
    poses[:, 2, 3] = values[:, 2]
    poses[:, :3, 3] -= poses[0, :3, 3]
    poses[:, :3, :3] = _about(2, values[:, 5]) @ _about(1, values[:, 4]) @ _about(0, values[:, 3])
    return poses


def _about(axis: int, angles: np.ndarray) -> np.ndarray:  # (K,) -> (K, 3, 3)
    """Rotations about one coordinate axis."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R = np.tile(np.eye(3), (len(angles), 1, 1))
    R[:, i, i] = R[:, j, j] = np.cos(angles)
    R[:, j, i] = np.sin(angles)
    R[:, i, j] = -R[:, j, i]
    return R


def _packet(path: Path) -> list[float]:
    words = path.read_text("ascii", errors="replace").split()
    if len(words) < 6:
        raise FormatError(f"{path}: {len(words)} values, expected 30: latitude, longitude, altitude, roll, pitch, yaw, and more")
    packet = finite_numbers(path, 1, words[:6], 6)
    if not abs(packet[0]) < 89.0 or max(map(abs, packet)) > 1e6:
        raise FormatError(f"{path}: the latitude is {packet[0]:g} degrees, or another value is too large; the file is damaged")
    return packet


def _T_velodyne_imu(path: Path) -> np.ndarray:  # (4, 4)
    """Read `R:` (nine numbers) and `T:` (three) of a calibration file."""
    table = read_calibration(path)
    for key in "RT":
        if key not in table:
            raise FormatError(f"{path}: no line '{key}:'; pass poses=False to ignore it")
    R, t = finite_numbers(path, *table["R"], 9), finite_numbers(path, *table["T"], 3)
    rows = np.column_stack([np.array(R).reshape(3, 3), t])
    return rigid_poses(rows.reshape(1, 12), path, [table["R"][0]])[0]
