"""The output folder of an odometry run.

    config.json      at the start: the input and the options
    poses_tum.txt    one line per scan: stamp x y z qx qy qz qw, T_world_scan; world is the frame of the first scan
    poses_kitti.txt  the same as 3x4 matrices, row by row
    steps.csv        one line per scan: status and timing
    summary.json     at the end, even if the run fails or is interrupted: status of the scans, timing, errors against ground truth,
                     and the map of the drive, if one was written
    truth_tum.txt, truth_kitti.txt   at the end, if ground truth is known: for the same scans, in the frame of the first

The folder is created after the first scan: a run that fails before leaves nothing behind. Each line is a single write, made right
after its scan. If the run is killed, the lines of all finished scans are there.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from io import FileIO
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from poli.errors import FormatError, PoliError
from poli.io.atomic import remove_stale, sole_user, temporary_folder, writing
from poli.io.tables import read_json, write_json
from poli.io.trajectory_files import TrajectoryWriter
from poli.lidar_odometry.drive_map import MapFile
from poli.lidar_odometry.odometer import Odometer
from poli.lidar_odometry.step import STAGES, Status, Step
from poli.lidar_odometry.trajectory_errors import PoseErrors, absolute_errors, path_lengths, relative_errors, segment_errors
from poli.se3 import inverse

LATEST = "latest"
_CONFIG, _SUMMARY, _STEPS, _MAP = "config.json", "summary.json", "steps.csv", "map.ply"
_POSES, _TRUTH = ("poses_tum.txt", "poses_kitti.txt"), ("truth_tum.txt", "truth_kitti.txt")
_PICTURE = "trajectory.png"
_STAMP_RULE = "nanoseconds; in poses_tum.txt, a scan without a stamp is placed 0.1 s after the previous one, and the first at 0 s"
_STAMP_STEP = 10**8  # nanoseconds: the period of a 10 Hz sensor
_COLUMNS = (
    "index", "scan", "stamp", "status", "note", "points", "fit", "overlap", "residual", "iterations", "converged",
    *(f"{stage}_seconds" for stage in STAGES), "total_seconds",
)  # fmt: skip


def check_free(folder: Path, overwrite: bool) -> None:
    """Raise if a run cannot be written to `folder`: it must be missing or empty, or with `overwrite` hold an earlier run."""
    if folder.is_dir():
        remove_stale(folder)  # left by a run that was killed before it wrote anything
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not folder.is_dir() or not is_run(folder):
        raise FormatError(f"{folder}: already exists and was not written by `poli odometry`; give another folder")
    if not overwrite:
        raise FormatError(f"{folder}: already exists; give another folder, or pass overwrite=True to replace the run in it")


def is_run(folder: Path) -> bool:
    """Whether the folder holds a run of odometry."""
    try:
        about = read_json(folder / _CONFIG)
    except (OSError, FormatError):
        return False
    return isinstance(about, dict) and {"poli", "data", "odometry"} <= set(about)


def remove_run(folder: Path) -> None:
    """Remove the files of a run. Other files in the folder stay."""
    own_map, _ = map_of_run(folder)
    if own_map and own_map.parent == folder:
        own_map.unlink()
    for name in (*_POSES, _STEPS, _SUMMARY, *_TRUTH, _PICTURE, _CONFIG):  # the last one marks the folder as a run
        (folder / name).unlink(missing_ok=True)


def map_of_run(folder: Path) -> tuple[Path | None, str]:
    """The map that summary.json names, or map.ply in the folder. If it is gone or another run has overwritten it: None, and a
    sentence that says so."""
    try:
        summary = read_json(folder / _SUMMARY)
    except (FormatError, FileNotFoundError):
        summary = None
    recorded = summary.get("map") if isinstance(summary, dict) else None
    if not isinstance(recorded, dict):
        return (folder / _MAP if (folder / _MAP).exists() else None), ""
    path = recorded.get("path")
    with suppress(OSError, ValueError):  # a damaged summary may hold any path
        found = folder / path if isinstance(path, str) else folder  # absolute paths replace the folder
        if found.is_file() and found.stat().st_size == recorded.get("bytes"):
            return found, ""
    return None, f"{folder}: its map, {path!s:.200}, was removed or overwritten"


def dated_folder(parent: Path) -> Path:
    """Create a folder named by date and time."""
    name = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    with writing(parent):
        parent.mkdir(parents=True, exist_ok=True)
        for number in count(1):  # runs that start in the same second
            folder = parent / (name if number == 1 else f"{name}_{number}")
            with suppress(FileExistsError):
                folder.mkdir()
                return folder
    raise AssertionError("unreachable")


def link_latest(folder: Path) -> None:
    """Point the link `latest`, next to `folder`, to it. Do nothing if links are not supported or `latest` is not a link."""
    latest = folder.with_name(LATEST)
    with suppress(OSError, NotImplementedError), temporary_folder(folder.parent) as private:
        (private / LATEST).symlink_to(folder.name, target_is_directory=True)
        if latest.is_symlink() or not latest.exists():
            os.replace(private / LATEST, latest)


class Recording(ExitStack):
    """Writes a run. Call `append` for every step, then `finish`. Closing it removes a run without steps."""

    def __init__(
        self, folder: Path, about: Mapping[str, Any], first: int = 0, *, dated: bool = False, overwrite: bool = False
    ) -> None:
        """`folder` must be missing or empty, or hold a run that may be overwritten. `dated`: the run is in a folder in it, named by
        the time of the first step and linked as `latest`. `about` is written to config.json; `first` is the number of the first
        scan in the data."""
        super().__init__()
        self.folder, self.first = folder, first
        self.steps: list[Step] = []
        self._dated, self._about, self._overwrite = dated, {**about, "stamps": _STAMP_RULE}, overwrite
        self._stamps: list[int] = []  # as they were written
        if not dated:
            with writing(folder):
                check_free(folder, overwrite)

    def _begin(self) -> None:
        if self._dated:
            self.folder = dated_folder(self.folder)
        folder = self.folder
        with writing(folder), ExitStack() as opened:
            made = self._dated or not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            opened.enter_context(sole_user(folder, f"{folder}: another run is writing to it; give another folder"))
            check_free(folder, self._overwrite)
            if self._overwrite:
                remove_run(folder)
            opened.callback(self._remove_if_nothing, folder, made)
            write_json(folder / _CONFIG, self._about)
            self._tum = opened.enter_context(TrajectoryWriter(folder / _POSES[0], "tum"))
            self._kitti = opened.enter_context(TrajectoryWriter(folder / _POSES[1], "kitti"))
            self._csv = opened.enter_context(FileIO(folder / _STEPS, "x"))
            self._write_row(_COLUMNS)
            self.enter_context(opened.pop_all())

    def _remove_if_nothing(self, folder: Path, made: bool) -> None:
        """Remove a run without a single step: the disk was full, for example."""
        if not self.steps:
            with suppress(OSError):
                remove_run(folder)
                if made:
                    folder.rmdir()

    def append(self, step: Step) -> None:
        """Write the lines of a step."""
        if not self.steps:
            self._begin()
        stamp = step.stamp
        if stamp is None:
            stamp = self._stamps[-1] + _STAMP_STEP if self._stamps else 0
        self._tum.append(step.T_world_scan, stamp)
        self._kitti.append(step.T_world_scan)
        found = step.alignment
        aligned: tuple[str, ...] = ("",) * 5
        if found is not None:
            numbers = (f"{number:.6g}" for number in (found.fit, found.overlap, found.residual))
            aligned = (*numbers, str(found.iterations), str(found.converged).lower())
        seconds = [f"{step.seconds[stage]:.6f}" if stage in step.seconds else "" for stage in STAGES]
        number = self.first + step.index
        known = (step.index, number, "" if step.stamp is None else step.stamp, step.status.value, step.note, step.points)
        self._write_row((*known, *aligned, *seconds, f"{step.total_seconds:.6f}"))
        self.steps.append(step)
        self._stamps.append(stamp)
        if len(self.steps) == 1 and self._dated:
            link_latest(self.folder)

    def finish(
        self,
        summary: Mapping[str, Any],  # of `summarize`
        truth: np.ndarray | None,  # (M, 4, 4) T_world_sensor, M >= the number of steps
        written: MapFile | None = None,
    ) -> None:
        """Write the summary and the truth; nothing if there are no steps."""
        if not self.steps:
            return
        described = {} if written is None else {"map": self._describe(written)}
        write_json(self.folder / _SUMMARY, {**summary, **described})
        if truth is None:
            return
        # In the frame of the first scan, like the estimate, so that the two can be compared directly.
        T_first_world = inverse(truth[0])
        with (
            TrajectoryWriter(self.folder / _TRUTH[0], "tum") as tum,
            TrajectoryWriter(self.folder / _TRUTH[1], "kitti") as kitti,
        ):
            for stamp, T in zip(self._stamps, truth, strict=False):
                tum.append(T_first_world @ T, stamp)
                kitti.append(T_first_world @ T)

    def _describe(self, written: MapFile) -> dict[str, Any]:
        """The map in summary.json, so that a viewer finds it; its path is relative if it is in the folder of the run."""
        path = written.path.resolve()
        inside = path.parent == self.folder.resolve()
        about = {"path": path.name if inside else str(path), "kind": written.kind, "voxel": written.voxel, "count": written.count}
        return {**about, "bytes": path.stat().st_size}

    def _write_row(self, row: tuple[Any, ...]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(row)
        line = text.getvalue().encode(errors="backslashreplace")  # names in notes may not be UTF-8
        with writing(self.folder / _STEPS):
            if self._csv.write(line) != len(line):
                raise OSError("only part of a line could be written")


def read_steps(folder: Path) -> list[dict[str, str]]:
    """Return the rows of steps.csv, without an incomplete last line."""
    path = folder / _STEPS
    try:
        text = path.read_text(encoding="utf-8")
        rows = list(csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1], newline="")))
        for number, row in enumerate(rows, 2):
            if not set(_COLUMNS) <= set(row) or None in row or None in row.values():
                raise ValueError(f"line {number} has other columns")
            seconds = [float(row[name] or 0.0) for name in _COLUMNS if name == "fit" or name.endswith("seconds")]
            if not 0 <= int(row["scan"]) < 1 << 53 or not all(map(math.isfinite, seconds)):
                raise ValueError(f"line {number} has invalid numbers")
    except (OSError, ValueError, csv.Error) as error:
        raise FormatError(f"{path}: not written by `poli odometry`, or damaged: {str(error)[:120]}") from None
    return rows


# --- The summary.


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
    seconds["total"] = [step.total_seconds for step in steps]
    return {
        "scans_asked": scans_asked,
        "scans_done": len(steps),
        "interrupted": interrupted,
        "reason": reason,
        "statuses": dict(Counter(step.status.value for step in steps)),
        "not_tracked": [  # index: row of the pose files; scan: number in the data
            {"index": s.index, "scan": first + s.index, "stamp": s.stamp, "status": s.status.value, "note": s.note}
            for s in steps
            if s.status not in (Status.FIRST, Status.TRACKED)
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
