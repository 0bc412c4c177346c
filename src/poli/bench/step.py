"""`poli bench step`: where the time of a training step goes, against one pass through the rival's layer alone."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from poli.bench.cvxpy_layer import CvxpyPose
from poli.bench.problems import random_problem
from poli.bench.report import Report, publish
from poli.data.shapes import procedural_mesh
from poli.estimation.architecture import Architecture
from poli.learn.losses import LossConfig
from poli.learn.model import TrainingModel
from poli.learn.pairs import PairConfig, draw_pairs
from poli.show.figure import pyplot, save_figure

import torch  # isort: skip  (after poli.learn, which says which extra is missing)

_PARTS = ("grouping", "network", "layer", "backward", "update")
_RIVALS = {
    "cvxpylayers Clarabel, paper's 13x13": (13, "Clarabel"),
    "cvxpylayers SCS, paper's 13x13": (13, "SCS"),
    "cvxpylayers SCS, our 10x10": (10, "SCS"),
}
_TURNS = 3


def run(points: int, repeats: int, out: Path, json_path: Path | None) -> None:
    step = _Step(points)
    rivals = {name: CvxpyPose(size, solver) for name, (size, solver) in _RIVALS.items()}  # type: ignore[arg-type]
    parts: list[tuple[float, ...]] = []
    passes: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(_TURNS):  # in turns, so that a slow moment of the machine hits them all
        parts += [step.once(turn * repeats + i) for i in range(repeats + 2)][2:]
        for name, layer in rivals.items():
            passes[name] += [_pass(layer, points, turn * repeats + i) for i in range(repeats + 2)][2:]
    medians = dict(zip(_PARTS, 1e3 * np.median(parts, axis=0), strict=True))
    total = 1e3 * float(np.median(np.sum(parts, axis=1)))
    passed = {name: 1e3 * float(np.median(seconds)) for name, seconds in passes.items()}
    rows = [[f"step: {name}", f"{ms:.2f}", f"{100 * ms / total:.0f} %"] for name, ms in medians.items()]
    rows.append(["step: all of it", f"{total:.2f}", "100 %"])
    rows += [[f"{name}, forward + backward", f"{ms:.2f}", f"{100 * ms / total:.0f} %"] for name, ms in passed.items()]
    ratios = {name: total / ms for name, ms in passed.items()}
    notes = [
        f"one cloud of {points} points, one partner, T-T-Q-C, the default network; in training, grouping runs beside the rest",
        *(f"a step takes as long as {ratio:.1f} passes of {name}" for name, ratio in ratios.items()),
    ]
    figures = {"parts_ms": medians, "step_ms": total, "passes_ms": passed, "passes_a_step": ratios}
    command = f"poli bench step --points {points} --repeats {repeats}"
    columns = ["", "ms", "of a step"]
    publish(Report("A training step and its parts", command, columns, rows, notes, figures), "step", out, json_path)
    _plot(medians, passed, out / "step.png")


class _Step:
    def __init__(self, points: int) -> None:
        self.architecture, self.pairs = Architecture(), PairConfig(points=(points,))
        self.mesh = procedural_mesh(0)
        self.model = TrainingModel(self.architecture, LossConfig(kind="ttqc"))
        self.average = {name: t.clone() for name, t in self.model.network.state_dict().items()}
        self.optimizer = torch.optim.AdamW([p for p in self.model.parameters() if p.requires_grad], 1e-3)

    def once(self, seed: int) -> tuple[float, ...]:
        """Seconds of each part."""
        start = time.perf_counter()
        batch = draw_pairs(lambda _: self.mesh, self.pairs, self.architecture, np.random.default_rng(seed))
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


def _plot(parts: dict[str, float], passes: dict[str, float], path: Path) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(8, 2.6))
    left = 0.0
    for name, ms in parts.items():
        axes.barh("a step", ms, left=left, label=name)
        left += ms
    for name, ms in passes.items():
        axes.barh(f"3 x {name}", 3 * ms, color="0.75")
    axes.set(xlabel="ms")
    axes.invert_yaxis()
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    save_figure(figure, path)
    plt.close(figure)
