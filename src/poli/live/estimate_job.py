"""`poli node estimate`: publish every cloud with the normals and covariances of its ellipsoids as further fields."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from poli.beam_calibration import BeamCalibration
from poli.data.datasets.pointcloud2 import scan_from_cloud
from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.estimation import estimate
from poli.estimation.inference import UP
from poli.live.clouds import cloud_message, ellipsoid_columns, name_of, records_of_columns, sphere
from poli.live.loop import CLOUD
from poli.live.transport import Transport
from poli.scan import Scan
from poli.validation import real_number
from poli.voxels import voxel_downsample

_PARAMETERS = ("model", "voxel", "upright", "floor")


@dataclass(frozen=True)
class EstimateConfig:
    model: str = "lidar"  # a shipped model, the path of a .safetensors file, or "pca"
    voxel: float = 0.2  # meters; one point per voxel. 0: every point
    upright: bool = True  # the sensor's z axis points up; the network uses this
    floor: float = 0.0  # meters; each ellipsoid is thickened by this
    calibration: BeamCalibration | None = None

    def __post_init__(self) -> None:
        for name in ("voxel", "floor"):
            real_number(getattr(self, name), name, "a number of meters of at least 0")
        if not isinstance(self.upright, bool):
            raise InputError(f"upright is {self.upright!r}; expected true or false")
        if not isinstance(self.model, str) or not self.model:
            raise InputError(f"model is {self.model!r}; expected lidar, pca, or the path of a .safetensors file")


def estimate_scan(scan: Scan, config: EstimateConfig) -> tuple[Scan, Ellipsoids]:
    """Return the points that were used, with their fields, and their ellipsoids."""
    scan = scan.clean() if config.calibration is None else config.calibration.apply(scan.clean())
    scan = voxel_downsample(scan, config.voxel) if config.voxel else scan
    field = estimate(scan, model=config.model, up=UP if config.upright else None, warn=False)
    return scan, field.with_floor(config.floor) if config.floor else field


class EstimateJob:
    name = "estimate"

    def __init__(self, transport: Transport, source: str, target: str, config: EstimateConfig) -> None:
        self._transport, self._source, self._config = transport, source, config
        self._out = transport.publisher(CLOUD, target)

    def parameters(self) -> dict[str, Any]:
        return {name: asdict(self._config)[name] for name in _PARAMETERS}

    def change(self, wanted: dict[str, Any]) -> None:
        self._config = replace(self._config, **wanted)

    def warm_up(self) -> None:
        estimate_scan(Scan(sphere()), replace(self._config, calibration=None))

    def process(self, cloud: Any) -> str:
        """Invalid returns are left out, so the published cloud has one row. All other fields of the cloud are kept."""
        where = name_of(self._source, cloud)
        scan, field = estimate_scan(scan_from_cloud(cloud, where), self._config)
        added = ellipsoid_columns(field, np.zeros(3))
        kept = {name: values for name, values in scan.fields.items() if name not in added}
        records = records_of_columns(scan.points, kept | added)
        self._out.publish(cloud_message(self._transport, records, cloud.header.stamp, cloud.header.frame_id))
        return ""

    def after(self) -> None:
        pass
