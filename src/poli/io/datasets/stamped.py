"""Datasets of files named by their stamps, with poses matched by stamp."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from poli.errors import FormatError, InputError
from poli.io.datasets.files import FileDataset
from poli.io.datasets.protocol import Skipped, warn_skipped
from poli.io.formats.bin import read_packed
from poli.scan import Scan

# --- Stamped poses: parsing of trajectory files, and matching of poses to scans.


_RIGID = 1e-3  # largest deviation from orthonormality; six digits cause 1e-6, so the margin is 1,000
_EXACT = 1e-9  # largest deviation up to which rotations are used as written


@dataclass(frozen=True, eq=False)
class StampedPoses:
    stamps: np.ndarray  # (K,) int64 nanoseconds, strictly ascending
    poses: np.ndarray  # (K, 4, 4)

    def nearest(self, stamps: np.ndarray, tolerance: int) -> np.ndarray:  # (M,) int64 -> (M,)
        """Return the row nearest to each of `stamps`, or -1 where no row is within `tolerance` nanoseconds."""
        if not len(self.stamps):
            return np.full(len(stamps), -1)
        after = np.searchsorted(self.stamps, stamps).clip(max=len(self.stamps) - 1)
        before = (after - 1).clip(min=0)
        rows = np.where(np.abs(stamps - self.stamps[before]) <= np.abs(self.stamps[after] - stamps), before, after)
        return np.where(np.abs(self.stamps[rows] - stamps) <= tolerance, rows, -1)


def read_stamped_poses(path: Path, columns: int, separator: str | None = None) -> StampedPoses:
    """Read rows of a stamp in nanoseconds and a pose: 12 numbers (3x4, row-major) or 7 (x y z qx qy qz qw), in any order.

    Stamps are parsed as integers. A repeated stamp must have the same pose.
    """
    stamps, values, lines = [], [], []
    for number, words in text_rows(path, separator):
        try:
            stamp = int(words[0])
            if not 0 <= stamp < 1 << 63:
                raise ValueError
        except ValueError:
            raise FormatError(f"{path}: line {number}: {words[0][:40]!r} is not a stamp in integer nanoseconds") from None
        stamps.append(stamp)
        values.append(finite_numbers(path, number, words[1:], columns))
        lines.append(number)
    array = np.array(values, np.float64).reshape(-1, columns)
    poses = poses_from_quaternions(array, path, lines) if columns == 7 else rigid_poses(array, path, lines)
    order = np.argsort(np.array(stamps, np.int64), kind="stable")
    sorted_stamps, poses = np.array(stamps, np.int64)[order], poses[order]
    again = np.flatnonzero(np.diff(sorted_stamps) == 0)
    differs = again[(poses[again] != poses[again + 1]).any(axis=(1, 2))]
    if len(differs):
        raise FormatError(f"{path}: {len(differs)} stamps have two different poses, first {sorted_stamps[differs[0]]}")
    kept = np.ones(len(stamps), bool)
    kept[again + 1] = False
    return StampedPoses(sorted_stamps[kept], poses[kept])


def read_pose_rows(path: Path, complete: bool = True) -> np.ndarray:  # (K, 4, 4)
    """Read rows of 12 numbers (KITTI), each a 3x4 pose, row-major."""
    rows = text_rows(path, None, complete)
    values = np.array([finite_numbers(path, number, words, 12) for number, words in rows], np.float64).reshape(-1, 12)
    return rigid_poses(values, path, [number for number, _ in rows])


def rigid_poses(values: np.ndarray, path: Path | str, lines: Sequence[int]) -> np.ndarray:  # (K, 12) -> (K, 4, 4)
    """Convert 3x4 matrices to rigid motions. Rotations rounded in the file are replaced by the nearest rotation."""
    poses = np.tile(np.eye(4), (len(values), 1, 1))
    poses[:, :3] = values.reshape(-1, 3, 4)
    R = poses[:, :3, :3]
    with np.errstate(over="ignore", invalid="ignore"):  # huge numbers are rejected below
        off = np.abs(np.swapaxes(R, 1, 2) @ R - np.eye(3)).max(axis=(1, 2))
        bad = np.flatnonzero(~(off <= _RIGID) | ~(np.linalg.det(R) >= 0))
    if len(bad):
        raise FormatError(f"{path}: line {lines[bad[0]]} is not a rigid motion (rotation not orthonormal); the file is damaged")
    inexact = off > _EXACT
    u, _, vt = np.linalg.svd(R[inexact])
    R[inexact] = u @ vt
    return poses


def format_pose(T: np.ndarray) -> str:  # (4, 4)
    """Format the 3x4 part as 12 numbers, with enough digits to restore each exactly."""
    return " ".join(repr(float(v)) for v in T[:3].ravel())


def poses_from_quaternions(values: np.ndarray, path: Path, lines: Sequence[int]) -> np.ndarray:  # (K, 7) -> (K, 4, 4)
    """Convert rows x y z qx qy qz qw to rigid motions."""
    length = np.linalg.norm(values[:, 3:], axis=1)
    bad = np.flatnonzero(np.abs(length - 1.0) > _RIGID)
    if len(bad):
        raise FormatError(f"{path}: line {lines[bad[0]]}: the quaternion has length {length[bad[0]]:.4g}; the file is damaged")
    x, y, z, w = (values[:, 3:] / length[:, None]).T
    poses = np.tile(np.eye(4), (len(values), 1, 1))
    poses[:, 0, :3] = np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)], axis=1)
    poses[:, 1, :3] = np.stack([2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)], axis=1)
    poses[:, 2, :3] = np.stack([2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)], axis=1)
    poses[:, :3, 3] = values[:, :3]
    return poses


def text_rows(path: Path, separator: str | None, complete: bool = True) -> list[tuple[int, list[str]]]:
    """Return number and words of every line, without comments and empty lines.

    If not `complete`, a last line without a newline is skipped: its writer was interrupted.
    """
    try:
        text = path.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: cannot be read as text: {error}") from None
    if not complete:
        text = text[: text.rfind("\n") + 1]
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), start=1))
    return [(number, line.split(separator)) for number, line in lines if line and not line.startswith("#")]


def finite_numbers(path: Path, line: int, words: list[str], columns: int) -> list[float]:
    """Convert the words of a line to the numbers of a pose."""
    if len(words) != columns:
        raise FormatError(f"{path}: line {line} has {len(words)} pose values, expected {columns}; the file is truncated or damaged")
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = [np.nan]
    if not np.isfinite(numbers).all():
        raise FormatError(f"{path}: line {line} has a value that is not a finite number")
    return numbers


def stamped_files(folder: Path, ending: str) -> list[Path]:
    """Return the files `<stamp><ending>` of a folder in the order of their stamps as integers: as text, 999 would follow 1000."""
    if not folder.is_dir():
        raise FormatError(f"{folder}: no such folder")
    by_stamp: dict[int, Path] = {}
    for path in sorted(folder.glob(f"*{ending}")):
        if not (path.stem.isascii() and path.stem.isdigit()) or int(path.stem) >= 1 << 63:
            raise FormatError(f"{path}: expected a file named by its stamp in nanoseconds; move it elsewhere")
        twin = by_stamp.setdefault(int(path.stem), path)
        if twin != path:
            raise FormatError(f"{path}: same stamp as {twin.name}; remove one of the two")
    if not by_stamp:
        raise FormatError(f"{folder}: the folder has no {ending} files")
    return [by_stamp[stamp] for stamp in sorted(by_stamp)]


def stamped_dataset(
    name: str,
    files: list[Path],  # named by their stamps, ascending
    read: Callable[[Path], Scan],
    trajectory: StampedPoses | None,
    tolerance: float,  # seconds
    min_range: float,
) -> FileDataset:
    """Pair every scan with the pose nearest to its stamp. Scans without a pose within `tolerance` are skipped and reported."""
    stamps = [int(path.stem) for path in files]
    if trajectory is None:
        return FileDataset(name, tuple(files), read, tuple(stamps), min_range=min_range)
    if not tolerance >= 0.0:
        raise InputError(f"tolerance is {tolerance!r}; expected the largest time between scan and pose, in seconds")
    rows = trajectory.nearest(np.array(stamps, np.int64), round(tolerance * 1e9))
    if (rows < 0).all():
        known = f"{trajectory.stamps[0]} to {trajectory.stamps[-1]}" if len(trajectory.stamps) else "none"
        raise FormatError(
            f"{name}: no scan has a pose within {tolerance:g} s: scan stamps {stamps[0]} to {stamps[-1]}, pose stamps {known}; "
            "increase the tolerance, or pass poses=False to read the scans without poses"
        )
    why = f"no pose within {tolerance:g} s"
    skipped = tuple(Skipped(path.name, why) for path, row in zip(files, rows, strict=True) if row < 0)
    warn_skipped(name, skipped)
    kept = np.flatnonzero(rows >= 0)
    return FileDataset(
        name,
        tuple(files[k] for k in kept),
        read,
        tuple(stamps[k] for k in kept),
        trajectory.poses[rows[kept]],
        skipped,
        min_range,
    )


# --- HeLiPR: `<sequence>/LiDAR/<Sensor>/<stamp>.bin`, poses in `<sequence>/LiDAR_GT`. Four sensors, four packed layouts.


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
_HELIPR_TOLERANCE = 1e-3


def open_helipr(
    path: str | os.PathLike[str],
    sequence: str | None = None,
    sensor: str = "velodyne",
    poses: bool = True,
    tolerance: float = _HELIPR_TOLERANCE,
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
        raise FormatError(f"{folder}: contains no folder 'LiDAR'; pass the folder of one HeLiPR sequence, or sequence=")
    files = stamped_files(folder / "LiDAR" / title, ".bin")
    names = (f"global_{title}_gt.txt", f"{title}_gt.txt")
    pose_files = [folder / "LiDAR_GT" / name for name in names if (folder / "LiDAR_GT" / name).is_file()]
    trajectory = read_stamped_poses(pose_files[0], 7) if poses and pose_files else None
    name = f"helipr {folder.resolve().name} {sensor.lower()}"
    return stamped_dataset(name, files, partial(_read_helipr, sensor=sensor.lower()), trajectory, tolerance, min_range)


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


# --- MulRan: `<sequence>/Ouster/<stamp>.bin` (x y z intensity as float32) and `<sequence>/global_pose.csv` of the vehicle base.


LAYOUT = np.dtype([(name, "<f4") for name in ("x", "y", "z", "intensity")])
_RINGS, _COLUMNS = 64, 1024
_TURN = 0.1  # seconds
# Poses come every 10 ms, so the nearest one is at most 5 ms away: 5 cm at 10 m/s.
_MULRAN_TOLERANCE = 0.01


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
    tolerance: float = _MULRAN_TOLERANCE,
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
        raise FormatError(f"{folder}: contains no folder 'Ouster'; pass the folder of one MulRan sequence, or sequence=")
    file = folder / "global_pose.csv"
    trajectory = None
    if poses and file.is_file():
        base = read_stamped_poses(file, 12, ",")
        trajectory = StampedPoses(base.stamps, base.poses @ T_BASE_OUSTER)
    return stamped_dataset(
        f"mulran {folder.resolve().name}", stamped_files(scans, ".bin"), _read_mulran, trajectory, tolerance, min_range
    )


def _read_mulran(path: Path) -> Scan:
    records = read_packed(path, LAYOUT)
    points = np.stack([records[axis] for axis in "xyz"], axis=1).astype(np.float32, copy=False)
    fields = {"intensity": np.ascontiguousarray(records["intensity"])}
    if len(records) == _RINGS * _COLUMNS:
        row = np.arange(len(records))
        fields["ring"] = (row % _RINGS).astype(np.uint16)
        fields["time"] = (row // _RINGS) * (_TURN / _COLUMNS)
    return Scan(points, fields)
