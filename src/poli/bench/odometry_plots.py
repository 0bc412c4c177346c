"""The pictures of `poli bench odometry`: errors by method, and trajectories from above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from poli.bench.odometry_contestants import CHOSEN, MAP, OURS, SCAN, SYSTEMS, VARIANTS
from poli.bench.odometry_figures import Judged, mean, mean_rpe
from poli.se3 import inverse
from poli.show.figure import pyplot, save_figure

_COLOURS = {
    "ICP": "#9e9e9e", "Plane ICP": "#8d6e63", "GICP": "#1e88e5", "VGICP": "#00897b", "KISS-ICP": "#fb8c00", "GenZ-ICP": "#8e24aa",
    "POLI scan to scan": "#e53935", "POLI scan to map": "#b71c1c", "PCA in our GICP": "#546e7a", "POLI raw covariances": "#f48fb1",
}  # fmt: skip
_OWN_VOXEL = " (own voxel)"


def plot_errors(best: Sequence[Judged], path: Path) -> None:
    """The paper's figure: RPE by method for each sensor and voxel size, half a standard deviation of the errors up and down."""
    simulated = [j for j in best if not j.real]
    sensors = list(dict.fromkeys(j.group for j in simulated))
    voxels = {s: sorted({j.voxel for j in simulated if j.group == s and j.voxel != CHOSEN}) for s in sensors}
    if not sensors:
        return
    plt = pyplot()
    columns = max(len(v) for v in voxels.values())
    figure, axes = plt.subplots(len(sensors), columns, figsize=(4.0 * columns, 3.4 * len(sensors)), squeeze=False, sharey="row")
    for row, sensor in enumerate(sensors):
        for column in range(columns):
            if column < len(voxels[sensor]):
                _draw_case(axes[row, column], [j for j in simulated if j.group == sensor], sensor, voxels[sensor][column])
            else:
                axes[row, column].set_visible(False)
        axes[row, 0].set_ylabel("RPE from scan to scan, metres")
    figure.tight_layout()
    save_figure(figure, path)
    plt.close(figure)


def _draw_case(axes, of_sensor: Sequence[Judged], sensor: str, voxel: float) -> None:
    shown = [(method, voxel) for method in (*VARIANTS, *OURS)] + [(method, CHOSEN) for method in (*SYSTEMS, MAP)]
    by_method = {
        method + (_OWN_VOXEL if v == CHOSEN else ""): (method, [j for j in of_sensor if (j.method, j.voxel) == (method, v)])
        for method, v in shown
    }
    by_method = {name: drawn for name, drawn in by_method.items() if drawn[1]}
    values = [mean_rpe(drives) for _, drives in by_method.values()]
    for x, ((method, drives), value) in enumerate(zip(by_method.values(), values, strict=True)):
        bar = 0.5 * mean([j.rpe[1].spread for j in drives])
        axes.errorbar(x, value, yerr=bar, fmt="o", color=_COLOURS.get(method), capsize=3, ms=5)
    lowest = int(np.argmin(values))
    axes.plot(lowest, values[lowest], "o", ms=13, mfc="none", mec="k", mew=1.2)
    own = sum(name.endswith(_OWN_VOXEL) for name in by_method)
    if own:
        axes.axvline(len(by_method) - own - 0.5, color="k", lw=0.6, ls=":")
    axes.set_yscale("log")
    axes.set_xticks(range(len(by_method)), by_method, rotation=45, ha="right", fontsize=8)
    axes.set_title(f"{sensor}, {voxel:g} m", fontsize=10)
    axes.grid(axis="y", which="both", alpha=0.25)


def plot_trajectories(best: Sequence[Judged], truths: Mapping[str, np.ndarray], path: Path) -> None:  # (M, 4, 4) by drive
    """For each sensor the drive with the largest errors: from above, and how far from the truth every scan is put."""
    simulated = [j for j in best if not j.real]
    sensors = list(dict.fromkeys(j.group for j in simulated))
    if not sensors:
        return
    plt = pyplot()
    figure, axes = plt.subplots(len(sensors), 2, figsize=(12, 4.6 * len(sensors)), squeeze=False)
    for (above, away), sensor in zip(axes, sensors, strict=True):
        drive, shown = _shown([j for j in simulated if j.group == sensor])
        truth = inverse(truths[drive][0]) @ truths[drive]
        above.plot(*truth[:, :2, 3].T, color="k", lw=4, alpha=0.35, label="truth")
        for name, judged in shown.items():
            style = {"color": _COLOURS.get(judged.method), "lw": 2.0 if judged.method in OURS else 1.2, "label": name}
            style |= {"ls": "--" if judged.voxel == CHOSEN else "-"}
            above.plot(*judged.poses[:, :2, 3].T, **style)
            away.plot(np.linalg.norm(judged.poses[:, :3, 3] - truth[:, :3, 3], axis=1)[1:], **style)
        above.set(title=f"{drive}, from above", xlabel="metres", ylabel="metres")
        above.set_aspect("equal", "datalim")
        away.set(title=f"{drive}, distance from the truth", xlabel="scan", ylabel="metres", yscale="log")
        for drawn in (above, away):
            drawn.grid(alpha=0.25)
        away.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))
    figure.tight_layout()
    save_figure(figure, path)
    plt.close(figure)


def _shown(of_sensor: Sequence[Judged]) -> tuple[str, dict[str, Judged]]:
    """The drive whose rivals err most, so that there is something to see, and those who are drawn on it."""
    voxels = sorted({j.voxel for j in of_sensor if j.voxel != CHOSEN})
    voxel = voxels[len(voxels) // 2]
    wanted = [(m, voxel) for m in (*VARIANTS, SCAN)] + [(m, CHOSEN) for m in (*SYSTEMS, MAP)]
    drives = dict.fromkeys(j.drive for j in of_sensor)
    by_drive = {d: {(j.method, j.voxel): j for j in of_sensor if j.drive == d} for d in drives}

    def largest(drive: str) -> float:
        found = by_drive[drive]
        return float(np.median([found[w].drift for w in wanted if w in found]))

    drive = max(drives, key=largest)
    names = {(m, v): m + (f", {v:g} m" if v != CHOSEN else _OWN_VOXEL) for m, v in wanted}
    return drive, {names[w]: by_drive[drive][w] for w in wanted if w in by_drive[drive]}
