"""Decode and write Livox' CustomMsg. Its drivers record it instead of PointCloud2, with the time of every point.

The serialized bytes are decoded here, all points at once: rosbags would create an object per point, and ROS 2 bags without message
definitions could not be decoded at all. The message is the same in all three drivers.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from poli.data.datasets.point_times import TimeUnit, with_point_times
from poli.scan import Scan

# The messages of livox_ros_driver (ROS 1), livox_ros2_driver, and livox_ros_driver2 (both), as rosbags names them
LIVOX = tuple(f"{package}/msg/CustomMsg" for package in ("livox_ros_driver", "livox_interfaces", "livox_ros_driver2"))

POINT_TEXT = "uint32 offset_time\nfloat32 x\nfloat32 y\nfloat32 z\nuint8 reflectivity\nuint8 tag\nuint8 line\n"
MESSAGE_TEXT = "std_msgs/Header header\nuint64 timebase\nuint32 point_num\nuint8 lidar_id\nuint8[3] rsvd\nCustomPoint[] points\n"

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
    if not ros2:
        seconds, rest, length = struct.unpack_from("<III", raw, 4)  # after `seq`
        number_at = 16 + length + 8
        return _decode(bytes(raw), number_at, "<", ros2, seconds * 10**9 + rest)
    order = _ENCODINGS.get(bytes(raw[:2]))
    if order is None:
        raise ValueError("invalid or unsupported CDR encapsulation")
    seconds, rest, length = struct.unpack_from(f"{order}iII", raw, _CAPSULE)
    end = 12 + length
    number_at = _CAPSULE + end + -end % 8 + 8  # timebase is aligned to 8 bytes, and point_num follows it
    return _decode(bytes(raw), number_at, order, ros2, seconds * 10**9 + rest)


def _decode(raw: bytes, number_at: int, order: str, ros2: bool, stamp: int) -> LivoxCloud:
    begin = number_at + 12  # point_num, lidar_id, rsvd and the length of the list
    (count,) = struct.unpack_from(f"{order}I", raw, begin - 4)
    step = _SIZE2 if ros2 else _SIZE
    end = begin + max(count * step - (step - _SIZE), 0)  # the last point is not padded
    if not end <= len(raw) <= end + (_ODD_END if ros2 else 0):
        raise ValueError(f"{count} Livox points end at byte {end}, but the message has {len(raw)} bytes")
    layout = np.dtype([(name, order + kind) for name, kind in _POINT])
    records = np.ndarray((count,), layout, raw, begin, (step,)) if count else np.zeros(0, layout)
    return LivoxCloud(raw[:begin], number_at, order, ros2, stamp or None, records)


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
