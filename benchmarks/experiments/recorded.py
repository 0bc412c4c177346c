"""What learning from recordings adds: trained on some real sequences with poses of odometry, evaluated on others.

Four models: the one to start from; its sizes tuned to the recordings, as by `poli adapt`; shapes learned from merged scans and then
sizes, as by `poli train configs/recorded.toml`; and the same from random weights, without simulation.

Example: python -m benchmarks recorded --real sequences
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, replace
from pathlib import Path

import numpy as np
from rich.progress import track

from benchmarks.data.drives import RealSequence, real_sequences
from benchmarks.data.real_sequences import RealConfiguration, real_pairs
from benchmarks.experiments.geometry import likelihoods
from benchmarks.options import MODEL, option
from benchmarks.report import Record, Report, Table, column_list, mean_record
from poli.cli.tracking import track as run_odometry
from poli.data.datasets import Skipped
from poli.data.scan_pairs import ScanPair
from poli.estimation import estimate, load_model
from poli.learn.config import ScheduleConfig, TrainConfig
from poli.learn.losses import LossConfig
from poli.learn.merged_scans import Merging, merged_pairs
from poli.learn.scan_config import ScanConfig
from poli.learn.scans import ScanSource
from poli.learn.trainer import Listener, train
from poli.scan import Scan
from poli.tasks.odometry import OdometryConfig

LEARNED = (
    RealSequence("kitti_raw_0009", "hdl64e", 10.0, (0.5,), raw_kitti=True),
    RealSequence("kitti_raw_0009", "hdl64e", 10.0, (0.5,), beams=16, raw_kitti=True),
    RealSequence("nuscenes_0006", "hdl32e", 20.0, (0.5,), nearest=2.5),
    RealSequence("mulran_kaist03", "os1_64", 10.0, (0.5,)),
)
JUDGED = (
    RealConfiguration("kitti_raw_0005", 0.5, 16),
    RealConfiguration("kitti_raw_0005", 0.5),
    RealConfiguration("kitti_raw_0013", 0.5, 16),
    RealConfiguration("kitti_raw_0013", 0.5),
    RealConfiguration("nuscenes_0001", 0.5, nearest=2.5),
    RealConfiguration("robosense_e1r", 0.5),
    RealConfiguration("robosense_e1r", 0.2),
)
SEEN = (RealConfiguration("kitti_raw_0009", 0.5, 16), RealConfiguration("nuscenes_0006", 0.5, nearest=2.5))
_BEFORE, _SIZES, _SHAPES, _ALONE = "before", "sizes", "shapes and sizes", "recordings alone"
_REACH = 1.0  # meters: partners are the next scan and later ones this near, as in `poli adapt`
_CALIBRATING = 12  # pairs at most
_FROM_SCRATCH = 1e-2  # learning rate


@dataclass(frozen=True)
class Options:
    real: Path = option(MISSING, "folder of real sequences in the layout of KITTI odometry")
    model: str = option("lidar", f"model to start from: {MODEL}")
    steps: int = option(400, "training steps of sizes", least=1)
    shape_steps: int = option(600, "training steps of shapes, from the model", least=1)
    shape_rate: float = option(1e-3, "learning rate of shapes, from the model, at its peak")
    alone_steps: int = option(0, "training steps of shapes from random weights; 0: leave this out", least=0)
    first: int = option(200, "scans per sequence to learn from, the first ones", least=20)
    scans: int = option(60, "of these, scans that start a pair; a fifth is held out to calibrate", least=10)
    pairs: int = option(8, "pairs per setting to evaluate", least=1)
    runs: Path = option(Path("runs/recorded"), "folder for the training runs; they resume")


_TABLE = Table(column_list(sequence="{sequence}"), across="model", cell="{nll:.2f} / {median:.2f}")


def run(options: Options) -> Iterator[Report]:
    learned, held_out = recorded_pairs(options)
    models = _trained(options, learned, held_out)
    records: list[Record] = []
    for one in track((*JUDGED, *SEEN), "real sequences"):
        records += _judged(options, one, models, one.label + (", learned from" if one in SEEN else ""))
    shown = [*records]
    for name in models:
        mine = [r for r in records if r["model"] == name]
        shown.append({**mean_record(mine[: len(JUDGED)]), "sequence": "mean without those learned from"})
    notes = [
        "NLL in nats per match under 0.9 N(d; 0, 2C) + 0.1 N(d; 0, 1 m^2 I) / median of d'(2C)^-1 d (2.37 when calibrated); as in "
        f"`python -m benchmarks geometry`, {options.pairs} pairs per setting, motion known",
        f"learned from the first {options.first} scans of {', '.join(real.name for real in LEARNED)} with poses of odometry: "
        f"{len(learned)} pairs, {sum(pair.survey is not None for pair in learned)} with a survey; calibrated on some of their last "
        "fifth",
        f"sizes: {options.steps} steps from {options.model}; shapes and sizes: {options.shape_steps} steps of shapes from "
        f"{options.model} with learning rate {options.shape_rate:g}, then the same of sizes",
    ]
    if options.alone_steps:
        notes.append(f"recordings alone: {options.alone_steps} steps of shapes from random weights, then the same of sizes")
    yield Report("recorded", "Learning from recordings, judged on other sequences", records, _TABLE, notes, shown=shown)


def recorded_pairs(options: Options) -> tuple[list[ScanPair], list[ScanPair]]:
    """Training pairs with merged surveys, and held-out pairs, of all sequences to learn from."""
    learned: list[ScanPair] = []
    held_out: list[ScanPair] = []
    for real, drive in zip(LEARNED, real_sequences(options.real, LEARNED), strict=True):
        settings = OdometryConfig(model=options.model, on_loss="restart", min_range=real.nearest)
        log = run_odometry(_Recording(drive.name, drive.first(options.first).recorded), settings)
        mine, last = merged_pairs(log, options.scans, _REACH, Merging())
        learned, held_out = learned + mine, held_out + last
    return learned, held_out


class _Recording(list[Scan]):
    """The scans of a drive as a dataset, without their poses."""

    poses = None
    skipped: tuple[Skipped, ...] = ()

    def __init__(self, name: str, scans: list[Scan]) -> None:
        super().__init__(scans)
        self.name = name


def _trained(options: Options, learned: list[ScanPair], held_out: list[ScanPair]) -> dict[str, str]:
    """Train the models and return their files by name."""
    architecture = load_model(options.model).architecture
    scans = ScanConfig(worlds=0, validation_worlds=0, datasets=tuple(real.name for real in LEARNED), points=2560, blind=0.03)
    calibrating = held_out[:: math.ceil(len(held_out) / _CALIBRATING)]
    # The sizes of a model to start from are about right; others start at those of the survey.
    tuning = ScanSource(scans, architecture, learned, calibrating)
    afresh = ScanSource(scans, architecture, learned, calibrating)
    sizes = TrainConfig(
        "recorded", 0, options.model, scans=scans, architecture=architecture,
        loss=LossConfig("ttqc", outliers=0.1, outlier_sigma=1.0),
        schedule=ScheduleConfig(options.steps, 5e-3, warmup=50, settle=1.0, average=0.99, validate_every=options.steps),
    )  # fmt: skip
    shapes = replace(
        sizes,
        loss=replace(sizes.loss, tail=0.5, visibility=0.4),
        schedule=replace(sizes.schedule, steps=options.shape_steps, learning_rate=options.shape_rate, settle=0.0, average=0.995),
    )
    found = {_BEFORE: options.model, _SIZES: _run(sizes, options, "sizes", tuning)}
    reshaped = _run(shapes, options, "shapes", tuning)
    found[_SHAPES] = _run(replace(sizes, initial=reshaped), options, "shapes_sizes", tuning)
    if options.alone_steps:
        schedule = replace(shapes.schedule, steps=options.alone_steps, learning_rate=_FROM_SCRATCH)
        alone = _run(replace(shapes, initial="", schedule=schedule), options, "alone", afresh)
        found[_ALONE] = _run(replace(sizes, initial=alone), options, "alone_sizes", afresh)
    return found


def _run(config: TrainConfig, options: Options, name: str, source: ScanSource) -> str:
    return str(train(config, options.runs / name, Listener(), source=source))


def _judged(options: Options, configuration: RealConfiguration, models: dict[str, str], label: str) -> list[Record]:
    pairs = real_pairs(options.real, configuration, options.pairs)
    matches = [pair.matches(configuration.voxel) for pair in pairs]
    records: list[Record] = []
    for name, model in models.items():
        fields = [estimate(m.points, model, motion=pair.T_q_p, warn=False) for m, pair in zip(matches, pairs, strict=True)]
        losses, squares = likelihoods(matches, fields)
        records.append({"sequence": label, "model": name, "nll": float(losses.mean()), "median": float(np.median(squares))})
    return records
