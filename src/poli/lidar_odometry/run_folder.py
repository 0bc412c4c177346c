"""The output folder of an odometry run: where it is, what belongs to it, and how an old run is removed."""

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

from poli.errors import FormatError, InputError
from poli.io.atomic import remove_stale, sole_user, temporary_folder, writing
from poli.io.tables import read_json, write_json
from poli.io.trajectory_files import TrajectoryWriter
from poli.lidar_odometry.drive_map import MapFile
from poli.lidar_odometry.step import STAGES, Step
from poli.lidar_odometry.summary import Summary, total_seconds
from poli.se3 import inverse

LATEST = "latest"
_CONFIG, _SUMMARY, _MAP = "config.json", "summary.json", "map.ply"
_STARTED = ("poses_tum.txt", "poses_kitti.txt", "steps.csv")  # created before config.json
_FILES = (*_STARTED, _CONFIG, _SUMMARY, "truth_tum.txt", "truth_kitti.txt", "trajectory.png")


def check_free(folder: Path, overwrite: bool) -> None:
    """Raise if a run cannot be written to `folder`: it must be missing or empty, or with `overwrite` hold an earlier run."""
    if folder.is_dir():
        remove_stale(folder)  # left by a run that was killed before it wrote anything
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not folder.is_dir() or not is_run(folder):
        raise FormatError(f"{folder}: already exists and was not written by `poli odometry`; give another folder")
    if not overwrite:
        remedy = "give another folder, or pass {argument} to replace the run in it"
        raise FormatError(f"{folder}: already exists", argument="overwrite", value=True, remedy=remedy)


def is_run(folder: Path) -> bool:
    """Whether the folder holds a run of odometry, or the empty files of one that was killed at its start."""
    try:
        about = read_json(folder / _CONFIG)
    except FileNotFoundError:
        entries = list(folder.iterdir())
        return all(entry.name in _STARTED and entry.is_file() and not entry.stat().st_size for entry in entries)
    except FormatError:
        return False
    return isinstance(about, dict) and {"poli", "data", "odometry"} <= set(about)


def remove_run(folder: Path) -> None:
    """Remove the files of a run. Other files in the folder stay."""
    own_map, _ = map_of_run(folder)
    # config.json last: until then, the folder is recognized as a run.
    names = [name for name in _FILES if name != _CONFIG]
    for path in [
        *(folder / name for name in names),
        *([own_map] if own_map and own_map.parent == folder else []),
        folder / _CONFIG,
    ]:
        path.unlink(missing_ok=True)


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


# --- The files that a run of odometry writes.
#
#     config.json      at the start: the input and the options
#     poses_tum.txt    one line per scan: stamp x y z qx qy qz qw, T_world_scan; world is the frame of the first scan
#     poses_kitti.txt  the same as 3x4 matrices, row by row
#     steps.csv        one line per scan: status and timing
#     summary.json     at the end, even if the run fails or is interrupted; names the map of the drive, if one was written
#     truth_tum.txt, truth_kitti.txt   at the end, if ground truth is known: for the same scans, in the frame of the first
#
# The folder is created after the first scan: a run that fails before leaves nothing behind. Each line is a single write, made
# right
# after its scan. If the run is killed, the lines of all finished scans are there.


STAMP_RULE = "nanoseconds; in poses_tum.txt, a scan without a stamp is placed 0.1 s after the previous one, and the first at 0 s"
_STAMP_STEP = 10**8  # nanoseconds: the period of a 10 Hz sensor
_COLUMNS = (
    "index", "scan", "stamp", "status", "note", "points", "fit", "overlap", "residual", "iterations", "converged",
    *(f"{stage}_seconds" for stage in STAGES), "total_seconds",
)  # fmt: skip


class Recording:
    """Writes a run. Call `append` for every step, then `finish`."""

    def __init__(
        self, folder: Path | None, about: Mapping[str, Any], first: int = 0, *, parent: Path | None = None, overwrite: bool = False
    ) -> None:
        """`folder` must be missing or empty, or hold a run that may be overwritten; None: a dated folder in `parent`, linked as
        `latest`. `about` is written to config.json; `first` is the number of the first scan in the data."""
        if folder is None and parent is None:
            raise InputError("folder and parent are None; pass one of them")
        self.first = first
        self.steps: list[Step] = []
        self._folder, self._parent, self._about, self._overwrite = folder, parent, {**about, "stamps": STAMP_RULE}, overwrite
        self._stamps: list[int] = []  # as they were written
        self._opened: ExitStack | None = None
        if folder is not None:
            with writing(folder):
                check_free(folder, overwrite)

    @property
    def folder(self) -> Path:
        """Where the run is written; known after the first step, unless the folder was given."""
        assert self._folder is not None
        return self._folder

    def _begin(self) -> None:
        dated = self._folder is None
        if self._folder is None:
            assert self._parent is not None
            self._folder = dated_folder(self._parent)
        folder = self._folder
        with writing(folder), ExitStack() as opened:
            made = dated or not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            opened.enter_context(sole_user(folder, f"{folder}: another run is writing to it; give another folder"))
            check_free(folder, self._overwrite)
            if self._overwrite:
                remove_run(folder)
            opened.callback(self._remove_if_nothing, folder, made)
            # These first: each fails if another run that started at the same time has created it.
            self._tum = opened.enter_context(TrajectoryWriter(folder / "poses_tum.txt", "tum"))
            self._kitti = opened.enter_context(TrajectoryWriter(folder / "poses_kitti.txt", "kitti"))
            self._csv = opened.enter_context(FileIO(folder / "steps.csv", "x"))
            write_json(folder / "config.json", self._about)
            self._write_row(_COLUMNS)
            self._opened = opened.pop_all()

    def _remove_if_nothing(self, folder: Path, made: bool) -> None:
        """Remove a run without a single step: the disk was full, for example."""
        if not self.steps:
            with suppress(OSError):
                remove_run(folder)
                if made:
                    folder.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def append(self, step: Step) -> None:
        if self._opened is None:
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
        self._write_row((*known, *aligned, *seconds, f"{total_seconds(step):.6f}"))
        self.steps.append(step)
        self._stamps.append(stamp)
        if len(self.steps) == 1 and self._parent is not None:
            link_latest(self.folder)

    def finish(
        self,
        summary: Summary,
        truth: np.ndarray | None,  # (M, 4, 4) T_world_sensor, M >= the number of steps
        written: MapFile | None = None,
    ) -> None:
        """Write the summary and the truth; nothing if there are no steps."""
        if not self.steps:
            return
        content = summary.as_json()
        if written is not None:
            content["map"] = self._describe(written)
        write_json(self.folder / "summary.json", content)
        if truth is None:
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
        with writing(self.folder / "steps.csv"):
            if self._csv.write(line) != len(line):
                raise OSError("only part of a line could be written")


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
