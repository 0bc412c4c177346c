"""How good the ellipsoids are on surfaces that were not trained on. Here, and only here, the true normals and poses are used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial

import numpy as np

from poli.data.shapes import Mesh
from poli.errors import MissingExtra
from poli.learn.losses import LossConfig, Matches, pair_loss
from poli.learn.model import TrainingModel, repeated
from poli.learn.pairs import PairConfig, draw_pairs

try:
    import torch
except ImportError:
    raise MissingExtra("poli.learn", "train") from None

_SEED = 7


@dataclass(frozen=True)
class Validation:
    loss: float  # T-Q-C at the true pose, a match: one yardstick for every loss
    normal_rmse: float  # degrees, without regard to sign
    normal_median: float
    nees: float  # mean of d'(2C)^-1 d at the true pose: 3 when calibrated


def validate(model: TrainingModel, meshes: Sequence[Mesh], pairs: PairConfig, draws: int = 1) -> Validation:
    """Means over `draws` clouds of each mesh and each size; the same draws every time."""
    angles, losses, nees = [], [], []
    yardstick = LossConfig(kind="tqc")
    model.eval()
    with torch.no_grad():
        for m, mesh in enumerate(meshes):
            for points in pairs.points:
                for draw in range(draws):
                    rng = np.random.default_rng([_SEED, m, points, draw])
                    one = PairConfig(points=(points,), max_rotation=pairs.max_rotation, gate=pairs.gate)
                    batch = draw_pairs(partial(_always, mesh), one, model.network.architecture, rng)
                    groups = batch.groups.to(next(model.parameters()).device)
                    L, frames = (t.cpu() for t in model.network.sized(groups))
                    if not torch.isfinite(L).all():  # the run has diverged, and says so itself
                        return Validation(*[float("nan")] * len(fields(Validation)))
                    at_truth = Matches(
                        batch.matches.source, batch.matches.target, batch.matches.weights, torch.from_numpy(batch.T_true)
                    )
                    terms = pair_loss(yardstick, model.noise.cpu(), at_truth, *(repeated(t, batch, points) for t in (L, frames)))
                    losses.append(terms.correspondence)
                    nees.append(terms.nees)
                    axes = frames.double() @ L.double()
                    normals = torch.linalg.eigh(axes @ axes.transpose(1, 2))[1][:, :, 0].numpy()
                    cosine = np.abs(np.einsum("ni,ni->n", normals, batch.normals[0]))
                    angles.append(np.degrees(np.arccos(np.minimum(cosine, 1.0))))
    model.train()
    every = np.concatenate(angles)
    return Validation(float(np.mean(losses)), float(np.sqrt(np.mean(every**2))), float(np.median(every)), float(np.mean(nees)))


def _always(mesh: Mesh, _: np.random.Generator) -> Mesh:
    return mesh
