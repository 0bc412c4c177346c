"""The network's input for training: neighborhoods, frames and interpolations, in the order of the points.

Every point has a frame, the principal axes of its neighbors; its group is expressed in that frame and divided by the group's
radius. So the network's input is invariant to translation, rotation and scaling of the cloud; its output is rotated by the frame
and multiplied by the local spacing. This makes the ellipsoids equivariant by construction rather than by training.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.estimation.architecture import HORIZON, AnyArchitecture
from poli.estimation.frames import group_radii
from poli.estimation.ordered_cloud import Distinct, OrderedCloud, Viewpoint, check_places, of_leads, order_cloud
from poli.estimation.pointnet2 import PointNet2
from poli.estimation.runtime.unet import interpolation_weights
from poli.kdtree.neighborhoods import CELL
from poli.kernel import kernel, over_range
from poli.threads import run_chunks
from poli.train.pointnet2 import SampledCloud, sample


@dataclass(frozen=True)
class Level:
    """The points of one level and their groups in the level below (level 0: in the cloud itself)."""

    centers: np.ndarray  # (M,) int32, indices of the points in the level below
    frames: np.ndarray  # (M, 3, 3) float32, axes as columns
    neighbors: np.ndarray  # (M, k) int32, into the level below
    offsets: np.ndarray  # (M, k, 3) float32, in the frame and radius of the point, clipped to the horizon
    radius: np.ndarray  # (M,) root mean square distance of the group
    size: int  # number of neighbors in the group; at level 0, the head uses more


@dataclass(frozen=True)
class Interpolation:
    """How the points of a level interpolate the next coarser one."""

    neighbors: np.ndarray  # (M, 3) int32, into the coarser level
    weights: np.ndarray  # (M, 3) float32, by inverse distance, summing to one
    offsets: np.ndarray  # (M, 3, 3) float32, in the frame and radius of the fine point


@dataclass(frozen=True)
class WideNeighbors:
    """What curvature sees if it does not see the neighbors of the head (`Architecture.curvature_wide`)."""

    offsets: np.ndarray  # (N, k, 3) float32, as in Level: the group, then neighbors of the leads
    leads: np.ndarray  # (N,) int32, each point's in level 1
    around: np.ndarray  # (M, 1 + w) int32, of each point of level 1: itself and its nearest others


@dataclass(frozen=True)
class Grouping:
    """The network's input for one cloud."""

    levels: tuple[Level, ...]
    interpolations: tuple[Interpolation, ...]  # from level 1 to 0, from 2 to 1, ...
    spacing: np.ndarray  # (N,) the unit of length of L
    context: np.ndarray  # (N, c) float32, additional inputs per point
    surroundings: WideNeighbors | None = None


def group(
    points: np.ndarray,  # (N, 3)
    architecture: AnyArchitecture,
    view: Viewpoint = Viewpoint(),  # noqa: B008
) -> Grouping | SampledCloud:
    """The arrangement of a cloud in the order of its points, with offsets and interpolations spelled out for torch."""
    check_places(points, Distinct(None, None), architecture)
    if isinstance(architecture, PointNet2):
        return sample(points, architecture)
    cloud = order_cloud(points, architecture, view, curvature=True)
    rows = cloud.order  # where the points of a level, in leaf order, stand in its arrays
    seen = np.concatenate([cloud.near[0], *of_leads(cloud.near, cloud.wide)], axis=1)
    neighbors, frames, radius, context = (
        _unsorted(values, rows) for values in (rows[seen], cloud.frames, cloud.radius / cloud.scale, cloud.context)
    )
    positions = np.ascontiguousarray(points)  # only their differences enter, all in float64
    itself = np.arange(len(points), dtype=np.int32)
    levels = [_level(positions, positions, itself, frames, neighbors, cloud.size, radius)]
    interpolations = []
    for number, k in enumerate(architecture.neighbors[1:], 1):
        fine, fine_frames, centers = positions, frames, rows[::CELL]
        positions, frames = fine[centers], fine_frames[centers]
        around = rows[cloud.near[number - 1][::CELL, :k]]
        k = around.shape[1]
        levels.append(_level(positions, fine, centers, frames, around, k, group_radii(positions, fine, around, k)))
        leads = _unsorted((np.arange(len(fine)) // CELL).astype(np.int32), rows)
        how = (fine, fine_frames, levels[-2].radius, positions, leads, cloud.near[number], architecture.interpolated)
        interpolations.append(_interpolation(*how))
        rows = np.arange(len(centers), dtype=np.int32)
    surroundings = _surroundings(points, cloud, levels[0]) if architecture.curvature_wide else None
    return Grouping(tuple(levels), tuple(interpolations), _unsorted(cloud.spacing, cloud.order), context, surroundings)


def _surroundings(points: np.ndarray, cloud: OrderedCloud, level: Level) -> WideNeighbors:
    rows = cloud.order
    seen = np.concatenate([cloud.near[0][:, : cloud.size], *of_leads(cloud.near, cloud.curved)], axis=1)
    neighbors = _unsorted(rows[seen], rows)
    offsets = _offsets(points, points, neighbors, level.frames, level.radius)
    leads = _unsorted((np.arange(len(points)) // CELL).astype(np.int32), rows)
    near = cloud.near[1][:, : cloud.curved[0]]
    return WideNeighbors(offsets, leads, np.concatenate([np.arange(len(near), dtype=np.int32)[:, None], near], axis=1))


def _unsorted(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """From leaf order to the order of the points."""
    result = np.empty_like(values)
    result[order] = values
    return result


def _level(positions, below, centers, frames, neighbors, k, radius) -> Level:
    return Level(centers, frames, neighbors, _offsets(positions, below, neighbors, frames, radius), radius, k)


def _interpolation(fine, frames, radius, coarse, leads, near, count: int) -> Interpolation:
    count = min(count, 1 + near.shape[1])
    neighbors, weights = np.empty((len(fine), count), np.int32), np.empty((len(fine), count), np.float32)
    run_chunks(over_range(_interpolate, fine, radius, coarse, leads, near, neighbors, weights), len(fine))
    return Interpolation(neighbors, weights, _offsets(fine, coarse, neighbors, frames, radius))


def _offsets(positions, below, neighbors, frames, radius) -> np.ndarray:  # (M, k, 3) float32
    """Return neighbors minus points, in the frames and radii of the points, clipped to the horizon."""
    offsets = np.empty((*neighbors.shape, 3), np.float32)
    run_chunks(over_range(_turn_offsets, positions, below, neighbors, frames, radius, offsets), len(positions))
    return offsets


@kernel
def _turn_offsets(positions, below, neighbors, frames, radius, begin, end, offsets):
    for i in range(begin, end):
        for j in range(neighbors.shape[1]):
            n = neighbors[i, j]
            x, y, z = below[n, 0] - positions[i, 0], below[n, 1] - positions[i, 1], below[n, 2] - positions[i, 2]
            x, y, z = x / radius[i], y / radius[i], z / radius[i]
            squared = x * x + y * y + z * z
            near = HORIZON / np.sqrt(squared) if squared > HORIZON * HORIZON else 1.0
            for a in range(3):
                offsets[i, j, a] = near * (frames[i, 0, a] * x + frames[i, 1, a] * y + frames[i, 2, a] * z)


@kernel
def _interpolate(fine, radius, coarse, leads, near, begin, end, neighbors, weights):
    shares = np.empty(neighbors.shape[1])
    for i in range(begin, end):
        interpolation_weights(fine, i, leads[i], coarse, near, radius[i], neighbors[i], shares)
        for j in range(len(shares)):
            weights[i, j] = shares[j]
