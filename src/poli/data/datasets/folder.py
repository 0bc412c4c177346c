"""A plain folder of scan files, without poses."""

import os
import re
from pathlib import Path

import numpy as np

from poli.data.datasets.file_dataset import FileDataset
from poli.data.formats import FORMATS, read
from poli.errors import FormatError, InputError
from poli.scan import Scan

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
        raise FormatError(
            f"{place}: several types of scan files ({found})",
            argument="ending", value=most.lstrip("."), remedy="pass {argument}, for example",
        )  # fmt: skip
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
