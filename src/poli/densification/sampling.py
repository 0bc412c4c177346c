"""Samples of a scan: between its rings, or around its points, on the surfaces that the ellipsoids describe.

A gap between two rings is filled as a sensor with more beams would have measured, if the ellipsoids below and above it lie on one
plane. So samples end where the surface ends: not across a depth edge, and not where a beam between had no return.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from poli.beams.corrections import elevations_of
from poli.configs import DensifyConfig
from poli.densification.samples import Samples, ScanField, no_samples, scan_field, scan_generator, suitable, thinned_out
from poli.ellipsoids import Ellipsoids

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
    between = fill_gaps(of_scan, points, config, beams) if config.fills_gaps else None
    return sample_field(of_scan, points, config) if between is None else between


def sample_field(of_scan: ScanField, points: np.ndarray, config: DensifyConfig) -> Samples:  # (N, 3): the scan
    """Return samples drawn from the ellipsoids, within a number of sigmas, or as far as the expected error allows."""
    # 1. Choose the ellipsoids to sample, and how far.
    field, returns = of_scan.field, of_scan.returns
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
    counts, members = np.bincount(of_scan.owners), np.argsort(of_scan.owners, kind="stable")  # returns, grouped by ellipsoid
    turn = np.arange(k)[None, :] * counts[chosen, None] // k  # (E, k)
    parents = members[(np.cumsum(counts) - counts)[chosen, None] + turn].reshape(-1)  # (E k,) rows of `returns`
    samples = returns[parents] + offsets
    if config.flat:  # project onto the plane through the ellipsoid's mean, which has less noise than any single return
        flat, means, normals = samples.reshape(-1, k, 3), field.means[chosen], field.axes[chosen, :, 0]
        flat -= np.einsum("eki,ei->ek", flat - means[:, None, :], normals)[:, :, None] * normals[:, None, :]
    drawn = Samples(samples, of_scan.rows[parents], np.repeat(chosen, k))
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
    joined = Samples(*(np.concatenate(pair) for pair in zip(between[:3], around[:3], strict=True)))
    turn = np.concatenate([np.zeros(len(between.points), np.intp), 1 + np.arange(len(around.points)) % ellipsoids.samples_each])
    return thinned_out(joined, turn, of_scan.returns, points, config)


def fill_gaps(
    of_scan: ScanField,
    points: np.ndarray,  # (N, 3): the scan
    config: DensifyConfig,
    beams: int | None = None,  # of the sensor, if known
) -> Samples | None:
    """Return the samples between the rings, or None if the scan has no rings or no gaps to fill."""
    returns = of_scan.returns
    gaps = find_gaps(returns, config.rings, beams)
    if gaps is None:
        return None

    # 1. Choose the gaps whose two ellipsoids lie on one plane.
    rows, ellipsoids = of_scan.rows, of_scan.owners
    p, q = returns[gaps.lower], returns[gaps.upper]
    a, b = ellipsoids[gaps.lower], ellipsoids[gaps.upper]
    one_surface = LocalPlanes(of_scan.field).error_between(a, b, p, q) <= config.max_error
    worth = suitable(of_scan.field, config)
    kept = np.flatnonzero(one_surface & worth[a] & worth[b])
    if not len(kept):
        return no_samples()

    # 2. Place the missing beams at even steps of elevation, each moved at random by up to half a step: rings of samples would move
    # with the sensor from scan to scan, as measured rings do, and point-to-point ICP would take them for static structure.
    count = gaps.missing[kept]
    gap = np.repeat(kept, count)
    number = np.arange(len(gap)) - np.repeat(np.cumsum(count) - count, count) + 1
    moved = 0.0 if config.rings is not None else scan_generator(points, config.seed).uniform(-0.5, 0.5, len(gap))
    share = (number + moved) / (gaps.missing[gap] + 1.0)
    # Inverse ranges are interpolated, which is exact on planes, for small angles.
    below, above = p[gap], q[gap]
    of_below, of_above = (1.0 - share) * np.linalg.norm(above, axis=1), share * np.linalg.norm(below, axis=1)
    placed = (of_below[:, None] * below + of_above[:, None] * above) / (of_below + of_above)[:, None]

    # 3. A sample belongs to the nearer of its two returns, and shares the time of both.
    upper = share > 0.5
    parents = np.where(upper, gaps.upper[gap], gaps.lower[gap])
    partners = np.where(upper, gaps.lower[gap], gaps.upper[gap])
    share = np.where(upper, 1.0 - share, share)
    samples = Samples(placed, rows[parents], ellipsoids[parents], rows[partners], share)
    return thinned_out(samples, number - 1, returns, points, config)


# --- Returns that lie one above the other, as the beams of a spinning sensor do, and the gaps between them.
#
# No ring numbers are needed: returns of the same azimuth, sorted by elevation, are the rings from bottom to top. This also
# holds for sensors whose rings are unevenly spaced, tilted against each other, or cut into pieces.

# Gaps are filled to about the spacing of a sensor with 64 beams, 0.43 to 0.53 degrees: three new rings in the gaps of a VLP-16.
STEP = 0.45  # degrees
# Two beams are compared in a column of this width: one to two returns of each beam at 10 Hz, one at 20 Hz.
_WIDTH = 0.4  # degrees
_COLUMN = 1000.0  # degrees, more than the elevations span: separates the columns in one sorted list
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


def angles_of(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (N, 3) -> (N,), (N,) degrees
    """Azimuths and elevations."""
    return np.degrees(np.arctan2(points[:, 1], points[:, 0])), elevations_of(points)


def _by_column(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (N, 3) -> (N,), (N,)
    """The column of each point, and keys that sort points by column and elevation."""
    azimuths, elevations = angles_of(points)
    columns = np.floor(azimuths / _WIDTH)
    return columns, _COLUMN * columns + elevations


def find_gaps(returns: np.ndarray, rings: int | None = None, beams: int | None = None) -> Gaps | None:  # (R, 3) float64
    """The gaps between vertically neighboring beams, or None if the returns are not arranged in rings.

    Args:
        returns: the points of a scan.
        rings: how many rings are wanted; None: the spacing of a sensor with 64.
        beams: how many rings there are by the scan's fields, if they say so.
    """
    elevations = elevations_of(returns)
    columns, keys = _by_column(returns)
    order = np.argsort(keys, kind="stable")
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


# --- The surface through a return, as its ellipsoid describes it, and how far from it samples can be trusted.
#
# The surface is a plane across the ellipsoid's normal. A curved one needs another `heights`, and a term of its curvature in
# `reach_in_sigmas`.
#
# The factors were fitted to the returns of beams that had been removed from real scans (KITTI raw 0013, 16 of 64 beams kept).
# Of the returns between two rings with an expected error of at most 5 cm, 63 % are nearer to the surface than expected; 68 %
# would be ideal.

_NOISE = 0.008  # meters: error of a sample between two returns of an ideal surface, from the noise of the ranges
_THICKNESS_BETWEEN = 1.4  # error between two returns, per sigma of the thicker ellipsoid across its surface
_DISAGREEMENT = 0.15  # error between two returns, per meter by which the surface of one misses the other
_THICKNESS_BEYOND = 2.0  # error at the ellipsoid itself, per sigma across the surface
_TILT = 0.35  # error of the normal in units of thickness / width of the ellipsoid
_FARTHEST = 24.0  # sigmas along the surface: limit of the reach, however thin the ellipsoid

# Where beams have passed, the sensor saw something behind, so there is no surface.
_BESIDE = 0.2  # degrees of elevation: a beam this near has passed through the place of the sample itself
_BEHIND = 3.0  # expected errors by which a return must lie behind the surface of a sample


@dataclass(frozen=True, eq=False)
class LocalPlanes:
    """One surface per ellipsoid."""

    field: Ellipsoids  # E ellipsoids

    @cached_property
    def normals(self) -> np.ndarray:  # (E, 3)
        """Unit normals on the side of the sensor, which is at the origin."""
        thin = self.field.axes[:, :, 0]
        away = np.einsum("ei,ei->e", thin, self.field.means) > 0.0
        return np.where(away[:, None], -thin, thin)

    def heights(self, rows: np.ndarray, points: np.ndarray) -> np.ndarray:  # (N,), (N, 3) -> (N,) meters
        """Distances of points above the surfaces of these ellipsoids, positive on the side of the sensor."""
        return np.einsum("ni,ni->n", points - self.field.means[rows], self.normals[rows])

    def error_between(self, a: np.ndarray, b: np.ndarray, p: np.ndarray, q: np.ndarray) -> np.ndarray:  # (N,), (N, 3) -> (N,)
        """Expected error in meters, across the surface, of points on the line from p to q, which belong to the ellipsoids a and b.

        It is small if both lie on one plane: the surface of each passes through the other return, and both are thin.
        """
        missed = np.maximum(np.abs(self.heights(a, q)), np.abs(self.heights(b, p)))
        thick = np.maximum(self.field.scales[a, 0], self.field.scales[b, 0])
        return np.sqrt(_NOISE**2 + (_THICKNESS_BETWEEN * thick) ** 2 + (_DISAGREEMENT * missed) ** 2)

    def reach_in_sigmas(self, max_error: float) -> np.ndarray:  # meters -> (E,)
        """How far along the surface the expected error stays below `max_error`, in standard deviations; 0 if nowhere.

        At m standard deviations, the error of a plane is sqrt(thickness^2 + (tilt r)^2) with r = m width and
        tilt = thickness / width, each with its factor: the width cancels.
        """
        with np.errstate(divide="ignore", over="ignore"):
            squared = (np.square(max_error / self.field.scales[:, 0]) - _THICKNESS_BEYOND**2) / _TILT**2
        return np.minimum(np.sqrt(np.maximum(squared, 0.0)), _FARTHEST)


def in_free_space(samples: Samples, returns: np.ndarray, surfaces: LocalPlanes, error: float) -> np.ndarray:  # (S,) bool
    """Whether a beam has passed through the surface where each sample lies.

    It has if a return on the ray of the sample is behind the surface of the sample's ellipsoid, as seen from the sensor. On rays
    between two beams, both must be. The height above the surface is compared, not the range: along the ground, ranges
    change fast from ray to ray.
    """
    keys = _by_column(returns)[1]
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    wanted = _by_column(samples.points)[1]
    after = np.searchsorted(keys, wanted)
    passed, beside = [], []
    for place in (after - 1, after):
        inside = np.clip(place, 0, len(keys) - 1)
        away = np.where(inside == place, np.abs(keys[inside] - wanted), np.inf)
        behind = surfaces.heights(samples.ellipsoids, returns[order[inside]]) < -_BEHIND * error
        passed.append(behind & (away < _COLUMN / 2.0))
        beside.append(behind & (away <= _BESIDE))
    return (passed[0] & passed[1]) | beside[0] | beside[1]
