"""Text point clouds: one point a line, columns divided by commas, semicolons or white space, with or without a line of names."""

from pathlib import Path
from typing import TextIO

import numpy as np

from poli.data.formats.records import check_names, records_from_scan
from poli.errors import FormatError
from poli.files.atomic import atomic_path
from poli.files.ply import write_text_records
from poli.scan import Scan

_LONGEST_LINE = 65536


def read_text(path: Path) -> Scan:
    """Integer columns come back as int64, all others as float64. Without names: x y z, then intensity if there are four."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            names, skip, separator = _look(file, path)
        table = np.loadtxt(path, np.float64, comments="#", delimiter=separator, skiprows=skip, ndmin=2, encoding="utf-8-sig")
        if table.shape[1] != len(names):
            raise FormatError(f"{path}: {len(names)} column names and {table.shape[1]} columns")
        columns = {
            n: _whole_numbers(path, table[:, i], i, skip, separator) for i, n in enumerate(names) if n not in ("x", "y", "z")
        }
    except UnicodeDecodeError:
        raise FormatError(f"{path}: this is not a text file") from None
    except ValueError as error:
        raise FormatError(f"{path}: {str(error)[:200]}") from None
    return Scan(table[:, [names.index(axis) for axis in "xyz"]], columns)


def _whole_numbers(path: Path, values: np.ndarray, column: int, skip: int, separator: str | None) -> np.ndarray:
    """A column of whole numbers as int64; those that float64 cannot tell apart (nanosecond stamps) are read once more."""
    if not np.isfinite(values).all() or (values != np.floor(values)).any():
        return values
    if np.abs(values).max() < 2**53:
        return values.astype(np.int64)
    for kind in (np.int64, np.uint64):
        try:
            return np.loadtxt(
                path, kind, comments="#", delimiter=separator, skiprows=skip, usecols=column, ndmin=1, encoding="utf-8-sig"
            )
        except (ValueError, OverflowError):
            continue
    return values


def write_text(path: Path, scan: Scan) -> None:
    separator = "," if path.suffix.lower() == ".csv" else " "
    records = records_from_scan(scan, flat=True)
    check_names(records, path, forbidden=" \t\r\n,;#/")
    header = separator.join(records.dtype.names or ())
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write((header if separator == "," else f"# {header}").encode("ascii") + b"\n")
        write_text_records(file, records, separator)


def _look(file: TextIO, path: Path) -> tuple[list[str], int, str | None]:
    """Column names, how many lines stand before the first row of numbers, and what divides the columns."""
    names: list[str] = []
    skip = 0
    while line := file.readline(_LONGEST_LINE):
        stripped = line.strip()
        separator = next((s for s in ",;" if s in stripped), None)
        words = [w.strip() for w in (stripped.split(separator) if separator else stripped.split())]
        if words and _numbers(words):
            names = [n.lower() if n.lower() in ("x", "y", "z") else n for n in names]
            if len(names) != len(words) or len(set(names)) != len(names) or not {*"xyz"} <= {*names}:
                names = (
                    ["x", "y", "z", "intensity"] if len(words) == 4 else [*"xyz", *(f"column_{i}" for i in range(3, len(words)))]
                )
            if len(words) < 3:
                raise FormatError(f"{path}: line {skip + 1} has {len(words)} columns; x, y and z are needed")
            return names, skip, separator
        if words and not stripped.lstrip("#/ ")[:1].isalpha() and not stripped.startswith(("#", "//")):
            raise FormatError(f"{path}: line {skip + 1} is neither numbers nor a line of column names: {stripped[:60]!r}")
        if words:
            heading = stripped.lstrip("#/ ")
            names = [w.strip() for w in (heading.split(separator) if separator else heading.split())]
        skip += 1
        if skip > 1000:
            break
    raise FormatError(f"{path}: no line of numbers found")


def _numbers(words: list[str]) -> bool:
    try:
        [float(w) for w in words]
    except ValueError:
        return False
    return True
