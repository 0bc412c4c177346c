"""ROS's PointCloud2 messages as scans: fields by offset, type and byte order; organised clouds row by row."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from poli.data.formats.records import scan_from_records
from poli.errors import FormatError
from poli.scan import Scan

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
    data: np.ndarray  # uint8


def records_of_cloud(cloud: PointCloud2, where: str) -> np.ndarray:  # (N,)
    """All returns as they are stored: records of `point_step` bytes, row by row without what pads the rows."""
    count = cloud.height * cloud.width
    layout = _layout(cloud, where)
    data = np.ascontiguousarray(cloud.data, np.uint8)
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


def scan_from_cloud(cloud: PointCloud2, where: str) -> Scan:
    """All returns with all fields, in native byte order; `where` names the message in errors."""
    records = records_of_cloud(cloud, where)
    layout = records.dtype
    # One column at a time: fields may overlap, and a record array's own byte swap would swap shared bytes twice.
    columns = {name: records[name].astype(layout[name].base.newbyteorder("=")) for name in layout.names or ()}
    if "ring" not in columns:
        alias = next((name for name in _RING_NAMES if name in columns), None)
        columns = {"ring" if name == alias else name: values for name, values in columns.items()}
    native = np.empty(len(records), [(name, values.dtype, values.shape[1:]) for name, values in columns.items()])
    for name, values in columns.items():
        native[name] = values
    return scan_from_records(native, where)


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
