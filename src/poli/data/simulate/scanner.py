"""What every simulated sensor provides: the rays of a scan, and how well it measures ranges along them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True)
class Rays:
    """The rays of one scan, in the sensor's frame: x forward, z up. The rays of a column fire together."""

    directions: np.ndarray  # (M, 3) unit
    columns: np.ndarray  # (M,)
    rings: np.ndarray  # (M,)
    times: np.ndarray  # (K,) of the columns, in seconds from the start of the scan


class Scanner(Protocol):
    """Anything that measures ranges along rays; `Sensor` and the classes in `patterns` are scanners."""

    @property
    def max_range(self) -> float: ...  # meters
    @property
    def min_range(self) -> float: ...  # meters
    @property
    def noise(self) -> float: ...  # of the range, meters, one sigma
    @property
    def divergence(self) -> float: ...  # full width of a beam, radians
    @property
    def rate(self) -> float: ...  # scans per second
    @property
    def dropout(self) -> float: ...  # share of the returns lost at random

    def rays(self, start: float, phase: float) -> Rays:
        """Return the rays of the scan that begins at `start` seconds.

        `phase` in [0, 1) shifts the firing grid by a fraction of a step, for sensors whose firing is not locked to their angle."""
