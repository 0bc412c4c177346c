"""The tables of the odometry benchmark: scan to scan by sensor, by drive and by time; on a map; and on real sequences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.metrics.odometry import DELTAS, SEGMENTS, Judged, at_best_settings, mean_rpe
from benchmarks.report import NONE, Column, Record, Report, Table, mean, show, versions
from benchmarks.rivals.odometry_contestants import CHOSEN, MAP, OURS, PCA, RAW, SCAN, SYSTEMS, VARIANTS
from poli.tasks.odometry import OdometryConfig

SETTINGS_NOTE = (
    "small_gicp's methods: the setting (gate, neighbors, voxels) with the lowest mean RPE from scan to scan over the {drives}, one "
    "per method and voxel size; POLI: always the defaults. All settings are in the JSON"
)


_KISS = "KISS-ICP"


def by_sensor_report(everything: Sequence[Judged]) -> Report:
    """Mean of each method over the places of a sensor, by voxel size and number of frames."""
    simulated = [judged for judged in everything if not judged.real]
    best = at_best_settings(simulated)
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
    compared = compare_drives(best, simulated)
    notes = [
        "RPE: root mean square of the relative translation errors over all pairs that many frames apart, in centimeters: "
        "mean ± standard deviation over the places (mean RMSE of the rotation errors, in degrees)",
        _drives_note(simulated),
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
        "grid": [judged.flat() for judged in simulated],
    }
    return Report("odometry", "Odometry from scan to scan in held-out worlds", records, table, notes, summary)


_BY_DRIVE = Table(
    [Column("drive", "{drive}"), Column("voxel", "{voxel_m:g} m")],
    [
        Column(SCAN, "{poli_m:cm}"),
        Column("best of small_gicp's", "{rival_m:cm} ({rival})"),
        Column("POLI", "{percent:+%}"),
        Column("best on this drive alone", "{tuned_m:cm} ({tuned})"),
        Column("POLI", "{tuned_percent:+%}"),
        Column("POLI, refined poses", lambda r: "" if math.isnan(r["refined_percent"]) else show("{refined_percent:+%}", r)),
    ],
)


def by_drive_report(everything: Sequence[Judged]) -> Report:
    """Each drive separately, including real ones, the worst for us first."""
    records = compare_drives(at_best_settings(everything), everything)
    notes = [
        "RPE from scan to scan, in centimeters; POLI: its error relative to the column on the left (below 0 is better)",
        SETTINGS_NOTE.format(drives="drives of a sensor, or the real sequence"),
        "best on this drive alone: the lowest error of any small_gicp method with any setting, chosen in hindsight",
        "real sequences: against the given poses; in the last column against refined ones, relative to the best on the drive alone",
        *_worst_notes(records),
    ]
    return Report("odometry_drives", "Odometry from scan to scan, drive by drive", records, _BY_DRIVE, notes)


def times_report(times: Mapping[str, Mapping[str, float]], kiss: Mapping[str, float], scans: int) -> Report:
    """Milliseconds per scan by case and method, and those of KISS-ICP on the same drive by case."""
    records = [
        {"case": name, "method": method, "ms": ms, "kiss_icp_ms": kiss.get(name, math.nan)}
        for name, by_method in times.items() for method, ms in by_method.items()
    ]  # fmt: skip
    table = Table(
        [Column("sensor, voxel", "{case}")],
        across="method",
        cell=_milliseconds,
        lowest="ms",
        order=[m for m in (*VARIANTS, *OURS) if any(m in by for by in times.values())],
        then=[(_KISS, lambda by: show("{kiss_icp_ms:.1f}", next(iter(by.values()))))],
    )
    notes = [
        "median milliseconds per scan, from raw points to pose (ratio to KISS-ICP on the same drive), each method at the "
        "setting of its published error",
        f"the first {scans} scans of one drive per sensor, one method after another on an idle machine, with the same threads",
    ]
    return Report("odometry_times", "Time of odometry from scan to scan", records, table, notes)


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
    groups = {
        f"mean of {sensor}": [j for j in best if j.group == sensor] for sensor in dict.fromkeys(j.group for j in best if not j.real)
    }
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
        "real sequences: as recorded, against the given poses (with point times: odometry_real_systems); restarts: scans that POLI "
        "could not localize, where it continued with a new map",
    ]
    records = [r for r in shown if r["shown_as"] == r["drive"]]
    return Report("odometry_systems", "Odometry on a map against other systems", records, _SYSTEMS, notes, shown=shown)


def real_report(everything: Sequence[Judged]) -> Report:
    """Real sequences, from scan to scan, against the given poses and against refined ones."""
    real = [judged for judged in everything if judged.real]
    best, best_refined = at_best_settings(real), at_best_settings(real, refined=True)
    own = {m: f"{m}, own voxel" if m == MAP else m for m in present([j for j in best if j.voxel == CHOSEN], (*SYSTEMS, MAP))}
    records = []
    for name in by_case(best):
        given = {m: j.rpe[1].meters for m, j in _of_case(best, name, own).items()}
        refined = {m: j.refined for m, j in _of_case(best_refined, name, own).items()}
        least = [min(errors.values()) for errors in (given, refined)]
        for m in given:
            cells = (
                f"**{cell}**" if error == best_one else cell
                for error, best_one in zip((given[m], refined[m]), least, strict=True)
                for cell in [show("{error:cm}", {"error": error})]
            )
            found = {"case": name, "method": m, "rpe_1_m": given[m], "rpe_1_refined_m": refined[m]}
            records.append({**found, "shown_as": " / ".join(cells)})
    table = Table(
        [Column("sequence, voxel", "{case}")],
        across="method",
        cell="{shown_as}",
        order=[*present([j for j in best if j.voxel != CHOSEN], (*VARIANTS, *OURS)), *own.values()],
        then=[
            (
                "lower",
                lambda by: " / ".join(
                    show("{below:%}", {"below": below({m: r[key] for m, r in by.items()})})
                    for key in ("rpe_1_m", "rpe_1_refined_m")
                ),
            )
        ],
    )
    notes = [
        "RPE from scan to scan in centimeters, against the given poses / against refined ones",
        "the given poses (GPS and inertial) have errors: about 3 cm sideways per scan for KITTI, a lower bound for all methods. "
        "The refined ones come from small_gicp's GICP on the full scans, starting from the given ones; they may favor GICP",
        SETTINGS_NOTE.format(drives="sequence") + "; chosen again against the refined poses",
        f"lower: {SCAN} against the best of small_gicp's four; {', '.join(own.values())}: on a map, from raw scans",
    ]
    summary = {"grid": [judged.flat() for judged in real]}
    return Report("odometry_real", "Odometry on real sequences", records, table, notes, summary)


def _of_case(best: Sequence[Judged], name: str, own: Mapping[str, str]) -> dict[str, Judged]:
    """Results by method; methods that choose their voxels are renamed by `own`."""
    here = {method: judged for method, (judged,) in by_case(best)[name].items()}
    drive = next(iter(here.values())).drive
    return here | {own[j.method]: j for j in best if j.voxel == CHOSEN and j.drive == drive}


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
                "refined_percent": 100.0 * (ours.refined / min(j.refined for j in grid) - 1.0),
            }
        )
    return sorted(compared, key=lambda c: -c["percent"])


def below(by_method: Mapping[str, float]) -> float:
    """Percent by which POLI scan to scan is below the best small_gicp method."""
    rivals = [by_method[m] for m in VARIANTS if m in by_method and math.isfinite(by_method[m])]
    return 100.0 * (1.0 - by_method[SCAN] / min(rivals)) if rivals and SCAN in by_method else math.nan


def by_case(best: Iterable[Judged]) -> dict[str, dict[str, list[Judged]]]:
    """Group by sensor (or real sequence) and voxel size, then by method."""
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
