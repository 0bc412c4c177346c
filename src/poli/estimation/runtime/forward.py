"""Run the trained network on a CPU, torch-free: points to covariances.

Points are processed in the order of the k-d tree's leaves, where the neighbors of a point are close to it in memory, and in tiles
that fit the cache: each tile is gathered, multiplied and pooled, and no large intermediate array is written. The result is that of
`train.network`; a test compares the two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from poli.estimation.architecture import HORIZON, QUADRIC_DEFAULTS, RESIDUALS, Architecture
from poli.estimation.frames import group_radii
from poli.estimation.grouping import check_places, seen_from
from poli.estimation.ordered_cloud import OrderedCloud, Viewpoint, distinct, order_cloud
from poli.estimation.runtime.arithmetic import TILE
from poli.estimation.runtime.attention import attend
from poli.estimation.runtime.curvature import COLUMNS, bend
from poli.estimation.runtime.gather import scratch
from poli.estimation.runtime.quadrics import pool, residuals
from poli.estimation.runtime.scale import size
from poli.estimation.runtime.unet import encode_level, encode_points, read_level
from poli.kdtree.neighborhoods import CELL
from poli.kdtree.tree import NARROWEST, check_range
from poli.kernel import over_range
from poli.threads import run_chunks

Weights = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class _Level:
    """A level of the cloud, in leaf order."""

    points: np.ndarray  # (M, 3)
    near: np.ndarray  # (M, k) int32, others of the same level
    frames: np.ndarray  # (M, 3, 3) float32


@dataclass
class _Features:
    scalars: np.ndarray  # (M, s) float32
    vectors: np.ndarray  # (M, v, 3) float32, in the common frame
    mapped: np.ndarray  # (M, m) float32: the scalars after the linear map of the next stage


class Estimate(NamedTuple):
    """What the network says about N points at M distinct places."""

    covariances: np.ndarray  # (N, 3, 3)
    spacing: np.ndarray  # (M,)
    quadrics: np.ndarray | None  # (N, 18), see `bend`


def covariances(  # (N, 3) -> (N, 3, 3), (M,)
    points: np.ndarray,
    architecture: Architecture,
    weights: Weights,
    calibration: float,
    view: Viewpoint,
    watch: Callable[[str], None] = lambda stage: None,
    curvature: bool = False,
) -> Estimate:
    """Return calibrated covariances, the point spacing around each of the M distinct places, and, if asked for, curvature.

    `watch` is called with the name of each stage when it ends: sampling, neighbors, network, interpolation, and network again.

    Coincident points share one ellipsoid. Neither their number nor the order of the points changes the result."""
    check_range(points, narrowest=NARROWEST)
    places = distinct(points, ordered=not architecture.sensor)
    check_places(points, places, architecture)
    view = seen_from(view, places)
    found = _of_places(places.of_places(points), architecture, weights, calibration, view, watch, curvature)
    bent = None if found.quadrics is None else places.of_points(found.quadrics)
    return Estimate(places.of_points(found.covariances), found.spacing, bent)


def _of_places(
    points, architecture: Architecture, weights: Weights, calibration: float, view: Viewpoint, watch, curvature: bool
) -> Estimate:
    cloud = order_cloud(points, architecture, view, watch, curvature)
    radius, context, frames = cloud.radius, cloud.context, cloud.frames.astype(np.float32)
    levels = [
        _Level(np.ascontiguousarray(cloud.positions[:: CELL**n]), near, np.ascontiguousarray(frames[:: CELL**n]))
        for n, near in enumerate(cloud.near)
    ]
    radii = [radius]
    features = [_encode_points(levels[0], cloud.size, radius, context, architecture, weights)]
    for number in range(1, architecture.levels):
        below = levels[number - 1]
        k = min(architecture.neighbors[number], below.near.shape[1])
        radii.append(group_radii(levels[number].points, below.points, below.near, k, step=CELL))
        features.append(_encode_level(number, levels, k, radii[-1], features[-1], architecture, weights))
    watch("network")
    known = features[-1]
    for number in reversed(range(architecture.levels - 1)):
        known = _read_level(number, levels, radii[number], features[number], known, architecture, weights)
    watch("interpolation")
    moments = _attend(levels, cloud.wide, radius, known, architecture, weights)
    spacing = cloud.spacing
    most = np.minimum(HORIZON / cloud.scale * radius, cloud.extent) ** 2  # nothing farther away was seen
    lengths = calibration * spacing
    result = _size(moments, levels[0].frames, lengths, most, known.scalars, context, cloud.order, architecture, weights)
    quadrics = _bend(levels, cloud, moments, known.scalars, architecture, weights) if curvature else None
    watch("network")
    return Estimate(result, spacing, quadrics)


def _encode_points(level: _Level, k, radius, context, architecture: Architecture, weights: Weights) -> _Features:
    place, edge, node = (_map(weights, f"down0.{name}") for name in ("place", "edge", "node"))
    width = len(place[1])
    context_map = (
        _map(weights, "down0.context") if architecture.context else (np.empty((width, 0), np.float32), np.zeros(width, np.float32))
    )
    following = _following(architecture, weights, 0, going_up=False)
    features = _feature_arrays(len(level.points), architecture, 0, following, "down")
    args = (level.points, level.near, k, level.frames, radius, context, _flat([place, context_map, edge, node]), following)
    _run(encode_points, args, len(level.points), features)
    return features


def _encode_level(number, levels, k, radius, below: _Features, architecture: Architecture, weights: Weights) -> _Features:
    maps = _flat([_map(weights, f"down{number}.{name}") for name in ("place", "edge", "node")])
    following = _following(architecture, weights, number, going_up=False)
    fine, level = levels[number - 1], levels[number]
    features = _feature_arrays(len(level.points), architecture, number, following, "down")
    args = (fine.points, fine.near, k, CELL, level.frames, radius, below.scalars, below.mapped, below.vectors, maps, following)
    _run(encode_level, args, len(level.points), features)
    return features


def _read_level(
    number, levels, radius, own: _Features, coarse: _Features, architecture: Architecture, weights: Weights
) -> _Features:
    """The way up: features of a level from its own and from those interpolated from the coarser level."""
    maps = _flat([_map(weights, f"up{number}.{name}") for name in ("place", "node")])
    following = _following(architecture, weights, number, going_up=True)
    level, above = levels[number], levels[number + 1]
    features = _feature_arrays(len(level.points), architecture, number, following, "up")
    if number == 0:  # vectors are not used after this level
        features.vectors = features.vectors[:, :0]
    read = min(architecture.interpolated, 1 + above.near.shape[1])
    args = (
        level.points,
        above.points,
        above.near,
        read,
        level.frames,
        radius,
        own.scalars,
        own.vectors,
        coarse.mapped,
        coarse.vectors,
    )
    _run(read_level, (*args, maps, following), len(level.points), features)
    return features


def _shared(levels, wide: tuple[int, ...]) -> tuple:
    """The neighbors of the leads of levels 1 and 2, and how many of them a point sees."""
    nobody = np.empty((1, 0), np.int32)
    (near1, wide1), (near2, wide2) = [(levels[n].near, wide[n - 1]) if n <= len(wide) else (nobody, 0) for n in (1, 2)]
    return near1, wide1, near2, wide2


def _bend(levels, cloud: OrderedCloud, moments, scalars, architecture: Architecture, weights: Weights) -> np.ndarray:  # (N, 18)
    level, result = levels[0], np.empty((len(moments), COLUMNS))
    maps = _flat([_map(weights, "bend.hidden"), _map(weights, "bend.out")])
    own = bool(cloud.curved)
    seen = (level.near, cloud.size if own else level.near.shape[1], *_shared(levels, cloud.curved if own else cloud.wide))
    pooled = _residuals(levels, cloud, seen, moments) if own else np.empty((1, 0), np.float32)
    args = (level.points, level.frames, cloud.radius, *seen, moments, scalars, cloud.context, pooled)
    settings = (maps, np.array(QUADRIC_DEFAULTS, np.float32), architecture.floor, 1.0 / cloud.scale, cloud.order)
    run_chunks(over_range(bend, *args, *settings, result), -(-len(moments) // TILE), _LEAST_TILES)
    return result


def _residuals(levels, cloud: OrderedCloud, seen: tuple, moments) -> np.ndarray:  # (M, 4) float32, of level 1
    leads = levels[1]
    found, pooled = (scratch(name, (len(leads.points), RESIDUALS)) for name in ("residuals", "pooled residuals"))
    args = (levels[0].points, leads.frames, np.ascontiguousarray(cloud.radius[::CELL]), *seen, moments)
    run_chunks(over_range(residuals, *args, found), -(-len(found) // TILE), _LEAST_TILES)
    run_chunks(over_range(pool, found, leads.near, cloud.curved[0], pooled), len(found))
    return pooled


def _attend(levels, wide, radius, known: _Features, architecture: Architecture, weights: Weights) -> np.ndarray:  # (N, 6) float32
    count, level = len(levels[0].points), levels[0]
    moments = scratch("moments", (count, 6))
    first = _flat(_map(weights, name) for name in ("attend0.place", "attend0.reader", "head.hidden"))
    rounds = range(architecture.rounds)
    maps = [_stacked(weights, [f"attend{r}.out" for r in rounds]), _stacked(weights, [f"shape{r}.out" for r in rounds])]
    place, reader = (_stacked(weights, [f"attend{r}.{part}" for r in rounds[1:]]) for part in ("place", "reader"))
    args = (level.points, level.frames, radius, level.near, *_shared(levels, wide), known.scalars, known.mapped, first)
    looks = (*_flat(maps), place[0], reader[0], place[1] + reader[1])
    run_chunks(over_range(attend, *args, looks, np.float32(architecture.floor), moments), -(-count // TILE), _LEAST_TILES)
    return moments


def _size(moments, frames, lengths, most, scalars, context, order, architecture: Architecture, weights: Weights) -> np.ndarray:
    maps = _flat([_map(weights, "size.hidden" if architecture.size else "head.hidden"), _map(weights, "size.out")])
    result = np.empty((len(moments), 3, 3))
    args = (moments, frames, lengths, most, scalars, context, maps, architecture.size > 0, architecture.floor, order)
    run_chunks(over_range(size, *args, result), -(-len(moments) // TILE), _LEAST_TILES)
    return result


def _following(architecture: Architecture, weights: Weights, number: int, going_up: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the linear map that the next stage applies to a level's scalars: the coarser level, the finer level, or the head."""
    if not going_up and number + 1 < architecture.levels:
        return _map(weights, f"down{number + 1}.feature")
    if number > 0:
        return _map(weights, f"up{number - 1}.feature")
    return _map(weights, "attend0.neighbor")


def _feature_arrays(
    count: int, architecture: Architecture, number: int, following: tuple[np.ndarray, np.ndarray], way: str
) -> _Features:
    return _Features(
        scratch(f"{way} {number} scalars", (count, architecture.scalars[number])),
        scratch(f"{way} {number} vectors", (count, architecture.vectors, 3)),
        scratch(f"{way} {number} mapped", (count, len(following[1]))),
    )


def _run(kernel: Callable, args: tuple, count: int, features: _Features) -> None:
    run_chunks(over_range(kernel, *args, features.scalars, features.vectors, features.mapped), -(-count // TILE), _LEAST_TILES)


_LEAST_TILES = 4


def _map(weights: Weights, name: str) -> tuple[np.ndarray, np.ndarray]:
    return weights[f"{name}.weight"], weights[f"{name}.bias"]


def _flat(maps: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, ...]:
    return tuple(array for pair in maps for array in pair)


def _stacked(weights: Weights, names: list[str]) -> tuple[np.ndarray, np.ndarray]:  # (rounds, out, in), (rounds, out)
    maps = [_map(weights, name) for name in names]
    if not maps:
        return np.empty((0, 0, 0), np.float32), np.empty((0, 0), np.float32)
    return np.stack([w for w, _ in maps]), np.stack([b for _, b in maps])
