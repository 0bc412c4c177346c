"""Draw samples from the ellipsoids of a scan, and assign each to a parent point."""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.estimation import estimate
from poli.estimation.distinct import distinct_count
from poli.estimation.inference import UP
from poli.tasks.densify.config import DensifyConfig
from poli.voxels import check_reach, voxel_numbers

LEAST = 16  # minimum number of points for the network


class ScanField(NamedTuple):
    """The ellipsoids of a scan, and the returns of each."""

    rows: np.ndarray  # (R,) rows of the scan that are returns
    returns: np.ndarray  # (R, 3) float64
    field: Ellipsoids  # E ellipsoids
    members: np.ndarray  # (R,) rows of `returns`, grouped by ellipsoid
    first: np.ndarray  # (E,) start of each group in `members`
    counts: np.ndarray  # (E,) size of each group


class Samples(NamedTuple):
    points: np.ndarray  # (S, 3) float64
    parents: np.ndarray  # (S,) rows of the scan
    ellipsoids: np.ndarray  # (S,) rows of the field they were drawn from


def draw_samples(points: np.ndarray, config: DensifyConfig) -> Samples:  # (N, 3)
    """Return the samples of a scan, in the order of their ellipsoids.

    Rows that are not returns (not finite, or zero) get no samples, nor do scans with fewer than 16 distinct returns. The same scan
    and configuration always give the same samples; different scans give independent samples.
    """
    of_scan = scan_field(points, config) if config.per_point else None
    return _no_samples() if of_scan is None else sample_field(of_scan, points, config)


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
    # 1. Choose the ellipsoids to sample.
    rows, returns, field, members, first, counts = of_scan
    chosen = np.flatnonzero(_worth(field, config))
    if not len(chosen) or not config.per_point:
        return _no_samples()

    # 2. Draw `per_point` uniform offsets in each. They are added to the ellipsoid's returns in turn, not to their mean, so that
    # the time and ring of the parent also apply to the sample.
    k = config.per_point
    centered = Ellipsoids.trusted(np.zeros((len(chosen), 3)), field.covariances[chosen])
    generator = np.random.default_rng([config.seed, _fingerprint(points)])
    offsets = centered.sample(k, config.max_sigma, seed=generator)  # (E k, 3)
    turn = np.arange(k)[None, :] * counts[chosen, None] // k  # (E, k)
    parents = members[first[chosen, None] + turn].reshape(-1)  # (E k,) rows of `returns`
    samples = returns[parents] + offsets
    if config.flat:
        _flatten(samples.reshape(-1, k, 3), field.means[chosen], field.axes[chosen, :, 0])

    # 3. Drop samples where there are already points, and those beyond `max_points`.
    kept = np.arange(len(parents))
    if config.sample_voxel:
        kept = _new_voxels(returns, samples, config.sample_voxel)
    if config.max_points is not None:
        kept = kept[_evenly(kept % k, max(0, config.max_points - len(points)))]
    return Samples(samples[kept], rows[parents[kept]], chosen[kept // k])


def _fingerprint(points: np.ndarray) -> int:  # (N, 3)
    """Return a checksum of the values, independent of type and byte order: of their float32 bytes if float32 holds them exactly."""
    values = points.astype(np.float64) + 0.0  # -0.0 is 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = values.astype(np.float32)
    lost = np.isnan(values)
    values[lost], narrow[lost] = np.nan, np.nan
    return crc32((narrow if ((narrow == values) | lost).all() else values).tobytes())


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


def _worth(field: Ellipsoids, config: DensifyConfig) -> np.ndarray:  # (E,)
    worth = np.ones(len(field), bool)
    if config.max_range is not None:
        worth &= np.sqrt(np.einsum("ij,ij->i", field.means, field.means)) <= config.max_range
    if config.planarity:
        worth &= field.planarity >= config.planarity
    if config.max_thickness is not None:
        worth &= field.scales[:, 0] <= config.max_thickness
    return worth


def _new_voxels(returns: np.ndarray, samples: np.ndarray, size: float) -> np.ndarray:  # (K,) rows of `samples`
    """Return the first sample of each voxel without returns."""
    together = np.concatenate([returns, samples])
    check_reach(together, size)
    _, first = voxel_numbers(together, size)
    return first[first >= len(returns)] - len(returns)


def _evenly(turn: np.ndarray, budget: int) -> np.ndarray:  # (S,) which sample of its ellipsoid each is -> (K,) rows, ascending
    """Return at most `budget` rows: all first samples before any second ones, and evenly spaced ones of the last turn."""
    if len(turn) <= budget:
        return np.arange(len(turn))
    by_turn = np.argsort(turn, kind="stable")
    ends = np.cumsum(np.bincount(turn))
    last = int(np.searchsorted(ends, budget, side="right"))  # the turn that no longer fits
    begin = int(ends[last - 1]) if last else 0
    rest, size = budget - begin, int(ends[last]) - begin
    picked = begin + np.arange(rest) * size // max(rest, 1)
    return np.sort(np.concatenate([by_turn[:begin], by_turn[picked]]))


def _no_samples() -> Samples:
    return Samples(np.zeros((0, 3)), np.zeros(0, np.intp), np.zeros(0, np.intp))
