"""Cost of omitting the pose prior from the inner problem: two scenarios and two loss curves (supplement SC).

Scenarios A and B are the paper's toy problems: f(x; z) with the covariances as x and the pose as z, and g(z) the prior. The third
part is real training: a network trained with the relaxed inner problem, and its two likelihood terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.options import option
from benchmarks.report import Column, Report, Table, pyplot, save_figure
from poli.train.checkpoint import read_log
from poli.train.config import DataConfig, PairConfig, ScheduleConfig, StageConfig, TrainConfig
from poli.train.losses import LossConfig
from poli.train.trainer import train

_UPDATES = 30
_WINDOW = 10  # logged steps averaged at the start and the end of a loss curve


@dataclass(frozen=True)
class Options:
    steps: int = option(600, "training steps for the loss curves", least=1)
    runs: Path = option(Path("runs/relaxation"), "folder for the training run")


@dataclass(frozen=True)
class Scenario:
    """Quadratic functions f and g, given by the minimizers of their updates."""

    name: str
    formula: str
    f: Callable[[float, float], float]
    g: Callable[[float], float]
    best_z: Callable[[float], float]  # argmin_z f(x; z) + g(z)
    best_z_relaxed: Callable[[float], float]  # argmin_z f(x; z)
    best_x: Callable[[float], float]  # argmin_x f(x; z)
    start: float


SCENARIOS = (
    Scenario(
        "A",
        "f = (x - z)^2 + (z - 5)^2, g = 10 z^2",
        lambda x, z: (x - z) ** 2 + (z - 5.0) ** 2,
        lambda z: 10.0 * z**2,
        lambda x: (x + 5.0) / 12.0,
        lambda x: (x + 5.0) / 2.0,
        lambda z: z,
        start=-4.0,
    ),
    Scenario(
        "B",
        "f = x^2 + 3 (z - x)^2, g = 2 z^2",
        lambda x, z: x**2 + 3.0 * (z - x) ** 2,
        lambda z: 2.0 * z**2,
        lambda x: 3.0 * x / 5.0,
        lambda x: x,
        lambda z: 3.0 * z / 4.0,
        start=-4.0,
    ),
)


def trajectory(scenario: Scenario, relaxed: bool) -> np.ndarray:  # (updates + 1, 2): x, z
    """Alternate the updates of the supplement's equations for the exact and the relaxed problem."""
    x = scenario.start
    path = []
    for _ in range(_UPDATES + 1):
        z = (scenario.best_z_relaxed if relaxed else scenario.best_z)(x)
        path.append((x, z))
        x = scenario.best_x(z)
    return np.array(path)


_TABLE = Table([Column("", "{case}")], [Column("", "{start}"), Column("", "{end}")])


def run(options: Options) -> Iterator[Report]:
    paths = {s.name: {mode: trajectory(s, mode == "relaxed") for mode in ("exact", "relaxed")} for s in SCENARIOS}
    curves = _train(options.steps, options.runs)
    records: list[dict[str, object]] = []
    for s in SCENARIOS:
        for mode, path in paths[s.name].items():
            x, z = path[-1]
            total = s.f(x, z) + s.g(z)
            case = {"case": f"scenario {s.name}, {mode}", "start": f"x = {x:.4f}, z = {z:.4f}", "end": f"f + g = {total:.4f}"}
            records.append({**case, "x": x, "z": z, "objective": total})
    for name in ("correspondence", "pose"):
        first, last = float(curves[name][:_WINDOW].mean()), float(curves[name][-_WINDOW:].mean())
        case = {"case": f"training, {name} term per match", "start": f"{first:.4f} at the start", "end": f"{last:.4f} at the end"}
        records.append({**case, "first": first, "last": last})
    notes = [f"scenario {s.name}: {s.formula}; {_UPDATES} alternating updates from x = {s.start:g}" for s in SCENARIOS]
    notes.append(f"training: T-T-Q-C with the relaxed inner problem, pose noise 0.02, {options.steps} steps on procedural shapes")
    plots = {"relaxation": partial(_plot, paths, curves)}
    yield Report("relaxation", "The relaxation of the inner problem", records, _TABLE, notes, plots=plots)


def _train(steps: int, folder: Path) -> dict[str, np.ndarray]:
    config = TrainConfig(
        name="relaxation",
        data=DataConfig(procedural=40, validation_procedural=0),
        pairs=PairConfig(points=(500,), clouds=2, partners=2, translation_noise=0.02),
        loss=LossConfig(kind="ttqc", rotation_sigma=0.01, translation_sigma=0.02),
        schedule=ScheduleConfig(log_every=5),
        shapes=StageConfig(steps),
        sizes=StageConfig(),
    )
    train(config, folder, fresh=True)
    rows = read_log(folder / "log.csv")
    return {name: np.array([float(row[name]) for row in rows]) for name in ("step", "correspondence", "pose")}


def _plot(paths: dict[str, dict[str, np.ndarray]], curves: dict[str, np.ndarray], path: Path) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(2, 2, figsize=(11, 8))
    for panel, s in zip(axes[0], SCENARIOS, strict=True):
        x, z = np.meshgrid(np.linspace(-5, 7, 200), np.linspace(-5, 7, 200))
        panel.contour(x, z, np.log1p(s.f(x, z) + s.g(z)), 20, cmap="Grays", linewidths=0.6)  # type: ignore[arg-type]
        for mode, line in paths[s.name].items():
            panel.plot(line[:, 0], line[:, 1], marker=".", label=f"{mode}: ends at ({line[-1, 0]:.2f}, {line[-1, 1]:.2f})")
        panel.set(title=f"Scenario {s.name}: {s.formula}", xlabel="x", ylabel="z")
        panel.legend(fontsize=8)
    for panel, name in zip(axes[1], ("correspondence", "pose"), strict=True):
        panel.plot(curves["step"], curves[name], lw=0.8)
        panel.set(title=f"{name} loss while training relaxed", xlabel="step", ylabel="per match")
    figure.tight_layout()
    save_figure(figure, path)
    plt.close(figure)
