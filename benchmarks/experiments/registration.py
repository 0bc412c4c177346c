"""Global registration by KISS-Matcher and a TEASER-like pipeline on raw and denser scans, and by `poli register`.

Examples: python -m benchmarks registration --real sequences
          python -m benchmarks registration --places town --pairs 10
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.cache import Cache, our_state, rivals_state, weights_digest
from benchmarks.data.drives import (
    DriveOptions,
    DriveSource,
    RealDrive,
    RealSequence,
    RecordedDrive,
    SimulatedDrive,
    simulated_sequences,
)
from benchmarks.data.place_pairs import ThinnedDrive, place_pairs, success
from benchmarks.experiments.augmentation import COLORS, THINNED_SEQUENCES
from benchmarks.options import PROCESSES, RUNS, option
from benchmarks.parallel import in_processes
from benchmarks.report import NONE, Column, Plot, Record, Report, Table
from benchmarks.rivals.augmentations import AUGMENTATIONS, POLI, RAW, Augmentation, augmentations, densified, raw
from benchmarks.rivals.range_interpolation import RangeInterpolation
from benchmarks.rivals.registrars import KISS_MATCHER, OURS, TEASER, registrar
from poli.errors import InputError
from poli.se3 import inverse, log
from poli.tasks.densify import DensifyConfig
from poli.threads import thread_count, use_one_thread

TABLES = ("places", "resolutions", "voxels")
OTHERS = (KISS_MATCHER, TEASER)
RESOLUTIONS = (16, 32, 64)  # beams
_DENSE_SENSOR = "os2_128"  # thinned to these numbers of beams


# Features need surfaces without holes and tolerate more noise than odometry: five samples per ellipsoid. In validation worlds,
# this was better than any limit on thickness.
FOR_FEATURES = DensifyConfig(per_point=5, max_sigma=8.0, max_thickness=None)
# Meters. The first is what KISS-Matcher suggests for outdoor scans; the other pipeline is as good on raw scans at 0.5 m as at
# 0.3 m, and several times faster.
VOXELS = {KISS_MATCHER: 0.3, TEASER: 0.5, OURS: 0.0}


LIMITS = {"10°": (10.0, np.inf), "5°, 2 m": (5.0, 2.0), "10°, 2 m": (10.0, 2.0)}  # degrees, meters
_STRICT = "5°, 2 m"


@dataclass(frozen=True)
class Options(DriveOptions):
    pairs: int = option(50, "pairs per place", least=1)
    fewer: int = option(8, "pairs per place in the first two places, for other voxels and beams", least=1)
    tables: tuple[str, ...] = option(TABLES, "tables to compute; voxels are part of the table of places")
    runs: Path = option(Path("runs/registration_bench"), RUNS)
    fresh: bool = option(False, "delete cached outcomes first")
    processes: int = option(0, PROCESSES, least=0)
    fewer_places: int = 2
    of_real: int = 15  # pairs per real sequence
    most: float = 12.0  # maximum meters between the two scans
    other_voxels: tuple[float, ...] = (0.3, 0.5, 1.0)

    @property
    def config(self) -> DensifyConfig:
        """Configuration of POLI; PCA is sampled the same way."""
        return replace(FOR_FEATURES, model=self.model)

    def __post_init__(self) -> None:
        strange = [name for name in self.tables if name not in TABLES]
        if strange or not self.tables:
            raise InputError(f"tables: {', '.join(strange) or 'none'}; choose from {', '.join(TABLES)}")


@dataclass(frozen=True)
class Job:
    """One system on the pairs of one drive, with one augmentation."""

    source: DriveSource
    system: str
    way: str
    pairs: int
    voxel: float  # meters
    sensor: str  # preset of `poli.register`
    table: str  # of `TABLES`
    beams: int
    real: bool


def run(options: Options) -> Iterator[Report]:
    records = run_jobs(options, [job for job in jobs_of(options) if job.table in options.tables])
    if "places" in options.tables:
        yield places_report(records, options)
    if "resolutions" in options.tables:
        yield resolutions_report(records, options)


def jobs_of(options: Options) -> list[Job]:
    simulated_sequences(("vlp16", _DENSE_SENSOR), options.places, options.scans, keep=options.drives)  # records missing ones
    jobs = []
    for place in options.places:
        drive = SimulatedDrive("vlp16", place, options.scans, options.drives)
        jobs += [Job(drive, s, w, options.pairs, VOXELS[s], "vlp16", "places", 16, False) for s in OTHERS for w in AUGMENTATIONS]
        jobs.append(Job(drive, OURS, RAW, options.pairs, VOXELS[OURS], "vlp16", "places", 16, False))
    for place in options.places[: options.fewer_places]:
        drive = SimulatedDrive("vlp16", place, options.scans, options.drives)
        jobs += [
            Job(drive, s, w, options.fewer, voxel, "vlp16", "voxels", 16, False)
            for voxel in options.other_voxels for s in OTHERS for w in (RAW, POLI) if voxel != VOXELS[s]
        ]  # fmt: skip
        for beams in RESOLUTIONS:
            thinned = ThinnedDrive(_DENSE_SENSOR, place, options.scans, options.drives, beams)
            jobs += _resolution(thinned, options.fewer, beams, real=False)
    if options.real is not None:
        for sequence in THINNED_SEQUENCES:
            for beams in RESOLUTIONS if sequence.sensor == "hdl64e" else (16,):
                drive_source = RealDrive(options.real, _thinned(sequence, beams))
                jobs += _resolution(drive_source, options.of_real, beams, real=True)
    return jobs


def run_jobs(options: Options, jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """Run the jobs in single-threaded processes. Cached ones are not run again."""
    if options.fresh:
        Cache(options.runs).forget()
    processes = min(options.processes or thread_count(), len(jobs))
    if processes == 1:
        use_one_thread()
        return [_run_job(options, job) for job in jobs]
    return in_processes(partial(_run_job, options), jobs, processes, "registrations")


def _resolution(drive: DriveSource, pairs: int, beams: int, real: bool) -> list[Job]:
    sensor = "vlp16" if beams < 64 else "os1_64"
    jobs = [Job(drive, s, w, pairs, VOXELS[s], sensor, "resolutions", beams, real) for s in OTHERS for w in (RAW, POLI)]
    return [*jobs, Job(drive, OURS, RAW, pairs, VOXELS[OURS], sensor, "resolutions", beams, real)]


def _thinned(sequence: RealSequence, beams: int) -> RealSequence:
    return replace(sequence, beams=None if beams == 64 else beams)


def _run_job(options: Options, job: Job) -> dict[str, Any]:
    """Run a job. For each pair: rotation error in degrees, translation error in meters, seconds of registration only."""
    drive = job.source.open()
    way = _way(options, job)
    key = {
        "drive": drive.name, "scans": len(drive), "poses": hashlib.sha256(np.ascontiguousarray(drive.poses).tobytes()).hexdigest(),
        "system": job.system, "voxel": job.voxel, "sensor": job.sensor, "way": {"name": way.name, **way.about},
        "pairs": job.pairs, "most": options.most, **(rivals_state() if job.system == KISS_MATCHER else our_state()),
        "weights": weights_digest("lidar") if job.system == OURS else "",
    }  # fmt: skip
    errors = Cache(options.runs).get((), key, lambda: register_pairs(drive, way, job, options.most))
    about = {name: getattr(job, name) for name in ("system", "way", "voxel", "beams", "table")}
    scans = job.source.sequence.sequence if isinstance(job.source, RealDrive) else "simulated"
    return {"scans": scans, "place": getattr(job.source, "place", ""), **about, **errors}


def register_pairs(drive: RecordedDrive, way: Augmentation, job: Job, most: float, least: float = 0.0) -> dict[str, list[float]]:
    """Errors and times of each pair; 180 degrees and 1e9 meters if no pose was found."""
    register = registrar(job.system, job.voxel, job.sensor)
    rotations, translations, seconds = [], [], []
    for pair in place_pairs(drive.poses, job.pairs, most, seed=0, least=least):
        # Densify in the sensor frame, then rotate: interpolation depends on the rings.
        source = way.apply(drive.scans[pair.source]).astype(np.float64) @ pair.T_turned_source[:3, :3].T
        target = way.apply(drive.scans[pair.target]).astype(np.float64)
        begin = perf_counter()
        T = register(source, target)
        seconds.append(perf_counter() - begin)
        rotations.append(180.0 if T is None else float(np.degrees(np.linalg.norm(log(inverse(pair.T_target_turned) @ T)[:3]))))
        translations.append(1e9 if T is None else float(np.linalg.norm(T[:3, 3] - pair.T_target_turned[:3, 3])))
    return {"rotations_deg": rotations, "translations_m": translations, "seconds": seconds}


def _way(options: Options, job: Job) -> Augmentation:
    if job.way == RAW:
        return raw()
    if job.way == POLI:
        return densified(POLI, options.config)
    every = augmentations(job.source, options.config, RangeInterpolation())
    return next(way for way in every if way.name == job.way)


# --- tables


def _by_limit(records: Sequence[Record], limits: Sequence[str], **about: Any) -> list[dict[str, Any]]:
    """Repeat each record for each limit, with its success in percent."""
    found = []
    for limit in limits:
        for r in records:
            percent = 100.0 * success(r["rotations_deg"], r["translations_m"], *LIMITS[limit])
            found.append(
                {
                    **{n: r[n] for n in ("scans", "place", "system", "way", "voxel", "beams")},
                    "within": limit,
                    "success": percent,
                    **about,
                }
            )
    return found


def _tenths(record: Record) -> str:
    return f"{record['success']:.1f}"


_PLACES = Table(
    [
        Column("system", "{system}"),
        Column("voxel", lambda r: f"{r['voxel']:g} m" if r["voxel"] else NONE),
        Column("place", "{shown_as}"),
        Column("within", "{within}"),
    ],
    across="way",
    cell=_tenths,
    highest="success",
    digits=1,  # as displayed, so that equal-looking values are equal
    order=AUGMENTATIONS,
)


def places_report(records: Sequence[Record], options: Options) -> Report:
    """Means over the places for each limit, each place at the strict limit, and other voxel sizes."""
    main = [r for r in records if r["table"] == "places"]
    swept = [r for r in records if r["table"] == "voxels"]
    shown = []
    for system in dict.fromkeys(r["system"] for r in main):
        of_system = [r for r in main if r["system"] == system]
        shown += _by_limit(of_system, list(LIMITS), shown_as="**all places**")
        for place in options.places:
            shown += _by_limit([r for r in of_system if r["place"] == place], [_STRICT], shown_as=place)
    few = f"{', '.join(options.places[: options.fewer_places])}, {options.fewer} pairs each"
    for voxel in options.other_voxels:
        for system in dict.fromkeys(r["system"] for r in swept):
            of_voxel = [r for r in swept if (r["system"], r["voxel"]) == (system, voxel)]
            shown += _by_limit(of_voxel, [_STRICT], shown_as=few)
    notes = [
        f"Success in percent: {options.pairs} random pairs per place, at most {options.most:g} m apart, VLP-16, in simulated "
        "held-out worlds; the source is rotated about its vertical axis by any angle. The best in a row is bold.",
        "KISS-Matcher runs with its defaults at the given voxel size. TEASER-like: PCA normals of 16 neighbors, FPFH with a radius "
        "of five voxels, mutual matches, maximum clique, GNC-TLS with one voxel as noise bound.",
        f"{AUGMENTATIONS[1]} and {POLI} are sampled alike (`poli densify --per-point 5 --max-sigma 8 --max-thickness 0`); "
        f"{AUGMENTATIONS[2]} is the stand-in for learned upsampling of `python -m benchmarks augmentation`.",
        "`poli.register` receives raw scans and densifies them itself; it has no voxel size to choose.",
        *_times(main),
    ]
    plot = Plot(
        "place", "success", "way", "", f"% within {_STRICT}", "system", "bars", colors=COLORS, ylim=(0, 103), stacked=True
    )  # fmt: skip
    plots = {"registration": partial(plot.draw, _by_limit(main, [_STRICT]))}
    return Report("registration", "Global registration of scans, 16 beams", records, _PLACES, notes, plots=plots, shown=shown)


_RESOLUTIONS = Table(
    [
        Column("scans", "{scans}"),
        Column("beams", "{beams}"),
        Column("system", "{system}"),
        Column("within", "{within}"),
    ],
    across="way",
    cell=_tenths,
    highest="success",
    digits=1,
    order=(RAW, POLI),
    then=[
        (
            "points gained",
            lambda by: f"{round(by[POLI]['success'], 1) - round(by[RAW]['success'], 1):+.1f}" if POLI in by else NONE,
        ),
    ],
)


def resolutions_report(records: Sequence[Record], options: Options) -> Report:
    of_table = [r for r in records if r["table"] == "resolutions"]
    shown = []
    for scans, beams in dict.fromkeys((r["scans"], r["beams"]) for r in of_table):
        for system in dict.fromkeys(r["system"] for r in of_table):
            group = [r for r in of_table if (r["scans"], r["beams"], r["system"]) == (scans, beams, system)]
            shown += _by_limit(group, [_STRICT, "10°, 2 m"])
    notes = [
        "Success in percent, one model and one setting for all. Simulated: every eighth, fourth and second ring of an OS2-128; "
        f"{options.fewer} pairs each in {' and '.join(options.places[: options.fewer_places])}. "
        f"Real: {options.of_real} pairs per sequence, evaluated with the given poses. "
        f"At most {options.most:g} m apart.",
        "`poli.register` receives raw scans, and the preset of a sensor with that many beams.",
    ]
    return Report("registration_beams", "Global registration of scans by beams", of_table, _RESOLUTIONS, notes, shown=shown)


def _times(records: Sequence[Record]) -> list[str]:
    """Median times of one registration on one thread, as ratios to KISS-Matcher on raw scans, since machines differ."""
    seconds: dict[tuple[str, str], list[float]] = {}
    for r in records:
        seconds.setdefault((r["system"], r["way"]), []).extend(r["seconds"])
    medians = {key: float(np.median(values)) for key, values in seconds.items()}
    unit = medians.get((KISS_MATCHER, RAW))
    if not unit:
        return []
    ratios = "; ".join(f"{system} {way} {value / unit:.1f}" for (system, way), value in medians.items())
    return [f"Time of one registration on one thread, against KISS-Matcher on raw scans (without densifying): {ratios}."]
