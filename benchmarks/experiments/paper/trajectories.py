"""Fig. 8: trajectories of the methods from scan to scan on DCC04, from above."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.experiments.paper.contest import FRAMES, PAIRS, Found
from benchmarks.experiments.paper.odometry import OURS, VOXELS, at_best, found_by_all, voxel_of
from benchmarks.experiments.paper.sequences import sources
from benchmarks.report import Column, Report, Table, pyplot, save_figure
from benchmarks.rivals.odometry_contestants import CHOSEN
from poli.lidar_odometry.trajectory_errors import absolute_errors
from poli.se3 import inverse

if TYPE_CHECKING:
    from benchmarks.experiments.paper import Options


def run(options: Options) -> Iterator[Report]:
    chosen = sources(options, ("DCC",))
    smallest = options.voxels[:1] or (min(VOXELS[chosen[0].sensor]),)  # the paper's figure is at 0.2 m
    everything, notes = found_by_all(replace(options, voxels=smallest), chosen)
    best = at_best(everything)
    records = []
    for found in best:
        frames = min((options.frames or (FRAMES,))[0], len(found.poses) - 1)
        end = absolute_errors(found.poses, found.truth, "origin").translation[-1]
        records.append({**found.record(frames, PAIRS[1]), "end_m": float(end)})
    yield Report(
        "paper_trajectories",
        "Fig. 8 of the paper: trajectories",
        records,
        _TABLE,
        [*_NOTES, *notes],
        plots={"paper_trajectories": partial(draw, best)},
    )


def draw(found: Sequence[Found], path: Path) -> None:
    """All trajectories of each sequence from above, beginning at the true first pose."""
    by_sequence: dict[str, list[Found]] = {}
    for one in found:
        by_sequence.setdefault(one.source.label, []).append(one)
    plt = pyplot()
    figure, axes = plt.subplots(1, len(by_sequence), figsize=(6.0 * len(by_sequence), 6.0), squeeze=False)
    for axis, (label, here) in zip(axes[0], by_sequence.items(), strict=True):
        longest = max(here, key=lambda one: len(one.truth)).truth
        axis.plot(*_from_start(longest, longest[0]), color="k", lw=5, alpha=0.3, label="truth")
        for one in here:
            start = inverse(one.truth[0]) @ longest[0]  # a file may begin later
            style = {"lw": 2.2 if one.method == OURS else 1.2, "ls": "--" if one.voxel == CHOSEN else "-"}
            axis.plot(*_from_start(one.poses, one.poses[0] @ start), label=one.method, **style)
        axis.set(title=label, xlabel="meters", ylabel="meters", aspect="equal")
        axis.grid(alpha=0.25)
    axes[0, 0].legend(fontsize=8)
    figure.tight_layout()
    save_figure(figure, path)
    plt.close(figure)


def _from_start(poses: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (M, 4, 4), (4, 4) -> (M,), (M,)
    moved = inverse(start) @ poses
    return moved[:, 0, 3], moved[:, 1, 3]


_TABLE = Table(
    [
        Column("sequence", "{case}"),
        Column("method", "{method}"),
        Column("voxels", voxel_of),
    ],
    [
        Column("RPE, m", "{rpe_m:.3f}"),
        Column("RPE, degrees", "{rpe_deg:.3f}"),
        Column("scans apart", "{frames}"),
        Column("at the end, m", "{end_m:.2f}"),
    ],
)

_NOTES = [
    "RPE: root mean squares of all pairs of poses so many scans apart. At the end: distance from the true last position if the "
    "first pose is the true one. The paper's figure has no numbers.",
]
