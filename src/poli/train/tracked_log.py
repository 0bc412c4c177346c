"""Training pairs from recordings, with poses and covariances from odometry, and surveys merged from the scans around a scan.

A simulated scan has a survey of its spot, dense and exact, as its partner while shapes are trained. The next best thing is what a
moving sensor saw of a spot before and after it: many sweeps from slightly different positions, each with its pose error and noise.
It is the only way to learn directions from real scans: the next sweep alone is as sparse as the scan, and directions that learn
from it blur.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from poli.configs import LEAST_PAIRS
from poli.errors import InputError
from poli.io.datasets import Dataset, dataset
from poli.lidar_odometry import Odometer, OdometryConfig, Step, deskew
from poli.options import real_array
from poli.scan import Scan
from poli.se3 import adjoint, inverse
from poli.train.config import ScanConfig
from poli.voxels import voxel_downsample, voxel_numbers
from poli.worlds.scan_pairs import ScanPair

Rows: TypeAlias = tuple[int, int]  # of Q and P
_FARTHEST_ON = 5  # maximum number of scans from one to its partner
_LEAST_POINTS = 64  # of a scan used for training
_STANDING = 0.02  # meters between scans: a standing sensor hits the same spots again, and all surfaces seem thin
_HELD_OUT = 0.2  # the last fraction of the pairs
# Errors that the covariances of odometry do not include (motion within a scan, beam timing): one sigma per axis.
_ROTATION_FLOOR = math.radians(0.02)
_TRANSLATION_FLOOR = 0.003  # meters
_LEAST_SCANS = 4  # of a survey; fewer are hardly denser than the scan itself
_LEAST_SURVEY = 500  # of a survey
_SEEN_FOR = 1 / 3  # of the survey's scans, from the first to the last that saw a place: what moves is there for less
_PLACE = 2.0  # edge of such a place, in voxels of the survey
_CLOSER = 0.5  # edge over which the points of a survey are averaged, in voxels of the survey


@dataclass(frozen=True, eq=False)
class TrackedLog:
    """Scans in their own frames, with the results of odometry."""

    name: str
    scans: Sequence[Scan]  # M scans, read on demand
    poses: np.ndarray  # (M, 4, 4) T_world_scan
    covariances: np.ndarray  # (M, 6, 6) of the tangents (rotation, translation) of T_world_scan Exp(xi)
    trusted: np.ndarray  # (M,) bool

    @staticmethod
    def of(name: str, scans: Sequence[Scan], steps: Sequence[Step]) -> TrackedLog:
        """Return the log of scans whose odometry has taken these steps."""
        # The first scan defines the world frame, so its covariance is zero. Covariances of untrusted scans are not used.
        covariances = [
            step.alignment.covariance if step.trusted and step.alignment is not None else np.zeros((6, 6)) for step in steps
        ]
        poses = np.array([step.T_world_scan for step in steps]).reshape(-1, 4, 4)
        return TrackedLog(
            name, scans, poses, np.array(covariances).reshape(-1, 6, 6), np.array([step.trusted for step in steps], bool)
        )

    def __post_init__(self) -> None:
        count = len(self.scans)
        for name, shape in (("poses", (count, 4, 4)), ("covariances", (count, 6, 6)), ("trusted", (count,))):
            values = np.asarray(getattr(self, name), bool) if name == "trusted" else real_array(getattr(self, name), name)
            if values.shape != shape:
                raise InputError(f"{self.name}: {name} have shape {values.shape}; {count} scans need {shape}")
            if not np.isfinite(values).all():
                raise InputError(f"{self.name}: {name} have a non-finite entry; mark such scans as not trusted and give zeros")
            object.__setattr__(self, name, values)

    @property
    def steps(self) -> np.ndarray:  # (K,)
        """Rows of the trusted scans whose next scan is trusted, and between which the sensor moved."""
        return np.flatnonzero(self.trusted[:-1] & self.trusted[1:] & (self._moves >= _STANDING))

    @property
    def meters(self) -> float:
        """Distance driven in those steps."""
        return float(self._moves[self.steps].sum())

    @property
    def _moves(self) -> np.ndarray:  # (M - 1,)
        return np.linalg.norm(np.diff(self.poses[:, :3, 3], axis=0), axis=1)

    def pairs(self, max_scans: int, reach: float) -> tuple[list[ScanPair], list[ScanPair]]:
        """Return training pairs, in both directions, and held-out pairs of consecutive scans of the log's last fifth.

        No scan is in both. At most `max_scans` scans, evenly spaced, start a pair. Their partners are the next scan and those of
        the four after it within `reach` meters: pairs with little motion alone say too little about views from elsewhere.
        """
        learned, held_out = self.rows(max_scans, reach)
        return list(self.read(learned).values()), list(self.read(held_out).values())

    def rows(self, max_scans: int, reach: float) -> tuple[list[Rows], list[Rows]]:
        """Return the rows (q, p) of the pairs that `pairs` reads."""
        steps = self.steps
        if len(steps) < LEAST_PAIRS:
            raise InputError(
                f"{self.name}: odometry trusts {len(steps)} pairs of consecutive scans in motion, of {len(self.scans)} scans; "
                f"{LEAST_PAIRS} are needed: use a longer log, drop returns of the vehicle (--min-range), or try another --voxel"
            )
        steps = steps[np.unique(np.linspace(0, len(steps) - 1, min(max_scans, len(steps))).round().astype(int))]
        count = round(_HELD_OUT * len(steps))
        first = int(steps[-count])
        chosen = [(int(q), p) for q in steps[:-count] for p in self._partners(int(q), reach) if p < first]
        return [both for q, p in chosen for both in ((q, p), (p, q))], [(int(q), int(q) + 1) for q in steps[-count:]]

    def read(self, rows: Sequence[Rows]) -> dict[Rows, ScanPair]:
        """Read pairs of scans, each scan once; those with few points are left out."""
        scans = {row: self.scans[row].clean().keep() for row in dict.fromkeys(row for both in rows for row in both)}
        pairs: dict[Rows, ScanPair] = {}
        for q, p in rows:
            if min(len(scans[q]), len(scans[p])) >= _LEAST_POINTS:
                T_q_p, gamma = relative_pose(self.poses[q], self.poses[p], self.covariances[q], self.covariances[p])
                pairs[q, p] = ScanPair(scans[q], scans[p], T_q_p, covariance=gamma)
        if not pairs:
            raise InputError(f"{self.name}: too few scans have {_LEAST_POINTS} points; check the data and --min-range")
        return pairs

    def _partners(self, q: int, reach: float) -> Iterator[int]:
        for p in range(q + 1, min(q + _FARTHEST_ON, len(self.scans) - 1) + 1):
            if not self.trusted[p]:  # later scans may be in another world frame
                return
            if p == q + 1 or np.linalg.norm(self.poses[p, :3, 3] - self.poses[q, :3, 3]) <= reach:
                yield p


def relative_pose(
    T_world_q: np.ndarray,  # (4, 4)
    T_world_p: np.ndarray,  # (4, 4)
    covariance_q: np.ndarray,  # (6, 6)
    covariance_p: np.ndarray,  # (6, 6)
) -> tuple[np.ndarray, np.ndarray]:  # (4, 4), (6, 6)
    """Return T_q_p and its Gamma; errors of the scans are independent, and at least 0.02 degrees and 3 mm per axis."""
    T_q_p = inverse(T_world_q) @ T_world_p
    moved = adjoint(inverse(T_q_p))  # Exp(-a) T = T Exp(-Ad(T^-1) a)
    gamma = moved @ covariance_q @ moved.T + covariance_p
    gamma = gamma + np.diag([_ROTATION_FLOOR**2] * 3 + [_TRANSLATION_FLOOR**2] * 3)
    return T_q_p, 0.5 * (gamma + gamma.T)


def tracker(config: ScanConfig, show: Callable[[str, int, int], None]) -> Callable[[str], TrackedLog]:
    """Return a function that runs odometry on the dataset at a path; `show` receives its name, the scans done, and their number."""

    def run(path: str) -> TrackedLog:
        opened = dataset("auto", path)

        def counted(rows: range, name: str) -> Iterator[int]:
            for row in rows:
                yield row
                show(name, row + 1, len(rows))

        return track(opened, OdometryConfig(min_range=config.min_range, on_loss="restart"), counted)

    return run


def track(
    opened: Dataset,
    config: OdometryConfig,
    counting: Callable[[range, str], Iterator[int]],
    max_scans: int | None = None,
) -> TrackedLog:
    """Run odometry over a dataset; return the scans and their estimated poses. `counting` iterates and shows progress."""
    odometer = Odometer(config)
    count = len(opened) if max_scans is None else min(len(opened), max_scans)
    for number in counting(range(count), f"odometry of {opened.name}"):
        odometer.add(opened[number])
    scans = _Returns(opened, config.min_range, config.max_range, [step.velocity for step in odometer.steps])
    return TrackedLog.of(opened.name, scans, odometer.steps)


def log_of_poses(path: str, config: ScanConfig) -> TrackedLog:
    """Open a dataset with its own poses, whose errors between two scans are the noise of the configuration."""
    sequence = dataset("auto", path)
    if sequence.poses is None:
        raise InputError(f"{path}: this sequence has no poses; let odometry estimate them: `poli train` with scans.odometry = true")
    each = 0.5 * np.array([math.radians(config.rotation_noise) ** 2] * 3 + [config.translation_noise**2] * 3)
    count = len(sequence)
    scans = _Returns(sequence, config.min_range, math.inf, [None] * count)
    poses = np.asarray(sequence.poses, np.float64)[:count]
    return TrackedLog(sequence.name, scans, poses, np.tile(np.diag(each), (count, 1, 1)), np.ones(count, bool))


class _Returns(Sequence[Scan]):
    """The scans of a dataset, read on access, cropped to a range, and deskewed where a velocity is known."""

    def __init__(self, opened: Dataset, min_range: float, max_range: float, velocities: Sequence[np.ndarray | None]) -> None:
        self._opened, self._min_range, self._max_range, self._velocities = opened, min_range, max_range, velocities

    def __len__(self) -> int:
        return len(self._velocities)

    def __getitem__(self, row):
        scan, velocity = self._opened[row].clean(), self._velocities[row]
        distance = np.linalg.norm(scan.points.astype(np.float64), axis=1)
        scan = scan.select((distance >= self._min_range) & (distance <= self._max_range))
        return scan if velocity is None else deskew(scan, velocity)


def merged_pairs(log: TrackedLog, max_scans: int, reach: float, config: ScanConfig) -> tuple[list[ScanPair], list[ScanPair]]:
    """Return the training and held-out pairs of `TrackedLog.pairs`, with surveys for the training pairs.

    Each scan that starts a pair has one survey, in its pair with the next scan. Surveys do not use scans that are held out.
    """
    rows, held_out_rows = log.rows(max_scans, reach)
    learned, held_out = log.read(rows), log.read(held_out_rows)
    surveys = _Surveys(log, config, end=min(q for q, _ in held_out_rows))
    found: list[ScanPair] = []
    for (q, p), pair in learned.items():
        survey = surveys.around(q) if p == q + 1 else None
        found.append(pair if survey is None else replace(pair, survey=survey[0], T_q_survey=np.eye(4), survey_covariance=survey[1]))
    if not any(pair.survey is not None for pair in found):
        raise InputError(
            f"{log.name}: no scan has {_LEAST_SCANS} trusted scans within {config.survey_reach:g} m of driving to merge; "
            "use a longer log, or a larger scans.survey_reach"
        )
    return found, list(held_out.values())


class _Surveys:
    """Merges scans. Those that the next survey may need are kept, so memory does not grow with the log."""

    def __init__(self, log: TrackedLog, config: ScanConfig, end: int) -> None:
        self._log, self._config, self._end = log, config, end
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
        points = points[lasting(points, numbers, len(parts), _PLACE * self._config.survey_voxel)]
        if len(points) < _LEAST_SURVEY:
            return None
        # The mean of a small voxel is on the surface, and nearer to it than a single return.
        survey = voxel_downsample(points, _CLOSER * self._config.survey_voxel, "mean").points.astype(np.float32)
        # Independent errors of many scans average out; that of Q does not.
        covariances = self._log.covariances
        return survey, relative_pose(np.eye(4), np.eye(4), covariances[q], covariances[rows].mean(axis=0) / len(rows))[1]

    def _rows(self, q: int) -> list[int]:
        """Return the rows to merge, in order: trusted without a gap, within reach, and evenly spaced on the path."""
        first, last = q, q
        near = np.abs(self._driven - self._driven[q]) <= self._config.survey_reach
        usable = near & self._log.trusted
        while first > 0 and usable[first - 1]:
            first -= 1
        while last + 1 < min(self._end, len(usable)) and usable[last + 1]:
            last += 1
        every = np.array([row for row in range(first, last + 1) if row != q], int)
        if not len(every):
            return []
        # By distance, not by number: a standing sensor sees the same spots again and again.
        places = np.linspace(self._driven[every[0]], self._driven[every[-1]], self._config.survey_scans)
        nearest = np.abs(self._driven[every][None] - places[:, None]).argmin(axis=1)
        return [int(row) for row in every[np.unique(nearest)]]

    def _points(self, row: int) -> np.ndarray:  # (N, 3) float64
        if row not in self._kept:
            scan = self._log.scans[row].clean().keep()
            thinned = voxel_downsample(scan, _CLOSER * self._config.survey_voxel, "first") if len(scan) else scan
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
