"""A dataset with one file per scan."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from poli.errors import FormatError, InputError
from poli.io.datasets.protocol import Skipped, row_of
from poli.io.formats import FORMATS, read
from poli.scan import Scan


@dataclass(frozen=True, eq=False)
class FileDataset:
    """A `Dataset` with one file per scan. Non-finite points and zero returns are dropped and counted in `Scan.dropped`."""

    name: str
    files: tuple[Path, ...]
    read: Callable[[Path], Scan]
    stamps: tuple[int, ...] | None = None  # nanoseconds
    poses: np.ndarray | None = None  # (M, 4, 4) T_world_sensor
    skipped: tuple[Skipped, ...] = ()
    min_range: float = 0.0  # meters; closer returns are dropped (the vehicle itself)

    def __post_init__(self) -> None:
        if not self.min_range >= 0.0:
            raise InputError(f"min_range is {self.min_range!r}; expected a distance in meters, 0 to keep every return")
        for what, rows in (("stamps", self.stamps), ("poses", self.poses)):
            if rows is not None and len(rows) != len(self.files):
                raise InputError(f"{self.name}: {len(rows)} {what} for {len(self.files)} scans")

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int, /) -> Scan:
        row = row_of(index, len(self))
        path = self.files[row]
        try:
            scan = self.read(path)
        except OSError as error:
            raise FormatError(f"{path}: cannot be read: {error.strerror or error}") from None
        except InputError as error:  # well-formed, but not a scan
            raise FormatError(f"{path}: {error}") from None
        scan = scan.clean()
        if self.stamps is not None:
            scan = replace(scan, stamp=self.stamps[row])
        return beyond(scan, self.min_range)

    def __iter__(self) -> Iterator[Scan]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}, {len(self)} scans, {'no poses' if self.poses is None else 'with poses'})"


def beyond(scan: Scan, min_range: float) -> Scan:
    """Return the scan without the returns closer than `min_range` meters."""
    if min_range == 0.0:
        return scan
    far = np.linalg.norm(scan.points.astype(np.float64), axis=1) >= min_range
    return scan if far.all() else scan.select(far)


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
    if ending is not None and not ending.startswith("."):
        ending = f".{ending}"
    if ending is not None and ending not in _ALL_ENDINGS:
        raise InputError(f"ending is {ending!r}; expected one of {' '.join(_ALL_ENDINGS)}")
    files: dict[str, list[Path]] = {}
    for file in place.iterdir():
        kind = scan_ending(file, _ENDINGS if ending is None else (ending,))
        if kind is not None and file.is_file() and not file.name.startswith("."):
            files.setdefault(kind, []).append(file)
    if len(files) != 1:
        if not files:
            raise FormatError(f"{place}: the folder has no scan files")
        found = ", ".join(f"{len(f)} {kind}" for kind, f in sorted(files.items()))
        most = max(files, key=lambda kind: len(files[kind]))
        raise FormatError(f"{place}: several types of scan files ({found}); pass ending={most.lstrip('.')!r}, for example")
    ((_, chosen),) = files.items()
    return FileDataset(f"folder {place.resolve().name}", tuple(sorted(chosen, key=natural_key)), read_or_empty, min_range=min_range)


def scan_ending(path: Path, endings: tuple[str, ...] = _ENDINGS) -> str | None:
    """Return which of `endings` a file has; double ones (.pcd.bin) must precede single ones."""
    return next((e for e in endings if path.name.lower().endswith(e)), None)


def natural_key(path: Path) -> tuple[list[tuple[int, int, str]], str]:
    """Sort key that orders runs of digits as numbers."""
    parts = re.findall(r"[0-9]+|[^0-9]+", path.name)
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts], path.name


def read_or_empty(path: Path) -> Scan:
    """Read a scan; an empty file is an empty scan."""
    return read(path) if path.stat().st_size else Scan(np.zeros((0, 3), np.float32))
