"""Odometry from scan to scan against small_gicp's four methods, and on a map against five systems: errors, drift, time.

Most runs are settings of scan-to-scan rivals, of which only the errors are published. These run first, in one single-threaded
process per core. Timed runs follow in this process with all threads, one after another: the systems on every drive; the
scan-to-scan methods, at their best settings, on one drive per sensor.

Example: python -m benchmarks odometry --real sequences --json odometry.json
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from rich.progress import track

from benchmarks.cache import FORGETTABLE, TIMED, Cache
from benchmarks.data.drives import (
    REAL_SEQUENCES,
    DriveOptions,
    DriveSource,
    RealDrive,
    RealSequence,
    RecordedDrive,
    SimulatedDrive,
    ThinnedScans,
    simulated_sequences,
)
from benchmarks.experiments.odometry.plots import plot_errors, plot_trajectories
from benchmarks.experiments.odometry.tables import by_drive_report, by_sensor_report, real_report, systems_report, times_report
from benchmarks.metrics.odometry import Judged, at_best_settings, judge
from benchmarks.options import PROCESSES, RUNS, option
from benchmarks.parallel import in_processes
from benchmarks.report import Report
from benchmarks.rivals.odometry import METHODS
from benchmarks.rivals.odometry_contestants import CHOSEN, Contestant, contestants
from benchmarks.timing import same_threads
from poli.errors import InputError
from poli.threads import thread_count

TIMED_SCANS = 41  # per drive, for scan-to-scan methods: their time does not grow with the drive
_TIMED_PLACE = "town"


@dataclass(frozen=True)
class Options(DriveOptions):
    sensors: tuple[str, ...] = option(("vlp16", "os2_128"), "names of sensors or beam files, separated by commas")
    runs: Path = option(Path("runs/odometry_bench"), RUNS)
    fresh: tuple[str, ...] = option((), "delete cached outcomes first: 'poli' (our own), 'times' (timed ones) or 'all'")
    processes: int = option(0, f"{PROCESSES}; for untimed runs", least=0)
    sequences: tuple[RealSequence, ...] = REAL_SEQUENCES
    rivals: tuple[str, ...] = tuple(METHODS)

    def __post_init__(self) -> None:
        if not set(self.fresh) <= set(FORGETTABLE):
            raise InputError(f"fresh is {', '.join(self.fresh)!r}; expected some of {', '.join(FORGETTABLE)}")
        if self.processes < 0:
            raise InputError(f"processes is {self.processes}; expected 1 or more, or 0 for one per core")
        strange = [name for name in self.rivals if name not in METHODS]
        if strange:
            raise InputError(f"rivals: {strange[0]!r} is unknown; choose from {', '.join(METHODS)}")

    def sources(self) -> list[DriveSource]:
        """Simulated drives first, recording missing ones, then real ones."""
        simulated_sequences(self.sensors, self.places, self.scans, keep=self.drives)
        simulated = [SimulatedDrive(s, p, self.scans, self.drives) for s in self.sensors for p in self.places]
        return [*simulated, *(RealDrive(self.real, sequence) for sequence in self.sequences if self.real is not None)]


def run(options: Options) -> Iterator[Report]:
    sources, kept = options.sources(), Cache(options.runs)
    for which in options.fresh:
        kept.forget(which)
    _run_ahead(options, sources)
    with same_threads():
        everything, truths = _judge_all(options, sources, kept)
        times, kiss = _time_all(options, everything, kept)
    best = at_best_settings(everything)
    plots = {"odometry": partial(plot_errors, best), "odometry_trajectories": partial(plot_trajectories, best, truths)}
    yield replace(by_sensor_report(everything), plots=plots)
    yield by_drive_report(everything)
    yield systems_report(everything)
    yield times_report(times, kiss, TIMED_SCANS)
    if options.real is not None:
        yield real_report(everything)


def _run_ahead(options: Options, sources: Sequence[DriveSource]) -> None:
    """Run everything that is not timed, into the cache."""
    processes = options.processes or thread_count()
    if processes > 1:
        in_processes(partial(_run_untimed, options), sources, processes, "drives, not timed")


def _run_untimed(options: Options, source: DriveSource) -> None:
    kept, drive = Cache(options.runs), source.open()
    if isinstance(source, RealDrive):
        kept.reference(source)
    thinned = ThinnedScans(drive)
    for contestant in contestants(drive.voxels, options.model, options.rivals):
        if not contestant.timed:
            kept.outcome(drive, contestant, thinned)


def _judge_all(
    options: Options, sources: Sequence[DriveSource], kept: Cache
) -> tuple[list[Judged], dict[str, np.ndarray]]:  # and the true poses by drive, (M, 4, 4)
    everything: list[Judged] = []
    truths: dict[str, np.ndarray] = {}
    for source in track(sources, "drives, timed"):
        drive = source.open()
        thinned = ThinnedScans(drive)
        reference = kept.reference(source) if isinstance(source, RealDrive) else None
        truths[drive.name] = drive.poses
        everyone = contestants(drive.voxels, options.model, options.rivals)
        everything += [judge(drive, c, kept.outcome(drive, c, thinned), reference) for c in everyone]
    return everything, truths


def _time_all(options: Options, everything: Sequence[Judged], kept: Cache) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Milliseconds by case and method on one drive per sensor, and those of KISS-ICP on that drive by case."""
    times: dict[str, dict[str, float]] = {}
    kiss: dict[str, float] = {}
    best = at_best_settings(everything)
    place = _TIMED_PLACE if _TIMED_PLACE in options.places else options.places[0]
    for sensor in track(options.sensors, "times"):
        drive = SimulatedDrive(sensor, place, options.scans, options.drives).open()
        start = _beginning(drive)
        chosen = [j for j in best if j.drive == drive.name]
        for contestant in contestants(drive.voxels, options.model, options.rivals):
            mine = [j for j in chosen if (j.method, j.setting, j.voxel) == _named(contestant)]
            if mine and not contestant.timed:
                seconds = kept.outcome(start, contestant).seconds
                times.setdefault(mine[0].case, {})[contestant.method] = 1e3 * float(np.median(seconds))
        theirs = [j.milliseconds for j in chosen if j.method == "KISS-ICP" and j.voxel == CHOSEN]
        kiss |= {j.case: theirs[0] for j in chosen if theirs and j.case in times}
    return times, kiss


def _beginning(drive: RecordedDrive) -> RecordedDrive:
    """The start of a drive, renamed so that its runs are cached separately from single-threaded ones."""
    return replace(drive.first(TIMED_SCANS), name=drive.name + TIMED)


def _named(contestant: Contestant) -> tuple[str, str, float]:
    return contestant.method, contestant.setting, contestant.voxel
