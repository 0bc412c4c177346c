"""Groupings of several clouds as tensors, concatenated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import torch

from poli.estimation.architecture import CANDIDATES, HORIZON, Architecture
from poli.estimation.frames import CONTEXT_LIMIT, spacing_per_radius
from poli.train.network_input import Grouping
from poli.train.pointnet2 import SampledBatch, SampledCloud
from poli.train.tensors3 import eigh3


class WideNeighbors(NamedTuple):
    """`network_input.WideNeighbors` of several clouds."""

    offsets: torch.Tensor  # (N, k, 3)
    leads: torch.Tensor  # (N,)
    around: torch.Tensor  # (M, 1 + w)


@dataclass(frozen=True)
class GroupBatch:
    """Several groupings, concatenated, as tensors; indices are into the batch."""

    frames: tuple[torch.Tensor, ...]  # by level: (M, 3, 3)
    centers: tuple[torch.Tensor, ...]  # (M,)
    neighbors: tuple[torch.Tensor, ...]  # (M, k)
    offsets: tuple[torch.Tensor, ...]  # (M, k, 3)
    context: torch.Tensor  # (N, c) of level 0
    up_neighbors: tuple[torch.Tensor, ...]  # from level 1 to 0, from 2 to 1, ...: (M, 3)
    up_weights: tuple[torch.Tensor, ...]  # (M, 3)
    up_offsets: tuple[torch.Tensor, ...]  # (M, 3, 3)
    spacing: torch.Tensor  # (N,)
    size: int  # of the groups of level 0; the head uses more neighbors
    motion: torch.Tensor | None = None  # (N, 2) `estimation.architecture.motion_inputs` of each point's cloud; None: unknown
    surroundings: WideNeighbors | None = None  # for curvature, if the architecture has `curvature_wide`

    @staticmethod
    def of(groupings: Sequence[Grouping | SampledCloud], motions: Sequence[np.ndarray] | None = None) -> GroupBatch | SampledBatch:
        """Concatenate groupings of one architecture with groups of equal size (clouds with more points than a group).

        `motions` are `estimation.architecture.motion_inputs`, one (2,) per cloud; the paper's network has no use for them."""
        clouds = [one for one in groupings if isinstance(one, SampledCloud)]
        if clouds:
            return SampledBatch.of(clouds)
        return GroupBatch._of([one for one in groupings if isinstance(one, Grouping)], motions)

    @staticmethod
    def _of(groupings: Sequence[Grouping], motions: Sequence[np.ndarray] | None) -> GroupBatch:
        depth = len(groupings[0].levels)
        counts = [[len(g.levels[level].centers) for g in groupings] for level in range(depth)]
        starts = [np.concatenate([[0], np.cumsum(c)[:-1]]) for c in counts]

        def joined(arrays) -> torch.Tensor:
            return torch.from_numpy(np.concatenate(list(arrays)))

        def shifted(arrays, level: int) -> torch.Tensor:
            return joined(a.astype(np.int64) + s for a, s in zip(arrays, starts[level], strict=True))

        ups = range(depth - 1)
        seen = [g.surroundings for g in groupings if g.surroundings is not None]
        surroundings = WideNeighbors(
            joined(s.offsets for s in seen), shifted((s.leads for s in seen), 1), shifted((s.around for s in seen), 1)
        ) if seen else None  # fmt: skip
        return GroupBatch(
            tuple(joined(g.levels[i].frames for g in groupings) for i in range(depth)),
            tuple(shifted((g.levels[i].centers for g in groupings), max(i - 1, 0)) for i in range(depth)),
            tuple(shifted((g.levels[i].neighbors for g in groupings), max(i - 1, 0)) for i in range(depth)),
            tuple(joined(g.levels[i].offsets for g in groupings) for i in range(depth)),
            joined(g.context for g in groupings),
            tuple(shifted((g.interpolations[i].neighbors for g in groupings), i + 1) for i in ups),
            tuple(joined(g.interpolations[i].weights for g in groupings) for i in ups),
            tuple(joined(g.interpolations[i].offsets for g in groupings) for i in ups),
            joined(g.spacing.astype(np.float32) for g in groupings),
            groupings[0].levels[0].size,
            None if motions is None else torch.from_numpy(np.repeat(np.stack(motions).astype(np.float32), counts[0], axis=0)),
            surroundings,
        )

    def to(self, device: torch.device) -> GroupBatch:
        """Return the batch on a device."""
        moved: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, WideNeighbors):
                moved[f.name] = WideNeighbors(*(t.to(device) for t in value))
            elif isinstance(value, tuple):
                moved[f.name] = tuple(t.to(device) for t in value)
            else:
                moved[f.name] = value.to(device) if isinstance(value, torch.Tensor) else value
        return GroupBatch(**moved)


# --- `network_input` in torch operations that can be exported as a graph; thinned levels and neighbors are inputs.
#
# Offsets are float32, like the points; frames, whose axes are sensitive to rounding, are computed in float64.


_SMALLEST_RADIUS = 1e-15  # only groups of duplicates have less; squares of quotients by it stay finite in float32


@dataclass(frozen=True)
class Hierarchy:
    """The levels of a cloud: the points that each keeps of the level below, and the neighbors."""

    near: tuple[torch.Tensor, ...]  # by level: (M, k) int64, the nearest others within the level, nearest first
    centers: tuple[torch.Tensor, ...]  # from level 1 on: (M,) int64, into the level below
    leads: tuple[torch.Tensor, ...]  # from level 1 on: int64, for every point of the level below, its cell's lead in this level


def group_tensors(
    points: torch.Tensor,  # (N, 3) float32, relative to the sensor if the architecture uses it
    up: torch.Tensor | None,  # (3,) unit
    hierarchy: Hierarchy,
    architecture: Architecture,
) -> GroupBatch:
    """Compute the network's input from points and their hierarchy."""
    near, centers = hierarchy.near, hierarchy.centers
    levels, sizes = range(architecture.levels), architecture.neighbors
    itself = torch.arange(points.shape[0], device=points.device)
    origins, led = [itself], itself  # the points of the cloud that a level keeps; the lead in the level of each point
    wide = []  # neighbors of the lead, shared by all points of a cell: (N, count) by level
    for level in levels[1:]:
        origins.append(origins[-1][centers[level - 1]])
        led = hierarchy.leads[level - 1][led]
        wide += [origins[level][near[level][:, :count]][led] for count in architecture.wide[level - 1 : level]]
    positions = [points[rows] for rows in origins]
    neighbors = [torch.cat([near[0], *wide], dim=1)]
    neighbors += [near[level - 1][:, : sizes[level]][centers[level - 1]] for level in levels[1:]]

    metric = [positions[max(level - 1, 0)][neighbors[level]] - positions[level][:, None] for level in levels]  # (M, k, 3) meters
    radii = [x[:, :size].square().sum(2).mean(1).sqrt().clamp_min(_SMALLEST_RADIUS) for x, size in zip(metric, sizes, strict=True)]
    if architecture.frames == "sensor" and up is not None:
        frame = _sensor_frames(points.double(), up.double()).float()
    else:
        frame = _principal_frames(torch.cat([metric[0][:, : sizes[0]], metric[0][:, near[0].shape[1] :]], dim=1).double()).float()
    frames = [frame[rows] for rows in origins]
    read = [_interpolation(hierarchy, positions, radii, level, architecture.interpolated) for level in levels[:-1]]
    return GroupBatch(
        frames=tuple(frames),
        centers=(itself, *centers),
        neighbors=tuple(neighbors),
        offsets=tuple(_seen(x, f, r) for x, f, r in zip(metric, frames, radii, strict=True)),
        context=_context(radii[0], frame, points, up, architecture),
        up_neighbors=tuple(chosen for chosen, _, _ in read),
        up_weights=tuple(weights for _, weights, _ in read),
        up_offsets=tuple(_seen(x, f, r) for (_, _, x), f, r in zip(read, frames[:-1], radii[:-1], strict=True)),
        spacing=radii[0] * spacing_per_radius(sizes[0]),
        size=sizes[0],
    )


def _seen(x: torch.Tensor, frames: torch.Tensor, radii: torch.Tensor) -> torch.Tensor:  # (M, k, 3), (M, 3, 3), (M,) -> (M, k, 3)
    """Return offsets in the frames and radii of the points, clipped to the horizon."""
    seen = x @ frames / radii[:, None, None]
    return seen * (HORIZON / seen.square().sum(2, keepdim=True).sqrt().clamp_min(1e-30)).clamp_max(1.0)


def _sensor_frames(rays: torch.Tensor, up: torch.Tensor) -> torch.Tensor:  # (N, 3), (3,) -> (N, 3, 3)
    """Return frames with axes horizontally away from the sensor, across, and up.

    Straight above or below the sensor, the first is any horizontal direction."""
    flattest = torch.arange(3, device=up.device) == up.abs().argmin()  # the axis, as a vector
    spare = torch.linalg.cross(up, flattest.to(up))
    upright = up.expand_as(rays)
    across = torch.linalg.cross(upright, rays)
    length = across.square().sum(dim=1, keepdim=True).sqrt()
    across = torch.where(length > 1e-6, across / length.clamp_min(1e-6), spare / spare.square().sum().sqrt())
    return torch.stack([torch.linalg.cross(across, upright), across, upright], dim=2)


def _principal_frames(offsets: torch.Tensor) -> torch.Tensor:  # (N, k, 3) -> (N, 3, 3)
    """Return the principal axes of these neighbors, thinnest last; weights and moments as in `estimation.frames`."""
    squared = offsets.square().sum(dim=2)  # (N, k)
    spread = squared.mean(dim=1, keepdim=True)
    weights = (squared / torch.where(spread > 0.0, spread, torch.ones_like(spread)) + 1e-3) ** -1.5
    weights = (weights / weights.sum(dim=1, keepdim=True))[:, :, None]
    means = (weights * offsets).sum(dim=1)  # (N, 3)
    _, axes = eigh3((weights * offsets).transpose(1, 2) @ offsets - 0.75 * means[:, :, None] * means[:, None])
    x, z = (axis * torch.where((means * axis).sum(1, keepdim=True) < 0.0, -1.0, 1.0) for axis in (axes[:, :, 2], axes[:, :, 0]))
    return torch.stack([x, torch.linalg.cross(z, x), z], dim=2)


def _context(  # (N, c)
    radii: torch.Tensor, frames: torch.Tensor, rays: torch.Tensor, up: torch.Tensor | None, architecture: Architecture
) -> torch.Tensor:
    """Return the additional inputs per point, as in `estimation.frames`."""
    parts = [radii.log()[:, None].clamp(-CONTEXT_LIMIT, CONTEXT_LIMIT)] if architecture.log_scale else []
    if up is not None:
        length = rays.square().sum(dim=1, keepdim=True).sqrt().clamp_min(1e-3)
        parts += [-(rays[:, None] @ frames)[:, 0] / length, up @ frames, (length.log() - 2.5).clamp_max(CONTEXT_LIMIT)]
        parts.append((rays @ up)[:, None].asinh().clamp(-CONTEXT_LIMIT, CONTEXT_LIMIT))
    return torch.cat(parts, dim=1) if parts else radii.new_zeros(radii.shape[0], 0)


def _interpolation(
    hierarchy: Hierarchy, positions: list[torch.Tensor], radii: list[torch.Tensor], level: int, count: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # (M, count), (M, count), (M, count, 3) meters
    """Return the nearest among a point's lead and the lead's neighbors, their inverse-distance weights, and their offsets."""
    lead, near = hierarchy.leads[level], hierarchy.near[level + 1][:, :CANDIDATES]
    candidates = torch.cat([lead[:, None], near[lead]], dim=1)
    x = positions[level + 1][candidates] - positions[level][:, None]
    squared, which = x.square().sum(dim=2).topk(min(count, candidates.shape[1]), dim=1, largest=False)
    weights = 1.0 / (squared.sqrt() + 0.1 * radii[level][:, None])
    return candidates.gather(1, which), weights / weights.sum(1, keepdim=True), x.gather(1, which[:, :, None].expand(-1, -1, 3))
