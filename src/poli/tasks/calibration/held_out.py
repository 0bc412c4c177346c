"""Whether a calibration explains scans that it has not seen: their planes must become thinner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poli.errors import InputError
from poli.tasks.calibration.adjustment import Linear, adjust, linearize
from poli.tasks.calibration.stretch import Stretch

_WIDTHS = (4.0, 2.0, 2.0, 2.0)
_WIDTH = 2.0  # of the robust cost, in sigmas
_BETTER = 2.0  # standard errors
_LEAST_PLANES, _LEAST_RETURNS = 20, 8


@dataclass(frozen=True)
class HeldOut:
    """Mean robust cost of held-out returns on their planes, poses and planes fitted in both cases; lower is better."""

    before: float
    after: float
    sigma: float  # of the difference, from its scatter between planes
    planes: int

    @property
    def better(self) -> bool:
        return self.before - self.after > _BETTER * self.sigma


def compare(stretches: Sequence[Stretch], corrections: np.ndarray) -> HeldOut:  # (B, 2)
    """Compare held-out stretches with and without corrections, on the planes found without them."""
    without = np.zeros_like(corrections)
    pairs = []
    for stretch in stretches:
        raw = adjust([stretch], without, None, _WIDTHS).stretches[0]
        planes = linearize(raw, without, _WIDTH).planes
        fixed = adjust([raw], corrections, None, _WIDTHS).stretches[0]
        costs = [_by_plane(linearize(state, chosen, _WIDTH, planes)) for state, chosen in ((raw, without), (fixed, corrections))]
        pairs.append(np.stack(costs, axis=1))
    both = np.concatenate(pairs) if pairs else np.empty((0, 2))  # (V, 2)
    both = both[np.isfinite(both).all(axis=1)]
    if len(both) < _LEAST_PLANES:
        raise InputError(f"the held-out scans show only {len(both)} planes; {_LEAST_PLANES} are needed: use a longer log")
    before, after = both.mean(axis=0)
    return HeldOut(float(before), float(after), float((both[:, 0] - both[:, 1]).std() / np.sqrt(len(both))), len(both))


def _by_plane(linear: Linear) -> np.ndarray:  # (V,)
    """Mean cost of the returns of each plane; NaN where fewer than `_LEAST_RETURNS` are usable."""
    counts = np.diff(linear.planes.starts)
    cost = np.log1p((linear.rows.residuals / (_WIDTH * linear.sigmas)) ** 2)
    sums = np.bincount(linear.planes.members, cost, minlength=len(counts))
    return np.where(counts >= _LEAST_RETURNS, sums / np.maximum(counts, 1), np.nan)
