"""A place: a world of triangles with labels, a drivable route through it, and other moving vehicles."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np


class Label(IntEnum):
    GROUND = 0
    ROAD = 1
    BUILDING = 2
    VEHICLE = 3
    THIN = 4  # poles, signs, fences, railings
    TRUNK = 5
    LEAVES = 6
    STRUCTURE = 7  # bridges, tunnels, walls, everything indoors


@dataclass(frozen=True)
class Mover:
    """A moving vehicle. Its route never crosses the place's route; it may share it (a car ahead), starting farther along."""

    triangles: np.ndarray  # (F, 3, 3) float32 in the vehicle's frame: x forward, z up, origin on the ground below its center
    route: np.ndarray  # (K, 3) float64, points about 1 m apart
    speed: float  # m/s
    start: float  # m along the route at time zero


@dataclass(frozen=True)
class Place:
    kind: str
    seed: int
    triangles: np.ndarray  # (F, 3, 3) float32, meters, z up
    labels: np.ndarray  # (F,) uint8, values of Label
    route: np.ndarray  # (K, 3) float64 on the ground, free of obstacles; points about 1 m apart, for walks half a meter
    movers: tuple[Mover, ...]
