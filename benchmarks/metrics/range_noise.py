"""Errors of the ranges of a sensor, from planes fitted to patches of single scans.

A plane is linear in the inverse range: m . u = 1 / r for the unit vector u of a ray. So all patches are fitted at once, and
residuals are along the rays. Constant errors of the beams, in range and in elevation, are estimated together with the planes.
Patches are as tall as `BLOCK` rings; what is constant or linear across a block is a plane, too, and remains unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from benchmarks.data.beam_rasters import Raster

BLOCK = 6  # rings per patch
_COLUMNS = 16  # per patch
_FEWEST, _FEWEST_RINGS = 40, 4  # returns, rings
_THICKNESS = 0.05  # meters: patches whose returns scatter more across the plane are not planes
_INLIERS = 0.85  # share within 4 sigma; the rest may be a pole before a wall
_CURVED = 0.35  # sigma: a patch in which a quadratic term explains more is not plane
_STRETCH = 2.0  # of the longest to the shortest range
_ROUNDS = 8
_LEVER = 30.0  # meters per radian: on surfaces more slanted than this, uneven ground looks like an error of the beam
_FEWEST_OF_RING, _FEWEST_OF_BIN = 200, 100  # returns for an estimate
_PRIOR = (0.2, 0.03, 5e-4)  # noise of a return, beam errors in meters and radians. Errors of a patch are alike, hence the noise.
RANGES = (0.0, 5.0, 10.0, 20.0, 40.0, 80.0)  # meters
INCIDENCES = (0.0, 30.0, 50.0, 65.0, 75.0, 85.0)  # degrees


@dataclass(frozen=True, eq=False)
class Residuals:
    """Returns on planes, and how far they are from them along the ray."""

    error: np.ndarray  # (N,) meters, without the beams' constant errors
    ranges: np.ndarray  # (N,) meters
    incidence: np.ndarray  # (N,) degrees
    second: np.ndarray  # (N,) meters: second difference of the errors along the ring, scaled to the sigma of one error; NaN at gaps
    rings: np.ndarray  # (R,) numbers of the rings with an estimate
    offsets: np.ndarray  # (R,) meters, constant error of each ring, relative to a line across each block
    tilts: np.ndarray  # (R,) degrees, the same for the elevation

    @property
    def beam_sigma(self) -> float:
        return _spread(self.offsets, self.rings)

    @property
    def tilt_sigma(self) -> float:
        return _spread(self.tilts, self.rings)


@dataclass(frozen=True)
class Scatter:
    """Errors of one bin."""

    count: int
    sigma: float  # meters, 1.48 times the median absolute error
    std: float  # meters, of errors within 5 sigma
    within_ring: float  # meters: sigma of second differences along the ring, free of the surface's shape
    beyond_3: float  # share
    beyond_5: float


@dataclass(frozen=True, eq=False)
class _Returns:
    """Returns of all scans, each in two families of patches."""

    rays: np.ndarray  # (N, 3)
    length: np.ndarray  # (N,) meters
    ring: np.ndarray  # (N,) int
    across: np.ndarray  # (N,) columns
    follows: np.ndarray  # (N,) bool: the next row is the next return on the ring
    patch: np.ndarray  # (N,) int
    main: np.ndarray  # (N,) bool: of the first family
    weight: np.ndarray  # (N,) of the robust fit

    def select(self, mask: np.ndarray) -> _Returns:
        chosen = _Returns(*(getattr(self, one.name)[mask] for one in fields(self)))
        kept = np.flatnonzero(mask)
        chosen.follows[:-1] &= np.diff(kept) == 1
        return replace(chosen, patch=np.unique(chosen.patch, return_inverse=True)[1])


def residuals(scans: Sequence[Raster]) -> Residuals:
    """Errors of all returns of the scans that lie on planes."""
    found = _planes(_patched(scans))
    count = int(found.ring.max()) + 1 if len(found.ring) else 0
    offset, tilt = np.zeros(count), np.zeros(count)
    for number in range(_ROUNDS):
        error, _, lever = _errors(found, offset, tilt)
        if number == 2:  # only now can a curved patch be told from the errors of its rings
            keep = ~_curved(error, found)[found.patch]
            found, error, lever = found.select(keep), error[keep], lever[keep]
        more = _beams(error, lever, found, count)
        offset, tilt = offset + more[0], tilt + more[1]
    error, incidence, lever = _errors(found, offset, tilt)
    counts = np.bincount(found.patch)
    error = error * np.sqrt(counts / np.maximum(counts - 3.0, 1.0))[found.patch]  # a plane takes three degrees of freedom
    second = np.full(len(error), np.nan)
    same = found.follows[:-1] & (np.diff(found.patch) == 0)
    middle = np.flatnonzero(same[:-1] & same[1:]) + 1
    second[middle] = (error[middle - 1] - 2.0 * error[middle] + error[middle + 1]) / np.sqrt(6.0)
    rings = np.flatnonzero(np.bincount(found.ring, np.abs(lever) < _LEVER, count) >= _FEWEST_OF_RING)
    main, tilts = found.main, np.degrees(_straightened(tilt[rings], rings))
    offsets = _straightened(offset[rings], rings)
    return Residuals(error[main], found.length[main], incidence[main], second[main], rings, offsets, tilts)


def scatter(found: Residuals, which: np.ndarray, sigmas: np.ndarray) -> Scatter:  # (N,) bool, (N,) meters
    """Errors of the chosen returns. `sigmas`: of returns of the same range and incidence, by which tails are counted."""
    error, second = found.error[which], found.second[which]
    if len(error) < _FEWEST_OF_BIN:
        return Scatter(len(error), *[float("nan")] * 5)
    sigma, own = robust(error), np.abs(error) / np.maximum(sigmas[which], 1e-6)
    second = second[np.isfinite(second)]
    inner = np.std(error[np.abs(error) < 5.0 * sigma])
    return Scatter(len(error), sigma, float(inner), robust(second), float((own > 3.0).mean()), float((own > 5.0).mean()))


def local_sigmas(found: Residuals) -> np.ndarray:  # (N,) meters
    """The robust sigma of all returns of the same range and incidence bins."""
    cell = bins(found.ranges, RANGES) * len(INCIDENCES) + bins(found.incidence, INCIDENCES)
    sigma = np.empty(len(cell))
    for one in np.unique(cell):
        sigma[cell == one] = robust(found.error[cell == one])
    return sigma


def bins(values: np.ndarray, edges: Sequence[float]) -> np.ndarray:  # (N,) -> (N,) int
    """The bin of each value; len(edges) - 1 beyond the last."""
    return np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 1)


def robust(values: np.ndarray) -> float:
    """1.48 times the median absolute deviation: the standard deviation of the bulk."""
    return float(1.4826 * np.median(np.abs(values - np.median(values)))) if len(values) else float("nan")


def _patched(scans: Sequence[Raster]) -> _Returns:
    """All returns in patches of BLOCK rings, and again in patches half a block higher, which link the blocks."""
    parts, first = [], 0
    for scan in scans:
        length, across = scan.ranges, scan.across
        follows = np.append((np.diff(scan.ring) == 0) & (np.diff(scan.column) == 1), False)
        for shift in (0, BLOCK // 2):
            key = (scan.ring + shift) // BLOCK * 4096 + (across / _COLUMNS).astype(np.int64)
            patch = first + np.unique(key, return_inverse=True)[1]
            first = int(patch.max()) + 1
            main, ones = np.full(len(key), shift == 0), np.ones(len(key))
            parts.append((scan.points / length[:, None], length, scan.ring, across, follows, patch, main, ones))
    return _Returns(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _planes(returns: _Returns) -> _Returns:
    """The returns in patches that are planes, with the weights of a robust fit (Tukey)."""
    patch, none = returns.patch, np.zeros(int(returns.ring.max()) + 1)
    count = np.bincount(patch)
    rings = np.bincount(np.unique(patch * 4096 + returns.ring) // 4096, minlength=len(count))
    low, high = np.full(len(count), np.inf), np.zeros(len(count))
    np.minimum.at(low, patch, returns.length)
    np.maximum.at(high, patch, returns.length)
    returns = returns.select(((count >= _FEWEST) & (rings >= _FEWEST_RINGS) & (high < _STRETCH * low))[patch])
    for _ in range(4):
        error, incidence, _ = _errors(returns, none, none)
        sigma = 1.4826 * _medians(np.abs(error), returns.patch) + 1e-4
        share = error / sigma[returns.patch]
        returns = replace(returns, weight=np.maximum(1.0 - (share / 4.7) ** 2, 0.0) ** 2)
    thick = _medians(np.abs(error) * np.cos(np.radians(incidence)), returns.patch) * 1.4826
    inliers = np.bincount(returns.patch, np.abs(share) < 4.0) / np.bincount(returns.patch)
    steep = np.bincount(returns.patch, incidence) / np.bincount(returns.patch)
    return returns.select(((thick < _THICKNESS) & (inliers > _INLIERS) & (steep < INCIDENCES[-1]))[returns.patch])


def _errors(returns: _Returns, offset: np.ndarray, tilt: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Errors along the rays, incidence in degrees, and the change of the range with the elevation, in meters per radian."""
    flat = np.maximum(np.hypot(returns.rays[:, 0], returns.rays[:, 1]), 1e-6)
    z = returns.rays[:, 2]
    up = np.stack([-z * returns.rays[:, 0] / flat, -z * returns.rays[:, 1] / flat, flat], axis=1)
    u = returns.rays + tilt[returns.ring, None] * up
    r = returns.length - offset[returns.ring]
    weight = returns.weight * r**4  # an error of 1 / r is one of r by the square of r
    count = int(returns.patch.max()) + 1
    A, b = np.empty((count, 3, 3)), np.empty((count, 3))
    for i in range(3):
        b[:, i] = np.bincount(returns.patch, weight / r * u[:, i], count)
        for j in range(i + 1):
            A[:, i, j] = A[:, j, i] = np.bincount(returns.patch, weight * u[:, i] * u[:, j], count)
    A += 1e-12 * np.trace(A, axis1=1, axis2=2)[:, None, None] * np.eye(3)
    plane = np.linalg.solve(A, b[:, :, None])[returns.patch, :, 0]
    inverse = np.maximum(np.einsum("ni,ni->n", plane, u), 1e-4)
    cosine = inverse / np.linalg.norm(plane, axis=1)
    lever = -np.einsum("ni,ni->n", plane, up) / inverse**2
    return r - 1.0 / inverse, np.degrees(np.arccos(np.clip(cosine, 0.0, 1.0))), lever


def _beams(error: np.ndarray, lever: np.ndarray, returns: _Returns, count: int) -> np.ndarray:  # (2, count)
    """What to add to the constant errors of the beams: error = offset + lever tilt, by weighted least squares per ring."""
    noise, wide, turned = _PRIOR
    weight = np.where(np.abs(lever) < _LEVER, returns.weight, 0.0) / noise**2
    sums = [np.bincount(returns.ring, weight * a, count) for a in (np.ones_like(lever), lever, lever**2, error, lever * error)]
    A = np.array([[sums[0] + wide**-2, sums[1]], [sums[1], sums[2] + turned**-2]]).transpose(2, 0, 1)
    return np.linalg.solve(A, np.stack(sums[3:], axis=1)[:, :, None])[:, :, 0].T


def _curved(error: np.ndarray, returns: _Returns) -> np.ndarray:  # (patches,) bool
    count = np.bincount(returns.patch).astype(float)

    def mean(values: np.ndarray) -> np.ndarray:
        return (np.bincount(returns.patch, values) / count)[returns.patch]

    x, y = returns.across - mean(returns.across), returns.ring - mean(returns.ring.astype(float))
    clipped = np.where(returns.weight > 0.0, error, 0.0)
    sigma = np.sqrt(mean(clipped**2)) + 1e-6
    curved = np.zeros(len(count), bool)
    for term in (x * x, x * y, y * y):
        term = term - mean(term)
        share = np.bincount(returns.patch, clipped / sigma * term / (np.sqrt(mean(term**2)) + 1e-9)) / count
        curved |= np.abs(share) > _CURVED
    return curved


def _medians(values: np.ndarray, patch: np.ndarray) -> np.ndarray:  # (N,), (N,) -> (patches,)
    count = np.bincount(patch)
    starts = np.concatenate([[0], np.cumsum(count)[:-1]])
    return values[np.lexsort((values, patch))][starts + count // 2]


def _spread(values: np.ndarray, rings: np.ndarray) -> float:
    """Standard deviation over the rings; a line across each block is missing from it."""
    blocks = len(np.unique(rings // BLOCK))
    return float(np.sqrt((values**2).sum() / max(len(values) - 2 * blocks, 1))) if len(values) else np.nan


def _straightened(values: np.ndarray, rings: np.ndarray) -> np.ndarray:
    result = values.copy()
    for block in np.unique(rings // BLOCK):
        here = np.flatnonzero(rings // BLOCK == block)
        if len(here) > 2:
            result[here] -= np.polyval(np.polyfit(rings[here], values[here], 1), rings[here])
        else:
            result[here] = 0.0
    return result
