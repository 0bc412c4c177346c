"""How far apart two scans were taken, as an input of the sizes.

A size says how far a point lies from its partner in another scan of the place. That depends on the surface, and on how the sensor
moved in between: scans taken from one spot hit the same places again, and their points differ by little more than noise; after a
move, beams hit in between. The network's directions do not depend on the motion. Its sizes take four numbers, the same for all
points of a scan, so a motion is a change of the bias of one layer (`Model.at_motion`) and costs nothing per point. Two of them are
of the rotation, which only training knows (`learn.scans`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from poli.errors import InputError
from poli.validation import real_array

MOTION_INPUTS = 4
UP = np.array([0.0, 0.0, 1.0])
UP.flags.writeable = False
# Logarithms of lengths and angles, from values below which the noise of ranges hides a motion, in units of typical ones.
_STILL, _STRIDE = 0.02, 0.5  # meters
_STEADY, _TURN = 0.001, 0.01  # radians


def checked_motion(motion: Any) -> float | None:
    """Return the `motion` of `estimate`, or raise an InputError that says what to pass."""
    if motion is None:
        return None
    values = real_array(motion, "motion")
    if values.ndim:
        raise InputError(
            f"motion has shape {values.shape}; expected the distance of the scans in meters (for a relative pose T, pass "
            "numpy.linalg.norm(T[:3, 3])), or None"
        )
    if not 0.0 <= values < math.inf:
        raise InputError(f"motion is {motion!r}; expected the distance of the scans in meters, or None")
    return float(values)


def motion_inputs(distance: float | None, rotation: float | None = None) -> np.ndarray:  # (4,)
    """Return whether distance (meters) and rotation (radians) are known, each followed by its logarithm; zeros where unknown."""
    inputs = np.zeros(MOTION_INPUTS)
    if distance is not None:
        inputs[:2] = 1.0, math.log((distance + _STILL) / _STRIDE)
    if rotation is not None:
        inputs[2:] = 1.0, math.log((rotation + _STEADY) / _TURN)
    return inputs
