"""Plot an odometry run from the files in its folder."""

from pathlib import Path

import numpy as np

from poli.data.trajectory_files import read_kitti
from poli.errors import InputError
from poli.show.chart import Box, Chart, Key, Limits, Panel, equal_limits
from poli.tasks.odometry.recording import read_steps
from poli.tasks.odometry.step import STAGES
from poli.tasks.trajectory_errors import relative_errors

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
