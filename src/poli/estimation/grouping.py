"""Who looks at whom: the neighbourhoods, frames and interpolations that the network works on. All geometry of the input is here.

Every point gets a frame of its own, the principal axes of its neighbours, and sees its group in that frame, divided by the
group's radius. So the network's input does not change when the cloud is moved, turned or scaled; its output is turned by the
frame and multiplied by the local spacing. That makes the ellipsoids equivariant by construction rather than by training.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.ellipsoids.symmetric3 import eigh3
from poli.errors import InputError
from poli.estimation.architecture import Architecture
from poli.estimation.farthest import farthest_points
from poli.estimation.neighbours import NeighbourIndex
from poli.kernel import kernel
from poli.threads import run_chunks

LEAST_POINTS = 16
_FRAME_NEIGHBOURS = 12
_SMALLEST_RADIUS = 1e-6  # of the cloud's own: groups of duplicates have none


@dataclass(frozen=True)
class Level:
    """The points of one level and their groups in the level below (level 0: in the cloud itself)."""

    centres: np.ndarray  # (M,) int32, which points of the level below they are
    frames: np.ndarray  # (M, 3, 3) float32, axes as columns
    neighbours: np.ndarray  # (M, k) int32, into the level below
    offsets: np.ndarray  # (M, k, 3) float32, in the own frame and radius
    radius: np.ndarray  # (M,) root mean square distance of the group


@dataclass(frozen=True)
class Interpolation:
    """How the points of a level read the next coarser one."""

    neighbours: np.ndarray  # (M, 3) int32, into the coarser level
    weights: np.ndarray  # (M, 3) float32, by inverse distance, of sum one
    offsets: np.ndarray  # (M, 3, 3) float32, in the frame and radius of the reader


@dataclass(frozen=True)
class Grouping:
    levels: tuple[Level, ...]
    interpolations: tuple[Interpolation, ...]  # from level 1 to 0, from 2 to 1, ...
    spacing: np.ndarray  # (N,) the length that L is measured in
    context: np.ndarray  # (N, c) float32, what a point is told beside its group


@dataclass(frozen=True)
class Sight:
    """Where a scan was taken from and which way was up, in the frame of its points; None where nobody knows."""

    viewpoint: np.ndarray | None = None  # (3,)
    up: np.ndarray | None = None  # (3,) unit


def group(points: np.ndarray, architecture: Architecture, sight: Sight = Sight()) -> Grouping:  # (N, 3)  # noqa: B008
    if len(points) < LEAST_POINTS:
        raise InputError(f"{len(points)} points; the network needs at least {LEAST_POINTS}")
    positions = np.ascontiguousarray(points - points.mean(axis=0))
    smallest = _SMALLEST_RADIUS * float(np.sqrt((positions**2).sum(axis=1).mean())) or 1.0
    index = NeighbourIndex(positions)
    everyone = np.arange(len(points), dtype=np.int32)
    k = min(architecture.neighbours[0], len(points) - 1)
    found, _ = index.nearest(min(max(k, architecture.reach), len(points) - 1) + 1)
    neighbours = np.ascontiguousarray(found[:, 1:])  # without the point itself, of which a group learns nothing
    coarse = _coarse(positions, index, architecture)
    wide = [_among(positions, level, count) for level, count in zip(coarse, architecture.wide, strict=False)]
    if architecture.frames == "sensor" and sight.viewpoint is not None and sight.up is not None:
        frames = _sensor_frames(points - sight.viewpoint, sight.up)
    else:
        frames = _frames(positions, np.concatenate([neighbours[:, :_FRAME_NEIGHBOURS], *wide], axis=1))
    neighbours = np.concatenate([neighbours, *wide], axis=1)
    levels = [_level(positions, positions, everyone, frames, neighbours, k, smallest)]
    interpolations = []
    for k, level in zip(architecture.neighbours[1:], coarse, strict=True):
        below, below_frames = positions, frames
        positions, frames = below[level.centres], below_frames[level.centres]
        neighbours, _ = index.nearest(min(k, len(below)), positions)
        levels.append(_level(positions, below, level.centres, frames, neighbours, k, smallest))
        index = level.index
        interpolations.append(_interpolation(below, below_frames, levels[-2].radius, index, architecture.interpolated))
    # On a plane, the mean squared distance of the k nearest is about (k + 1) / 2 points' worth of area over pi.
    spacing = levels[0].radius * np.sqrt(2.0 * np.pi / (min(architecture.neighbours[0], len(points) - 1) + 1))
    told = context(points, levels[0], architecture, sight)
    return Grouping(tuple(levels), tuple(interpolations), spacing, told)


def context(points: np.ndarray, level: Level, architecture: Architecture, sight: Sight) -> np.ndarray:  # -> (N, c) float32
    """The logarithm of the group's radius in metres; the directions to the sensor and up, in the own frame; the logarithm of the
    range and the height above the sensor, both brought to moderate size. What is unknown is zero, which no known direction is."""
    parts = []
    if architecture.log_scale:
        parts.append(np.log(level.radius)[:, None])
    if architecture.sensor:
        ray, view, reach = np.zeros_like(points), np.zeros_like(points), np.zeros((len(points), 1))
        up, height = np.zeros_like(points), np.zeros((len(points), 1))
        if sight.viewpoint is not None:
            ray = points - sight.viewpoint
            length = np.maximum(np.linalg.norm(ray, axis=1, keepdims=True), 1e-3)
            view = np.einsum("nd,nde->ne", -ray / length, level.frames)
            reach = np.log(length) - 2.5
        if sight.up is not None:
            up = np.einsum("d,nde->ne", sight.up, level.frames)
            height = np.arcsinh(ray @ sight.up)[:, None]
        parts += [view, up, reach, height]
    return np.concatenate(parts, axis=1).astype(np.float32) if parts else np.zeros((len(points), 0), np.float32)


@dataclass(frozen=True)
class _Coarse:
    """A thinned level: which points of the level below, and of the cloud, it keeps."""

    centres: np.ndarray  # (M,)
    points: np.ndarray  # (M,)
    index: NeighbourIndex


def _coarse(positions: np.ndarray, index: NeighbourIndex, architecture: Architecture) -> list[_Coarse]:
    levels: list[_Coarse] = []
    points = np.arange(len(positions), dtype=np.int32)
    for _ in architecture.neighbours[1:]:
        count = max(1, -(-len(points) // architecture.stride))
        if architecture.thinning == "farthest":
            centres = farthest_points(positions[points], count)
        else:
            centres = np.sort(index.leaf_order[:: architecture.stride])
        points = points[centres]
        index = NeighbourIndex(positions[points])
        levels.append(_Coarse(centres, points, index))
    return levels


def _among(positions: np.ndarray, level: _Coarse, count: int) -> np.ndarray:  # -> (N, count)
    """The nearest points of a coarse level, the point itself left out, as indices into the cloud."""
    found, _ = level.index.nearest(min(count + 1, len(level.points)), positions)
    found = level.points[found]
    oneself = found == np.arange(len(positions))[:, None]
    return np.take_along_axis(found, np.argsort(oneself, axis=1, kind="stable"), axis=1)[:, : min(count, found.shape[1] - 1)]


def _level(positions, below, centres, frames, neighbours, k, smallest) -> Level:
    offsets, radius = np.empty((*neighbours.shape, 3), np.float32), np.empty(len(positions))
    args = (positions, below, neighbours, frames, min(k, neighbours.shape[1]), smallest)
    run_chunks(lambda begin, end: _offsets(*args, begin, end, offsets, radius), len(positions))
    return Level(centres, frames.astype(np.float32), neighbours, offsets, radius)


def _interpolation(fine, frames, radius, coarse: NeighbourIndex, count: int) -> Interpolation:
    neighbours, distances = coarse.nearest(min(count, len(coarse)), fine)
    weights = 1.0 / (distances + 0.1 * radius[:, None])  # softened: a centre, at distance zero, also hears the others
    weights /= weights.sum(axis=1, keepdims=True)
    offsets = np.einsum("mkd,mde->mke", coarse.points[neighbours] - fine[:, None], frames) / radius[:, None, None]
    return Interpolation(neighbours, weights.astype(np.float32), offsets.astype(np.float32))


def _sensor_frames(rays: np.ndarray, up: np.ndarray) -> np.ndarray:  # (N, 3), (3,) -> (N, 3, 3)
    """Away from the sensor in the horizontal, across, and up; straight above or below it, the first is any horizontal direction."""
    across = np.cross(up, rays)
    length = np.linalg.norm(across, axis=1, keepdims=True)
    spare = np.cross(up, np.eye(3)[np.abs(up).argmin()])
    across = np.where(length > 1e-6, across / np.maximum(length, 1e-6), spare / np.linalg.norm(spare))
    return np.stack([np.cross(across, up), across, np.broadcast_to(up, across.shape)], axis=2)


def _frames(points: np.ndarray, neighbours: np.ndarray) -> np.ndarray:  # (N, 3), (N, k) -> (N, 3, 3)
    """Principal axes of these neighbours, thinnest last; the first and the last point to where the neighbours are on average."""
    covariances, means = np.empty((len(points), 3, 3)), np.empty((len(points), 3))
    run_chunks(lambda begin, end: _moments(points, neighbours, begin, end, covariances, means), len(points))
    axes = eigh3(covariances)[1][:, :, ::-1]  # longest first
    x, z = axes[:, :, 0], axes[:, :, 2]
    x = x * np.where(np.einsum("ni,ni->n", means, x) < 0, -1.0, 1.0)[:, None]
    z = z * np.where(np.einsum("ni,ni->n", means, z) < 0, -1.0, 1.0)[:, None]
    return np.stack([x, np.cross(z, x), z], axis=2)


@kernel
def _moments(points, neighbours, begin, end, covariances, means):
    """Weighted mean and second moments of the nearest neighbours, seen from the point; weights fall with the cube of the distance.

    Measured on clouds of objects, the thin axis of these moments is nearer to the normal than that of any unweighted PCA: near
    neighbours are on the same sheet. Half of the mean is taken off: the point itself is as good a guess of where the sheet is.
    """
    k = neighbours.shape[1]
    weights = np.empty(k)
    for i in range(begin, end):
        total, spread = 0.0, 0.0
        for j in range(k):
            n = neighbours[i, j]
            weights[j] = (
                (points[n, 0] - points[i, 0]) ** 2 + (points[n, 1] - points[i, 1]) ** 2 + (points[n, 2] - points[i, 2]) ** 2
            )
            spread += weights[j] / k
        for j in range(k):
            weights[j] = (weights[j] / spread + 1e-3) ** -1.5 if spread > 0.0 else 1.0
            total += weights[j]
        for a in range(3):
            means[i, a] = 0.0
            for b in range(3):
                covariances[i, a, b] = 0.0
        for j in range(k):
            n, weight = neighbours[i, j], weights[j] / total
            for a in range(3):
                da = points[n, a] - points[i, a]
                means[i, a] += weight * da
                for b in range(a + 1):
                    covariances[i, a, b] += weight * da * (points[n, b] - points[i, b])
        for a in range(3):
            for b in range(a + 1):
                covariances[i, a, b] -= 0.75 * means[i, a] * means[i, b]  # (x - m / 2)(x - m / 2)' on average
                covariances[i, b, a] = covariances[i, a, b]


@kernel
def _offsets(positions, below, neighbours, frames, k, smallest, begin, end, offsets, radius):
    for i in range(begin, end):
        total = 0.0
        for j in range(k):
            n = neighbours[i, j]
            for a in range(3):
                total += (below[n, a] - positions[i, a]) ** 2
        radius[i] = max(np.sqrt(total / k), smallest)
        for j in range(neighbours.shape[1]):
            n = neighbours[i, j]
            x, y, z = below[n, 0] - positions[i, 0], below[n, 1] - positions[i, 1], below[n, 2] - positions[i, 2]
            for a in range(3):
                offsets[i, j, a] = (frames[i, 0, a] * x + frames[i, 1, a] * y + frames[i, 2, a] * z) / radius[i]
