"""Where the demo takes place: a town that no model was trained on, and the spots in it."""

from __future__ import annotations

import numpy as np

from poli.data.simulate import SENSORS, Ride, Trajectory, World
from poli.data.simulate.places import make_place

PLACE, SEED = "town", 2_000_003  # worlds from two million on are kept for evaluation
SENSOR_NAME = "vlp16"
SENSOR = SENSORS[SENSOR_NAME]
SPOTS = 180.0, 190.0  # metres along the route: where the two scans of the package were taken
START = 177.0  # metres along the route: where the drive begins; it then turns left around a corner


def town_world() -> World:
    return World(make_place(PLACE, SEED))


def spot_poses(world: World) -> np.ndarray:  # (2, 4, 4) T_world_sensor
    """Of the two scans: level with the road, at the height of a car's roof."""
    ride = Ride()
    return Trajectory(world.place.route, ride).poses(np.array(SPOTS) / ride.speed)
