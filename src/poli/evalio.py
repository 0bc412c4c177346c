"""Our odometry as a pipeline of evalio, which runs it on its datasets and compares it with other systems:

    EVALIO_CUSTOM=poli.evalio evalio run -d helipr/kaist_05 -p poli -o results

Only evalio imports this module.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace

import numpy as np

from poli import __version__
from poli.configs import Deskew
from poli.errors import InputError, MissingExtra
from poli.lidar_odometry import Odometer, OdometryConfig
from poli.scan import Scan

try:
    from evalio import types
    from evalio.pipelines import Pipeline
except ImportError:
    raise MissingExtra("the pipeline for evalio", "bench") from None

# The command line of evalio 0.6 asks rerun for `datatypes`, which rerun 0.41 answers with an endless recursion unless that module
# is imported already. Modules of EVALIO_CUSTOM, unlike those of -M, are imported before it.
with warnings.catch_warnings(), suppress(ImportError):
    warnings.simplefilter("ignore")
    import rerun.datatypes  # noqa: F401

Param = bool | int | float | str

# The options of odometry that evalio can set: those of its types, at our defaults, except that a lost scan must not end the run.
_OPTIONS = ("against", "voxel", "model", "upright", "max_range", "radius", "cell", "patience", "on_loss")
_DEFAULTS: dict[str, Param] = {
    **{name: value for name, value in asdict(OdometryConfig(on_loss="restart")).items() if name in _OPTIONS},
    "deskew": True,  # where the points of a scan have different times
}


class Poli(Pipeline):
    """POLI's LiDAR odometry: Gaussian ellipsoids aligned to a map of ellipsoids. It does not use the IMU."""

    def __init__(self) -> None:
        super().__init__()
        self._options: dict[str, Param] = dict(_DEFAULTS)
        self._min_range, self._max_range = 0.0, np.inf  # meters, of the sensor
        self._T_lidar_imu = types.SE3.identity()
        self._odometer: Odometer | None = None

    @staticmethod
    def name() -> str:
        """The name of the pipeline on evalio's command line."""
        return "poli"

    @staticmethod
    def version() -> str:
        """The version of POLI."""
        return __version__

    @staticmethod
    def default_params() -> dict[str, Param]:
        """The options that evalio can set, with their defaults."""
        return dict(_DEFAULTS)

    def set_params(self, params: Mapping[str, Param]) -> dict[str, Param]:
        """Set the options of odometry. Returns those that it does not have."""
        self._options |= {name: value for name, value in params.items() if name in _DEFAULTS}
        return {name: value for name, value in params.items() if name not in _DEFAULTS}

    def set_imu_params(self, params: types.ImuParams) -> None:
        """Nothing to set: the IMU is not used."""

    def set_lidar_params(self, params: types.LidarParams) -> None:
        """Set the ranges of the sensor."""
        self._min_range, self._max_range = params.min_range, params.max_range

    def set_imu_T_lidar(self, T: types.SE3) -> None:
        """Set the mounting of the sensor: evalio judges poses of the IMU."""
        self._T_lidar_imu = T.inverse()

    def initialize(self) -> None:
        """Report wrong options now; the odometer is created at the first scan."""
        self._odometer = None
        self._config()

    def add_imu(self, mm: types.ImuMeasurement) -> None:
        """Nothing to do: the IMU is not used."""

    def add_lidar(self, mm: types.LidarMeasurement) -> None:
        """Estimate the pose of a scan. Its stamp, which is that of the first point, is also the instant of the pose."""
        if self._odometer is None:
            self._odometer = Odometer(self._config())
        step = self._odometer.add(scan_of(mm))
        self.save(mm.stamp, types.SE3.from_mat(np.asfortranarray(step.T_world_scan)) * self._T_lidar_imu)

    def map(self) -> dict[str, list[types.Point]]:
        """The centers of the map's ellipsoids."""
        kept = None if self._odometer is None else self._odometer.map
        centers = [] if kept is None else kept.field.means.tolist()
        return {"ellipsoids": [types.Point(x=x, y=y, z=z) for x, y, z in centers]}

    def _config(self) -> OdometryConfig:
        options = dict(self._options)
        deskew: Deskew = "auto" if options.pop("deskew") else "off"
        farthest = min(float(options.pop("max_range")), self._max_range)
        config = OdometryConfig(**options, max_range=farthest)  # type: ignore[arg-type]
        if not self._min_range < farthest:
            raise InputError(f"max_range is {farthest} m, but the sensor measures from {self._min_range} m; expected a larger one")
        return replace(config, deskew=deskew, min_range=self._min_range)


def scan_of(mm: types.LidarMeasurement) -> Scan:
    """The returns of a measurement, with the field `time` in seconds from its stamp; cells without a return are left out."""
    # Coordinate by coordinate: `to_vec_positions` makes an array of each point and takes twice as long.
    points = np.array([(point.x, point.y, point.z) for point in mm.points], np.float64).reshape(-1, 3)
    return Scan(points, {"time": np.array(mm.to_vec_stamps(), np.float64)}, mm.stamp.to_nsec()).clean()
