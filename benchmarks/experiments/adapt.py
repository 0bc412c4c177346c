"""`python -m benchmarks adapt`: a model tuned to the first half of each real sequence without its poses, judged on the second half."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress, track

from benchmarks.data.drives import RealSequence, RecordedDrive, real_sequences
from benchmarks.data.real_sequences import RealConfiguration, real_pairs
from benchmarks.experiments.geometry import likelihoods
from benchmarks.metrics.likelihood import Matches
from benchmarks.report import Report, publish
from poli.errors import PoliError
from poli.estimation import estimate
from poli.learn.adapt import Adaptation, AdaptConfig, adapt
from poli.learn.tracked_log import TrackedLog
from poli.learn.trainer import Listener, StepReport
from poli.scan import Scan
from poli.tasks.odometry import Odometer, OdometryConfig
from poli.tasks.trajectories import relative_errors

SEQUENCES = (
    RealSequence("kitti_raw_0013", "hdl64e", 10.0, (0.5,), beams=16),
    RealSequence("nuscenes_0001", "hdl32e", 20.0, (0.5,), nearest=2.5),
    RealSequence("mulran_kaist03", "os1_64", 10.0, (0.5,)),
)
VOXELS = (0.2, 0.5, 1.0)  # metres, at which the likelihood is judged
_PAIRS = 8  # of scans, judged at each voxel size


@dataclass(frozen=True)
class AdaptBench:
    real: Path  # a folder in the layout of KITTI odometry with the real sequences
    model: str = "lidar"
    settings: AdaptConfig = field(default_factory=AdaptConfig)
    sequences: tuple[RealSequence, ...] = SEQUENCES


@dataclass(frozen=True)
class Likelihood:
    nll: float  # nats a match
    median: float  # of d'(2C)^-1 d


@dataclass(frozen=True)
class Travelled:
    """Scan to scan, against the sequence's own poses, from each scan to the next: RMSE."""

    translation: float  # metres
    rotation: float  # degrees


def run(config: AdaptBench, runs: Path, out: Path, json_path: Path | None, command: str) -> None:
    figures = {}
    for real, drive in zip(config.sequences, real_sequences(config.real, config.sequences), strict=True):
        figures[real.name] = _sequence(config, real, drive, runs / real.name.replace(", ", "_").replace(" ", "_"))
    publish(_report(figures, command, config), "adapt", out, json_path)


def _sequence(config: AdaptBench, real: RealSequence, drive: RecordedDrive, folder: Path) -> dict[str, Any]:
    half = (len(drive) + 1) // 2
    adaptation = adapted(drive, half, folder, config)
    models = {"before": config.model, "after": str(adaptation.model)}
    matches = {voxel: _matches(config.real, real, voxel, half) for voxel in VOXELS}
    return {
        "adaptation": {**asdict(adaptation), "model": None},
        "likelihood": {
            f"{voxel:g}": {when: asdict(_likelihood(matches[voxel], model)) for when, model in models.items()} for voxel in VOXELS
        },
        "odometry": {when: _travelled(drive, half, real.voxels[0], model) for when, model in models.items()},
    }


def adapted(drive: RecordedDrive, half: int, folder: Path, config: AdaptBench) -> Adaptation:
    """By the first `half` scans alone, without their poses. Written in any case, so that what is not kept can be judged as well."""
    odometer = Odometer(OdometryConfig(model=config.model, on_loss="restart"))
    scans = [Scan(points) for points in drive.scans[:half]]
    for scan in track(scans, f"odometry of {drive.name}"):
        odometer.add(scan)
    log = TrackedLog.of(f"{drive.name}, scans 0 to {half - 1}", scans, odometer.steps)
    with _Bar(drive.name, config.settings.steps) as listener:
        return adapt(log, folder, config.model, config.settings, listener, fresh=True, force=True)


def _matches(root: Path, real: RealSequence, voxel: float, first: int) -> list[Matches]:
    configuration = RealConfiguration(real.sequence, voxel, real.beams, real.nearest)
    return [pair.matches(voxel) for pair in real_pairs(root, configuration, _PAIRS, first)]


def _likelihood(matches: list[Matches], model: str) -> Likelihood:
    losses, squares = likelihoods(matches, [estimate(m.points, model) for m in matches])
    return Likelihood(float(losses.mean()), float(np.median(squares)))


def _travelled(drive: RecordedDrive, first: int, voxel: float, model: str) -> dict[str, float] | None:
    """None where tracking was lost."""
    odometer = Odometer(OdometryConfig(against="scan", voxel=voxel, model=model))
    try:
        for points in drive.scans[first:]:
            odometer.add(points)
    except PoliError:
        return None
    return asdict(Travelled(*relative_errors(odometer.poses, drive.poses[first:]).rmse))


def _report(figures: dict[str, Any], command: str, config: AdaptBench) -> Report:
    columns = ["sequence, voxel", "NLL before", "NLL after", "difference", "median before", "median after"]
    columns += ["RPE before", "RPE after", "held-out NLL", "held-out NEES", "kept", "minutes"]
    rows = []
    for name, figure in figures.items():
        own = figure["adaptation"]
        for voxel, judged in figure["likelihood"].items():
            before, after = judged["before"], judged["after"]
            cells = [f"{name}, {voxel} m", f"{before['nll']:.2f}", f"{after['nll']:.2f}", f"{after['nll'] - before['nll']:+.2f}"]
            cells += [f"{before['median']:.2f}", f"{after['median']:.2f}"]
            if voxel == f"{VOXELS[0]:g}":
                cells += [_shown(figure["odometry"][when]) for when in ("before", "after")]
                cells += [f"{own['before'][key]:.2f}, {own['after'][key]:.2f}" for key in ("nll", "nees")]
                cells += ["yes" if own["kept"] else "no", f"{own['minutes']:.1f}"]
            rows.append(cells + [""] * (len(columns) - len(cells)))
    notes = [
        "adapted on the first half of each sequence by odometry's poses, without ground truth; all else is of the second half",
        "NLL in nats a match under 0.9 N(d; 0, 2C) + 0.1 N(d; 0, 1 m^2 I); median of d'(2C)^-1 d (2.37 when calibrated); as in "
        f"`python -m benchmarks geometry`, of {_PAIRS} pairs of consecutive scans whose poses are refined by small_gicp's GICP",
        f"RPE: scan to scan at voxels of {config.sequences[0].voxels[0]:g} m against the sequence's own poses, RMSE from each scan "
        "to the next, centimetres / degrees",
        "held out: what `poli adapt` itself judges by, before and after: the last fifth of the first half under odometry's poses; "
        "NEES is the mean of d'(2C)^-1 d of believed matches (3 when calibrated); kept if the NLL is lower and NEES no farther "
        "from 3, or within 10 % of it",
        "steps, learning rate and how far partners may be were chosen with the figures of these second halves in view",
    ]
    figures = {"steps": config.settings.steps, "sequences": figures}
    return Report("Models adapted to a sensor by a log of it", command, columns, rows, notes, figures)


def _shown(travelled: dict[str, float] | None) -> str:
    return "lost" if travelled is None else f"{100 * travelled['translation']:.2f} / {travelled['rotation']:.3f}"


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
