"""A drive through a world: its sweeps, the true poses, and noisy poses as an odometer or GNSS would measure them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from poli.errors import InputError
from poli.scan import Scan
from poli.se3 import measured
from poli.worlds.sensors import Scanner
from poli.worlds.sweep import World, sweep
from poli.worlds.trajectory import Ride, Trajectory


@dataclass(frozen=True)
class Drive:
    """Consecutive scans of a sensor on a ride. Scans are simulated on demand and are reproducible."""

    world: World
    sensor: Scanner
    ride: Ride
    count: int
    seed: int = 0
    deskewed: bool = True
    movers: bool = True
    rotation_noise: float = 0.1  # of the measured poses, degrees per axis
    translation_noise: float = 0.02  # meters per axis

    def __post_init__(self) -> None:
        most = int(self.trajectory.duration * self.sensor.rate)
        if not 1 <= self.count <= most:
            raise InputError(f"count is {self.count} scans; this ride through {self.world.place.kind} allows 1 to {most}")

    @property
    def trajectory(self) -> Trajectory:
        """The motion of the sensor."""
        return Trajectory(self.world.place.route, self.ride, self.seed)

    @property
    def poses(self) -> np.ndarray:  # (count, 4, 4)
        """T_world_sensor at the start of each scan."""
        return self.trajectory.poses(np.arange(self.count) / self.sensor.rate)

    @property
    def measured(self) -> np.ndarray:  # (count, 4, 4)
        """The poses with noise that is independent between scans."""
        rng = np.random.default_rng([self.seed, 3])
        return np.stack([measured(T, self.rotation_noise, self.translation_noise, rng) for T in self.poses])

    def __iter__(self) -> Iterator[Scan]:
        trajectory = self.trajectory
        for i in range(self.count):
            start = i / self.sensor.rate
            seed = int(np.random.default_rng([self.seed, 4, i]).integers(2**31))
            scan = sweep(self.world, self.sensor, trajectory.poses, start, seed, self.deskewed, self.movers)
            yield scan.without("time") if self.deskewed else scan  # points with times are taken as skewed
