"""The rings of real spinning sensors, distinguished by elevation: the files of public sequences often carry no ring numbers."""

from __future__ import annotations

import numpy as np

from benchmarks.data.real_sequences import thin_beams
from poli.errors import InputError

# The lowest ring and the uppermost in degrees, and how many there are, evenly spaced. The first is how `thin_beams` sees an
# HDL-64E, the last is as measured in MulRan, whose sensor looks a degree higher than its data sheet says.
_RINGS = {"hdl64e": (-24.8, 2.0, 64), "hdl32e": (-30.67, 10.67, 32), "os1_64": (-15.65, 17.85, 64)}


def ring_elevations(sensor: str, beams: int | None = None) -> np.ndarray:  # (K,) degrees, ascending
    """Of all rings, or of those that thinning to `beams` leaves."""
    if sensor not in _RINGS:
        raise InputError(f"sensor is {sensor!r}; rings are known of {', '.join(_RINGS)}")
    lowest, highest, count = _RINGS[sensor]
    if beams is None:
        beams = count
    if beams < 2 or count % beams:
        raise InputError(f"beams is {beams}; the {count} rings of {sensor} can be thinned to a divisor of that, 2 or more")
    return np.linspace(lowest, highest, count)[:: count // beams]


def thin_rings(points: np.ndarray, sensor: str, beams: int) -> np.ndarray:  # (N, 3) -> (M, 3)
    """The returns of every second, fourth, ... ring."""
    if sensor == "hdl64e":
        return thin_beams(points, beams)
    every = ring_elevations(sensor)
    step = len(every) // len(ring_elevations(sensor, beams))
    return points[(nearest_ring(points, every) % step == 0) & (points != 0.0).any(axis=1)]


def nearest_ring(points: np.ndarray, elevations: np.ndarray) -> np.ndarray:  # (N, 3), (K,) degrees, ascending -> (N,)
    middles = 0.5 * (elevations[1:] + elevations[:-1])
    return np.searchsorted(middles, elevations_of(points))


def elevations_of(points: np.ndarray) -> np.ndarray:  # (N, 3) -> (N,) degrees
    return np.degrees(np.arctan2(points[:, 2], np.hypot(points[:, 0], points[:, 1])))
