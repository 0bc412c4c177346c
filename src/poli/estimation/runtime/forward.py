"""Run the trained network on a CPU, torch-free: points to covariances.

Points are processed in the order of the k-d tree's leaves, where the neighbors of a point are close to it in memory, and in tiles
that fit the cache: each tile is gathered, multiplied and pooled, and no large intermediate array is written. The result is that of
`train.network`; a test compares the two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from poli.estimation.architecture import HORIZON, QUADRIC_DEFAULTS, RESIDUALS, Architecture
from poli.estimation.frames import group_radii
from poli.estimation.ordered_cloud import OrderedCloud, Viewpoint, check_places, distinct, order_cloud, seen_from
from poli.estimation.runtime.arithmetic import TILE
from poli.estimation.runtime.attention import attend
from poli.estimation.runtime.curvature import COLUMNS, bend
from poli.estimation.runtime.gather import scratch
from poli.estimation.runtime.quadrics import pool, residuals
from poli.estimation.runtime.scale import size
from poli.estimation.runtime.unet import encode_level, encode_points, read_level
from poli.kdtree.neighborhoods import CELL
from poli.kdtree.tree import NARROWEST, check_range
from poli.kernel import in_turns, over_range
from poli.threads import Stage, run_chunks, run_turns

_DEFAULTS = np.array(QUADRIC_DEFAULTS, np.float32)
_NOBODY = np.empty((1, 0), np.int32)


class Estimate(NamedTuple):
    """The network's result for N points at M distinct places."""

    covariances: np.ndarray  # (N, 3, 3)
    spacing: np.ndarray  # (M,)
    quadrics: np.ndarray | None  # (N, 18), see `bend`


def forward(
    points: np.ndarray,  # (N, 3)
    layers: Layers,
    calibration: float,
    view: Viewpoint,
    watch: Callable[[str], None] = lambda stage: None,
    curvature: bool = False,
) -> Estimate:
    """Return calibrated covariances, the point spacing around each of the M distinct places, and, if asked for, curvature.

    `watch` is called with the name of each stage when it ends: sampling, neighbors, network, interpolation, and network again.

    Coincident points share one ellipsoid. Neither their number nor the order of the points changes the result."""
    architecture = layers.architecture
    # 1. Group: distinct places, their neighbors on all levels, frames and radii.
    check_range(points, narrowest=NARROWEST)
    places = distinct(points, ordered=not architecture.sensor)
    check_places(points, places, architecture)
    cloud = order_cloud(places.of_places(points), architecture, seen_from(view, places), watch, curvature)
    levels = _levels(cloud, architecture)
    stages = _Stages()
    # 2. Encode every level from the one below, then decode every level from the coarser one.
    args = (*levels[0][:2], cloud.size, *levels[0][2:], cloud.context)
    features = [_run(stages, layers, "down0", levels[0], encode_points, *args)]
    for n in range(1, architecture.levels):
        features.append(_encode(stages, layers, n, levels[n - 1], levels[n], features[n - 1]))
    known = features[-1]
    for n in reversed(range(architecture.levels - 1)):
        known = _decode(stages, layers, n, levels[n], levels[n + 1], features[n], known)
    # 3. Heads: moments of the neighbors, weighted by attention; sizes; curvature.
    moments = _attend(stages, layers, levels, cloud, known)
    covariances = _size(stages, layers, cloud, levels[0].frames, moments, known.scalars, calibration)
    stages.run(watch)
    quadrics = _bend(layers, levels, cloud, moments, known.scalars) if curvature else None
    if curvature:
        watch("network")
    return Estimate(places.of_points(covariances), cloud.spacing, None if quadrics is None else places.of_points(quadrics))


class _Stages:
    """The stages of the network, in order. Their arrays exist before the first runs, so that threads go from one to the next."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._stages: list[Stage] = []

    def add(self, name: str, count: int, kernel: Callable, *args) -> None:
        """Add a kernel for `count` points."""
        self._names.append("interpolation" if name.startswith("up") else "network")
        self._stages.append((in_turns(kernel, *args), -(-count // TILE)))

    def run(self, watch: Callable[[str], None]) -> None:
        run_turns(*self._stages, ended=lambda number: watch(self._names[number]), dependent=True)


class Level(NamedTuple):
    """A level of the cloud, in leaf order."""

    points: np.ndarray  # (M, 3)
    near: np.ndarray  # (M, k) int32, others of the same level
    frames: np.ndarray  # (M, 3, 3) float32
    radius: np.ndarray  # (M,) of the groups in the level below


class Features(NamedTuple):
    """What a stage computes for the points of a level."""

    scalars: np.ndarray  # (M, s) float32
    mapped: np.ndarray  # (M, m) float32: the scalars after the linear map of the next stage


@dataclass(frozen=True)
class Layers:
    """The weights of a network as the kernels take them: each map is a weight (out, in) and a bias (out,), float32."""

    architecture: Architecture
    stages: dict[str, tuple[tuple, tuple, int]]  # maps, the map of the next stage, number of scalars
    attention: tuple[tuple, tuple, tuple]  # of the first round, of all rounds, and the last maps by head
    size: tuple
    curvature: tuple

    @staticmethod
    def of(architecture: Architecture, weights: Mapping[str, np.ndarray]) -> Layers:
        """Arrange the weights of a model without `motion`. Done once per model."""

        def maps(*names: str) -> tuple[np.ndarray, ...]:
            return tuple(weights[f"{name}.{part}"] for name in names for part in ("weight", "bias"))

        def stacked(name: str, first: int = 0) -> list[np.ndarray]:  # (rounds, out, in), (rounds, out)
            rounds = range(first, architecture.rounds)
            pairs = zip(*(maps(name.format(r)) for r in rounds), strict=True) if rounds else ()
            return [np.stack(arrays) for arrays in pairs] or [np.empty((0, 0, 0), np.float32), np.empty((0, 0), np.float32)]

        a, width = architecture, architecture.edge[0]
        names = [f"down{n}" for n in range(a.levels)] + [f"up{n}" for n in reversed(range(a.levels - 1))]
        following = [maps(name) for name in (*(f"{name}.feature" for name in names[1:]), "attend0.neighbor")]
        stages = {}
        for name, after in zip(names, following, strict=True):
            own = maps(*(f"{name}.{part}" for part in (("edge", "node") if name.startswith("down") else ("node",))))
            if name == "down0":
                nothing = np.empty((width, 0), np.float32), np.zeros(width, np.float32)
                own = (*(maps("down0.context") if a.context else nothing), *own)
            level = int(name.removeprefix("down").removeprefix("up"))
            stages[name] = ((*maps(f"{name}.place"), *own), after, a.scalars[level])
        (place, place_bias), (reader, reader_bias) = stacked("attend{}.place", 1), stacked("attend{}.reader", 1)
        out, out_bias = stacked("attend{}.out")
        rounds = (out_bias, *stacked("shape{}.out"), place, reader, place_bias + reader_bias)
        heads = tuple(np.ascontiguousarray(out[:, h]) for h in range(a.heads))
        return Layers(
            a,
            stages,
            (maps("attend0.place", "attend0.reader", "head.hidden"), rounds, heads),
            maps("size.hidden" if a.size else "head.hidden", "size.out"),
            maps("bend.hidden", "bend.out") if a.curvature else (),
        )

    def with_size_bias(self, bias: np.ndarray) -> Layers:
        """Return the layers with another bias of the hidden layer of sizes."""
        return replace(self, size=(self.size[0], bias, *self.size[2:]))


def _levels(cloud: OrderedCloud, architecture: Architecture) -> list[Level]:
    levels = [Level(cloud.positions, cloud.near[0], cloud.frames, cloud.radius)]
    for n, near in enumerate(cloud.near[1:], 1):
        below, points = levels[-1], np.ascontiguousarray(cloud.positions[:: CELL**n])
        radius = group_radii(points, below.points, below.near, min(architecture.neighbors[n], below.near.shape[1]), step=CELL)
        levels.append(Level(points, near, np.ascontiguousarray(cloud.frames[:: CELL**n]), radius))
    return levels


def _run(stages: _Stages, layers: Layers, stage: str, level: Level, kernel: Callable, *args) -> Features:
    maps, following, scalars = layers.stages[stage]
    count = len(level.points)
    shapes = {"scalars": (count, scalars), "mapped": (count, len(following[1]))}
    features = Features(*(scratch(f"{stage} {name}", shape) for name, shape in shapes.items()))
    stages.add(stage, count, kernel, *args, maps, following, *features)
    return features


def _encode(stages: _Stages, layers: Layers, n: int, below: Level, level: Level, known: Features) -> Features:
    k = min(layers.architecture.neighbors[n], below.near.shape[1])
    args = (below.points, below.near, k, CELL, level.frames, level.radius, known.scalars, known.mapped)
    return _run(stages, layers, f"down{n}", level, encode_level, *args)


def _decode(stages: _Stages, layers: Layers, n: int, level: Level, above: Level, own: Features, coarse: Features) -> Features:
    read = min(layers.architecture.interpolated, 1 + above.near.shape[1])
    args = (level.points, above.points, above.near, read, level.frames, level.radius)
    return _run(stages, layers, f"up{n}", level, read_level, *args, own.scalars, coarse.mapped)


def _seen(levels: list[Level], group: int, wide: tuple[int, ...]) -> tuple:
    """Return what a point sees: the neighbors on levels 0 to 2, of the point and of its leads, and how many of each."""
    pairs = [(levels[n].near, wide[n - 1]) if n <= len(wide) else (_NOBODY, 0) for n in (1, 2)]
    return (levels[0].near, group, *pairs[0], *pairs[1])


def _attend(
    stages: _Stages, layers: Layers, levels: list[Level], cloud: OrderedCloud, known: Features
) -> np.ndarray:  # (N, 6) float32
    level, floor = levels[0], np.float32(layers.architecture.floor)
    moments = scratch("moments", (len(level.points), 6))
    seen = _seen(levels, level.near.shape[1], cloud.wide)
    args = (level.points, level.frames, level.radius, seen, known.scalars, known.mapped)
    stages.add("attend", len(moments), attend, *args, *layers.attention, floor, moments)
    return moments


def _size(
    stages: _Stages, layers: Layers, cloud: OrderedCloud, frames, moments, scalars, calibration: float
) -> np.ndarray:  # (N, 3, 3)
    architecture, result = layers.architecture, np.empty((len(moments), 3, 3))
    most = np.minimum(HORIZON / cloud.scale * cloud.radius, cloud.extent) ** 2  # nothing farther away was seen
    args = (moments, frames, calibration * cloud.spacing, most, scalars, cloud.context, layers.size)
    settings = (architecture.size > 0, architecture.floor, cloud.order)
    stages.add("size", len(moments), size, *args, *settings, result)
    return result


def _bend(layers: Layers, levels: list[Level], cloud: OrderedCloud, moments, scalars) -> np.ndarray:  # (N, 18)
    level, result, own = levels[0], np.empty((len(moments), COLUMNS)), bool(cloud.curved)
    seen = _seen(levels, cloud.size, cloud.curved) if own else _seen(levels, level.near.shape[1], cloud.wide)
    pooled = _residuals(levels, cloud, seen, moments) if own else np.empty((1, 0), np.float32)
    args = (level.points, level.frames, level.radius, seen, moments, scalars, cloud.context, pooled)
    settings = (layers.curvature, _DEFAULTS, layers.architecture.floor, 1.0 / cloud.scale, cloud.order)
    run_turns((in_turns(bend, *args, *settings, result), -(-len(moments) // TILE)))
    return result


def _residuals(levels: list[Level], cloud: OrderedCloud, seen: tuple, moments) -> np.ndarray:  # (M, 4) float32, of level 1
    leads = levels[1]
    found, pooled = (scratch(name, (len(leads.points), RESIDUALS)) for name in ("residuals", "pooled residuals"))
    args = (levels[0].points, leads.frames, np.ascontiguousarray(cloud.radius[::CELL]), seen, moments)
    run_turns((in_turns(residuals, *args, found), -(-len(found) // TILE)))
    run_chunks(over_range(pool, found, leads.near, cloud.curved[0], pooled), len(found))
    return pooled
