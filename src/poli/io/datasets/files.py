"""Datasets: scans in order, their poses if known, and a list of what was skipped. Here: folders of scan files.

Stamps are integer nanoseconds throughout: seconds since 1970 in float64 are off by a tenth of a microsecond or more, so equal
stamps would compare unequal.
"""

import operator
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from poli.errors import FormatError, InputError
from poli.io.formats import FORMATS, read
from poli.scan import Scan


class SkippedWarning(UserWarning):
    """Part of a dataset was skipped; the message says how much."""


@dataclass(frozen=True)
class Skipped:
    """A part of a dataset that was skipped."""

    what: str  # the file
    why: str


@runtime_checkable
class Dataset(Protocol):
    """A sequence of scans. The field `time` of a scan is in seconds from its stamp.

    `dataset[i]` reads only scan i. A scan without returns (an empty file) is a `Scan` of 0 points, which preserves the indices.
    """

    @property
    def name(self) -> str: ...

    @property
    def poses(self) -> np.ndarray | None:  # (M, 4, 4) float64
        """T_world_sensor of each scan, or None if unknown."""

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What was skipped when the dataset was opened, and why."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Scan: ...

    def __iter__(self) -> Iterator[Scan]: ...


class ScanSequence:
    """What the datasets of this package share. A subclass has a `name` and defines `__len__` and `_scan`."""

    name: str
    poses: np.ndarray | None = None
    skipped: tuple[Skipped, ...] = ()
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


@dataclass(frozen=True, eq=False, repr=False)
class FileDataset(ScanSequence):
    """A dataset with one file per scan. Non-finite points and zero returns are dropped and counted in `Scan.dropped`."""

    name: str
    files: tuple[Path, ...]
    read: Callable[[Path], Scan]
    stamps: tuple[int, ...] | None = None  # nanoseconds
    poses: np.ndarray | None = None  # (M, 4, 4) T_world_sensor
    skipped: tuple[Skipped, ...] = ()
    min_range: float = 0.0

    def __post_init__(self) -> None:
        if not self.min_range >= 0.0:
            raise InputError(f"min_range is {self.min_range!r}; expected a distance in meters, 0 to keep every return")
        for what, rows in (("stamps", self.stamps), ("poses", self.poses)):
            if rows is not None and len(rows) != len(self.files):
                raise InputError(f"{self.name}: {len(rows)} {what} for {len(self.files)} scans")

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
    min_range: float = 0.0,
) -> FileDataset:
    """Return the scans that have a pose. The others are skipped, with the reason `why`; `hint` follows if no scan is left."""
    kept = [row for row, T in enumerate(poses) if T is not None]
    if not kept:
        remedy = "pass {argument} to read the scans without poses"
        raise FormatError(f"{name}: no scan has a pose: {why}; {hint}", argument="poses", value=False, remedy=remedy)
    skipped = tuple(Skipped(file.name, why) for file, T in zip(files, poses, strict=True) if T is None)
    warn_skipped(name, skipped)
    return FileDataset(
        name,
        tuple(files[row] for row in kept),
        read,
        None if stamps is None else tuple(stamps[row] for row in kept),
        np.stack([T for T in poses if T is not None]),
        skipped,
        min_range,
    )


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


def open_folder(path: str | os.PathLike[str], ending: str | None = None, min_range: float = 0.0) -> FileDataset:
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
        raise FormatError(
            f"{place}: several types of scan files ({found})",
            argument="ending", value=most.lstrip("."), remedy="pass {argument}, for example",
        )  # fmt: skip
    chosen = tuple(sorted(files[most], key=_natural_key))
    return FileDataset(f"folder {place.resolve().name}", chosen, read_or_empty, min_range=min_range)


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
