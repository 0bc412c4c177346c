"""Simulated sensors by name: spinning LiDARs as tables of beams, rosettes and rasters of others, and depth cameras."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from poli.errors import FormatError, InputError, did_you_mean


@dataclass(frozen=True)
class Rays:
    """The rays of one scan, in the sensor's frame: x forward, z up. The rays of a column fire together."""

    directions: np.ndarray  # (M, 3) unit
    columns: np.ndarray  # (M,)
    rings: np.ndarray  # (M,)
    times: np.ndarray  # (K,) of the columns, in seconds from the start of the scan


@dataclass(frozen=True, kw_only=True)
class Scanner:
    """A simulated sensor: how well it measures ranges, and the rays of a scan, which are those of its kind."""

    max_range: float  # meters
    noise: float  # of the range, meters, one sigma
    min_range: float = 0.3  # meters
    divergence: float = 0.003  # full width of a beam, radians: at edges a beam sees two surfaces
    rate: float = 10.0  # scans per second
    dropout: float = 0.01  # share of the returns lost at random

    def rays(self, start: float, phase: float = 0.0) -> Rays:
        """Return the rays of the scan that begins at `start` seconds.

        `phase` in [0, 1) shifts the firing grid by a fraction of a step, for sensors whose firing is not locked to their angle."""
        raise NotImplementedError


# --- Sensors that do not spin: Livox' rosettes, rasters of solid-state LiDARs, and depth cameras.
#
# Like a spinning sensor, each is a table of rays with times; only the directions differ. The numbers are those of the data sheets.
# The order of the rays is simplified: a rosette is the curve of two rotating prisms, a raster is read by column or at once.


@dataclass(frozen=True)
class Raster(Scanner):
    """A grid over a limited field of view: solid-state LiDARs, and depth cameras, whose pixels are all read at once."""

    width: float  # degrees, of the field of view
    height: float  # degrees
    columns: int
    rows: int
    min_range: float = field(default=0.2, kw_only=True)
    pinhole: bool = False  # whether pixels are evenly spaced in the image plane instead of in angles
    lift: float = 0.0  # degrees: elevation of the center of the field of view

    def rays(self, start: float, phase: float = 0.0) -> Rays:
        """Return the rays of one frame, column by column from left to right: the same in every frame, whatever the phase."""
        half = np.deg2rad(0.5 * np.array([self.width, self.height]))
        across = 1.0 - 2.0 * (np.arange(self.columns) + 0.5) / self.columns
        upward = 2.0 * (np.arange(self.rows) + 0.5) / self.rows - 1.0
        columns, rings = (a.ravel() for a in np.indices((self.columns, self.rows)))
        if self.pinhole:
            y, z = across[columns] * np.tan(half[0]), upward[rings] * np.tan(half[1])
            directions = np.stack([np.ones(len(y)), y, z], axis=1)
            directions /= np.linalg.norm(directions, axis=1, keepdims=True)
            times = np.zeros(self.columns)
        else:
            directions = _directions(across[columns] * half[0], upward[rings] * half[1] + np.deg2rad(self.lift))
            times = np.arange(self.columns) / (self.columns * self.rate)
        return Rays(directions, columns, rings, times)


@dataclass(frozen=True)
class Rosette(Scanner):
    """Two prisms that rotate at different speeds steer a bundle of beams along a rosette that does not repeat."""

    width: float  # degrees, of the field of view
    height: float  # degrees
    shots: int  # per scan and beam
    beams: int
    turns: tuple[float, float] = (121.6, -77.7)  # of the prisms, per second
    spread: float = 1.0  # degrees between neighboring beams

    def rays(self, start: float, phase: float = 0.0) -> Rays:
        """Return the shots of one scan; the curve continues where the scan before ended."""
        times = (np.arange(self.shots) + phase) / (self.shots * self.rate)
        angles = 2.0 * np.pi * np.outer(start + times, self.turns)
        curve = 0.5 * np.stack([np.cos(angles).sum(axis=1), np.sin(angles).sum(axis=1)], axis=1)  # within the unit circle
        columns, rings = (a.ravel() for a in np.indices((self.shots, self.beams)))
        offset = (rings - 0.5 * (self.beams - 1)) * np.deg2rad(self.spread)
        half = np.deg2rad(0.5 * np.array([self.width, self.height - self.spread * (self.beams - 1)]))
        return Rays(_directions(curve[columns, 0] * half[0], curve[columns, 1] * half[1] + offset), columns, rings, times)


@dataclass(frozen=True)
class Dome(Scanner):
    """A mirror that turns about the vertical while its tilt oscillates: all around, from below the horizon to far above it."""

    low: float  # degrees, the lowest elevation
    high: float  # degrees
    shots: int  # per scan and beam
    beams: int
    min_range: float = field(default=0.1, kw_only=True)
    turns: float = 10.4  # about the vertical, per second
    nods: float = 187.3  # oscillations of the tilt, per second

    def rays(self, start: float, phase: float = 0.0) -> Rays:
        """Return the shots of one scan; the curve continues where the scan before ended."""
        times = (np.arange(self.shots) + phase) / (self.shots * self.rate)
        columns, rings = (a.ravel() for a in np.indices((self.shots, self.beams)))
        at = (start + times)[columns]
        share = 0.5 - 0.5 * np.cos(2.0 * np.pi * (self.nods * at + rings / self.beams))
        elevation = np.deg2rad(self.low + (self.high - self.low) * share)
        return Rays(_directions(-2.0 * np.pi * self.turns * at, elevation), columns, rings, times)


def _directions(azimuth: np.ndarray, elevation: np.ndarray) -> np.ndarray:  # (M,), (M,) -> (M, 3)
    level = np.cos(elevation)
    return np.stack([level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)], axis=1)


SOLID_STATE: dict[str, Scanner] = {
    "mid360": Dome(-7.0, 52.0, 5000, 4, max_range=40.0, noise=0.02),
    "avia": Rosette(70.4, 77.2, 4000, 6, max_range=190.0, noise=0.02),
    "e1r": Raster(120.0, 90.0, 192, 144, max_range=30.0, noise=0.02),
    "at128": Raster(120.0, 25.4, 600, 128, max_range=180.0, noise=0.03, min_range=1.0, lift=-2.0, divergence=0.002),
    "depth_camera": Raster(87.0, 58.0, 160, 120, max_range=8.0, noise=0.01, pinhole=True, rate=30.0),
}


@dataclass(frozen=True)
class Sensor(Scanner):
    """A spinning LiDAR. All beams fire together, column by column."""

    elevations: tuple[float, ...]  # degrees, from the lowest beam up
    steps: int  # columns per turn
    min_range: float = field(default=0.5, kw_only=True)

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
        return self.rays(0.0).directions.reshape(self.steps, -1, 3)

    def rays(self, start: float, phase: float = 0.0) -> Rays:
        """Return the rays of one turn; they do not depend on its start."""
        around = (np.arange(self.steps)[:, None] + phase) * (-2.0 * np.pi / self.steps)  # clockwise from above, as most turn
        up = np.deg2rad(np.array(self.elevations))[None, :]
        directions = np.stack(np.broadcast_arrays(np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)), axis=2)
        columns, rings = (a.ravel() for a in np.indices((self.steps, len(self.elevations))))
        return Rays(directions.reshape(-1, 3), columns, rings, self.times)

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
