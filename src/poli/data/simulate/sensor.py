"""Spinning LiDARs as tables of beams, and all sensors by name; those that do not spin are in `patterns`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from poli.data.simulate.patterns import SOLID_STATE
from poli.data.simulate.scanner import Rays, Scanner
from poli.errors import FormatError, InputError, did_you_mean


@dataclass(frozen=True)
class Sensor:
    """A spinning LiDAR. All beams fire together, column by column."""

    elevations: tuple[float, ...]  # degrees, from the lowest beam up
    steps: int  # columns per turn
    max_range: float  # meters
    noise: float  # of the range, meters, one sigma
    min_range: float = 0.5  # meters
    divergence: float = 0.003  # full width of a beam, radians: at edges a beam sees two surfaces
    rate: float = 10.0  # turns per second
    dropout: float = 0.01  # share of the returns lost at random

    def __post_init__(self) -> None:
        if not self.elevations or not all(-90.0 < e < 90.0 for e in self.elevations):
            raise InputError("sensor: give elevations between -90 and 90 degrees")
        if self.steps < 1 or not self.max_range > self.min_range >= 0.0 or not self.rate > 0.0:
            raise InputError("sensor: steps and rate must be positive, max_range above min_range")
        if min(self.noise, self.divergence) < 0.0 or not 0.0 <= self.dropout < 1.0:
            raise InputError("sensor: noise and divergence must be at least 0, dropout between 0 and 1")

    @property
    def directions(self) -> np.ndarray:  # (steps, beams, 3)
        """Unit vectors in the sensor's frame, column by column."""
        return self._directions(0.0)

    def _directions(self, phase: float) -> np.ndarray:  # (steps, beams, 3)
        around = (np.arange(self.steps)[:, None] + phase) * (-2.0 * np.pi / self.steps)  # clockwise from above, as most turn
        up = np.deg2rad(np.array(self.elevations))[None, :]
        return np.stack(np.broadcast_arrays(np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)), axis=2)

    def rays(self, start: float, phase: float = 0.0) -> Rays:
        """Return the rays of one turn; they do not depend on its start."""
        columns, rings = (a.ravel() for a in np.indices((self.steps, len(self.elevations))))
        return Rays(self._directions(phase).reshape(-1, 3), columns, rings, self.times)

    @property
    def times(self) -> np.ndarray:  # (steps,)
        """Time of each column, in seconds from the start of the turn."""
        return np.arange(self.steps) / (self.steps * self.rate)


def _evenly(low: float, high: float, beams: int) -> tuple[float, ...]:
    return tuple(float(e) for e in np.linspace(low, high, beams))


# From the data sheets. The HDL-64E has two blocks of lasers. The OS1 is the first generation, as in MulRan; the OS2 is as in
# HeLiPR. The OS0 is wide and used indoors.
SPINNING = {
    "vlp16": Sensor(_evenly(-15.0, 15.0, 16), 1800, max_range=100.0, noise=0.02),
    "hdl32e": Sensor(_evenly(-30.67, 10.67, 32), 1084, max_range=100.0, noise=0.02, rate=20.0),
    "hdl64e": Sensor(_evenly(-24.33, -8.83, 32) + _evenly(-8.33, 2.0, 32), 2083, max_range=120.0, noise=0.02, divergence=0.002),
    "os1_64": Sensor(_evenly(-16.6, 16.6, 64), 1024, max_range=120.0, noise=0.025, divergence=0.006),
    "os2_128": Sensor(_evenly(-11.25, 11.25, 128), 1024, max_range=200.0, noise=0.03, min_range=1.0, divergence=0.0016),
    "os0_64": Sensor(_evenly(-45.0, 45.0, 64), 1024, max_range=50.0, noise=0.015, min_range=0.3, divergence=0.006),
}
SENSORS: dict[str, Scanner] = {**SPINNING, **SOLID_STATE}


def find_sensor(name: str) -> Scanner:
    """Return the sensor of this name, or read a beam table (`find_spinning`)."""
    return SENSORS[name] if name in SENSORS else find_spinning(name)


def find_spinning(name: str) -> Sensor:
    """Return the spinning sensor of this name, or read a beam table: a text file with one elevation in degrees per line, and
    settings such as `# steps 1024`."""
    if name in SPINNING:
        return SPINNING[name]
    path = Path(name)
    if not path.is_file():
        hint = did_you_mean(name, SENSORS)
        raise InputError(f"sensor is {name!r}; expected one of {', '.join(SENSORS)}, or a text file of beam elevations{hint}")
    settings: dict[str, float] = {"steps": 1024, "max_range": 100.0, "noise": 0.02}
    known = [*settings, "min_range", "divergence", "rate", "dropout"]
    elevations = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        words = line.lstrip("#").split()
        try:
            if line.startswith("#") and len(words) == 2 and words[0] in known:
                settings[words[0]] = float(words[1])
            elif words and not line.startswith("#"):
                elevations.append(float(words[0]))
        except ValueError:
            raise FormatError(f"{path}, line {number}: {line.strip()!r} is not a number; expected elevations in degrees") from None
    steps = int(settings.pop("steps"))
    return Sensor(tuple(sorted(elevations)), steps, **settings)
