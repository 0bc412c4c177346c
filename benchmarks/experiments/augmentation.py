"""`python -m benchmarks augmentation`: KISS-ICP and GenZ-ICP, as they are, on raw scans and on scans made denser in three ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.progress import track

from benchmarks.cache import Kept
from benchmarks.data.drives import DriveSource, RealDrive, RealSequence, SimulatedDrive, simulated_sequences
from benchmarks.data.held_out import PLACES
from benchmarks.experiments.augmentation_plots import plot_gains
from benchmarks.experiments.augmentation_tables import augmentation_report
from benchmarks.metrics.augmentation import Gain, judge_gain
from benchmarks.parallel import in_processes
from benchmarks.report import publish
from benchmarks.rivals.augmentations import AUGMENTATIONS, SYSTEMS, Augmentation, augmentations, contestant
from benchmarks.rivals.range_interpolation import RangeInterpolation
from poli.errors import InputError
from poli.tasks.densify import DensifyConfig
from poli.threads import thread_count

THINNED_SEQUENCES = (
    RealSequence("kitti_raw_0013", "hdl64e", 10.0, (0.5,), beams=16),
    RealSequence("nuscenes_0001", "hdl32e", 20.0, (0.5,), beams=16, nearest=2.5),
    RealSequence("mulran_kaist03", "os1_64", 10.0, (0.5,), beams=16),
)


@dataclass(frozen=True)
class AugmentationBench:
    config: DensifyConfig = field(default_factory=DensifyConfig)  # of POLI; PCA is sampled alike
    interpolation: RangeInterpolation = field(default_factory=RangeInterpolation)
    systems: tuple[str, ...] = tuple(SYSTEMS)
    sensor: str = "vlp16"  # a name, or a file of beams
    places: tuple[str, ...] = PLACES
    scans: int = 121  # of each simulated drive
    drives: Path = Path("runs/odometry_drives")  # where simulated drives are kept
    real: Path | None = None  # a folder in the layout of KITTI odometry with the real sequences
    sequences: tuple[RealSequence, ...] = THINNED_SEQUENCES
    seeds: int = 3  # of samples on real sequences, which are so short that one seed or another decides
    runs: Path = Path("runs/augmentation_bench")  # where outcomes are kept
    fresh: bool = False  # whether kept outcomes are forgotten first
    processes: int = 0  # 0: one a core, 1: none beside this one

    def __post_init__(self) -> None:
        if self.processes < 0:
            raise InputError(f"processes is {self.processes}; expected 1 or more, or 0 for one a core")
        strange = [name for name in self.systems if name not in SYSTEMS]
        if strange or not self.systems:
            raise InputError(f"systems: {', '.join(strange) or 'none'}; choose from {', '.join(SYSTEMS)}")

    def sources(self) -> list[DriveSource]:
        """Simulated drives first; missing ones are recorded now."""
        simulated_sequences((self.sensor,), self.places, self.scans, keep=self.drives)
        simulated = [SimulatedDrive(self.sensor, place, self.scans, self.drives) for place in self.places]
        return [*simulated, *(RealDrive(self.real, sequence) for sequence in self.sequences if self.real is not None)]


def run(bench: AugmentationBench, out: Path, json_path: Path | None, command: str) -> None:
    gains = run_sources(bench, bench.sources(), _all_augmentations)
    publish(augmentation_report(gains, AUGMENTATIONS, bench.config, command), "augmentation", out, json_path)
    plot_gains(gains, AUGMENTATIONS, out / "augmentation.png")


# The ways in which a drive's scans are made denser. Found by name in other processes, so it must be a function of a module.
Ways = Callable[[AugmentationBench, DriveSource], list[Augmentation]]


def _all_augmentations(bench: AugmentationBench, source: DriveSource) -> list[Augmentation]:
    return augmentations(source, bench.config, bench.interpolation, bench.seeds if isinstance(source, RealDrive) else 1)


def run_sources(bench: AugmentationBench, sources: Sequence[DriveSource], ways: Ways) -> list[Gain]:
    """Every system on every drive in all `ways`. What was kept is not run again; the rest is, a process a core with one thread."""
    if bench.fresh:
        Kept(bench.runs).forget("all")
    processes = min(bench.processes or thread_count(), len(sources))
    if processes == 1:
        return [gain for source in track(sources, "drives") for gain in _run_source(bench, source, ways)]
    gains = in_processes(partial(_run_source, bench, ways=ways), sources, processes, "drives")
    return [gain for of_source in gains for gain in of_source]


def _run_source(bench: AugmentationBench, source: DriveSource, ways: Ways) -> list[Gain]:
    kept, drive = Kept(bench.runs), source.open()
    reference = kept.reference(source) if isinstance(source, RealDrive) else None
    gains = []
    for augmentation in ways(bench, source):
        for system in bench.systems:
            outcome = kept.outcome(drive, contestant(system, augmentation))
            gains.append(judge_gain(drive, system, augmentation.name, outcome, reference))
    return gains
