"""Text point clouds: one point a line, columns divided by commas, semicolons or white space, with or without a line of names."""

import re
from pathlib import Path

import numpy as np

from poli.data.formats.records import check_names, records_from_scan, scan_from_records
from poli.errors import FormatError
from poli.files.atomic import atomic_path
from poli.files.ply import write_text_records
from poli.scan import Scan

_INTEGER = re.compile(r"[+-]?\d{1,18}$")
_LONGEST_LINE = 65536


def read_text(path: Path) -> Scan:
    """Integer columns come back as int64, all others as float64. Without names: x y z, then intensity if there are four."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            names, first, skip, separator = _look(file, path)
            kinds = ["i8" if _INTEGER.match(word) else "f8" for word in first]
            for types in (kinds, ["f8"] * len(first)):  # a column may begin with a whole number and go on otherwise
                file.seek(0)
                for _ in range(skip):
                    file.readline()
                try:
                    dtype = list(zip(names, types, strict=True))
                    return scan_from_records(np.loadtxt(file, dtype, comments="#", delimiter=separator, ndmin=1), path)
                except ValueError as error:
                    trouble = error
    except UnicodeDecodeError:
        raise FormatError(f"{path}: this is not a text file") from None
    raise FormatError(f"{path}: {str(trouble)[:200]}")


def write_text(path: Path, scan: Scan) -> None:
    separator = "," if path.suffix.lower() == ".csv" else " "
    records = records_from_scan(scan, flat=True)
    check_names(records, path, forbidden=" \t\r\n,;#/")
    header = separator.join(records.dtype.names or ())
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write((header if separator == "," else f"# {header}").encode("ascii") + b"\n")
        write_text_records(file, records, separator)


def _look(file, path: Path) -> tuple[list[str], list[str], int, str | None]:
    """Column names, the first row of numbers, how many lines stand before it, and what divides the columns."""
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
            return names, words, skip, separator
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
