"""The reference network: a cloud, grouped (`estimation.grouping`), to one lower-triangular L a point.

Each level encodes groups with a shared MLP and a maximum; coarse levels are read back by distance-weighted interpolation with
skip connections. A point's features are scalars, which do not turn with the cloud, and vectors, which do: vectors are kept in the
common frame and every reader turns them into its own. So a group hears in which direction its neighbours think the surface runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

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

    def to(self, device: torch.device) -> GroupBatch:
        moved: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            moved[f.name] = value.to(device) if isinstance(value, torch.Tensor) else tuple(t.to(device) for t in value)
        return GroupBatch(**moved)


class Network(nn.Module):
    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        layers = {name.replace(".", "_"): nn.Linear(*shape) for name, shape in architecture.linear_shapes().items()}
        self.maps = nn.ModuleDict(layers)
        for layer in layers.values():
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")  # keeps the size of what passes through without any norm
            nn.init.zeros_(layer.bias)
        with torch.no_grad():
            for r in range(architecture.rounds):
                layers[f"shape{r}_out"].weight.mul_(0.1)
                layers[f"attend{r}_out"].weight.mul_(0.1)

    def forward(self, batch: GroupBatch) -> torch.Tensor:  # (N, 3, 3)
        """L in the frame of each point (`batch.frames[0]`) and in units of the cloud: C = (F L)(F L)'."""
        a = self.architecture
        scalars: list[torch.Tensor] = []  # by level: (M, scalars)
        vectors: list[torch.Tensor] = []  # (M, vectors, 3), in the common frame
        for level in range(a.levels):
            name, frames, neighbours, place = f"down{level}", batch.frames[level], batch.neighbours[level], batch.offsets[level]
            own: list[torch.Tensor] = []
            if level == 0:
                place = place[:, : a.neighbours[0]]
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
            hidden = functional.relu(hidden)
            hidden = functional.relu(self._map(f"{name}_edge", hidden))
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
        return self._ellipsoids(batch, coarse) * batch.spacing[:, None, None]

    def _ellipsoids(self, batch: GroupBatch, scalars: torch.Tensor) -> torch.Tensor:  # (N, 3, 3)
        """L in the own frame and in local spacings: moments of the neighbours, weighed by attention, and six numbers more."""
        a = self.architecture
        x, near, frames = batch.offsets[0], batch.neighbours[0], batch.frames[0]
        squares = torch.cat([x, x * x, x * x.roll(1, 2)], dim=2)
        hidden = functional.relu(self._map("head_hidden", scalars))
        reader = scalars
        place = squares
        for r in range(a.rounds):
            out = self._map(f"shape{r}_out", hidden)
            edge = self._map(f"attend{r}_place", place) + self._map(f"attend{r}_reader", reader)[:, None]
            edge = edge + self._map(f"attend{r}_neighbour", scalars)[near]
            attention = self._map(f"attend{r}_out", functional.relu(edge)).softmax(dim=1)  # (N, k, heads)
            means = attention.transpose(1, 2) @ x  # (N, heads, 3)
            share = functional.softplus(out[:, 6:] - 4.0)  # (N, heads)
            second = (attention * share[:, None]).sum(2, keepdim=True) * x
            C = second.transpose(1, 2) @ x - 0.75 * (share[:, :, None] * means).transpose(1, 2) @ means
            L = _lower(out[:, :6], a.floor)
            L = _cholesky(C + L @ L.transpose(1, 2))
            if r + 1 < a.rounds:
                A = _inverse_lower(L)
                mine = ((x @ A.transpose(1, 2)) ** 2).sum(2)
                G = A @ frames.transpose(1, 2)  # from the common frame
                common = x @ frames.transpose(1, 2)
                theirs = ((G[near] @ common[..., None])[..., 0] ** 2).sum(2)
                place = torch.cat([squares, torch.stack([mine, theirs], dim=2).log1p()], dim=2)
                six = torch.stack([L[:, 0, 0].log(), L[:, 1, 0], L[:, 1, 1].log(), L[:, 2, 0], L[:, 2, 1], L[:, 2, 2].log()], dim=1)
                reader = torch.cat([scalars, six], dim=1)
        return L

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
    diagonal = functional.softplus(six[:, [0, 2, 5]] - 1.5) * 0.5 + floor
    zero = torch.zeros_like(six[:, 0])
    rows = [diagonal[:, 0], zero, zero, six[:, 1], diagonal[:, 1], zero, six[:, 3], six[:, 4], diagonal[:, 2]]
    return torch.stack(rows, dim=1).reshape(-1, 3, 3)


def _cholesky(C: torch.Tensor) -> torch.Tensor:  # (N, 3, 3) -> (N, 3, 3)
    a = C[:, 0, 0].sqrt()
    b, c = C[:, 1, 0] / a, C[:, 2, 0] / a
    d = (C[:, 1, 1] - b * b).sqrt()
    e = (C[:, 2, 1] - b * c) / d
    f = (C[:, 2, 2] - c * c - e * e).sqrt()
    o = torch.zeros_like(a)
    return torch.stack([a, o, o, b, d, o, c, e, f], dim=1).reshape(-1, 3, 3)


def _inverse_lower(L: torch.Tensor) -> torch.Tensor:
    a, d, f = (1.0 / L[:, i, i] for i in range(3))
    b, c, e = L[:, 1, 0], L[:, 2, 0], L[:, 2, 1]
    o = torch.zeros_like(a)
    return torch.stack([a, o, o, -b * a * d, d, o, (b * e * d - c) * a * f, -e * d * f, f], dim=1).reshape(-1, 3, 3)
