"""The counts in the header of a LAS file, held against the bytes of the file before any loop runs to them."""

import struct
from pathlib import Path

from poli.errors import FormatError
from poli.files.limits import check_inflated

_HEAD, _HEAD_4 = 227, 375  # bytes of the header, up to version 1.2 and of 1.4
_RECORD, _EXTENDED = 54, 60  # bytes that a variable length record takes at least, and an extended one
_COMPRESSED = 0x80  # a bit of the point format


def check_header(path: Path) -> None:
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(_HEAD_4)
    if len(head) < _HEAD or head[:4] != b"LASF":
        raise FormatError(f"{path}: not a LAS file, or cut off in its header")
    minor = head[25]
    header_size, points_at, records, kind, width, points = struct.unpack_from("<HIIBHI", head, 94)
    if minor >= 4:
        if len(head) < _HEAD_4:
            raise FormatError(f"{path}: cut off in its header")
        extended_at, extended, points = struct.unpack_from("<QIQ", head, 235)
        _check_room(path, "extended records", extended, _EXTENDED, size - min(extended_at, size))
    if size < points_at or points_at < header_size:
        raise FormatError(f"{path}: the points begin at byte {points_at} of {size}; the file is cut off or damaged")
    _check_room(path, "records", records, _RECORD, points_at - header_size)
    if kind & _COMPRESSED:
        check_inflated(path, size, points * width)
    else:
        _check_room(path, "points", points, width, size - points_at)


def _check_room(path: Path, what: str, count: int, width: int, left: int) -> None:
    if count * width > left:
        raise FormatError(
            f"{path}: the header promises {count} {what}, at least {count * width} bytes, and {left} are there; "
            "it is cut off or damaged"
        )
