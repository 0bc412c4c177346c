"""Fields of samples: the ring in which a sample lies, the time at which the sensor faced it, and the rest from its parent.

The ring is that of the nearest elevation. The time of a sample between two rings lies between those of its two returns; a sample of
an ellipsoid may lie aside of its parent, and gets the time of the return with the nearest azimuth in its ring.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from poli.beams.corrections import RING_FIELDS, elevations_of
from poli.densification.samples import Samples, returns_of
from poli.densification.sampling import angles_of
from poli.errors import InputError
from poli.io.messages import TIME_NAMES

_WRAP = 0.25  # of a scan's duration: two returns farther apart in time are those of its start and its end
_SPREAD = 0.25  # of the mean spacing of rings: the largest median deviation of returns from the elevation of their ring
_TURN = 2000.0  # degrees, more than three turns: separates the rings in one sorted list
_MOST = 4096  # range of the numbers of rings
_ENOUGH = 8192  # returns that suffice for the elevations of the rings
_FEWEST = 8  # returns per ring; fewer do not show that their elevations agree
_RARE = 0.02  # of the median ring's returns: rarer numbers are stray values, not beams


def ring_of(fields: Mapping[str, np.ndarray]) -> tuple[str, np.ndarray] | None:  # each (N,)
    """The name of the field that numbers the beams, if there is one, and its numbers (N,) as int64."""
    for name in RING_FIELDS:
        values = fields.get(name)
        if values is not None and values.ndim == 1 and (values.dtype.kind in "iu" or _whole(values)):
            return name, values.astype(np.int64)
    return None


def _whole(values: np.ndarray) -> bool:
    with np.errstate(invalid="ignore"):
        return bool(values.dtype.kind == "f" and np.isfinite(values).all() and (values == np.round(values)).all())


def beam_count(fields: Mapping[str, np.ndarray]) -> int | None:
    """The number of beams by the field; None if there is no field."""
    ring = ring_of(fields)
    if ring is None or not len(ring[1]):
        return None
    _, counts = np.unique(ring[1], return_counts=True)
    return int((counts >= _RARE * np.median(counts)).sum())


def all_fields(
    points: np.ndarray,  # (N, 3): the scan
    fields: Mapping[str, np.ndarray],  # each (N,) or (N, c)
    samples: Samples,
    new_rings: bool = False,  # number the rings between those of the scan
) -> dict[str, np.ndarray]:  # each (N + S,) or (N + S, c)
    """Return the fields of the originals and of the samples.

    With `new_rings`, ring r of the scan becomes ring k r, so that k - 1 new rings fit between two neighbors. Otherwise, the numbers
    of the originals stay.
    """
    before, new = dict(fields), {name: values[samples.parents] for name, values in fields.items()}
    times = [name for name in TIME_NAMES if name in fields and fields[name].ndim == 1]
    ring, between = ring_of(fields), samples.partners is not None
    if between:
        new |= {name: _times_between(fields[name], samples) for name in times}
    if ring is not None and len(samples.points):
        name, numbers = ring
        kind = fields[name].dtype
        if new_rings and between:
            finer, at = _numbered_between(numbers, kind, samples)
            before[name], new[name] = finer.astype(kind), at.astype(kind)
        elif (rings := _rings_by_elevation(points, numbers)) is not None:
            values, heights = rings
            at = values[np.searchsorted(0.5 * (heights[1:] + heights[:-1]), elevations_of(samples.points))]
            new[name] = at.astype(kind)
            if not between:
                facing = _facing(points, numbers, samples.points, at)
                new |= {name: fields[name][facing] for name in times}
    return {name: np.concatenate([before[name], new[name]]) for name in fields}


def _numbered_between(numbers: np.ndarray, kind: np.dtype, samples: Samples) -> tuple[np.ndarray, np.ndarray]:  # (N,) -> (N,), (S,)
    """Numbers of the originals and of the samples between them. Numbers that already leave room between neighbors are kept."""
    assert samples.shares is not None
    there, beyond = numbers[samples.parents], numbers[samples.partners]
    wanted = round(1.0 / float(samples.shares.min()))  # the sample nearest to its parent says how many parts the gap has
    room = max(1, int(np.median(np.abs(beyond - there))))
    finer = -(-wanted // room)
    largest = finer * int(np.abs(numbers).max())
    if kind.kind != "f" and largest > np.iinfo(kind).max:
        raise InputError(
            f"ring numbers would reach {largest}, and the field holds at most {np.iinfo(kind).max}; ask for fewer rings"
        )
    return finer * numbers, finer * there + np.rint(samples.shares * finer * (beyond - there)).astype(np.int64)


def _times_between(values: np.ndarray, samples: Samples) -> np.ndarray:  # (N,) -> (S,)
    a, b = values[samples.parents], values[samples.partners]
    # Differences first: times of drivers may be integers, or seconds since 1970, whose products lose microseconds.
    later = np.where(b >= a, b - np.minimum(a, b), a - np.minimum(a, b)).astype(np.float64) * np.where(b >= a, 1.0, -1.0)
    duration = float(np.ptp(values.astype(np.float64))) if len(values) else 0.0
    moved = np.where(np.abs(later) <= _WRAP * duration, samples.shares * later, 0.0)
    if values.dtype.kind in "iu":
        return (a.astype(np.int64) + np.rint(moved).astype(np.int64)).astype(values.dtype)
    return (a + moved).astype(values.dtype)


def _rings_by_elevation(points: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:  # (N, 3), (N,)
    """The numbers of the rings (B,) by ascending elevation, and their median elevations (B,) in degrees.

    None if the numbers are not those of rings: there are too many, or returns of one number differ in elevation.
    """
    rows, returns = returns_of(points)
    step = max(1, len(rows) // _ENOUGH)
    rows = rows[::step]
    if not len(rows) or np.ptp(numbers[rows]) >= _MOST:
        return None
    elevations, lowest = elevations_of(returns[::step]), int(numbers[rows].min())
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
    return known + lowest, middle[known]


def _facing(points: np.ndarray, numbers: np.ndarray, samples: np.ndarray, rings: np.ndarray) -> np.ndarray:  # (N, 3), (N,), (S, 3)
    """For each sample, the row of the return with the nearest azimuth in its ring, (S,)."""
    # One sorted list, in which each ring is repeated by a turn at both ends: the nearest azimuth is a neighbor in the list.
    rows, returns = returns_of(points)
    keys = _TURN * numbers[rows] + angles_of(returns)[0]
    keys, owners = np.concatenate([keys, keys - 360.0, keys + 360.0]), np.tile(rows, 3)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    wanted = _TURN * rings + angles_of(samples)[0]
    after = np.clip(np.searchsorted(keys, wanted), 1, len(keys) - 1)
    nearer = np.abs(keys[after] - wanted) < np.abs(keys[after - 1] - wanted)
    return owners[order[np.where(nearer, after, after - 1)]]


def output_order(fields: Mapping[str, np.ndarray], behind: np.ndarray) -> np.ndarray:  # each (M,), (M,) -> (M,)
    """The rows in the order of time and ring; `behind` are the rows of the originals, and those of the parents of samples.

    For systems that read more from the order of the points than their fields say: A-LOAM takes the time of a point from its
    place in the cloud, so samples at the end would all be late. Without times, samples follow their parents.

    Points of equal time and ring stay in the order of the scan, each original before its samples.
    """
    keys = [behind]
    time = next((fields[name] for name in TIME_NAMES if name in fields and fields[name].ndim == 1), None)
    if time is not None:
        ring = ring_of(fields)
        keys = [behind, *([] if ring is None else [ring[1]]), time]
    return np.lexsort(keys)
