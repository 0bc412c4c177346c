"""PLY files as numpy record arrays: one array per element, one field per property. ASCII, and binary in either byte order."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from poli.errors import FormatError
from poli.io.atomic import atomic_path
from poli.io.limits import check_room

_TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "float": "f4", "double": "f8",
    "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4", "float32": "f4", "float64": "f8",
}  # fmt: skip
_NAMES = {"i1": "char", "u1": "uchar", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint", "f4": "float", "f8": "double"}
_LONGEST_LINE, _LONGEST_ROW = 4096, 65536  # bytes
_LONGEST_HEADER = 10_000
_COUNT_DIGITS = 20


@dataclass
class _Element:
    name: str
    count: int
    properties: list[tuple[str, str]] = field(default_factory=list)  # (name, numpy type)
    has_list: bool = False


def read_ply_element(path: str | os.PathLike[str], name: str = "vertex") -> np.ndarray:
    """Return element `name` as a record array in native byte order. Elements before it must not contain lists."""
    path = Path(path)
    with path.open("rb") as file:
        encoding, elements = _read_header(file, path)
        for element in elements:
            if element.has_list:
                raise FormatError(f"{path}: element '{element.name}' contains a list; lists are supported only after '{name}'")
            if element.name == name:
                return _read_element(file, path, encoding, element)
            _read_element(file, path, encoding, element)
    raise FormatError(f"{path}: no element '{name}' in this PLY file")


def write_ply(path: str | os.PathLike[str], records: np.ndarray, comments: tuple[str, ...] = ()) -> None:  # (N,) of scalars
    """Write vertices in binary. Raise FormatError if PLY has no type for a field (64-bit integers)."""
    header = _header(path, records.dtype, len(records), comments)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write(header)
        file.write(records.astype(records.dtype.newbyteorder("<")).tobytes())


def write_ply_parts(
    path: str | os.PathLike[str],
    dtype: np.dtype,
    parts: Iterable[np.ndarray],  # (n,) of `dtype` each
    comments: tuple[str, ...] = (),
) -> int:
    """Write the vertices of a file that does not fit into memory, part by part, in binary. Return their number.

    The number is known only after the last part. The header is then written again, with a blank comment that keeps its length.
    """

    def header(count: int) -> bytes:
        blank = " " * (_COUNT_DIGITS - len(str(count)))
        return _header(path, dtype, count, (*comments, blank))

    count = 0
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write(header(0))
        for records in parts:
            file.write(np.ascontiguousarray(records.astype(dtype.newbyteorder("<"), copy=False)).tobytes())
            count += len(records)
        file.seek(0)
        file.write(header(count))
    return count


def _header(path: str | os.PathLike[str], dtype: np.dtype, count: int, comments: tuple[str, ...]) -> bytes:
    lines = ["ply", "format binary_little_endian 1.0", *(f"comment {c}" for c in comments), f"element vertex {count}"]
    for column in dtype.names or ():
        kind = dtype[column].str[1:]
        if kind not in _NAMES:
            raise FormatError(f"{path}: PLY cannot hold field '{column}' of type {dtype[column]}; use .npz or .pcd")
        lines.append(f"property {_NAMES[kind]} {column}")
    return "\n".join([*lines, "end_header", ""]).encode("ascii")


def _read_header(file: BinaryIO, path: Path) -> tuple[str, list[_Element]]:
    if file.readline(_LONGEST_LINE).strip() != b"ply":
        raise FormatError(f"{path}: not a PLY file (its first line is not 'ply')")
    encoding = ""
    elements: list[_Element] = []
    for _ in range(_LONGEST_HEADER):
        raw = file.readline(_LONGEST_LINE)
        words = raw.decode("ascii", errors="replace").split()
        if not raw.endswith(b"\n") and words[:1] != ["end_header"]:
            raise FormatError(f"{path}: the PLY header has no end; the file is truncated or not PLY")
        try:
            match words:
                case ["end_header"]:
                    if not encoding:
                        raise FormatError(f"{path}: the PLY header has no 'format' line")
                    return encoding, elements
                case ["format", "ascii" | "binary_little_endian" | "binary_big_endian" as kind, _]:
                    encoding = kind
                case ["element", name, count]:
                    elements.append(_Element(name, int(count)))
                    if elements[-1].count < 0:
                        raise ValueError
                case ["property", "list", _, _, _]:
                    elements[-1].has_list = True
                case ["property", kind, name]:
                    elements[-1].properties.append((name, _TYPES[kind]))
                case [] | ["comment", *_] | ["obj_info", *_]:
                    pass
                case _:
                    raise ValueError
        except (ValueError, KeyError, IndexError):
            raise FormatError(f"{path}: invalid PLY header line {' '.join(words)[:80]!r}") from None
    raise FormatError(f"{path}: the PLY header is longer than {_LONGEST_HEADER} lines")


def _read_element(file: BinaryIO, path: Path, encoding: str, element: _Element) -> np.ndarray:
    try:
        native = np.dtype(element.properties)
    except ValueError as error:
        raise FormatError(f"{path}: element '{element.name}': {error}") from None
    stored = native.newbyteorder(">" if encoding == "binary_big_endian" else "<")
    return read_records(file, path, stored, element.count, encoding == "ascii").astype(native, copy=False)


def read_records(file: BinaryIO, path: Path, dtype: np.dtype, count: int, ascii: bool) -> np.ndarray:  # (count,)
    """Read records, one per line if `ascii`, after comparing their size with that of the file: a header can declare any number."""
    left = path.stat().st_size - file.tell()
    columns = sum(int(np.prod(dtype[name].shape)) for name in dtype.names or ())
    width = max(1, 2 * columns) if ascii else dtype.itemsize
    check_room(path, "records", count, width, left + ascii)  # the last line may have no line feed
    if not ascii:
        return np.fromfile(file, dtype, count) if dtype.itemsize else np.zeros(0, dtype)
    lines = [file.readline(_LONGEST_ROW).decode("ascii", errors="replace") for _ in range(count)]
    if not count or not columns:
        return np.zeros(count, dtype)
    try:
        records = np.loadtxt(lines, dtype, comments=None, ndmin=1)
    except ValueError as error:
        raise FormatError(f"{path}: {str(error)[:200]}") from None
    if len(records) != count:
        raise FormatError(f"{path}: the header declares {count} records, but the file has {len(records)}")
    return records
