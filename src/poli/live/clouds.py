"""Build PointCloud2 messages from columns, and the columns that describe ellipsoids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.live.transport import Transport, message
from poli.pointcloud2 import stamp_of_cloud

_DATATYPES = {"i1": 1, "u1": 2, "i2": 3, "u2": 4, "i4": 5, "u4": 6, "f4": 7, "f8": 8}  # of PointField
_UPPER = {"xx": (0, 0), "xy": (0, 1), "xz": (0, 2), "yy": (1, 1), "yz": (1, 2), "zz": (2, 2)}


def ellipsoid_columns(field: Ellipsoids, viewpoint: np.ndarray) -> dict[str, np.ndarray]:  # (3,) -> each (N,) float32
    """Normals that face the viewpoint, curvature as in PCL (the share of the smallest variance), covariances in m^2, and,
    if the model has them, principal curvatures in 1/m."""
    columns = dict(zip(("normal_x", "normal_y", "normal_z"), field.oriented_normals(viewpoint).T, strict=True))
    total = np.maximum(field.eigenvalues.sum(axis=1), np.finfo(float).tiny)
    columns["curvature"] = np.maximum(field.eigenvalues[:, 0], 0.0) / total
    columns |= {f"cov_{name}": field.covariances[:, i, j] for name, (i, j) in _UPPER.items()}
    if field.has_curvature:
        columns |= {"curvature_1": field.curvatures[:, 0], "curvature_2": field.curvatures[:, 1]}
    return {name: values.astype(np.float32) for name, values in columns.items()}


def records_of_columns(points: np.ndarray, columns: Mapping[str, np.ndarray]) -> np.ndarray:  # (N, 3), each (N,) or (N, c) -> (N,)
    """Pack points and columns into records without gaps. Coordinates keep their type."""
    kinds: list[Any] = [(axis, points.dtype.str) for axis in "xyz"]
    kinds += [(name, values.dtype.str, values.shape[1:]) for name, values in columns.items()]
    records = np.empty(len(points), np.dtype(kinds).newbyteorder("<"))
    for i, axis in enumerate("xyz"):
        records[axis] = points[:, i]
    for name, values in columns.items():
        records[name] = values
    return records


def cloud_message(transport: Transport, records: np.ndarray, stamp: Any, frame: str) -> Any:
    """Return the records as a PointCloud2 of one row. `stamp` is the time of a header."""
    fields = []
    for name in records.dtype.names or ():
        kind = records.dtype[name]
        count = int(np.prod(kind.shape, dtype=int))
        datatype, offset = _DATATYPES[kind.base.str[1:]], records.dtype.fields[name][1]  # type: ignore[index]
        fields.append(message("sensor_msgs/PointField", name=name, offset=offset, datatype=datatype, count=count))
    cloud = message(
        "sensor_msgs/PointCloud2", height=1, width=len(records), fields=fields, is_bigendian=False,
        point_step=records.dtype.itemsize, row_step=len(records) * records.dtype.itemsize,
        data=transport.data(records.view(np.uint8)), is_dense=True,
    )  # fmt: skip
    cloud.header.stamp, cloud.header.frame_id = stamp, frame
    return cloud


def name_of(source: str, cloud: Any) -> str:
    """Name a message in errors, by its topic and stamp."""
    stamp = stamp_of_cloud(cloud) or 0
    return f"{source}, {stamp // 10**9}.{stamp % 10**9:09d}"


def sphere(points: int = 2000) -> np.ndarray:  # (N, 3)
    """Points on a sphere of 10 m. Any scan loads the model and the kernels."""
    found = np.random.default_rng(0).normal(size=(points, 3))
    return 10.0 * found / np.linalg.norm(found, axis=1, keepdims=True)
