"""Plot an odometry run from the files in its folder."""

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
from poli.viewer.chart import Box, Chart, Key, Limits, Panel, equal_limits
from poli.viewer.panel import Track

# --- Read the output folder of `poli odometry`, for viewers.


_FARTHEST = 1e9  # meters, maximum coordinate of a pose
_POSES, _TRUTH_FILE, _CONFIG = "poses_kitti.txt", "truth_kitti.txt", "config.json"


@dataclass(frozen=True, eq=False)
class OdometryRun:
    folder: Path
    poses: np.ndarray  # (M, 4, 4) T_world_scan
    truth: np.ndarray | None  # (M, 4, 4)
    map: Ellipsoids | Scan | None  # the map of the drive: ellipsoids or points
    config: dict[str, Any]
    remarks: tuple[str, ...] = ()  # what is missing, and why

    @property
    def data(self) -> dict[str, Any]:
        """The input data of the run: name, path, dataset, options, first."""
        return self.config["data"]

    @property
    def tracks(self) -> tuple[Track, ...]:
        tracks = (Track(self.poses[:, :3, 3], "estimate"),)
        return tracks if self.truth is None else (*tracks, Track(self.truth[:, :3, 3], "truth"))

    @property
    def length(self) -> float:
        """Length of the estimated path in meters."""
        return float(np.linalg.norm(np.diff(self.poses[:, :3, 3], axis=0), axis=1).sum())


def is_odometry_run(folder: Path) -> bool:
    return (folder / _POSES).is_file() and (folder / _CONFIG).is_file()


def read_odometry_run(folder: Path) -> OdometryRun:
    poses = _read_poses(folder / _POSES)  # (M, 4, 4)
    if not len(poses):
        raise InputError(f"{folder}: no poses to show; the run ended before its first scan was processed")
    truth = _read_poses(folder / _TRUTH_FILE) if (folder / _TRUTH_FILE).is_file() else None
    where, missing = map_of_run(folder)
    return OdometryRun(folder, poses, truth, _read_map(where), _read_config(folder / _CONFIG), (missing,) if missing else ())


def _read_map(path: Path | None) -> Ellipsoids | Scan | None:
    if path is None or not path.is_file():
        return None
    scan = read(path, "ply")
    found = Ellipsoids.load(path) if "cov_xx" in scan.fields else scan.clean()
    return found if len(found) else None


def _read_poses(path: Path) -> np.ndarray:  # (M, 4, 4)
    poses = read_kitti(path, complete=False)
    far = np.flatnonzero(np.abs(poses[:, :3, 3]).max(axis=1, initial=0.0) > _FARTHEST)
    if len(far):
        raise FormatError(f"{path}: pose {far[0]} is {np.abs(poses[far[0], :3, 3]).max():.3g} m away; the file is damaged")
    return poses


def _read_config(path: Path) -> dict[str, Any]:
    config = read_json(path)
    kinds = {"path": str, "dataset": str, "options": dict, "first": int, "name": str}
    data = config.get("data") if isinstance(config, dict) else None
    if not isinstance(data, dict) or not all(isinstance(data.get(key), kind) for key, kind in kinds.items()):
        raise FormatError(f"{path}: not written by `poli odometry`: 'data' is missing or incomplete")
    if isinstance(data["first"], bool) or not 0 <= data["first"] < 1 << 53:
        raise FormatError(f"{path}: 'first' is {data['first']!r:.40}; expected the index of a scan")
    for key, value in data["options"].items():
        if not isinstance(value, bool | int | float | str):
            raise FormatError(f"{path}: option {key!r} is {value!r:.40}; expected a string or a number")
    if "\0" in data["path"]:
        raise FormatError(f"{path}: 'path' is {data['path']!r:.80}, which is not a valid path")
    return config


# --- Plot the learning curve of a training run from its logs.


_PARTS = {"grouping": "#bbbbbb", "network": "#0072b2", "layer": "#009e73", "backward": "#e69f00"}  # colors by Okabe and Ito
_BLUE, _ORANGE, _PALE, _LIMIT_COLOR = "#0072b2", "#e69f00", "#cccccc", "#000000"
_CURVE_SIZE = 1680, 840  # pixels
_ACROSS, _DOWN = (90, 660, 1230), (50, 470)  # pixels, left and upper edges of the panels
_PANEL = 420, 295  # pixels, width and height


def draw_curve(run: Path) -> Path:
    """Write `curve.png` to the run's folder: likelihood terms, calibration, certificates, normals, and the time of each part."""
    log, validation = _columns(run / "log.csv"), _columns(run / "validation.csv")
    chart = Chart(*_CURVE_SIZE)
    steps = log["step"]
    x = (float(steps[0]) - 0.5, float(steps[-1]) + 0.5)
    for i, (name, title) in enumerate({"correspondence": "correspondence likelihood", "pose": "pose likelihood"}.items()):
        panel = Panel(chart, _box(i), f"{title} per match", ("step", ""), x, _around(log[name]))
        panel.line(np.column_stack([steps, log[name]]), _PALE, 1.0)
        panel.line(np.column_stack([steps, _smooth(log[name])]), _BLUE, 1.8)
        panel.finish([])
    panel = Panel(chart, _box(2), "mean of d'(2C)^-1 d (3 = calibrated)", ("step", ""), x, (2.0, 4.0))
    panel.across(3.0, _LIMIT_COLOR)
    keys = []
    for rows, label, color in ((log, "training", _BLUE), (validation, "held out, true pose", _ORANGE)):
        if "nees" in rows:
            panel.line(np.column_stack([rows["step"], _smooth(rows["nees"])]), color)
            keys.append(Key(label, color))
    panel.finish(keys)
    panel = Panel(chart, _box(3), "certified fraction", ("step", ""), x, (0.0, 1.05))
    panel.line(np.column_stack([steps, log["certified"]]), _BLUE)
    panel.finish([])
    _draw_normals(chart, validation, x)
    times = np.stack([log[f"{part}_ms"] for part in _PARTS])  # (parts, K)
    most = 1.5 * float(np.percentile(times, 98)) + 1e-3
    panel = Panel(chart, _box(5), "time of the parts of a step", ("step", "ms"), x, (0.0, most))
    for row, color in zip(times, _PARTS.values(), strict=True):
        panel.line(np.column_stack([steps, row]), color)
    medians = {part: float(np.median(row)) for part, row in zip(_PARTS, times, strict=True)}
    panel.finish([Key(f"{part}: median {medians[part]:.0f}", color) for part, color in _PARTS.items()])
    path = run / "curve.png"
    chart.save(path)
    return path


def _draw_normals(chart: Chart, validation: dict[str, np.ndarray], x: Limits) -> None:
    found = {name: validation.get(f"normal_{name.lower()}", np.empty(0)) for name in ("RMSE", "median")}
    values = np.concatenate(list(found.values()))
    most = float(values[np.isfinite(values)].max()) if np.isfinite(values).any() else 0.0  # recorded scans have no true normals
    panel = Panel(chart, _box(4), "normals, held-out shapes", ("step", "degrees"), x, (0.0, 1.2 * most or 1.0))
    keys = []
    for (name, errors), color in zip(found.items(), (_BLUE, _ORANGE), strict=True):
        if most:
            points = np.column_stack([validation["step"], errors])
            panel.line(points, color)
            panel.markers(points[np.isfinite(errors)], color, "o", 3.0)
            keys.append(Key(name, color))
    panel.finish(keys)


def _box(number: int) -> Box:
    left, top = _ACROSS[number % 3], _DOWN[number // 3]
    return left, top, left + _PANEL[0], top + _PANEL[1]


def _around(values: np.ndarray) -> Limits:
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    margin = 0.05 * (high - low) or 0.5
    return low - margin, high + margin


def _columns(path: Path) -> dict[str, np.ndarray]:
    rows = read_log(path)
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]} if rows else {}


def _smooth(values: np.ndarray, window: int = 15) -> np.ndarray:
    """Running mean over the last values, shorter at the start."""
    return np.array([np.nanmean(values[max(0, end - window) : end]) for end in range(1, len(values) + 1)])


# Colorblind-safe palette (Okabe and Ito).
_ESTIMATE, _TRUTH, _BLACK = "#0072b2", "#8c8c8c", "#000000"
_MARKS = {
    "degenerate": ("#e69f00", "v"),
    "bridged": ("#56b4e9", "s"),
    "predicted": ("#d55e00", "o"),
    "restarted": ("#cc79a7", "X"),
}
_STAGE_COLORS = ("#bbbbbb", "#0072b2", "#009e73", "#e69f00")
_ROOM = 1.5  # upper limit of the time axis relative to the 95th percentile: the first scans may include compilation
_FEW = 100  # scans; of fewer, each is a dot
_LEAST_EXTENT = 2.0  # meters, so that noise of a stationary sensor does not fill the plot

_SIZE = 1680, 840  # pixels
_WAY: Box = (90, 50, 850, 765)
_MIDDLE: Box = (960, 50, 1650, 345)
_TIMES: Box = (960, 470, 1650, 765)


def draw_trajectory(run: Path) -> Path:
    """Write `trajectory.png` to the run's folder: path from above, errors per step (without truth, the fit), and times."""
    steps, poses = read_steps(run), read_kitti(run / "poses_kitti.txt", complete=False)  # (K, 4, 4)
    truth_file = run / "truth_kitti.txt"
    truth = read_kitti(truth_file, complete=False) if truth_file.is_file() else None  # (K, 4, 4)
    count = min(len(steps), len(poses))  # a killed run may have one more pose
    if not count:
        raise InputError(f"{run}: no poses to draw; the run ended before its first scan was processed")
    steps, poses = steps[:count], poses[:count]
    truth = truth[:count] if truth is not None and len(truth) >= count else None
    chart = Chart(*_SIZE)
    _draw_way(chart, poses, truth, steps)
    if truth is not None and count > 1:
        _draw_errors(chart, poses, truth, steps)
    else:
        _draw_fit(chart, steps)
    _draw_times(chart, steps)
    path = run / "trajectory.png"
    chart.save(path)
    return path


def _draw_way(chart: Chart, poses: np.ndarray, truth: np.ndarray | None, steps: list[dict[str, str]]) -> None:
    way = poses[:, :2, 3]
    length = float(np.linalg.norm(np.diff(poses[:, :3, 3], axis=0), axis=1).sum())
    everything = way if truth is None else np.concatenate([way, truth[:, :2, 3]])
    title = f"from above: {len(poses)} scans, {length:.1f} m"
    labels = ("x, m (frame of the first scan)", "y, m")
    panel = Panel(chart, _WAY, title, labels, *equal_limits(everything, _WAY, _LEAST_EXTENT))
    keys = []
    if truth is not None:
        panel.line(truth[:, :2, 3], _TRUTH, 5.0)
        keys.append(Key("truth", _TRUTH, 5.0))
    _dotted(panel, way)
    panel.markers(way[:1], _BLACK, "a", 6.0)
    keys += [Key("estimate", _ESTIMATE), Key("start", _BLACK, marker="a")]
    for status, (color, marker) in _MARKS.items():
        rows = [i for i, row in enumerate(steps) if row["status"] == status]
        if rows:
            panel.markers(way[rows], color, marker)
            keys.append(Key(f"{status}: {len(rows)}", color, marker=marker))
    panel.finish(keys)


def _draw_errors(chart: Chart, poses: np.ndarray, truth: np.ndarray, steps: list[dict[str, str]]) -> None:
    errors = relative_errors(poses, truth)
    numbers = _numbers(steps)
    rmse, most = 100.0 * errors.rmse.translation, 125.0 * max(float(errors.translation.max()), 1e-5)  # with space for the legend
    labels = ("scan", "cm")
    panel = Panel(chart, _MIDDLE, "relative pose error per step", labels, _scan_limits(numbers), (0.0, most))
    _draw_statuses(panel, steps)
    _dotted(panel, np.column_stack([numbers[1:], 100.0 * errors.translation]))
    panel.across(rmse, _BLACK)
    panel.finish([Key(f"RMSE {rmse:.1f} cm", _BLACK, 1.0)])


def _draw_fit(chart: Chart, steps: list[dict[str, str]]) -> None:
    numbers = _numbers(steps)
    fits = np.array([float(row["fit"]) if row["fit"] else np.nan for row in steps])
    panel = Panel(chart, _MIDDLE, "points on surfaces of the map", ("scan", "%"), _scan_limits(numbers), (0.0, 105.0))
    _draw_statuses(panel, steps)
    _dotted(panel, np.column_stack([numbers, 100.0 * fits]))
    panel.finish([])


def _draw_times(chart: Chart, steps: list[dict[str, str]]) -> None:
    numbers = _numbers(steps)
    columns = [f"{stage}_seconds" for stage in STAGES]
    seconds = np.array([[float(row[column] or 0.0) for column in columns] for row in steps])  # (K, stages)
    total = 1e3 * seconds.sum(axis=1)
    shown = max(_ROOM * float(np.percentile(total, 95)), 1.0)
    if float(np.percentile(total, 95)) > 3.0 * float(np.median(total)):  # short run, compilation dominates the first scans
        shown = 2.0 * _ROOM * float(np.median(total))
    shown = min(shown, 1.15 * float(total.max()) + 1e-3)
    cut = total > shown
    said = f"; {cut.sum()} above, up to {total.max():.0f} ms" if cut.any() else ""
    title = f"time: median {np.median(total):.0f} ms{said}"
    panel = Panel(chart, _TIMES, title, ("scan", "ms"), _scan_limits(numbers), (0.0, shown))
    edges = np.append(numbers, numbers[-1] + 1) - 0.5
    tops = np.cumsum(1e3 * seconds, axis=1)
    for i, color in enumerate(_STAGE_COLORS):
        panel.area(tops[:, i], tops[:, i - 1] if i else np.zeros(len(steps)), edges, color)
    _draw_statuses(panel, steps)
    panel.finish([Key(stage, color, 9.0) for stage, color in zip(STAGES, _STAGE_COLORS, strict=True)], columns=len(STAGES))


def _dotted(panel: Panel, points: np.ndarray) -> None:  # (K, 2)
    panel.line(points, _ESTIMATE, 1.6)
    if len(points) < _FEW:
        panel.markers(points[np.isfinite(points).all(axis=1)], _ESTIMATE, "o", 3.0)


def _draw_statuses(panel: Panel, steps: list[dict[str, str]]) -> None:
    for row, number in zip(steps, _numbers(steps), strict=True):
        if row["status"] in _MARKS:
            panel.upright(float(number), _MARKS[row["status"]][0])


def _numbers(steps: list[dict[str, str]]) -> np.ndarray:
    return np.array([int(row["scan"]) for row in steps])


def _scan_limits(numbers: np.ndarray) -> Limits:
    return float(numbers[0]) - 0.5, float(numbers[-1]) + 0.5
