"""Insert rows between the rings of a scan by interpolating its range image: what learned LiDAR upsampling (`tulip.py`) does on
smooth surfaces.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from benchmarks.data.rings import nearest_ring


@dataclass(frozen=True)
class RangeInterpolation:
    rows: int = 3  # new rows between two rings: 16 beams become 61, as with upsampling by four
    # Two returns, one above the other, belong to one surface if their ranges differ by at most the larger of these two. On flat
    # ground, the relative difference of neighboring rings grows with distance; 0.5 was better for KISS-ICP than 0.2.
    nearest: float = 0.5  # meters
    share: float = 0.5  # of the shorter range
    aside: float = 0.3  # degrees: returns farther apart in azimuth are not one above the other


def interpolate(
    points: np.ndarray,  # (N, 3)
    elevations: np.ndarray,  # (K,) degrees, ascending: of the rings
    settings: RangeInterpolation | None = None,
) -> np.ndarray:  # (M, 3)
    """Return the points, followed by the new rows."""
    settings = settings or RangeInterpolation()
    rings = nearest_ring(points, elevations)
    azimuths = np.degrees(np.arctan2(points[:, 1], points[:, 0]))
    order = np.lexsort((azimuths, rings))
    ends = np.searchsorted(rings[order], np.arange(len(elevations) + 1))
    by_ring = [order[begin:end] for begin, end in pairwise(ends)]  # rows of points, by azimuth
    new = [points]
    for below, above in pairwise(by_ring):
        if len(below) and len(above):
            partner = above[_nearest_around(azimuths[below], azimuths[above])]
            new.append(_between(points[below].astype(np.float64), points[partner].astype(np.float64), settings))
    return np.concatenate(new).astype(points.dtype)


def _nearest_around(wanted: np.ndarray, sorted_azimuths: np.ndarray) -> np.ndarray:  # (A,), (B,) degrees -> (A,) rows of B
    after = np.searchsorted(sorted_azimuths, wanted) % len(sorted_azimuths)
    before = after - 1  # -1 is the last, as intended: the ring is closed
    nearer = _apart(wanted, sorted_azimuths[before]) < _apart(wanted, sorted_azimuths[after])
    return np.where(nearer, before, after)


def _apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:  # degrees
    return np.abs((a - b + 180.0) % 360.0 - 180.0)


def _between(below: np.ndarray, above: np.ndarray, settings: RangeInterpolation) -> np.ndarray:  # (A, 3), (A, 3) -> (M, 3)
    """Points on the straight line between two returns, at evenly spaced elevations.

    This interpolates the inverse range linearly, which is exact on planes; interpolating the range would bend the ground.
    """
    near, far = np.linalg.norm(below, axis=1), np.linalg.norm(above, axis=1)
    aside = _apart(*(np.degrees(np.arctan2(p[:, 1], p[:, 0])) for p in (below, above)))
    one_surface = np.abs(near - far) <= np.maximum(settings.nearest, settings.share * np.minimum(near, far))
    kept = one_surface & (aside <= settings.aside) & (np.minimum(near, far) > 0.0)
    below, above, near, far = below[kept], above[kept], near[kept, None], far[kept, None]
    steps = np.arange(1, settings.rows + 1) / (settings.rows + 1)
    rows = [((1.0 - t) * far * below + t * near * above) / ((1.0 - t) * far + t * near) for t in steps]
    return np.concatenate(rows) if rows else np.zeros((0, 3))
