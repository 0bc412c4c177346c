"""Returns that are missing from continuous surfaces, and returns between two surfaces, along the rings of a scan.

The inverse range of a plane is nearly linear in the column. So a line through three returns on each side of a gap tells whether the
surface goes on behind it, and six returns on each side of a jump tell where the two surfaces would be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.data.beam_rasters import Raster

_LONGEST = 20  # columns; longer gaps are windows and other objects rather than lost returns
_WIDEST = 2.0  # meters, the same
_SIDE = 3  # returns on each side of a gap
_SMOOTH = (0.05, 0.005)  # meters, share of the range: farther from the line, the surface is not continuous
_EDGE_SIDE = 6  # returns on each side of an edge
_STEADY = (0.05, 0.002)  # meters, share of the range: farther from the line, a side of an edge is no surface
_FLAT = 0.1  # of the depth, per column: steeper sides would meet between two columns
_MARGIN = 0.15  # of the depth of an edge: nearer to one of its surfaces, a return is on it
_LEAST_MARGIN = 0.06  # meters
MIXING = (0.3, 1.5)  # meters: depths of the edges at which returns between the surfaces are counted


@dataclass(frozen=True, eq=False)
class Steps:
    """Pairs of neighbors on a ring that lie on one continuous surface."""

    missing: np.ndarray  # (M,) returns between the two
    ranges: np.ndarray  # (M,) meters
    incidence: np.ndarray  # (M,) degrees

    def share(self, which: np.ndarray | slice = slice(None)) -> float:
        """Share of missing returns."""
        missing = self.missing[which]
        return float(missing.sum() / (missing.sum() + len(missing))) if len(missing) >= 100 else float("nan")

    def run_length(self) -> float:
        """Mean number of returns that are missing one after another."""
        return float(self.missing[self.missing > 0].mean()) if (self.missing > 0).any() else float("nan")

    def singles(self) -> float:
        """Share of the gaps that have one missing return only."""
        return float((self.missing[self.missing > 0] == 1).mean()) if (self.missing > 0).any() else float("nan")


@dataclass(frozen=True)
class Edges:
    clean: int  # jumps from one surface to another
    between: int  # the same with one return between the surfaces

    @property
    def share(self) -> float:
        """Share of the edges that have a return between their surfaces."""
        total = self.clean + self.between
        return self.between / total if total else float("nan")


def continuous_steps(scans: Sequence[Raster]) -> Steps:
    parts = [_steps(scan) for scan in scans]
    return Steps(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def depth_edges(scans: Sequence[Raster]) -> Edges:
    """Edges between MIXING[0] and MIXING[1] deep, along rings without gaps."""
    counts = np.sum([_edges(scan) for scan in scans], axis=0)
    return Edges(int(counts[0]), int(counts[1]))


def _steps(scan: Raster) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    w = 1.0 / scan.ranges
    count = len(w) - 2 * _SIDE + 1
    if count < 1:
        return tuple(np.zeros(0) for _ in range(3))  # type: ignore[return-value]
    window = np.arange(count)[:, None] + np.arange(2 * _SIDE)
    left, right = window[:, _SIDE - 1], window[:, _SIDE]
    column = (scan.column[window] - scan.column[left][:, None]).astype(np.float64)
    gaps = np.diff(scan.column)[window[:, :-1]]
    gaps[:, _SIDE - 1] = 1
    good = (scan.ring[window[:, 0]] == scan.ring[window[:, -1]]) & (gaps == 1).all(axis=1)
    missing = scan.column[right] - scan.column[left] - 1
    good &= (missing >= 0) & (missing <= _LONGEST)
    good &= np.linalg.norm(scan.points[right] - scan.points[left], axis=1) < _WIDEST
    window, column, missing, left, right = (a[good] for a in (window, column, missing, left, right))
    x, y = column - column.mean(axis=1, keepdims=True), w[window]
    slope = (x * y).sum(axis=1, keepdims=True) / (x * x).sum(axis=1, keepdims=True)
    off = y - y.mean(axis=1, keepdims=True) - slope * x
    r = scan.ranges[left]
    smooth = (np.abs(off) * r[:, None] ** 2).max(axis=1) < _SMOOTH[0] + _SMOOTH[1] * r
    incidence = incidences(scan)[left]
    smooth &= np.isfinite(incidence)
    return missing[smooth], r[smooth], incidence[smooth]


def _edges(scan: Raster) -> tuple[int, int]:
    w, r = 1.0 / scan.ranges, scan.ranges
    whole = np.append((np.diff(scan.ring) == 0) & (np.diff(scan.column) == 1), False)
    found = []
    for inner in (0, 1):  # returns between the surfaces
        size = 2 * _EDGE_SIDE + inner
        first = np.arange(max(len(w) - size + 1, 0))
        i = first[np.all([whole[first + k] for k in range(size - 1)], axis=0)][:, None] + np.arange(size)
        good = np.ones(len(i), bool)
        ends, steepest = [], np.zeros(len(i))
        for side in (i[:, :_EDGE_SIDE], i[:, : -_EDGE_SIDE - 1 : -1]):  # each from the outside toward the edge
            x = np.arange(_EDGE_SIDE) - 0.5 * (_EDGE_SIDE - 1)
            y = w[side]
            slope = y @ x / (x @ x)
            off = np.abs(y - y.mean(axis=1, keepdims=True) - slope[:, None] * x).max(axis=1)
            good &= off * r[side[:, -1]] ** 2 < _STEADY[0] + _STEADY[1] * r[side[:, -1]]
            steepest = np.maximum(steepest, np.abs(slope) * r[side[:, -1]] ** 2)
            # The surface halfway between the two sides.
            ends.append(1.0 / np.maximum(y.mean(axis=1) + slope * (0.5 * _EDGE_SIDE + 0.5 * inner), 1e-3))
        near, far = np.minimum(*ends), np.maximum(*ends)
        depth = far - near
        good &= (depth > MIXING[0]) & (depth < MIXING[1]) & (steepest < _FLAT * depth)
        if inner:
            margin, middle = np.maximum(_MARGIN * depth, _LEAST_MARGIN), r[i[:, _EDGE_SIDE]]
            good &= (middle > near + margin) & (middle < far - margin)
        found.append(int(good.sum()))
    return found[0], found[1]


def incidences(scan: Raster) -> np.ndarray:  # (N,) degrees
    """Angle between ray and normal, from the neighbors along the ring and the nearest return on a neighboring ring; NaN if
    there are none."""
    points, across = scan.points, scan.across
    along = np.full_like(points, np.nan)
    same = scan.ring[2:] == scan.ring[:-2]
    along[1:-1][same] = (points[2:] - points[:-2])[same]
    width = 1e6
    order = np.argsort(scan.ring * width + across)
    keys = (scan.ring * width + across)[order]
    best, upward = np.full(len(points), np.inf), np.full_like(points, np.nan)
    for side in (-1, 1):
        wanted = (scan.ring + side) * width + across
        at = np.clip(np.searchsorted(keys, wanted), 1, len(keys) - 1)
        at = np.where(np.abs(keys[at - 1] - wanted) < np.abs(keys[at] - wanted), at - 1, at)
        step = points[order[at]] - points
        length = np.linalg.norm(step, axis=1)
        nearer = (np.abs(keys[at] - wanted) < 2.0) & (length < best)
        best, upward = np.where(nearer, length, best), np.where(nearer[:, None], step, upward)
    normal = np.cross(along, upward)
    cosine = np.abs(np.einsum("ni,ni->n", normal, points)) / np.maximum(np.linalg.norm(normal, axis=1) * scan.ranges, 1e-12)
    return np.degrees(np.arccos(np.clip(cosine, 0.0, 1.0)))
