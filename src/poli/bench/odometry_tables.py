"""The tables of `poli bench odometry` from scan to scan: by sensor and voxel size, by drive, and times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from poli.bench.odometry_contestants import CHOSEN, MAP, OURS, PCA, RAW, SCAN, VARIANTS
from poli.bench.odometry_figures import DELTAS, Judged, at_best_settings, mean, mean_rpe, number
from poli.bench.report import Report
from poli.bench.table_cells import NONE, bold_lowest, centimetres, degrees, milliseconds, percent
from poli.tasks.odometry import OdometryConfig

SETTINGS_NOTE = (
    "small_gicp's methods: the setting (gate, neighbours, voxels) with the least mean RPE from scan to scan over the {drives}, one "
    "for each method and voxel size; POLI: the defaults everywhere. All settings are in the JSON"
)


def by_sensor_report(everything: Sequence[Judged], command: str) -> Report:
    """Each method's mean over the places of a sensor, by voxel size and distance in time."""
    simulated = [judged for judged in everything if not judged.real]
    best = at_best_settings(simulated)
    methods = present(best, (*VARIANTS, *OURS))
    rows = []
    means: dict[str, dict[str, float | None]] = {}
    spreads: dict[str, dict[str, Any]] = {}
    lower: dict[str, float | None] = {}
    for name, by_method in by_case(best).items():
        for frames in DELTAS:
            rpe = {method: mean_rpe(drives, frames) for method, drives in by_method.items()}
            places = {m: float(np.std([j.rpe[frames].metres for j in drives])) for m, drives in by_method.items()}
            turns = {m: mean([j.rpe[frames].degrees for j in drives]) for m, drives in by_method.items()}
            cells = {m: f"{centimetres(rpe[m])} ± {centimetres(places[m])} ({degrees(turns[m])})" for m in by_method}
            competing = {m: math.nan if m == MAP else x for m, x in rpe.items()}
            bold = bold_lowest(competing, cells if not math.isnan(mean(rpe.values())) else dict.fromkeys(by_method, NONE))
            restarts = sum(j.restarts for j in by_method.get(SCAN, []))
            rows.append([name, str(frames), *(bold.get(m, NONE) for m in methods), percent(below(rpe)), str(restarts)])
            flat = f"{name}, {frames} frames"
            lower[flat], means[flat] = number(below(rpe)), {m: number(value) for m, value in rpe.items()}
            spreads[flat] = {
                m: {
                    "over_places_m": number(places[m]),
                    "of_errors_m": number(mean([j.rpe[frames].spread for j in drives])),
                    "rotation_deg": number(turns[m]),
                    "pairs": sum(j.rpe[frames].count for j in drives),
                }
                for m, drives in by_method.items()
            }
    compared = compare_drives(best, simulated)
    notes = [
        "RPE: root mean square of the relative translation errors over all pairs of scans so many frames apart, in centimetres: "
        "the mean over the places ± the standard deviation over them (the mean of the rotation errors' RMSE, in degrees)",
        _drives_note(simulated),
        SETTINGS_NOTE.format(drives="places of a sensor"),
        f"lower: {SCAN} against the best of small_gicp's four; bold: the lowest from scan to scan; {PCA} (the ellipsoids of PCA, "
        f"all else as {SCAN}), {RAW} (the paper's way) and {MAP} at the same voxels are for information",
        f"restarts: scans that {SCAN} could not place, over all drives",
        f"small_gicp's are given all returns; ours leave out those beyond {OdometryConfig().max_range:g} m, as they do by default",
        *_worst_notes(compared),
    ]
    figures = {
        "mean_rpe_m": means,
        "poli_below_best_icp_percent": lower,
        "spread": spreads,
        "settings": {name: {m: drives[0].setting for m, drives in by.items()} for name, by in by_case(best).items()},
        "worst_drive": _without_nan(compared[0]) if compared else None,
        "grid": [judged.flat() for judged in simulated],
    }
    columns = ["sensor, voxel", "frames", *methods, "lower", "restarts"]
    return Report("Odometry from scan to scan in held-out worlds", command, columns, rows, notes, figures)


def by_drive_report(everything: Sequence[Judged], command: str) -> Report:
    """Every drive on its own, real ones included, the worst for us first."""
    compared = compare_drives(at_best_settings(everything), everything)
    rows = [
        [
            c["drive"],
            f"{c['voxel_m']:g} m",
            centimetres(c["poli_m"]),
            f"{centimetres(c['rival_m'])} ({c['rival']})",
            percent(c["percent"], signed=True),
            f"{centimetres(c['tuned_m'])} ({c['tuned']})",
            percent(c["tuned_percent"], signed=True),
            "" if math.isnan(c["refined_percent"]) else percent(c["refined_percent"], signed=True),
        ]
        for c in compared
    ]
    columns = ["drive", "voxel", SCAN, "best of small_gicp's", "POLI", "best on this drive alone", "POLI", "POLI, refined poses"]
    notes = [
        "RPE from scan to scan, in centimetres; POLI: how much larger its error is than that to the left, the worst for it first",
        SETTINGS_NOTE.format(drives="drives of a sensor, or on the one real sequence"),
        "best on this drive alone: the least error of any of small_gicp's methods with any setting, chosen with the answer known",
        "real sequences: against the given poses; in the last column against refined ones, and the best on the drive alone there",
        *_worst_notes(compared),
    ]
    figures = {"drives": [_without_nan(c) for c in compared]}
    return Report("Odometry from scan to scan, drive by drive", command, columns, rows, notes, figures)


def times_report(times: Mapping[str, Mapping[str, float]], kiss: Mapping[str, float], scans: int, command: str) -> Report:
    """Milliseconds of a scan by case and method, and KISS-ICP's on the same drive by case."""
    methods = [m for m in (*VARIANTS, *OURS) if any(m in by for by in times.values())]
    rows = []
    for name, by_method in times.items():
        theirs = kiss.get(name, math.nan)
        bold = bold_lowest(by_method, {m: milliseconds(ms, theirs) for m, ms in by_method.items()})
        rows.append([name, *(bold.get(m, NONE) for m in methods), milliseconds(theirs, math.nan)])
    notes = [
        "median of a scan in milliseconds, from raw points to pose (times KISS-ICP's on the same drive), each method at the "
        "setting that its error is published for",
        f"the first {scans} scans of one drive of each sensor, one method after another with nothing beside it, the same threads",
    ]
    figures = {"milliseconds": times, "kiss_icp_milliseconds": {name: number(ms) for name, ms in kiss.items()}}
    columns = ["sensor, voxel", *methods, "KISS-ICP"]
    return Report("Time of odometry from scan to scan", command, columns, rows, notes, figures)


def compare_drives(best: Sequence[Judged], everything: Sequence[Judged]) -> list[dict[str, Any]]:
    """POLI scan to scan against the best of small_gicp's on every drive and voxel size, the worst for POLI first."""
    compared = []
    for ours in (j for j in best if j.method == SCAN):
        at_best, grid = (
            [j for j in those if (j.drive, j.voxel) == (ours.drive, ours.voxel) and j.method in VARIANTS]
            for those in (best, everything)
        )
        if not at_best:
            continue
        mine = ours.rpe[1].metres
        rival, tuned = (min(those, key=lambda j: j.rpe[1].metres) for those in (at_best, grid))
        compared.append(
            {
                "drive": ours.drive,
                "voxel_m": ours.voxel,
                "poli_m": mine,
                "rival": rival.method,
                "rival_m": rival.rpe[1].metres,
                "percent": 100.0 * (mine / rival.rpe[1].metres - 1.0),
                "tuned": f"{tuned.method}, {tuned.setting}",
                "tuned_m": tuned.rpe[1].metres,
                "tuned_percent": 100.0 * (mine / tuned.rpe[1].metres - 1.0),
                "refined_percent": 100.0 * (ours.refined / min(j.refined for j in grid) - 1.0),
            }
        )
    return sorted(compared, key=lambda c: -c["percent"])


def below(by_method: Mapping[str, float]) -> float:
    """Percent by which POLI scan to scan is below the best of small_gicp's."""
    rivals = [by_method[m] for m in VARIANTS if m in by_method and math.isfinite(by_method[m])]
    return 100.0 * (1.0 - by_method[SCAN] / min(rivals)) if rivals and SCAN in by_method else math.nan


def by_case(best: Iterable[Judged]) -> dict[str, dict[str, list[Judged]]]:
    """By sensor (or real sequence) and voxel size, then by method."""
    found: dict[str, dict[str, list[Judged]]] = {}
    for judged in best:
        if judged.voxel != CHOSEN:
            found.setdefault(judged.case, {}).setdefault(judged.method, []).append(judged)
    return found


def present(judged: Iterable[Judged], methods: Sequence[str]) -> list[str]:
    there = {j.method for j in judged}
    return [method for method in methods if method in there]


def _without_nan(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {name: number(x) if isinstance(x, float) else x for name, x in figures.items()}


def _drives_note(simulated: Sequence[Judged]) -> str:
    places = list(dict.fromkeys(j.place for j in simulated))
    scans = max((len(j.poses) for j in simulated), default=0)
    pairs = ", ".join(f"{rpe.count} at {frames}" for frames, rpe in simulated[0].rpe.items()) if simulated else "none"
    return (
        f"for each sensor {len(places)} drives of {scans} scans at 8 m/s in worlds that no model was trained on "
        f"({', '.join(places)}); pairs in a drive by frames: {pairs}"
    )


def _worst_notes(compared: Sequence[Mapping[str, Any]]) -> list[str]:
    if not compared:
        return []
    worst, tuned = compared[0], max(compared, key=lambda c: c["tuned_percent"])
    return [
        f"worst single drive for {SCAN} against the best of small_gicp's at these settings: "
        f"{percent(worst['percent'], signed=True)} ({worst['drive']}, {worst['voxel_m']:g} m); with settings chosen for each drive "
        f"alone: {percent(tuned['tuned_percent'], signed=True)} ({tuned['drive']}, {tuned['voxel_m']:g} m)"
    ]
