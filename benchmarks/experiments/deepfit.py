"""Train DeepFit, the learned rival in `objects`, with the true normals of the shapes that our model learns from.

Example: python -m benchmarks deepfit configs/objects.toml
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import track
from torch import Tensor

from benchmarks.metrics.surface import normal_errors
from benchmarks.options import option
from benchmarks.report import Report, Table, column_list, command_line
from benchmarks.rivals.deepfit import NEIGHBORS, ORDERS, WEIGHTS, PointWeights, fit, normals_by, patches_of
from poli.data.shapes import Mesh
from poli.estimation import pca
from poli.learn.config import TrainConfig, read_config
from poli.learn.model_file import write_tensors
from poli.learn.surfaces import Surfaces, training_surfaces, validation_surfaces

_CLOUDS, _PATCHES = 4, 64  # per step, and of each cloud
# Weight of the second term of the loss. With the paper's 0.25, all weights stay near one on these sparse clouds and the normals are
# those of PCA.
_CONSISTENCY = 0.01
_SIZES = (12, 16, 24)  # of patches in training; larger ones take longer and were no better
_CLIP = 1.0  # norm of a gradient
_TRUTH_SEED = 7


@dataclass(frozen=True)
class Options:
    config: Path = option(Path("configs/objects.toml"), "configuration whose shapes and numbers of points are used", argument=True)
    steps: int = option(9000, "training steps", least=1)
    shapes: int = option(200, "number of training shapes, the first ones of the configuration", least=1)
    learning_rate: float = option(3e-3, "learning rate of Adam; it falls to zero along a cosine")
    weights: Path = option(WEIGHTS, "file for the trained weights")
    seed: int = option(0, "random seed", least=0)


_TABLE = Table(column_list(k="{k}"), across="method", cell="{rmse:.1f} / {median:.1f}", lowest="rmse")


def run(options: Options) -> Iterator[Report]:
    config = read_config(options.config)
    beside = options.config.parent
    data = replace(config.data, procedural=min(options.shapes, config.data.procedural))
    surfaces = training_surfaces(data, config.seed, beside, lambda made: None)
    held_out = validation_clouds(validation_surfaces(config.data, beside), config.pairs.points)
    network = train(surfaces, config, options)
    write_tensors(options.weights, network.state_dict(), {"command": command_line(), "steps": str(options.steps)})
    methods: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {"PCA": lambda points, k: pca(points, k=k).normals}
    for order in ORDERS:
        methods[f"DeepFit, order {order}"] = lambda points, k, o=order: normals_by(network, points, k, o)  # type: ignore[misc]
    truth = np.concatenate([normals for _, normals in held_out])
    records: list[dict[str, Any]] = []
    for k in NEIGHBORS:
        for name, normals_of in methods.items():
            errors = normal_errors(np.concatenate([normals_of(points, k) for points, _ in held_out]), truth)
            records.append({"k": k, "method": name, "rmse": errors.rmse, "median": errors.median})
    notes = [
        f"RMSE / median of normals in degrees on {config.data.validation_procedural} held-out shapes, clouds of "
        f"{', '.join(map(str, config.pairs.points))} points; k: neighbors of a point",
        f"{options.steps} steps of {_CLOUDS * _PATCHES} patches of {_CLOUDS} clouds of {data.procedural} shapes; supervised: the "
        "labels are the true normals",
    ]
    yield Report("deepfit", "DeepFit on held-out shapes", records, _TABLE, notes)


def validation_clouds(meshes: tuple[Mesh, ...], sizes: tuple[int, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
    """One cloud with its normals of each held-out mesh and size."""
    return [mesh.sample(n, np.random.default_rng([_TRUTH_SEED, m, n])) for m, mesh in enumerate(meshes) for n in sizes]


def train(surfaces: Surfaces, config: TrainConfig, options: Options) -> PointWeights:
    """Train the network for jets of all orders at once. Each step has its own size of patches, so that one network serves all."""
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    network = PointWeights()
    optimizer = torch.optim.Adam(network.parameters(), options.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    for _ in track(range(options.steps), "training DeepFit"):
        patches, truth, truths = draw(surfaces, config.pairs.points, int(rng.choice(_SIZES)), rng)
        optimizer.zero_grad()
        loss(network(patches), patches, truth, truths).backward()
        if torch.isfinite(torch.nn.utils.clip_grad_norm_(network.parameters(), _CLIP)):
            optimizer.step()
        schedule.step()
    return network.eval().requires_grad_(False)


def draw(surfaces: Surfaces, sizes: tuple[int, ...], k: int, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Patches (B, k, 3) of several clouds, and in their frames the true normals at their centers (B, 3) and points (B, k, 3)."""
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for _ in range(_CLOUDS):
        points, normals = surfaces.pick(rng).sample(int(rng.choice(sizes)), rng)
        rows = rng.choice(len(points), _PATCHES, replace=False)
        patches, axes, found = patches_of(points, k, rows)
        # The signs of principal axes are arbitrary.
        signs = torch.from_numpy(rng.choice(np.array([-1.0, 1.0], np.float32), (len(rows), 1, 3)))
        truths = torch.from_numpy(normals[found].astype(np.float32)) @ axes * signs
        truth = (torch.from_numpy(normals[rows].astype(np.float32))[:, None] @ axes * signs)[:, 0]
        parts.append((patches * signs, truth, truths))
    patches, truth, truths = (torch.cat(several) for several in zip(*parts, strict=True))
    return patches, truth, truths


def loss(weights: Tensor, patches: Tensor, truth: Tensor, truths: Tensor) -> Tensor:  # (B, k, orders), (B, k, 3), (B, 3), (B, k, 3)
    """The paper's loss, summed over the orders: the sine of the error at the center; and at each point of a patch, weighted, which
    alone would make all weights vanish, so that their logarithms are rewarded."""
    total = torch.zeros(())
    for i, order in enumerate(ORDERS):
        mine = weights[..., i]
        normal, normals = fit(patches, mine, order)
        consistent = (mine * _sine(normals, truths)).mean() - torch.log(mine).mean()
        total = total + _sine(normal, truth).mean() + _CONSISTENCY * consistent
    return total


def _sine(one: Tensor, other: Tensor) -> Tensor:
    return torch.linalg.norm(torch.linalg.cross(one, other) + 1e-8, dim=-1)
