"""Text point clouds: one point per line, columns separated by commas, semicolons or whitespace, with or without a header line."""

import warnings
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from poli.errors import FormatError
from poli.io.atomic import atomic_path
from poli.io.formats.numpy_files import check_names, records_from_scan
from poli.scan import Scan

_LONGEST_LINE = 65536
_LONGEST_PREAMBLE = 1000  # lines before the first row of numbers
_FORMATS = {"f2": "%.5g", "f4": "%.9g", "f8": "%.17g"}  # enough digits to restore every number exactly


def read_text(path: Path) -> Scan:
    """Read a text file. Columns of integers become int64, all others float64.

    A header line must name x, y and z; comments (# or //) that do not are skipped. Without names, the columns are x y z, and
    intensity if there are four.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            names, skip, separator = _look(file, path)
        options: dict[str, Any] = {"delimiter": separator, "skiprows": skip, "encoding": "utf-8-sig", "quotechar": '"'}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # numpy's, about files without rows
            table = np.loadtxt(path, np.float64, ndmin=2, **options)
        table = table if table.size else np.zeros((0, len(names)))
        if table.shape[1] != len(names):
            raise FormatError(f"{path}: {len(names)} column names, but {table.shape[1]} columns")
        fields = {n: _whole_numbers(path, table[:, i], i, options) for i, n in enumerate(names) if n not in ("x", "y", "z")}
    except UnicodeDecodeError:
        raise FormatError(f"{path}: not a text file") from None
    except ValueError as error:
        raise FormatError(f"{path}: {str(error)[:200]}") from None
    return Scan(table[:, [names.index(axis) for axis in "xyz"]], fields)


def write_text(path: Path, scan: Scan) -> None:
    """Write one line per point, after a line of names."""
    separator = "," if path.suffix.lower() == ".csv" else " "
    records = records_from_scan(scan, flat=True)
    check_names(records, path, forbidden=" \t\r\n,;#/\"'")
    names = records.dtype.names or ()
    line = separator.join(_FORMATS.get(records.dtype[name].str[1:], "%d") for name in names) + "\n"
    rows = zip(*(records[name].tolist() for name in names), strict=True)
    with atomic_path(path) as temporary, temporary.open("w", encoding="ascii", newline="\n") as file:
        file.write(("" if separator == "," else "# ") + separator.join(names) + "\n")
        file.write("".join(line % row for row in rows))


def _whole_numbers(path: Path, values: np.ndarray, column: int, options: dict) -> np.ndarray:
    """Convert a column of integers to int64; integers too large for float64 (nanosecond stamps) are read again as integers."""
    if not np.isfinite(values).all() or (values != np.floor(values)).any():
        return values
    if np.abs(values).max(initial=0.0) < 2**53:
        return values.astype(np.int64)
    for kind in (np.int64, np.uint64):
        try:
            return np.loadtxt(path, kind, usecols=column, ndmin=1, **options)
        except (ValueError, OverflowError):
            continue
    return values


def _look(file: TextIO, path: Path) -> tuple[list[str], int, str | None]:
    """Return the column names, the number of lines before the first row of numbers, and the separator."""
    names: list[str] = []
    header = ""  # a line of names that is not a comment, and so must not be skipped
    separator = None
    for skip in range(_LONGEST_PREAMBLE):
        line = file.readline(_LONGEST_LINE)
        if not line:  # names but no rows: a scan without points
            if names:
                return _check_names(names, len(names), header, path), skip, separator
            break
        text = line.strip()
        comment = text.startswith(("#", "//"))
        separator = next((s for s in ",;" if s in text), None)
        words = [word.strip().strip("\"'") for word in (text.lstrip("#/ ") if comment else text).split(separator)]
        if not words:
            continue
        if not comment and _are_numbers(words):
            return _check_names(names, len(words), header, path), skip, separator
        if header:
            raise FormatError(f"{path}: line {skip + 1} is not a row of numbers: {text[:60]!r}; text columns are not supported")
        words = [w or f"column_{i}" for i, w in enumerate(words)]  # pandas writes its index without a name
        words = [w.lower() if w in ("X", "Y", "Z") and w.lower() not in words else w for w in words]
        if not comment:
            names, header = words, text
        elif {*"xyz"} <= {*words}:
            names = words
    raise FormatError(f"{path}: no line of numbers found")


def _check_names(names: list[str], count: int, header: str, path: Path) -> list[str]:
    """Return the names of `count` columns: those found, if they fit, otherwise the default names."""
    if not header and len(names) != count:  # no names, or a comment that only looked like names
        if count < 3:
            raise FormatError(f"{path}: {count} columns; x, y and z are required")
        return [*"xyz", "intensity"] if count == 4 else [*"xyz", *(f"column_{i}" for i in range(3, count))]
    if not {*"xyz"} <= {*names} or len({*names}) != len(names) or len(names) != count:
        found = (header or " ".join(names))[:80]
        raise FormatError(f"{path}: the header {found!r} must name each of the {count} columns once, including x, y and z")
    return names


def _are_numbers(words: list[str]) -> bool:
    try:
        [float(w) for w in words]
    except ValueError:
        return False
    return True
