"""The reference network: from a grouped cloud (`network_input`) to one lower-triangular L per point.

Each level encodes groups with a shared MLP and pools them; coarse levels are decoded by distance-weighted interpolation with skip
connections. Offsets are in the frame of the point that uses them, so features are invariant to rotations of the cloud.

The head computes the ellipsoid in rounds. Each round weights the neighbors by attention, with several heads, and sums their
moments; six more outputs form a lower-triangular matrix B with a positive diagonal, and L is the Cholesky factor of the moments
plus B B'. The second round also uses each neighbor's distance from the first ellipsoid, in standard deviations. So neighbors that
are not on the surface that the others agree on get less weight, as in a robust estimator.

Directions are best trained on dense partners, whereas sizes must be those of partners as dense as the cloud. So a last map
stretches the axes of the ellipsoids without changing their directions (`sized`); it is trained separately, after all the rest.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from poli.estimation.architecture import DISTANCE_PRIOR, MOTION_INPUTS, QUADRIC_REACH, THINNEST, AnyArchitecture, Architecture
from poli.estimation.frames import spacing_per_radius
from poli.estimation.pointnet2 import PointNet2
from poli.train import tensors3
from poli.train.config import Stage
from poli.train.curvature import Quadric, chords, fit, negative_log_likelihood, residuals
from poli.train.grouping import GroupBatch
from poli.train.losses import LossConfig, LossTerms, pair_loss
from poli.train.object_pairs import PairBatch
from poli.train.pointnet2 import PointNet


class Network(nn.Module):
    """The reference network in torch."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        layers = {name.replace(".", "_"): nn.Linear(*shape) for name, shape in architecture.linear_shapes().items()}
        self.maps = nn.ModuleDict(layers)
        for layer in layers.values():
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")  # keeps activations at scale without normalization layers
            nn.init.zeros_(layer.bias)
        with torch.no_grad():  # attention starts nearly uniform, and ellipsoids nearly equal
            for r in range(architecture.rounds):
                layers[f"shape{r}_out"].weight.mul_(0.1)
                layers[f"attend{r}_out"].weight.mul_(0.1)
            layers["size_out"].weight.zero_()  # no stretch until trained
            if architecture.curvature:
                layers["bend_out"].weight.zero_()  # the default variances until trained

    def forward(self, batch: GroupBatch) -> torch.Tensor:  # (N, 3, 3)
        """Return L in the frame of each point (`batch.frames[0]`) and in units of the cloud, not stretched: C = (F L)(F L)'."""
        return self.ellipsoids(batch, self.features(batch))[0] * batch.spacing[:, None, None]

    def sized(self, batch: GroupBatch) -> tuple[torch.Tensor, torch.Tensor]:  # (N, 3, 3), (N, 3, 3)
        """Return L and frames F of the stretched ellipsoids, C = (F L)(F L)'.

        The frames are the axes, and L is diagonal. Gradients flow to the stretch alone. The thinnest axis stays the thinnest, so
        normals do not change."""
        with torch.no_grad():
            scalars = self.features(batch)
            L, hidden = self.ellipsoids(batch, scalars)
            if not torch.isfinite(L).all():  # there are no axes; the caller checks L
                return L, batch.frames[0]
            variances, axes = torch.linalg.eigh((L @ L.transpose(1, 2)).double())  # ascending
        scales = self.scales(batch, scalars, hidden, variances)
        return torch.diag_embed(scales) * batch.spacing[:, None, None], batch.frames[0] @ axes.to(batch.frames[0])

    def curved(self, batch: GroupBatch) -> tuple[Quadric, torch.Tensor, torch.Tensor]:  # (N, 3, 3), (N,)
        """Return quadrics, the axes that they are relative to (columns, normal first, in the common frame), and their unit.

        Gradients flow to the maps of the curvature alone."""
        with torch.no_grad():
            scalars = self.features(batch)
            L, _ = self.ellipsoids(batch, scalars)
            variances, axes = torch.linalg.eigh((L @ L.transpose(1, 2)).double())  # ascending
            axes = axes.to(L)
            known = [scalars, batch.context, variances.clamp_min(self.architecture.floor**4).log().to(L)]
            seen = batch.surroundings
            local = (batch.offsets[0] if seen is None else seen.offsets) @ axes
            if seen is not None:
                local = chords(local)
                # Pooled over leads: the residuals of one point do not tell noise from roughness, those of many do.
                known.append(residuals(local[batch.centers[1]], batch.size)[seen.around].mean(dim=1)[seen.leads])
        predicted = self._map("bend_out", functional.relu(self._map("bend_hidden", torch.cat(known, dim=1))))
        return fit(predicted, local), batch.frames[0] @ axes, batch.spacing / spacing_per_radius(batch.size)

    def features(self, batch: GroupBatch) -> torch.Tensor:  # (N, scalars)
        """Return the features of every point, after encoder and decoder."""
        known: list[torch.Tensor] = []  # by level: (M, scalars)
        levels = self.architecture.levels
        for level in range(levels):
            known.append(self._encode(batch, level, known[-1] if level else None))
        coarse = known[-1]
        for level in reversed(range(levels - 1)):
            coarse = self._interpolate(batch, level, coarse, known[level])
        return coarse

    def _encode(self, batch: GroupBatch, level: int, below: torch.Tensor | None) -> torch.Tensor:  # (M, scalars)
        """Encode a level's groups by the shared MLP, pool them, and add the features of their centers."""
        name, neighbors, place = f"down{level}", batch.neighbors[level], batch.offsets[level]
        if below is None:
            hidden = self._map(f"{name}_place", _squares(place[:, : batch.size]))
            if self.architecture.context:
                hidden = hidden + self._map(f"{name}_context", batch.context)[:, None]
            own = batch.context
        else:
            # Features are mapped before gathering, which is k times cheaper.
            hidden = self._map(f"{name}_place", place) + _gather(self._map(f"{name}_feature", below), neighbors)
            own = _gather(below, batch.centers[level])
        hidden = functional.relu(self._map(f"{name}_edge", functional.relu(hidden)))
        return functional.relu(self._map(f"{name}_node", torch.cat([hidden.max(dim=1).values, hidden.mean(dim=1), own], dim=1)))

    def _interpolate(self, batch: GroupBatch, level: int, coarse: torch.Tensor, own: torch.Tensor) -> torch.Tensor:  # (M, scalars)
        """Interpolate the coarser level's features and combine them with those of this level."""
        name, place, neighbors = f"up{level}", batch.up_offsets[level], batch.up_neighbors[level]
        hidden = functional.relu(self._map(f"{name}_place", place) + _gather(self._map(f"{name}_feature", coarse), neighbors))
        read = (hidden * batch.up_weights[level][:, :, None]).sum(dim=1)
        return functional.relu(self._map(f"{name}_node", torch.cat([read, own], dim=1)))

    def ellipsoids(self, batch: GroupBatch, scalars: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # (N, 3, 3), (N, head)
        """Return L in the point's frame and in local spacings, and the hidden features that sizes are predicted from."""
        a = self.architecture
        x, near = batch.offsets[0], batch.neighbors[0]
        squares = _squares(_drawn_in(x) if a.wide else x)
        # With wide neighbors, attention starts with weights that fall with the distance.
        prior = -DISTANCE_PRIOR * (x * x).sum(2, keepdim=True).log1p() if a.wide else 0.0
        hidden = functional.relu(self._map("head_hidden", scalars))
        known = self._map("attend0_place", squares) + self._map("attend0_reader", scalars)[:, None]
        known = edge = known + _gather(self._map("attend0_neighbor", scalars), near)
        L = x.new_zeros(x.shape[0], 3, 3)  # (len(x) would fix the number of points in an exported graph)
        for r in range(a.rounds):
            if r > 0:
                out_of_it = ((x @ tensors3.inverse3(L).transpose(1, 2)) ** 2).sum(2, keepdim=True).log1p()
                edge = known + self._map(f"attend{r}_place", out_of_it) + self._map(f"attend{r}_reader", _logarithm(L))[:, None]
            attention = (self._map(f"attend{r}_out", functional.relu(edge)) + prior).softmax(dim=1)  # (N, k, heads)
            out = self._map(f"shape{r}_out", hidden)
            share = functional.softplus(out[:, 6:] - 4.0)  # (N, heads), of each head in the sum
            means = attention.transpose(1, 2) @ x  # (N, heads, 3)
            weights = (attention * share[:, None]).sum(2, keepdim=True)
            # As in `estimation.frames`, half of the mean is subtracted: the mean of (x - m / 2)(x - m / 2)'.
            moments = (weights * x).transpose(1, 2) @ x - 0.75 * (share[:, :, None] * means).transpose(1, 2) @ means
            B = tensors3.lower(out[:, :6], a.floor)
            L = tensors3.cholesky(moments + B @ B.transpose(1, 2), a.floor)
        return L, hidden

    def scales(
        self, batch: GroupBatch, scalars: torch.Tensor, hidden: torch.Tensor, variances: torch.Tensor
    ) -> torch.Tensor:  # (N, 3)
        """Return the stretched standard deviations along the axes, in local spacings, from the ascending variances before it."""
        variances = variances.clamp_min(self.architecture.floor**4).to(hidden)
        if self.architecture.size:
            known = [scalars, batch.context, variances.log()]
            if self.architecture.motion:
                known.append(scalars.new_zeros(scalars.shape[0], MOTION_INPUTS) if batch.motion is None else batch.motion)
            hidden = functional.relu(self._map("size_hidden", torch.cat(known, dim=1)))
        stretch = self._map("size_out", hidden)
        stretched = variances * stretch.exp()
        thinnest = torch.minimum(stretched[:, :1], THINNEST * stretched[:, 1:].amin(dim=1, keepdim=True))
        return torch.cat([thinnest, stretched[:, 1:]], dim=1).sqrt()

    def _map(self, name: str, values: torch.Tensor) -> torch.Tensor:
        return self.maps[name](values)


def _gather(table: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:  # (M, ...), (N, k) -> (N, k, ...)
    """Return table[rows] with a deterministic gradient; with several threads, that of indexing is not."""
    return functional.embedding(rows, table.flatten(1)).unflatten(-1, table.shape[1:])


def _squares(x: torch.Tensor) -> torch.Tensor:  # (N, k, 3) -> (N, k, 9)
    """Return offsets, their squares and their products. Pooled, these are the moments of the group."""
    return torch.cat([x, x * x, x * x.roll(1, 2)], dim=2)


def _drawn_in(x: torch.Tensor) -> torch.Tensor:  # (N, k, 3) -> (N, k, 3)
    """Compress lengths by asinh, keeping directions: points of coarse levels are many radii away."""
    length = (x * x).sum(2, keepdim=True).sqrt() + 1e-6
    return x * (length.asinh() / length)


def _logarithm(L: torch.Tensor) -> torch.Tensor:  # (N, 3, 3) -> (N, 6)
    """Return L as six numbers, with the logarithm of its diagonal."""
    x, y, z = (L[:, i, i].log() for i in range(3))
    return torch.stack([x, L[:, 1, 0], y, L[:, 2, 0], L[:, 2, 1], z], dim=1)


def new_network(architecture: AnyArchitecture) -> Network | PointNet:
    """Return a network with random weights."""
    return PointNet(architecture) if isinstance(architecture, PointNet2) else Network(architecture)


class TrainingModel(torch.nn.Module):
    """The network and its loss in one forward pass, and the time that both take."""

    def __init__(self, architecture: AnyArchitecture, loss: LossConfig) -> None:
        super().__init__()
        self.loss = loss
        self.network: Any = new_network(architecture)  # Network or PointNet
        self.seconds = (0.0, 0.0)  # of the last pass: network, and layer with the rest of the loss

    def forward(self, batch: PairBatch, stage: Stage = "shapes") -> LossTerms:
        """Return the loss of a batch. Its gradient is that of what the stage trains."""
        device = next(self.parameters()).device
        start = time.perf_counter()
        groups = batch.groups.to(device)
        if stage == "curvature":
            assert isinstance(groups, GroupBatch), "the configuration refuses curvature of others"
            return self._bent(batch, groups, start)
        settling = stage == "sizes"
        L, frames = self.network.sized(groups) if settling else (self.network(groups), groups.frames[0])
        middle = time.perf_counter()
        matches = batch.matches.to(device)
        points = matches.weights.shape[1]
        if batch.shrink is not None:
            clouds = torch.from_numpy(batch.shrink[:: batch.partners].astype("float32")).to(device)
            L = L / clouds.repeat_interleave(points)[:, None, None]
        # Visibility and `tail` are for training directions, which are fixed while sizes are trained.
        loss = replace(self.loss, visibility=0.0, tail=0.0) if settling else self.loss
        terms = pair_loss(loss, matches, *(repeated(t, batch, points) for t in (L, frames)))
        self.seconds = (middle - start, time.perf_counter() - middle)
        return terms

    def _bent(self, batch: PairBatch, groups: GroupBatch, start: float) -> LossTerms:
        """Return the loss of the curvatures, per point of the partner."""
        assert batch.around is not None, "batches for curvature have probes"
        quadric, axes, radius = self.network.curved(groups)
        middle = time.perf_counter()
        local = batch.around.to(axes) @ axes / radius[:, None, None]
        if groups.surroundings is not None:
            local = chords(local)
        seen = (local.square().sum(2) < QUADRIC_REACH**2).to(local)
        total = negative_log_likelihood(quadric, local, seen)
        self.seconds = (middle - start, time.perf_counter() - middle)
        return LossTerms(total, total.item(), 0.0, math.nan, 1.0)


def repeated(values: torch.Tensor, batch: PairBatch, points: int) -> torch.Tensor:  # (clouds * N, 3, 3) -> (B, N, 3, 3)
    """Repeat each cloud's ellipsoids for each of its partners."""
    clouds = values.reshape(-1, 1, points, 3, 3)
    return clouds.expand(-1, batch.partners, -1, -1, -1).reshape(-1, points, 3, 3)
