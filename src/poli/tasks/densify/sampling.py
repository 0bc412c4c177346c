"""Where the samples of a scan lie, and whose they are."""

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

LEAST = 16  # points that the network needs


class ScanField(NamedTuple):
    """The ellipsoids of a scan, and which returns each was made of."""

    rows: np.ndarray  # (R,) rows of the scan that are returns
    returns: np.ndarray  # (R, 3) float64
    field: Ellipsoids  # E of them
    members: np.ndarray  # (R,) rows of `returns`, those of an ellipsoid together
    first: np.ndarray  # (E,) where each one's begin in `members`
    counts: np.ndarray  # (E,) how many they are


class Samples(NamedTuple):
    points: np.ndarray  # (S, 3) float64
    parents: np.ndarray  # (S,) rows of the scan
    ellipsoids: np.ndarray  # (S,) rows of the field they were drawn from


def draw_samples(points: np.ndarray, config: DensifyConfig) -> Samples:  # (N, 3)
    """The samples of a scan, in the order of their ellipsoids.

    Rows that are no returns (not finite, or zero) have none, nor have scans of fewer than 16 returns that do not coincide. The
    same scan with the same configuration has the same samples, whatever was drawn before; scans that differ have independent ones.
    """
    of_scan = scan_field(points, config) if config.per_point else None
    return _no_samples() if of_scan is None else sample_field(of_scan, points, config)


def scan_field(points: np.ndarray, config: DensifyConfig) -> ScanField | None:  # (N, 3)
    """The ellipsoids of a scan, one a voxel; None if there are too few."""
    rows, returns = _returns(points)
    centers, members, first, count = _group(returns, config.voxel)
    if len(centers) < LEAST or distinct_count(centers) < LEAST:
        return None
    return ScanField(rows, returns, _ellipsoids(centers, config), members, first, count)


def ellipsoid_places(points: np.ndarray, config: DensifyConfig) -> tuple[np.ndarray, np.ndarray]:  # (N, 3)
    """The returns of a scan (R, 3), and where its ellipsoids are (E, 3), or would be if there were enough."""
    _, returns = _returns(points)
    return returns, _group(returns, config.voxel)[0]


def _returns(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (N, 3) -> (R,) rows, (R, 3) float64
    rows = np.flatnonzero(np.isfinite(points).all(axis=1) & points.any(axis=1))
    return rows, points[rows].astype(np.float64)


def sample_field(of_scan: ScanField, points: np.ndarray, config: DensifyConfig) -> Samples:  # (N, 3): the scan
    # 1. The ellipsoids that are worth sampling.
    rows, returns, field, members, first, counts = of_scan
    chosen = np.flatnonzero(_worth(field, config))
    if not len(chosen) or not config.per_point:
        return _no_samples()

    # 2. `per_point` offsets of each, uniform within it. They start from the ellipsoid's own returns in turn, and not from the mean
    # of these, so that a sample lies where its parent's time and ring say.
    k = config.per_point
    centered = Ellipsoids.trusted(np.zeros((len(chosen), 3)), field.covariances[chosen])
    generator = np.random.default_rng([config.seed, _fingerprint(points)])
    offsets = centered.sample(k, config.max_sigma, seed=generator)  # (E k, 3)
    turn = np.arange(k)[None, :] * counts[chosen, None] // k  # (E, k)
    parents = members[first[chosen, None] + turn].reshape(-1)  # (E k,) rows of `returns`
    samples = returns[parents] + offsets
    if config.flat:
        _flatten(samples.reshape(-1, k, 3), field.means[chosen], field.axes[chosen, :, 0])

    # 3. Not where there are points already, and not more than asked for.
    kept = np.arange(len(parents))
    if config.sample_voxel:
        kept = _new_voxels(returns, samples, config.sample_voxel)
    if config.max_points is not None:
        kept = kept[_evenly(kept % k, max(0, config.max_points - len(points)))]
    return Samples(samples[kept], rows[parents[kept]], chosen[kept // k])


def _fingerprint(points: np.ndarray) -> int:  # (N, 3)
    """Of the values, whatever type and byte order they come in: of their float32 bytes if these are the same numbers."""
    values = points.astype(np.float64) + 0.0  # -0.0 is 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = values.astype(np.float32)
    lost = np.isnan(values)
    values[lost], narrow[lost] = np.nan, np.nan
    return crc32((narrow if ((narrow == values) | lost).all() else values).tobytes())


def _flatten(samples: np.ndarray, means: np.ndarray, normals: np.ndarray) -> None:  # (E, k, 3), (E, 3), (E, 3)
    """Onto the plane through the ellipsoid's mean, which has less noise than any single return."""
    above = np.einsum("eki,ei->ek", samples - means[:, None, :], normals)
    samples -= above[:, :, None] * normals[:, None, :]


def _group(returns: np.ndarray, voxel: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Means of the voxels (E, 3); rows of returns (R,), those of a voxel together; where each voxel's begin (E,), how many (E,)."""
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
    return estimate(centers, model=config.model, up=UP if config.upright else None, warn=False)


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
    """The first sample of every voxel that holds no return."""
    together = np.concatenate([returns, samples])
    check_reach(together, size)
    _, first = voxel_numbers(together, size)
    return first[first >= len(returns)] - len(returns)


def _evenly(turn: np.ndarray, budget: int) -> np.ndarray:  # (S,) which sample of its ellipsoid each is -> (K,) rows, ascending
    """At most `budget` rows: all first samples of ellipsoids before any second; of the turn that does not fit, one in so many."""
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
