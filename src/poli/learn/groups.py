"""Groupings of several clouds as tensors, concatenated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import torch

from poli.estimation.grouping import Grouping


class Surroundings(NamedTuple):
    """`estimation.grouping.Surroundings` of several clouds."""

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
    motion: torch.Tensor | None = None  # (N, 4) `estimation.motion.motion_inputs` of each point's cloud; None: unknown
    surroundings: Surroundings | None = None  # for curvature, if the architecture has `curvature_wide`

    @staticmethod
    def of(groupings: Sequence[Grouping], motions: Sequence[np.ndarray] | None = None) -> GroupBatch:
        """Concatenate groupings of one architecture with groups of equal size (clouds with more points than a group).

        `motions` are `estimation.motion.motion_inputs`, one (4,) per cloud."""
        depth = len(groupings[0].levels)
        counts = [[len(g.levels[level].centers) for g in groupings] for level in range(depth)]
        starts = [np.concatenate([[0], np.cumsum(c)[:-1]]) for c in counts]

        def joined(arrays) -> torch.Tensor:
            return torch.from_numpy(np.concatenate(list(arrays)))

        def shifted(arrays, level: int) -> torch.Tensor:
            return joined(a.astype(np.int64) + s for a, s in zip(arrays, starts[level], strict=True))

        ups = range(depth - 1)
        seen = [g.surroundings for g in groupings if g.surroundings is not None]
        surroundings = Surroundings(
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
        moved: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Surroundings):
                moved[f.name] = Surroundings(*(t.to(device) for t in value))
            elif isinstance(value, tuple):
                moved[f.name] = tuple(t.to(device) for t in value)
            else:
                moved[f.name] = value.to(device) if isinstance(value, torch.Tensor) else value
        return GroupBatch(**moved)
