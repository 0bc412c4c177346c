"""PCD files (Point Cloud Library): ascii, binary and binary_compressed."""

from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from poli.errors import FormatError
from poli.io.atomic import atomic_path
from poli.io.formats.numpy_files import check_names, records_from_scan, scan_from_records
from poli.io.limits import check_inflated
from poli.io.ply import read_records
from poli.kernel import kernel
from poli.scan import Scan

_MAX_EXPANSION = 264 / 2  # an upper bound: a copy takes at least two bytes and yields at most 264


@kernel
def decompress(packed: np.ndarray, size: int) -> np.ndarray:  # (M,) uint8 -> (size,) uint8, or empty if damaged
    """Decompress LZF, used by binary_compressed files: literal runs, and copies of up to 264 bytes from the last 8 KiB."""
    out = np.empty(size, np.uint8)
    damaged = np.empty(0, np.uint8)
    at, end, to = 0, len(packed), 0
    while at < end:
        control = int(packed[at])
        at += 1
        if control < 32:  # a run of control + 1 literals
            run = control + 1
            if at + run > end or to + run > size:
                return damaged
            out[to : to + run] = packed[at : at + run]
            at += run
            to += run
            continue
        length = control >> 5
        if length == 7:
            if at >= end:
                return damaged
            length += int(packed[at])
            at += 1
        if at >= end:
            return damaged
        source = to - ((control & 31) << 8) - int(packed[at]) - 1
        at += 1
        length += 2
        if source < 0 or to + length > size:
            return damaged
        for _ in range(length):  # byte by byte: a copy may overlap itself
            out[to] = out[source]
            to += 1
            source += 1
    return out if to == size else damaged


_KINDS = {"F": "f", "I": "i", "U": "u"}
_LONGEST_LINE = 65536
_LONGEST_HEADER = 10_000  # lines, comments included


class _Header(NamedTuple):
    dtype: np.dtype
    points: int
    encoding: str  # ascii, binary or binary_compressed


def read_pcd(path: Path) -> Scan:
    """Read a PCD file of any encoding."""
    with path.open("rb") as file:
        header = _read_header(file, path)
        ascii = header.encoding == "ascii"
        if ascii and any(header.dtype[n].base.kind == "V" for n in header.dtype.names or ()):
            raise FormatError(f"{path}: an ascii PCD with padding fields ('_') is not supported; convert it to binary")
        if header.encoding == "binary_compressed":
            records = _read_compressed(file, path, header)
        else:
            records = read_records(file, path, header.dtype, header.points, ascii)
    names = [n for n in header.dtype.names or () if not n.startswith("\0")]  # padding is not data
    return scan_from_records(records[names], path)


def write_pcd(path: Path, scan: Scan) -> None:
    """Write a binary PCD file. A field of several columns becomes one with a COUNT."""
    records = records_from_scan(scan, flat=False)
    check_names(records, path)
    names = records.dtype.names or ()
    bases = [records.dtype[n].base for n in names]
    counts = [int(np.prod(records.dtype[n].shape)) for n in names]
    for name, base in zip(names, bases, strict=True):
        if name == "_":
            raise FormatError(f"{path}: PCD reserves the field name '_' for padding; rename the field")
        if base == np.float16:
            raise FormatError(f"{path}: PCD cannot store field '{name}' of type {base}; convert it or use .npz")
    header = (
        "# .PCD v0.7 - Point Cloud Data file format\nVERSION 0.7\n"
        f"FIELDS {' '.join(names)}\n"
        f"SIZE {' '.join(str(b.itemsize) for b in bases)}\n"
        f"TYPE {' '.join(b.kind.upper() for b in bases)}\n"
        f"COUNT {' '.join(map(str, counts))}\n"
        f"WIDTH {len(scan)}\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS {len(scan)}\nDATA binary\n"
    )
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write(header.encode("ascii"))
        file.write(records.tobytes())


def _read_header(file: BinaryIO, path: Path) -> _Header:
    lines: dict[str, list[str]] = {}
    for _ in range(_LONGEST_HEADER):
        if "DATA" in lines:
            break
        raw = file.readline(_LONGEST_LINE)
        if not raw.endswith(b"\n") or len(lines) > 20:
            raise FormatError(f"{path}: the PCD header does not end with a DATA line; the file is truncated or not PCD")
        words = raw.decode("ascii", errors="replace").split()
        if words and not words[0].startswith("#"):
            lines["FIELDS" if words[0] == "COLUMNS" else words[0]] = words[1:]  # old files have COLUMNS instead
    try:
        names, sizes, kinds = lines["FIELDS"], lines["SIZE"], lines["TYPE"]
        counts = [int(c) for c in lines.get("COUNT", ["1"] * len(names))]
        if not len(names) == len(sizes) == len(kinds) == len(counts) or min(counts, default=1) < 1:
            raise ValueError("FIELDS, SIZE, TYPE and COUNT differ in length")
        columns: list[tuple] = []
        for i, (name, size, kind, count) in enumerate(zip(names, sizes, kinds, counts, strict=True)):
            if name == "_":
                columns.append((f"\0{i}", "V1", (int(size) * count,)))
            else:
                base = f"<{_KINDS[kind]}{int(size)}"
                columns.append((name, base, (count,)) if count > 1 else (name, base))
        dtype = np.dtype(columns)
        grid = int(lines["WIDTH"][0]) * int(lines["HEIGHT"][0]) if "WIDTH" in lines and "HEIGHT" in lines else None
        points = int(lines["POINTS"][0]) if "POINTS" in lines or grid is None else grid
        if grid is not None and points != grid:
            raise ValueError(f"WIDTH x HEIGHT is {grid}, but POINTS is {points}")
        encoding = lines["DATA"][0]
        if points < 0 or encoding not in ("ascii", "binary", "binary_compressed"):
            raise ValueError(f"POINTS {points}, DATA {encoding}")
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise FormatError(f"{path}: invalid PCD header: {str(error)[:120]}") from None
    return _Header(dtype, points, encoding)


def _read_compressed(file: BinaryIO, path: Path, header: _Header) -> np.ndarray:
    """Read one LZF block, in which the fields are stored one after the other."""
    needed = header.points * header.dtype.itemsize
    packed_size, size = read_records(file, path, np.dtype("<u4"), 2, ascii=False).tolist()
    packed = read_records(file, path, np.dtype(np.uint8), packed_size, ascii=False)
    if size != needed or size > packed_size * _MAX_EXPANSION:
        raise FormatError(f"{path}: the compressed block has {size} bytes in {packed_size}, but the points {needed}; it is damaged")
    check_inflated(path, packed_size, size)
    data = decompress(packed, size)
    if len(data) != size:
        raise FormatError(f"{path}: the compressed data is damaged")
    records = np.empty(header.points, header.dtype)
    at = 0
    for name in header.dtype.names or ():
        column = header.dtype[name]
        width = column.itemsize * header.points
        records[name] = data[at : at + width].view(column.base).reshape((header.points, *column.shape))
        at += width
    return records
