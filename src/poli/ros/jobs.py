"""The jobs `densify` and `estimate` of the live node, and the messages they publish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from poli.configs import EstimateConfig
from poli.densification.bags import densify_cloud
from poli.densification.densify import densify_or_say
from poli.ellipsoids import Ellipsoids
from poli.errors import PoliError
from poli.estimation import estimate
from poli.estimation.estimate import UP
from poli.io.formats.numpy_files import records_from_scan
from poli.io.messages import scan_from_cloud
from poli.io.pointcloud2 import stamp_of_cloud
from poli.ros.loop import Job
from poli.ros.transport import Transport, message_type
from poli.scan import Scan
from poli.voxels import voxel_downsample

_DATATYPES = {"i1": 1, "u1": 2, "i2": 3, "u2": 4, "i4": 5, "u4": 6, "f4": 7, "f8": 8}  # of PointField
_UPPER = {"xx": (0, 0), "xy": (0, 1), "xz": (0, 2), "yy": (1, 1), "yz": (1, 2), "zz": (2, 2)}


def ellipsoid_columns(field: Ellipsoids, viewpoint: np.ndarray) -> dict[str, np.ndarray]:  # (3,) -> each (N,) float32
    """Normals that face the viewpoint, curvature as in PCL (the share of the smallest variance), covariances in m^2, and,
    if the field has them, principal curvatures in 1/m."""
    columns = dict(zip(("normal_x", "normal_y", "normal_z"), field.oriented_normals(viewpoint).T, strict=True))
    total = np.maximum(field.eigenvalues.sum(axis=1), np.finfo(float).tiny)
    columns["curvature"] = np.maximum(field.eigenvalues[:, 0], 0.0) / total
    columns |= {f"cov_{name}": field.covariances[:, i, j] for name, (i, j) in _UPPER.items()}
    if field.has_curvature:
        columns |= {"curvature_1": field.curvatures[:, 0], "curvature_2": field.curvatures[:, 1]}
    return {name: values.astype(np.float32) for name, values in columns.items()}


def cloud_message(
    transport: Transport, points: np.ndarray, columns: Mapping[str, np.ndarray], stamp: Any, frame: str
) -> Any:  # (N, 3), each (N,) or (N, c)
    """Return points and columns as a PointCloud2 of one row. `stamp` is the time of a header."""
    records = records_from_scan(Scan(points, columns), flat=False)
    fields = []
    for name in records.dtype.names or ():
        kind = records.dtype[name]
        count = int(np.prod(kind.shape, dtype=int))
        datatype, offset = _DATATYPES[kind.base.str[1:]], records.dtype.fields[name][1]  # type: ignore[index]
        fields.append(message_type("sensor_msgs/PointField")(name=name, offset=offset, datatype=datatype, count=count))
    cloud = message_type("sensor_msgs/PointCloud2")(height=1, width=len(records), fields=fields, is_bigendian=False,
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


class DensifyJob(Job):
    """`poli node densify`: publish every cloud with samples of its surfaces appended."""

    name = "densify"
    tunable = ("max_error", "per_point", "max_sigma", "flat", "max_thickness", "model", "voxel", "planarity", "seed")
    _none: ClassVar = {"per_point": -1, "max_sigma": -1.0, "max_thickness": 0.0}  # parameters of ROS cannot be None

    def parameters(self) -> dict[str, Any]:
        return {name: self._none.get(name) if value is None else value for name, value in super().parameters().items()}

    def change(self, wanted: dict[str, Any]) -> None:
        super().change(
            {name: None if name in self._none and value == self._none[name] else value for name, value in wanted.items()}
        )

    def warm_up(self) -> None:
        densify_or_say(Scan(sphere()), replace(self.config, calibration=None))

    def process(self, cloud: Any) -> str:
        """A cloud that cannot be densified is published unchanged: those who subscribe get every cloud."""
        why = ""
        try:
            if cloud.height * cloud.width:
                _, why = densify_cloud(cloud, self.config, name_of(self._source, cloud), self._transport.data)
        except PoliError as error:
            why = str(error)
        self._out.publish(cloud)
        return f"published unchanged: {why}" if why else ""


def estimate_scan(scan: Scan, config: EstimateConfig) -> tuple[Scan, Ellipsoids]:
    """Return the points that were used, with their fields, and their ellipsoids."""
    scan = scan.clean() if config.calibration is None else config.calibration.apply(scan.clean())
    scan = voxel_downsample(scan, config.voxel) if config.voxel else scan
    field = estimate(scan, model=config.model, up=UP if config.upright else None, warn=False, curvature=config.curvature)
    return scan, field.with_floor(config.floor) if config.floor else field


class EstimateJob(Job):
    """`poli node estimate`: publish every cloud with the normals and covariances of its ellipsoids as further fields."""

    name = "estimate"
    tunable = ("model", "voxel", "upright", "curvature", "floor")

    def warm_up(self) -> None:
        estimate_scan(Scan(sphere()), replace(self.config, calibration=None))

    def process(self, cloud: Any) -> str:
        """Invalid returns are left out, so the published cloud has one row. All other fields of the cloud are kept."""
        scan, field = estimate_scan(scan_from_cloud(cloud, name_of(self._source, cloud)), self.config)
        added = ellipsoid_columns(field, np.zeros(3))
        columns = {name: values for name, values in scan.fields.items() if name not in added} | added
        self._out.publish(cloud_message(self._transport, scan.points, columns, cloud.header.stamp, cloud.header.frame_id))
        return ""
