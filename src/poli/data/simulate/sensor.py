"""Spinning LiDARs as tables of beams."""

from dataclasses import dataclass

import numpy as np

from poli.data.simulate.scene import Scene
from poli.scan import Scan
from poli.se3 import check_pose


@dataclass(frozen=True)
class Sensor:
    """Beam elevations in degrees from the lowest up, azimuth steps a turn, farthest return (m), range noise (m, one sigma)."""

    elevations: tuple[float, ...]
    steps: int
    farthest: float
    noise: float


SENSORS = {
    "vlp16": Sensor(tuple(np.linspace(-15.0, 15.0, 16)), steps=1800, farthest=100.0, noise=0.02),
    "hdl64e": Sensor(tuple(np.linspace(-24.8, 2.0, 64)), steps=2083, farthest=120.0, noise=0.02),
    "os2_128": Sensor(tuple(np.linspace(-11.25, 11.25, 128)), steps=1024, farthest=200.0, noise=0.02),
}


def simulate_scan(scene: Scene, sensor: Sensor, T_world_sensor: np.ndarray, seed: int = 0) -> Scan:  # (4, 4)
    """One turn of a standing sensor: fields `ring`, `time` (s from the start) and the true unit normals `normal` (N, 3), all in
    the sensor's frame."""
    T = check_pose(T_world_sensor, "T_world_sensor")
    azimuth = np.arange(sensor.steps) * (2 * np.pi / sensor.steps)
    elevation = np.deg2rad(np.array(sensor.elevations))
    rings, columns = np.meshgrid(np.arange(len(elevation)), np.arange(sensor.steps))
    up, around = elevation[rings].ravel(), azimuth[columns].ravel()
    directions = np.stack([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)], axis=1)
    distance, normals = scene.cast(np.tile(T[:3, 3], (len(directions), 1)), directions @ T[:3, :3].T)
    seen = distance < sensor.farthest
    distance = distance[seen] + np.random.default_rng(seed).normal(0.0, sensor.noise, int(seen.sum()))
    fields = {
        "ring": rings.ravel()[seen].astype(np.uint16),
        "time": (columns.ravel()[seen] * (0.1 / sensor.steps)).astype(np.float32),
        "normal": (normals[seen] @ T[:3, :3]).astype(np.float32),
    }
    return Scan((directions[seen] * distance[:, None]).astype(np.float32), fields)
