"""How much of the missing beams denser scans recover: real scans of 64 beams, thinned, densified, and as they were.

Example: python -m benchmarks recovered --real sequences --sequences kitti_raw_0005,kitti_raw_0009
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from benchmarks.cache import Cache
from benchmarks.data.drives import RealDrive, RealSequence, RecordedDrive
from benchmarks.data.held_out import held_out_pairs
from benchmarks.data.real_system_drives import SYSTEM_SEQUENCES
from benchmarks.metrics.surface import coverage
from benchmarks.options import MODEL, PROCESSES, REAL, RUNS, option
from benchmarks.parallel import in_processes
from benchmarks.report import NONE, Column, Record, Report, Table, mean
from benchmarks.rivals.augmentations import INTERPOLATION, PCA, POLI, RAW, SYSTEMS, Augmented
from benchmarks.rivals.denser_scans import BEFORE, ELLIPSOIDS, Denser, ellipsoids, interpolated, poli, raw, with_pca
from benchmarks.rivals.odometry_contestants import CHOSEN, Outcome
from benchmarks.rivals.range_interpolation import RangeInterpolation
from benchmarks.rivals.tracks import Run
from poli.errors import InputError
from poli.estimation import pca
from poli.kdtree.tree import KDTree
from poli.scan import Scan, ScanLike
from poli.tasks.densify import DensifyConfig
from poli.tasks.densify.worth import why_little
from poli.tasks.trajectory_errors import relative_errors

SENSOR, FULL_BEAMS = "hdl64e", 64
FULL = "all beams"
FRAMES = (1, 20)
# Settings of each way, from few samples to many, so that errors can be compared at equal coverage.
ERRORS = (0.015, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 2.0)  # meters
_SHARES = (0.05, 0.2, 0.5)  # of the range: how far apart two returns may be for interpolation
_SAMPLES = (1, 3)  # per ellipsoid
_LEAST = 0.003  # of the error with few beams: no share is given if all beams are worth less
_NEIGHBORS = 12  # of the normals of full scans
_REACH = 0.2  # meters: a dropped return with a sample this near is covered
_SIMULATED, _SIMULATED_BEAMS = "vlp16", 16  # the sensor in held-out worlds


@dataclass(frozen=True)
class Options:
    real: Path | None = option(None, REAL)
    sequences: tuple[str, ...] = option(("kitti_raw_0005", "kitti_raw_0009", "kitti_raw_0013"), "raw KITTI sequences")
    beams: tuple[int, ...] = option((16, 32), "beams that are kept")
    systems: tuple[str, ...] = option(tuple(SYSTEMS), "systems to run, separated by commas")
    rivals: bool = option(False, "also run the systems on scans densified by interpolation, PCA and ellipsoids alone")
    worth: bool = option(False, "also run the systems on whole scans of all sensors, which `--auto` judges")
    repeats: int = option(1, "runs of each system, whose errors are averaged: those of GenZ-ICP differ from run to run", least=1)
    model: str = option("lidar", MODEL)
    scans: int = option(0, "use the first scans of each sequence only; 0: all", least=0)
    looked_at: int = option(4, "scans per sequence whose samples are compared with the dropped returns", least=1)
    runs: Path = option(Path("runs/recovered_bench"), RUNS)
    processes: int = option(0, PROCESSES, least=0)

    def __post_init__(self) -> None:
        unknown = [name for name in self.systems if name not in SYSTEMS]
        if unknown or not self.systems:
            raise InputError(f"systems: {', '.join(unknown) or 'none'}; choose from {', '.join(SYSTEMS)}")

    @property
    def config(self) -> DensifyConfig:
        return DensifyConfig(model=self.model)


def run(options: Options) -> Iterator[Report]:
    if options.real is None:
        raise InputError("--real is missing; this experiment needs real sequences of an HDL-64E")
    yield _recovered_report(options)
    yield _samples_report(options)
    yield _worlds_report(options)
    if options.worth:
        yield _worth_report(options)


# --- odometry


@dataclass(frozen=True)
class Job:
    sequence: str
    beams: int
    system: str
    way: str


def _recovered_report(options: Options) -> Report:
    ways = (POLI, INTERPOLATION, PCA, BEFORE) if options.rivals else (POLI,)
    jobs = [
        Job(sequence, beams, system, way)
        for sequence in options.sequences for system in options.systems
        for beams in (*options.beams, FULL_BEAMS) for way in ((FULL,) if beams == FULL_BEAMS else (RAW, *ways))
    ]  # fmt: skip
    if options.processes == 1:
        errors = [run_job(options, job) for job in jobs]
    else:
        errors = in_processes(partial(run_job, options), jobs, options.processes or 2, "drives")
    found = dict(zip(jobs, errors, strict=True))
    records = [
        _compared(job, frames, found) for frames in FRAMES for job in jobs if job.way not in (RAW, FULL)
    ]  # fmt: skip
    notes = [
        f"Relative pose errors in centimeters over {FRAMES[0]} and {FRAMES[1]} scans, of KISS-ICP with its defaults and GenZ-ICP "
        "with its authors' outdoor tuning, on raw KITTI with point times and corrected elevations"
        + (f"; means of {options.repeats} runs." if options.repeats > 1 else "."),
        "Recovered: (few beams - densified) / (few beams - all beams). It says nothing where few beams are as good as all; in the "
        "means, errors are averaged before. Change: densified against few beams, negative is better.",
    ]
    shown = [*records, *_means(records)]
    table = Table(
        [
            Column("system", "{system}"),
            Column("scans apart", "{frames}"),
            Column("beams", "{beams}"),
            Column("sequence", "{sequence}"),
            Column("way", "{way}"),
        ],
        [
            Column("few beams", "{few:cm}"),
            Column("densified", "{dense:cm}"),
            Column("all beams", "{full:cm}"),
            Column("change", "{change:+%}"),
            Column("recovered", _share),
        ],
    )
    return Report("recovered", "Beams recovered by denser scans", records, table, notes, shown=shown)


def run_job(options: Options, job: Job) -> dict[str, float]:
    """RPE in meters by frames."""
    return _errors(options, open_drive(options, job.sequence, job.beams), job.system, _way(options, job))


def _errors(options: Options, drive: RecordedDrive, system: str, denser: Denser) -> dict[str, float]:
    """RPE in meters by frames, the mean of all runs."""
    setting, way = SYSTEMS[system]
    found: dict[str, list[float]] = {str(frames): [] for frames in FRAMES if frames < len(drive)}
    for number in range(options.repeats):
        again = {"repeat": number} if number else {}
        contestant = Augmented(
            f"{system} {denser.name}", setting, CHOSEN, partial(_run_denser, denser=denser, way=way),
            system=system, augmentation=denser.name, made_by={"name": denser.name, **denser.about, **again},
        )  # fmt: skip
        poses = Cache(options.runs).outcome(drive, contestant).poses
        for frames, errors in found.items():
            errors.append(relative_errors(poses, drive.poses, int(frames), pairs="all").rmse.translation)
    return {frames: float(np.mean(errors)) for frames, errors in found.items()}


def open_drive(options: Options, sequence: str, beams: int) -> RecordedDrive:
    real = RealSequence(sequence, SENSOR, 10.0, (0.5,), beams=None if beams == FULL_BEAMS else beams, raw_kitti=True)
    return _opened(options, real)


def _opened(options: Options, real: RealSequence) -> RecordedDrive:
    assert options.real is not None
    drive = RealDrive(options.real, real).open()
    return drive.first(options.scans) if options.scans else drive


def _run_denser(scans: Iterable[ScanLike], denser: Denser, way: Run) -> Outcome:
    track = way(denser.apply(Scan.of(scan)) for scan in scans)  # lazily: a drive of dense scans takes gigabytes
    return Outcome(track.poses, track.seconds)


def _way(options: Options, job: Job) -> Denser:
    if job.way in (RAW, FULL):
        return raw()
    if job.way == INTERPOLATION:
        return interpolated(SENSOR, job.beams, RangeInterpolation(rows=FULL_BEAMS // job.beams - 1))
    if job.way == BEFORE:
        return ellipsoids(replace(ELLIPSOIDS, model=options.model))
    return poli(options.config) if job.way == POLI else with_pca(options.config)


def _compared(job: Job, frames: int, found: dict[Job, dict[str, float]]) -> dict[str, Any]:
    few, full = (
        found[replace(job, way=way, beams=beams)].get(str(frames), math.nan)
        for way, beams in ((RAW, job.beams), (FULL, FULL_BEAMS))
    )
    about = {"system": job.system, "frames": frames, "beams": job.beams, "sequence": job.sequence, "way": job.way}
    return {**about, **_measures(few, found[job].get(str(frames), math.nan), full)}


def _measures(few: float, dense: float, full: float) -> dict[str, float]:
    return {
        "few": few, "dense": dense, "full": full, "change": 100.0 * (dense / few - 1.0),
        "recovered": (few - dense) / (few - full) if few != full else math.nan,
    }  # fmt: skip


def _means(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Means over the sequences of each system, number of beams and way."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for r in records:
        groups.setdefault((r["system"], r["frames"], r["beams"], r["way"]), []).append(r)
    found = []
    for (system, frames, beams, way), group in groups.items():
        means = [mean([r[name] for r in group]) for name in ("few", "dense", "full")]
        about = {"system": system, "frames": frames, "beams": beams, "sequence": "**mean**", "way": way}
        found.append({**about, **_measures(*means)})
    return found


def _share(record: Record) -> str:
    """The share, unless few beams are as good as all."""
    known = record["few"] - record["full"] > _LEAST * record["few"]
    return f"{100 * record['recovered']:.0f} %" if known else NONE


# --- sensors that are dense already


def _worth_report(options: Options) -> Report:
    """Whether whole scans of real sensors profit, beside what the rule of `poli densify --auto` says of them."""
    records = []
    for real in (real for real in SYSTEM_SEQUENCES if real.beams is None):
        drive = _opened(options, real)
        for system in options.systems:
            before, after = (_errors(options, drive, system, denser) for denser in (raw(), poli(options.config)))
            about = {"sequence": real.sequence, "system": system, "rule": why_little(drive.recorded[0]) or "worth trying"}
            for frames in before:
                values = {"few": before[frames], "dense": after[frames], "change": 100.0 * (after[frames] / before[frames] - 1.0)}
                records.append({**about, "frames": int(frames), **values})
    notes = ["Relative pose errors in centimeters on scans with all their beams, as they are and densified with the defaults."]
    table = Table(
        [Column("sequence", "{sequence}"), Column("system", "{system}"), Column("scans apart", "{frames}")],
        [
            Column("as they are", "{few:cm}"),
            Column("densified", "{dense:cm}"),
            Column("change", "{change:+%}"),
            Column("what the rule says", "{rule}"),
        ],
    )
    return Report("recovered_worth", "Denser scans of sensors with many beams", records, table, notes)


# --- samples against the dropped returns


def _samples_report(options: Options) -> Report:
    records = [_judged(options, sequence, beams) for sequence in options.sequences for beams in options.beams]
    flat = [record for of_case in records for record in of_case]
    notes = [
        f"{options.looked_at} scans per sequence. Distance: mean from a sample to the nearest return of the full scan, in "
        f"centimeters. Covered: share of the dropped returns with a sample within {100 * _REACH:g} cm.",
        "Across: mean distance from the plane through that return, which does not depend on how far apart the returns are.",
        f"{POLI}, same coverage: the distances of {POLI} at the coverage of the row, interpolated between values of `max_error`.",
        f"Time: CPU time of a scan against {BEFORE} (the sampling of earlier versions), on one thread.",
    ]
    table = Table(
        [Column("beams", "{beams}"), Column("way", "{way}"), Column("setting", "{setting}")],
        [
            Column("samples per scan", "{samples:.0f}"),
            Column("covered", "{covered:share}"),
            Column("distance", "{distance:cm}"),
            Column(f"{POLI}, same coverage", "{equal_distance:cm}"),
            Column("across", "{across:cm}"),
            Column(f"{POLI}, same coverage ", "{equal_across:cm}"),
            Column("time", "{time:.2f}"),
        ],
    )
    return Report("recovered_samples", "Samples against dropped beams", flat, table, notes)


def _judged(options: Options, sequence: str, beams: int) -> list[dict[str, Any]]:
    full, thin = (open_drive(options, sequence, count) for count in (FULL_BEAMS, beams))
    rows = np.unique(np.linspace(0, len(full) - 1, options.looked_at).round().astype(int))
    scans = thin.recorded
    truths = [Truth.of(full.scans[row], scans[row].points) for row in rows]
    found: list[dict[str, Any]] = []
    for name, setting, denser in _settings(options, SENSOR, beams):
        values = [_of_scan(denser, scans[row], truth) for row, truth in zip(rows, truths, strict=True)]
        found.append({"sequence": sequence, "beams": beams, "way": name, "setting": setting, **_mean_of(values)})
    _add_equals(found, "distance", "across")
    unit = next(r["milliseconds"] for r in found if r["way"] == BEFORE)
    for record in found:
        record["time"] = record["milliseconds"] / unit
    return found


def _add_equals(records: list[dict[str, Any]], *names: str) -> None:
    """Add to each record the values of POLI at its coverage; NaN outside of POLI's range."""
    ours = np.array(sorted((r["covered"], *(r[name] for name in names)) for r in records if r["way"] == POLI))
    for record in records:
        inside = ours[0, 0] <= record["covered"] <= ours[-1, 0]
        for column, name in enumerate(names, start=1):
            record[f"equal_{name}"] = float(np.interp(record["covered"], ours[:, 0], ours[:, column])) if inside else math.nan


def _settings(options: Options, sensor: str, beams: int) -> list[tuple[str, str, Denser]]:
    rows = FULL_BEAMS // beams - 1
    config = options.config
    found = [(POLI, f"max_error {error:g} m", poli(replace(config, max_error=error))) for error in ERRORS]
    found += [(PCA, f"max_error {error:g} m", with_pca(replace(config, max_error=error))) for error in ERRORS[2:6]]
    found += [
        (INTERPOLATION, f"ranges within {100 * share:g} %", interpolated(sensor, beams, RangeInterpolation(rows, share=share)))
        for share in _SHARES
    ]
    before = replace(ELLIPSOIDS, model=options.model)
    return found + [(BEFORE, f"{count} within 12 sigma", ellipsoids(replace(before, per_point=count))) for count in _SAMPLES]


@dataclass(frozen=True, eq=False)
class Truth:
    """A full scan, and those of its returns that thinning has dropped."""

    returns: np.ndarray  # (N, 3)
    normals: np.ndarray  # (N, 3), by PCA of the full scan
    dropped: np.ndarray  # (D, 3)
    tree: KDTree

    @staticmethod
    def of(full: np.ndarray, thin: np.ndarray) -> Truth:  # (N, 3), (K, 3)
        full, thin = full.astype(np.float64), thin.astype(np.float64)
        dropped = full[KDTree(thin).nearest(1, full)[0][:, 0] > 1e-4]
        return Truth(full, pca(full, k=_NEIGHBORS).axes[:, :, 0], dropped, KDTree(full))


def _of_scan(denser: Denser, thin: Scan, truth: Truth) -> dict[str, float]:
    begin = process_time()
    dense = denser.apply(thin)
    milliseconds = 1e3 * (process_time() - begin)
    samples = dense.points[len(thin) :].astype(np.float64)
    if not len(samples):
        return {"samples": 0.0, "covered": 0.0, "distance": math.nan, "across": math.nan, "milliseconds": milliseconds}
    distances, nearest = truth.tree.nearest(1, samples)
    nearest = nearest[:, 0]
    across = np.abs(np.einsum("ni,ni->n", samples - truth.returns[nearest], truth.normals[nearest]))
    return {
        "samples": float(len(samples)), "covered": coverage(truth.dropped, samples, _REACH), "distance": float(distances.mean()),
        "across": float(across.mean()), "milliseconds": milliseconds,
    }  # fmt: skip


def _mean_of(values: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: mean([value[name] for value in values]) for name in values[0]}


# --- samples in held-out worlds, whose surface is known


def _worlds_report(options: Options) -> Report:
    scans = list(held_out_pairs([_SIMULATED], spots=1))
    records: list[dict[str, Any]] = []
    for name, setting, denser in _settings(options, _SIMULATED, _SIMULATED_BEAMS):
        values = []
        for scan in scans:
            samples = denser.apply(scan.q.keep()).points[len(scan.q) :].astype(np.float64)
            distance = float(scan.distance(samples).mean())
            values.append({"samples": len(samples), "covered": coverage(scan.surface, samples, _REACH), "distance": distance})
        records.append({"way": name, "setting": setting, **_mean_of(values)})
    _add_equals(records, "distance")
    notes = [
        f"{len(scans)} scans of a VLP-16 in held-out worlds. Distance: mean from a sample to the true surface, in centimeters. "
        f"Covered: share of the surface visible from the spot, within 60 m, with a sample within {100 * _REACH:g} cm.",
        f"{POLI}, same coverage: as in recovered_samples.",
    ]
    table = Table(
        [Column("way", "{way}"), Column("setting", "{setting}")],
        [
            Column("samples per scan", "{samples:.0f}"),
            Column("covered", "{covered:share}"),
            Column("distance", "{distance:cm}"),
            Column(f"{POLI}, same coverage", "{equal_distance:cm}"),
        ],
    )
    return Report("recovered_worlds", "Samples in held-out worlds", records, table, notes)
