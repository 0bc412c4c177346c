"""Sizes learned from a pool of matches: those of scans whose relative pose is known, if the architecture has `pair`.

While sizes are trained, everything that they are predicted from stays as it is. So it can be computed once for the matches of many
clouds, and every step draws matches of all of them. One cloud per step, whose matches are much alike, gives noisier gradients, each
of which costs a pass through the network. The poses are the measured ones (T-Q-C), so their noise must be small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import torch

from poli.learn.losses import LossConfig, LossTerms, residuals, unlikelihood
from poli.learn.network import Network
from poli.learn.pairs import PairBatch, Phase
from poli.learn.source import Source

_MATCHES_EACH = 1200  # of each cloud
_DRAWN = 4096  # matches per step


@dataclass(frozen=True)
class SizeBatch:
    """Matches of many clouds, with what the sizes of their ellipsoids are predicted from. Lengths are in local spacings."""

    known: torch.Tensor  # (M, inputs)
    variances: torch.Tensor  # (M, 3) along the axes, ascending, before they are stretched
    squares: torch.Tensor  # (M, 3) squared residuals along the axes
    spacing: torch.Tensor  # (M,)

    coverage = 1.0
    T_true = np.eye(4)[None]  # one problem, which needs no certificate

    def rows(self, chosen: torch.Tensor) -> SizeBatch:
        return SizeBatch(*(getattr(self, f.name)[chosen] for f in fields(self)))

    def loss(self, network: Network, config: LossConfig) -> LossTerms:
        """Return the loss of the matches; its gradient is that of the sizes."""
        scales2 = network.stretched(self.known, self.variances).square()
        squares = (self.squares / (2.0 * scales2)).sum(1)
        log_2c = 3.0 * math.log(2.0) + (scales2.log() + 2.0 * self.spacing[:, None].log()).sum(1)
        total = unlikelihood(config, log_2c, squares, self.squares.sum(1) * self.spacing**2).mean()
        return LossTerms(total, total.item(), 0.0, squares.mean().item(), 1.0)


class PooledSource:
    """Draws batches from a pool of the matches of `clouds` batches of another source."""

    def __init__(self, source: Source, network: Network, clouds: int, seed: int) -> None:
        self._source, self._network, self._clouds, self._seed = source, network, clouds, seed
        self._phase: Phase = "pairs" if network.architecture.pair else "sizes"

    def draw(self, rng: np.random.Generator, phase: Phase) -> SizeBatch:
        """Draw a batch as `Source.draw` does, for the only phase of a pooled run."""
        assert phase == "sizes", "other phases have no pool"
        return self._pool.rows(torch.from_numpy(rng.integers(len(self._pool.spacing), size=_DRAWN)))

    @cached_property
    def _pool(self) -> SizeBatch:
        parts = []
        for number in range(self._clouds):
            rng = np.random.default_rng([self._seed, number])
            batch = matches_of(self._network, self._source.draw(rng, self._phase))
            chosen = rng.permutation(len(batch.spacing))[:_MATCHES_EACH]
            parts.append(batch.rows(torch.from_numpy(chosen)))
        return SizeBatch(*(torch.cat([getattr(part, f.name) for part in parts]) for f in fields(SizeBatch)))


def matches_of(network: Network, batch: PairBatch) -> SizeBatch:
    """Return the matches of a batch with one partner per cloud."""
    groups, matches = batch.groups.to(next(network.parameters()).device), batch.matches
    with torch.no_grad():
        scalars = network.features(groups)
        L, hidden = network.ellipsoids(groups, scalars)
        variances, axes = torch.linalg.eigh((L @ L.transpose(1, 2)).double())
        variances = variances.clamp_min(network.architecture.floor**4).to(hidden)
        known = network.known_of_sizes(groups, scalars, hidden, variances, axes)
        d = residuals(matches, matches.T_measured).reshape(-1, 3).to(hidden)
        along = (axes.to(hidden).transpose(1, 2) @ groups.frames[0].transpose(1, 2) @ d[:, :, None])[:, :, 0]
        squares = (along / groups.spacing[:, None]).square()
    matched = matches.weights.reshape(-1) > 0
    return SizeBatch(known[matched], variances[matched], squares[matched], groups.spacing[matched])
