"""Summary of an odometry run, as summary.json has it: status of the scans, timing, and errors against ground truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from poli.errors import PoliError
from poli.lidar_odometry.odometer import Odometer
from poli.lidar_odometry.step import STAGES, Status, Step
from poli.lidar_odometry.trajectory_errors import PoseErrors, absolute_errors, path_lengths, relative_errors, segment_errors

SIMPLY_TRACKED = (Status.FIRST, Status.TRACKED)


def summarize(
    steps: Sequence[Step],
    scans_asked: int,
    first: int,  # number of the first scan in the data
    odometer: Odometer,
    truth: np.ndarray | None,  # (M, 4, 4), M >= the number of steps
    elapsed: float,  # seconds from the start of the run to its end, including everything
    interrupted: bool = False,
    reason: str | None = None,  # why the run stopped before the last scan, if it was not interrupted
) -> dict[str, Any]:
    """Summarize a run. Errors are computed for the scans that have a pose."""
    poses = np.stack([step.T_world_scan for step in steps]) if steps else np.empty((0, 4, 4))  # (K, 4, 4)
    seconds = {stage: [step.seconds[stage] for step in steps if stage in step.seconds] for stage in STAGES}
    seconds["total"] = [total_seconds(step) for step in steps]
    return {
        "scans_asked": scans_asked,
        "scans_done": len(steps),
        "interrupted": interrupted,
        "reason": reason,
        "statuses": dict(Counter(step.status.value for step in steps)),
        "not_tracked": [  # index: row of the pose files; scan: number in the data
            {"index": s.index, "scan": first + s.index, "stamp": s.stamp, "status": s.status.value, "note": s.note}
            for s in steps
            if s.status not in SIMPLY_TRACKED
        ],
        "without_stamp": sum(step.stamp is None for step in steps),
        "period": odometer.period,  # seconds between scans: measured, or assumed if they have no stamps
        "deskewing": odometer.deskewing,
        "voxel": odometer.voxel,  # meters, of the last scan; 0 if no scan was processed
        "path_length": float(path_lengths(poses)[-1]) if steps else 0.0,  # meters, of the estimate
        "seconds": {  # per scan, by stage; a stage counts only the scans that reached it
            name: {"median": float(np.median(s)), "percentile_95": float(np.percentile(s, 95))} for name, s in seconds.items() if s
        },
        # From the median, because the first scans may wait for the compiler; without reading files.
        "scans_per_second": 1.0 / max(float(np.median(seconds["total"])), 1e-9) if steps else None,
        "elapsed": elapsed,
        "evaluation": evaluate(poses, truth[: len(poses)]) if truth is not None and len(poses) > 1 else None,
    }


def total_seconds(step: Step) -> float:
    """The time that a scan took."""
    return float(sum(step.seconds.values()))


def evaluate(estimated: np.ndarray, truth: np.ndarray) -> dict[str, dict[str, Any]]:  # (K, 4, 4), (K, 4, 4)
    """Return the usual errors by name. Those that cannot be computed (the path is too short or straight) give the reason."""
    metric, shares = ("m", "deg"), ("%", "deg/100 m")  # units of translation and rotation
    too_short = "the path is shorter than 100 m"
    return {
        "rpe_1_scan": _measure("RPE scan to scan", metric, lambda: relative_errors(estimated, truth)),
        "rpe_100_m": _measure("RPE 100 m", metric, lambda: relative_errors(estimated, truth, 100.0, "meters"), too_short),
        "kitti_segments": _measure("KITTI segments", shares, lambda: segment_errors(estimated, truth), too_short),
        "ape_origin": _measure("APE by first pose", metric, lambda: absolute_errors(estimated, truth, "origin")),
        "ape_umeyama": _measure("APE by Umeyama", metric, lambda: absolute_errors(estimated, truth, "umeyama")),
    }


def _measure(title: str, units: tuple[str, str], errors: Callable[[], PoseErrors], none_because: str = "") -> dict[str, Any]:
    """Each statistic has a `translation` and a `rotation`, or is empty if there are no errors."""
    found = None
    try:
        found = errors()
    except PoliError as error:  # the run is complete and its poses are valid: report the reason instead of raising
        none_because = str(error)
    count = found.count if found else 0
    statistics = {name: getattr(found, name)._asdict() if count else {} for name in ("rmse", "mean", "median", "max")}
    return {"title": title, "units": units, "count": count, **statistics, "none_because": None if count else none_because}
