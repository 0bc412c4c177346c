"""Surveys from recordings: the scans around a scan, merged in its frame, are its partner while shapes are trained.

A simulated scan has a survey of its spot, dense and exact. The next best thing is what a moving sensor saw of a spot before and
after it: many sweeps from slightly different positions, each with its pose error and noise. This is how the paper learns from real
scans, and it is the only way to learn directions from them: the next sweep alone is as sparse as the scan, and directions that
learn from it blur.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from poli.errors import InputError
from poli.io.datasets import Dataset, dataset
from poli.scan import Scan
from poli.se3 import inverse
from poli.train.config import ScanConfig
from poli.train.tracked_log import TrackedLog, relative_pose
from poli.voxels import voxel_downsample, voxel_numbers
from poli.worlds.scan_pairs import ScanPair

_LEAST_SCANS = 4  # of a survey; fewer are hardly denser than the scan itself
_LEAST_POINTS = 500  # of a survey
_SEEN_FOR = 1 / 3  # of the survey's scans, from the first to the last that saw a place: what moves is there for less
_CELL = 2.0  # edge of such a place, in voxels of the survey
_CLOSER = 0.5  # edge over which the points of a survey are averaged, in voxels of the survey


@dataclass(frozen=True)
class Merging:
    """Which scans are merged into a survey."""

    reach: float = 8.0  # meters driven, before and after the scan
    scans: int = 20  # at most
    voxel: float = 0.2  # meters; the survey is used at one point per voxel


def merged_pairs(log: TrackedLog, max_scans: int, reach: float, merging: Merging) -> tuple[list[ScanPair], list[ScanPair]]:
    """Return the training and held-out pairs of `TrackedLog.pairs`, with surveys for the training pairs.

    Each scan that starts a pair has one survey, in its pair with the next scan. Surveys do not use scans that are held out.
    """
    rows, held_out_rows = log.rows(max_scans, reach)
    learned, held_out = log.read(rows), log.read(held_out_rows)
    surveys = _Surveys(log, merging, end=min(q for q, _ in held_out_rows))
    found: list[ScanPair] = []
    for (q, p), pair in learned.items():
        survey = surveys.around(q) if p == q + 1 else None
        found.append(pair if survey is None else replace(pair, survey=survey[0], T_q_survey=np.eye(4), survey_covariance=survey[1]))
    if not any(pair.survey is not None for pair in found):
        raise InputError(
            f"{log.name}: no scan has {_LEAST_SCANS} trusted scans within {merging.reach:g} m of driving to merge into a survey; "
            "use a longer log, or a larger scans.survey_reach"
        )
    return found, list(held_out.values())


class _Surveys:
    """Merges scans. Those that the next survey may need are kept, so memory does not grow with the log."""

    def __init__(self, log: TrackedLog, merging: Merging, end: int) -> None:
        self._log, self._merging, self._end = log, merging, end
        self._driven = np.concatenate([[0.0], np.linalg.norm(np.diff(log.poses[:, :3, 3], axis=0), axis=1).cumsum()])
        self._kept: dict[int, np.ndarray] = {}

    def around(self, q: int) -> tuple[np.ndarray, np.ndarray] | None:  # (S, 3) float32 in the frame of Q, (6, 6)
        """Merge the scans around scan q, without q itself. None: there are too few of them."""
        rows = self._rows(q)
        if len(rows) < _LEAST_SCANS:
            return None
        self._kept = {row: points for row, points in self._kept.items() if row >= rows[0]}
        T_q_world = inverse(self._log.poses[q])
        parts = []
        for row in rows:
            T = T_q_world @ self._log.poses[row]
            parts.append(self._points(row) @ T[:3, :3].T + T[:3, 3])
        points = np.concatenate(parts)
        numbers = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        points = points[lasting(points, numbers, len(parts), _CELL * self._merging.voxel)]
        if len(points) < _LEAST_POINTS:
            return None
        # The mean of a small voxel is on the surface, and nearer to it than a single return.
        survey = voxel_downsample(points, _CLOSER * self._merging.voxel, "mean").points.astype(np.float32)
        # Independent errors of many scans average out; that of Q does not.
        covariances = self._log.covariances
        return survey, relative_pose(np.eye(4), np.eye(4), covariances[q], covariances[rows].mean(axis=0) / len(rows))[1]

    def _rows(self, q: int) -> list[int]:
        """Return the rows to merge, in order: trusted without a gap, within reach, and evenly spaced on the path."""
        first, last = q, q
        near = np.abs(self._driven - self._driven[q]) <= self._merging.reach
        usable = near & self._log.trusted
        while first > 0 and usable[first - 1]:
            first -= 1
        while last + 1 < min(self._end, len(usable)) and usable[last + 1]:
            last += 1
        every = np.array([row for row in range(first, last + 1) if row != q], int)
        if not len(every):
            return []
        # By distance, not by number: a standing sensor sees the same spots again and again.
        places = np.linspace(self._driven[every[0]], self._driven[every[-1]], self._merging.scans)
        nearest = np.abs(self._driven[every][None] - places[:, None]).argmin(axis=1)
        return [int(row) for row in every[np.unique(nearest)]]

    def _points(self, row: int) -> np.ndarray:  # (N, 3) float64
        if row not in self._kept:
            scan = self._log.scans[row].clean().keep()
            thinned = voxel_downsample(scan, _CLOSER * self._merging.voxel, "first") if len(scan) else scan
            self._kept[row] = thinned.points.astype(np.float64)
        return self._kept[row]


def lasting(points: np.ndarray, numbers: np.ndarray, scans: int, cell: float) -> np.ndarray:  # (N, 3), (N,) ascending -> (N,) bool
    """Select the points in places that a third of the scans or more have seen, from the first to the last scan that did.

    A passing car or pedestrian is in one place for less, and noise is in a place once. The places are the cells of two grids,
    shifted by half a cell, so that no surface lies on the boundary of both.
    """
    least = max(1, math.ceil(_SEEN_FOR * scans) - 1)
    found = np.zeros(len(points), bool)
    for shift in (0.0, 0.5 * cell):
        cells, first = voxel_numbers(np.ascontiguousarray(points + shift), cell)
        last = np.empty(len(first), np.int64)
        last[cells] = numbers  # the last point in a cell counts
        found |= (last - numbers[first] >= least)[cells]
    return found


def density_ratio(near: np.ndarray, far: np.ndarray, farthest: float) -> float:  # (N,), (N,)
    """Return how many times denser the survey is than the next sweep, at least one.

    This is the ratio of the median distances from the points of Q to the next sweep (`far`) and to the survey (`near`), over the
    points that have a partner in both.
    """
    both = (near <= farthest) & (far <= farthest)
    if not both.any():
        return 1.0
    return max(1.0, float(np.median(far[both]) / max(np.median(near[both]), 1e-6)))


def log_of_poses(path: str, config: ScanConfig) -> TrackedLog:
    """Open a dataset with its own poses, whose errors between two scans are the noise of the configuration."""
    sequence = dataset("auto", path)
    if sequence.poses is None:
        raise InputError(f"{path}: this sequence has no poses; let odometry estimate them: `poli train` with scans.odometry = true")
    each = 0.5 * np.array([math.radians(config.rotation_noise) ** 2] * 3 + [config.translation_noise**2] * 3)
    count = len(sequence)
    scans = _Scans(sequence, config.min_range)
    poses = np.asarray(sequence.poses, np.float64)[:count]
    return TrackedLog(sequence.name, scans, poses, np.tile(np.diag(each), (count, 1, 1)), np.ones(count, bool))


class _Scans(Sequence[Scan]):
    """The scans of a dataset, read on access."""

    def __init__(self, opened: Dataset, min_range: float) -> None:
        self._opened, self._min_range = opened, min_range

    def __len__(self) -> int:
        return len(self._opened)

    def __getitem__(self, row):
        scan = self._opened[row].clean()
        return scan.select(np.linalg.norm(scan.points.astype(np.float64), axis=1) >= self._min_range)
