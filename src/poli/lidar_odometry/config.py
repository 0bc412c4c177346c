"""Options of odometry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from poli.beams.corrections import Spin
from poli.errors import InputError
from poli.lidar_odometry.gicp import GicpConfig
from poli.options import real_number, whole_number

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
