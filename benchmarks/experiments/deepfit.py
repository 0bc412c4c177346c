"""Train DeepFit, the learned rival in `objects`, with the true normals of the shapes that our model learns from.

Example: python -m benchmarks deepfit configs/objects.toml
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import track
from torch import Tensor

from benchmarks.metrics.surface import AngleErrors, normal_errors
from benchmarks.options import option
from benchmarks.report import Report, Table, column_list, command_line
from benchmarks.rivals.deepfit import NEIGHBORS, ORDERS, WEIGHTS, PointWeights, fit, normals_by, patches_of
from poli.estimation import pca
from poli.train.config import TrainConfig, read_config
from poli.train.model_file import write_tensors
from poli.train.object_pairs import MeshPool, training_surfaces, validation_surfaces
from poli.worlds.shapes import Mesh

_CLOUDS, _PATCHES = 4, 64  # per step, and of each cloud
_SIZES = (8, 12, 16)  # of patches in training; larger ones take longer
_CLIP = 1.0  # norm of a gradient
_WARMUP = 100  # steps
_TRUTH_SEED = 7
_CHECKS, _CHECKED = 6, (12, 2)  # how often held-out shapes are looked at during training, and with which k and order


@dataclass(frozen=True)
class Options:
    config: Path = option(Path("configs/objects.toml"), "configuration whose shapes and numbers of points are used", argument=True)
    steps: int = option(5000, "training steps", least=1)
    shapes: int = option(200, "number of training shapes, the first ones of the configuration", least=1)
    learning_rate: float = option(3e-3, "learning rate of Adam at its peak; it falls to zero along a cosine")
    weights: Path = option(WEIGHTS, "file for the trained weights")
    seed: int = option(0, "random seed", least=0)


_TABLE = Table(column_list(k="{k}"), across="method", cell="{rmse:.1f} / {median:.1f}", lowest="rmse")


def run(options: Options) -> Iterator[Report]:
    config = read_config(options.config)
    beside = options.config.parent
    data = replace(config.data, procedural=min(options.shapes, config.data.procedural))
    surfaces = training_surfaces(data, config.seed, beside, lambda made: None)
    held_out = validation_clouds(validation_surfaces(config.data, beside), config.pairs.points)
    truth = np.concatenate([normals for _, normals in held_out])

    def errors_of(normals_of: Callable[[np.ndarray], np.ndarray]) -> AngleErrors:
        return normal_errors(np.concatenate([normals_of(points) for points, _ in held_out]), truth)

    course: dict[int, AngleErrors] = {}

    def check(step: int, trained: PointWeights) -> None:
        course[step] = errors_of(lambda points: normals_by(trained, points, *_CHECKED))

    network = train(surfaces, config, options, check)
    write_tensors(options.weights, network.state_dict(), {"command": command_line(), "steps": str(options.steps)})
    methods: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {"PCA": lambda points, k: pca(points, k=k).normals}
    for order in ORDERS:
        methods[f"DeepFit, order {order}"] = lambda points, k, o=order: normals_by(network, points, k, o)  # type: ignore[misc]
    records: list[dict[str, Any]] = []
    for k in NEIGHBORS:
        for name, normals_of in methods.items():
            errors = errors_of(lambda points, k=k, of=normals_of: of(points, k))  # type: ignore[misc]
            records.append({"k": k, "method": name, "rmse": errors.rmse, "median": errors.median})
    notes = [
        f"RMSE / median of normals in degrees on {config.data.validation_procedural} held-out shapes, clouds of "
        f"{', '.join(map(str, config.pairs.points))} points; k: neighbors of a point",
        f"{options.steps} steps of {_CLOUDS * _PATCHES} patches of {_CLOUDS} clouds of {data.procedural} shapes; supervised: the "
        "labels are the true normals",
        "during training, with k = {} and order {}: ".format(*_CHECKED)
        + ", ".join(f"{found.rmse:.2f} / {found.median:.2f} after {step}" for step, found in course.items()),
    ]
    yield Report("deepfit", "DeepFit on held-out shapes", records, _TABLE, notes)


def validation_clouds(meshes: tuple[Mesh, ...], sizes: tuple[int, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
    """One cloud with its normals of each held-out mesh and size."""
    return [mesh.sample(n, np.random.default_rng([_TRUTH_SEED, m, n])) for m, mesh in enumerate(meshes) for n in sizes]


def train(surfaces: MeshPool, config: TrainConfig, options: Options, check: Callable[[int, PointWeights], None]) -> PointWeights:
    """Train the network for jets of all orders at once. Each step has its own size of patches, so that one network serves all.

    `check` receives the network several times, at the end as well."""
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    network = PointWeights()
    optimizer = torch.optim.Adam(network.parameters(), options.learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / _WARMUP) * 0.5 * (1.0 + math.cos(math.pi * step / options.steps))
    )
    for step in track(range(1, options.steps + 1), "training DeepFit"):
        patches, truth = draw(surfaces, config.pairs.points, int(rng.choice(_SIZES)), rng)
        optimizer.zero_grad()
        loss(network(patches), patches, truth).backward()
        if torch.isfinite(torch.nn.utils.clip_grad_norm_(network.parameters(), _CLIP)):
            optimizer.step()
        schedule.step()
        if step % math.ceil(options.steps / _CHECKS) == 0 or step == options.steps:
            check(step, network)
    return network.eval().requires_grad_(False)


def draw(surfaces: MeshPool, sizes: tuple[int, ...], k: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Patches (B, k, 3) of several clouds, and in their frames the true normals at their centers (B, 3)."""
    parts: list[tuple[Tensor, Tensor]] = []
    for _ in range(_CLOUDS):
        points, normals = surfaces.pick(rng).sample(int(rng.choice(sizes)), rng)
        rows = rng.choice(len(points), _PATCHES, replace=False)
        patches, axes = patches_of(points, k, rows)
        # The signs of principal axes are arbitrary.
        signs = torch.from_numpy(rng.choice(np.array([-1.0, 1.0], np.float32), (len(rows), 1, 3)))
        truth = (torch.from_numpy(normals[rows].astype(np.float32))[:, None] @ axes * signs)[:, 0]
        parts.append((patches * signs, truth))
    patches, truth = (torch.cat(several) for several in zip(*parts, strict=True))
    return patches, truth


def loss(weights: Tensor, patches: Tensor, truth: Tensor) -> Tensor:  # (B, k, orders), (B, k, 3), (B, 3)
    """The sine of the error, as in the paper, summed over the orders. The paper's second term, with its reward of large weights, is
    left out (`rivals/deepfit.py` says why)."""
    normals = [fit(patches, weights[..., i], order) for i, order in enumerate(ORDERS)]
    return torch.stack([_sine(normal, truth).mean() for normal in normals]).sum()


def _sine(one: Tensor, other: Tensor) -> Tensor:
    return torch.linalg.norm(torch.linalg.cross(one, other) + 1e-8, dim=-1)
