"""Odometry in simulated drives: from scan to scan against small_gicp's four methods, and on a map against five systems.

Most runs are settings of scan-to-scan rivals. These run first, in one single-threaded process per core. The systems, whose times
are published, follow in this process with all threads, one after another.

Example: python -m benchmarks odometry --out docs/results
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from rich.progress import track

from benchmarks.cache import FORGETTABLE, Cache
from benchmarks.data.drives import DriveOptions, SimulatedDrive, ThinnedScans, simulated_sequences
from benchmarks.experiments.odometry.plots import plot_errors, plot_trajectories
from benchmarks.experiments.odometry.tables import by_sensor_report, systems_report
from benchmarks.metrics.odometry import Judged, at_best_settings, judge
from benchmarks.options import PROCESSES, RUNS, option
from benchmarks.parallel import in_processes
from benchmarks.report import Report
from benchmarks.rivals.odometry import METHODS
from benchmarks.rivals.odometry_contestants import contestants
from benchmarks.timing import same_threads
from poli.errors import InputError
from poli.threads import thread_count

MODELS = ("lidar",)


@dataclass(frozen=True)
class Options(DriveOptions):
    sensors: tuple[str, ...] = option(("vlp16", "os2_128"), "names of sensors or beam files, separated by commas")
    runs: Path = option(Path("runs/odometry_bench"), RUNS)
    fresh: tuple[str, ...] = option((), "delete cached outcomes first: 'poli' (our own), 'times' (timed ones) or 'all'")
    processes: int = option(0, f"{PROCESSES}; for untimed runs", least=0)
    rivals: tuple[str, ...] = tuple(METHODS)

    def __post_init__(self) -> None:
        if not set(self.fresh) <= set(FORGETTABLE):
            raise InputError(f"fresh is {', '.join(self.fresh)!r}; expected some of {', '.join(FORGETTABLE)}")
        if self.processes < 0:
            raise InputError(f"processes is {self.processes}; expected 1 or more, or 0 for one per core")
        strange = [name for name in self.rivals if name not in METHODS]
        if strange:
            raise InputError(f"rivals: {strange[0]!r} is unknown; choose from {', '.join(METHODS)}")

    def sources(self) -> list[SimulatedDrive]:
        """The drives; missing ones are recorded."""
        simulated_sequences(self.sensors, self.places, self.scans, keep=self.drives)
        return [SimulatedDrive(s, p, self.scans, self.drives) for s in self.sensors for p in self.places]


def run(options: Options) -> Iterator[Report]:
    sources, kept = options.sources(), Cache(options.runs)
    for which in options.fresh:
        kept.forget(which)
    _run_ahead(options, sources)
    with same_threads():
        everything, truths = _judge_all(options, sources, kept)
    best = at_best_settings(everything)
    plots = {"odometry": partial(plot_errors, best), "odometry_trajectories": partial(plot_trajectories, best, truths)}
    yield replace(by_sensor_report(everything), plots=plots)
    yield systems_report(everything)


def _run_ahead(options: Options, sources: Sequence[SimulatedDrive]) -> None:
    """Run everything that is not timed, into the cache."""
    processes = options.processes or thread_count()
    if processes > 1:
        in_processes(partial(_run_untimed, options), sources, processes, "drives, not timed")


def _run_untimed(options: Options, source: SimulatedDrive) -> None:
    kept, drive = Cache(options.runs), source.open()
    thinned = ThinnedScans(drive)
    for contestant in contestants(drive.voxels, options.model, options.rivals):
        if not contestant.timed:
            kept.outcome(drive, contestant, thinned)


def _judge_all(
    options: Options, sources: Sequence[SimulatedDrive], kept: Cache
) -> tuple[list[Judged], dict[str, np.ndarray]]:  # and the true poses by drive, (M, 4, 4)
    everything: list[Judged] = []
    truths: dict[str, np.ndarray] = {}
    for source in track(sources, "drives, timed"):
        drive = source.open()
        thinned = ThinnedScans(drive)
        truths[drive.name] = drive.poses
        everyone = contestants(drive.voxels, options.model, options.rivals)
        everything += [judge(drive, c, kept.outcome(drive, c, thinned)) for c in everyone]
    return everything, truths
