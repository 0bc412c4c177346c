"""What each measured fault of real sensors contributes: sizes trained with all faults but one, evaluated on real scans.

The directions stay those of the model, so every variant is a short run. Each fault is left out in turn, then all of them. Two
variants are repeated with another seed, in other worlds: an effect counts only if it is larger than the difference that this makes.

Example: python -m benchmarks fault_effects configs/lidar_more.toml --real sequences
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.progress import track

from benchmarks.data.real_sequences import RealConfiguration, real_configurations, real_pairs
from benchmarks.experiments.geometry import likelihoods
from benchmarks.options import MODEL, option
from benchmarks.report import Record, Report, Table, column_list, mean_record
from poli.data.scan_pairs import VALIDATION_SEEDS, ExactPair, exact_pairs
from poli.data.simulate.faults import KINDS
from poli.data.simulate.places import PLACES
from poli.errors import InputError
from poli.estimation import estimate, load_model
from poli.learn.config import TrainConfig, read_config
from poli.learn.scan_config import WORLDS_A_SEED, ScanConfig
from poli.learn.scans import ScanSource
from poli.learn.trainer import Listener, train

_ALL, _NONE, _AGAIN = "all faults", "no fault", ", other seed"
_PAIRS = 3  # per sequence
_BEAMS = 16  # to which KITTI's sensor is thinned
_VALIDATION_WORLDS = 4  # in which the sizes are calibrated
_FEWEST = 1000  # returns of a scan before some are lost


@dataclass(frozen=True)
class Options:
    config: Path = option(Path("configs/lidar_more.toml"), "configuration whose scans and loss the variants share", argument=True)
    model: str = option("lidar", f"whose directions are kept: {MODEL}")
    real: Path | None = option(None, "folder of real sequences in the layout of KITTI odometry (required)")
    steps: int = option(800, "training steps per variant", least=1)
    worlds: int = option(36, "training worlds per seed", least=1)
    stations: int = option(2, "spots in each world, with pairs of two sensors each", least=1)
    voxel: float = option(0.5, "voxel size of the real scans, in meters")
    runs: Path = option(Path("runs/fault_effects"), "folder for the training runs; they resume")


_TABLE = Table(column_list(sequence="{sequence}"), across="faults", cell="{nll:+.2f} / {median:.2f}")


def run(options: Options) -> Iterator[Report]:
    config = read_config(options.config)
    if config.scans is None or options.real is None:
        raise InputError("fault_effects: needs a configuration for scans, and real sequences (--real)")
    variants = {_ALL: (), _NONE: tuple(KINDS), _ALL + _AGAIN: (), **{f"without {kind}": (kind,) for kind in KINDS}}
    variants[_NONE + _AGAIN] = tuple(KINDS)
    worlds = {seed: _worlds(config.scans, options, seed) for seed in (config.seed, config.seed + 1)}
    models = {}
    for name, left_out in track(variants.items(), "training"):
        variant = _variant(config, options, left_out, config.seed + name.endswith(_AGAIN))
        pairs, held_out = ([one.faulty(left_out) for one in exact] for exact in worlds[variant.seed])
        assert variant.scans is not None
        source = ScanSource(variant.scans, variant.architecture, pairs, held_out)
        models[name] = train(variant, options.runs / name.replace(",", "").replace(" ", "_"), Listener(), source=source)
    records: list[Record] = []
    settings = [c for c in real_configurations((options.voxel,)) if c.beams == (_BEAMS if c.sequence.startswith("kitti") else None)]
    for one in track(settings, "real sequences"):
        records += _judged(options.real, one, {name: str(path) for name, path in models.items()})
    notes = [
        "NLL in nats per match, relative to sizes trained with all faults, and median of d'(2C)^-1 d (2.37 when calibrated); "
        f"voxels of {options.voxel:g} m, {_PAIRS} pairs per sequence, distance known",
        f"only sizes are trained, {options.steps} steps each in {options.worlds} worlds, from those of {options.model}, which were "
        "trained with all faults; directions stay",
        "other seed: other worlds and draws. What differs between the two columns of all faults is the noise of the others",
    ]
    means = [{**mean_record([r for r in records if r["faults"] == name]), "sequence": "mean"} for name in models]
    title = "Effect of each fault on the likelihood of real scans"
    yield Report("fault_effects", title, records, _TABLE, notes, shown=[*records, *means])


def _worlds(scans: ScanConfig, options: Options, seed: int) -> tuple[list[ExactPair], list[ExactPair]]:
    """Pairs of the training worlds of a seed and of the worlds that calibrate, without faults and surveys."""
    first = seed * WORLDS_A_SEED
    rows = [*range(first, first + options.worlds), *range(VALIDATION_SEEDS, VALIDATION_SEEDS + _VALIDATION_WORLDS)]
    found: tuple[list[ExactPair], list[ExactPair]] = ([], [])
    for row in track(rows, "worlds"):
        made = exact_pairs(PLACES[row % len(PLACES)], row, options.stations, scans.sensors, scans.sensors_each, surveyed=False)
        found[row >= VALIDATION_SEEDS].extend(one for one in made if min(len(one.pair.q), len(one.pair.p)) >= _FEWEST)
    return found


def _variant(config: TrainConfig, options: Options, left_out: tuple[str, ...], seed: int) -> TrainConfig:
    assert config.scans is not None
    scans = replace(config.scans, worlds=options.worlds, stations=options.stations, without_faults=left_out)
    schedule = replace(config.schedule, steps=options.steps, settle=1.0, average=0.99, validate_every=options.steps)
    architecture = load_model(options.model).architecture
    return replace(config, seed=seed, initial=options.model, scans=scans, schedule=schedule, architecture=architecture)


def _judged(root: Path, configuration: RealConfiguration, models: dict[str, str]) -> list[Record]:
    pairs = real_pairs(root, configuration, _PAIRS)
    matches = [pair.matches(configuration.voxel) for pair in pairs]
    apart = [float(np.linalg.norm(pair.T_q_p[:3, 3])) for pair in pairs]
    found = {}
    for name, model in models.items():
        fields = [estimate(m.points, model, motion=far, warn=False) for m, far in zip(matches, apart, strict=True)]
        losses, squares = likelihoods(matches, fields)
        found[name] = float(losses.mean()), float(np.median(squares))
    return [
        {"sequence": configuration.label, "faults": name, "nll": nll - found[_ALL][0], "median": median, "absolute_nll": nll}
        for name, (nll, median) in found.items()
    ]
