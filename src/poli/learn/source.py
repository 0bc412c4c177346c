"""The source of a run's batches: objects or scans."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from poli.data.shapes import Mesh
from poli.learn.config import TrainConfig
from poli.learn.pairs import PairBatch, PairConfig, Phase, draw_pairs
from poli.learn.scans import Tracker, recorded_scans
from poli.learn.surfaces import training_surfaces, validation_surfaces

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
