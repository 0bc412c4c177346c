"""Unmodified KISS-ICP and GenZ-ICP on raw scans and on scans densified by PCA, range image interpolation and POLI.

Example: python -m benchmarks augmentation --real sequences --json augmentation.json
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from benchmarks.cache import Cache
from benchmarks.data.drives import (
    DriveOptions,
    DriveSource,
    RealDrive,
    RealSequence,
    RecordedDrive,
    SimulatedDrive,
    simulated_sequences,
)
from benchmarks.options import PROCESSES, RUNS, option
from benchmarks.parallel import in_processes
from benchmarks.report import Column, Plot, Record, Report, Table, show
from benchmarks.rivals.augmentations import (
    AUGMENTATIONS,
    INTERPOLATION,
    PCA,
    POLI,
    RAW,
    SYSTEMS,
    Augmentation,
    augmentations,
    contestant,
)
from benchmarks.rivals.odometry_contestants import Outcome
from benchmarks.rivals.range_interpolation import RangeInterpolation
from poli.errors import InputError
from poli.tasks.densify import DensifyConfig
from poli.tasks.trajectory_errors import relative_errors
from poli.threads import thread_count

THINNED_SEQUENCES = (
    RealSequence("kitti_raw_0013", "hdl64e", 10.0, (0.5,), beams=16),
    RealSequence("nuscenes_0001", "hdl32e", 20.0, (0.5,), beams=16, nearest=2.5),
    RealSequence("mulran_kaist03", "os1_64", 10.0, (0.5,), beams=16),
)
COLORS = {RAW: "#9e9e9e", PCA: "#546e7a", INTERPOLATION: "#fb8c00", POLI: "#e53935"}
_MEASURES = {"long": "RPE over many scans, cm", "step": "RPE from scan to scan, cm", "refined": ""}
_LONG, _LONG_REAL = 100, 50  # frames
_FEWEST_PAIRS = 10  # for a long error; on shorter drives it spans four fifths of the scans


@dataclass(frozen=True)
class Options(DriveOptions):
    sensor: str = option("vlp16", "name of a sensor, or a file of beams")
    systems: tuple[str, ...] = option(tuple(SYSTEMS), "systems to run, separated by commas")
    per_point: int | None = option(None, "samples per ellipsoid; default: as `poli densify`", least=1)
    max_sigma: float | None = option(None, "reach of samples in standard deviations; default: as `poli densify`", least=0)
    runs: Path = option(Path("runs/augmentation_bench"), RUNS)
    fresh: bool = option(False, "delete cached outcomes first")
    processes: int = option(0, PROCESSES, least=0)
    interpolation: RangeInterpolation = field(default_factory=RangeInterpolation)
    sequences: tuple[RealSequence, ...] = THINNED_SEQUENCES
    seeds: int = 3  # seeds on real sequences, which are short enough for the seed to matter

    def __post_init__(self) -> None:
        if self.processes < 0:
            raise InputError(f"processes is {self.processes}; expected 1 or more, or 0 for one per core")
        unknown = [name for name in self.systems if name not in SYSTEMS]
        if unknown or not self.systems:
            raise InputError(f"systems: {', '.join(unknown) or 'none'}; choose from {', '.join(SYSTEMS)}")

    @property
    def config(self) -> DensifyConfig:
        """Configuration of POLI; PCA is sampled the same way."""
        given = {"per_point": self.per_point, "max_sigma": self.max_sigma}
        return DensifyConfig(model=self.model, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]

    def sources(self) -> list[DriveSource]:
        """Simulated drives first, recording missing ones, then real ones."""
        simulated_sequences((self.sensor,), self.places, self.scans, keep=self.drives)
        simulated = [SimulatedDrive(self.sensor, place, self.scans, self.drives) for place in self.places]
        return [*simulated, *(RealDrive(self.real, sequence) for sequence in self.sequences if self.real is not None)]


_TABLE = Table(
    [Column("system", "{system}"), Column("drive", "{shown_as}"), Column("frames", "{shown_frames}")],
    across="augmentation",
    cell="{meters:cm}",
    lowest="meters",
    order=AUGMENTATIONS,
    then=[("change", lambda by: show("{change:+%}", {"change": change(by[POLI]["meters"], by[RAW]["meters"])}))],
)


def run(options: Options) -> Iterator[Report]:
    records = run_sources(options, options.sources(), _all_augmentations)
    config = options.config
    kinds = f"{_way_of(config)}, ellipsoids at {config.voxel:g} m voxels"
    notes = [
        "Relative pose errors in centimeters (root mean square over all pairs that many scans apart); the lowest in a row is bold. "
        f"The last column is {POLI} against {RAW}: negative is better.",
        f"{POLI} and {PCA}: {kinds}{_chosen(config)}; {PCA} has 24 neighbors and the same sampling.",
        f"{INTERPOLATION}: three new rows between neighboring rings where both returns belong to one surface, by inverse "
        "range: a stand-in for learned upsampling, since no available network fits all sensors here.",
        "KISS-ICP runs with its defaults, GenZ-ICP with its authors' outdoor tuning; neither is modified for the augmented scans.",
        f"Real sequences are thinned to 16 rings; they are short, so {POLI} and {PCA} are means over three seeds. "
        "Their poses are accurate to a few centimeters, so errors from scan to scan are also given against poses "
        "refined by GICP on all rings.",
    ]
    shown = []
    for system in options.systems:
        for real in (False, True):
            group = [r for r in records if (r["system"], r["real"]) == (system, real)]
            for drive in dict.fromkeys(r["drive"] for r in group):
                shown += _by_measure([r for r in group if r["drive"] == drive], drive)
            shown += _by_measure(group, f"**{'real' if real else 'simulated'}, mean**")
    panels = [
        {**r, "meters": r[measure], "panel": f"{r['system']}: {title}"}
        for measure, title in _MEASURES.items() if title for r in records
    ]  # fmt: skip
    plot = Plot("drive", "meters", "augmentation", "", "cm", "panel", "bars", scale=100, colors=COLORS, stacked=True)
    plots = {"augmentation": partial(plot.draw, panels)}
    yield Report("augmentation", "KISS-ICP and GenZ-ICP on denser scans", records, _TABLE, notes, plots=plots, shown=shown)


def _by_measure(records: Sequence[Record], name: str) -> list[dict[str, Any]]:
    """Repeat each record for each available measure, under the name of a drive or of a mean over drives."""
    frames = {"long": "/".join(str(f) for f in sorted({r["frames"] for r in records})), "step": "1", "refined": "1, refined poses"}
    return [
        {**r, "shown_as": name, "shown_frames": frames[measure], "meters": r[measure]}
        for measure in _MEASURES if any(math.isfinite(r[measure]) for r in records) for r in records
    ]  # fmt: skip


def _way_of(config: DensifyConfig) -> str:
    if config.fills_gaps:
        return f"gaps between rings are filled up to an error of {config.max_error:g} m"
    return f"{config.samples_each} samples per ellipsoid within {config.reach:g} sigma"


def _chosen(config: DensifyConfig) -> str:
    chosen = f", within {config.max_range:g} m" if config.max_range is not None else ""
    chosen += f", planarity of {config.planarity:g} or more" if config.planarity else ""
    limited = config.max_thickness is not None and config.reach is not None
    return chosen + (f", no thicker than {config.max_thickness:g} m" if limited else "")


# The augmentations of a drive's scans. Pickled by name for other processes, so it must be a module-level function.
Ways = Callable[[Options, DriveSource], list[Augmentation]]


def _all_augmentations(options: Options, source: DriveSource) -> list[Augmentation]:
    return augmentations(source, options.config, options.interpolation, options.seeds if isinstance(source, RealDrive) else 1)


def run_sources(options: Options, sources: Sequence[DriveSource], ways: Ways) -> list[dict[str, Any]]:
    """Run each system on each drive in all `ways`, in single-threaded processes. Cached outcomes are not run again."""
    if options.fresh:
        Cache(options.runs).forget()
    processes = min(options.processes or thread_count(), len(sources))
    if processes == 1:
        return [record for source in track(sources, "drives") for record in _run_source(options, source, ways)]
    found = in_processes(partial(_run_source, options, ways=ways), sources, processes, "drives")
    return [record for of_source in found for record in of_source]


def _run_source(options: Options, source: DriveSource, ways: Ways) -> list[dict[str, Any]]:
    kept, drive = Cache(options.runs), source.open()
    reference = kept.reference(source) if isinstance(source, RealDrive) else None
    records = []
    for augmentation in ways(options, source):
        for system in options.systems:
            errors = judge(drive, kept.outcome(drive, contestant(system, augmentation)), reference)
            records.append({"drive": drive.name, "system": system, "augmentation": augmentation.name, **errors})
    return records


# --- metrics


def judge(drive: RecordedDrive, outcome: Outcome, reference: np.ndarray | None = None) -> dict[str, Any]:  # (M, 4, 4)
    """RPE in meters: over `frames`, from scan to scan, and from scan to scan against the refined poses of a real sequence."""
    frames = long_frames(len(drive), reference is not None)
    return {
        "real": reference is not None,
        "frames": frames,
        "long": _rpe(outcome.poses, drive.poses, frames),
        "step": _rpe(outcome.poses, drive.poses, 1),
        "refined": math.nan if reference is None else _rpe(outcome.poses, reference, 1),
    }


def long_frames(scans: int, real: bool) -> int:
    wanted = _LONG_REAL if real else _LONG
    return wanted if scans >= wanted + _FEWEST_PAIRS else max(1, 4 * scans // 5)


def change(value: float, before: float) -> float:
    """Relative change in percent; negative is better."""
    return 100.0 * (value / before - 1.0) if before > 0.0 else math.nan


def _rpe(poses: np.ndarray, truth: np.ndarray, frames: int) -> float:  # (M, 4, 4), (M, 4, 4)
    return relative_errors(poses, truth, frames, pairs="all").rmse.translation
