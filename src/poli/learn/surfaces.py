"""The meshes of a run: read from files, or made by the modeller in parallel."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from poli.data.shapes import Mesh, procedural_mesh, read_mesh
from poli.learn.config import DataConfig
from poli.threads import thread_count

VALIDATION_SEEDS = 1_000_000  # shapes from here on are never trained on


@dataclass(frozen=True)
class Surfaces:
    """What to draw from: `pick` chooses a mesh, from the files with probability `file_share`."""

    procedural: tuple[Mesh, ...]
    files: tuple[Mesh, ...]
    file_share: float

    def pick(self, rng: np.random.Generator) -> Mesh:
        share = self.file_share if self.procedural and self.files else float(bool(self.files))
        chosen = self.files if rng.random() < share else self.procedural
        return chosen[int(rng.integers(len(chosen)))]


def training_surfaces(config: DataConfig, seed: int, done: Callable[[int], None] = lambda n: None) -> Surfaces:
    """`done` hears of every shape made."""
    shapes = _procedural(config.procedural, seed * 10_000, config.resolution, done)
    return Surfaces(shapes, _read(config.meshes), config.mesh_share)


def validation_surfaces(config: DataConfig) -> tuple[Mesh, ...]:
    shapes = _procedural(config.validation_procedural, VALIDATION_SEEDS, config.resolution, lambda n: None)
    return shapes + _read(config.validation_meshes)


def _read(paths: tuple[str, ...]) -> tuple[Mesh, ...]:
    return tuple(read_mesh(path).normalized() for path in paths)


def _procedural(count: int, first_seed: int, resolution: int, done: Callable[[int], None]) -> tuple[Mesh, ...]:
    def make(seed: int) -> Mesh:
        mesh = procedural_mesh(seed, resolution)
        done(1)
        return mesh

    with ThreadPoolExecutor(thread_count()) as pool:
        return tuple(pool.map(make, range(first_seed, first_seed + count)))
