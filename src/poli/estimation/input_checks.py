"""Do points lie where their sensor can have seen them? Map coordinates (UTM, for instance) are kilometers from the origin."""

from __future__ import annotations

import warnings

import numpy as np

from poli.errors import ViewpointWarning
from poli.estimation.arrangement import Viewpoint
from poli.estimation.model import Model

_REACH = 5000.0  # meters: no LiDAR on the ground sees as far
_APART = 4.0  # times their spread: so far off, and the sensor was not among them, whatever the unit


def warn_of_distance(model: Model, points: np.ndarray, view: Viewpoint, stacklevel: int = 3) -> None:  # (N, 3)
    """One `ViewpointWarning`, at the caller's caller, if a model that is told where the sensor stood was told nonsense."""
    if not model.architecture.sensor or view.position is None:
        return
    rays = points - view.position
    distance = float(np.linalg.norm(np.einsum("ni->i", rays))) / len(rays)
    if distance <= _REACH:
        return
    spread = float(np.sqrt(((rays - rays.mean(axis=0)) ** 2).sum(axis=1).mean()))
    if distance > _APART * spread:
        place = "the origin, where the sensor is taken to be" if not np.any(view.position) else "the viewpoint given"
        warnings.warn(
            f"points lie {distance / 1000.0:.0f} km from {place}; subtract the sensor's position first, or give viewpoint= in "
            "Python (merged=True, --merged if there were many)",
            ViewpointWarning,
            stacklevel=stacklevel,
        )
