"""What odometry can be told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from poli.errors import InputError
from poli.tasks.gicp import GicpConfig
from poli.validation import real_number, whole_number

Against = Literal["map", "scan"]
OnLoss = Literal["stop", "restart"]


@dataclass(frozen=True)
class OdometryConfig:
    against: Against = "map"  # a scan is aligned to a map of all scans before it, or, as in the paper, to the one scan before it
    voxel: float = 0.0  # meters; 0: chosen at the first scan, so that some 5,000 points are left of it
    model: str = "lidar"  # of the ellipsoids: a shipped model, the path of a .safetensors file, or "pca"
    upright: bool = True  # the sensor's z axis points up, which the network is told
    deskew: bool = False  # by the times of the points; the scans are then those of their stamps
    min_range: float = 0.0  # meters; returns nearer than this are dropped (the vehicle that carries the sensor)
    max_range: float = 120.0  # meters; returns farther than this are dropped
    radius: float = 120.0  # meters: how far from the sensor the map is kept
    cell: float = 0.0  # meters, of the map; 0: half a voxel, but no less than 0.3 m unless voxels are
    patience: int = 5  # scans in a row without enough returns that are bridged by going on as before
    on_loss: OnLoss = "stop"  # when a scan fits nowhere: stop there, or begin a new map where it is thought to be
    gicp: GicpConfig = field(default_factory=GicpConfig)

    def __post_init__(self) -> None:
        for name, known in (("against", get_args(Against)), ("on_loss", get_args(OnLoss))):
            if getattr(self, name) not in known:
                raise InputError(f"{name} is {getattr(self, name)!r}; expected one of {', '.join(known)}")
        for name in ("voxel", "min_range", "cell"):
            real_number(getattr(self, name), name, "a number of meters of at least 0")
        for name in ("max_range", "radius"):
            real_number(getattr(self, name), name, "a positive number of meters", above=True)
        if self.min_range >= self.max_range:
            raise InputError(f"min_range is {self.min_range} m and max_range {self.max_range} m; no return lies between")
        whole_number(self.patience, "patience", least=0)
