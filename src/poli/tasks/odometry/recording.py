"""The files that a run of odometry writes.

    config.json      at the start: the input and the options
    poses_tum.txt    one line per scan: stamp x y z qx qy qz qw, T_world_scan; world is the frame of the first scan
    poses_kitti.txt  the same as 3x4 matrices, row by row
    steps.csv        one line per scan: status and timing
    summary.json     at the end, even if the run fails or is interrupted
    truth_tum.txt, truth_kitti.txt   at the end, if ground truth is known: for the same scans, in the frame of the first

Each line is a single write, made right after its scan. If the run is killed, the lines of all finished scans are there.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from datetime import datetime
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from poli.data.trajectory_files import TrajectoryWriter
from poli.errors import FormatError
from poli.files.failures import writing
from poli.files.locks import sole_user
from poli.files.tables import write_json
from poli.files.temporary import remove_stale, temporary_folder
from poli.se3 import inverse
from poli.tasks.odometry.step import STAGES, Step
from poli.tasks.odometry.summary import Summary, total_seconds

LATEST = "latest"
STAMP_RULE = "nanoseconds; in poses_tum.txt, a scan without a stamp is placed 0.1 s after the previous one, and the first at 0 s"
_STAMP_STEP = 10**8  # nanoseconds: the period of a 10 Hz sensor
_COLUMNS = (
    "index", "scan", "stamp", "status", "note", "points", "fit", "overlap", "residual", "iterations", "converged",
    *(f"{stage}_seconds" for stage in STAGES), "total_seconds",
)  # fmt: skip


class Recording:
    """Writes a run to `folder`, which must be new or empty. Call `append` for every step, then `finish`."""

    def __init__(self, folder: Path, about: Mapping[str, Any], first: int = 0) -> None:
        """`about` is written to config.json; `first` is the number of the first scan in the data."""
        self.folder, self.first = folder, first
        self.steps: list[Step] = []
        self._stamps: list[int] = []  # as they were written
        with writing(folder), ExitStack() as opened:
            self._begin(opened, {**about, "stamps": STAMP_RULE})
            self._opened = opened.pop_all()

    def _begin(self, opened: ExitStack, about: Mapping[str, Any]) -> None:
        folder = self.folder
        if folder.is_dir():
            remove_stale(folder)  # left by a run that was killed before it wrote anything
        taken = f"{folder}: already exists; give another folder, or remove it first"
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise FormatError(taken)
        folder.mkdir(parents=True, exist_ok=True)
        opened.enter_context(sole_user(folder, taken))
        # These first: each fails if another run that started at the same time has created it.
        self._tum = opened.enter_context(TrajectoryWriter(folder / "poses_tum.txt", "tum"))
        self._kitti = opened.enter_context(TrajectoryWriter(folder / "poses_kitti.txt", "kitti"))
        self._csv = opened.enter_context(FileIO(folder / "steps.csv", "x"))
        write_json(folder / "config.json", about)
        self._write_row(_COLUMNS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._opened.close()

    def append(self, step: Step) -> None:
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
        self._write_row((*known, *aligned, *seconds, f"{total_seconds(step):.6f}"))
        self.steps.append(step)
        self._stamps.append(stamp)

    def finish(self, summary: Summary, truth: np.ndarray | None) -> None:  # (M, 4, 4) T_world_sensor, M >= the number of steps
        write_json(self.folder / "summary.json", summary.as_json())
        if truth is None or not self.steps:
            return
        # In the frame of the first scan, like the estimate, so that the two can be compared directly.
        T_first_world = inverse(truth[0])
        with (
            TrajectoryWriter(self.folder / "truth_tum.txt", "tum") as tum,
            TrajectoryWriter(self.folder / "truth_kitti.txt", "kitti") as kitti,
        ):
            for stamp, T in zip(self._stamps, truth, strict=False):
                tum.append(T_first_world @ T, stamp)
                kitti.append(T_first_world @ T)

    def _write_row(self, row: tuple[Any, ...]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(row)
        line = text.getvalue().encode(errors="backslashreplace")  # names in notes may not be UTF-8
        with writing(self.folder / "steps.csv"):
            if self._csv.write(line) != len(line):
                raise OSError("only part of a line could be written")


def dated_folder(parent: Path) -> Path:
    """Create a folder named by date and time."""
    name = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    with writing(parent):
        parent.mkdir(parents=True, exist_ok=True)
        for earlier in parent.iterdir():
            if earlier.is_dir() and not earlier.is_symlink():
                remove_stale(earlier)
        for number in range(1, 1000):  # runs that start in the same second
            folder = parent / (name if number == 1 else f"{name}_{number}")
            with suppress(FileExistsError):
                folder.mkdir()
                return folder
    raise FormatError(f"{parent}: has a thousand runs of the same second; give another folder")


def link_latest(folder: Path) -> None:
    """Point the link `latest`, next to `folder`, to it. Do nothing if links are not supported or `latest` is not a link."""
    with suppress(OSError, NotImplementedError), temporary_folder(folder.parent) as private:
        link = private / LATEST
        link.symlink_to(folder.name, target_is_directory=True)
        if folder.with_name(LATEST).is_symlink() or not folder.with_name(LATEST).exists():
            os.replace(link, folder.with_name(LATEST))


def read_steps(folder: Path) -> list[dict[str, str]]:
    """Return the rows of steps.csv, without an incomplete last line."""
    path = folder / "steps.csv"
    try:
        text = path.read_text(encoding="utf-8")
        rows = list(csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1], newline="")))
    except (OSError, ValueError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else None
        raise FormatError(f"{path}: cannot be read: {why or str(error)[:120]}") from None
    if rows and not set(_COLUMNS) <= set(rows[0]):
        raise FormatError(f"{path}: not written by `poli odometry`")
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise FormatError(f"{path}: line {number} does not have the same number of columns as the first")
        try:
            _check_numbers(row)
        except ValueError as error:
            raise FormatError(f"{path}: line {number}: {str(error)[:120]}; the file is damaged") from None
    return rows


def _check_numbers(row: dict[str, str]) -> None:
    if not 0 <= int(row["scan"]) < 1 << 53:
        raise ValueError(f"{row['scan']} is not a valid scan number")
    for name, text in row.items():
        if (name == "fit" or name.endswith("seconds")) and text and not math.isfinite(float(text)):
            raise ValueError(f"{name} is {text}")
