"""`python -m benchmarks odometry`: from scan to scan against ICP's variants, and on a map against KISS-ICP and GenZ-ICP.

Most of it is settings of scan-to-scan rivals, of which only the errors are published. Those run first, a process a core with one
thread each. What is timed runs afterwards in this process with every thread, one after another: the systems on every drive; the
scan-to-scan methods, at the settings that turned out best, on one drive of each sensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from rich.progress import track

from benchmarks.cache import FORGETTABLE, TIMED, Kept
from benchmarks.data.drives import (
    REAL_SEQUENCES,
    DriveSource,
    RealDrive,
    RealSequence,
    RecordedDrive,
    SimulatedDrive,
    ThinnedScans,
    simulated_sequences,
)
from benchmarks.data.held_out import PLACES
from benchmarks.experiments.odometry.plots import plot_errors, plot_trajectories
from benchmarks.experiments.odometry.system_tables import real_report, systems_report
from benchmarks.experiments.odometry.tables import by_drive_report, by_sensor_report, times_report
from benchmarks.metrics.odometry import Judged, at_best_settings, judge
from benchmarks.parallel import in_processes
from benchmarks.report import publish
from benchmarks.rivals.odometry import METHODS
from benchmarks.rivals.odometry_contestants import CHOSEN, Contestant, contestants
from benchmarks.timing import same_threads
from poli.errors import InputError
from poli.threads import thread_count

TIMED_SCANS = 41  # of a drive, for scan-to-scan methods: their time does not grow with the drive
_TIMED_PLACE = "town"


@dataclass(frozen=True)
class OdometryBench:
    model: str = "lidar"
    sensors: tuple[str, ...] = ("vlp16", "os2_128")  # names, or files of beams
    places: tuple[str, ...] = PLACES
    scans: int = 121  # of each simulated drive
    drives: Path = Path("runs/odometry_drives")  # where simulated drives are kept
    real: Path | None = None  # a folder in the layout of KITTI odometry with the real sequences
    sequences: tuple[RealSequence, ...] = REAL_SEQUENCES
    rivals: tuple[str, ...] = tuple(METHODS)
    runs: Path = Path("runs/odometry_bench")  # where outcomes are kept
    fresh: tuple[str, ...] = ()  # which outcomes are forgotten first, of `FORGETTABLE`
    processes: int = 0  # for what is not timed; 0: one a core, 1: none beside this one

    def __post_init__(self) -> None:
        if not set(self.fresh) <= set(FORGETTABLE):
            raise InputError(f"fresh is {', '.join(self.fresh)!r}; expected some of {', '.join(FORGETTABLE)}")
        if self.processes < 0:
            raise InputError(f"processes is {self.processes}; expected 1 or more, or 0 for one a core")
        strange = [name for name in self.rivals if name not in METHODS]
        if strange:
            raise InputError(f"rivals: {strange[0]!r} is unknown; choose from {', '.join(METHODS)}")

    def sources(self) -> list[DriveSource]:
        """Simulated drives first; missing ones are recorded now."""
        simulated_sequences(self.sensors, self.places, self.scans, keep=self.drives)
        simulated = [SimulatedDrive(s, p, self.scans, self.drives) for s in self.sensors for p in self.places]
        return [*simulated, *(RealDrive(self.real, sequence) for sequence in self.sequences if self.real is not None)]


def run(bench: OdometryBench, out: Path, json_path: Path | None, command: str) -> None:
    sources, kept = bench.sources(), Kept(bench.runs)
    for which in bench.fresh:
        kept.forget(which)
    _run_ahead(bench, sources)
    with same_threads():
        everything, truths = _judge_all(bench, sources, kept)
        times, kiss = _time_all(bench, everything, kept)
    publish(by_sensor_report(everything, command), "odometry", out, json_path)
    publish(by_drive_report(everything, command), "odometry_drives", out, None)
    publish(systems_report(everything, command), "odometry_systems", out, None)
    publish(times_report(times, kiss, TIMED_SCANS, command), "odometry_times", out, None)
    if bench.real is not None:
        publish(real_report(everything, command), "odometry_real", out, None)
    best = at_best_settings(everything)
    plot_errors(best, out / "odometry.png")
    plot_trajectories(best, truths, out / "odometry_trajectories.png")


def _run_ahead(bench: OdometryBench, sources: Sequence[DriveSource]) -> None:
    """All that is not timed, into the folder of outcomes."""
    processes = bench.processes or thread_count()
    if processes > 1:
        in_processes(partial(_run_untimed, bench), sources, processes, "drives, not timed")


def _run_untimed(bench: OdometryBench, source: DriveSource) -> None:
    kept, drive = Kept(bench.runs), source.open()
    if isinstance(source, RealDrive):
        kept.reference(source)
    thinned = ThinnedScans(drive)
    for contestant in contestants(drive.voxels, bench.model, bench.rivals):
        if not contestant.timed:
            kept.outcome(drive, contestant, thinned)


def _judge_all(
    bench: OdometryBench, sources: Sequence[DriveSource], kept: Kept
) -> tuple[list[Judged], dict[str, np.ndarray]]:  # and the true poses by drive, (M, 4, 4)
    everything: list[Judged] = []
    truths: dict[str, np.ndarray] = {}
    for source in track(sources, "drives, timed"):
        drive = source.open()
        thinned = ThinnedScans(drive)
        reference = kept.reference(source) if isinstance(source, RealDrive) else None
        truths[drive.name] = drive.poses
        everyone = contestants(drive.voxels, bench.model, bench.rivals)
        everything += [judge(drive, c, kept.outcome(drive, c, thinned), reference) for c in everyone]
    return everything, truths


def _time_all(
    bench: OdometryBench, everything: Sequence[Judged], kept: Kept
) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Milliseconds by case and method on one drive of each sensor, and KISS-ICP's on that drive by case."""
    times: dict[str, dict[str, float]] = {}
    kiss: dict[str, float] = {}
    best = at_best_settings(everything)
    place = _TIMED_PLACE if _TIMED_PLACE in bench.places else bench.places[0]
    for sensor in track(bench.sensors, "times"):
        drive = SimulatedDrive(sensor, place, bench.scans, bench.drives).open()
        start = _beginning(drive)
        chosen = [j for j in best if j.drive == drive.name]
        for contestant in contestants(drive.voxels, bench.model, bench.rivals):
            mine = [j for j in chosen if (j.method, j.setting, j.voxel) == _named(contestant)]
            if mine and not contestant.timed:
                seconds = kept.outcome(start, contestant).seconds
                times.setdefault(mine[0].case, {})[contestant.method] = 1e3 * float(np.median(seconds))
        theirs = [j.milliseconds for j in chosen if j.method == "KISS-ICP" and j.voxel == CHOSEN]
        kiss |= {j.case: theirs[0] for j in chosen if theirs and j.case in times}
    return times, kiss


def _beginning(drive: RecordedDrive) -> RecordedDrive:
    """Under another name, so that its runs are kept apart from those of one thread."""
    return replace(drive, name=drive.name + TIMED, scans=drive.scans[:TIMED_SCANS], poses=drive.poses[:TIMED_SCANS])


def _named(contestant: Contestant) -> tuple[str, str, float]:
    return contestant.method, contestant.setting, contestant.voxel
