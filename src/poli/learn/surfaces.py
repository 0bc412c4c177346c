"""The meshes of a run: read from files, or generated in parallel."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from poli.data.shapes import Mesh, procedural_mesh, read_mesh
from poli.learn.config import SHAPES_A_SEED, DataConfig, resolve
from poli.threads import thread_count

VALIDATION_SEEDS = 1_000_000  # shapes from here on are never trained on: run seeds are below 100


@dataclass(frozen=True)
class Surfaces:
    """Meshes to draw from: `pick` chooses one, from the files with probability `file_share`."""

    procedural: tuple[Mesh, ...]
    files: tuple[Mesh, ...]
    file_share: float

    def pick(self, rng: np.random.Generator) -> Mesh:
        share = self.file_share if self.procedural and self.files else float(bool(self.files))
        chosen = self.files if rng.random() < share else self.procedural
        return chosen[int(rng.integers(len(chosen)))]


def training_surfaces(config: DataConfig, seed: int, beside: Path, made: Callable[[int], None]) -> Surfaces:
    """Return the training meshes. File names are relative to `beside`; `made` receives the number of shapes so far."""
    files = _read(config.meshes, beside)  # first, so that a wrong name is reported before shapes are generated
    return Surfaces(_procedural(config.procedural, seed * SHAPES_A_SEED, config.resolution, made), files, config.mesh_share)


def validation_surfaces(config: DataConfig, beside: Path) -> tuple[Mesh, ...]:
    """Return the held-out meshes."""
    files = _read(config.validation_meshes, beside)
    return _procedural(config.validation_procedural, VALIDATION_SEEDS, config.resolution, lambda n: None) + files


def _read(names: tuple[str, ...], beside: Path) -> tuple[Mesh, ...]:
    return tuple(read_mesh(resolve(name, beside)).normalized() for name in names)


def _procedural(count: int, first_seed: int, resolution: int, made: Callable[[int], None]) -> tuple[Mesh, ...]:
    meshes = []
    with ThreadPoolExecutor(thread_count()) as pool:
        for mesh in pool.map(lambda seed: procedural_mesh(seed, resolution), range(first_seed, first_seed + count)):
            meshes.append(mesh)
            made(len(meshes))
    return tuple(meshes)
