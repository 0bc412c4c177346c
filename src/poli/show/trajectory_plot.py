"""Plot an odometry run from the files in its folder."""

from pathlib import Path
from typing import Any

import numpy as np

from poli.data.trajectory_files import read_kitti
from poli.errors import InputError
from poli.show.figure import pyplot, save_figure
from poli.tasks.odometry.recording import read_steps
from poli.tasks.odometry.step import STAGES
from poli.tasks.trajectory_errors import relative_errors

# Colorblind-safe palette (Okabe and Ito).
_ESTIMATE, _TRUTH = "#0072b2", "0.55"
_MARKS = {
    "degenerate": ("#e69f00", "v"),
    "bridged": ("#56b4e9", "s"),
    "predicted": ("#d55e00", "o"),
    "restarted": ("#cc79a7", "X"),
}
_STAGE_COLORS = ("#bbbbbb", "#0072b2", "#009e73", "#e69f00")
_ROOM = 1.5  # upper limit of the time axis relative to the 95th percentile: the first scans may include compilation


def draw_trajectory(run: Path) -> Path:
    """Write `trajectory.png` to the run's folder: path from above, errors per step (without truth, the fit), and times."""
    plt = pyplot()
    steps, poses = read_steps(run), read_kitti(run / "poses_kitti.txt", complete=False)  # (K, 4, 4)
    truth_file = run / "truth_kitti.txt"
    truth = read_kitti(truth_file, complete=False) if truth_file.is_file() else None  # (K, 4, 4)
    count = min(len(steps), len(poses))  # a killed run may have one more pose
    if not count:
        raise InputError(f"{run}: no poses to draw; the run ended before its first scan was processed")
    steps, poses = steps[:count], poses[:count]
    truth = truth[:count] if truth is not None and len(truth) >= count else None
    figure = plt.figure(figsize=(14, 7), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(1.15, 1.0))
    way, middle, times = figure.add_subplot(grid[:, 0]), figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, 1])
    numbers = np.array([int(row["scan"]) for row in steps])
    _draw_way(way, poses, truth, steps)
    if truth is not None and count > 1:
        _draw_errors(middle, poses, truth, numbers)
    else:
        _draw_fit(middle, steps, numbers)
    _draw_times(times, steps, numbers)
    for panel in (middle, times):
        panel.set_xlim(numbers[0] - 0.5, numbers[-1] + 0.5)
        for row, number in zip(steps, numbers, strict=True):
            if row["status"] in _MARKS:
                panel.axvline(number, color=_MARKS[row["status"]][0], lw=1.2, alpha=0.5, zorder=0)
    path = run / "trajectory.png"
    save_figure(figure, path)
    plt.close(figure)
    return path


def _draw_way(panel: Any, poses: np.ndarray, truth: np.ndarray | None, steps: list[dict[str, str]]) -> None:
    if truth is not None:
        panel.plot(truth[:, 0, 3], truth[:, 1, 3], color=_TRUTH, lw=4.0, solid_capstyle="round", label="truth")
    panel.plot(poses[:, 0, 3], poses[:, 1, 3], color=_ESTIMATE, lw=1.4, marker="." if len(poses) < 100 else None, label="estimate")
    panel.plot(*poses[0, :2, 3], color="k", marker="o", ms=7, mfc="none", ls="none", label="start")
    for status, (color, marker) in _MARKS.items():
        rows = [i for i, row in enumerate(steps) if row["status"] == status]
        if rows:
            label = f"{status}: {len(rows)}"
            panel.scatter(poses[rows, 0, 3], poses[rows, 1, 3], color=color, marker=marker, s=45, zorder=3, label=label)
    length = float(np.linalg.norm(np.diff(poses[:, :3, 3], axis=0), axis=1).sum())
    panel.set(title=f"from above: {len(poses)} scans, {length:.1f} m", xlabel="x, m (frame of the first scan)", ylabel="y, m")
    # At least two meters, so that noise of a stationary sensor does not fill the plot.
    center = 0.5 * (poses[:, :2, 3].min(axis=0) + poses[:, :2, 3].max(axis=0))
    panel.update_datalim([center - 1.0, center + 1.0])
    panel.autoscale_view()
    panel.set_aspect("equal", adjustable="datalim")
    panel.grid(color="0.92")
    panel.legend(loc="best")


def _draw_errors(panel: Any, poses: np.ndarray, truth: np.ndarray, numbers: np.ndarray) -> None:
    errors = relative_errors(poses, truth)
    panel.plot(numbers[1:], 100.0 * errors.translation, color=_ESTIMATE, lw=1.0, marker="." if len(poses) < 100 else None)
    mark = f"RMSE {100.0 * errors.rmse.translation:.1f} cm"
    panel.axhline(100.0 * errors.rmse.translation, color="k", lw=0.8, ls=":", label=mark)
    panel.set(title="relative pose error per step", xlabel="scan", ylabel="cm")
    panel.set_ylim(0.0, 125.0 * max(float(errors.translation.max()), 1e-5))  # space for the legend
    panel.legend(loc="upper right")


def _draw_fit(panel: Any, steps: list[dict[str, str]], numbers: np.ndarray) -> None:
    fits = np.array([float(row["fit"]) if row["fit"] else np.nan for row in steps])
    panel.plot(numbers, 100.0 * fits, color=_ESTIMATE, lw=1.0, marker="." if len(steps) < 100 else None)
    panel.set(title="points on surfaces of the map", xlabel="scan", ylabel="%", ylim=(0.0, 105.0))


def _draw_times(panel: Any, steps: list[dict[str, str]], numbers: np.ndarray) -> None:
    columns = [f"{stage}_seconds" for stage in STAGES]
    seconds = np.array([[float(row[column] or 0.0) for column in columns] for row in steps])  # (K, stages)
    total = 1e3 * seconds.sum(axis=1)
    edges = np.append(numbers, numbers[-1] + 1) - 0.5
    tops = np.cumsum(1e3 * seconds, axis=1)
    for i in reversed(range(len(STAGES))):
        bottom = tops[:, i - 1] if i else np.zeros(len(steps))
        panel.stairs(tops[:, i], edges, baseline=bottom, fill=True, color=_STAGE_COLORS[i], label=STAGES[i])
    shown = max(_ROOM * float(np.percentile(total, 95)), 1.0)
    if float(np.percentile(total, 95)) > 3.0 * float(np.median(total)):  # short run, compilation dominates the first scans
        shown = 2.0 * _ROOM * float(np.median(total))
    shown = min(shown, 1.15 * float(total.max()) + 1e-3)
    cut = total > shown
    said = f"; {cut.sum()} above, up to {total.max():.0f} ms" if cut.any() else ""
    panel.set(title=f"time: median {np.median(total):.0f} ms{said}", xlabel="scan", ylabel="ms", ylim=(0.0, shown))
    handles, labels = panel.get_legend_handles_labels()
    panel.legend(handles[::-1], labels[::-1], loc="upper right", ncols=len(STAGES))
