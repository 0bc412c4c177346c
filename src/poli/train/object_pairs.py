"""Training pairs of objects: two clouds drawn independently from one surface, a measured pose, and nearest-neighbor matches.

The paper's protocol (SD): N points each, unit sphere, rotations up to 60 degrees. One cloud Q, the input of the network, may be
paired with several partners P: grouping and forward pass of Q are expensive, and every partner is another draw of residuals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch

from poli.errors import InputError
from poli.estimation.architecture import LEAST_POINTS, Architecture
from poli.kdtree.tree import KDTree
from poli.se3 import measured, so3_exp
from poli.train.grouping import GroupBatch
from poli.train.losses import MatchBatch
from poli.train.network_input import Grouping, group
from poli.worlds.shapes import Mesh

# What a step trains: the shapes of the ellipsoids, on dense partners; then their sizes, on partners as dense as the clouds; then
# curvature, on dense partners again. Each phase keeps what the earlier ones learned.
Phase = Literal["shapes", "sizes", "curvature"]
PROBES = 8  # points of the partner around each point, for curvature
_FARTHEST_PROBE = 2.0  # group radii
_MOST_ZOOM = 100.0  # surfaces are sampled as densely, which takes time
_ZOOMED = 0.6  # share of the clouds
_MARGIN = 1.2  # of the partner around a part, in radii of the part


@dataclass(frozen=True)
class PairConfig:
    """How pairs of clouds are drawn from objects."""

    points: tuple[int, ...] = (500, 1000)  # the N of a step is drawn from these
    clouds: int = 1  # Q per step at the largest N; more at smaller N, so that every step has about the same number of points
    partners: int = 1  # P per Q
    # Points of P over points of Q while shapes are trained. A dense partner, like several merged scans, is closer to the surface
    # and defines it better; sizes are trained afterwards, on partners as dense as Q (`ScheduleConfig.settle`).
    partner_density: float = 1.0
    max_rotation: float = 60.0  # degrees, between P and Q
    translation_noise: float = 0.0  # standard deviation of the measured pose per axis, in radii of the object
    rotation_noise: float = 0.0  # degrees per axis
    # Largest standard deviation of the noise of clouds while curvature is trained, in radii of the object; a third of the clouds
    # have none. Quadrics depend on the noise more than directions do.
    noise: float = 0.0
    # While curvature is trained, three in five clouds show a part of the surface, up to this many times as dense: at any noise,
    # some surfaces are smooth and some are rough.
    zoom: float = 1.0
    max_distance: float | None = None  # matches farther apart than this under the measured pose are ignored

    def __post_init__(self) -> None:
        if not self.points or min(self.points) < LEAST_POINTS:
            raise InputError(f"pairs.points is {self.points}; expected a list of numbers of at least {LEAST_POINTS}")
        if self.clouds < 1 or self.partners < 1:
            raise InputError("pairs.clouds and pairs.partners must be at least 1")
        if not (self.partner_density >= 1.0 and 1.0 <= self.zoom <= _MOST_ZOOM):
            raise InputError(
                f"pairs: partner_density is {self.partner_density} and zoom {self.zoom}; expected at least 1, and zoom at most "
                f"{_MOST_ZOOM:g}"
            )
        if min(self.max_rotation, self.translation_noise, self.rotation_noise, self.noise) < 0 or (
            self.max_distance is not None and self.max_distance <= 0
        ):
            raise InputError("pairs: rotations and noise must be at least 0, and max_distance above 0")


@dataclass(frozen=True)
class PairBatch:
    """The training data of one step."""

    groups: GroupBatch  # of the clouds, concatenated
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
    architecture: Architecture,
    rng: np.random.Generator,
    phase: Phase = "shapes",
) -> PairBatch:
    """Draw the batch of a step; the same generator state gives the same batch."""
    if phase == "sizes":
        config = replace(config, partner_density=1.0)
    count = int(rng.choice(config.points))
    groupings, normals, sources, targets, weights, noisy, true, around = [], [], [], [], [], [], [], []
    for _ in range(max(1, round(config.clouds * max(config.points) / count))):
        mesh = pick(rng)
        zoom = 1.0
        if phase == "curvature" and config.zoom > 1.0 and rng.random() < _ZOOMED:
            zoom = config.zoom ** rng.random()
        q, q_normals = mesh.sample(round(zoom * count), rng)
        center, part = q[0], np.inf
        if zoom > 1.0:
            distance, nearest = KDTree(q).nearest(count, center[None])
            part, q, q_normals = _MARGIN * distance.max(), q[nearest[0]], q_normals[nearest[0]]
        if phase == "curvature" and config.noise:
            noise = config.noise * max(0.0, 1.5 * rng.random() - 0.5) / np.sqrt(zoom)  # in spacings, the same at any zoom
            q = q + noise * rng.standard_normal(q.shape)
        groupings.append(group(q, architecture))
        normals.append(q_normals)
        for number in range(config.partners):
            p, _ = mesh.sample(round(config.partner_density * zoom * count), rng)
            p = p[np.linalg.norm(p - center, axis=1) < part]
            T_true, T_measured = _poses(config, rng)
            p = (p - T_true[:3, 3]) @ T_true[:3, :3]  # into its own frame, so that T_true maps it back
            seen = p @ T_measured[:3, :3].T + T_measured[:3, 3]
            index = KDTree(seen)
            distance, nearest = index.nearest(1, q)
            if phase == "curvature" and number == 0:
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
    index: KDTree, partner: np.ndarray, points: np.ndarray, grouping: Grouping, rng: np.random.Generator
) -> np.ndarray:
    """Return points of the partner, in the cloud's frame, around each point of the cloud: the nearest to random places there.

    The nearest neighbors alone would be too near to show curvature if the partner is dense."""
    directions = rng.standard_normal((len(points), PROBES, 3))
    distance = _FARTHEST_PROBE * grouping.levels[0].radius[:, None] * rng.random((len(points), PROBES))
    places = points[:, None] + directions * (distance / np.linalg.norm(directions, axis=2))[..., None]
    return partner[index.nearest(1, places.reshape(-1, 3))[1][:, 0]].reshape(places.shape) - points[:, None]


def joined(around: Sequence[np.ndarray]) -> torch.Tensor | None:
    """Return the probes of all clouds as `PairBatch.around`."""
    return torch.from_numpy(np.concatenate(around)) if around else None


def _poses(config: PairConfig, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw the true pose T_q_p and the measured one."""
    axis = rng.standard_normal(3)
    T_true = np.eye(4)
    T_true[:3, :3] = so3_exp(np.deg2rad(config.max_rotation) * rng.random() * axis / np.linalg.norm(axis))
    return T_true, measured(T_true, config.rotation_noise, config.translation_noise, rng)
