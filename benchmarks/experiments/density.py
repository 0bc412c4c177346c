"""Errors of a system on denser scans by number of samples, their reach, and the ellipsoids that are sampled.

Example: python -m benchmarks density --places town,campus
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.data.drives import DriveSource
from benchmarks.experiments import augmentation
from benchmarks.experiments.augmentation import COLORS, change, run_sources
from benchmarks.options import option
from benchmarks.report import Column, Record, Report, Table, mean
from benchmarks.rivals.augmentations import PCA, POLI, RAW, Augmentation, densified, raw
from poli.show.figure import pyplot, save_figure
from poli.tasks.densify import DensifyConfig

COUNTS = (1, 3, 7)  # samples per ellipsoid
REACHES = (1.0, 2.0, 4.0, 8.0, 12.0)  # calibrated standard deviations
THICKEST = (0.02, 0.03, 0.04, 0.06, None)  # meters: thicker ellipsoids are not sampled
_PCA_REACHES = (1.0, 2.0)  # two reaches, to show that the reach is not why PCA is worse


@dataclass(frozen=True)
class Options(augmentation.Options):
    places: tuple[str, ...] = option(("town", "riverside"), "held-out places, separated by commas")
    systems: tuple[str, ...] = option(("KISS-ICP",), "systems to run, separated by commas")


def run(options: Options) -> Iterator[Report]:
    found = run_sources(options, options.sources(), density_ways)
    ways = dict.fromkeys(r["augmentation"] for r in found)
    records = [_against_raw(found, system, way) for system in options.systems for way in ways]
    frames = "/".join(str(f) for f in sorted({r["frames"] for r in found}))
    cells = [
        column
        for measure, title in (("long", f"RPE {frames}"), ("step", "RPE 1"))
        for column in (
            Column(title, f"{{{measure}:cm}}"),
            Column("to raw", f"{{{measure}_change_percent:+%}}"),
            Column("worst drive", f"{{{measure}_worst_change_percent:+%}}"),
        )
    ]
    table = Table([Column("system", "{system}"), Column("scans", "{way}")], cells)
    notes = [
        f"Means over {', '.join(dict.fromkeys(r['drive'] for r in found))}, in centimeters; negative is better than raw scans.",
        "`1 at 12` is one sample per ellipsoid within twelve calibrated standard deviations; unless noted otherwise, flat, and "
        "only from ellipsoids no thicker than 5 cm. The paper's way is neither, and PCA's ellipsoids have 24 neighbors.",
    ]
    plots = {"density": partial(_plot, records)}
    yield Report("density", "Number, reach and selection of samples", records, table, notes, {"drives": found}, plots)


def _against_raw(records: Sequence[Record], system: str, way: str) -> dict[str, Any]:
    """Means over the drives, and the changes of the means and of the worst drive against raw scans."""
    found: dict[str, Any] = {"system": system, "way": way}
    for measure in ("long", "step"):
        mine, before = (
            {r["drive"]: r[measure] for r in records if (r["system"], r["augmentation"]) == (system, name)} for name in (way, RAW)
        )
        found[measure] = mean(mine.values())
        found[f"{measure}_change_percent"] = change(found[measure], mean(before.values()))
        found[f"{measure}_worst_change_percent"] = max(change(mine[drive], before[drive]) for drive in before)
    return found


def density_ways(options: augmentation.Options, source: DriveSource) -> list[Augmentation]:
    """The augmentations, the same for every drive."""
    grid = [densified(name, config) for name, config in density_grid(options.config).items()]
    return [raw(), *(way for way in grid if way.name != RAW)]


def density_grid(config: DensifyConfig) -> dict[str, DensifyConfig]:
    """Configurations by name: `config` with each number of samples and reach, then with other selections, and PCA."""
    filled = replace(config, per_point=None, max_sigma=None)
    config = replace(config, per_point=config.samples_each)
    config = replace(config, max_sigma=config.reach)
    grid = {f"{count} at {reach:g}": replace(config, per_point=count, max_sigma=reach) for reach in REACHES for count in COUNTS}
    own = f"{config.per_point} at {config.max_sigma:g}"
    for limit in THICKEST:
        name = "of any thickness" if limit is None else f"thinner than {limit:g} m"
        grid[f"{own}, {name}"] = replace(config, max_thickness=limit)
    grid[f"{own}, not flat"] = replace(config, flat=False)
    grid[f"{own}, within 30 m"] = replace(config, max_range=30.0)
    paper = replace(config, per_point=7, flat=False, max_thickness=None)
    grid |= {f"the paper's, 7 at {reach:g}": replace(paper, max_sigma=reach) for reach in (1.0, 3.0)}
    grid |= {f"PCA, the paper's, 7 at {reach:g}": replace(paper, model="pca", max_sigma=reach) for reach in _PCA_REACHES}
    return {**grid, f"PCA, {own}": replace(config, model="pca"), own: config, "defaults": filled}


def _plot(records: Sequence[Record], path: Path) -> None:
    """Plot each way of sampling as a point: change from scan to scan, and over many scans."""
    systems = list(dict.fromkeys(r["system"] for r in records))
    plt = pyplot()
    figure, axes = plt.subplots(1, len(systems), figsize=(0.5 + 6.0 * len(systems), 5.0), squeeze=False)
    for drawn, system in zip(axes[0], systems, strict=True):
        for r in (r for r in records if r["system"] == system):
            x, y, way = r["step_change_percent"], r["long_change_percent"], r["way"]
            drawn.plot(x, y, "o", color=COLORS[PCA if way.startswith("PCA") else RAW if way == RAW else POLI])
            drawn.annotate(way, (x, y), xytext=(4, 3), textcoords="offset points", fontsize=7)
        drawn.axhline(0.0, color="k", lw=0.6)
        drawn.axvline(0.0, color="k", lw=0.6)
        drawn.set(title=system, xlabel="RPE from scan to scan, % against raw", ylabel="RPE over many scans, % against raw")
        drawn.grid(alpha=0.25)
    figure.tight_layout()
    save_figure(figure, path)
    plt.close(figure)
