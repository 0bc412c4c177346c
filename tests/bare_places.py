"""Bare places whose undetermined motions are known: corridors, tunnels, fields, a parking deck and a stairwell, seen by a VLP-16.

Surfaces are planes, boxes and cylinders, so rays are intersected exactly. The worlds of `poli.worlds` are no substitute:
they have fittings everywhere, which determine every motion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from poli.lidar_odometry import Odometer, OdometryConfig
from poli.lidar_odometry.degeneracy import UNITS
from poli.scan import Scan
from poli.se3 import exp, inverse, so3_log
from poli.worlds import SPINNING

PERIOD = 0.1  # seconds between two scans
_STEPS = 900  # columns per scan: half of the sensor's, to save time
_FAR = np.inf
_TURNS = ("roll", "pitch", "yaw")  # about x, y and z


@dataclass(frozen=True)
class Place:
    """Solid boxes inside a hull. World: x along the way, z up, floor at 0."""

    hull: Callable[[np.ndarray, np.ndarray], np.ndarray]  # origin (3,) and directions (N, 3) -> distances (N,)
    low: np.ndarray  # (B, 3) of the boxes
    high: np.ndarray  # (B, 3)


@dataclass(frozen=True)
class Scenario:
    name: str
    place: Place
    handheld: bool
    start: tuple[float, float, float]  # of the sensor
    undetermined: tuple[str, ...]  # the truth: of x, y, z, roll, pitch, yaw, in the frame of the world
    speed: float  # meters per second along x
    center: tuple[float, float, float] = (0.0, 0.0, 0.0)  # a point on the axis of undetermined rotations

    def poses(self, count: int) -> np.ndarray:  # (count, 4, 4) T_world_sensor
        return np.stack([self._pose(PERIOD * i) for i in range(count)])

    def motions(self, T: np.ndarray) -> np.ndarray:  # (4, 4) -> (k, 6)
        """The undetermined motions as tangents (rotation, translation) in the frame of a sensor with the pose T."""
        back, tangents = T[:3, :3].T, np.zeros((len(self.undetermined), 6))
        for row, name in zip(tangents, self.undetermined, strict=True):
            axis = np.eye(3)["xyz".index(name) if name in "xyz" else _TURNS.index(name)]
            if name in "xyz":
                row[3:] = back @ axis
            else:  # about an axis through the center of the place
                row[:3], row[3:] = back @ axis, back @ np.cross(axis, T[:3, 3] - np.array(self.center))
        return tangents

    def _pose(self, t: float) -> np.ndarray:  # (4, 4)
        wave = lambda period, phase: np.sin(2.0 * np.pi * t / period + phase)  # noqa: E731
        if self.handheld:  # sway and bob of a person who walks
            turn = np.deg2rad([3.0 * wave(1.1, 0.4), 3.0 * wave(0.9, 1.3), 6.0 * wave(2.3, 0.2)])
            sway = np.array([0.02 * wave(0.55, 0.0), 0.04 * wave(1.1, 0.5), 0.03 * wave(0.55, 1.0)])
        else:
            turn = np.deg2rad([0.4 * wave(1.3, 0.4), 0.4 * wave(0.9, 1.3), 1.0 * wave(4.0, 0.2)])
            sway = np.array([0.15 * wave(3.0, 0.0), 0.1 * wave(4.0, 0.5), 0.01 * wave(1.0, 1.0)])
        T = exp(np.concatenate([turn, np.zeros(3)]))
        T[:3, 3] = np.array(self.start) + [self.speed * t, 0.0, 0.0] + sway
        return T

    def scan(self, T: np.ndarray, rng: np.random.Generator) -> Scan:
        """One scan from the pose T, without motion during the scan."""
        sensor = SPINNING["vlp16"]
        columns = sensor.directions[:: sensor.steps // _STEPS].reshape(-1, 3)
        rays = columns @ T[:3, :3].T
        ranges = np.minimum(self.place.hull(T[:3, 3], rays), _box_distances(self.place, T[:3, 3], rays))
        seen = (ranges > sensor.min_range) & (ranges < sensor.max_range) & (rng.random(len(ranges)) >= sensor.dropout)
        ranges = ranges[seen] + sensor.noise * rng.standard_normal(int(seen.sum()))
        return Scan((columns[seen] * ranges[:, None]).astype(np.float32))


def _box_distances(place: Place, origin: np.ndarray, rays: np.ndarray) -> np.ndarray:  # (N, 3) -> (N,)
    """Distances to the nearest box, infinite where none is hit."""
    nearest = np.full(len(rays), _FAR)
    with np.errstate(divide="ignore", invalid="ignore"):
        for low, high in zip(place.low, place.high, strict=True):
            a, b = (low - origin) / rays, (high - origin) / rays
            enters, leaves = np.fmin(a, b).max(axis=1), np.fmax(a, b).min(axis=1)
            hit = (enters <= leaves) & (enters > 0.0)
            nearest[hit] = np.minimum(nearest[hit], enters[hit])
    return nearest


def _hall(low: tuple[float, float, float], high: tuple[float, float, float]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The inside of a box; infinite bounds are open."""

    def hull(origin: np.ndarray, rays: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.where(rays > 0.0, (np.array(high) - origin) / rays, (np.array(low) - origin) / rays)
        return np.nanmin(np.where(np.isfinite(ends), ends, _FAR), axis=1)

    return hull


def _tube(radius: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The inside of a cylinder along x, standing on the floor."""

    def hull(origin: np.ndarray, rays: np.ndarray) -> np.ndarray:
        y, z = origin[1], origin[2] - radius
        a, b, c = (rays[:, 1:] ** 2).sum(axis=1), y * rays[:, 1] + z * rays[:, 2], y * y + z * z - radius**2
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(a > 1e-12, (-b + np.sqrt(b * b - a * c)) / a, _FAR)

    return hull


def _place(hull: Callable[[np.ndarray, np.ndarray], np.ndarray], boxes: list[list[float]] | None = None) -> Place:
    """Boxes are rows of x, y, z from and x, y, z to."""
    rows = np.array(boxes if boxes else np.zeros((0, 6)), float).reshape(-1, 6)
    return Place(hull, rows[:, :3], rows[:, 3:])


def scenarios() -> list[Scenario]:
    inf = np.inf
    narrow = ((-inf, -1.0, 0.0), (inf, 1.0, 2.6))
    doors = [[x, side * 1.0 - 0.12, 0.0, x + 0.15, side * 1.0 + 0.12, 2.1] for x in np.arange(-38.0, 40.0, 2.7) for side in (-1, 1)]
    columns = [[x, y, 0.0, x + 0.5, y + 0.5, 2.6] for x in np.arange(-30.0, 40.0, 8.0) for y in (-8.0, -3.0, 2.5, 7.5)]
    stairs = [[0.8 + 0.28 * i, -1.3, 0.0, 5.5, 0.0, 0.17 * (i + 1)] for i in range(10)]
    flight = [[0.8 + 0.28 * i, 0.1, 1.8 + 0.17 * (9 - i), 5.5, 1.3, 2.1 + 0.17 * (9 - i)] for i in range(10)]
    corridor, tunnel, tube = _hall(*narrow), _hall((-inf, -4.0, 0.0), (inf, 4.0, 5.0)), _tube(4.0)
    field, deck = _hall((-inf, -inf, 0.0), (inf, inf, inf)), _hall((-30.0, -16.0, 0.0), (60.0, 16.0, 2.6))
    hand, car = (0.0, 0.1, 1.2), (0.0, -0.4, 1.8)
    return [
        Scenario("corridor", _place(corridor), True, hand, ("x",), 1.0),
        Scenario("corridor, end 20 m ahead", _place(_hall(narrow[0], (20.0, 1.0, 2.6))), True, hand, (), 1.0),
        Scenario("corridor with door frames", _place(corridor, doors), True, hand, (), 1.0),
        Scenario("stairwell", _place(_hall((-1.5, -1.3, 0.0), (5.5, 1.3, 6.0)), stairs + flight), True, (-0.7, 0.1, 1.4), (), 0.25),
        Scenario("square tunnel", _place(tunnel), False, car, ("x",), 8.0),
        Scenario("round tunnel", _place(tube), False, car, ("x", "roll"), 8.0, (0.0, 0.0, 4.0)),
        Scenario("open field", _place(field), False, car, ("x", "y", "yaw"), 8.0),
        Scenario("parking deck", _place(deck, columns), False, car, (), 4.0),
    ]


# --- what odometry reports of a place

_NAMES = ("roll", "pitch", "yaw", "x", "y", "z")
_CELL = 0.5  # meters: cells in which the thickness of walls is measured
_ALIKE = 0.95  # cosine of the angle between reported and undetermined motions
_FEWEST = 30  # points of such a cell


def recorded(scenario: Scenario, count: int, seed: int) -> tuple[list[Scan], np.ndarray]:
    """Scans and their true poses (count, 4, 4)."""
    rng, poses = np.random.default_rng(seed), scenario.poses(count)
    return [replace(scenario.scan(T, rng), stamp=round(i * PERIOD * 1e9)) for i, T in enumerate(poses)], poses


def measure(scenario: Scenario, scans: Sequence[Scan], poses: np.ndarray, voxel: float) -> dict[str, Any]:  # (M, 4, 4)
    odometer = Odometer(OdometryConfig(voxel=voxel, on_loss="restart"))
    called, right = [], 0
    for scan, T in zip(scans, poses, strict=True):
        step = odometer.add(scan)
        if step.alignment is not None:
            found = step.alignment.degeneracy
            weak = found.directions[found.weak]
            called.append([motion_name(direction, T) for direction in weak])
            right += same_motions(weak, scenario.motions(T))
    error = determined_error(scenario, poses, odometer.poses)
    counts = Counter(name for names in called for name in names)
    return {
        "scans": len(called),
        "right": right,
        "reported": ", ".join(f"{name} {counts[name]}" for name in _NAMES if name in counts) or "none",
        "error_cm": 100.0 * error[0],
        "error_deg": error[1],
        "wall_mm": 1000.0 * _thickness(scans, odometer.poses),
        "true_wall_mm": 1000.0 * _thickness(scans, np.linalg.inv(poses[0]) @ poses),
    }


def same_motions(found: np.ndarray, true: np.ndarray) -> bool:  # (k, 6), (l, 6)
    """Whether two sets of directions span nearly the same motions, in units of what a prediction leaves open."""
    if len(found) != len(true):
        return False
    bases = [np.linalg.qr((rows / UNITS).T)[0] for rows in (found, true)]
    return bool((np.linalg.svd(bases[0].T @ bases[1], compute_uv=False) > _ALIKE).all())


def motion_name(direction: np.ndarray, T_world_sensor: np.ndarray) -> str:  # (6,), (4, 4)
    """The axis of the world that a direction in the frame of the sensor is closest to."""
    R = T_world_sensor[:3, :3]
    rotation, translation = R @ (direction / UNITS)[:3], R @ (direction / UNITS)[3:]
    return _NAMES[int(np.argmax(np.abs(np.concatenate([rotation, translation]))))]


def determined_error(scenario: Scenario, poses: np.ndarray, found: np.ndarray) -> tuple[float, float]:  # (M, 4, 4), (M, 4, 4)
    """Meters and degrees of the last pose relative to the first, without the undetermined motions."""
    truth, T = poses[-1], poses[0] @ inverse(found[0]) @ found[-1]
    shift, turn = T[:3, 3] - truth[:3, 3], so3_log(T[:3, :3] @ truth[:3, :3].T)
    if "roll" in scenario.undetermined:  # the distance from the axis is left
        shift = np.array([shift[0], 0.0, np.diff([np.linalg.norm((S[:3, 3] - scenario.center)[1:]) for S in (truth, T)])[0]])
    kept = np.array([name not in scenario.undetermined for name in _NAMES])
    return float(np.linalg.norm(shift[kept[3:]])), float(np.degrees(np.linalg.norm(turn[kept[:3]])))


def _thickness(scans: Sequence[Scan], poses: np.ndarray) -> float:  # (M, 4, 4) -> meters
    points = np.concatenate([s.points.astype(np.float64) @ T[:3, :3].T + T[:3, 3] for s, T in zip(scans, poses, strict=True)])
    _, cell, counts = np.unique(np.floor(points / _CELL), axis=0, return_inverse=True, return_counts=True)
    cell = cell.ravel()
    means = np.zeros((len(counts), 3))
    np.add.at(means, cell, points)
    off = points - (means / counts[:, None])[cell]
    spread = np.zeros((len(counts), 3, 3))
    np.add.at(spread, cell, off[:, :, None] * off[:, None, :])
    variances = np.linalg.eigvalsh(spread / counts[:, None, None])[counts >= _FEWEST, 0]
    return float(np.median(np.sqrt(np.maximum(variances, 0.0)))) if len(variances) else float("nan")
