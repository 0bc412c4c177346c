"""Rings of real spinning sensors, identified by elevation, since public sequences often have no ring numbers.

And what KITTI's raw recordings lack, for all systems alike: point times, ring numbers, and the correction of elevations."""

from __future__ import annotations

import numpy as np

from benchmarks.data.real_sequences import kept_beams
from poli.beams.corrections import PERIOD, Spin
from poli.errors import InputError
from poli.io.datasets import correct_elevation
from poli.scan import Scan

_KITTI_BEAMS = 64

# Elevations of the lowest and the highest ring in degrees, and the number of evenly spaced rings. The first entry agrees with
# `thin_beams` for the HDL-64E; that of the OS1 was measured in MulRan, whose sensor points one degree higher than its data sheet
# says. The E1R is a solid-state sensor of 144 by 192 pixels, whose rows are rings only approximately.
_RINGS = {
    "hdl64e": (-24.8, 2.0, 64), "hdl32e": (-30.67, 10.67, 32), "os1_64": (-15.65, 17.85, 64), "e1r": (-44.9, 44.6, 144),
    "vlp16": (-15.0, 15.0, 16),
}  # fmt: skip


def has_rings(sensor: str) -> bool:
    """Whether the elevations of the sensor's rings are known."""
    return sensor in _RINGS


def ring_elevations(sensor: str, beams: int | None = None) -> np.ndarray:  # (K,) degrees, ascending
    """Elevations of all rings, or of those left after thinning to `beams`."""
    if sensor not in _RINGS:
        raise InputError(f"sensor is {sensor!r}; rings are known for {', '.join(_RINGS)}")
    lowest, highest, count = _RINGS[sensor]
    if beams is None:
        beams = count
    if beams < 2 or count % beams:
        raise InputError(f"beams is {beams}; expected a divisor of the {count} rings of {sensor}, 2 or more")
    return np.linspace(lowest, highest, count)[:: count // beams]


def thin_rings(points: np.ndarray, sensor: str, beams: int) -> np.ndarray:  # (N, 3) -> (M, 3)
    """Keep the returns of every second, fourth, ... ring."""
    return points[thinned_rows(points, sensor, beams)]


def thinned_rows(points: np.ndarray, sensor: str, beams: int) -> np.ndarray:  # (N, 3) -> (N,) bool
    """Which returns `thin_rings` keeps."""
    if sensor == "hdl64e":
        return kept_beams(points, beams)
    every = ring_elevations(sensor)
    step = len(every) // len(ring_elevations(sensor, beams))
    return (nearest_ring(points, every) % step == 0) & (points != 0.0).any(axis=1)


def nearest_ring(points: np.ndarray, elevations: np.ndarray) -> np.ndarray:  # (N, 3), (K,) degrees, ascending -> (N,)
    middles = 0.5 * (elevations[1:] + elevations[:-1])
    return np.searchsorted(middles, elevations_of(points))


def elevations_of(points: np.ndarray) -> np.ndarray:  # (N, 3) -> (N,) degrees
    return np.degrees(np.arctan2(points[:, 2], np.hypot(points[:, 0], points[:, 1])))


def prepared(scan: Scan, beams: int | None = None) -> Scan:
    """The scan thinned to `beams` of the 64, with the fields `time` (seconds from the stamp) and `ring`, and with corrected
    elevations. The order matters: rings are found by the order of the file, and thinned by the elevations as recorded."""
    scan = Scan(scan.points, {"ring": rings_by_order(scan.points)}, scan.stamp)
    if beams is not None:
        scan = scan.select(thinned_rows(scan.points, "hdl64e", beams))
    times = Spin().times(scan.points, PERIOD)
    return Scan(correct_elevation(scan.points), {**scan.fields, "time": times}, scan.stamp)


def rings_by_order(points: np.ndarray) -> np.ndarray:  # (N, 3) -> (N,) uint8
    """Ring numbers from the top: KITTI's files hold the rings one after another, each from azimuth 0 counterclockwise. Points in
    another order get the nearest of evenly spaced rings."""
    azimuth = np.mod(np.arctan2(points[:, 1], points[:, 0]), 2.0 * np.pi)
    rings = np.concatenate([[0], np.cumsum(np.diff(azimuth) < -np.pi)]) if len(points) else np.zeros(0)
    if len(points) and rings[-1] >= _KITTI_BEAMS:
        rings = _KITTI_BEAMS - 1 - nearest_ring(points, ring_elevations("hdl64e"))
    return rings.astype(np.uint8)
