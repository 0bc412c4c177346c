"""`poli bench registration`: global registration of scans by others, on raw scans and on scans made denser in three ways."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np

from poli import __version__
from poli.bench.augmentation import THINNED_SEQUENCES
from poli.bench.augmentation_contestants import AUGMENTATIONS, POLI, RAW, Augmentation, augmentations, densified, raw
from poli.bench.held_out import PLACES
from poli.bench.in_processes import in_processes
from poli.bench.odometry_runs import DriveSource, RealDrive, SimulatedDrive, weights_digest
from poli.bench.odometry_sequences import RealSequence, RecordedDrive, simulated_sequences
from poli.bench.place_pairs import ThinnedDrive, place_pairs
from poli.bench.range_interpolation import RangeInterpolation
from poli.bench.registration_tables import places_report, plot_registration, resolutions_report
from poli.bench.report import publish
from poli.bench.scan_registrars import KISS_MATCHER, OURS, TEASER, registrar
from poli.errors import InputError
from poli.files.atomic import atomic_path
from poli.se3 import inverse, log
from poli.tasks.densify import DensifyConfig
from poli.threads import thread_count, use_one_thread

TABLES = ("places", "resolutions", "voxels")
OTHERS = (KISS_MATCHER, TEASER)
RESOLUTIONS = (16, 32, 64)  # beams
_DENSE_SENSOR = "os2_128"  # that is thinned to those, and that `poli.register` is told the scans are of


# Features want surfaces without holes wherever there are some, and mind noise less than odometry does: five samples of every
# ellipsoid. On drives of worlds for validation that was better than any limit on thickness.
FOR_FEATURES = DensifyConfig(per_point=5, max_sigma=8.0, max_thickness=None)
# Metres. The first is what KISS-Matcher suggests for scans outdoors; the other pipeline does as well on raw scans at 0.5 m as at
# 0.3, and is several times faster.
VOXELS = {KISS_MATCHER: 0.3, TEASER: 0.5, OURS: 0.0}


@dataclass(frozen=True)
class RegistrationBench:
    config: DensifyConfig = FOR_FEATURES  # of POLI; PCA is sampled alike
    places: tuple[str, ...] = PLACES
    scans: int = 121  # of each simulated drive
    pairs: int = 50  # of each place
    fewer: int = 8  # pairs of each place for other voxel sizes and resolutions, of which only the first places are part
    fewer_places: int = 2
    of_real: int = 15  # pairs of each real sequence
    most: float = 12.0  # metres between the two scans
    other_voxels: tuple[float, ...] = (0.3, 0.5, 1.0)
    tables: tuple[str, ...] = TABLES  # that are made; "voxels" is a part of "places"
    drives: Path = Path("runs/odometry_drives")  # where simulated drives are kept
    real: Path | None = None  # a folder in the layout of KITTI odometry with the real sequences
    runs: Path = Path("runs/registration_bench")  # where outcomes are kept
    fresh: bool = False  # whether kept outcomes are forgotten first
    processes: int = 0  # 0: one a core

    def __post_init__(self) -> None:
        strange = [name for name in self.tables if name not in TABLES]
        if strange or not self.tables:
            raise InputError(f"tables: {', '.join(strange) or 'none'}; choose from {', '.join(TABLES)}")


@dataclass(frozen=True)
class Job:
    """One system on the pairs of one drive, made denser in one way."""

    source: DriveSource
    system: str
    way: str
    pairs: int
    voxel: float  # metres
    sensor: str  # whose preset `poli.register` takes
    table: str  # of `TABLES`
    beams: int
    real: bool


@dataclass(frozen=True)
class Outcomes:
    """Of a job: the errors of every pair, 180 degrees and infinity where no pose was found, and how long they took."""

    job: Job
    rotations: Sequence[float]  # degrees
    translations: Sequence[float]  # metres
    seconds: Sequence[float]  # of registering alone


def run(bench: RegistrationBench, out: Path, json_path: Path | None, command: str) -> None:
    outcomes = run_jobs(bench, [job for job in jobs_of(bench) if job.table in bench.tables])
    if "places" in bench.tables:
        publish(places_report(outcomes, bench, command), "registration", out, json_path)
        plot_registration(outcomes, out / "registration.png")
    if "resolutions" in bench.tables:
        publish(resolutions_report(outcomes, bench, command), "registration_beams", out, None)


def jobs_of(bench: RegistrationBench) -> list[Job]:
    simulated_sequences(("vlp16", _DENSE_SENSOR), bench.places, bench.scans, keep=bench.drives)  # missing ones are recorded now
    jobs = []
    for place in bench.places:
        drive = SimulatedDrive("vlp16", place, bench.scans, bench.drives)
        jobs += [Job(drive, s, w, bench.pairs, VOXELS[s], "vlp16", "places", 16, False) for s in OTHERS for w in AUGMENTATIONS]
        jobs.append(Job(drive, OURS, RAW, bench.pairs, VOXELS[OURS], "vlp16", "places", 16, False))
    for place in bench.places[: bench.fewer_places]:
        drive = SimulatedDrive("vlp16", place, bench.scans, bench.drives)
        jobs += [
            Job(drive, s, w, bench.fewer, voxel, "vlp16", "voxels", 16, False)
            for voxel in bench.other_voxels for s in OTHERS for w in (RAW, POLI) if voxel != VOXELS[s]
        ]  # fmt: skip
        for beams in RESOLUTIONS:
            thinned = ThinnedDrive(_DENSE_SENSOR, place, bench.scans, bench.drives, beams)
            jobs += _resolution(thinned, bench.fewer, beams, real=False)
    if bench.real is not None:
        for sequence in THINNED_SEQUENCES:
            for beams in RESOLUTIONS if sequence.sensor == "hdl64e" else (16,):
                drive_source = RealDrive(bench.real, _thinned(sequence, beams))
                jobs += _resolution(drive_source, bench.of_real, beams, real=True)
    return jobs


def run_jobs(bench: RegistrationBench, jobs: Sequence[Job]) -> list[Outcomes]:
    """What was kept is not run again; the rest is, a process a core with one thread."""
    if bench.fresh:
        for path in bench.runs.glob("*.json"):
            path.unlink()
    processes = min(bench.processes or thread_count(), len(jobs))
    if processes == 1:
        use_one_thread()
        return [_run_job(bench, job) for job in jobs]
    return in_processes(partial(_run_job, bench), jobs, processes, "registrations")


def _resolution(drive: DriveSource, pairs: int, beams: int, real: bool) -> list[Job]:
    sensor = "vlp16" if beams < 64 else "os1_64"
    jobs = [Job(drive, s, w, pairs, VOXELS[s], sensor, "resolutions", beams, real) for s in OTHERS for w in (RAW, POLI)]
    return [*jobs, Job(drive, OURS, RAW, pairs, VOXELS[OURS], sensor, "resolutions", beams, real)]


def _thinned(sequence: RealSequence, beams: int) -> RealSequence:
    return replace(sequence, beams=None if beams == 64 else beams)


def _run_job(bench: RegistrationBench, job: Job) -> Outcomes:
    drive = job.source.open()
    way = _way(bench, job)
    known = {
        "drive": drive.name, "scans": len(drive), "poses": hashlib.sha256(np.ascontiguousarray(drive.poses).tobytes()).hexdigest(),
        "system": job.system, "voxel": job.voxel, "sensor": job.sensor, "way": {"name": way.name, **way.about},
        "pairs": job.pairs, "most": bench.most, "version": __version__, "weights": weights_digest("lidar"),
    }  # fmt: skip
    path = bench.runs / f"{hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:20]}.json"
    if path.is_file():
        kept = json.loads(path.read_text())
        return Outcomes(job, kept["rotations"], kept["translations"], kept["seconds"])
    outcomes = register_pairs(drive, way, job, bench.most)
    path.parent.mkdir(parents=True, exist_ok=True)
    lists = {"rotations": outcomes.rotations, "translations": outcomes.translations, "seconds": outcomes.seconds}
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps({"known": known, **lists}))
    return outcomes


def register_pairs(drive: RecordedDrive, way: Augmentation, job: Job, most: float) -> Outcomes:
    register = registrar(job.system, job.voxel, job.sensor)
    rotations, translations, seconds = [], [], []
    for pair in place_pairs(drive.poses, job.pairs, most, seed=0):
        # Denser in the sensor's own frame, then turned: interpolation goes by the rings.
        source = way.apply(drive.scans[pair.source]).astype(np.float64) @ pair.T_turned_source[:3, :3].T
        target = way.apply(drive.scans[pair.target]).astype(np.float64)
        begin = perf_counter()
        T = register(source, target)
        seconds.append(perf_counter() - begin)
        rotations.append(180.0 if T is None else float(np.degrees(np.linalg.norm(log(inverse(pair.T_target_turned) @ T)[:3]))))
        translations.append(1e9 if T is None else float(np.linalg.norm(T[:3, 3] - pair.T_target_turned[:3, 3])))
    return Outcomes(job, rotations, translations, seconds)


def _way(bench: RegistrationBench, job: Job) -> Augmentation:
    if job.way == RAW:
        return raw()
    if job.way == POLI:
        return densified(POLI, bench.config)
    every = augmentations(job.source, bench.config, RangeInterpolation())
    return next(way for way in every if way.name == job.way)
