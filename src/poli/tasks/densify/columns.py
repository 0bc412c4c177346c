"""Returns that lie one above the other, as the beams of a spinning sensor do, and the gaps between them.

No ring numbers are needed: returns of the same azimuth, sorted by elevation, are the rings from bottom to top. This also holds for
sensors whose rings are unevenly spaced, tilted against each other, or cut into pieces.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Gaps are filled to about the spacing of a sensor with 64 beams, 0.43 to 0.53 degrees: three new rings in the gaps of a VLP-16.
STEP = 0.45  # degrees
# Two beams are compared in a column of this width: one to two returns of each beam at 10 Hz, one at 20 Hz.
_WIDTH = 0.4  # degrees
_TURN = 1000.0  # degrees, more than the elevations span: separates the columns in one sorted list
_NARROWEST = 0.15  # degrees between two rings; the returns of one ring differ by less
_MORE = 1.5  # times as many numbers of rings as rings can be seen: the numbers are not those of whole rings
_BIN = 0.5  # degrees of elevation, in which gaps are compared; one bin to either side counts, too
_FEWEST = 20  # gaps that make a ring
# A gap larger than usual at its elevation means that a beam between had no return: glass, a dark car or the sky, not a surface.
_USUAL = 1.4
_REGULAR = 0.25  # relative difference from the usual gap within which a gap is regular
_LEAST_REGULAR = 0.5  # share of regular gaps in a scan with rings; among scattered points it is about a quarter


class Gaps(NamedTuple):
    """Gaps between a return and the next one above it."""

    lower: np.ndarray  # (G,) rows of the returns
    upper: np.ndarray  # (G,)
    missing: np.ndarray  # (G,) how many beams of the wanted spacing are missing between them, 1 or more


def elevations_of(points: np.ndarray) -> np.ndarray:  # (N, 3) -> (N,) degrees
    x, y, z = points.T
    return np.degrees(np.arctan2(z, np.hypot(x, y)))


def angles_of(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (N, 3) -> (N,), (N,) degrees
    """Azimuths and elevations."""
    return np.degrees(np.arctan2(points[:, 1], points[:, 0])), elevations_of(points)


def find_gaps(returns: np.ndarray, rings: int | None = None, beams: int | None = None) -> Gaps | None:  # (R, 3) float64
    """The gaps between vertically neighboring beams, or None if the returns are not arranged in rings.

    Args:
        returns: the points of a scan.
        rings: how many rings are wanted; None: the spacing of a sensor with 64.
        beams: how many rings there are by the scan's fields, if they say so.
    """
    azimuths, elevations = angles_of(returns)
    columns = np.floor(azimuths / _WIDTH)
    order = np.argsort(_TURN * columns + elevations, kind="stable")
    lower, upper = order[:-1], order[1:]
    together = columns[lower] == columns[upper]
    lower, upper = lower[together], upper[together]
    gap = elevations[upper] - elevations[lower]
    # In a column, a ring may have two returns, of almost the same elevation; they are not a gap.
    wide = gap >= (1.5 * STEP if rings is None else _NARROWEST)
    lower, upper, gap = lower[wide], upper[wide], gap[wide]
    usual = _usual_gaps(elevations[lower], gap)
    if not len(gap) or np.mean(np.abs(gap - usual) <= _REGULAR * usual) < _LEAST_REGULAR:
        return None
    if rings is None:
        missing = np.rint(gap / STEP).astype(np.int64) - 1
    else:
        missing = np.full(len(gap), _times_finer(rings, beams, elevations, usual) - 1)
    kept = (gap <= _USUAL * usual) & (missing >= 1)
    return Gaps(lower[kept], upper[kept], missing[kept])


def _times_finer(rings: int, beams: int | None, elevations: np.ndarray, usual: np.ndarray) -> int:  # (R,), (G,) degrees
    """How many times as many rings a scan gets if `rings` are wanted.

    The field tells the number of beams, unless it numbers more than can be seen: pieces of rings.
    """
    low, high = np.percentile(elevations, (0.5, 99.5))
    seen = float(high - low) / float(np.median(usual)) + 1.0
    return max(1, rings // beams if beams and beams <= _MORE * seen else round(rings / seen))


def _usual_gaps(elevations: np.ndarray, gap: np.ndarray) -> np.ndarray:  # (G,), (G,) degrees -> (G,)
    """For each gap, the median gap at its elevation; 0 where there are too few."""
    bins = np.floor((elevations + 90.0) / _BIN).astype(np.int64) + 1
    most = int(180.0 / _BIN) + 2
    order = np.argsort(bins, kind="stable")
    ends = np.cumsum(np.bincount(bins, minlength=most + 1))
    usual = np.zeros(most + 1)
    for number in np.unique(bins):
        begin, end = (ends[number - 2] if number >= 2 else 0), ends[min(number + 1, most)]
        if end - begin >= _FEWEST:
            usual[number] = np.median(gap[order[begin:end]])
    return usual[bins]
