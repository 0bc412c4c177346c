"""Train RPM-Net, the learned rival of registration in `objects`, with true poses of the shapes that our model learns from.

Example: python -m benchmarks rpm_net configs/objects.toml
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from rich.progress import track
from torch import Tensor

from benchmarks.experiments.objects import rotation_error
from benchmarks.options import option
from benchmarks.report import Report, Table, column_list, command_line
from benchmarks.rivals.registrars import Cloud
from benchmarks.rivals.rpm_net import ITERATIONS, WEIGHTS, RpmNet, neighborhoods, pose_by
from poli.estimation import pca
from poli.se3 import so3_exp
from poli.train.config import PairConfig, read_config
from poli.train.model_file import write_tensors
from poli.train.object_pairs import MeshPool, training_surfaces, validation_surfaces
from poli.worlds.shapes import Mesh

NEIGHBORS = 12  # of the normals by PCA
_PAIRS = 4  # per step
_ITERATIONS = 2  # in training, as in the paper
_DISCOUNT = 0.5  # of the loss of an iteration, relative to the next one
_INLIERS = 0.01  # weight of the reward of inliers
_CLIP = 1.0  # norm of a gradient
_WARMUP = 100  # steps
_AVERAGE = 0.998  # of the weights over steps: the rate is constant, so that a checkpoint is as good as a run that ends there
_EVERY = 1000  # steps between two checkpoints
_TOLERANCE = 10.0  # degrees
_TRUTH_SEED = 7


@dataclass(frozen=True)
class Options:
    config: Path = option(Path("configs/objects.toml"), "configuration whose shapes and numbers of points are used", argument=True)
    steps: int = option(10000, "training steps", least=1)
    shapes: int = option(300, "number of training shapes, the first ones of the configuration", least=1)
    learning_rate: float = option(1e-3, "learning rate of Adam")
    weights: Path = option(WEIGHTS, "file for the trained weights, written every 1,000 steps")
    seed: int = option(0, "random seed", least=0)


@dataclass(frozen=True)
class Pair:
    source: Cloud
    target: Cloud
    R: np.ndarray  # (3, 3): maps the source to the target


_TABLE = Table(column_list(N="{N}"), across="iterations", cell="{success:share} ({median:.1f}°)")


def run(options: Options) -> Iterator[Report]:
    config = read_config(options.config)
    beside = options.config.parent
    data = replace(config.data, procedural=min(options.shapes, config.data.procedural))
    surfaces = training_surfaces(data, config.seed, beside, lambda made: None)
    held_out = held_out_pairs(validation_surfaces(config.data, beside), config.pairs)
    course: dict[int, float] = {}

    def check(step: int, network: RpmNet) -> None:
        write_tensors(options.weights, network.state_dict(), {"command": command_line(), "steps": str(step)})
        errors = [rotation_error(pose_by(network, *_inputs(pair))[:3, :3], pair.R) for pair in held_out]
        course[step] = float(np.mean(np.array(errors) <= _TOLERANCE))
        print(f"step {step}: {100 * course[step]:.0f} % of held-out pairs", flush=True)

    network = train(surfaces, config.pairs, options, check)
    records: list[dict[str, Any]] = []
    for n in config.pairs.points:
        for iterations in (1, 2, ITERATIONS):
            of_size = [pair for pair in held_out if len(pair.source.points) == n]
            errors = [rotation_error(pose_by(network, *_inputs(pair), iterations)[:3, :3], pair.R) for pair in of_size]
            success = float(np.mean(np.array(errors) <= _TOLERANCE))
            records.append({"N": n, "iterations": iterations, "success": success, "median": float(np.median(errors))})
    notes = [
        f"share of pairs with a rotation error of at most {_TOLERANCE:.0f} degrees (median error) after some iterations, on "
        f"{config.data.validation_procedural} held-out shapes, rotated by up to {config.pairs.max_rotation:.0f} degrees",
        f"{options.steps} steps of {_PAIRS} pairs of {data.procedural} shapes; supervised: the labels are the true poses",
        f"during training, after {ITERATIONS} iterations: "
        + ", ".join(f"{100 * s:.0f} % after {step}" for step, s in course.items()),
    ]
    yield Report("rpm_net", "RPM-Net on held-out shapes", records, _TABLE, notes)


def held_out_pairs(meshes: tuple[Mesh, ...], config: PairConfig) -> list[Pair]:
    """One pair of each held-out mesh and size."""
    return [
        draw(mesh, n, config.max_rotation, np.random.default_rng([_TRUTH_SEED, m, n]))
        for m, mesh in enumerate(meshes) for n in config.points
    ]  # fmt: skip


def train(surfaces: MeshPool, config: PairConfig, options: Options, check: Callable[[int, RpmNet], None]) -> RpmNet:
    """Train the network. `check` receives it every 1,000 steps and at the end."""
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    network = RpmNet()
    optimizer = torch.optim.Adam(network.parameters(), options.learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / _WARMUP))
    mean = torch.optim.swa_utils.AveragedModel(network, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(_AVERAGE))
    for step in track(range(1, options.steps + 1), "training RPM-Net"):
        count = int(rng.choice(config.points))
        pairs = max(1, round(_PAIRS * min(config.points) / count))
        batch = [draw(surfaces.pick(rng), count, config.max_rotation, rng) for _ in range(pairs)]
        optimizer.zero_grad()
        loss(network, batch).backward()
        if torch.isfinite(torch.nn.utils.clip_grad_norm_(network.parameters(), _CLIP)):
            optimizer.step()
            mean.update_parameters(network)
        schedule.step()
        if step % _EVERY == 0 or step == options.steps:
            check(step, cast(RpmNet, mean.module))
    return cast(RpmNet, mean.module).eval().requires_grad_(False)


def draw(mesh: Mesh, count: int, max_rotation: float, rng: np.random.Generator) -> Pair:
    """Two clouds of a mesh, as in `objects`, with normals by PCA; the mesh itself is turned, so that no coordinates repeat."""
    whole, R = random_rotation(180.0, rng), random_rotation(max_rotation, rng)
    source, target = (mesh.sample(count, rng)[0] @ whole.T for _ in range(2))
    return Pair(_with_normals(source), _with_normals(target @ R.T), R)


def random_rotation(degrees: float, rng: np.random.Generator) -> np.ndarray:  # (3, 3)
    axis = rng.standard_normal(3)
    return so3_exp(np.deg2rad(degrees) * rng.random() * axis / np.linalg.norm(axis))


def _with_normals(points: np.ndarray) -> Cloud:
    return Cloud.of(points, {"pca": pca(points, k=NEIGHBORS).normals})


def _inputs(pair: Pair) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    return (pair.source.points, pair.source.normals["pca"]), (pair.target.points, pair.target.normals["pca"])


def loss(network: RpmNet, pairs: list[Pair]) -> Tensor:
    """The mean absolute difference of the source moved by the estimate and by the truth, less a reward of inliers."""
    clouds = zip(*(_inputs(pair) for pair in pairs), strict=True)
    source, target = (neighborhoods(*(_stacked(arrays) for arrays in zip(*side, strict=True))) for side in clouds)
    truth = source.points @ _stacked([pair.R.T for pair in pairs])
    total = source.points.new_zeros(())
    for number, (T, matches) in enumerate(network(source, target, _ITERATIONS)):
        distance = (source.moved(T).points - truth).abs().mean()
        outliers = 2.0 - matches.sum(dim=1).mean() - matches.sum(dim=2).mean()
        total = total + _DISCOUNT ** (_ITERATIONS - 1 - number) * (distance + _INLIERS * outliers)
    return total


def _stacked(arrays: Any) -> Tensor:
    return torch.from_numpy(np.stack(list(arrays)).astype(np.float32))
