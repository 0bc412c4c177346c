"""ROS's PointCloud2 messages: fields by offset, type and byte order; organised clouds row by row.

Nothing of ROS is imported: a message is whatever has these attributes, be it of rclpy, rospy or rosbags.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard

import numpy as np

from poli.errors import FormatError

_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}
_RING_NAMES = ("channel", "line", "laser_id")  # what drivers call the ring, if not so


class PointField(Protocol):
    name: str
    offset: int
    datatype: int
    count: int


class PointCloud2(Protocol):
    height: int
    width: int
    fields: Sequence[PointField]
    is_bigendian: bool
    point_step: int
    row_step: int
    data: Any  # bytes, or uint8 that numpy can read


def is_pointcloud2(thing: object) -> TypeGuard[PointCloud2]:
    return all(hasattr(thing, name) for name in PointCloud2.__annotations__)


def records_of_cloud(cloud: PointCloud2, where: str) -> np.ndarray:  # (N,)
    """All returns as they are stored: records of `point_step` bytes, row by row without what pads the rows."""
    count = cloud.height * cloud.width
    layout = _layout(cloud, where)
    # rospy gives bytes, which numpy takes for text; rclpy an array.array, rosbags numpy's own.
    data = np.frombuffer(cloud.data, np.uint8) if isinstance(cloud.data, bytes) else np.ascontiguousarray(cloud.data, np.uint8)
    # Drivers are careless with the row step of clouds of one row, where it means nothing.
    row_step = cloud.row_step if cloud.height > 1 else cloud.width * cloud.point_step
    needed = (cloud.height - 1) * row_step + cloud.width * cloud.point_step if count else 0
    if row_step < cloud.width * cloud.point_step or needed > len(data):
        raise FormatError(
            f"{where}: {cloud.height} rows of {cloud.width} points need {needed} bytes (point step {cloud.point_step}, "
            f"row step {cloud.row_step}), there are {len(data)}; the message is damaged"
        )
    if not count:
        return np.zeros(0, layout)
    # As bytes, not as fields: a copy of a record array leaves out what lies between the fields.
    rows = np.ndarray((cloud.height, cloud.width * cloud.point_step), np.uint8, data, strides=(row_step, 1))
    return np.ascontiguousarray(rows).reshape(-1).view(layout)


def columns_of_cloud(cloud: PointCloud2, where: str) -> dict[str, np.ndarray]:  # each (N,) or (N, c)
    """All fields of all returns by name, in native byte order; the ring is called `ring`. `where` names the message in errors."""
    records = records_of_cloud(cloud, where)
    layout = records.dtype
    # One column at a time: fields may overlap, and a record array's own byte swap would swap shared bytes twice.
    columns = {name: records[name].astype(layout[name].base.newbyteorder("=")) for name in layout.names or ()}
    if "ring" not in columns:
        alias = next((name for name in _RING_NAMES if name in columns), None)
        columns = {"ring" if name == alias else name: values for name, values in columns.items()}
    return columns


def stamp_of_cloud(cloud: Any) -> int | None:
    """Nanoseconds by the message's header; None if it has none, or zero, where drivers without a clock leave it."""
    stamp = getattr(getattr(cloud, "header", None), "stamp", None)
    for seconds, rest in (("sec", "nanosec"), ("secs", "nsecs")):  # ROS 2 and rosbags; rospy
        if hasattr(stamp, seconds):
            return int(getattr(stamp, seconds)) * 10**9 + int(getattr(stamp, rest)) or None
    return None


def _layout(cloud: PointCloud2, where: str) -> np.dtype:
    order = ">" if cloud.is_bigendian else "<"
    names, kinds, offsets = [], [], []
    for field in cloud.fields:
        if field.name in ("", "_"):  # padding
            continue
        if field.datatype not in _TYPES:
            raise FormatError(f"{where}: field '{field.name}' has the unknown type {field.datatype}; the message is damaged")
        base = np.dtype(order + _TYPES[field.datatype])
        kind = np.dtype((base, (field.count,))) if field.count > 1 else base  # some drivers write 0 for one
        if field.name in names:
            raise FormatError(f"{where}: two fields are called '{field.name}'")
        if field.offset + kind.itemsize > cloud.point_step:
            raise FormatError(
                f"{where}: field '{field.name}' ends at byte {field.offset + kind.itemsize} of points of {cloud.point_step} bytes; "
                "the message is damaged"
            )
        names.append(field.name)
        kinds.append(kind)
        offsets.append(field.offset)
    return np.dtype({"names": names, "formats": kinds, "offsets": offsets, "itemsize": cloud.point_step})
