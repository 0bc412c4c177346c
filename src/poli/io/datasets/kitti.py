"""The KITTI odometry layout: `sequences/XX/{velodyne/NNNNNN.bin, calib.txt, times.txt}` and `poses/XX.txt`.

Poses are those of the left camera, row i for scan i; `Tr` of calib.txt is T_camera_velodyne. Files have no ring or time. KITTI's
own sequences, 00 to 21, are deskewed; a drive of KITTI raw that was converted to this layout is not.

KITTI's HDL-64E is recognized by the elevations of its returns. All its beams point 0.205 degrees too low. Flat ground then looks
like a shallow bowl, and odometry climbs: by 3.2 m over 200 m with 16 beams. IMLS-SLAM (Deschaud, ICRA 2018) describes the error.
KISS-ICP corrects it in the same way.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from poli.beams.corrections import PERIOD, Spin
from poli.errors import FormatError, InputError, PoliError
from poli.io.atomic import atomic_folder, atomic_path
from poli.io.datasets.files import FileDataset, numbered_files
from poli.io.formats.bin import read_kitti_bin, write_kitti_bin
from poli.io.trajectory_files import finite_numbers, format_pose, nanoseconds, read_kitti, rigid_poses
from poli.options import real_array, real_number
from poli.scan import Scan
from poli.se3 import check_pose, inverse

UNCHANGED = "poli.txt"  # the scans of a sequence folder with this file are read as they are
_DESKEWED = tuple(f"{number:02d}" for number in range(22))
_WITHOUT = "pass poses=False to read the scans without poses"


def open_kitti(
    path: str | os.PathLike[str],
    sequence: str | int | None = None,
    poses: bool = True,
    correct_elevation: bool | None = None,
    deskewed: bool | None = None,
    period: float | None = None,
) -> FileDataset:
    """Open `sequence` under `path`, the folder that contains `sequences` and `poses` (or the folder of one sequence).

    Poses are None if the pose file is missing (KITTI sequences 11 to 21) or with `poses=False`.

    The beams of KITTI's HDL-64E point 0.205 degrees too low. `correct_elevation` turns every point up by that angle. None: if the
    elevations are those of this sensor. Many other sensors are stored in this layout and are not changed.

    With `deskewed=False`, points get a `time` from their azimuth: the sensor turns clockwise, starts behind the car, and takes
    `period` seconds per revolution (None: the median difference of the stamps if it is between 0.05 and 0.2 s, otherwise 0.1 s).
    None: True for KITTI's sequences 00 to 21 and for other sensors. Sequences written by `write_kitti` are read as they are.
    """
    root, name = _locate(Path(path), sequence)
    folder, pose_file = root / "sequences" / name, root / "poses" / f"{name}.txt"
    files = _scan_files(folder / "velodyne")
    stamps = _stamps(folder / "times.txt", len(files))
    for option, value in (("correct_elevation", correct_elevation), ("deskewed", deskewed)):
        if not (value is None or isinstance(value, bool)):
            raise InputError(f"{option} is {value!r}; expected true or false, or None to detect it from the scans")
    if (folder / UNCHANGED).is_file():
        correct_elevation, deskewed = bool(correct_elevation), deskewed is not False
    elif deskewed is None and name in _DESKEWED:
        deskewed = True
    if period is not None:
        real_number(period, "period", "the duration of a revolution in seconds", above=True)
    timed = None if deskewed is None else not deskewed
    reader = Hdl64eReader(files, correct_elevation, timed, scan_period(stamps) if period is None else period)
    known = _poses(pose_file, folder / "calib.txt", len(files)) if poses and pose_file.is_file() else None
    return FileDataset(f"kitti {name}", files, reader, stamps, known)


def write_kitti(
    out: str | os.PathLike[str],
    sequence: str | int,
    scans: Iterable[Scan],
    poses: np.ndarray,  # (M, 4, 4)
) -> None:
    """Write a sequence under the folder `out`, which may contain other sequences.

    Only intensity is written; other fields are dropped. Coordinates are float32, and times are relative to the first stamp.
    `Tr` is the identity, so the poses are those of the sensor. The file poli.txt makes `open_kitti` read the scans as they are,
    without corrections for KITTI's sensor.
    """
    root, name = Path(out), sequence_name(sequence)
    if (root / "poses" / f"{name}.txt").exists():
        raise FormatError(f"{root / 'poses' / f'{name}.txt'}: already exists; remove it first, or choose another name")
    for folder in (root / "sequences", root / "poses"):
        folder.mkdir(parents=True, exist_ok=True)
    stamps = []
    with atomic_folder(root / "sequences" / name) as temporary:
        (temporary / "velodyne").mkdir()
        for row, scan in enumerate(scans):
            intensity = {n: v.astype(np.float32) for n, v in scan.fields.items() if n == "intensity"}
            write_kitti_bin(temporary / "velodyne" / f"{row:06d}.bin", replace(scan, fields=intensity))
            stamps.append(scan.stamp)
        if len(stamps) != len(poses):
            raise InputError(f"{len(poses)} poses for {len(stamps)} scans")
        identity = format_pose(np.eye(4))
        (temporary / "calib.txt").write_text("".join(f"{key}: {identity}\n" for key in ("P0", "P1", "P2", "P3", "Tr")))
        (temporary / UNCHANGED).write_text("Written by poli. The scans are complete: their elevations need no correction.\n")
        known = [stamp for stamp in stamps if stamp is not None]
        if len(known) not in (0, len(stamps)):
            raise InputError(f"{len(stamps) - len(known)} of {len(stamps)} scans have no stamp; set a stamp for all or none")
        if known:
            seconds = (divmod(stamp - known[0], 10**9) for stamp in known)
            (temporary / "times.txt").write_text("".join(f"{whole}.{part:09d}\n" for whole, part in seconds))
        # Written before the folder is renamed, so that a sequence never exists without its poses.
        with atomic_path(root / "poses" / f"{name}.txt") as file:
            file.write_text("".join(format_pose(check_pose(T, f"poses[{i}]")) + "\n" for i, T in enumerate(poses)))


def _locate(path: Path, sequence: str | int | None) -> tuple[Path, str]:
    """Return the root folder and the name of the sequence."""
    if (path / "velodyne").is_dir():
        if sequence is not None and sequence_name(sequence) != path.resolve().name:
            raise InputError(f"{path}: this is the folder of one sequence, not of {sequence!r}; omit the sequence")
        return path.resolve().parents[1], path.resolve().name
    root = path / "dataset" if (path / "dataset" / "sequences").is_dir() else path  # as in the KITTI archives
    if not (root / "sequences").is_dir():
        raise FormatError(f"{path}: contains no folder 'sequences'; pass the KITTI folder with sequences and poses")
    there = sorted(p.name for p in (root / "sequences").iterdir() if (p / "velodyne").is_dir())
    if sequence is None and len(there) == 1:
        return root, there[0]
    if sequence is None or sequence_name(sequence) not in there:
        problem = "there are several;" if sequence is None else f"no sequence {sequence_name(sequence)!r} with a folder 'velodyne';"
        raise InputError(f"{path}: {problem} available: {', '.join(there) or 'none'}; choose a `sequence`")
    return root, sequence_name(sequence)


def sequence_name(sequence: str | int) -> str:
    """Return the KITTI name of a sequence: "07" for 7."""
    name = str(sequence)
    return name.zfill(2) if name.isdigit() else name


def _scan_files(folder: Path) -> tuple[Path, ...]:
    """Return the scans, numbered from 0 without gaps. Poses and times are rows of files, so a gap would shift all later poses."""
    files = numbered_files(folder, ".bin")
    for row, (number, path) in enumerate(files.items()):
        if number != row:
            raise FormatError(f"{folder}: expected scan number {row}, found {path.name}; scans are missing")
    return tuple(files.values())


def _poses(file: Path, calib: Path, scans: int) -> np.ndarray:  # (M, 4, 4)
    camera = read_kitti(file)
    if len(camera) != scans:
        raise FormatError(f"{file}: {len(camera)} poses for {scans} scans; they are matched by row; {_WITHOUT}")
    table = read_calibration(calib) if calib.is_file() else {}
    key = next((key for key in ("Tr", "Tr_velo_to_cam", "Tr_velo_cam") if key in table), None)
    if key is None:
        raise FormatError(f"{calib}: missing, or without a line 'Tr:', which the poses of the camera need; {_WITHOUT}")
    T_camera_velodyne = rigid_poses(np.array(finite_numbers(calib, *table[key], 12))[None], calib, [table[key][0]])[0]
    return inverse(T_camera_velodyne) @ camera @ T_camera_velodyne


def read_calibration(path: Path) -> dict[str, tuple[int, list[str]]]:
    """Read lines `key: words`. Return number and words of each line."""
    table: dict[str, tuple[int, list[str]]] = {}
    for number, line in enumerate(path.read_text("ascii", errors="replace").splitlines(), start=1):
        key, _, rest = line.partition(":")
        table.setdefault(key.strip(), (number, rest.split()))
    return table


def _stamps(path: Path, scans: int) -> tuple[int, ...] | None:
    """Read decimal seconds as integer nanoseconds; None if there is no file."""
    if not path.is_file():
        return None
    try:
        stamps = tuple(nanoseconds(word) for word in path.read_text("ascii", errors="replace").split())
    except ValueError as error:
        raise FormatError(f"{path}: {error}") from None
    check_ascending(path, stamps, range(scans))
    return stamps


def check_ascending(path: Path, stamps: Sequence[int], rows: Sequence[int]) -> None:
    """Check that there is a stamp for each of `rows`, the lines of the scans from 0, and that stamps ascend."""
    if len(stamps) != len(rows):
        raise FormatError(f"{path}: {len(stamps)} times for {len(rows)} scans; one of the two is incomplete")
    for before, row in enumerate(rows[1:]):
        if stamps[before + 1] <= stamps[before]:
            raise FormatError(f"{path}: the time in line {row + 1} is not later than that of the scan before; times must ascend")


# --- The HDL-64E.

ELEVATION_ERROR = 0.205  # degrees that the beams point too low

# Elevations of the returns, in degrees, at quantiles of a scan, as bounds. Measured in three drives with 64, 32, 16 and 8 beams:
# -23.8 to -21.6, -21.6 to -20.7, -11.3 to -6.7, and -0.8 to 4.1. The third pair of bounds excludes sensors whose beams are denser
# around the horizon than below (Pandar64, VLS-128), the others all narrower and wider sensors.
_QUANTILES = (0.005, 0.05, 0.5, 0.995)
_LEAST, _MOST = (-25.0, -22.8, -13.5, -1.5), (-20.5, -18.5, -4.5, 5.0)

# The lasers of an HDL-64E do not start from one point, so the elevation of a beam depends on the range. Beams of other sensors and
# of simulations have a constant elevation. Entropies of two histograms distinguish them: a bin of the coarse one, which is as wide
# as the distance of the beams, contains 5 to 19 filled bins of the fine one in KITTI, and 1 to 2.5 if elevations are constant.
_FROM, _TO = -22.0, -2.0  # degrees
_COARSE, _FINE = 0.42, 0.02  # degrees
_SMEARED = 3.5  # fine bins per coarse bin

_FEWEST = 2_000  # returns of a scan that has enough of them to judge
_SAMPLES = 5  # scans, spread over the sequence: a single one may be obstructed

_SHORTEST, _LONGEST = 0.05, 0.2  # seconds: periods of a spinning sensor


def correct_elevation(points: np.ndarray, degrees: float = ELEVATION_ERROR) -> np.ndarray:  # (N, 3) -> (N, 3)
    """Turn every point up by `degrees` about the horizontal axis through the sensor. Ranges and azimuths do not change.

    The default corrects the scans of KITTI. Use it if scans were opened with `correct_elevation=False`, for example to select beams
    by elevation first.
    """
    original = np.asarray(points)
    if original.ndim != 2 or original.shape[1] != 3:
        raise InputError(f"points has shape {original.shape}; expected (N, 3)")
    x, y, z = real_array(original, "points").T
    angle, flat = np.deg2rad(degrees), np.hypot(x, y)
    turned = np.divide(np.cos(angle) * flat - np.sin(angle) * z, flat, out=np.ones_like(flat), where=flat > 0.0)
    up = np.where(flat > 0.0, np.sin(angle) * flat + np.cos(angle) * z, z)
    corrected = np.stack([turned * x, turned * y, up], axis=1)
    return corrected.astype(original.dtype) if original.dtype.kind == "f" else corrected


def is_hdl64e(points: np.ndarray) -> bool:  # (N, 3)
    """Whether the elevations are those of a real HDL-64E, possibly thinned to every second, fourth or eighth beam."""
    flat, z = np.hypot(points[:, 0], points[:, 1], dtype=np.float64), points[:, 2].astype(np.float64)
    seen = np.isfinite(flat) & np.isfinite(z) & (flat > 0.0)
    if seen.sum() < _FEWEST:
        return False
    elevation = np.degrees(np.arctan2(z[seen], flat[seen]))
    found = np.quantile(elevation, _QUANTILES)
    if (found < _LEAST).any() or (found > _MOST).any():
        return False
    return _occupied_bins(elevation, _FINE) > _SMEARED * _occupied_bins(elevation, _COARSE)


def _occupied_bins(elevation: np.ndarray, width: float) -> float:  # (N,) degrees
    """Number of equally filled bins with the entropy of the histogram."""
    counts = np.histogram(elevation, np.arange(_FROM, _TO, width))[0]
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(np.exp(-(shares * np.log(shares)).sum()))


@dataclass(frozen=True, eq=False)
class Hdl64eReader:
    """Read the scans of one sequence, correct their elevations, and derive point times. None: only for an HDL-64E."""

    files: tuple[Path, ...]
    corrected: bool | None  # whether to correct the elevation
    timed: bool | None  # whether to derive times from the azimuth
    period: float = PERIOD  # seconds per revolution

    def __call__(self, path: Path) -> Scan:
        scan = read_or_empty_bin(path)
        if not len(scan):
            return scan
        if self.corrects:
            scan = replace(scan, points=correct_elevation(scan.points))
        if self._is_hdl64e if self.timed is None else self.timed:
            scan = Spin().with_times(scan, self.period)
        return scan

    @property
    def corrects(self) -> bool:
        """Whether elevations are corrected."""
        return self._is_hdl64e if self.corrected is None else self.corrected

    @cached_property
    def _is_hdl64e(self) -> bool:
        """Decided once, at the first scan, by a majority of scans spread over the sequence."""
        votes = [is_hdl64e(scan.points) for scan in self._samples()]
        return 2 * sum(votes) > len(votes)

    def _samples(self) -> Iterator[Scan]:
        last = len(self.files) - 1
        for row in dict.fromkeys(round(share * last) for share in np.linspace(0.0, 1.0, _SAMPLES)):
            try:
                yield read_or_empty_bin(self.files[row])
            except (OSError, PoliError):  # reported when that scan is read
                continue


def read_or_empty_bin(path: Path) -> Scan:
    """Read a scan; an empty file is a scan without points."""
    if path.stat().st_size == 0:
        return Scan(np.zeros((0, 3), np.float32), {"intensity": np.zeros(0, np.float32)})
    return read_kitti_bin(path)


def scan_period(stamps: Sequence[int] | None) -> float:  # nanoseconds
    """Seconds per revolution: the median difference of the stamps if it is plausible, otherwise 0.1 s."""
    if stamps is None or len(stamps) < 2:
        return PERIOD
    period = float(np.median(np.diff(np.array(stamps, np.int64)))) * 1e-9
    return period if _SHORTEST <= period <= _LONGEST else PERIOD
