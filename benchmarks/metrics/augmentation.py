"""What systems gain by denser scans: relative pose errors, short and long, by drive and augmentation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.data.drives import RecordedDrive
from benchmarks.metrics.odometry import mean, number
from benchmarks.rivals.odometry_contestants import Outcome
from poli.tasks.trajectories import relative_errors

_LONG, _LONG_REAL = 100, 50  # frames
_FEWEST_PAIRS = 10  # of a long error; on shorter drives it is over four fifths of the scans


@dataclass(frozen=True)
class Gain:
    """The errors of one system on one drive, with scans of one kind."""

    drive: str
    real: bool
    system: str
    augmentation: str
    frames: int  # that the long error is over
    long: float  # metres: RPE over `frames`
    step: float  # metres: RPE from scan to scan
    refined: float  # metres: the same against refined poses; NaN where the poses are the truth

    def flat(self) -> dict[str, Any]:
        known: dict[str, Any] = {"drive": self.drive, "system": self.system, "augmentation": self.augmentation}
        known |= {"frames": self.frames, "rpe_long_m": number(self.long), "rpe_1_m": number(self.step)}
        return known | {"rpe_1_refined_m": number(self.refined)}


def judge_gain(
    drive: RecordedDrive,
    system: str,
    augmentation: str,
    outcome: Outcome,
    reference: np.ndarray | None = None,  # (M, 4, 4): refined poses of a real sequence
) -> Gain:
    frames = long_frames(len(drive), reference is not None)
    return Gain(
        drive.name,
        reference is not None,
        system,
        augmentation,
        frames,
        _rpe(outcome.poses, drive.poses, frames),
        _rpe(outcome.poses, drive.poses, 1),
        math.nan if reference is None else _rpe(outcome.poses, reference, 1),
    )


def long_frames(scans: int, real: bool) -> int:
    wanted = _LONG_REAL if real else _LONG
    return wanted if scans >= wanted + _FEWEST_PAIRS else max(1, 4 * scans // 5)


def mean_of(gains: Sequence[Gain], system: str, augmentation: str, measure: str) -> float:
    """The mean over drives of "long", "step" or "refined"."""
    return mean([getattr(g, measure) for g in gains if (g.system, g.augmentation) == (system, augmentation)])


def change(value: float, before: float) -> float:
    """Percent; below 0 is better."""
    return 100.0 * (value / before - 1.0) if before > 0.0 else math.nan


def _rpe(poses: np.ndarray, truth: np.ndarray, frames: int) -> float:  # (M, 4, 4), (M, 4, 4)
    return relative_errors(poses, truth, frames, pairs="all").rmse.translation
