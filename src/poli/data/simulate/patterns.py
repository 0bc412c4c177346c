"""Sensors that do not spin: Livox' rosettes, rasters of solid-state LiDARs, and depth cameras.

Like a spinning sensor, each is a table of rays with times; only the directions differ. The numbers are those of the data sheets.
The order of the rays is simplified: a rosette's curve is that of two rotating prisms, a raster is read column by column or at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.data.simulate.scanner import Rays, Scanner


@dataclass(frozen=True)
class Raster:
    """A grid over a limited field of view: solid-state LiDARs, and depth cameras, whose pixels are all read at once."""

    width: float  # degrees, of the field of view
    height: float  # degrees
    columns: int
    rows: int
    max_range: float  # meters
    noise: float  # meters
    min_range: float = 0.2
    divergence: float = 0.003
    rate: float = 10.0
    dropout: float = 0.01
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
class Rosette:
    """Two prisms that rotate at different speeds steer a bundle of beams along a rosette that does not repeat."""

    width: float  # degrees, of the field of view
    height: float  # degrees
    shots: int  # per scan and beam
    beams: int
    max_range: float  # meters
    noise: float  # meters
    min_range: float = 0.3
    divergence: float = 0.003
    rate: float = 10.0
    dropout: float = 0.01
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
class Dome:
    """A mirror that turns about the vertical while its tilt oscillates: all around, from below the horizon to far above it."""

    low: float  # degrees, the lowest elevation
    high: float  # degrees
    shots: int  # per scan and beam
    beams: int
    max_range: float  # meters
    noise: float  # meters
    min_range: float = 0.1
    divergence: float = 0.003
    rate: float = 10.0
    dropout: float = 0.01
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
