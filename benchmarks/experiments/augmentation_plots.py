"""The pictures of `python -m benchmarks augmentation` and `python -m benchmarks density`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.metrics.augmentation import Gain, change, mean_of
from benchmarks.rivals.augmentations import INTERPOLATION, PCA, POLI, RAW
from poli.show.figure import pyplot, save_figure

_COLOURS = {RAW: "#9e9e9e", PCA: "#546e7a", INTERPOLATION: "#fb8c00", POLI: "#e53935"}


def plot_gains(gains: Sequence[Gain], ways: Sequence[str], path: Path) -> None:
    """Bars of the long errors and of those from scan to scan, by drive, one row for each system."""
    systems, drives = list(dict.fromkeys(g.system for g in gains)), list(dict.fromkeys(g.drive for g in gains))
    plt = pyplot()
    size = (2.0 + 1.5 * len(drives), 0.8 + 2.7 * len(systems))
    figure, axes = plt.subplots(len(systems), 2, figsize=size, squeeze=False, sharex=True)
    for row, system in enumerate(systems):
        for column, (measure, title) in enumerate((("long", "RPE over many scans, cm"), ("step", "RPE from scan to scan, cm"))):
            drawn = axes[row, column]
            for place, way in enumerate(ways):
                found = {d: 100 * mean_of([g for g in gains if g.drive == d], system, way, measure) for d in drives}
                x = np.arange(len(drives)) + (place - 0.5 * (len(ways) - 1)) * 0.8 / len(ways)
                drawn.bar(x, [found[d] for d in drives], 0.8 / len(ways), label=way, color=_COLOURS.get(way))
            drawn.set_xticks(range(len(drives)), drives, rotation=30, ha="right", rotation_mode="anchor", fontsize=8)
            drawn.set_title(f"{system}: {title}", fontsize=10)
            drawn.grid(axis="y", alpha=0.25)
    axes[0, 0].legend(fontsize=8)
    figure.tight_layout()
    save_figure(figure, path)
    plt.close(figure)


def plot_density(gains: Sequence[Gain], ways: Sequence[str], path: Path) -> None:
    """Every way of sampling as a point: what it changes from scan to scan, and what over many scans."""
    systems = list(dict.fromkeys(g.system for g in gains))
    plt = pyplot()
    figure, axes = plt.subplots(1, len(systems), figsize=(0.5 + 6.0 * len(systems), 5.0), squeeze=False)
    for drawn, system in zip(axes[0], systems, strict=True):
        before = {measure: mean_of(gains, system, RAW, measure) for measure in ("step", "long")}
        for way in ways:
            x, y = (change(mean_of(gains, system, way, measure), before[measure]) for measure in ("step", "long"))
            drawn.plot(x, y, "o", color=_COLOURS[PCA if way.startswith("PCA") else RAW if way == RAW else POLI])
            drawn.annotate(way, (x, y), xytext=(4, 3), textcoords="offset points", fontsize=7)
        drawn.axhline(0.0, color="k", lw=0.6)
        drawn.axvline(0.0, color="k", lw=0.6)
        drawn.set(title=system, xlabel="RPE from scan to scan, % against raw", ylabel="RPE over many scans, % against raw")
        drawn.grid(alpha=0.25)
    figure.tight_layout()
    save_figure(figure, path)
    plt.close(figure)
