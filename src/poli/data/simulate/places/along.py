"""Coordinates relative to a line in the plane: distance along it, and offset to its left."""

from __future__ import annotations

import numpy as np

from poli.data.simulate.places.curves import directions, lengths
from poli.data.simulate.places.nearest import NearestOnLine


class Along:
    def __init__(self, line: np.ndarray) -> None:  # (K, 2)
        self.line, self.meters, self.forward = line, lengths(line), directions(line)
        self._nearest = NearestOnLine(line)

    def __call__(self, xy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (N, 2) -> (N,), (N,)
        nearest = self._nearest(xy)[1][:, 0]
        away, forward = xy - self.line[nearest], self.forward[nearest]
        ahead = (away * forward).sum(axis=1)
        return self.meters[nearest] + ahead, forward[:, 0] * away[:, 1] - forward[:, 1] * away[:, 0]
