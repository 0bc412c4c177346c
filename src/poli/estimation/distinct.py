"""Find and merge coincident points: they say that a surface was hit twice, not how it runs.

Scans contain thousands of them (nuScenes repeats returns; voxels and sensors round). The network scales each neighborhood by its
size, which is zero where all neighbors coincide. So it receives every place once, and all points of a place get its ellipsoid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.kernel import kernel


@dataclass(frozen=True)
class Distinct:
    """The distinct places of a cloud. If no two points coincide and the order is that of the cloud, both arrays are None."""

    rows: np.ndarray | None  # (D,) int32: one point of each place
    places: np.ndarray | None  # (N,) int32: the place of each point

    def of_places(self, values: np.ndarray) -> np.ndarray:  # (N, ...) -> (D, ...)
        return values if self.rows is None else values[self.rows]

    def of_points(self, values: np.ndarray) -> np.ndarray:  # (D, ...) -> (N, ...)
        return values if self.places is None else values[self.places]


def distinct(points: np.ndarray, ordered: bool = False) -> Distinct:  # (N, 3) float64, finite
    """Find the distinct places by hashing: one pass, no sorting.

    If `ordered`, places are sorted by their coordinates, so sums over them do not depend on the order of the points."""
    places, rows = _places(points)
    if not ordered:
        return Distinct(None, None) if len(rows) == len(points) else Distinct(rows, places)
    order = _by_coordinates(points[rows])
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return Distinct(rows[order], rank[places])


def distinct_count(points: np.ndarray) -> int:  # (N, 3) float64, finite
    """Return the number of distinct points."""
    return len(_places(points)[1])


def _by_coordinates(points: np.ndarray) -> np.ndarray:  # (D, 3) -> (D,)
    """Return the order by x, then y, then z: one fast sort by x, then a sort by all three of the points with equal x."""
    order = np.argsort(points[:, 0])
    same = np.diff(points[order, 0]) == 0.0
    if same.any():
        slots = np.flatnonzero(np.append(same, False) | np.append(False, same))
        tied = order[slots]
        x, y, z = points[tied].T
        order[slots] = tied[np.lexsort((z, y, x))]
    return order


@kernel
def _places(points):
    """Return the place of each point (N,), numbered by first appearance, and the first point of each place."""
    slots = 16
    while slots < 2 * len(points):
        slots *= 2
    numbers = np.full(slots, -1, np.int32)
    places, first = np.empty(len(points), np.int32), np.empty(len(points), np.int32)
    count, last = 0, slots - 1
    mixed, bits = np.empty(3), np.empty(0, np.int64)
    for i in range(len(points)):
        key = np.int64(0)
        for a in range(3):
            mixed[a] = points[i, a] + 0.0  # turns -0.0 into 0.0
        bits = mixed.view(np.int64)
        for a in range(3):
            key = (key ^ bits[a]) * np.int64(-7046029254386353131)
            key ^= (key >> 29) & np.int64(0x7FFFFFFFF)
        slot = key & last
        while True:
            n = numbers[slot]
            if n < 0:
                numbers[slot] = count
                first[count] = i
                places[i] = count
                count += 1
                break
            f = first[n]
            if points[f, 0] == points[i, 0] and points[f, 1] == points[i, 1] and points[f, 2] == points[i, 2]:
                places[i] = n
                break
            slot = (slot + 1) & last
    return places, first[:count].copy()
