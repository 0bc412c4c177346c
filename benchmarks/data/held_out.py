"""Pairs of scans in held-out worlds, with ground truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.metrics.likelihood import Matches, gate_for
from poli.scan import Scan
from poli.se3 import inverse
from poli.voxels import voxel_downsample
from poli.worlds import SENSORS, Ride, Sensor, Trajectory, World, sweep
from poli.worlds.places import make_place
from poli.worlds.scan_pairs import HELD_OUT_SEEDS
from poli.worlds.sweep import true_normals

PLACES = ("bridge", "riverside", "roundabout", "town", "campus", "apartments")
_KEPT = ("normal", "label", "mixed")
# A dense, noise-free sensor that samples the surface visible from a spot.
_SURVEY = Sensor(
    tuple(float(e) for e in np.linspace(-30.0, 18.0, 120)), 1200, max_range=60.0, noise=0.0, divergence=0.0, dropout=0.0
)
_SURVEY_VOXEL = 0.25  # meters, so that near and far surfaces count equally


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Two consecutive scans of a sensor in a world, and the surface visible from the first."""

    place: str
    sensor: str
    world: World
    q: Scan
    p: Scan
    T_world_q: np.ndarray  # (4, 4)
    T_q_p: np.ndarray  # (4, 4)
    surface: np.ndarray  # (S, 3), in q's frame

    def cloud(self, voxel: float) -> Scan:
        return voxel_downsample(self.q, voxel)

    def normals(self, voxel: float) -> np.ndarray:  # (N, 3), NaN if there is none
        return true_normals(self.q, voxel)

    def matches(self, voxel: float) -> Matches:
        return Matches.of(self.cloud(voxel), voxel_downsample(self.p, voxel), self.T_q_p, gate_for(voxel))

    def distance(self, points: np.ndarray) -> np.ndarray:  # (M, 3) in q's frame -> (M,)
        return self.world.distance(points @ self.T_world_q[:3, :3].T + self.T_world_q[:3, 3])


def held_out_pairs(
    sensors: Sequence[str], spots: int = 2, places: Sequence[str] = PLACES, first: int = HELD_OUT_SEEDS
) -> Iterator[HeldOut]:
    """Two consecutive scans of each sensor at `spots` positions along a drive at 8 m/s through each place."""
    for number, kind in enumerate(places):
        world = World(make_place(kind, first + number))
        trajectory = Trajectory(world.place.route, Ride(), seed=number)
        for spot in range(spots):
            start = trajectory.duration * (spot + 0.5) / (spots + 0.5)
            here = trajectory.poses(np.array([start]))
            survey = sweep(world, _SURVEY, lambda times, T=here: np.tile(T, (len(times), 1, 1)), movers=False)  # type: ignore[misc]
            surface = voxel_downsample(survey.points, _SURVEY_VOXEL, "first").points.astype(np.float64)
            for name in sensors:
                sensor = SENSORS[name]
                times = start, start + 1.0 / sensor.rate
                T_world_q, T_world_p = trajectory.poses(np.array(times))
                q, p = (sweep(world, sensor, trajectory.poses, t, seed=2 * spot + i).keep(*_KEPT) for i, t in enumerate(times))
                yield HeldOut(kind, name, world, q, p, T_world_q, inverse(T_world_q) @ T_world_p, surface)
