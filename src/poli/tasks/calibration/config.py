"""Options of calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from poli.errors import InputError
from poli.tasks.odometry.config import Deskew
from poli.validation import real_number, whole_number

LEAST_SCANS = 30


@dataclass(frozen=True)
class CalibrateConfig:
    max_scans: int = 240  # most scans to use; of a longer log, stretches that are spread evenly over it
    voxel: float = 0.0  # meters, for odometry; 0: chosen at the first scan
    model: str = "lidar"  # of the ellipsoids: a shipped model, or the path of a .safetensors file
    deskew: Deskew = "auto"  # undo the motion within scans, as odometry does; times need stamps
    min_range: float = 0.0  # meters; nearer returns are dropped (the vehicle itself)
    max_range: float = 80.0  # meters; farther returns are dropped
    rounds: int = 2  # odometry and adjustment, each with the corrections of the round before

    def __post_init__(self) -> None:
        whole_number(self.max_scans, "max_scans", least=LEAST_SCANS)
        whole_number(self.rounds, "rounds", least=1)
        for name in ("voxel", "min_range"):
            real_number(getattr(self, name), name, "a number of meters of at least 0")
        real_number(self.max_range, "max_range", "a positive number of meters", above=True)
        if self.min_range >= self.max_range:
            raise InputError(f"min_range is {self.min_range} m and max_range {self.max_range} m; min_range must be smaller")
        if self.deskew not in get_args(Deskew):
            raise InputError(f"deskew is {self.deskew!r}; expected one of {', '.join(get_args(Deskew))}")
