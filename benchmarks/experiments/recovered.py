"""KISS-ICP and GenZ-ICP on denser scans: how much of the missing beams they recover, on real scans of 64 beams thinned to 16.

Every system runs with and without the point times that are derived from the azimuth, and the lower error counts, of raw scans as of
denser ones.

Example: python -m benchmarks recovered --real sequences
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cache import Cache
from benchmarks.data.drives import RealDrive, RealSequence, RecordedDrive
from benchmarks.options import MODEL, PROCESSES, REAL, RUNS, option
from benchmarks.parallel import in_processes
from benchmarks.report import NONE, Cell, Column, Record, Report, Table, mean, show
from benchmarks.rivals.denser_scans import INTERPOLATION, PCA, POLI, RAW, Denser, denser
from benchmarks.rivals.odometry import run_genz, run_kiss
from benchmarks.rivals.odometry_contestants import CHOSEN, Contestant, Outcome
from benchmarks.rivals.tracks import Run
from poli.densification import DensifyConfig
from poli.errors import InputError
from poli.lidar_odometry.trajectory_errors import relative_errors
from poli.scan import Scan, ScanLike

MODELS = ("lidar",)
SENSOR, FULL_BEAMS = "hdl64e", 64
FULL = "all beams"
FRAMES = (1, 20)
WAYS = (POLI, INTERPOLATION, PCA)
TIMES, NO_TIMES = "times", "no times"
_LEAST = 0.003  # of the error with few beams: no share is given if all beams are worth less

# Setting, function to run it, and runs whose errors are averaged: those of GenZ-ICP differ from run to run.
SYSTEMS: dict[str, tuple[str, Run, int]] = {
    "KISS-ICP": ("defaults", run_kiss, 1),
    "GenZ-ICP": ("outdoor", partial(run_genz, tuning="outdoor"), 3),
}


@dataclass(frozen=True)
class Options:
    real: Path | None = option(None, REAL)
    sequences: tuple[str, ...] = option(("kitti_raw_0005", "kitti_raw_0009", "kitti_raw_0013"), "raw KITTI sequences")
    beams: int = option(16, "beams that are kept", least=8)
    systems: tuple[str, ...] = option(tuple(SYSTEMS), "systems to run, separated by commas")
    model: str = option("lidar", MODEL)
    scans: int = option(0, "use the first scans of each sequence only; 0: all", least=0)
    runs: Path = option(Path("runs/recovered_bench"), RUNS)
    processes: int = option(0, PROCESSES, least=0)

    def __post_init__(self) -> None:
        unknown = [name for name in self.systems if name not in SYSTEMS]
        if unknown or not self.systems:
            raise InputError(f"systems: {', '.join(unknown) or 'none'}; choose from {', '.join(SYSTEMS)}")


@dataclass(frozen=True)
class Job:
    sequence: str
    system: str
    way: str


@dataclass(frozen=True)
class Augmented(Contestant):
    """A system on denser scans."""

    made_by: dict[str, Any] = field(default_factory=dict)

    @property
    def about(self) -> dict[str, Any]:
        return {**super().about, "augmentation": self.made_by}


def run(options: Options) -> Iterator[Report]:
    if options.real is None:
        raise InputError("--real is missing; this experiment needs real sequences of an HDL-64E")
    jobs = [Job(*names) for names in product(options.sequences, options.systems, (RAW, FULL, *WAYS))]
    if options.processes == 1:
        errors = [run_job(options, job) for job in jobs]
    else:
        errors = in_processes(partial(run_job, options), jobs, options.processes or 2, "drives")
    found = dict(zip(jobs, errors, strict=True))
    records = [_compared(job, frames, found) for frames in FRAMES for job in jobs if job.way in WAYS]
    notes = [
        f"Relative pose errors in centimeters over {FRAMES[0]} and {FRAMES[1]} scans, on raw KITTI with corrected elevations and "
        f"{options.beams} beams. KISS-ICP has its defaults, GenZ-ICP its authors' outdoor tuning (means of "
        f"{SYSTEMS['GenZ-ICP'][2]} runs).",
        "Each system runs with and without point times from the azimuth, and the lower error counts, in every column. "
        "(times) or (no times) says which.",
        "Recovered: (few beams - densified) / (few beams - all beams). It says nothing where few beams are as good as all. "
        "Change: densified against few beams, negative is better. In the means, errors are averaged before.",
        f"{POLI}: `poli densify` with its defaults; {PCA}: gaps filled in the same way, with ellipsoids of PCA; {INTERPOLATION}: "
        "rows between the rings of the range image.",
    ]
    yield Report(
        "recovered", "Odometry of others on denser scans", records, _TABLE, notes, shown=[*records, *_means(records)]
    )  # fmt: skip


def run_job(options: Options, job: Job) -> dict[str, dict[str, float]]:
    """RPE in meters by setting of the times and by frames, each the mean of all runs."""
    beams = FULL_BEAMS if job.way == FULL else options.beams
    drive = open_drive(options, job.sequence, beams)
    way = denser(RAW if job.way == FULL else job.way, DensifyConfig(model=options.model), SENSOR, beams)
    return {setting: _errors(options, drive, job.system, way, setting) for setting in (TIMES, NO_TIMES)}


def _errors(options: Options, drive: RecordedDrive, system: str, way: Denser, setting: str) -> dict[str, float]:
    tuning, system_run, repeats = SYSTEMS[system]
    found: dict[str, list[float]] = {str(frames): [] for frames in FRAMES if frames < len(drive)}
    for number in range(repeats):
        contestant = Augmented(
            f"{system} {way.name}", f"{tuning}, {setting}", CHOSEN,
            partial(_run_denser, way=way, system=system_run, times=setting == TIMES),
            made_by={"name": way.name, **way.about, **({"repeat": number} if number else {})},
        )  # fmt: skip
        poses = Cache(options.runs).outcome(drive, contestant).poses
        for frames, errors in found.items():
            errors.append(relative_errors(poses, drive.poses, int(frames), pairs="all").rmse.translation)
    return {frames: float(np.mean(errors)) for frames, errors in found.items()}


def open_drive(options: Options, sequence: str, beams: int) -> RecordedDrive:
    assert options.real is not None
    real = RealSequence(sequence, SENSOR, 10.0, (0.5,), beams=None if beams == FULL_BEAMS else beams, raw_kitti=True)
    drive = RealDrive(options.real, real).open()
    return drive.first(options.scans) if options.scans else drive


def _run_denser(scans: Iterable[ScanLike], way: Denser, system: Run, times: bool) -> Outcome:
    dense = (way.apply(Scan.of(scan)) for scan in scans)  # lazily: a drive of dense scans takes gigabytes
    track = system(scan if times else scan.keep(*(name for name in scan.fields if name != "time")) for scan in dense)
    return Outcome(track.poses, track.seconds)


# --- table


def _compared(job: Job, frames: int, found: dict[Job, dict[str, dict[str, float]]]) -> dict[str, Any]:
    """The errors of one way at the better setting of the times, and all of them."""
    values: dict[str, Any] = {}
    for name, way in (("few", RAW), ("dense", job.way), ("full", FULL)):
        errors = {setting: of[str(frames)] for setting, of in found[replace(job, way=way)].items() if str(frames) in of}
        best = min(errors, key=lambda setting: errors[setting], default="")
        values |= {name: errors.get(best, math.nan), f"{name}_best": best, f"{name}_by_times": errors}
    about = {"system": job.system, "frames": frames, "sequence": job.sequence, "way": job.way}
    return {**about, **values, **_measures(values["few"], values["dense"], values["full"])}


def _measures(few: float, dense: float, full: float) -> dict[str, float]:
    recovered = (few - dense) / (few - full) if few != full else math.nan
    return {"change": 100.0 * (dense / few - 1.0), "recovered": recovered}


def _means(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Means over the sequences of each system and way."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for r in records:
        groups.setdefault((r["system"], r["frames"], r["way"]), []).append(r)
    found = []
    for (system, frames, way), group in groups.items():
        values = {name: mean([r[name] for r in group]) for name in ("few", "dense", "full")}
        about = {"system": system, "frames": frames, "sequence": "**mean**", "way": way}
        settings = dict.fromkeys(("few_best", "dense_best", "full_best"), "")
        found.append({**about, **settings, **values, **_measures(values["few"], values["dense"], values["full"])})
    return found


def _share(record: Record) -> str:
    """The share, unless few beams are as good as all."""
    known = record["few"] - record["full"] > _LEAST * record["few"]
    return f"{100 * record['recovered']:.0f} %" if known else NONE


def _with_setting(name: str) -> Cell:
    """An error and the setting of the times that has it, which means do not have."""
    return lambda r: show(f"{{{name}:cm}} ({{{name}_best}})" if r[f"{name}_best"] else f"{{{name}:cm}}", r)


_TABLE = Table(
    [
        Column("system", "{system}"),
        Column("scans apart", "{frames}"),
        Column("sequence", "{sequence}"),
        Column("way", "{way}"),
    ],
    [
        *(
            Column(title, _with_setting(name))
            for title, name in (("few beams", "few"), ("densified", "dense"), ("all beams", "full"))
        ),
        Column("change", "{change:+%}"),
        Column("recovered", _share),
    ],
)
