"""Tune a model to the first half of real sequences without ground truth, and evaluate it on the second half.

Example: python -m benchmarks adapt --real sequences
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress, track

from benchmarks.data.drives import RealSequence, RecordedDrive, real_sequences
from benchmarks.data.real_sequences import RealConfiguration, real_pairs
from benchmarks.experiments.geometry import likelihoods
from benchmarks.metrics.likelihood import Matches
from benchmarks.options import MODEL, option
from benchmarks.report import Cell, Column, Report, Table, show
from poli.errors import PoliError
from poli.estimation import estimate
from poli.lidar_odometry import Odometer, OdometryConfig
from poli.lidar_odometry.trajectory_errors import relative_errors
from poli.scan import Scan
from poli.train.adapt import Adaptation, AdaptConfig, adapt
from poli.train.tracked_log import TrackedLog
from poli.train.trainer import Listener, StepReport

MODELS = ("lidar",)

SEQUENCES = (
    RealSequence("kitti_raw_0013", "hdl64e", 10.0, (0.5,), beams=16),
    RealSequence("nuscenes_0001", "hdl32e", 20.0, (0.5,), nearest=2.5),
    RealSequence("mulran_kaist03", "os1_64", 10.0, (0.5,)),
)
VOXELS = (0.2, 0.5, 1.0)  # meters, voxel sizes of the likelihood
_PAIRS = 8  # pairs of scans per voxel size


@dataclass(frozen=True)
class Options:
    real: Path = option(MISSING, "folder of real sequences in the layout of KITTI odometry")
    model: str = option("lidar", f"model to start from: {MODEL}")
    steps: int = option(1500, "training steps per sequence", least=1)
    runs: Path = option(Path("runs/bench_adapt"), "folder for the adapted models; overwritten each time")


@dataclass(frozen=True)
class Likelihood:
    nll: float  # nats per match
    median: float  # of d'(2C)^-1 d


@dataclass(frozen=True)
class Travelled:
    """RMSE per step of scan-to-scan odometry, against the given poses of the sequence."""

    translation: float  # meters
    rotation: float  # degrees


def run(options: Options) -> Iterator[Report]:
    records = []
    for real, drive in zip(SEQUENCES, real_sequences(options.real, SEQUENCES), strict=True):
        folder = options.runs / real.name.replace(", ", "_").replace(" ", "_")
        records += _sequence(options, real, drive, folder)
    notes = [
        "adapted on the first half of each sequence with odometry poses, without ground truth; evaluated on the second half",
        "NLL in nats per match under 0.9 N(d; 0, 2C) + 0.1 N(d; 0, 1 m^2 I); median of d'(2C)^-1 d (2.37 when calibrated); as in "
        f"`python -m benchmarks geometry`, on {_PAIRS} pairs of consecutive scans with poses refined by small_gicp's GICP",
        f"RPE: scan to scan at voxels of {SEQUENCES[0].voxels[0]:g} m against the given poses, RMSE per step, "
        "centimeters / degrees",
        "held out: the criterion of `poli adapt`, before and after, on the last fifth of the first half with odometry poses; "
        "NEES is the mean of d'(2C)^-1 d of believed matches (3 when calibrated); kept if the NLL is lower and NEES no farther "
        "from 3, or within 10 % of it",
        "steps, learning rate and the maximum distance of partners were chosen knowing the results on these second halves",
    ]
    yield Report("adapt", "Models adapted to a sensor from a log", records, _TABLE, notes, {"steps": options.steps})


def _sequence(options: Options, real: RealSequence, drive: RecordedDrive, folder: Path) -> list[dict[str, Any]]:
    """One record per voxel size; the first also holds the values of the whole sequence."""
    half = (len(drive) + 1) // 2
    adaptation = adapted(drive, half, folder, options)
    models = {"before": options.model, "after": str(adaptation.model)}
    own = {
        "adaptation": {**asdict(adaptation), "model": None},
        "odometry": {when: _traveled(drive, half, real.voxels[0], model) for when, model in models.items()},
    }
    records = []
    for voxel in VOXELS:
        matches = _matches(options.real, real, voxel, half)
        likelihood = {when: asdict(_likelihood(matches, model)) for when, model in models.items()}
        once = own if voxel == VOXELS[0] else None
        records.append({"sequence": real.name, "voxel": voxel, **likelihood, "own": once})
    return records


def _rpe(when: str) -> Cell:
    return lambda r: _shown(r["own"]["odometry"][when]) if r["own"] else ""


def _of_sequence(template: str) -> Cell:
    return lambda r: show(template, r["own"]) if r["own"] else ""


_TABLE = Table(
    [Column("sequence, voxel", "{sequence}, {voxel:g} m")],
    [
        Column("NLL before", "{before[nll]:.2f}"),
        Column("NLL after", "{after[nll]:.2f}"),
        Column("difference", lambda r: f"{r['after']['nll'] - r['before']['nll']:+.2f}"),
        Column("median before", "{before[median]:.2f}"),
        Column("median after", "{after[median]:.2f}"),
        *(Column(f"RPE {when}", _rpe(when)) for when in ("before", "after")),
        Column("held-out NLL", _of_sequence("{adaptation[before][nll]:.2f}, {adaptation[after][nll]:.2f}")),
        Column("held-out NEES", _of_sequence("{adaptation[before][nees]:.2f}, {adaptation[after][nees]:.2f}")),
        Column("kept", lambda r: ("yes" if r["own"]["adaptation"]["kept"] else "no") if r["own"] else ""),
        Column("minutes", _of_sequence("{adaptation[minutes]:.1f}")),
    ],
)


def adapted(drive: RecordedDrive, half: int, folder: Path, options: Options) -> Adaptation:
    """Adapt to the first `half` scans, without their poses. Always writes the model, so that rejected ones are evaluated too."""
    odometer = Odometer(OdometryConfig(model=options.model, on_loss="restart"))
    scans = [Scan(points) for points in drive.scans[:half]]
    for scan in track(scans, f"odometry of {drive.name}"):
        odometer.add(scan)
    log = TrackedLog.of(f"{drive.name}, scans 0 to {half - 1}", scans, odometer.steps)
    with _Bar(drive.name, options.steps) as listener:
        return adapt(log, folder, options.model, AdaptConfig(options.steps), listener, fresh=True, force=True)


def _matches(root: Path, real: RealSequence, voxel: float, first: int) -> list[Matches]:
    configuration = RealConfiguration(real.sequence, voxel, real.beams, real.nearest)
    return [pair.matches(voxel) for pair in real_pairs(root, configuration, _PAIRS, first)]


def _likelihood(matches: list[Matches], model: str) -> Likelihood:
    losses, squares = likelihoods(matches, [estimate(m.points, model) for m in matches])
    return Likelihood(float(losses.mean()), float(np.median(squares)))


def _traveled(drive: RecordedDrive, first: int, voxel: float, model: str) -> dict[str, float] | None:
    """Odometry errors; None if tracking was lost."""
    odometer = Odometer(OdometryConfig(against="scan", voxel=voxel, model=model))
    try:
        for points in drive.scans[first:]:
            odometer.add(points)
    except PoliError:
        return None
    return asdict(Travelled(*relative_errors(odometer.poses, drive.poses[first:]).rmse))


def _shown(traveled: dict[str, float] | None) -> str:
    return "lost" if traveled is None else f"{100 * traveled['translation']:.2f} / {traveled['rotation']:.3f}"


class _Bar(Listener):
    def __init__(self, name: str, steps: int) -> None:
        self._progress = Progress()
        self._task = self._progress.add_task(f"adapting to {name}", total=steps)

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def step(self, report: StepReport, total: int) -> None:
        self._progress.update(self._task, completed=report.step)
