"""The ellipsoids of a scan with their returns, samples with their parents, and the limits that hold for all samples."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple
from zlib import crc32

import numpy as np

from poli.configs import DensifyConfig
from poli.ellipsoids import Ellipsoids
from poli.voxels import check_reach, voxel_numbers


class _Grouped(NamedTuple):
    rows: np.ndarray  # (R,) rows of the scan that are returns
    returns: np.ndarray  # (R, 3) float64
    field: Ellipsoids  # E ellipsoids
    members: np.ndarray  # (R,) rows of `returns`, grouped by ellipsoid
    first: np.ndarray  # (E,) start of each group in `members`
    counts: np.ndarray  # (E,) size of each group


class ScanField(_Grouped):
    """The ellipsoids of a scan, and the returns of each."""

    @cached_property
    def of_returns(self) -> np.ndarray:  # (R,) rows of `field`
        """The ellipsoid of each return."""
        found = np.empty(len(self.returns), np.intp)
        found[self.members] = np.repeat(np.arange(len(self.counts)), self.counts)
        return found


class Between(NamedTuple):
    """The second returns of samples between two rings, and how far toward them the samples lie."""

    partners: np.ndarray  # (S,) rows of the scan
    shares: np.ndarray  # (S,) of the way from the parent to the partner, up to a half

    def select(self, rows: np.ndarray) -> Between:
        return Between(self.partners[rows], self.shares[rows])


class Samples(NamedTuple):
    points: np.ndarray  # (S, 3) float64
    parents: np.ndarray  # (S,) rows of the scan
    ellipsoids: np.ndarray  # (S,) rows of the field they were drawn from
    between: Between | None = None  # for samples between two rings

    def select(self, rows: np.ndarray) -> Samples:
        between = None if self.between is None else self.between.select(rows)
        return Samples(self.points[rows], self.parents[rows], self.ellipsoids[rows], between)


def no_samples() -> Samples:
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
    if config.sample_voxel:
        kept = _new_voxels(returns, samples.points, config.sample_voxel)
        samples, turn = samples.select(kept), turn[kept]
    if config.max_points is not None:
        samples = samples.select(evenly(turn, max(0, config.max_points - len(points))))
    return samples


def _new_voxels(returns: np.ndarray, samples: np.ndarray, size: float) -> np.ndarray:  # (K,) rows of `samples`
    """Return the first sample of each voxel without returns."""
    together = np.concatenate([returns, samples])
    check_reach(together, size)
    _, first = voxel_numbers(together, size)
    return first[first >= len(returns)] - len(returns)


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
    """A generator of random numbers that depends on the scan and the seed only, not on the process or the order of scans."""
    return np.random.default_rng([seed, _fingerprint(points)])


def _fingerprint(points: np.ndarray) -> int:  # (N, 3)
    """Return a checksum of the values, independent of type and byte order: of their float32 bytes if float32 holds them exactly."""
    values = points.astype(np.float64) + 0.0  # -0.0 is 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = values.astype(np.float32)
    lost = np.isnan(values)
    values[lost], narrow[lost] = np.nan, np.nan
    return crc32((narrow if ((narrow == values) | lost).all() else values).tobytes())
