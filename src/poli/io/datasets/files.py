"""Datasets: scans in order, their poses if known, and a list of what was skipped. Here: plain folders and the poli format.

Stamps are integer nanoseconds throughout: seconds since 1970 in float64 are off by a tenth of a microsecond or more, so equal
stamps would compare unequal.
"""

import operator
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from poli.errors import FormatError, InputError
from poli.io.atomic import atomic_folder
from poli.io.formats import FORMATS, read
from poli.io.formats.numpy_files import write_npz
from poli.io.tables import read_json, write_json
from poli.io.trajectory_files import format_pose, read_stamped_poses
from poli.scan import Scan
from poli.se3 import check_pose


class SkippedWarning(UserWarning):
    """Part of a dataset was skipped; the message says how much."""


@dataclass(frozen=True)
class Skipped:
    """A part of a dataset that was skipped."""

    what: str  # the file
    why: str


class Dataset:
    """A sequence of scans. The field `time` of a scan is in seconds from its stamp.

    `dataset[i]` reads only scan i. A scan without returns (an empty file) is a `Scan` of 0 points, which preserves the indices. A
    subclass has a `name` and defines `__len__` and `_scan`. Functions that take a dataset take any object with these attributes.
    """

    name: str
    poses: np.ndarray | None = None  # (M, 4, 4) T_world_sensor of each scan; None: unknown
    skipped: tuple[Skipped, ...] = ()  # what was skipped when the dataset was opened, and why
    min_range: float = 0.0  # meters; closer returns are dropped (the vehicle itself)

    def __len__(self) -> int:
        raise NotImplementedError

    def _scan(self, row: int) -> Scan:
        """Read the scan with this number, from 0."""
        raise NotImplementedError

    def __getitem__(self, index: int, /) -> Scan:
        row = operator.index(index)
        row += len(self) if row < 0 else 0
        if not 0 <= row < len(self):
            raise IndexError(f"scan {index} is out of range for a dataset of {len(self)} scans")
        scan = self._scan(row)
        if self.min_range == 0.0:
            return scan
        far = np.linalg.norm(scan.points.astype(np.float64), axis=1) >= self.min_range
        return scan if far.all() else scan.select(far)

    def __iter__(self) -> Iterator[Scan]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}, {len(self)} scans, {'no poses' if self.poses is None else 'with poses'})"


@dataclass(eq=False, repr=False)
class FileDataset(Dataset):
    """A dataset with one file per scan. Non-finite points and zero returns are dropped and counted in `Scan.dropped`."""

    name: str
    files: tuple[Path, ...]
    read: Callable[[Path], Scan]
    stamps: tuple[int, ...] | None = None  # nanoseconds
    poses: np.ndarray | None = None  # (M, 4, 4) T_world_sensor
    skipped: tuple[Skipped, ...] = ()

    def __len__(self) -> int:
        return len(self.files)

    def _scan(self, row: int) -> Scan:
        path = self.files[row]
        try:
            scan = self.read(path).clean()
        except OSError as error:
            raise FormatError(f"{path}: cannot be read: {error.strerror or error}") from None
        except InputError as error:  # well-formed, but not a scan
            raise FormatError(f"{path}: {error}") from None
        return scan if self.stamps is None else replace(scan, stamp=self.stamps[row])


def warn_skipped(name: str, skipped: Sequence[Skipped]) -> None:
    """Emit one warning that counts the skipped parts per reason and names the first of each."""
    if not skipped:
        return
    first = {skip.why: skip.what for skip in reversed(skipped)}
    counts = Counter(skip.why for skip in skipped)
    listed = "; ".join(f"{count} ({why}; the first is {first[why]})" for why, count in counts.items())
    warnings.warn(f"{name}: skipped scans: {listed}", SkippedWarning, stacklevel=3)


def posed_dataset(
    name: str,
    files: Sequence[Path],
    read: Callable[[Path], Scan],
    stamps: Sequence[int] | None,
    poses: Sequence[np.ndarray | None],  # of each file, (4, 4)
    why: str,
    hint: str,
) -> FileDataset:
    """Return the scans that have a pose. The others are skipped, with the reason `why`; `hint` follows if no scan is left."""
    kept = [row for row, T in enumerate(poses) if T is not None]
    if not kept:
        raise FormatError(f"{name}: no scan has a pose: {why}; {hint}; pass poses=False to read the scans without poses")
    skipped = tuple(Skipped(file.name, why) for file, T in zip(files, poses, strict=True) if T is None)
    warn_skipped(name, skipped)
    times = None if stamps is None else tuple(stamps[row] for row in kept)
    known = np.stack([T for T in poses if T is not None])
    return FileDataset(name, tuple(files[row] for row in kept), read, times, known, skipped)


def numbered_files(folder: Path, ending: str) -> dict[int, Path]:
    """Return the files that are named by a stamp or a frame number, in the order of the numbers: as text, 999 would follow 1000."""
    if not folder.is_dir():
        raise FormatError(f"{folder}: no such folder")
    found: dict[int, Path] = {}
    for path in sorted(folder.glob(f"*{ending}")):
        if not (path.stem.isascii() and path.stem.isdigit()) or int(path.stem) >= 1 << 63:
            raise FormatError(f"{path}: expected a file named by its number or its stamp in nanoseconds; move it elsewhere")
        twin = found.setdefault(int(path.stem), path)
        if twin != path:
            raise FormatError(f"{path}: same number as {twin.name}; remove one of the two")
    if not found:
        raise FormatError(f"{folder}: the folder has no {ending} files")
    return dict(sorted(found.items()))


# --- A plain folder of scan files, without poses.


# Text files are read only on request: next to scans, they usually contain times or poses.
_ENDINGS = tuple(e for f in FORMATS if f.name != "text" for e in f.endings)
_ALL_ENDINGS = tuple(e for f in FORMATS for e in f.endings)


def open_folder(path: str | os.PathLike[str], ending: str | None = None) -> FileDataset:
    """Open the scan files of a folder in natural order (scan2 before scan10). `ending` selects one of several file types.

    Stamps are those stored in the files (.npz).
    """
    place = Path(path)
    if not place.is_dir():
        raise FormatError(f"{place}: no such folder")
    ending = None if ending is None else f".{ending.removeprefix('.')}"
    if ending is not None and ending not in _ALL_ENDINGS:
        raise InputError(f"ending is {ending!r}; expected one of {' '.join(_ALL_ENDINGS)}")
    files: dict[str, list[Path]] = {}
    for file in place.iterdir():
        kind = scan_ending(file, _ENDINGS if ending is None else (ending,))
        if kind is not None and file.is_file() and not file.name.startswith("."):
            files.setdefault(kind, []).append(file)
    if not files:
        raise FormatError(f"{place}: the folder has no scan files")
    most = max(files, key=lambda kind: len(files[kind]))
    if len(files) > 1:
        found = ", ".join(f"{len(f)} {kind}" for kind, f in sorted(files.items()))
        raise FormatError(f"{place}: several types of scan files ({found}); pass ending={most.lstrip('.')!r}, for example")
    chosen = tuple(sorted(files[most], key=_natural_key))
    return FileDataset(f"folder {place.resolve().name}", chosen, read_or_empty)


def scan_ending(path: Path, endings: tuple[str, ...] = _ENDINGS) -> str | None:
    """Return which of `endings` a file has; double ones (.pcd.bin) must precede single ones."""
    return next((e for e in endings if path.name.lower().endswith(e)), None)


def _natural_key(path: Path) -> tuple[list[tuple[int, int, str]], str]:
    """Sort key that orders runs of digits as numbers."""
    parts = re.findall(r"[0-9]+|[^0-9]+", path.name)
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts], path.name


def read_or_empty(path: Path) -> Scan:
    """Read a scan; an empty file is an empty scan."""
    return read(path) if path.stat().st_size else Scan(np.zeros((0, 3), np.float32))


# --- The poli format. The folder is written atomically.
#
#     dataset.json        format, version, name, number of scans, and `about`: free-form metadata (sensor, seed, ...)
#     scans/<stamp>.npz   compressed; points, fields of any shape (`normal` (N, 3), `label` (N,)), and the stamp
#     poses.txt           one row per scan: stamp and 12 numbers, T_world_sensor, row-major
#     measured_poses.txt  optional, in the same format: poses with measurement errors

MANIFEST = "dataset.json"
_FORMAT, _VERSION = "poli-dataset", 1
_POSES, _MEASURED = "poses.txt", "measured_poses.txt"


@dataclass(eq=False, repr=False)
class FolderDataset(FileDataset):
    """A `FileDataset` with measured poses and metadata."""

    measured: np.ndarray | None = None  # (M, 4, 4) T_world_sensor
    about: Mapping[str, Any] = field(default_factory=dict)


def open_poli_folder(path: str | os.PathLike[str]) -> FolderDataset:
    """Open a dataset written by `write_folder`. Missing parts are an error."""
    folder = Path(path)
    manifest = _read_manifest(folder / MANIFEST)
    files = numbered_files(folder / "scans", ".npz") if manifest["scans"] else {}
    if len(files) != manifest["scans"]:
        raise FormatError(f"{folder}: {MANIFEST} lists {manifest['scans']} scans, found {len(files)}; the dataset is incomplete")
    stamps = tuple(files)
    poses = _read_poses(folder / _POSES, stamps)
    measured = _read_poses(folder / _MEASURED, stamps) if (folder / _MEASURED).is_file() else None
    about = manifest["about"]
    read = _read_deskewed if about.get("deskewed") is True else read_or_empty
    return FolderDataset(manifest["name"], tuple(files.values()), read, stamps, poses, (), measured, about)


def _read_deskewed(path: Path) -> Scan:
    return read_or_empty(path).without("time")  # otherwise odometry would deskew the points again


def write_folder(
    out: str | os.PathLike[str],
    name: str,
    scans: Iterable[Scan],
    poses: np.ndarray,  # (M, 4, 4) T_world_sensor
    measured: np.ndarray | None = None,  # (M, 4, 4)
    about: Mapping[str, Any] | None = None,
) -> None:
    """Write stamped scans one by one; `about` must be serializable as JSON."""
    with atomic_folder(out) as temporary:
        (temporary / "scans").mkdir()
        stamps: list[int] = []
        for scan in scans:
            if scan.stamp is None or scan.stamp < 0:
                raise InputError(f"scan {len(stamps)} has stamp {scan.stamp}; expected nanoseconds, set it with Scan(stamp=...)")
            if (temporary / "scans" / f"{scan.stamp}.npz").exists():
                raise InputError(f"scan {len(stamps)} has the same stamp as an earlier scan, {scan.stamp}")
            write_npz(temporary / "scans" / f"{scan.stamp}.npz", scan, compressed=True)
            stamps.append(scan.stamp)
        _write_poses(temporary / _POSES, "poses", stamps, poses)
        if measured is not None:
            _write_poses(temporary / _MEASURED, "measured", stamps, measured)
        manifest = {"format": _FORMAT, "version": _VERSION, "name": name, "scans": len(stamps), "about": dict(about or {})}
        try:
            write_json(temporary / MANIFEST, manifest)
        except (TypeError, ValueError) as error:
            raise InputError(f"about: not serializable as JSON: {error}") from None


def _write_poses(path: Path, argument: str, stamps: list[int], poses: np.ndarray) -> None:
    if len(poses) != len(stamps):
        raise InputError(f"{argument}: {len(poses)} poses for {len(stamps)} scans")
    checked = [check_pose(T, f"{argument}[{i}]") for i, T in enumerate(poses)]
    path.write_text("".join(f"{stamp} {format_pose(T)}\n" for stamp, T in zip(stamps, checked, strict=True)))


def _read_poses(path: Path, stamps: tuple[int, ...]) -> np.ndarray:  # (M, 4, 4)
    known, poses = read_stamped_poses(path, 12)
    if tuple(known.tolist()) != stamps:
        odd = min(set(stamps) ^ set(known.tolist()))
        raise FormatError(f"{path}: {len(known)} poses for {len(stamps)} scans; the first difference is at stamp {odd}")
    return poses


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = read_json(path)
    except FileNotFoundError:
        raise FormatError(f"{path}: missing; the folder is not a poli dataset") from None
    if not isinstance(manifest, dict) or (manifest.get("format"), manifest.get("version")) != (_FORMAT, _VERSION):
        raise FormatError(f"{path}: not the manifest of a poli dataset of version {_VERSION}")
    for key, kind in {"name": str, "scans": int, "about": dict}.items():
        if type(manifest.get(key)) is not kind:
            raise FormatError(f"{path}: '{key}' is missing or has the wrong type")
    return manifest
