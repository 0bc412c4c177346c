"""Score ellipsoids on held-out surfaces. Only this module uses the true normals and poses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
import torch

from poli.train.losses import LossConfig, MatchBatch, pair_loss, residuals, squared, whitening
from poli.train.network import TrainingModel, repeated
from poli.train.object_pairs import PairBatch


@dataclass(frozen=True)
class Validation:
    """Scores on held-out surfaces."""

    loss: float  # T-Q-C at the true pose, per match: the same measure for every loss
    normal_rmse: float  # degrees, ignoring the sign
    normal_median: float
    nees: float  # mean of d'(2C)^-1 d over likely inliers at the true pose: 3 when calibrated
    nees_median: float  # median of d'(2C)^-1 d over all matches at the true pose: 2.37 when calibrated


def validate(model: TrainingModel, held_out: Iterable[PairBatch]) -> Validation | None:
    """Return means over batches of one cloud each, or None without batches."""
    angles, losses, nees, squares = [], [], [], []
    yardstick = LossConfig(kind="tqc", outliers=model.loss.outliers, outlier_sigma=model.loss.outlier_sigma)
    model.eval()
    with torch.no_grad():
        for batch in held_out:
            L, frames = (t.cpu() for t in model.network.sized(batch.groups.to(next(model.parameters()).device)))
            if not torch.isfinite(L).all():  # the run has diverged, which the trainer reports
                return Validation(*[float("nan")] * len(fields(Validation)))
            m = batch.matches
            at_truth = MatchBatch(m.source, m.target, m.weights, torch.from_numpy(batch.T_true))
            each = [repeated(t, batch, m.weights.shape[1]) for t in (L, frames)]
            terms = pair_loss(yardstick, at_truth, *each)
            losses.append(terms.correspondence)
            nees.append(terms.nees)
            d = residuals(at_truth, at_truth.T_measured)
            squares.append(squared(whitening(*(t.double() for t in each)), d)[m.weights > 0].numpy())  # within the gate
            axes = frames.double() @ L.double()
            normals = torch.linalg.eigh(axes @ axes.transpose(1, 2))[1][:, :, 0].numpy()
            cosine = np.abs(np.einsum("ni,ni->n", normals, batch.normals[0]))
            angles.append(np.degrees(np.arccos(np.minimum(cosine[np.isfinite(cosine)], 1.0))))
    model.train()
    if not angles:
        return None
    every = np.concatenate(angles)
    rmse, median = (float(np.sqrt(np.mean(every**2))), float(np.median(every))) if len(every) else (np.nan, np.nan)
    return Validation(float(np.mean(losses)), rmse, median, float(np.mean(nees)), float(np.median(np.concatenate(squares))))
