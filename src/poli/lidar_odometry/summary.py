"""Summary of an odometry run: status of the scans, timing, and errors against ground truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from poli.errors import PoliError
from poli.lidar_odometry.odometer import Odometer
from poli.lidar_odometry.step import STAGES, Status, Step
from poli.lidar_odometry.trajectory_errors import PoseErrors, absolute_errors, path_lengths, relative_errors, segment_errors

SIMPLY_TRACKED = (Status.FIRST, Status.TRACKED)


@dataclass(frozen=True)
class Ending:
    """How a run ended."""

    interrupted: bool = False
    reason: str | None = None  # why it stopped before the last scan, if it was not interrupted


@dataclass(frozen=True)
class Times:
    """Seconds per scan."""

    median: float
    percentile_95: float


@dataclass(frozen=True)
class NotTracked:
    """A scan that was not simply tracked."""

    index: int  # row of the pose files
    scan: int  # number in the data
    stamp: int | None  # nanoseconds
    status: str
    note: str


@dataclass(frozen=True)
class Measure:
    """One kind of error. Each statistic has a `translation` and a `rotation`, or is empty if there are no errors."""

    title: str
    units: tuple[str, str]  # of translation and rotation
    count: int
    rmse: Mapping[str, float]
    mean: Mapping[str, float]
    median: Mapping[str, float]
    max: Mapping[str, float]
    none_because: str | None = None


@dataclass(frozen=True)
class Summary:
    scans_asked: int
    scans_done: int
    interrupted: bool
    reason: str | None  # why the run stopped before the last scan
    statuses: Mapping[str, int]
    not_tracked: tuple[NotTracked, ...]
    without_stamp: int
    period: float  # seconds between scans: measured, or assumed if they have no stamps
    deskewing: str  # how scans were deskewed, or why not
    voxel: float  # meters, of the last scan; 0 if no scan was processed
    path_length: float  # meters, of the estimate
    seconds: Mapping[str, Times]  # by stage and in total; a stage counts only the scans that reached it
    scans_per_second: float | None  # from the median, because the first scans may wait for the compiler; without reading files
    elapsed: float  # seconds from the start of the run to its end, including everything
    evaluation: Mapping[str, Measure] | None  # None if there is no ground truth

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def summarize(
    steps: Sequence[Step],
    scans_asked: int,
    first: int,  # number of the first scan in the data
    odometer: Odometer,
    truth: np.ndarray | None,  # (M, 4, 4), M >= the number of steps
    ending: Ending,
    elapsed: float,
) -> Summary:
    """Summarize a run. Errors are computed for the scans that have a pose."""
    poses = np.stack([step.T_world_scan for step in steps]) if steps else np.empty((0, 4, 4))  # (K, 4, 4)
    totals = [total_seconds(step) for step in steps]
    by_stage = {stage: [step.seconds[stage] for step in steps if stage in step.seconds] for stage in STAGES}
    by_stage["total"] = totals
    return Summary(
        scans_asked=scans_asked,
        scans_done=len(steps),
        interrupted=ending.interrupted,
        reason=ending.reason,
        statuses=dict(Counter(step.status.value for step in steps)),
        not_tracked=tuple(
            NotTracked(step.index, first + step.index, step.stamp, step.status.value, step.note)
            for step in steps
            if step.status not in SIMPLY_TRACKED
        ),
        without_stamp=sum(step.stamp is None for step in steps),
        period=odometer.period,
        deskewing=odometer.deskewing,
        voxel=odometer.voxel,
        path_length=float(path_lengths(poses)[-1]) if len(poses) else 0.0,
        seconds={name: Times(float(np.median(s)), float(np.percentile(s, 95))) for name, s in by_stage.items() if s},
        scans_per_second=1.0 / max(float(np.median(totals)), 1e-9) if totals else None,
        elapsed=elapsed,
        evaluation=evaluate(poses, truth[: len(poses)]) if truth is not None and len(poses) > 1 else None,
    )


def total_seconds(step: Step) -> float:
    return float(sum(step.seconds.values()))


def evaluate(estimated: np.ndarray, truth: np.ndarray) -> dict[str, Measure]:  # (K, 4, 4), (K, 4, 4)
    """Return the usual errors by name. Those that cannot be computed (the path is too short or straight) give the reason."""
    metric, shares = ("m", "deg"), ("%", "deg/100 m")
    too_short = "the path is shorter than 100 m"
    return {
        "rpe_1_scan": _measure("RPE scan to scan", metric, lambda: relative_errors(estimated, truth)),
        "rpe_100_m": _measure("RPE 100 m", metric, lambda: relative_errors(estimated, truth, 100.0, "meters"), too_short),
        "kitti_segments": _measure("KITTI segments", shares, lambda: segment_errors(estimated, truth), too_short),
        "ape_origin": _measure("APE by first pose", metric, lambda: absolute_errors(estimated, truth, "origin")),
        "ape_umeyama": _measure("APE by Umeyama", metric, lambda: absolute_errors(estimated, truth, "umeyama")),
    }


def _measure(title: str, units: tuple[str, str], errors: Callable[[], PoseErrors], none_because: str = "") -> Measure:
    try:
        found = errors()
    except PoliError as error:  # the run is complete and its poses are valid: report the reason instead of raising
        return Measure(title, units, 0, {}, {}, {}, {}, str(error))
    if not found.count:
        return Measure(title, units, 0, {}, {}, {}, {}, none_because)
    rmse, mean, median, largest = (s._asdict() for s in (found.rmse, found.mean, found.median, found.max))
    return Measure(title, units, found.count, rmse, mean, median, largest)
