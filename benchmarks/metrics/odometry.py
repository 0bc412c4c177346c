"""Evaluate trajectories: relative pose errors, drift, time; and choose the best setting of each method."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.data.drives import RecordedDrive
from benchmarks.report import mean
from benchmarks.rivals.odometry_contestants import Contestant, Outcome
from poli.lidar_odometry.trajectory_errors import PoseErrors, path_lengths, relative_errors, segment_errors

DELTAS = (1, 50, 100)  # frames
SEGMENTS = (20.0, 40.0, 60.0, 80.0)  # meters: the drives are too short for KITTI's 100 to 800
_STANDING = 1.0  # meters: shorter paths have no drift


@dataclass(frozen=True)
class Rpe:
    """Relative pose errors of all pairs of scans a given number of frames apart; NaN if there is no pair."""

    meters: float  # root mean square
    degrees: float  # root mean square
    spread: float  # meters: standard deviation of the individual errors
    count: int

    @staticmethod
    def of(errors: PoseErrors) -> Rpe:
        return Rpe(*errors.rmse, errors.std.translation, errors.count)


@dataclass(frozen=True, eq=False)
class Judged:
    drive: str
    place: str
    group: str  # drives that share a setting: all of a sensor
    method: str
    setting: str
    voxel: float  # meters; 0: chosen by the method
    rpe: dict[int, Rpe]  # by frames
    drift: float  # percent of the path, over `drift_frames`
    drift_frames: int
    segments: float  # percent: KITTI's measure on shorter segments
    milliseconds: float  # median per scan; NaN if not measured on an idle machine
    restarts: int
    degenerate: int
    poses: np.ndarray  # (M, 4, 4)

    @property
    def case(self) -> str:
        return case(self.group, self.voxel)

    def flat(self) -> dict[str, Any]:
        known: dict[str, Any] = {name: getattr(self, name) for name in ("drive", "method", "setting")}
        known |= {"voxel_m": self.voxel, "restarts": self.restarts, "degenerate_scans": self.degenerate}
        for frames, rpe in self.rpe.items():
            known |= {f"rpe_{frames}_m": rpe.meters, f"rpe_{frames}_deg": rpe.degrees}
            known |= {f"rpe_{frames}_spread_m": rpe.spread, f"rpe_{frames}_pairs": rpe.count}
        known |= {"drift_percent": self.drift, "drift_frames": self.drift_frames, "segments_percent": self.segments}
        return known | {"milliseconds": self.milliseconds}


def judge(drive: RecordedDrive, contestant: Contestant, outcome: Outcome) -> Judged:
    estimated, truth = outcome.poses, drive.poses
    rpe = {frames: Rpe.of(relative_errors(estimated, truth, frames, pairs="all")) for frames in DELTAS}
    frames = min(DELTAS[-1], len(drive) - 1)
    return Judged(
        drive.name,
        drive.place,
        drive.sensor,
        contestant.method,
        contestant.setting,
        contestant.voxel,
        rpe,
        drift(estimated, truth, frames),
        frames,
        segment_errors(estimated, truth, SEGMENTS, step=1).mean.translation,
        1e3 * float(np.median(outcome.seconds)) if contestant.timed else math.nan,
        outcome.restarts,
        outcome.degenerate,
        estimated,
    )


def far_frames(scans: int) -> int:
    """How many frames the far RPE of a real sequence spans: 100, or half of a sequence of fewer than 200 scans."""
    return DELTAS[-1] if scans >= 2 * DELTAS[-1] else scans // 2


def horizontal_rpe(estimated: np.ndarray, truth: np.ndarray, frames: int) -> float:  # (M, 4, 4) -> meters
    """Root mean square of the relative errors in x and y of the world alone, for true poses whose height is not measured."""
    estimated = truth[0] @ np.linalg.inv(estimated[0]) @ estimated
    wanted, found = (np.linalg.inv(T[:-frames]) @ T[frames:] for T in (truth, estimated))
    off = np.einsum("nij,nj->ni", truth[:-frames, :3, :3], (found - wanted)[:, :3, 3])
    return float(np.sqrt(np.mean(off[:, 0] ** 2 + off[:, 1] ** 2)))


def drift(estimated: np.ndarray, truth: np.ndarray, frames: int) -> float:
    """Error at the end of a stretch of `frames` frames, in percent of its path; mean over all stretches."""
    errors = relative_errors(estimated, truth, frames, pairs="all")
    traveled = path_lengths(truth)
    path = traveled[errors.rows[:, 1]] - traveled[errors.rows[:, 0]]
    moving = path >= _STANDING
    return 100.0 * float(np.mean(errors.translation[moving] / path[moving])) if moving.any() else math.nan


def at_best_settings(all_judged: Iterable[Judged]) -> list[Judged]:
    """For each method, group and voxel size, keep the drives at the setting with the lowest mean RPE per step."""
    by_method: dict[tuple[str, float, str], dict[str, list[Judged]]] = {}
    for judged in all_judged:
        by_method.setdefault((judged.group, judged.voxel, judged.method), {}).setdefault(judged.setting, []).append(judged)
    best = [min(by_setting.values(), key=mean_rpe) for by_setting in by_method.values()]
    return [judged for drives in best for judged in drives]


def mean_rpe(drives: Sequence[Judged], frames: int = 1) -> float:
    return mean([judged.rpe[frames].meters for judged in drives])


def case(group: str, voxel: float) -> str:
    return f"{group}, {voxel:g} m"
