"""The tables of `poli bench augmentation` and `poli bench density`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from poli.bench.augmentation_contestants import INTERPOLATION, PCA, POLI, RAW
from poli.bench.augmentation_figures import Gain, change, mean_of
from poli.bench.odometry_figures import number
from poli.bench.report import Report
from poli.bench.table_cells import bold_lowest, centimetres, percent
from poli.tasks.densify import DensifyConfig

_MEASURES = ("long", "step", "refined")


def augmentation_report(gains: Sequence[Gain], ways: Sequence[str], config: DensifyConfig, command: str) -> Report:
    """A row for each system, drive and measure, and the means over simulated and over real drives."""
    rows: list[list[str]] = []
    means: dict[str, Any] = {}
    for system in dict.fromkeys(g.system for g in gains):
        for real in (False, True):
            group = [g for g in gains if g.system == system and g.real == real]
            drives = list(dict.fromkeys(g.drive for g in group))
            for drive in drives:
                rows += _rows(system, drive, [g for g in group if g.drive == drive], ways)
            if drives:
                name = "real, mean" if real else "simulated, mean"
                rows += _rows(system, f"**{name}**", group, ways)
                means[f"{system}, {name}"] = _means(group, system, ways)
    kinds = f"{config.per_point} samples an ellipsoid within {config.max_sigma:g} sigma, ellipsoids at {config.voxel:g} m voxels"
    notes = [
        "Relative pose errors in centimetres (root mean square of all pairs of scans so far apart); the lowest of a row is bold. "
        f"The last column is {POLI} against {RAW}: below zero is better.",
        f"{POLI} and {PCA}: {kinds}{_chosen(config)}; {PCA} has 24 neighbours and the same sampling.",
        f"{INTERPOLATION}: three new rows between neighbouring rings where both returns are of one surface, by inverse "
        "range: a stand-in for learned upsampling, of which no network is at hand that fits all sensors here.",
        "KISS-ICP runs with its defaults, GenZ-ICP with its authors' outdoor tuning; neither knows what was done to the scans.",
        f"Real sequences are thinned to 16 rings; they are short, and {POLI} and {PCA} are means over three seeds. "
        "Their poses are good to some centimetres, so that errors from scan to scan are also given against poses "
        "refined by GICP on all rings.",
    ]
    figures = {"means": means, "drives": [g.flat() for g in gains]}
    return Report(
        "Odometry of others on denser scans", command, ("system", "drive", "frames", *ways, "change"), rows, notes, figures
    )


def density_report(gains: Sequence[Gain], ways: Sequence[str], command: str) -> Report:
    """A row for each way of sampling: its means over the drives, and how far the worst drive is from raw."""
    rows, flat = [], {}
    for system in dict.fromkeys(g.system for g in gains):
        for way in ways:
            long, step = (mean_of(gains, system, way, measure) for measure in ("long", "step"))
            known = {"rpe_long_m": number(long), "rpe_1_m": number(step)}
            for measure in ("long", "step"):
                raw = {g.drive: getattr(g, measure) for g in gains if (g.system, g.augmentation) == (system, RAW)}
                mine = {g.drive: getattr(g, measure) for g in gains if (g.system, g.augmentation) == (system, way)}
                before = mean_of(gains, system, RAW, measure)
                known[f"{measure}_change_percent"] = number(change(mean_of(gains, system, way, measure), before))
                known[f"{measure}_worst_change_percent"] = number(max(change(mine[d], raw[d]) for d in raw))
            flat[f"{system}, {way}"] = known
            changes = [
                percent(_nan(known[f"{m}_{w}change_percent"]), signed=True) for m in ("long", "step") for w in ("", "worst_")
            ]
            rows.append([system, way, centimetres(long), *changes[:2], centimetres(step), *changes[2:]])
    frames = "/".join(str(f) for f in sorted({g.frames for g in gains}))
    columns = ("system", "scans", f"RPE {frames}", "to raw", "worst drive", "RPE 1", "to raw", "worst drive")
    drives = ", ".join(dict.fromkeys(g.drive for g in gains))
    notes = [
        f"Means over {drives}, in centimetres; below zero is better than raw scans.",
        "`1 at 12` is one sample of each ellipsoid within twelve calibrated standard deviations; if nothing else is said, flat, "
        "and of ellipsoids no thicker than 5 cm. The paper's way is neither, and PCA's ellipsoids have 24 neighbours.",
    ]
    return Report(
        "How dense, how far, and where", command, columns, rows, notes, {"ways": flat, "drives": [g.flat() for g in gains]}
    )


def _rows(system: str, name: str, group: Sequence[Gain], ways: Sequence[str]) -> list[list[str]]:
    """One for each measure that there is."""
    rows = []
    frames = {"long": "/".join(str(f) for f in sorted({g.frames for g in group})), "step": "1", "refined": "1, refined poses"}
    for measure in _MEASURES:
        values = {way: mean_of(group, system, way, measure) for way in ways}
        if any(math.isfinite(value) for value in values.values()):
            cells = bold_lowest(values, {way: centimetres(value) for way, value in values.items()})
            gained = percent(change(values[POLI], values[RAW]), signed=True)
            rows.append([system, name, frames[measure], *cells.values(), gained])
    return rows


def _means(group: Sequence[Gain], system: str, ways: Sequence[str]) -> dict[str, dict[str, float | None]]:
    return {measure: {way: number(mean_of(group, system, way, measure)) for way in ways} for measure in _MEASURES}


def _chosen(config: DensifyConfig) -> str:
    chosen = f", of those within {config.max_range:g} m" if config.max_range is not None else ""
    chosen += f", planarity of {config.planarity:g} or more" if config.planarity else ""
    return chosen + (f", no thicker than {config.max_thickness:g} m" if config.max_thickness is not None else "")


def _nan(value: float | None) -> float:
    return math.nan if value is None else value
