"""Point times of spinning sensors that recorded none: the azimuth says when the sensor faced a point."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from poli.errors import InputError
from poli.scan import Scan
from poli.validation import real_number

PERIOD = 0.1  # seconds per revolution, if neither stamps nor an option give it: most spinning sensors turn at 10 Hz


@dataclass(frozen=True)
class Spin:
    """How a sensor spins. The defaults are KITTI's: clockwise, starting behind the car, stamped when it faces forward (x)."""

    clockwise: bool = True  # seen from above
    start: float = 180.0  # degrees: azimuth at which a revolution starts, counted from x toward y
    stamp: float = 0.5  # fraction of the revolution that has passed at the scan's stamp

    def __post_init__(self) -> None:
        real_number(self.start, "start", "an azimuth in degrees", least=-360.0)
        real_number(self.stamp, "stamp", "a fraction of the revolution from 0 to 1")
        if self.start > 360.0:
            raise InputError(f"start is {self.start}; expected an azimuth in degrees, from -360 to 360")
        if self.stamp > 1.0:
            raise InputError(f"stamp is {self.stamp}; expected a fraction of the revolution from 0 to 1")

    def times(self, points: np.ndarray, period: float = PERIOD) -> np.ndarray:  # (N, 3) -> (N,) seconds from the stamp
        """Return when each point was measured, if a revolution takes `period` seconds."""
        azimuth = np.arctan2(points[:, 1].astype(np.float64), points[:, 0].astype(np.float64))
        turned = azimuth / (2.0 * np.pi) - self.start / 360.0
        return period * (np.mod(-turned if self.clockwise else turned, 1.0) - self.stamp)

    def with_times(self, scan: Scan, period: float = PERIOD) -> Scan:
        """Return the scan with the field `time` derived from the azimuth; an existing one is replaced."""
        return replace(scan, fields={**scan.fields, "time": self.times(scan.points, period)})
