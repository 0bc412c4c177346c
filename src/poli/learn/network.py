"""The reference network: a cloud, grouped (`estimation.grouping`), to one lower-triangular L a point.

Each level encodes groups with a shared MLP and a maximum; coarse levels are read back by distance-weighted interpolation with
skip connections. A point's features are scalars, which do not turn with the cloud, and vectors, which do: vectors are kept in the
common frame and every reader turns them into its own. So a group hears in which direction its neighbours think the surface runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poli.errors import MissingExtra
from poli.estimation.architecture import Architecture
from poli.estimation.grouping import Grouping

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    raise MissingExtra("poli.learn", "train") from None


@dataclass(frozen=True)
class GroupBatch:
    """Several groupings, one behind the other, as tensors; indices count through the batch."""

    frames: tuple[torch.Tensor, ...]  # by level: (M, 3, 3)
    centres: tuple[torch.Tensor, ...]  # (M,)
    neighbours: tuple[torch.Tensor, ...]  # (M, k)
    offsets: tuple[torch.Tensor, ...]  # (M, k, 3)
    log_radius: torch.Tensor  # (N,) of level 0
    up_neighbours: tuple[torch.Tensor, ...]  # from level 1 to 0, from 2 to 1, ...: (M, 3)
    up_weights: tuple[torch.Tensor, ...]  # (M, 3)
    up_offsets: tuple[torch.Tensor, ...]  # (M, 3, 3)
    spacing: torch.Tensor  # (N,)

    @staticmethod
    def of(groupings: Sequence[Grouping]) -> GroupBatch:
        """Groupings of one architecture, with groups of equal size (clouds of more points than a group has)."""
        depth = len(groupings[0].levels)
        counts = [[len(g.levels[level].centres) for g in groupings] for level in range(depth)]
        starts = [np.concatenate([[0], np.cumsum(c)[:-1]]) for c in counts]

        def joined(arrays) -> torch.Tensor:
            return torch.from_numpy(np.concatenate(list(arrays)))

        def shifted(arrays, level: int) -> torch.Tensor:
            return joined(a.astype(np.int64) + s for a, s in zip(arrays, starts[level], strict=True))

        ups = range(depth - 1)
        return GroupBatch(
            tuple(joined(g.levels[i].frames for g in groupings) for i in range(depth)),
            tuple(shifted((g.levels[i].centres for g in groupings), max(i - 1, 0)) for i in range(depth)),
            tuple(shifted((g.levels[i].neighbours for g in groupings), max(i - 1, 0)) for i in range(depth)),
            tuple(joined(g.levels[i].offsets for g in groupings) for i in range(depth)),
            joined(np.log(g.levels[0].radius).astype(np.float32) for g in groupings),
            tuple(shifted((g.interpolations[i].neighbours for g in groupings), i + 1) for i in ups),
            tuple(joined(g.interpolations[i].weights for g in groupings) for i in ups),
            tuple(joined(g.interpolations[i].offsets for g in groupings) for i in ups),
            joined(g.spacing.astype(np.float32) for g in groupings),
        )


class Network(nn.Module):
    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        self.maps = nn.ModuleDict(
            {name.replace(".", "_"): nn.Linear(*shape) for name, shape in architecture.linear_shapes().items()}
        )
        for layer in self.maps.values():
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")  # keeps the size of what passes through without any norm
            nn.init.zeros_(layer.bias)
        with torch.no_grad():
            self.maps["head_out"].weight.mul_(0.1)  # starts near a ball of half a spacing

    def forward(self, batch: GroupBatch) -> torch.Tensor:  # (N, 3, 3)
        """L in the frame of each point (`batch.frames[0]`) and in units of the cloud: C = (F L)(F L)'."""
        a = self.architecture
        scalars: list[torch.Tensor] = []  # by level: (M, scalars)
        vectors: list[torch.Tensor] = []  # (M, vectors, 3), in the common frame
        for level in range(a.levels):
            name, frames, neighbours, place = f"down{level}", batch.frames[level], batch.neighbours[level], batch.offsets[level]
            own: list[torch.Tensor] = []
            if level == 0:
                place = torch.cat([place, place * place, place * place.roll(1, 2)], dim=2)
                if a.log_scale:
                    place = torch.cat([place, batch.log_radius[:, None, None].expand(-1, place.shape[1], 1)], dim=2)
                hidden = self._map(f"{name}_place", place)
            else:
                turned = _turn(vectors[-1][neighbours], frames)
                hidden = self._map(f"{name}_place", torch.cat([place, turned], dim=2))
                hidden = hidden + self._map(f"{name}_feature", scalars[-1])[neighbours]
                centres = batch.centres[level]
                own = [scalars[-1][centres], _turn(vectors[-1][centres][:, None], frames)[:, 0]]
            hidden = self._map(f"{name}_edge", functional.relu(hidden))
            hidden = functional.relu(hidden)
            pooled = torch.cat([hidden.amax(dim=1), hidden.mean(dim=1)], dim=1)
            self._store(scalars, vectors, self._map(f"{name}_node", torch.cat([pooled, *own], dim=1)), frames, a.scalars[level])
        coarse, coarse_vectors = scalars[-1], vectors[-1]
        for level in reversed(range(a.levels - 1)):
            name, frames, neighbours = f"up{level}", batch.frames[level], batch.up_neighbours[level]
            turned = _turn(coarse_vectors[neighbours], frames)
            hidden = self._map(f"{name}_place", torch.cat([batch.up_offsets[level], turned], dim=2))
            hidden = functional.relu(hidden + self._map(f"{name}_feature", coarse)[neighbours])
            read = (hidden * batch.up_weights[level][:, :, None]).sum(dim=1)
            own_vectors = _turn(vectors[level][:, None], frames)[:, 0]
            node = self._map(f"{name}_node", torch.cat([read, scalars[level], own_vectors], dim=1))
            fresh: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
            self._store(*fresh, node, frames, a.scalars[level])
            coarse, coarse_vectors = fresh[0][0], fresh[1][0]
        six = self._map("head_out", functional.relu(self._map("head_hidden", coarse)))
        return _lower(six, a.floor) * batch.spacing[:, None, None]

    def _map(self, name: str, values: torch.Tensor) -> torch.Tensor:
        return self.maps[name](values)

    @staticmethod
    def _store(scalars: list, vectors: list, node: torch.Tensor, frames: torch.Tensor, width: int) -> None:
        """A point's new features; vectors come out in its own frame and are kept in the common one."""
        scalars.append(functional.relu(node[:, :width]))
        vectors.append(node[:, width:].reshape(len(node), -1, 3) @ frames.transpose(1, 2))


def _turn(vectors: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:  # (M, k, V, 3), (M, 3, 3) -> (M, k, 3 V)
    """Vectors of the common frame as the readers see them."""
    m, k, v, _ = vectors.shape
    return (vectors.reshape(m, k * v, 3) @ frames).reshape(m, k, 3 * v)


def _lower(six: torch.Tensor, floor: float) -> torch.Tensor:  # (N, 6) -> (N, 3, 3)
    """Six numbers to a lower-triangular matrix with a positive diagonal: (xx, yx, yy, zx, zy, zz)."""
    diagonal = functional.softplus(six[:, [0, 2, 5]]) * 0.5 + floor
    zero = torch.zeros_like(six[:, 0])
    rows = [diagonal[:, 0], zero, zero, six[:, 1], diagonal[:, 1], zero, six[:, 3], six[:, 4], diagonal[:, 2]]
    return torch.stack(rows, dim=1).reshape(-1, 3, 3)
