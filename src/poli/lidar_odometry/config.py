"""Options of odometry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from poli.beams.corrections import Spin
from poli.errors import InputError
from poli.lidar_odometry.gicp import GicpConfig
from poli.options import real_number, whole_number
from poli.scan import Scan

Against = Literal["map", "scan"]
OnLoss = Literal["stop", "restart"]
Deskew = Literal["auto", "on", "off", "azimuth"]


@dataclass(frozen=True)
class OdometryConfig:
    against: Against = "map"  # align each scan to a map of all scans before it, or, as in the paper, to the previous scan
    voxel: float = 0.0  # meters; 0: chosen to leave about 4,500 points
    model: str = "lidar"  # of the ellipsoids: a shipped model, the path of a .safetensors file, or "pca"
    upright: bool = True  # the sensor's z axis points up; the network uses this
    deskew: Deskew | bool = "auto"  # auto: if points have times that differ; on: times are required; azimuth: times from `spin`
    spin: Spin = field(default_factory=Spin)  # how the sensor spins, for deskew="azimuth"
    period: float = 0.0  # seconds from scan to scan if they have no stamps, and of a revolution; 0: from the stamps, else 0.1
    min_range: float = 0.0  # meters; nearer returns are dropped (the vehicle itself)
    max_range: float = 120.0  # meters; farther returns are dropped
    radius: float = 120.0  # meters; map cells farther from the sensor are removed
    cell: float = 0.0  # cell size of the map in meters; 0: half a voxel, but at least min(0.3 m, voxel)
    patience: int = 5  # maximum number of consecutive scans with too few returns; their poses are predicted
    on_loss: OnLoss = "stop"  # if a scan fits nowhere, stop, or start a new map at the predicted pose
    gicp: GicpConfig = field(default_factory=GicpConfig)

    def __post_init__(self) -> None:
        if isinstance(self.deskew, bool):
            object.__setattr__(self, "deskew", "on" if self.deskew else "off")
        for name, known in (("against", get_args(Against)), ("on_loss", get_args(OnLoss)), ("deskew", get_args(Deskew))):
            if getattr(self, name) not in known:
                raise InputError(f"{name} is {getattr(self, name)!r}; expected one of {', '.join(known)}")
        real_number(self.period, "period", "a number of seconds of at least 0")
        for name in ("voxel", "min_range", "cell"):
            real_number(getattr(self, name), name, "a number of meters of at least 0")
        for name in ("max_range", "radius"):
            real_number(getattr(self, name), name, "a positive number of meters", above=True)
        if self.min_range >= self.max_range:
            raise InputError(f"min_range is {self.min_range} m and max_range {self.max_range} m; min_range must be smaller")
        whole_number(self.patience, "patience", least=0)


# --- Decide whether and how the scans of a recording are deskewed: by the times of their points, by their azimuth, or not at all.


_LONGEST = 1.5  # times the interval between scans: no scan lasts longer, so such times have another unit or origin
_FARTHEST = 1.0  # seconds of a point from the stamp of its scan
_SHORTEST = 1e-4  # seconds: a shorter scan has no skew worth correcting (3 mm at 30 m/s)


class PointTimes:
    """Gives scans usable point times, or none. `said` explains the last decision."""

    def __init__(self, config: OdometryConfig) -> None:
        self._mode, self._spin = config.deskew, config.spin
        self.said = "deskewing is off"

    def __call__(self, scan: Scan, period: float) -> Scan:  # seconds between scans
        """Return the scan with the field `time` if it is to be deskewed, and without it if not."""
        if self._mode == "azimuth":
            self.said = (
                f"deskewed by azimuth ({'clockwise' if self._spin.clockwise else 'counterclockwise'}, {period:.3g} s a turn)"
            )
            return self._spin.with_times(scan, period)
        problem = "deskewing is off" if self._mode == "off" else _problem(scan, period)
        if not problem:
            self.said = "deskewed by the times of the points"
            return scan
        if self._mode == "on":
            raise InputError(
                f"the scan cannot be deskewed: {problem}",
                argument="deskew", value="azimuth", remedy="for a spinning sensor without point times, pass {argument}",
            )  # fmt: skip
        self.said = problem if self._mode == "off" else f"not deskewed: {problem}"
        return scan.without("time")


def _problem(scan: Scan, period: float) -> str:
    """Return why the times of the points cannot be used, or an empty string."""
    if "time" not in scan.fields:
        return "points have no times (field 'time')"
    times = np.asarray(scan.fields["time"], np.float64)
    if times.ndim != 1 or not np.isfinite(times).all():
        return "some points have no finite time"
    if not len(times):
        return ""
    earliest, latest = float(times.min()), float(times.max())
    if latest - earliest < _SHORTEST:
        return "all points have the same time"
    if max(-earliest, latest) > _FARTHEST:
        return f"point times reach {max(-earliest, latest):.3g} s from the stamp of the scan, more than {_FARTHEST:g} s"
    if latest - earliest > _LONGEST * period:
        return f"point times span {latest - earliest:.3g} s, but the next scan follows after {period:.3g} s"
    return ""
