"""The trained module: the network and the noise of the measured poses, from a batch of pairs to its loss."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import torch

from poli.estimation.architecture import QUADRIC_REACH, Architecture
from poli.learn.curvature import chords, negative_log_likelihood
from poli.learn.groups import GroupBatch
from poli.learn.losses import LossConfig, LossTerms, PoseNoise, pair_loss
from poli.learn.network import Network
from poli.learn.pairs import PairBatch, Phase


class TrainingModel(torch.nn.Module):
    """One forward pass for the whole loss, so that DistributedDataParallel can wrap it."""

    def __init__(self, architecture: Architecture, loss: LossConfig) -> None:
        super().__init__()
        self.loss = loss
        self.network = Network(architecture)
        self.noise = PoseNoise(loss)
        self.seconds = (0.0, 0.0)  # of the last pass: network, and layer with the rest of the loss

    def forward(self, batch: PairBatch, phase: Phase = "shapes") -> LossTerms:
        """Return the loss of a batch. Its gradient is that of what the phase trains."""
        device = next(self.parameters()).device
        start = time.perf_counter()
        groups = batch.groups.to(device)
        if phase == "curvature":
            return self._bent(batch, groups, start)
        settling = phase == "sizes"
        L, frames = self.network.sized(groups) if settling else (self.network(groups), groups.frames[0])
        middle = time.perf_counter()
        matches = batch.matches.to(device)
        points = matches.weights.shape[1]
        if batch.shrink is not None:
            clouds = torch.from_numpy(batch.shrink[:: batch.partners].astype("float32")).to(device)
            L = L / clouds.repeat_interleave(points)[:, None, None]
        # Visibility and `tail` are for training directions, which are fixed while sizes are trained.
        loss = replace(self.loss, visibility=0.0, tail=0.0) if settling else self.loss
        terms = pair_loss(loss, self.noise, matches, *(repeated(t, batch, points) for t in (L, frames)))
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
        total = negative_log_likelihood(quadric, local, seen) + 0.0 * self.noise.log_sigma.sum()
        self.seconds = (middle - start, time.perf_counter() - middle)
        return LossTerms(total, total.item(), 0.0, math.nan, 1.0)


def repeated(values: torch.Tensor, batch: PairBatch, points: int) -> torch.Tensor:  # (clouds * N, 3, 3) -> (B, N, 3, 3)
    """Repeat each cloud's ellipsoids for each of its partners."""
    clouds = values.reshape(-1, 1, points, 3, 3)
    return clouds.expand(-1, batch.partners, -1, -1, -1).reshape(-1, points, 3, 3)
