"""Plots of `python -m benchmarks odometry`: errors by method, and trajectories from above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.metrics.odometry import Judged, mean_rpe
from benchmarks.report import mean, pyplot, save_figure
from benchmarks.rivals.odometry_contestants import CHOSEN, MAP, OURS, PCA, RAW, SCAN, SYSTEMS, VARIANTS
from poli.se3 import inverse

_COLORS = {
    "ICP": "#9e9e9e",
    "Plane ICP": "#8d6e63",
    "GICP": "#1e88e5",
    "VGICP": "#00897b",
    "KISS-ICP": "#fb8c00",
    "GenZ-ICP": "#8e24aa",
    "CT-ICP": "#3949ab",
    "MAD-ICP": "#c0ca33",
    "LOAM": "#6d4c41",
    SCAN: "#e53935",
    MAP: "#7f0000",
    PCA: "#546e7a",
    RAW: "#f48fb1",
}
_TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)  # centimeters

Shown = tuple[str, float]  # method and voxel


def plot_errors(best: Sequence[Judged], path: Path) -> None:
    """The paper's figure: RPE by method for each sensor and voxel size, with bars of half a standard deviation up and down."""
    sensors = list(dict.fromkeys(j.group for j in best))
    if not sensors:
        return
    voxels = {s: sorted({j.voxel for j in best if j.group == s and j.voxel != CHOSEN}) for s in sensors}
    columns = max(len(v) for v in voxels.values())
    plt = pyplot()
    size = (3.3 * columns, 1.4 + 2.5 * len(sensors))
    figure, axes = plt.subplots(len(sensors), columns, figsize=size, squeeze=False, sharey="row", sharex=True)
    for row, sensor in enumerate(sensors):
        for column in range(columns):
            if column < len(voxels[sensor]):
                _draw_case(axes[row, column], [j for j in best if j.group == sensor], sensor, voxels[sensor][column])
            else:
                axes[row, column].set_visible(False)
        axes[row, 0].set_ylabel("RPE from scan to scan, cm")
    figure.tight_layout()
    save_figure(figure, path)
    plt.close(figure)


def _draw_case(axes: Any, of_sensor: Sequence[Judged], sensor: str, voxel: float) -> None:
    by_shown: dict[Shown, list[Judged]] = {}
    for judged in of_sensor:
        by_shown.setdefault((judged.method, judged.voxel), []).append(judged)
    families = (  # the best of each is marked
        [(m, voxel) for m in (*VARIANTS, SCAN, PCA, RAW) if (m, voxel) in by_shown],
        [(m, v) for m, v in ((MAP, voxel), *((m, CHOSEN) for m in (*SYSTEMS, MAP))) if (m, v) in by_shown],
    )
    x, labels = 0, []
    for family in families:
        values = [100 * mean_rpe(by_shown[shown]) for shown in family]
        for offset, (shown, value) in enumerate(zip(family, values, strict=True)):
            bar = 50 * mean([j.rpe[1].spread for j in by_shown[shown]])
            axes.errorbar(x + offset, value, yerr=bar, fmt="o", color=_COLORS.get(shown[0]), capsize=3, ms=5)
            labels.append(f"{MAP}, own voxel" if shown == (MAP, CHOSEN) else shown[0])
        if values:
            lowest = int(np.argmin(values))
            axes.plot(x + lowest, values[lowest], "o", ms=13, mfc="none", mec="k", mew=1.2)
        x += len(family)
    axes.axvline(len(families[0]) - 0.5, color="k", lw=0.6, ls=":")
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xticks(range(len(labels)), labels, rotation=50, ha="right", rotation_mode="anchor", fontsize=8)
    axes.set_title(f"{sensor}, {voxel:g} m", fontsize=10)
    axes.text(0.02, 0.03, "scan to scan", transform=axes.transAxes, fontsize=7)
    axes.text(0.98, 0.96, "on a map", transform=axes.transAxes, fontsize=7, ha="right", va="top")
    axes.grid(axis="y", alpha=0.25)


def plot_trajectories(best: Sequence[Judged], truths: Mapping[str, np.ndarray], path: Path) -> None:  # (M, 4, 4) by drive
    """Plot the drive with the largest errors of each sensor: from above, and the distance of each scan from the truth."""
    sensors = list(dict.fromkeys(j.group for j in best))
    if not sensors:
        return
    plt = pyplot()
    figure, axes = plt.subplots(len(sensors), 2, figsize=(10, 0.9 + 4.0 * len(sensors)), squeeze=False)
    for (above, away), sensor in zip(axes, sensors, strict=True):
        drive, shown = _shown([j for j in best if j.group == sensor])
        truth = inverse(truths[drive][0]) @ truths[drive]
        turned = _along(truth[-1, :2, 3])
        above.plot(*(turned @ truth[:, :2, 3].T), color="k", lw=5, alpha=0.3, label="truth")
        for (method, voxel), judged in shown.items():
            style = {"color": _COLORS.get(method), "lw": 2.0 if method in OURS else 1.2, "ls": "--" if voxel == CHOSEN else "-"}
            label = f"{method}, {'on a map' if voxel == CHOSEN else 'scan to scan'}" if method not in OURS else method
            above.plot(*(turned @ judged.poses[:, :2, 3].T), label=label, **style)
            away.plot(range(1, len(truth)), np.linalg.norm(judged.poses[1:, :3, 3] - truth[1:, :3, 3], axis=1), **style)
        voxel = next(voxel for _, voxel in shown if voxel != CHOSEN)
        above.set(title=f"{drive}, {voxel:g} m, from above", xlabel="meters along", ylabel="meters across, stretched")
        away.set(title="distance from the truth", xlabel="scan", ylabel="meters", yscale="log")
        for drawn in (above, away):
            drawn.grid(alpha=0.25)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.tight_layout()
    figure.legend(handles, labels, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4, frameon=False)
    save_figure(figure, path)
    plt.close(figure)


def _along(end: np.ndarray) -> np.ndarray:  # (2,) -> (2, 2)
    """Rotation of the drive's end onto the x axis, so that errors across it can be stretched."""
    forward = end / max(float(np.linalg.norm(end)), 1e-9)
    return np.array([forward, [-forward[1], forward[0]]])


def _shown(of_sensor: Sequence[Judged]) -> tuple[str, dict[Shown, Judged]]:
    """The drive with the largest errors, where differences are visible, and the methods drawn on it."""
    voxels = sorted({j.voxel for j in of_sensor if j.voxel != CHOSEN})
    voxel = voxels[len(voxels) // 2]
    wanted = [(m, voxel) for m in (*VARIANTS, SCAN)] + [(m, CHOSEN) for m in (*SYSTEMS, MAP)]
    by_drive: dict[str, dict[Shown, Judged]] = {}
    for judged in of_sensor:
        by_drive.setdefault(judged.drive, {})[judged.method, judged.voxel] = judged
    here = {drive: {shown: found[shown] for shown in wanted if shown in found} for drive, found in by_drive.items()}
    drive = max(here, key=lambda drive: float(np.median([judged.drift for judged in here[drive].values()])))
    return drive, here[drive]
