"""The tables of the odometry benchmark: from scan to scan, and on a map."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.metrics.odometry import DELTAS, SEGMENTS, Judged, at_best_settings, mean_rpe
from benchmarks.provenance import versions
from benchmarks.report import NONE, Column, Record, Report, Table, mean, show
from benchmarks.rivals.odometry_contestants import CHOSEN, MAP, OURS, PCA, RAW, SCAN, SYSTEMS, VARIANTS
from poli.lidar_odometry import OdometryConfig

SETTINGS_NOTE = (
    "small_gicp's methods: the setting (gate, neighbors, voxels) with the lowest mean RPE from scan to scan over the {drives}, one "
    "per method and voxel size; POLI: always the defaults. All settings are in the JSON"
)


_KISS = "KISS-ICP"


def by_sensor_report(everything: Sequence[Judged]) -> Report:
    """Mean of each method over the places of a sensor, by voxel size and number of frames."""
    best = at_best_settings(everything)
    records = [
        {
            "case": name, "frames": frames, "method": method, "rpe_m": mean_rpe(drives, frames),
            "over_places_m": float(np.std([j.rpe[frames].meters for j in drives])),
            "of_errors_m": mean(j.rpe[frames].spread for j in drives),
            "rotation_deg": mean(j.rpe[frames].degrees for j in drives),
            "pairs": sum(j.rpe[frames].count for j in drives), "restarts": sum(j.restarts for j in drives),
            "competing_m": math.nan if method == MAP else mean_rpe(drives, frames),
        }
        for name, by_method in by_case(best).items() for frames in DELTAS for method, drives in by_method.items()
    ]  # fmt: skip
    compared = compare_drives(best, everything)
    notes = [
        "RPE: root mean square of the relative translation errors over all pairs that many frames apart, in centimeters: "
        "mean ± standard deviation over the places (mean RMSE of the rotation errors, in degrees)",
        _drives_note(everything),
        SETTINGS_NOTE.format(drives="places of a sensor"),
        f"lower: {SCAN} against the best of small_gicp's four; bold: the lowest from scan to scan; {PCA} (ellipsoids of PCA, "
        f"otherwise as {SCAN}), {RAW} (the paper's way) and {MAP} at the same voxels are for reference",
        f"restarts: scans that {SCAN} could not localize, over all drives",
        f"small_gicp's methods use all returns; ours drop those beyond {OdometryConfig().max_range:g} m, their default",
        *_worst_notes(compared),
    ]
    table = Table(
        [Column("sensor, voxel", "{case}"), Column("frames", "{frames}")],
        across="method",
        cell=lambda r: NONE if math.isnan(r["rpe_m"]) else show("{rpe_m:cm} ± {over_places_m:cm} ({rotation_deg:deg})", r),
        lowest="competing_m",
        order=present(best, (*VARIANTS, *OURS)),
        then=[
            ("lower", lambda by: show("{below:%}", {"below": below({m: r["rpe_m"] for m, r in by.items()})})),
            ("restarts", lambda by: str(by[SCAN]["restarts"]) if SCAN in by else "0"),
        ],
    )
    summary = {
        "settings": {name: {m: drives[0].setting for m, drives in by.items()} for name, by in by_case(best).items()},
        "worst_drive": compared[0] if compared else None,
        "grid": [judged.flat() for judged in everything],
    }
    return Report("odometry", "Odometry from scan to scan in held-out worlds", records, table, notes, summary)


def _milliseconds(r: Record) -> str:
    """Milliseconds and, in parentheses, the ratio to KISS-ICP."""
    return show("{ms:.1f}", r) if math.isnan(r["kiss_icp_ms"]) else f"{r['ms']:.1f} ({r['ms'] / r['kiss_icp_ms']:.2f})"


_SYSTEMS = Table(
    [Column("drive", "{shown_as}"), Column("method", "{method}")],
    [
        *(Column(f"RPE {frames}", f"{{rpe_{frames}_m:cm}}", lowest=f"rpe_{frames}_m") for frames in DELTAS),
        Column("drift", "{drift_percent:%2}", lowest="drift_percent"),
        Column("segments", "{segments_percent:%2}", lowest="segments_percent"),
        Column("ms per scan", _milliseconds, lowest="ms"),
        Column("restarts", "{restarts}"),
    ],
    among="{shown_as}",
)


def systems_report(everything: Sequence[Judged]) -> Report:
    """POLI with a map against other systems, all with raw scans and their own choice of voxel size."""
    best = [j for j in at_best_settings(everything) if j.voxel == CHOSEN]
    groups = {f"mean of {sensor}": [j for j in best if j.group == sensor] for sensor in dict.fromkeys(j.group for j in best)}
    groups |= {drive: [j for j in best if j.drive == drive] for drive in dict.fromkeys(j.drive for j in best)}
    shown = []
    for name, judged in groups.items():
        kiss = mean(j.milliseconds for j in judged if j.method == _KISS)
        for method in present(best, (*SYSTEMS, MAP)):
            mine = [j.flat() for j in judged if j.method == method]
            means = {key: mean(flat[key] for flat in mine) for key in mine[0] if key.startswith(("rpe_", "drift_p", "segments_"))}
            ms = mean(j.milliseconds for j in judged if j.method == method)
            times = {"ms": ms, "kiss_icp_ms": kiss, "times_kiss_icp": ms / kiss}
            shown.append({**mine[0], **means, **times, "shown_as": name, "restarts": sum(flat["restarts"] for flat in mine)})
    tunings = sorted({f"{j.group}: {j.setting}" for j in best if j.method == "GenZ-ICP"})
    notes = [
        "RPE in centimeters over all pairs of scans 1, 50 and 100 frames apart; -: the sequence is too short",
        "drift: error after 100 frames (or all, if fewer) relative to the path, in percent, averaged over all starts; segments: "
        f"KITTI's measure on {', '.join(f'{s:g}' for s in SEGMENTS)} m, since the drives are too short for its 100 to 800 m",
        "time: median milliseconds per scan (ratio to KISS-ICP), one after another on an idle machine, with the same threads",
        f"{versions('kiss-icp', 'genz-icp', 'evalio')}",
        f"GenZ-ICP: the better of its defaults and its outdoor tuning ({', '.join(tunings)}); POLI: the defaults",
        "restarts: scans that POLI could not localize, where it continued with a new map",
    ]
    records = [r for r in shown if r["shown_as"] == r["drive"]]
    return Report("odometry_systems", "Odometry on a map against other systems", records, _SYSTEMS, notes, shown=shown)


def compare_drives(best: Sequence[Judged], everything: Sequence[Judged]) -> list[dict[str, Any]]:
    """Compare POLI scan to scan with the best small_gicp method on each drive and voxel size, the worst for POLI first."""
    compared = []
    for ours in (j for j in best if j.method == SCAN):
        at_best, grid = (
            [j for j in those if (j.drive, j.voxel) == (ours.drive, ours.voxel) and j.method in VARIANTS]
            for those in (best, everything)
        )
        if not at_best:
            continue
        mine = ours.rpe[1].meters
        rival, tuned = (min(those, key=lambda j: j.rpe[1].meters) for those in (at_best, grid))
        compared.append(
            {
                "drive": ours.drive,
                "voxel_m": ours.voxel,
                "poli_m": mine,
                "rival": rival.method,
                "rival_m": rival.rpe[1].meters,
                "percent": 100.0 * (mine / rival.rpe[1].meters - 1.0),
                "tuned": f"{tuned.method}, {tuned.setting}",
                "tuned_m": tuned.rpe[1].meters,
                "tuned_percent": 100.0 * (mine / tuned.rpe[1].meters - 1.0),
            }
        )
    return sorted(compared, key=lambda c: -c["percent"])


def below(by_method: Mapping[str, float]) -> float:
    """Percent by which POLI scan to scan is below the best small_gicp method."""
    rivals = [by_method[m] for m in VARIANTS if m in by_method and math.isfinite(by_method[m])]
    return 100.0 * (1.0 - by_method[SCAN] / min(rivals)) if rivals and SCAN in by_method else math.nan


def by_case(best: Iterable[Judged]) -> dict[str, dict[str, list[Judged]]]:
    """Group by sensor and voxel size, then by method."""
    found: dict[str, dict[str, list[Judged]]] = {}
    for judged in best:
        if judged.voxel != CHOSEN:
            found.setdefault(judged.case, {}).setdefault(judged.method, []).append(judged)
    return found


def present(judged: Iterable[Judged], methods: Sequence[str]) -> list[str]:
    there = {j.method for j in judged}
    return [method for method in methods if method in there]


def _drives_note(simulated: Sequence[Judged]) -> str:
    places = list(dict.fromkeys(j.place for j in simulated))
    scans = max((len(j.poses) for j in simulated), default=0)
    pairs = ", ".join(f"{rpe.count} at {frames}" for frames, rpe in simulated[0].rpe.items()) if simulated else "none"
    return (
        f"for each sensor {len(places)} drives of {scans} scans at 8 m/s in held-out worlds "
        f"({', '.join(places)}); pairs in a drive by frames: {pairs}"
    )


def _worst_notes(compared: Sequence[Mapping[str, Any]]) -> list[str]:
    if not compared:
        return []
    worst, tuned = compared[0], max(compared, key=lambda c: c["tuned_percent"])
    return [
        f"worst single drive for {SCAN} against the best of small_gicp's at these settings: "
        f"{worst['percent']:+.1f} % ({worst['drive']}, {worst['voxel_m']:g} m); with settings chosen for each drive "
        f"separately: {tuned['tuned_percent']:+.1f} % ({tuned['drive']}, {tuned['voxel_m']:g} m)"
    ]
