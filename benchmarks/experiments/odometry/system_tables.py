"""The tables of `python -m benchmarks odometry` with whole systems in them: on a map, and on real sequences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from benchmarks.experiments.odometry.tables import SETTINGS_NOTE, below, by_case, present
from benchmarks.metrics.odometry import DELTAS, SEGMENTS, Judged, at_best_settings, mean, mean_rpe, number
from benchmarks.report import NONE, Report, bold_lowest, centimetres, milliseconds, percent
from benchmarks.rivals.odometry_contestants import CHOSEN, MAP, OURS, SCAN, SYSTEMS, VARIANTS

_KISS = "KISS-ICP"


def systems_report(everything: Sequence[Judged], command: str) -> Report:
    """POLI with a map against KISS-ICP and GenZ-ICP, everyone with raw scans and a voxel size of its own choice."""
    best = [j for j in at_best_settings(everything) if j.voxel == CHOSEN]
    methods = present(best, (*SYSTEMS, MAP))
    rows = []
    figures: dict[str, dict[str, Any]] = {}
    for sensor in dict.fromkeys(j.group for j in best if not j.real):
        rows += _system_rows(f"mean of {sensor}", {m: [j for j in best if (j.group, j.method) == (sensor, m)] for m in methods})
    for drive in dict.fromkeys(j.drive for j in best):
        here = {m: [j for j in best if (j.drive, j.method) == (drive, m)] for m in methods}
        rows += _system_rows(drive, here)
        kiss = mean(j.milliseconds for j in here.get(_KISS, []))
        figures[drive] = {m: {**j.flat(), "times_kiss_icp": number(j.milliseconds / kiss)} for m, (j,) in here.items()}
    tunings = sorted({f"{j.group}: {j.setting}" for j in best if j.method == "GenZ-ICP"})
    notes = [
        "RPE in centimetres over all pairs of scans 1, 50 and 100 frames apart; -: the sequence is too short",
        "drift: the end of 100 frames (or of all that there are) against the path, in percent, averaged over all starts; segments: "
        f"KITTI's measure on {', '.join(f'{s:g}' for s in SEGMENTS)} m, since the drives are too short for its 100 to 800 m",
        "time: median of a scan in milliseconds (times KISS-ICP's), one after another with nothing beside it, the same threads",
        f"{_versions()}; of GenZ-ICP the better of its defaults and its outdoor tuning ({', '.join(tunings)}); POLI: the defaults",
        "real sequences: against the given poses; restarts: scans that POLI could not place, where it went on with a new map",
    ]
    columns = ["drive", "method", *(f"RPE {frames}" for frames in DELTAS), "drift", "segments", "ms a scan", "restarts"]
    return Report("Odometry on a map against KISS-ICP and GenZ-ICP", command, columns, rows, notes, {"drives": figures})


def _system_rows(name: str, drives: dict[str, list[Judged]]) -> list[list[str]]:
    """One a method: the means over its drives, the lowest of each column in bold."""
    times = {m: mean(j.milliseconds for j in those) for m, those in drives.items()}
    drifts = {m: mean(j.drift for j in those) for m, those in drives.items()}
    segments = {m: mean(j.segments for j in those) for m, those in drives.items()}
    columns = []
    for frames in DELTAS:
        rpe = {m: mean_rpe(those, frames) for m, those in drives.items()}
        columns.append(bold_lowest(rpe, {m: centimetres(x) for m, x in rpe.items()}))
    columns += [bold_lowest(shares, {m: percent(x, digits=2) for m, x in shares.items()}) for shares in (drifts, segments)]
    columns.append(bold_lowest(times, {m: milliseconds(x, times.get(_KISS, math.nan)) for m, x in times.items()}))
    return [[name, m, *(column[m] for column in columns), str(sum(j.restarts for j in drives[m]))] for m in drives]


def real_report(everything: Sequence[Judged], command: str) -> Report:
    """Real sequences, from scan to scan, against the given poses and against refined ones."""
    real = [judged for judged in everything if judged.real]
    best, best_refined = at_best_settings(real), at_best_settings(real, refined=True)
    own = {m: f"{m}, own voxel" if m == MAP else m for m in present([j for j in best if j.voxel == CHOSEN], (*SYSTEMS, MAP))}
    columns = [*present([j for j in best if j.voxel != CHOSEN], (*VARIANTS, *OURS)), *own.values()]
    rows = []
    figures: dict[str, dict[str, Any]] = {}
    for name in by_case(best):
        given = {m: j.rpe[1].metres for m, j in _of_case(best, name, own).items()}
        refined = {m: j.refined for m, j in _of_case(best_refined, name, own).items()}
        bold = [bold_lowest(errors, {m: centimetres(x) for m, x in errors.items()}) for errors in (given, refined)]
        cells = (" / ".join(errors[m] for errors in bold) if m in given else NONE for m in columns)
        rows.append([name, *cells, f"{percent(below(given))} / {percent(below(refined))}"])
        figures[name] = {
            "rpe_1_m": {m: number(x) for m, x in given.items()},
            "rpe_1_refined_m": {m: number(x) for m, x in refined.items()},
            "poli_below_best_icp_percent": number(below(given)),
            "poli_below_best_icp_refined_percent": number(below(refined)),
        }
    notes = [
        "RPE from scan to scan in centimetres, against the given poses / against refined ones",
        "the given poses (GPS and inertial) err themselves: KITTI's by some 3 cm sideways a scan, a floor under everyone's error. "
        "The refined ones are small_gicp's GICP on the full scans, from the given ones; they favour GICP, if anyone",
        SETTINGS_NOTE.format(drives="one sequence at hand") + "; chosen anew against the refined poses",
        f"lower: {SCAN} against the best of small_gicp's four; {', '.join(own.values())}: on a map, from raw scans",
    ]
    everyone = {"sequences": figures, "grid": [judged.flat() for judged in real]}
    return Report("Odometry on real sequences", command, ["sequence, voxel", *columns, "lower"], rows, notes, everyone)


def _of_case(best: Sequence[Judged], name: str, own: Mapping[str, str]) -> dict[str, Judged]:
    """By method; those that choose their own voxels by the names that `own` gives them."""
    here = {method: judged for method, (judged,) in by_case(best)[name].items()}
    drive = next(iter(here.values())).drive
    return here | {own[j.method]: j for j in best if j.voxel == CHOSEN and j.drive == drive}


def _versions() -> str:
    found = []
    for package in ("kiss-icp", "genz-icp"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
