"""The ellipsoids of a scan with their returns, samples with their parents, and the limits that hold for all samples."""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

import numpy as np

from poli.configs import DensifyConfig
from poli.ellipsoids import Ellipsoids
from poli.estimation import estimate
from poli.estimation.estimate import UP
from poli.estimation.ordered_cloud import distinct_count
from poli.voxels import check_reach, voxel_numbers

LEAST = 16  # minimum number of points for the network


class ScanField(NamedTuple):
    """The ellipsoids of a scan, each of one return or more."""

    rows: np.ndarray  # (R,) rows of the scan that are returns
    returns: np.ndarray  # (R, 3) float64
    field: Ellipsoids
    owners: np.ndarray  # (R,) the ellipsoid of each return


def scan_field(points: np.ndarray, config: DensifyConfig) -> ScanField | None:  # (N, 3)
    """Estimate the ellipsoids of a scan, one per voxel. Return None if there are too few."""
    rows, returns = returns_of(points)
    centers, owners = group(returns, config.voxel)
    if len(centers) < LEAST or distinct_count(centers) < LEAST:
        return None
    field = estimate(centers, model=config.model, up=UP if config.upright else None, warn=False)
    return ScanField(rows, returns, field, owners)


def returns_of(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (N, 3) -> (R,) rows, (R, 3) float64
    """The rows that are returns: finite, and not zero."""
    rows = np.flatnonzero(np.isfinite(points).all(axis=1) & points.any(axis=1))
    return rows, points[rows].astype(np.float64)


def group(returns: np.ndarray, voxel: float) -> tuple[np.ndarray, np.ndarray]:  # (R, 3) -> (E, 3), (R,)
    """Return the means of the voxels, and the voxel of each return."""
    if not voxel:
        return returns, np.arange(len(returns))
    check_reach(returns, voxel)
    voxels, _ = voxel_numbers(returns, voxel)
    sums = [np.bincount(voxels, returns[:, axis]) for axis in range(3)]
    return np.stack(sums, axis=1) / np.maximum(np.bincount(voxels), 1)[:, None], voxels


class Samples(NamedTuple):
    """Samples, each with its parent, the return whose fields it gets."""

    points: np.ndarray  # (S, 3) float64
    parents: np.ndarray  # (S,) rows of the scan
    ellipsoids: np.ndarray  # (S,) rows of the field they were drawn from
    # For samples between two rings: the second return, and how far toward it the sample lies, up to a half of the way.
    partners: np.ndarray | None = None  # (S,) rows of the scan
    shares: np.ndarray | None = None  # (S,)

    def select(self, rows: np.ndarray) -> Samples:
        """The samples in these rows."""
        return Samples(*(None if values is None else values[rows] for values in self))  # type: ignore[arg-type]


def no_samples() -> Samples:
    """No samples at all."""
    return Samples(np.zeros((0, 3)), np.zeros(0, np.intp), np.zeros(0, np.intp))


def suitable(field: Ellipsoids, config: DensifyConfig) -> np.ndarray:  # (E,) bool
    """Which ellipsoids are near enough, planar enough and, if samples reach a number of sigmas, thin enough."""
    worth = np.ones(len(field), bool)
    if config.max_range is not None:
        worth &= np.sqrt(np.einsum("ij,ij->i", field.means, field.means)) <= config.max_range
    if config.planarity:
        worth &= field.planarity >= config.planarity
    if config.max_thickness is not None and config.reach is not None:
        worth &= field.scales[:, 0] <= config.max_thickness
    return worth


def thinned_out(
    samples: Samples, turn: np.ndarray, returns: np.ndarray, points: np.ndarray, config: DensifyConfig
) -> Samples:  # (S,), (R, 3), (N, 3)
    """Drop samples where there are already points, and those beyond `max_points`; `turn` says which may be dropped first."""
    if config.sample_voxel:  # keep the first sample of each voxel without returns
        together = np.concatenate([returns, samples.points])
        check_reach(together, config.sample_voxel)
        _, first = voxel_numbers(together, config.sample_voxel)
        kept = first[first >= len(returns)] - len(returns)
        samples, turn = samples.select(kept), turn[kept]
    if config.max_points is not None:
        samples = samples.select(evenly(turn, max(0, config.max_points - len(points))))
    return samples


def evenly(turn: np.ndarray, budget: int) -> np.ndarray:  # (S,) which sample of its ellipsoid each is -> (K,) rows, ascending
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


def scan_generator(points: np.ndarray, seed: int) -> np.random.Generator:  # (N, 3)
    """A generator of random numbers that depends on the scan and the seed only, not on the process or the order of scans.

    Nor does it depend on the type and byte order of the values: float32 bytes count if float32 holds them exactly.
    """
    values = points.astype(np.float64) + 0.0  # -0.0 is 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = values.astype(np.float32)
    lost = np.isnan(values)
    values[lost], narrow[lost] = np.nan, np.nan
    return np.random.default_rng([seed, crc32((narrow if ((narrow == values) | lost).all() else values).tobytes())])
