"""KITTI raw: `DATE/DATE_drive_NNNN_sync/{velodyne_points, oxts}` and `DATE/calib_imu_to_velo.txt`.

Scans are not deskewed. Some are missing, so all files are matched by frame number.
"""

import os
from functools import partial
from pathlib import Path

import numpy as np

from poli.beams.corrections import Spin
from poli.errors import FormatError, InputError
from poli.io.datasets.files import FileDataset
from poli.io.datasets.hdl64e import correct_elevation as corrected
from poli.io.datasets.hdl64e import read_or_empty_bin, scan_period
from poli.io.datasets.protocol import Skipped, warn_skipped
from poli.io.datasets.stamped import finite_numbers, rigid_poses
from poli.scan import Scan
from poli.se3 import exp, inverse, log

# --- Files named by frame number, and the stamps of frames, as in KITTI raw.


def numbered(folder: Path, ending: str) -> dict[int, Path]:
    """Return the files of a folder by frame number."""
    found: dict[int, Path] = {}
    for path in sorted(folder.glob(f"*{ending}")):
        if not (path.stem.isascii() and path.stem.isdigit() and len(path.stem) < 18):
            raise FormatError(f"{path}: expected a file named by its frame number; move it elsewhere")
        twin = found.setdefault(int(path.stem), path)
        if twin != path:
            raise FormatError(f"{path}: same frame number as {twin.name}; remove one of the two")
    if not found:
        raise FormatError(f"{folder}: the folder has no {ending} files")
    return found


def frame_stamps(path: Path, frames: list[int]) -> list[int] | None:
    """Read the stamp of each frame in nanoseconds since 1970; None if there is no file.

    Line i belongs to frame i, whether its file is there or not; if there are as many lines as files, lines belong to files.
    """
    if not path.is_file():
        return None
    lines = path.read_text("ascii", errors="replace").rstrip().splitlines()
    rows = frames if len(lines) > frames[-1] else list(range(len(frames)))
    if rows[-1] >= len(lines) or (rows is not frames and len(lines) != len(frames)):
        raise FormatError(
            f"{path}: {len(lines)} times for {len(frames)} files up to frame {frames[-1]}; one of the two is incomplete"
        )
    stamps = [_nanoseconds(path, row, lines[row]) for row in rows]
    for before, row in enumerate(rows[1:]):
        if stamps[before + 1] <= stamps[before]:
            raise FormatError(f"{path}: line {row + 1} ({lines[row][:40]}) is not later than that of the frame before")
    return stamps


def _nanoseconds(path: Path, row: int, text: str) -> int:
    """Convert "2011-09-26 13:02:25.951199337"."""
    whole, _, part = text.strip().partition(".")
    try:
        if part and not (part.isascii() and part.isdigit() and len(part) <= 9):
            raise ValueError
        stamp = np.datetime64(whole.replace(" ", "T", 1), "s")
        if np.isnat(stamp) or len(whole) != 19:
            raise ValueError
    except ValueError:
        raise FormatError(f"{path}: line {row + 1} ({text[:40]}) is not a time; expected 2011-09-26 13:02:25.951199337") from None
    return int(stamp.astype(np.int64)) * 10**9 + int(part.ljust(9, "0") or "0")


# --- Poses of KITTI raw's GPS/IMU unit: `oxts/data/NNNNNNNNNN.txt`, one packet per frame, and its mount on the car.


_EARTH = 6_378_137.0  # meters: radius of the sphere of the projection, as in the raw data's development kit
_LONGEST = 500_000_000  # nanoseconds between two packets to interpolate a pose


def imu_trajectory(folder: Path, frames: list[int], stamps: list[int] | None) -> list[np.ndarray | None]:  # each (4, 4)
    """Return T_world_imu of each scan, None where unknown. The origin is at the first packet; x points east, y north, z up.

    Scans and packets of a frame differ by some milliseconds, so poses are interpolated if both have stamps.
    """
    packets = numbered(folder / "data", ".txt")
    numbers = sorted(packets)
    poses = _poses([packets[number] for number in numbers])
    times = frame_stamps(folder / "timestamps.txt", numbers) if stamps is not None else None
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
    if not abs(packet[0]) < 89.0:
        raise FormatError(f"{path}: the latitude is {packet[0]:g} degrees; expected a value between -89 and 89")
    if max(map(abs, packet)) > 1e6:
        raise FormatError(f"{path}: a value is {max(packet, key=abs):g}; expected degrees, meters and radians")
    return packet


def T_velodyne_imu(path: Path) -> np.ndarray:  # (4, 4)
    """Read `R:` (nine numbers) and `T:` (three) of a calibration file."""
    parts: dict[str, tuple[int, list[str]]] = {}
    for number, line in enumerate(path.read_text("ascii", errors="replace").splitlines(), start=1):
        key, _, rest = line.partition(":")
        parts[key.strip()] = (number, rest.split())
    for key in "RT":
        if key not in parts:
            raise FormatError(f"{path}: no line '{key}:'; pass poses=False to ignore it")
    rotation = finite_numbers(path, *parts["R"], 9)
    translation = finite_numbers(path, *parts["T"], 3)
    rows = np.column_stack([np.array(rotation).reshape(3, 3), translation])
    return rigid_poses(rows.reshape(1, 12), path, [parts["R"][0]])[0]


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
            problem = f"no scan has a GPS/IMU pose: the frames of {drive / 'oxts'} are others"
            raise FormatError(f"{name}: {problem}; pass poses=False to read the scans without poses")
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
        raise InputError(f"{path}: {problem} available: {available}; pass sequence=")
    return chosen[0].resolve()


def _is_named(drive: Path, sequence: str | int) -> bool:
    name = str(sequence)
    return drive.name == name or (name.isdigit() and f"_drive_{name.zfill(4)}_" in f"{drive.name}_")


def _read(path: Path, correct: bool, period: float | None) -> Scan:
    scan = read_or_empty_bin(path)
    if correct and len(scan):
        scan = Scan(corrected(scan.points), scan.fields, scan.stamp, scan.dropped)
    return scan if period is None or not len(scan) else Spin().with_times(scan, period)
