"""Odometry on a map on real sequences, against KISS-ICP, GenZ-ICP, CT-ICP, MAD-ICP and LOAM: errors and drift.

Every system receives the same points, point times and corrections. Poses are cached: a run after a change of our code only repeats
our part.

Example: python -m benchmarks odometry_real --real sequences --out docs/results
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from benchmarks.cache import Cache
from benchmarks.data.drives import SYSTEM_SEQUENCES, RealDrive, RealSequence, RecordedDrive
from benchmarks.data.real_sequences import median_residuals
from benchmarks.metrics.odometry import drift, far_frames, horizontal_rpe
from benchmarks.options import MODEL, PROCESSES, RUNS, option
from benchmarks.parallel import in_processes
from benchmarks.provenance import versions
from benchmarks.report import NONE, Column, Record, Report, Table, centimeters, mean, show
from benchmarks.rivals.odometry_contestants import MAP, SYSTEMS, Contestant, Outcome, system_contestants
from poli.errors import InputError
from poli.lidar_odometry.deskewing import deskew
from poli.lidar_odometry.trajectory_errors import relative_errors
from poli.scan import Scan
from poli.se3 import inverse, log
from poli.threads import thread_count

MODELS = ("lidar",)

_SETTLED = 10  # scans: later, every system knows its velocity
_APART, _PAIRS = 20, 12  # scans between those whose surfaces are compared, and pairs per sequence


@dataclass(frozen=True)
class Options:
    model: str = option("lidar", MODEL)
    real: Path | None = option(None, "folder of real sequences in the layout of KITTI odometry (required)")
    runs: Path = option(Path("runs/odometry_real"), RUNS)
    sequences: tuple[str, ...] = option((), "names of sequences, separated by commas; without it, all that are found")
    rivals: tuple[str, ...] = option(SYSTEMS, "rivals, separated by commas")
    processes: int = option(0, PROCESSES, least=0)
    known: tuple[RealSequence, ...] = SYSTEM_SEQUENCES

    def __post_init__(self) -> None:
        strange = [name for name in self.rivals if name not in SYSTEMS]
        if strange:
            raise InputError(f"rivals: {strange[0]!r} is unknown; choose from {', '.join(SYSTEMS)}")
        names = {real.sequence for real in self.known}
        unknown = [name for name in self.sequences if name not in names]
        if unknown:
            raise InputError(f"sequences: {unknown[0]!r} is unknown; choose from {', '.join(sorted(names))}")

    def sources(self) -> list[RealDrive]:
        if self.real is None:
            raise InputError("odometry_real needs real sequences; give their folder by --real")
        root = self.real
        chosen = [real for real in self.known if real.sequence in (self.sequences or [real.sequence])]
        found = [real for real in chosen if (root / "sequences" / real.sequence).is_dir()]
        missing = sorted({real.sequence for real in chosen} - {real.sequence for real in found})
        if not found or (self.sequences and missing):
            raise InputError(f"{root}: there is no sequences/{missing[0]}; the layout is that of KITTI odometry")
        return [RealDrive(root, real) for real in found]


def run(options: Options) -> Iterator[Report]:
    sources = options.sources()
    processes = options.processes or thread_count()
    work = partial(_judged, options)
    records = (
        in_processes(work, sources, processes, "sequences") if processes > 1 else [work(s) for s in track(sources, "sequences")]
    )
    flat = [record for those in records for record in those]
    yield errors_report(flat)
    yield surfaces_report(flat)


def _judged(options: Options, source: RealDrive) -> list[dict[str, Any]]:
    kept, drive = Cache(options.runs), source.open()
    given, found = surface_residual(drive, drive.poses), []
    for contestant in system_contestants(drive, options.model, options.rivals):
        outcome = kept.outcome(drive, contestant)
        surfaces = {"surfaces_m": surface_residual(drive, outcome.poses), "surfaces_given_m": given}
        found.append({**judge(drive, contestant, outcome), **surfaces})
    return found


def surface_residual(drive: RecordedDrive, poses: np.ndarray) -> float:  # (M, 4, 4)
    """How well surfaces agree under poses: the median over pairs of scans, `_APART` scans apart, of the median distance of nearest
    points across their surfaces, in meters. It needs no true poses. Scans are deskewed by the same poses."""
    apart = min(_APART, len(drive) // 2)
    rows = np.linspace(1, len(drive) - 1 - apart, _PAIRS).round().astype(int)
    found = [
        median_residuals(_deskewed(drive, poses, i), _deskewed(drive, poses, i + apart), inverse(poses[i]) @ poses[i + apart])
        for i in rows
    ]
    return float(np.median(found))


def _deskewed(drive: RecordedDrive, poses: np.ndarray, row: int) -> np.ndarray:  # (M, 4, 4) -> (N, 3)
    """The points of a scan, deskewed by the velocity from the scan before it to this one."""
    if drive.times is None or drive.stamps is None:
        return drive.scans[row].astype(np.float64)
    elapsed = 1e-9 * (drive.stamps[row] - drive.stamps[row - 1])
    scan = Scan(drive.scans[row], {"time": drive.times[row]}, drive.stamps[row])
    return deskew(scan, log(inverse(poses[row - 1]) @ poses[row]) / elapsed).points.astype(np.float64)


def judge(drive: RecordedDrive, contestant: Contestant, outcome: Outcome) -> dict[str, Any]:
    """Errors of all pairs of scans that are 1 and n scans apart."""
    frames = far_frames(len(drive))
    steps, far = (relative_errors(outcome.poses, drive.poses, n, pairs="all") for n in (1, frames))
    settled = steps.translation[steps.rows[:, 0] >= _SETTLED]
    return {
        "sequence": drive.name, "scans": len(drive), "method": contestant.method, "setting": contestant.setting, "frames": frames,
        "rpe_1_m": steps.rmse.translation, "rpe_n_m": far.rmse.translation,
        "rpe_1_settled_m": float(np.sqrt(np.mean(settled**2))) if len(settled) else math.nan,
        "rpe_n_horizontal_m": horizontal_rpe(outcome.poses, drive.poses, frames),
        "rpe_1_deg": steps.rmse.rotation, "rpe_n_deg": far.rmse.rotation,
        "drift_percent": drift(outcome.poses, drive.poses, frames),
        "restarts": outcome.restarts, "degenerate_scans": outcome.degenerate,
    }  # fmt: skip


_MEASURES = ("rpe_1_m", "rpe_n_m", "rpe_1_settled_m", "rpe_n_horizontal_m", "drift_percent")
_FLAT = "nuscenes"  # sequences whose true poses have no height


def at_best(records: Sequence[Record]) -> list[dict[str, Any]]:
    """One record for each sequence and method, with each measure at the setting where it is lowest."""
    grouped: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        grouped.setdefault((record["sequence"], record["method"]), []).append(record)
    return [{**those[0], **{m: min(r[m] for r in those) for m in _MEASURES}} for those in grouped.values()]


def with_ratios(best: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add POLI's ratios to the best rival in each measure, to the records of POLI."""
    found = []
    for record in best:
        rivals = [r for r in best if r["sequence"] == record["sequence"] and r["method"] != MAP]
        ratios = (
            {f"{m}_ratio": record[m] / min(r[m] for r in rivals) for m in _MEASURES} if rivals and record["method"] == MAP else {}
        )
        found.append({**record, **ratios})
    return found


def summary_of(compared: Sequence[Record]) -> dict[str, dict[str, float]]:
    """Mean and largest ratio in each measure."""
    ours = [r for r in compared if f"{_MEASURES[0]}_ratio" in r]
    ratios = {m: [r[f"{m}_ratio"] for r in ours] for m in _MEASURES}
    return {"mean": {m: mean(r) for m, r in ratios.items()}, "worst": {m: max(r, default=math.nan) for m, r in ratios.items()}}


def errors_report(records: Sequence[dict[str, Any]]) -> Report:
    """RPE and drift of all systems by sequence, and our ratio to the best rival."""
    compared = with_ratios(at_best(records))
    summary = summary_of(compared)
    shown: list[dict[str, Any]] = list(compared)
    if any(f"{_MEASURES[0]}_ratio" in r for r in compared):
        for name, ratios in summary.items():
            shown.append({"sequence": name, "method": MAP, "rpe_1_m": math.nan, **{f"{m}_ratio": v for m, v in ratios.items()}})
    for r in shown:
        r["shown_as"] = r["sequence"] if "frames" not in r else f"{r['sequence']} ({r['scans']} scans, n = {r['frames']})"
    names = [name for name in (*SYSTEMS, MAP) if any(r["method"] == name for r in records)]
    table = Table(
        [Column("sequence", "{shown_as}")],
        across="method",
        cell=_cell,
        order=names,
        then=[("ratio, 1 scan", partial(_ratio, "rpe_1_m_ratio")), ("ratio, n scans", partial(_ratio, "rpe_n_m_ratio"))],
    )
    notes = [
        "RPE over 1 scan / over n scans in centimeters (root mean square over all pairs), and the drift over n scans in percent of "
        "the path, which is meters per 100 m",
        "ratio: POLI to the best rival on the sequence, below 1 is better; of a rival, each measure is at the setting where it is "
        "lowest, of POLI at the defaults",
        f"settings: {_settings(records)}",
        "KITTI: point times from the azimuth and corrected elevations (0.205°) for all systems; rivals that deskew also run "
        "without times, and the lower error counts. The first scans of a drive, where such systems do not know their velocity, are "
        f"counted; without the first {_SETTLED}, the ratio over 1 scan is {_mean_and_worst(summary, 'rpe_1_settled_m')}",
        "all poses are at the stamps of the scans: KISS-ICP and MAD-ICP deskew to the last point, CT-ICP returns the first one; "
        "their poses are moved to the stamp by the motion that they estimated",
        "LOAM receives rings (by file order for KITTI, by elevation for the others) and scans deskewed with its own last motion",
        *_flat_note(compared),
        f"{versions('kiss-icp', 'genz-icp', 'evalio')}",
        "true poses: GPS and inertial for KITTI, of the dataset for nuScenes, of other LiDAR systems for the rest",
    ]
    more = {"ratios": summary, "compared": compared}
    return Report("odometry_real", "Odometry on a map on real sequences", records, table, notes, more, shown=shown)


def surfaces_report(records: Sequence[dict[str, Any]]) -> Report:
    """How well the surfaces of distant scans agree under the poses of each system, and under the given ones."""
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in records:
        grouped.setdefault((record["sequence"], record["method"]), []).append(record)
    best = [min(those, key=lambda r: r["surfaces_m"]) for those in grouped.values()]
    names = [name for name in (*SYSTEMS, MAP) if any(r["method"] == name for r in records)]
    table = Table(
        [Column("sequence", "{sequence}"), Column("given poses", lambda r: centimeters(r["surfaces_given_m"]))],
        across="method",
        cell=lambda r: centimeters(r["surfaces_m"]),
        order=names,
        lowest="surfaces_m",
    )
    notes = [
        f"median distance in centimeters of nearest points across their surfaces, between scans {_APART} scans apart (half the "
        f"sequence where it is shorter), {_PAIRS} pairs per sequence; each system at its best setting, POLI at the defaults",
        "this needs no true poses: where the given poses have the largest value, errors against them are mostly their own",
        "scans with point times are deskewed with the velocities of the poses in question, of each system or given",
    ]
    return Report("odometry_real_surfaces", "Agreement of surfaces on real sequences", records, table, notes, shown=best)


def _cell(r: Record) -> str:
    if math.isnan(r["rpe_1_m"]):
        return NONE
    return f"{centimeters(r['rpe_1_m'])} / {centimeters(r['rpe_n_m'])}, {show('{drift_percent:%2}', r)}"


def _ratio(name: str, by: dict[Any, Record]) -> str:
    return show(f"{{{name}:.2f}}", by[MAP]) if name in by.get(MAP, {}) else NONE


def _mean_and_worst(summary: dict[str, dict[str, float]], measure: str) -> str:
    return " and ".join(f"{show('{value:.2f}', {'value': summary[kind][measure]})} ({kind})" for kind in ("mean", "worst"))


def _flat_note(compared: Sequence[Record]) -> list[str]:
    """The errors of sequences whose true poses have no height, in the plane."""
    ours = [r for r in compared if r["sequence"].startswith(_FLAT) and "rpe_n_horizontal_m_ratio" in r]
    cells = [f"{r['sequence']} {centimeters(r['rpe_n_horizontal_m'])} cm, ratio {r['rpe_n_horizontal_m_ratio']:.2f}" for r in ours]
    start = "nuScenes' true poses have no height, so that slopes count as errors of all; in x and y alone, POLI's over n scans: "
    return [start + "; ".join(cells)] if cells else []


def _settings(records: Sequence[Record]) -> str:
    by_method: dict[str, list[str]] = {}
    for r in records:
        by_method.setdefault(r["method"], []).append(r["setting"])
    return "; ".join(f"{name}: {', '.join(dict.fromkeys(those))}" for name, those in by_method.items())
