"""Decode ROS PointCloud2 messages: fields by offset, type and byte order; organized clouds row by row.

ROS is not imported. Any object with the attributes of the message is accepted, whether from rclpy, rospy or rosbags.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard

import numpy as np

from poli.errors import FormatError

_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}
_RING_NAMES = ("channel", "line", "laser_id")  # other names that drivers use for the ring
_MOST_SHARED = 8  # fields that may share one byte


class PointField(Protocol):
    """One field of a cloud."""

    name: str
    offset: int
    datatype: int
    count: int


class PointCloud2(Protocol):
    """The message."""

    height: int
    width: int
    fields: Sequence[PointField]
    is_bigendian: bool
    point_step: int
    row_step: int
    data: Any  # bytes, or uint8 that numpy can read


def is_pointcloud2(thing: object) -> TypeGuard[PointCloud2]:
    """Whether an object has the attributes of the message."""
    return all(hasattr(thing, name) for name in PointCloud2.__annotations__)


def records_of_cloud(cloud: PointCloud2, where: str) -> np.ndarray:  # (N,)
    """Return all points as stored: records of `point_step` bytes, row by row, without row padding."""
    try:
        return _records(cloud, where)
    except FormatError:
        raise
    except (TypeError, ValueError, OverflowError, AttributeError) as error:  # any object is accepted, with any attributes
        raise FormatError(f"{where}: not a readable PointCloud2 ({str(error)[:120]}); the message is damaged") from None


def _records(cloud: PointCloud2, where: str) -> np.ndarray:  # (N,)
    height, width, point_step, row_step = map(_count, (cloud.height, cloud.width, cloud.point_step, cloud.row_step))
    # rospy gives bytes, which numpy would read as text; rclpy array.array; rosbags numpy arrays.
    data = np.frombuffer(cloud.data, np.uint8) if isinstance(cloud.data, bytes) else np.ascontiguousarray(cloud.data, np.uint8)
    if data.ndim != 1:
        raise ValueError("`data` is not a flat array of bytes")
    # The row step of single-row clouds means nothing, and drivers often set it wrong.
    row_step = row_step if height > 1 else width * point_step
    count = height * width
    needed = (height - 1) * row_step + width * point_step if count else 0
    # A point takes at least one byte; otherwise any number of points would fit into no data.
    if count and (point_step < 1 or row_step < width * point_step or needed > len(data)):
        steps = f"point step {point_step}, row step {row_step}"
        raise FormatError(f"{where}: {height} rows of {width} points ({steps}) need {needed} bytes, but there are {len(data)}")
    layout = _layout(cloud, point_step, where)
    if not count:
        return np.zeros(0, layout)
    # Copy bytes, not fields: a copy of a record array drops the bytes between the fields.
    rows = np.ndarray((height, width * point_step), np.uint8, data, strides=(row_step, 1))
    return np.ascontiguousarray(rows).reshape(-1).view(layout)


def columns_of_cloud(cloud: PointCloud2, where: str) -> dict[str, np.ndarray]:  # each (N,) or (N, c)
    """Return all fields by name, in native byte order. The ring is always called `ring`. `where` names the message in errors."""
    records = records_of_cloud(cloud, where)
    layout = records.dtype
    # One column at a time: fields may overlap, and swapping a whole record array would swap shared bytes twice.
    columns = {name: records[name].astype(layout[name].base.newbyteorder("=")) for name in layout.names or ()}
    if "ring" not in columns:
        alias = next((name for name in _RING_NAMES if name in columns), None)
        columns = {"ring" if name == alias else name: values for name, values in columns.items()}
    return columns


def stamp_of_cloud(cloud: Any) -> int | None:
    """Return the header's stamp in nanoseconds, or None if it is missing or zero (drivers without a clock write zero)."""
    stamp = getattr(getattr(cloud, "header", None), "stamp", None)
    for seconds, rest in (("sec", "nanosec"), ("secs", "nsecs")):  # ROS 2 and rosbags; rospy
        if hasattr(stamp, seconds):
            try:
                return int(getattr(stamp, seconds)) * 10**9 + int(getattr(stamp, rest)) or None
            except (TypeError, ValueError, OverflowError, AttributeError):
                raise FormatError("the stamp of the PointCloud2 message is not a time; the message is damaged") from None
    return None


def _layout(cloud: PointCloud2, point_step: int, where: str) -> np.dtype:
    order = ">" if cloud.is_bigendian else "<"
    names: list[str] = []
    kinds, offsets, total = [], [], 0
    for field in cloud.fields:
        name = field.name
        if name in ("", "_"):  # padding
            continue
        if not isinstance(name, str):
            raise TypeError(f"a field is called {name!r}")
        if name in names:
            raise FormatError(f"{where}: two fields are called '{name}'")
        if field.datatype not in _TYPES:
            raise FormatError(f"{where}: field '{name}' has the unknown type {field.datatype}; the message is damaged")
        base = np.dtype(order + _TYPES[field.datatype])
        count, offset = max(_count(field.count), 1), _count(field.offset)  # some drivers write 0 instead of 1
        # In Python integers, before numpy allocates a type of that size.
        end = offset + count * base.itemsize
        if end > point_step:
            raise FormatError(f"{where}: field '{name}' ends at byte {end} of points of {point_step} bytes; the message is damaged")
        total += end - offset
        names.append(name)
        kinds.append(np.dtype((base, (count,))) if count > 1 else base)
        offsets.append(offset)
    # Fields may share bytes (a color and its parts), but each becomes a separate array.
    if total > _MOST_SHARED * max(point_step, 1):
        raise FormatError(f"{where}: the fields take {total} bytes, but a point has {point_step}; the message is damaged")
    return np.dtype({"names": names, "formats": kinds, "offsets": offsets, "itemsize": point_step})


def _count(value: Any) -> int:
    number = operator.index(value)
    if number < 0:
        raise ValueError(f"{number} is not a number of at least 0")
    return number
