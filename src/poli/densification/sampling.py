"""Draw the samples of a scan: between its rings, or in its ellipsoids, and assign each to a parent point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from poli.beams.corrections import RING_FIELDS
from poli.configs import DensifyConfig
from poli.densification.gaps import LocalPlanes, angles_of, elevations_of, fill_gaps, in_free_space
from poli.densification.samples import Between, Samples, ScanField, no_samples, scan_generator, suitable, thinned_out
from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.estimation import estimate
from poli.estimation.estimate import UP
from poli.estimation.ordered_cloud import distinct_count
from poli.io.messages import TIME_NAMES
from poli.voxels import check_reach, voxel_numbers

# --- Fields of samples: the ring in which a sample lies, the time at which the sensor faced it, and the rest from its parent.
#
# The ring is that of the nearest elevation. The time of a sample between two rings lies between those of its two returns; a
# sample of
# an ellipsoid may lie aside of its parent, and gets the time of the return with the nearest azimuth in its ring.


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


LEAST = 16  # minimum number of points for the network
# Features describe neighborhoods of meters, and a hole changes them more than an error of decimeters. So nearly all gaps are
# filled, and ellipsoids of any thickness continue the surface past edges and beyond the highest ring. Chosen on KITTI raw 0013
# (docs/densify.md).
_FOR_FEATURES: dict[str, Any] = {"purpose": "odometry", "max_points": None, "sample_voxel": 0.0}
_GAPS_FOR_FEATURES = {**_FOR_FEATURES, "max_error": 2.0}  # meters
_ELLIPSOIDS_FOR_FEATURES = {**_FOR_FEATURES, "per_point": 5, "max_sigma": 12.0, "max_thickness": None}


def draw_samples(points: np.ndarray, config: DensifyConfig, beams: int | None = None) -> Samples:  # (N, 3)
    """Return the samples of a scan, in the order of its columns or ellipsoids. `beams` of the sensor matter to `rings` only.

    Rows that are not returns (not finite, or zero) get no samples, nor do scans with fewer than 16 distinct returns. The same scan
    and configuration always give the same samples; different scans give independent samples.
    """
    of_scan = scan_field(points, config) if config.per_point != 0 else None
    if of_scan is None:
        return no_samples()
    if config.purpose == "features":
        return _sample_for_features(of_scan, points, config)
    if config.fills_gaps:
        between = fill_gaps(of_scan, points, config, beams)
        if between is not None:
            return between
    return sample_field(of_scan, points, config)


def scan_field(points: np.ndarray, config: DensifyConfig) -> ScanField | None:  # (N, 3)
    """Estimate the ellipsoids of a scan, one per voxel. Return None if there are too few."""
    rows, returns = _returns(points)
    centers, members, first, count = _group(returns, config.voxel)
    if len(centers) < LEAST or distinct_count(centers) < LEAST:
        return None
    return ScanField(rows, returns, _ellipsoids(centers, config), members, first, count)


def ellipsoid_places(points: np.ndarray, config: DensifyConfig) -> tuple[np.ndarray, np.ndarray]:  # (N, 3)
    """Return the valid returns of a scan (R, 3) and the positions of its ellipsoids (E, 3), even if too few to estimate."""
    _, returns = _returns(points)
    return returns, _group(returns, config.voxel)[0]


def _returns(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (N, 3) -> (R,) rows, (R, 3) float64
    rows = np.flatnonzero(np.isfinite(points).all(axis=1) & points.any(axis=1))
    return rows, points[rows].astype(np.float64)


def sample_field(of_scan: ScanField, points: np.ndarray, config: DensifyConfig) -> Samples:  # (N, 3): the scan
    """Return samples drawn from the ellipsoids, within a number of sigmas, or as far as the expected error allows."""
    # 1. Choose the ellipsoids to sample, and how far.
    rows, returns, field, members, first, counts = of_scan
    surfaces = LocalPlanes(field)
    worth = suitable(field, config)
    reach = surfaces.reach_in_sigmas(config.max_error) if config.reach is None else np.full(len(field), config.reach)
    chosen = np.flatnonzero(worth & (reach > 0.0) if config.reach is None else worth)
    k = config.samples_each
    if not len(chosen) or not k:
        return no_samples()

    # 2. Draw k uniform offsets in each. They are added to the ellipsoid's returns in turn, not to their mean, so that the time and
    # ring of the parent also apply to the sample.
    centered = Ellipsoids.trusted(np.zeros((len(chosen), 3)), field.covariances[chosen])
    generator = scan_generator(points, config.seed)
    offsets = centered.sample(k, 1.0, seed=generator) * np.repeat(reach[chosen], k)[:, None]  # (E k, 3)
    turn = np.arange(k)[None, :] * counts[chosen, None] // k  # (E, k)
    parents = members[first[chosen, None] + turn].reshape(-1)  # (E k,) rows of `returns`
    samples = returns[parents] + offsets
    if config.flat:
        _flatten(samples.reshape(-1, k, 3), field.means[chosen], field.axes[chosen, :, 0])
    drawn = Samples(samples, rows[parents], np.repeat(chosen, k))
    numbers = np.tile(np.arange(k), len(chosen))

    # 3. A reach by error may leave the surface: drop samples where beams have passed.
    if config.reach is None:
        solid = np.flatnonzero(~in_free_space(drawn, returns, surfaces, config.max_error))
        drawn, numbers = drawn.select(solid), numbers[solid]
    return thinned_out(drawn, numbers, returns, points, config)


def _sample_for_features(of_scan: ScanField, points: np.ndarray, config: DensifyConfig) -> Samples:  # (N, 3): the scan
    """Return samples between the rings and of all ellipsoids. Those between come first, and are the last to be thinned out."""
    ellipsoids = replace(config, **_ELLIPSOIDS_FOR_FEATURES)
    between = fill_gaps(of_scan, points, replace(config, **_GAPS_FOR_FEATURES)) or no_samples()
    around = sample_field(of_scan, points, ellipsoids)
    joined = Samples(
        np.concatenate([between.points, around.points]),
        np.concatenate([between.parents, around.parents]),
        np.concatenate([between.ellipsoids, around.ellipsoids]),
    )
    turn = np.concatenate([np.zeros(len(between.points), np.intp), 1 + np.arange(len(around.points)) % ellipsoids.samples_each])
    return thinned_out(joined, turn, of_scan.returns, points, config)


def _flatten(samples: np.ndarray, means: np.ndarray, normals: np.ndarray) -> None:  # (E, k, 3), (E, 3), (E, 3)
    """Project samples in place onto the plane through the ellipsoid's mean, which has less noise than any single return."""
    above = np.einsum("eki,ei->ek", samples - means[:, None, :], normals)
    samples -= above[:, :, None] * normals[:, None, :]


def _group(returns: np.ndarray, voxel: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return voxel means (E, 3), rows of returns grouped by voxel (R,), start of each group (E,), and size of each group (E,)."""
    if not voxel:
        every = np.arange(len(returns))
        return returns, every, every, np.ones(len(returns), np.intp)
    check_reach(returns, voxel)
    voxels, _ = voxel_numbers(returns, voxel)
    count = np.bincount(voxels)
    sums = [np.bincount(voxels, returns[:, axis]) for axis in range(3)]
    means = np.stack(sums, axis=1) / np.maximum(count, 1)[:, None]
    return means, np.argsort(voxels, kind="stable"), np.cumsum(count) - count, count


def _ellipsoids(centers: np.ndarray, config: DensifyConfig) -> Ellipsoids:
    return estimate(centers, model=config.model, up=UP if config.upright else None, warn=False, curvature=False)
