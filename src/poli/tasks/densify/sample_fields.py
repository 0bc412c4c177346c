"""Fields of samples: the ring in which a sample lies, the time at which the sensor faced it, and the rest from its parent.

The ring is that of the nearest elevation. The time of a sample between two rings lies between those of its two returns; a sample of
an ellipsoid may lie aside of its parent, and gets the time of the return with the nearest azimuth in its ring.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from poli.beam_calibration import RING_FIELDS
from poli.data.datasets.point_times import TIME_NAMES
from poli.errors import InputError
from poli.tasks.densify.columns import angles_of, elevations_of
from poli.tasks.densify.samples import Between, Samples

_WRAP = 0.25  # of a scan's duration: two returns farther apart in time are those of its start and its end
_SPREAD = 0.25  # of the mean spacing of rings: the largest median deviation of returns from the elevation of their ring
_TURN = 2000.0  # degrees, more than three turns: separates the rings in one sorted list
_MOST = 4096  # range of the numbers of rings
_ENOUGH = 8192  # returns that suffice for the elevations of the rings
_FEWEST = 8  # returns per ring; fewer do not show that their elevations agree
_RARE = 0.02  # of the median ring's returns: rarer numbers are stray values, not beams


class Ring(NamedTuple):
    name: str
    numbers: np.ndarray  # (N,) int64


def ring_of(fields: Mapping[str, np.ndarray]) -> Ring | None:  # each (N,)
    """The field that numbers the beams, if there is one."""
    for name in RING_FIELDS:
        values = fields.get(name)
        if values is not None and values.ndim == 1 and (values.dtype.kind in "iu" or _whole(values)):
            return Ring(name, values.astype(np.int64))
    return None


def beam_count(ring: Ring | None) -> int | None:
    """The number of beams by the field; None if there is no field."""
    if ring is None or not len(ring.numbers):
        return None
    _, counts = np.unique(ring.numbers, return_counts=True)
    return int((counts >= _RARE * np.median(counts)).sum())


def sample_fields(
    points: np.ndarray,  # (N, 3): the scan
    fields: Mapping[str, np.ndarray],  # each (N,) or (N, c)
    samples: Samples,
    new_rings: bool = False,  # number the rings between those of the scan
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:  # each (N,), each (S,)
    """Return the fields of the originals that change, and those of the samples that differ from their parents'.

    With `new_rings`, ring r of the scan becomes ring k r, so that k - 1 new rings fit between two neighbors. Otherwise, the numbers
    of the originals stay.
    """
    ring = ring_of(fields)
    times = {name: fields[name] for name in TIME_NAMES if name in fields and fields[name].ndim == 1}
    before: dict[str, np.ndarray] = {}
    new: dict[str, np.ndarray] = {}
    if not len(samples.points):
        return before, new
    if samples.between is not None:
        new |= {name: _times_between(values, samples.parents, samples.between) for name, values in times.items()}
    if ring is None:
        return before, new
    kind = fields[ring.name].dtype
    if new_rings and samples.between is not None:
        before[ring.name], new[ring.name] = _numbered_between(ring.numbers, kind, samples.parents, samples.between)
        return before, new
    rings = _RingTable.of(points, ring.numbers)
    if rings is not None:
        at = rings.nearest(samples.points)
        new[ring.name] = at.astype(kind)
        if samples.between is None:
            facing = _facing(points, ring.numbers, samples.points, at)
            new |= {name: values[facing] for name, values in times.items()}
    return before, new


def _numbered_between(
    numbers: np.ndarray, kind: np.dtype, parents: np.ndarray, between: Between
) -> tuple[np.ndarray, np.ndarray]:  # (N,), (S,) -> (N,), (S,)
    """Numbers of the originals and of the samples between them. Numbers that already leave room between neighbors are kept."""
    there, beyond = numbers[parents], numbers[between.partners]
    wanted = round(1.0 / float(between.shares.min()))  # the sample nearest to its parent says how many parts the gap has
    room = max(1, int(np.median(np.abs(beyond - there))))
    finer = -(-wanted // room)
    largest = finer * int(np.abs(numbers).max())
    if kind.kind != "f" and largest > np.iinfo(kind).max:
        raise InputError(
            f"ring numbers would reach {largest}, and the field holds at most {np.iinfo(kind).max}; ask for fewer rings"
        )
    steps = np.rint(between.shares * finer * (beyond - there)).astype(np.int64)
    return (finer * numbers).astype(kind), (finer * there + steps).astype(kind)


def _times_between(values: np.ndarray, parents: np.ndarray, between: Between) -> np.ndarray:  # (N,), (S,) -> (S,)
    a, b = values[parents], values[between.partners]
    # Differences first: times of drivers may be integers, or seconds since 1970, whose products lose microseconds.
    later = np.where(b >= a, b - np.minimum(a, b), a - np.minimum(a, b)).astype(np.float64) * np.where(b >= a, 1.0, -1.0)
    duration = float(np.ptp(values.astype(np.float64))) if len(values) else 0.0
    moved = np.where(np.abs(later) <= _WRAP * duration, between.shares * later, 0.0)
    if values.dtype.kind in "iu":
        return (a.astype(np.int64) + np.rint(moved).astype(np.int64)).astype(values.dtype)
    return (a + moved).astype(values.dtype)


class _RingTable(NamedTuple):
    """The rings of a scan by elevation."""

    values: np.ndarray  # (B,) numbers of the rings, by ascending elevation
    heights: np.ndarray  # (B,) degrees: median elevations

    @classmethod
    def of(cls, points: np.ndarray, numbers: np.ndarray) -> _RingTable | None:  # (N, 3), (N,)
        """None if the numbers are not those of rings: there are too many, or returns of one number differ in elevation."""
        rows = _valid(points)
        rows = rows[:: max(1, len(rows) // _ENOUGH)]
        if not len(rows) or np.ptp(numbers[rows]) >= _MOST:
            return None
        elevations, lowest = elevations_of(points[rows].astype(np.float64)), int(numbers[rows].min())
        place = (numbers[rows] - lowest).astype(np.int16)  # sorted by radix
        counts = np.bincount(place)
        groups = np.split(elevations[np.argsort(place, kind="stable")], np.cumsum(counts)[:-1])
        middle = np.array([np.median(group) if len(group) else 0.0 for group in groups])
        usual = float(np.median(counts[counts > 0]))
        known = np.flatnonzero(counts >= max(1.0, _RARE * usual))
        if len(known) < 2 or usual < _FEWEST:
            return None
        if np.median(np.abs(elevations - middle[place])) > _SPREAD * np.ptp(middle[known]) / (len(known) - 1):
            return None
        known = known[np.argsort(middle[known], kind="stable")]
        return cls(known + lowest, middle[known])

    def nearest(self, samples: np.ndarray) -> np.ndarray:  # (S, 3) -> (S,) numbers
        """The ring of the nearest elevation."""
        return self.values[np.searchsorted(0.5 * (self.heights[1:] + self.heights[:-1]), elevations_of(samples))]


def _facing(points: np.ndarray, numbers: np.ndarray, samples: np.ndarray, rings: np.ndarray) -> np.ndarray:  # (N, 3), (N,), (S, 3)
    """For each sample, the row of the return with the nearest azimuth in its ring, (S,)."""
    # One sorted list, in which each ring is repeated by a turn at both ends: the nearest azimuth is a neighbor in the list.
    rows = _valid(points)
    keys = _TURN * numbers[rows] + angles_of(points[rows].astype(np.float64))[0]
    keys, owners = np.concatenate([keys, keys - 360.0, keys + 360.0]), np.tile(rows, 3)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    wanted = _TURN * rings + angles_of(samples)[0]
    after = np.clip(np.searchsorted(keys, wanted), 1, len(keys) - 1)
    nearer = np.abs(keys[after] - wanted) < np.abs(keys[after - 1] - wanted)
    return owners[order[np.where(nearer, after, after - 1)]]


def _valid(points: np.ndarray) -> np.ndarray:  # (N, 3) -> (R,) rows of returns
    return np.flatnonzero(np.isfinite(points).all(axis=1) & points.any(axis=1))


def _whole(values: np.ndarray) -> bool:
    with np.errstate(invalid="ignore"):
        return bool(values.dtype.kind == "f" and np.isfinite(values).all() and (values == np.round(values)).all())


def output_order(
    fields: Mapping[str, np.ndarray], parents: np.ndarray, count: int
) -> np.ndarray:  # each (N + S,), (S,) -> (N + S,)
    """The rows in the order of time and ring; without times, samples follow their parents. `count` rows are originals.

    For systems that read more from the order of the points than their fields say: A-LOAM takes the time of a point from its
    place in the cloud, so samples at the end would all be late.

    Points of equal time and ring stay in the order of the scan, each original before its samples.
    """
    behind = np.concatenate([np.arange(count), parents])
    keys = [behind]
    time = next((fields[name] for name in TIME_NAMES if name in fields and fields[name].ndim == 1), None)
    if time is not None:
        ring = ring_of(fields)
        keys = [behind, *([] if ring is None else [ring.numbers]), time]
    return np.lexsort(keys)
