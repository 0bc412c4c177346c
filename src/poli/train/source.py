"""The source of a run's batches: objects or scans."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from poli.threads import thread_count
from poli.train.config import SHAPES_A_SEED, DataConfig, TrainConfig, resolve
from poli.train.object_pairs import PairBatch, PairConfig, Phase, draw_pairs
from poli.train.scan_pairs import Tracker, recorded_scans
from poli.worlds.shapes import Mesh, procedural_mesh, read_mesh

# --- The meshes of a run: read from files, or generated in parallel.


VALIDATION_SEEDS = 1_000_000  # shapes from here on are never trained on: run seeds are below 100


@dataclass(frozen=True)
class MeshPool:
    """Meshes to draw from: `pick` chooses one, from the files with probability `file_share`."""

    procedural: tuple[Mesh, ...]
    files: tuple[Mesh, ...]
    file_share: float

    def pick(self, rng: np.random.Generator) -> Mesh:
        share = self.file_share if self.procedural and self.files else float(bool(self.files))
        chosen = self.files if rng.random() < share else self.procedural
        return chosen[int(rng.integers(len(chosen)))]


def training_surfaces(config: DataConfig, seed: int, beside: Path, made: Callable[[int], None]) -> MeshPool:
    """Return the training meshes. File names are relative to `beside`; `made` receives the number of shapes so far."""
    files = _read(config.meshes, beside)  # first, so that a wrong name is reported before shapes are generated
    return MeshPool(_procedural(config.procedural, seed * SHAPES_A_SEED, config.resolution, made), files, config.mesh_share)


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


_VALIDATION_SEED = 7


class Source(Protocol):
    """A source of training and validation batches."""

    def draw(self, rng: np.random.Generator, phase: Phase) -> PairBatch:
        """Draw a batch; the same generator state gives the same batch. For sizes, partners are as dense as the clouds."""

    def held_out(self, draws: int) -> Iterator[PairBatch]:
        """Yield batches of one cloud with an equally dense partner, of held-out surfaces; always the same ones."""

    @property
    def growth(self) -> float | None:
        """Approximate log growth of squared match distances when partners become as sparse as the clouds.

        None: sizes are about right already and are not reset."""


def open_source(
    config: TrainConfig, beside: Path, out: Path, made: Callable[[int, int], None], track: Tracker | None = None
) -> Source:
    """Open the source of a configuration.

    File names in the configuration are relative to `beside`; recordings are kept in `out`; `made` receives the progress; `track`
    runs odometry on recorded sequences."""
    if config.scans is not None:
        return recorded_scans(config.scans, config.architecture, config.seed, beside, out, made, track)
    return ObjectSource(config, beside, made)


class ObjectSource:
    """Batches of clouds drawn from meshes."""

    def __init__(self, config: TrainConfig, beside: Path, made: Callable[[int, int], None]) -> None:
        self._config = config
        self._surfaces = training_surfaces(config.data, config.seed, beside, lambda n: made(n, config.data.procedural))
        self._held_out = validation_surfaces(config.data, beside)

    def draw(self, rng: np.random.Generator, phase: Phase) -> PairBatch:
        return draw_pairs(self._surfaces.pick, self._config.pairs, self._config.architecture, rng, phase)

    def held_out(self, draws: int) -> Iterator[PairBatch]:
        pairs = self._config.pairs
        for m, mesh in enumerate(self._held_out):
            for points in pairs.points:
                one = PairConfig(points=(points,), max_rotation=pairs.max_rotation, max_distance=pairs.max_distance)
                for draw in range(draws):
                    rng = np.random.default_rng([_VALIDATION_SEED, m, points, draw])
                    yield draw_pairs(partial(_always, mesh), one, self._config.architecture, rng)

    @property
    def growth(self) -> float:
        return math.log(self._config.pairs.partner_density)


def _always(mesh: Mesh, _: np.random.Generator) -> Mesh:
    return mesh
