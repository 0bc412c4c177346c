"""LAS and LAZ files: laspy reads headers and fields, lazrs the compressed points (extra `las`)."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from poli.errors import FormatError, MissingExtra, PoliError
from poli.io.atomic import atomic_path
from poli.io.limits import check_inflated, check_room
from poli.scan import Scan

_CHILD = Path(__file__).with_name("laz_child.py")
_PATIENCE, _SLOWEST = 10.0, 4e6  # seconds and bytes per second that decompression may take
_HEAD, _HEAD_4 = 227, 375  # bytes of the header up to version 1.2, and of version 1.4
_RECORD, _EXTENDED = 54, 60  # least bytes of a variable length record, and of an extended one
_COMPRESSED = 0x80  # a bit of the point format
_STEP = 1e-4  # meters; LAS stores coordinates as multiples of this


def _check_header(path: Path) -> None:
    """Check all counts of the header: laspy and lazrs allocate what it declares."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(_HEAD_4)
    minor = head[25] if len(head) >= _HEAD else 0
    if len(head) < (_HEAD_4 if minor >= 4 else _HEAD) or head[:4] != b"LASF":
        raise FormatError(f"{path}: not a LAS file, or its header is truncated")
    header_size, points_at, records, kind, width, points = struct.unpack_from("<HIIBHI", head, 94)
    if minor >= 4:
        extended_at, extended, points = struct.unpack_from("<QIQ", head, 235)
        check_room(path, "extended records", extended, _EXTENDED, size - min(extended_at, size))
    if size < points_at or points_at < header_size:
        raise FormatError(f"{path}: the points begin at byte {points_at} of {size}; the file is truncated or damaged")
    check_room(path, "records", records, _RECORD, points_at - header_size)
    if kind & _COMPRESSED:
        check_inflated(path, size, points * width)
    else:
        check_room(path, "points", points, width, size - points_at)


def read_las(path: Path) -> Scan:
    """Read a LAS or LAZ file. Coordinates are float64; every dimension that is not all zero becomes a field."""
    laspy = _laspy()
    _check_header(path)
    try:
        with path.open("rb") as file, np.errstate(over="ignore", invalid="ignore"):  # non-finite points are dropped and counted
            header = laspy.LasHeader.read_from(file)
            file.seek(header.offset_to_point_data)
            las = laspy.LasData(header, _read_points(laspy, file, path, header))
            points = np.stack([np.asarray(las.x), np.asarray(las.y), np.asarray(las.z)], axis=-1)
            fields = {name: np.array(las[name]) for name in las.point_format.dimension_names if name not in ("X", "Y", "Z")}
    except (PoliError, MemoryError):
        raise
    except Exception as error:  # laspy raises many types, some derived directly from Exception
        raise FormatError(f"{path}: not a readable LAS file: {str(error)[:200]}") from None
    return Scan(points, {name: values for name, values in fields.items() if values.any()})


def write_las(path: Path, scan: Scan) -> None:
    """Write a LAS or LAZ file; coordinates are rounded to 0.1 mm. A field that does not fit its LAS type is an error."""
    laspy = _laspy()
    if not np.isfinite(scan.points).all():
        raise FormatError(f"{path}: LAS cannot store non-finite points; drop them with scan.clean()")
    header = laspy.LasHeader(point_format=6, version="1.4")
    header.scales = np.full(3, _STEP)
    header.offsets = np.floor(scan.points.min(axis=0)) if len(scan) else np.zeros(3)
    standard = set(header.point_format.dimension_names)
    for name, values in scan.fields.items():
        if name not in standard:
            try:
                kind = f"{values.shape[1]}{values.dtype.str[1:]}" if values.ndim == 2 else values.dtype
                header.add_extra_dim(laspy.ExtraBytesParams(name=name, type=kind))
            except Exception as error:
                raise FormatError(f"{path}: LAS cannot store field '{name}' of type {values.dtype}: {error}") from None
    las = laspy.LasData(header)
    content = io.BytesIO()  # written in memory first: lazrs reports a full disk in its own way
    try:
        las.x, las.y, las.z = scan.points.T.astype(np.float64)
        for name, values in scan.fields.items():
            las[name] = values
            if not np.array_equal(np.asarray(las[name]).astype(values.dtype), values):
                raise FormatError(f"{path}: LAS cannot store field '{name}' ({values.dtype}) without loss; use .pcd or .npz")
        las.write(content, do_compress=path.suffix.lower() == ".laz")
    except (PoliError, MemoryError):
        raise
    except Exception as error:
        raise FormatError(f"{path}: {str(error)[:200]}") from None
    with atomic_path(path) as temporary:
        temporary.write_bytes(content.getbuffer())


def _read_points(laspy: Any, file: Any, path: Path, header: Any) -> Any:
    """Read the point records; `_check_header` has validated their number."""
    record = header.point_format.dtype()
    if header.are_points_compressed:
        found = [vlr for vlr in header.vlrs if type(vlr).__name__ == "LasZipVlr"]
        if not found:
            raise FormatError(f"{path}: the points are compressed, but the LASzip record is missing; the file is damaged")
        data = _decompress(path, found[0].record_data, file.tell(), header.point_count, record.itemsize)
        points = np.frombuffer(data, record)
    else:
        points = np.fromfile(file, record, header.point_count)
    if len(points) != header.point_count:
        raise FormatError(f"{path}: expected {header.point_count} points, found {len(points)}; the file is truncated")
    return laspy.ScaleAwarePointRecord(points, header.point_format, scales=header.scales, offsets=header.offsets)


def _decompress(path: Path, how: bytes, start: int, count: int, width: int) -> bytes:
    """Decompress `count` points. `how` is the LASzip record, `start` the file offset of the points, `width` the bytes per point.

    lazrs trusts its input: on damaged files it panics, aborts on huge allocations, or never returns. A child process shields the
    caller from that. It imports only lazrs and starts in about 50 ms.
    """
    command = [sys.executable, "-P", str(_CHILD), bytes(how).hex(), str(start), str(count), str(width)]
    environment = {**os.environ, "RUST_BACKTRACE": "0"}
    with path.open("rb") as file:
        try:
            ran = subprocess.run(
                command, stdin=file, capture_output=True, env=environment, timeout=_PATIENCE + count * width / _SLOWEST, check=False
            )
            lines = [line for line in ran.stderr.decode("utf-8", "replace").splitlines() if not line.startswith("note:")]
            why = lines[-1] if lines else f"the decoder exited with {ran.returncode}"
        except subprocess.TimeoutExpired:
            why, ran = "timed out", None
    if ran is None or ran.returncode != 0 or len(ran.stdout) != count * width:
        raise FormatError(f"{path}: the compressed points cannot be read ({why[:200]}); the file is truncated or damaged")
    return ran.stdout


def _laspy() -> Any:
    try:
        import laspy
        import lazrs  # noqa: F401
    except ImportError:
        raise MissingExtra("reading and writing .las and .laz", "las") from None
    return laspy
