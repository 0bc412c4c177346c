"""What networks of several widths learn from the true normals of simulated worlds or shapes: a bound for training without them.

The networks start from the shipped one, widened (`learn.widening`), and minimize the cross entropy of N(0, C) relative to a thin
disk across the true normal n, log|C| / 2 + tr(C^-1 (I - 0.99 n n')) / 20. Its best C has the eigenvectors of the mean of n n', so
its thin axis is the direction with the smallest mean square sine to the truth. Real scans have no true normals: this is no way to
train a model, but it tells what a network of this size could know, and so what a better loss or longer training can still bring.

Example: OMP_NUM_THREADS=1 python -m benchmarks ceiling configs/lidar_control.toml
         OMP_NUM_THREADS=1 python -m benchmarks ceiling configs/objects_anneal.toml --model objects
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from rich.progress import track

from benchmarks.options import MODEL, option
from benchmarks.report import Record, Report, Table, column_list
from poli.data.scan_pairs import VALIDATION_SEEDS, ScanPair, load_pairs, save_pairs, simulated_pairs
from poli.data.simulate.places import PLACES
from poli.estimation import load_model
from poli.estimation.architecture import Architecture
from poli.learn import matrices3
from poli.learn.config import TrainConfig, read_config
from poli.learn.losses import LossConfig
from poli.learn.model import TrainingModel
from poli.learn.model_file import import_model
from poli.learn.pairs import PairBatch
from poli.learn.scan_config import WORLDS_A_SEED, ScanConfig
from poli.learn.scans import ScanSource
from poli.learn.source import ObjectSource, Source
from poli.learn.validate import Validation, validate
from poli.processes import start_worker
from poli.threads import thread_count

_FLATNESS, _WEIGHT = 0.99, 0.1  # of the disk, and of the trace, which fixes only the size
_WARMUP = 100  # steps


@dataclass(frozen=True)
class Options:
    config: Path = option(Path("configs/lidar_control.toml"), "configuration of the worlds or shapes", argument=True)
    model: str = option("lidar", f"where the networks start: {MODEL}")
    widths: tuple[int, ...] = option((1, 2), "multiples of the model's widths")
    steps: int = option(4000, "training steps", least=1)
    every: int = option(1000, "steps between two rows", least=1)
    rate: float = option(3e-3, "learning rate at the start; it falls to 1 % of it as a cosine")
    runs: Path = option(Path("runs/ceiling"), "folder for the recorded worlds")


_TABLE = Table(
    column_list(
        **{"widths": "{width:g} times", "multiply-adds": "{multiply_adds:,.0f}"},
        steps="{steps:,}",
        minutes="{minutes:.0f}",
        **{"RMSE / median, degrees": "{rmse:.2f} / {median:.2f}"},
    )
)


def run(options: Options) -> Iterator[Report]:
    config = read_config(options.config)
    made = _scans(config, config.scans, options.runs / "worlds") if config.scans else _shapes(config, options.config.parent)
    records: list[Record] = []
    for width in options.widths:
        records += _course(options, width, config.seed, made)
    surfaces = f"{config.scans.validation_worlds} validation worlds" if config.scans else "the validation shapes"
    notes = [
        f"normals of {surfaces}, as in the course of `poli train {options.config}`, whose worlds or shapes are trained on; start: "
        f"`{options.model}`, which saw no true normal",
        "supervised: a bound for what a network of this width can know, not a way to train for real scans",
    ]
    name = "ceiling" if config.scans else "ceiling_objects"
    yield Report(name, "Normals of networks that were told the truth", records, _TABLE, notes)


def _scans(config: TrainConfig, scans: ScanConfig, keep: Path) -> Callable[[Architecture], Source]:
    """How to make the source of a network from the worlds of a configuration."""
    first = config.seed * WORLDS_A_SEED
    seeds = [*range(first, first + scans.worlds), *range(VALIDATION_SEEDS, VALIDATION_SEEDS + scans.validation_worlds)]
    worlds = _recorded(scans, seeds, keep)
    pairs = [pair for world in worlds[: scans.worlds] for pair in world]
    held_out = [pair for world in worlds[scans.worlds :] for pair in world]
    return lambda architecture: ScanSource(scans, architecture, pairs, held_out)


def _shapes(config: TrainConfig, beside: Path) -> Callable[[Architecture], Source]:
    """The same from the shapes of a configuration; partners are not needed."""
    pairs = replace(config.pairs, partners=1)
    return lambda architecture: ObjectSource(
        replace(config, architecture=architecture, pairs=pairs), beside, lambda made, total: None
    )


def _course(options: Options, width: int, seed: int, made: Callable[[Architecture], Source]) -> Iterator[Record]:
    """Train one network; yield its scores before, during and after."""
    start = load_model(options.model)
    architecture = _widened(start.architecture, width)
    torch.manual_seed(seed)
    model = TrainingModel(architecture, LossConfig(kind="tqc"))
    import_model(start, model.network)
    source = made(architecture)
    average = TrainingModel(architecture, LossConfig(kind="tqc"))
    average.load_state_dict(model.state_dict())
    optimizer = torch.optim.Adam(model.network.parameters(), options.rate)
    began = time.perf_counter()

    def scored(step: int) -> Record:
        found = validate(average, source.held_out(draws=1))
        assert isinstance(found, Validation)
        return {
            "width": width, "multiply_adds": replace(architecture, curvature=0, curvature_wide=()).multiply_adds(), "steps": step,
            "minutes": (time.perf_counter() - began) / 60.0, "rmse": found.normal_rmse, "median": found.normal_median,
        }  # fmt: skip

    yield scored(0)
    for step in track(range(options.steps), f"width {width}"):
        fraction = step / options.steps
        for group in optimizer.param_groups:
            group["lr"] = options.rate * min(1.0, (step + 1) / _WARMUP) * (0.01 + 0.99 * 0.5 * (1.0 + np.cos(np.pi * fraction)))
        batch = source.draw(np.random.default_rng([seed, 0, step]), "sizes")
        optimizer.zero_grad()
        _cross_entropy(model, batch).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            for name, value in model.state_dict().items():
                average.state_dict()[name].lerp_(value, 1.0 - min(0.998, (1 + step) / (10 + step)))
        if (step + 1) % options.every == 0 or step + 1 == options.steps:
            yield scored(step + 1)


def _cross_entropy(model: TrainingModel, batch: PairBatch) -> torch.Tensor:
    """The mean over points with a true normal; sizes are relative to the spacing."""
    groups = batch.groups
    L = model.network(groups).double() / groups.spacing.double()[:, None, None]
    normals = torch.from_numpy(batch.normals.reshape(-1, 3))
    known = torch.isfinite(normals).all(1)
    local = groups.frames[0].double().transpose(1, 2)[known] @ normals[known][:, :, None]
    whitened = matrices3.inverse(L[known])
    trace = whitened.square().sum((1, 2)) - _FLATNESS * (whitened @ local).square().sum((1, 2))
    return (L[known].diagonal(dim1=1, dim2=2).log().sum(1) + 0.5 * _WEIGHT * trace).mean()


def _widened(a: Architecture, width: int) -> Architecture:
    return replace(
        a, edge=tuple(width * n for n in a.edge), scalars=tuple(width * n for n in a.scalars), head=width * a.head,
        attention=width * a.attention,
    )  # fmt: skip


def _recorded(scans: ScanConfig, seeds: list[int], keep: Path) -> list[list[ScanPair]]:
    keep.mkdir(parents=True, exist_ok=True)
    jobs = [(keep, seed, scans) for seed in seeds]
    with ProcessPoolExecutor(thread_count(), get_context("spawn"), start_worker) as pool:
        return list(track(pool.map(_world, jobs), "worlds", total=len(jobs)))


def _world(job: tuple[Path, int, ScanConfig]) -> list[ScanPair]:
    keep, seed, scans = job
    kind = PLACES[seed % len(PLACES)]
    about = f"truth; {scans.stations} stations, {scans.sensors_each} each of {', '.join(scans.sensors)}"
    path = keep / f"{kind}_{seed}.npz"
    pairs = load_pairs(path, about)
    if pairs is None:
        made = simulated_pairs(kind, seed, scans.stations, scans.sensors, scans.sensors_each)
        pairs = [ScanPair(pair.q.keep("normal", "label", "mixed"), pair.p.keep(), pair.T_q_p) for pair in made]
        save_pairs(path, pairs, about)
    return pairs
