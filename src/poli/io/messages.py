"""Convert messages of LiDAR drivers to scans, with per-point times in seconds from the stamp of the scan."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Literal, NamedTuple, get_args

import numpy as np

from poli.errors import FormatError, InputError
from poli.io.pointcloud2 import PointCloud2, columns_of_cloud, records_of_cloud, stamp_of_cloud
from poli.scan import Scan

__all__ = ["decode_livox", "encode_livox", "records_of_cloud", "scan_from_cloud", "scan_from_livox", "scan_from_message"]

TimeUnit = Literal["s", "ms", "us", "ns"]

TIME_NAMES = (
    "time", "t", "timestamp", "time_stamp", "timestamps", "offset_time", "time_offset", "t_offset", "point_time_offset",
    "time_offset_ns",
)  # fmt: skip
_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_LONGEST = 1.0  # seconds; largest distance of a point from the stamp of its scan
_SHORTEST = 1e-3  # seconds; least duration of a scan whose points differ in time


def check_unit(unit: str | None) -> None:
    """Raise if `unit` is not a unit of per-point times."""
    if unit is not None and unit not in _A_SECOND:
        raise InputError(f"time_unit is {unit!r}; expected one of {', '.join(get_args(TimeUnit))}")


def with_point_times(scan: Scan, unit: TimeUnit | None, where: str) -> Scan:
    """Convert the first field of `TIME_NAMES` to `time`, float64 seconds from `scan.stamp`.

    Without a `unit`, integers are nanoseconds and floats seconds, from the stamp or from 1970. Any other values are an error rather
    than a guess: microseconds read as nanoseconds would look like a sensor at rest.
    """
    name = next((n for n in TIME_NAMES if n in scan.fields), None)
    if name is None or scan.stamp is None:
        return scan
    values = scan.fields[name]
    if values.ndim != 1:
        raise FormatError(f"{where}: field '{name}' has {values.shape[1]} values per point; expected one time")
    seconds = _seconds(values, scan.stamp, unit)
    if seconds is None:
        what = f"{values.dtype}, {values.min()} to {values.max()}, stamp {scan.stamp}"
        raise FormatError(f"{where}: the times in field '{name}' ({what}) are ambiguous; pass a time_unit: s, ms, us or ns")
    fields = {"time" if n == name else n: seconds if n == name else v for n, v in scan.fields.items()}
    return Scan(scan.points, fields, scan.stamp, scan.dropped)


def _seconds(values: np.ndarray, stamp: int, unit: TimeUnit | None) -> np.ndarray | None:
    known = values[np.isfinite(values)]
    if not len(known):
        return values.astype(np.float64)
    is_float = values.dtype.kind == "f"
    least, most = known.min().item(), known.max().item()  # exact, as Python numbers
    rate = _A_SECOND[unit or ("s" if is_float else "ns")]
    short = unit is None and 0 < (most - least) / rate < _SHORTEST
    if max(abs(least), abs(most)) / rate <= _LONGEST:
        return None if short else values.astype(np.float64) / rate
    if values.dtype.itemsize < 8:  # 32 bits are too few for a time since 1970
        return None
    whole, part = divmod(stamp, 10**9)
    for rate in (_A_SECOND[unit],) if unit else (1, 10**9, 10**6):
        origin = whole * rate
        if max(abs(least - origin), abs(most - origin)) / rate <= _LONGEST + 1.0:
            # Subtract before dividing, in integers where possible: nanoseconds since 1970 in float64 are off by about 100 ns.
            counts = values - origin if is_float else values.astype(np.int64) - origin
            return counts / rate - part * 1e-9
    return None


def scan_from_cloud(cloud: PointCloud2, where: str) -> Scan:
    """Convert a cloud with all points and fields, in native byte order; `where` names the message in errors."""
    return Scan.from_columns(columns_of_cloud(cloud, where), where)


def scan_from_message(
    cloud: PointCloud2, where: str = "the PointCloud2 message", stamp: int | None = None, time_unit: TimeUnit | None = None
) -> Scan:
    """Convert a cloud to a cleaned scan with per-point `time` in seconds from `stamp`, by default that of the header."""
    scan = replace(scan_from_cloud(cloud, where), stamp=stamp or stamp_of_cloud(cloud))
    try:
        return with_point_times(scan, time_unit, where).clean()
    except InputError as error:
        raise FormatError(f"{where}: {error}") from None


# --- Decode and write Livox' CustomMsg. Its drivers record it instead of PointCloud2, with the time of every point.
#
# The serialized bytes are decoded here, all points at once: rosbags would create an object per point, and could not decode ROS 2
# bags without message definitions. The message is the same in all three drivers.

# The messages of livox_ros_driver (ROS 1), livox_ros2_driver, and livox_ros_driver2 (both), as rosbags names them
LIVOX = tuple(f"{package}/msg/CustomMsg" for package in ("livox_ros_driver", "livox_interfaces", "livox_ros_driver2"))

_POINT = (
    ("offset_time", "u4"), ("x", "f4"), ("y", "f4"), ("z", "f4"), ("reflectivity", "u1"), ("tag", "u1"), ("line", "u1"),
)  # fmt: skip
_SIZE, _SIZE2 = 19, 20  # bytes per point in ROS 1; in ROS 2, where offset_time is aligned to 4 bytes
_CAPSULE = 4  # bytes before a CDR message; alignment is relative to their end
_ENCODINGS = {b"\x00\x00": ">", b"\x00\x01": "<"}  # of CDR
_ODD_END = 3  # bytes of padding that may follow a CDR message


class LivoxCloud(NamedTuple):
    """A decoded message."""

    head: bytes  # all bytes before the points
    number_at: int  # where `point_num` is in the head; the last four bytes of the head repeat it
    order: str  # byte order, < or >
    ros2: bool
    stamp: int | None  # nanoseconds; None: the header has none
    records: np.ndarray  # (N,) with the fields of a CustomPoint


def decode_livox(raw: bytes | memoryview, ros2: bool) -> LivoxCloud:
    """Decode a serialized message. A damaged one raises ValueError or struct.error."""
    raw = bytes(raw)
    order = _ENCODINGS.get(raw[:2]) if ros2 else "<"
    if order is None:
        raise ValueError("invalid or unsupported CDR encapsulation")
    seconds, rest, length = struct.unpack_from(f"{order}{'i' if ros2 else 'I'}II", raw, 4)  # after the capsule, or `seq`
    header = 16 + length  # bytes
    number_at = header + (-(header - _CAPSULE) % 8 if ros2 else 0) + 8  # after timebase, which ROS 2 aligns to 8 bytes
    begin = number_at + 12  # point_num, lidar_id, rsvd and the length of the list
    (count,) = struct.unpack_from(f"{order}I", raw, begin - 4)
    step = _SIZE2 if ros2 else _SIZE
    end = begin + max(count * step - (step - _SIZE), 0)  # the last point is not padded
    if not end <= len(raw) <= end + (_ODD_END if ros2 else 0):
        raise ValueError(f"{count} Livox points end at byte {end}, but the message has {len(raw)} bytes")
    layout = np.dtype([(name, order + kind) for name, kind in _POINT])
    records = np.ndarray((count,), layout, raw, begin, (step,)) if count else np.zeros(0, layout)
    return LivoxCloud(raw[:begin], number_at, order, ros2, seconds * 10**9 + rest or None, records)


def encode_livox(cloud: LivoxCloud, records: np.ndarray) -> bytes:  # (M,)
    """Serialize the message with other points; header, timebase and LiDAR are kept."""
    head = bytearray(cloud.head)
    for at in (cloud.number_at, len(head) - 4):
        struct.pack_into(f"{cloud.order}I", head, at, len(records))
    rows = np.ascontiguousarray(records, cloud.records.dtype).view(np.uint8).reshape(len(records), _SIZE)
    if not cloud.ros2:
        return bytes(head) + rows.tobytes()
    padded = np.zeros((len(rows), _SIZE2), np.uint8)
    padded[:, :_SIZE] = rows
    return bytes(head) + padded.tobytes()[: -(_SIZE2 - _SIZE)]


def scan_from_livox(cloud: LivoxCloud, where: str, stamp: int, time_unit: TimeUnit | None = None) -> Scan:
    """Convert a message to a cleaned scan with the fields `intensity`, `time`, `ring` and `tag`.

    `time` is in seconds from the stamp: the drivers stamp a message with the time of its first point, from which `offset_time`
    counts. Points whose tag marks them as noise are kept.
    """
    records = cloud.records
    names = {"intensity": "reflectivity", "offset_time": "offset_time", "ring": "line", "tag": "tag"}
    columns = {name: records[name].astype(np.float32) for name in "xyz"}
    columns |= {name: records[source].astype(records.dtype[source].newbyteorder("=")) for name, source in names.items()}
    columns["intensity"] = columns["intensity"].astype(np.float32)
    scan = replace(Scan.from_columns(columns, where), stamp=stamp)
    return with_point_times(scan, time_unit or "ns", where).clean()
