"""How far apart two scans were taken, as an input of the sizes.

A size says how far a point lies from its partner in another scan of the place. That depends on the surface, and on how the sensor
moved in between: scans taken from one spot hit the same places again, and their points differ by little more than noise; after a
move, beams hit in between. The network's directions do not depend on the motion. Its sizes take four numbers, the same for all
points of a scan, so a motion is a change of the bias of one layer (`Model.at_motion`) and costs nothing per point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from poli.errors import InputError
from poli.se3 import check_pose, so3_log
from poli.validation import real_array

MOTION_INPUTS = 4
POSED = 2  # of these inputs: whether the rotation, and so the pose, is known
UP = np.array([0.0, 0.0, 1.0])
UP.flags.writeable = False
# Logarithms of lengths and angles, from values below which the noise of ranges hides a motion, in units of typical ones.
_STILL, _STRIDE = 0.02, 0.5  # meters
_STEADY, _TURN = 0.001, 0.01  # radians
_SECTORS, _AROUND = 36, 0.75  # spinning sensors on cars see 0.9 of the sectors or more; at most 0.4 is seen by one that looks ahead

Motion = float | np.ndarray | None


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of two scans, for the sizes of one of them."""

    inputs: np.ndarray  # (6,): `motion_inputs`, then `grid.grid_inputs`
    shifts: np.ndarray | None = None  # (N, 3) `grid.grid_shifts`; None if the grids are unknown

    @property
    def posed(self) -> bool:
        """Whether the relative pose is known, not only the distance."""
        return bool(self.inputs[POSED])


def motion_inputs(motion: Motion, points: np.ndarray, up: np.ndarray = UP) -> np.ndarray:  # (N, 3), (3,) -> (4,)
    """Return whether distance and rotation between two scans are known, and the logarithm of each; zero where unknown.

    `motion` is the distance in meters, the relative pose (4, 4), or None if nothing is known. The rotation is what changes the
    pattern of the beams: all of it for a sensor that looks one way, but only the tilt for one that sees all around, because a
    spinning sensor that is turned about its axis hits the same rings.
    """
    if motion is None:
        return np.zeros(MOTION_INPUTS)
    values = real_array(motion, "motion")
    if values.ndim == 0:
        if not 0.0 <= values < math.inf:
            raise InputError(f"motion is {motion!r}; expected the distance of the scans in meters, their relative pose, or None")
        return inputs_of(float(values), None)
    T = check_pose(values, "motion")
    turned = math.acos(min(1.0, float(up @ T[:3, :3] @ up))) if sees_all_around(points, up) else np.linalg.norm(so3_log(T[:3, :3]))
    return inputs_of(float(np.linalg.norm(T[:3, 3])), float(turned))


def sees_all_around(points: np.ndarray, up: np.ndarray = UP) -> bool:  # (N, 3), (3,)
    """Whether returns cover nearly all directions about the axis `up`, as those of spinning sensors do."""
    side = np.cross(up, np.eye(3)[np.argmin(np.abs(up))])
    side /= np.linalg.norm(side)
    angles = np.arctan2(points @ np.cross(up, side), points @ side)
    seen = np.bincount(((angles / (2.0 * np.pi) + 0.5) * _SECTORS).astype(int).clip(0, _SECTORS - 1), minlength=_SECTORS) > 0
    return bool(seen.mean() >= _AROUND)


def inputs_of(distance: float | None, rotation: float | None) -> np.ndarray:  # (4,)
    """Return the inputs for a distance in meters and a rotation in radians, each None if unknown."""
    inputs = np.zeros(MOTION_INPUTS)
    if distance is not None:
        inputs[:2] = 1.0, math.log((distance + _STILL) / _STRIDE)
    if rotation is not None:
        inputs[2:] = 1.0, math.log((rotation + _STEADY) / _TURN)
    return inputs
