"""Warn about points too far from the sensor to have been seen by it, for instance map coordinates (UTM)."""

from __future__ import annotations

import warnings

import numpy as np

from poli.errors import ViewpointWarning
from poli.estimation.arrangement import Viewpoint
from poli.estimation.model import Model

_REACH = 5000.0  # meters: no LiDAR on the ground sees this far
_APART = 4.0  # times the spread of the points: farther away, the sensor was not among them, whatever the unit


def warn_of_distance(model: Model, points: np.ndarray, view: Viewpoint, stacklevel: int = 3) -> None:  # (N, 3)
    """Issue a `ViewpointWarning`, at the caller's caller, if the model uses the sensor position and it is implausible."""
    if not model.architecture.sensor or view.position is None:
        return
    rays = points - view.position
    distance = float(np.linalg.norm(np.einsum("ni->i", rays))) / len(rays)
    if distance <= _REACH:
        return
    spread = float(np.sqrt(((rays - rays.mean(axis=0)) ** 2).sum(axis=1).mean()))
    if distance > _APART * spread:
        place = "the origin, the assumed sensor position" if not np.any(view.position) else "the given viewpoint"
        warnings.warn(
            f"points lie {distance / 1000.0:.0f} km from {place}; subtract the sensor position first, or pass viewpoint= in "
            "Python (for several positions merged=True, --merged)",
            ViewpointWarning,
            stacklevel=stacklevel,
        )
