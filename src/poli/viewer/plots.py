"""Read the output folder of `poli odometry` for viewers, and draw its trajectory and the learning curve of `poli train`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.errors import FormatError, InputError
from poli.io.formats import read
from poli.io.tables import read_json, read_log
from poli.io.trajectory_files import read_kitti
from poli.lidar_odometry.run_folder import map_of_run, read_steps
from poli.lidar_odometry.step import STAGES
from poli.lidar_odometry.trajectory_errors import relative_errors
from poli.scan import Scan
from poli.viewer.chart import Box, Chart, Limits, Panel, equal_limits
from poli.viewer.panel import Track

_FARTHEST = 1e9  # meters, maximum coordinate of a pose
_POSES, _TRUTH, _CONFIG = "poses_kitti.txt", "truth_kitti.txt", "config.json"
_DATA = {"path": str, "dataset": str, "options": dict, "first": int, "name": str}  # what config.json says of the input

# Colorblind-safe palette (Okabe and Ito).
_BLUE, _ORANGE, _GREEN, _BLACK, _GRAY, _PALE = "#0072b2", "#e69f00", "#009e73", "#000000", "#8c8c8c", "#cccccc"
_STATUSES = {"degenerate": _ORANGE, "bridged": "#56b4e9", "predicted": "#d55e00", "restarted": "#cc79a7"}
_PARTS = ("#bbbbbb", _BLUE, _GREEN, _ORANGE)  # of the time of a scan or of a training step

_SIZE = 1680, 840  # pixels
_WAY: Box = (70, 60, 850, 775)
_MIDDLE: Box = (960, 60, 1650, 345)
_TIMES: Box = (960, 490, 1650, 775)
_ROOM = 1.5  # upper limit of the time axis relative to the 95th percentile: the first scans may include compilation
_FEW = 100  # scans; of fewer, each is a dot
_LEAST_EXTENT = 2.0  # meters, so that noise of a stationary sensor does not fill the plot


# --- A run of odometry


@dataclass(frozen=True, eq=False)
class OdometryRun:
    """The contents of an output folder of `poli odometry`."""

    poses: np.ndarray  # (M, 4, 4) T_world_scan
    truth: np.ndarray | None  # (M, 4, 4)
    map: Ellipsoids | Scan | None  # the map of the drive: ellipsoids or points
    data: dict[str, Any]  # the input of the run: name, path, dataset, options, first
    remarks: tuple[str, ...] = ()  # what is missing, and why

    @property
    def tracks(self) -> tuple[Track, ...]:
        """The estimated path, and the true one if it is known."""
        tracks = (Track(self.poses[:, :3, 3], "estimate"),)
        return tracks if self.truth is None else (*tracks, Track(self.truth[:, :3, 3], "truth"))


def is_odometry_run(folder: Path) -> bool:
    """Whether a folder looks like the output of `poli odometry`."""
    return (folder / _POSES).is_file() and (folder / _CONFIG).is_file()


def read_odometry_run(folder: Path) -> OdometryRun:
    """Read a folder. Raises FormatError with the name of a damaged file."""
    poses = _read_poses(folder / _POSES)  # (M, 4, 4)
    if not len(poses):
        raise InputError(f"{folder}: no poses to show; the run ended before its first scan was processed")
    truth = _read_poses(folder / _TRUTH) if (folder / _TRUTH).is_file() else None
    config = read_json(folder / _CONFIG)
    data: Any = config.get("data") if isinstance(config, dict) else None
    good = isinstance(data, dict) and all(type(data.get(key)) is kind for key, kind in _DATA.items())
    good = good and 0 <= data["first"] < 1 << 53 and "\0" not in data["path"]
    if not good or not all(isinstance(value, bool | int | float | str) for value in data["options"].values()):
        raise FormatError(f"{folder / _CONFIG}: not written by `poli odometry`: 'data' is missing, incomplete or damaged")
    where, missing = map_of_run(folder)
    found: Ellipsoids | Scan | None = None
    if where is not None and where.is_file():
        scan = read(where, "ply")
        found = Ellipsoids.load(where) if "cov_xx" in scan.fields else scan.clean()
    return OdometryRun(poses, truth, found if found is not None and len(found) else None, data, (missing,) if missing else ())


def _read_poses(path: Path) -> np.ndarray:  # (M, 4, 4)
    poses = read_kitti(path, complete=False)
    far = np.flatnonzero(np.abs(poses[:, :3, 3]).max(axis=1, initial=0.0) > _FARTHEST)
    if len(far):
        raise FormatError(f"{path}: pose {far[0]} is {np.abs(poses[far[0], :3, 3]).max():.3g} m away; the file is damaged")
    return poses


def draw_trajectory(run: Path) -> Path:
    """Write `trajectory.png` to the run's folder: path from above, errors per step (without truth, the fit), and times."""
    steps, poses = read_steps(run), read_kitti(run / _POSES, complete=False)  # (K, 4, 4)
    truth = read_kitti(run / _TRUTH, complete=False) if (run / _TRUTH).is_file() else None  # (K, 4, 4)
    count = min(len(steps), len(poses))  # a killed run may have one more pose
    if not count:
        raise InputError(f"{run}: no poses to draw; the run ended before its first scan was processed")
    steps, poses = steps[:count], poses[:count]
    truth = truth[:count] if truth is not None and len(truth) >= count else None
    chart = Chart(*_SIZE)
    _draw_way(chart, poses, truth, [row["status"] for row in steps])
    _draw_fit(chart, poses, truth, steps)
    _draw_times(chart, steps)
    chart.save(run / "trajectory.png")
    return run / "trajectory.png"


def _draw_way(chart: Chart, poses: np.ndarray, truth: np.ndarray | None, statuses: list[str]) -> None:
    way = poses[:, :2, 3]
    length = float(np.linalg.norm(np.diff(poses[:, :3, 3], axis=0), axis=1).sum())
    everything = way if truth is None else np.concatenate([way, truth[:, :2, 3]])
    title = f"from above, in meters: {len(poses)} scans, {length:.1f} m"
    panel = Panel(chart, _WAY, title, "x (frame of the first scan); y is up", *equal_limits(everything, _WAY, _LEAST_EXTENT))
    if truth is not None:
        panel.line(truth[:, :2, 3], _GRAY, 5.0, "truth")
    _draw_dotted(panel, way, "estimate")
    panel.dots(way[:1], _BLACK, 6.0, "start")
    for status, color in _STATUSES.items():
        rows = [i for i, found in enumerate(statuses) if found == status]
        if rows:
            panel.dots(way[rows], color, label=f"{status}: {len(rows)}")
    panel.finish()


def _draw_fit(chart: Chart, poses: np.ndarray, truth: np.ndarray | None, steps: list[dict[str, str]]) -> None:
    numbers = np.array([int(row["scan"]) for row in steps])
    if truth is not None and len(poses) > 1:
        errors = relative_errors(poses, truth)
        values = np.append(np.nan, 100.0 * errors.translation)
        title, most = "relative pose error per step, in cm", 1.1 * max(float(np.nanmax(values)), 1e-3)
    else:
        values = np.array([100.0 * float(row["fit"]) if row["fit"] else np.nan for row in steps])
        title, most = "points on surfaces of the map, in %", 105.0
    panel = Panel(chart, _MIDDLE, title, "scan", _around(numbers), (0.0, most))
    _draw_statuses(panel, steps, numbers)
    _draw_dotted(panel, np.column_stack([numbers, values]))
    if truth is not None and len(poses) > 1:
        rmse = 100.0 * errors.rmse.translation
        panel.across(rmse, _BLACK, f"RMSE {rmse:.1f} cm")
    panel.finish()


def _draw_times(chart: Chart, steps: list[dict[str, str]]) -> None:
    numbers = np.array([int(row["scan"]) for row in steps])
    seconds = np.array([[float(row[f"{stage}_seconds"] or 0.0) for stage in STAGES] for row in steps])  # (K, stages)
    total = 1e3 * seconds.sum(axis=1)
    usual, median = float(np.percentile(total, 95)), float(np.median(total))
    # In a short run, compilation dominates the first scans.
    shown = min(2.0 * _ROOM * median if usual > 3.0 * median else max(_ROOM * usual, 1.0), 1.15 * float(total.max()) + 1e-3)
    cut = int((total > shown).sum())
    said = f"; {cut} above, up to {total.max():.0f} ms" if cut else ""
    title = f"time in ms: median {median:.0f}{said}"
    panel = Panel(chart, _TIMES, title, "scan", _around(numbers), (0.0, shown))
    edges = np.append(numbers, numbers[-1] + 1) - 0.5
    tops = np.cumsum(1e3 * seconds, axis=1)
    for i, (stage, color) in enumerate(zip(STAGES, _PARTS, strict=True)):
        panel.area(tops[:, i], tops[:, i - 1] if i else np.zeros(len(steps)), edges, color, stage)
    _draw_statuses(panel, steps, numbers)
    panel.finish()


def _draw_dotted(panel: Panel, points: np.ndarray, label: str = "") -> None:  # (K, 2)
    panel.line(points, _BLUE, 1.6, label)
    if len(points) < _FEW:
        panel.dots(points, _BLUE, 3.0)


def _draw_statuses(panel: Panel, steps: list[dict[str, str]], numbers: np.ndarray) -> None:
    for row, number in zip(steps, numbers, strict=True):
        if row["status"] in _STATUSES:
            panel.upright(float(number), _STATUSES[row["status"]])


def _around(numbers: np.ndarray) -> Limits:
    return float(numbers[0]) - 0.5, float(numbers[-1]) + 0.5


# --- A run of training


def draw_curve(run: Path) -> Path:
    """Write `curve.png` to the run's folder: likelihood terms, calibration, certificates, normals, and the time of each part."""
    log, held_out = _columns(run / "log.csv"), _columns(run / "validation.csv")
    parts = [name for name in log if name.endswith("_ms")]
    smooth = {name: _smooth(log[name]) for name in ("correspondence", "pose", "nees")}
    empty = np.full(len(held_out.get("step", ())), np.nan)
    # Title, limits of y, and lines: of which log, the values, the color, and the label.
    panels: list[tuple[str, Limits | None, list[tuple[dict[str, np.ndarray], np.ndarray, str, str]]]] = [
        (f"{name} likelihood per match", None, [(log, log[name], _PALE, ""), (log, smooth[name], _BLUE, "")])
        for name in ("correspondence", "pose")
    ]
    nees = [(log, smooth["nees"], _BLUE, "training"), (held_out, held_out.get("nees", empty), _ORANGE, "held out, true pose")]
    panels.append(("mean of d'(2C)^-1 d (3 = calibrated)", (2.0, 4.0), nees))
    panels.append(("certified fraction", (0.0, 1.05), [(log, log["certified"], _BLUE, "")]))
    normals = [("normal_rmse", _BLUE, "RMSE"), ("normal_median", _ORANGE, "median")]
    errors = [(held_out, held_out.get(name, empty), color, label) for name, color, label in normals]
    panels.append(("normals of held-out shapes, in degrees", None, errors))
    times = [(log, log[name], color, name[:-3]) for name, color in zip(parts, _PARTS, strict=True)]
    panels.append(("time of the parts of a step, in ms", None, times))
    chart = Chart(*_SIZE)
    for i, (title, limits, lines) in enumerate(panels):
        left, top = 70 + 565 * (i % 3), 60 + 420 * (i // 3)
        y = limits or _limits(np.concatenate([values for _, values, _, _ in lines]))
        panel = Panel(chart, (left, top, left + 460, top + 295), title, "step", _around(log["step"]), y)
        for rows, values, color, label in lines:
            if len(values):
                panel.line(np.column_stack([rows["step"], values]), color, label=label)
        panel.finish()
    chart.save(run / "curve.png")
    return run / "curve.png"


def _limits(values: np.ndarray) -> Limits:
    finite = values[np.isfinite(values)]
    low, high = np.percentile(finite, (1, 99)).tolist() if len(finite) else (0.0, 1.0)
    margin = 0.1 * (high - low) or 0.5
    return (0.0 if low >= 0.0 else low - margin), high + margin


def _columns(path: Path) -> dict[str, np.ndarray]:
    rows = read_log(path)
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]} if rows else {}


def _smooth(values: np.ndarray, window: int = 15) -> np.ndarray:
    """Running mean over the last values, shorter at the start."""
    return np.array([np.nanmean(values[max(0, end - window) : end]) for end in range(1, len(values) + 1)])
