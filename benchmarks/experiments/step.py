"""Time of a training step and its parts, against forward and backward passes of cvxpylayers.

Example: python -m benchmarks step
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data.pose_problems import random_problem
from benchmarks.options import option
from benchmarks.report import Column, Report, Table, pyplot, save_figure
from benchmarks.rivals.cvxpy_layer import CvxpyPose
from poli.errors import InputError
from poli.estimation.architecture import Architecture
from poli.train.config import PairConfig, TrainConfig, read_config
from poli.train.losses import LossConfig
from poli.train.network import TrainingModel
from poli.train.object_pairs import PairBatch, draw_pairs
from poli.train.scan_pairs import draw_scans
from poli.worlds.scan_pairs import simulated_pairs
from poli.worlds.shapes import procedural_mesh

import torch  # isort: skip  (after poli.train, which reports a missing extra)

_PARTS = ("grouping", "network", "layer", "backward", "update")
_RIVALS = {
    "cvxpylayers Clarabel, paper's 13x13": (13, "Clarabel"),
    "cvxpylayers SCS, paper's 13x13": (13, "SCS"),
    "cvxpylayers SCS, our 10x10": (10, "SCS"),
}
_TURNS = 3


@dataclass(frozen=True)
class Options:
    points: int = option(1000, "points of an object", least=16)
    scan_points: int = option(16_000, "points of a scan; 0: no scans", least=0)
    repeats: int = option(5, "steps and passes in each of three turns", least=1)
    lidar: Path = option(Path("configs/lidar.toml"), "configuration for scans")


_TABLE = Table(
    [Column("data", "{data}"), Column("points", "{points}"), Column("", "{part}")],
    [Column("ms", "{ms:.2f}"), Column("of a step", "{share_percent:.0f} %")],
)


def run(options: Options) -> Iterator[Report]:
    objects, notes = _measure("objects", _of_objects(options.points), options.points, options.repeats)
    records = objects
    if options.scan_points:
        step = _of_scans(options.scan_points, read_config(options.lidar))
        scans, more = _measure("scans", step, options.scan_points, options.repeats)
        records, notes = [*objects, *scans], [*notes, *more]
    notes.append("one cloud, one partner, T-T-Q-C; in training, grouping runs in parallel")
    yield Report("step", "A training step and its parts", records, _TABLE, notes, plots={"step": partial(_plot, objects)})


def _measure(data: str, step: _Step, points: int, repeats: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Median milliseconds of the parts of a step and of the passes of rivals, and notes on both."""
    rivals = {name: CvxpyPose(size, solver) for name, (size, solver) in _RIVALS.items()}  # type: ignore[arg-type]
    parts: list[tuple[float, ...]] = []
    passes: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(_TURNS):  # in turns, so that slow phases of the machine affect all
        parts += [step.once(turn * repeats + i) for i in range(repeats + 2)][2:]
        for name, layer in rivals.items():
            passes[name] += [_pass(layer, points, turn * repeats + i) for i in range(repeats + 2)][2:]
    total = 1e3 * float(np.median(np.sum(parts, axis=1)))
    passed = {f"{name}, forward + backward": 1e3 * float(np.median(seconds)) for name, seconds in passes.items()}
    rows = {f"step: {name}": ms for name, ms in zip(_PARTS, (1e3 * np.median(parts, axis=0)).tolist(), strict=True)}
    rows |= {"step: all of it": total, **passed}
    records = [
        {"data": data, "points": points, "part": part, "ms": ms, "share_percent": 100 * ms / total} for part, ms in rows.items()
    ]
    ratios = ", ".join(f"{total / ms:.1f} passes of {name.partition(', forward')[0]}" for name, ms in passed.items())
    return records, [f"{data}: {step.about}; a step takes as long as {ratios}"]


def _of_objects(points: int) -> _Step:
    mesh, pairs, architecture = procedural_mesh(0), PairConfig(points=(points,)), Architecture()
    return _Step(
        lambda rng: draw_pairs(lambda _: mesh, pairs, architecture, rng), architecture, LossConfig(), "the default network"
    )


def _of_scans(points: int, config: TrainConfig) -> _Step:
    if config.scans is None:
        raise InputError(f"the configuration '{config.name}' is not for scans; give configs/lidar.toml")
    scans, architecture = replace(config.scans, points=points, raw_share=1.0, clouds=1), config.architecture
    pair = next(simulated_pairs("town", 0, 1, ("os2_128",), 1))
    about = "the network of the LiDAR model, OS2-128, not voxelized"
    return _Step(lambda rng: draw_scans([pair], scans, architecture, rng, "shapes"), architecture, config.loss, about)  # type: ignore[arg-type]


class _Step:
    def __init__(
        self, draw: Callable[[np.random.Generator], PairBatch], architecture: Architecture, loss: LossConfig, about: str
    ) -> None:
        self.draw, self.about = draw, about
        self.model = TrainingModel(architecture, loss)
        self.average = {name: t.clone() for name, t in self.model.network.state_dict().items()}
        self.optimizer = torch.optim.AdamW([p for p in self.model.parameters() if p.requires_grad], 1e-3)

    def once(self, seed: int) -> tuple[float, ...]:
        """Seconds of each part."""
        start = time.perf_counter()
        batch = self.draw(np.random.default_rng(seed))
        grouped = time.perf_counter()
        terms = self.model(batch)
        forward = time.perf_counter()
        self.optimizer.zero_grad()
        terms.total.backward()
        backward = time.perf_counter()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0).item()
        self.optimizer.step()
        with torch.no_grad():
            for name, value in self.model.network.state_dict().items():
                self.average[name].lerp_(value, 0.002)
        return grouped - start, *self.model.seconds, backward - forward, time.perf_counter() - backward


def _pass(layer: CvxpyPose, points: int, seed: int) -> float:
    problem = random_problem(np.random.default_rng(seed), points, condition=1e2)
    source, target = torch.from_numpy(problem.source), torch.from_numpy(problem.target)
    information = torch.from_numpy(problem.information).requires_grad_()
    start = time.perf_counter()
    layer(source, target, information).sum().backward()
    return time.perf_counter() - start


def _plot(records: Sequence[dict[str, Any]], path: Path) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(8, 2.6))
    left = 0.0
    for record in records[: len(_PARTS)]:
        axes.barh("a step", record["ms"], left=left, label=record["part"].removeprefix("step: "))
        left += record["ms"]
    for record in records[len(_PARTS) + 1 :]:
        axes.barh(f"3 x {record['part']}", 3 * record["ms"], color="0.75")
    axes.set(xlabel="ms")
    axes.invert_yaxis()
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    save_figure(figure, path)
    plt.close(figure)
