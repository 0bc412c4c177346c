"""Training pairs of objects: two clouds drawn independently from one surface, a measured pose, and nearest-neighbor matches.

The paper's protocol (SD): N points each, unit sphere, rotations up to 60 degrees. One cloud Q, the input of the network, may be
paired with several partners P: grouping and forward pass of Q are expensive, and every partner is another draw of residuals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from poli.errors import FormatError
from poli.estimation.architecture import AnyArchitecture
from poli.kdtree.tree import KDTree
from poli.se3 import measured, so3_exp
from poli.threads import thread_count
from poli.train.config import SHAPES_A_SEED, DataConfig, PairConfig, Stage, TrainConfig, resolve
from poli.train.epochs import drawn
from poli.train.grouping import GroupBatch
from poli.train.losses import MatchBatch
from poli.train.network_input import Grouping, group
from poli.train.pointnet2 import SampledBatch, SampledCloud
from poli.worlds.shapes import Mesh, procedural_mesh, read_mesh

VALIDATION_SEEDS = 1_000_000  # shapes from here on are never trained on: run seeds are below 100
_VALIDATION_SEED, _SAMPLES = 7, 8  # these keep the seeds of validation, of fixed samples and of steps apart
PROBES = 8  # points of the partner around each point, for curvature
_FARTHEST_PROBE = 2.0  # group radii
_ZOOMED = 0.6  # share of the clouds
_MARGIN = 1.2  # of the partner around a part, in radii of the part


@dataclass(frozen=True)
class PairBatch:
    """The training data of one step."""

    groups: GroupBatch | SampledBatch  # of the clouds, concatenated
    partners: int
    matches: MatchBatch  # clouds * partners rows, those of a cloud adjacent
    T_true: np.ndarray  # (clouds * partners, 4, 4)
    normals: np.ndarray  # (clouds, N, 3), of the surface at Q: for validation, never for training
    coverage: float  # fraction of the points of Q that have a match
    # Factor per row by which residuals are smaller than those of a partner as sparse as the cloud. L is divided by it before it is
    # compared with the residuals, so that L always has its final size.
    shrink: np.ndarray | None = None  # (clouds * partners,); None: one
    around: torch.Tensor | None = None  # (clouds * N, PROBES, 3): points of the first partner around each point, for curvature


def draw_pairs(
    pick: Callable[[np.random.Generator], Mesh],
    config: PairConfig,
    architecture: AnyArchitecture,
    rng: np.random.Generator,
    stage: Stage = "shapes",
) -> PairBatch:
    """Draw the batch of a step; the same generator state gives the same batch."""
    if stage == "sizes":
        config = replace(config, partner_density=1.0)
    count = int(rng.choice(config.points))
    groupings, normals, sources, targets, weights, noisy, true, around = [], [], [], [], [], [], [], []
    for _ in range(max(1, round(config.clouds * max(config.points) / count))):
        mesh = pick(rng)
        turn = _rotation(config.max_turn, rng) if config.max_turn else None
        zoom = 1.0
        if stage == "curvature" and config.zoom > 1.0 and rng.random() < _ZOOMED:
            zoom = config.zoom ** rng.random()
        q, q_normals = (_turned(values, turn) for values in mesh.sample(round(zoom * count), rng))
        center, part = q[0], np.inf
        if zoom > 1.0:
            distance, nearest = KDTree(q).nearest(count, center[None])
            part, q, q_normals = _MARGIN * distance.max(), q[nearest[0]], q_normals[nearest[0]]
        if stage == "curvature" and config.noise:
            noise = config.noise * max(0.0, 1.5 * rng.random() - 0.5) / np.sqrt(zoom)  # in spacings, the same at any zoom
            q = q + noise * rng.standard_normal(q.shape)
        groupings.append(group(q, architecture))
        normals.append(q_normals)
        for number in range(config.partners):
            p = _turned(mesh.sample(round(config.partner_density * zoom * count), rng)[0], turn)
            p = p[np.linalg.norm(p - center, axis=1) < part]
            T_true, T_measured = _poses(config, rng)
            p = (p - T_true[:3, 3]) @ T_true[:3, :3]  # into its own frame, so that T_true maps it back
            seen = p @ T_measured[:3, :3].T + T_measured[:3, 3]
            index = KDTree(seen)
            distance, nearest = index.nearest(1, q)
            if stage == "curvature" and number == 0:
                around.append(probes(index, seen, q, groupings[-1], rng))
            sources.append(p[nearest[:, 0]])
            targets.append(q)
            weights.append(np.ones(count) if config.max_distance is None else (distance[:, 0] <= config.max_distance).astype(float))
            noisy.append(T_measured)
            true.append(T_true)
    stacked = [torch.from_numpy(np.stack(a)) for a in (sources, targets, weights, noisy)]
    coverage = float(np.mean(weights))
    groups, matches = GroupBatch.of(groupings), MatchBatch(*stacked)
    return PairBatch(groups, config.partners, matches, np.stack(true), np.stack(normals), coverage, around=joined(around))


def probes(  # (N, PROBES, 3)
    index: KDTree, partner: np.ndarray, points: np.ndarray, grouping: Grouping | SampledCloud, rng: np.random.Generator
) -> np.ndarray:
    """Return points of the partner, in the cloud's frame, around each point of the cloud: the nearest to random places there.

    The nearest neighbors alone would be too near to show curvature if the partner is dense."""
    assert isinstance(grouping, Grouping), "the configuration refuses curvature of others"
    directions = rng.standard_normal((len(points), PROBES, 3))
    distance = _FARTHEST_PROBE * grouping.levels[0].radius[:, None] * rng.random((len(points), PROBES))
    places = points[:, None] + directions * (distance / np.linalg.norm(directions, axis=2))[..., None]
    return partner[index.nearest(1, places.reshape(-1, 3))[1][:, 0]].reshape(places.shape) - points[:, None]


def joined(around: Sequence[np.ndarray]) -> torch.Tensor | None:
    """Return the probes of all clouds as `PairBatch.around`."""
    return torch.from_numpy(np.concatenate(around)) if around else None


def _poses(config: PairConfig, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw the true pose T_q_p and the measured one."""
    T_true = np.eye(4)
    T_true[:3, :3] = _rotation(config.max_rotation, rng)
    return T_true, measured(T_true, config.rotation_noise, config.translation_noise, rng)


def _rotation(largest: float, rng: np.random.Generator) -> np.ndarray:  # degrees -> (3, 3)
    axis = rng.standard_normal(3)
    return so3_exp(np.deg2rad(largest) * rng.random() * axis / np.linalg.norm(axis))


def _turned(values: np.ndarray, turn: np.ndarray | None) -> np.ndarray:  # (N, 3), (3, 3)
    return values if turn is None else values @ turn.T


@dataclass(frozen=True)
class MeshPool:
    """Meshes to draw from: `pick` chooses one, from the files with probability `file_share`."""

    procedural: tuple[Mesh, ...]
    files: tuple[Mesh, ...]
    file_share: float

    @property
    def all(self) -> tuple[Mesh, ...]:
        """All meshes."""
        return self.procedural + self.files

    def pick(self, rng: np.random.Generator) -> Mesh:
        """Choose a mesh at random."""
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
    missing = [name for name in names if not Path(resolve(name, beside)).is_file()]
    if missing:
        raise FormatError(
            f"{beside / missing[0]}: no such file; the meshes of this configuration are {', '.join(names)}: pass their folder "
            "with --data"
        )
    return tuple(read_mesh(resolve(name, beside)).normalized() for name in names)


def _procedural(count: int, first_seed: int, resolution: int, made: Callable[[int], None]) -> tuple[Mesh, ...]:
    meshes = []
    with ThreadPoolExecutor(thread_count()) as pool:
        for mesh in pool.map(lambda seed: procedural_mesh(seed, resolution), range(first_seed, first_seed + count)):
            meshes.append(mesh)
            made(len(meshes))
    return tuple(meshes)


class ObjectSource:
    """Batches of clouds drawn from meshes: new ones at every step, or with `pairs.samples` the same in every epoch."""

    def __init__(self, config: TrainConfig, beside: Path, made: Callable[[int, int], None]) -> None:
        self._config = config
        self._surfaces = training_surfaces(config.data, config.seed, beside, lambda n: made(n, config.data.procedural))
        self._held_out = validation_surfaces(config.data, beside)

    @property
    def samples(self) -> int:
        """Number of samples of an epoch."""
        return len(self._surfaces.all) * len(self._config.pairs.points) * self._config.pairs.samples

    def draw(self, rng: np.random.Generator, stage: Stage, number: int = 0) -> PairBatch:
        config, pairs, pick = self._config, self._config.pairs, self._surfaces.pick
        if pairs.samples:
            (sample,) = drawn(config.seed, self.samples, number, 1)
            rest, n = divmod(sample, len(pairs.points))
            pick = partial(_always, self._surfaces.all[rest // pairs.samples])
            pairs, rng = replace(pairs, points=pairs.points[n : n + 1]), np.random.default_rng([config.seed, _SAMPLES, sample])
        return draw_pairs(pick, pairs, config.architecture, rng, stage)

    def held_out(self, draws: int) -> Iterator[PairBatch]:
        pairs = self._config.pairs
        for m, mesh in enumerate(self._held_out):
            for points in pairs.points:
                one = PairConfig(
                    points=(points,), max_rotation=pairs.max_rotation, max_turn=pairs.max_turn, max_distance=pairs.max_distance
                )
                for draw in range(draws):
                    rng = np.random.default_rng([_VALIDATION_SEED, m, points, draw])
                    yield draw_pairs(partial(_always, mesh), one, self._config.architecture, rng)

    @property
    def growth(self) -> float:
        return math.log(self._config.pairs.partner_density)


def _always(mesh: Mesh, _: np.random.Generator) -> Mesh:
    return mesh
