"""Scenes of analytic shapes: a ray meets them exactly, so the surface under every return is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from poli.se3 import so3_exp


class Shape(Protocol):
    def hit(self, origins: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (M,), (M, 3)
        """Distance along each ray to the surface (infinite for a miss), and the surface's unit normal there."""


@dataclass(frozen=True)
class Ground:
    """The plane z = height."""

    height: float = 0.0

    def hit(self, origins: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = (self.height - origins[:, 2]) / directions[:, 2]
        return np.where(distance > 0, distance, np.inf), np.tile([0.0, 0.0, 1.0], (len(origins), 1))


@dataclass(frozen=True)
class Box:
    """A box of full extents `size`, turned by `yaw` about z."""

    centre: tuple[float, float, float]
    size: tuple[float, float, float]
    yaw: float = 0.0

    def hit(self, origins: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        R = so3_exp(np.array([0.0, 0.0, self.yaw]))
        o, d = (origins - np.array(self.centre)) @ R, directions @ R
        half = 0.5 * np.array(self.size)
        with np.errstate(divide="ignore", invalid="ignore"):
            first = (-np.sign(d) * half - o) / d
            last = (np.sign(d) * half - o) / d
        first, last = np.where(d == 0, -np.inf, first), np.where(d == 0, np.inf, last)
        enter = first.max(axis=1)
        inside = (np.abs(o) <= half) | (d != 0)
        met = (enter <= last.min(axis=1)) & (enter > 0) & inside.all(axis=1)
        axis = first.argmax(axis=1)
        normals = np.zeros_like(d)
        rows = np.arange(len(d))
        normals[rows, axis] = -np.sign(d[rows, axis])
        return np.where(met, enter, np.inf), normals @ R.T


@dataclass(frozen=True)
class Quadric:
    """An ellipsoid of semi-axes `radii`, turned by `yaw` about z; with an infinite z radius, an upright cylinder of `height`."""

    centre: tuple[float, float, float]
    radii: tuple[float, float, float]
    yaw: float = 0.0
    height: float = np.inf  # parts farther than half of it above or below the centre are cut away

    def hit(self, origins: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        R = so3_exp(np.array([0.0, 0.0, self.yaw]))
        shrink = 1.0 / np.array(self.radii)
        local, along = (origins - np.array(self.centre)) @ R, directions @ R
        o, d = local * shrink, along * shrink
        a, b, c = (d * d).sum(1), (o * d).sum(1), (o * o).sum(1) - 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = (-b - np.sqrt(b * b - a * c)) / a
        z = local[:, 2] + np.where(np.isfinite(distance), distance, 0.0) * along[:, 2]
        met = (distance > 0) & (np.abs(z) <= 0.5 * self.height)
        distance = np.where(met, distance, np.inf)
        normals = (o + np.where(met, distance, 0.0)[:, None] * d) * shrink
        return distance, (normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)) @ R.T


@dataclass(frozen=True)
class Scene:
    shapes: Sequence[Shape]

    def cast(self, origins: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (M, 3), (M, 3)
        """The nearest surface along each ray: distances (M,), infinite where there is none, and normals (M, 3)."""
        nearest, normals = np.full(len(origins), np.inf), np.zeros_like(directions)
        for shape in self.shapes:
            distance, normal = shape.hit(origins, directions)
            closer = distance < nearest
            nearest[closer], normals[closer] = distance[closer], normal[closer]
        return nearest, normals


def small_street(seed: int = 0) -> Scene:
    """Ground, two rows of houses with balconies, kerbs, parked cars with curved roofs, lamp posts, and trees."""
    rng = np.random.default_rng(seed)
    shapes: list[Shape] = [Ground()]
    for side in (-1.0, 1.0):
        shapes.append(Box((0.0, side * 5.5, 0.075), (120.0, 3.0, 0.15)))  # the pavement's edge is the kerb
        x = -40.0
        while x < 40.0:
            width, depth, height = rng.uniform(8, 14), rng.uniform(6, 10), rng.uniform(6, 12)
            front = side * rng.uniform(8.0, 10.0)
            shapes.append(Box((x + width / 2, front + side * depth / 2, height / 2), (width, depth, height), rng.normal(0, 0.02)))
            floors = np.arange(3.0, height - 1.5, 3.0)
            shapes += [Box((x + width * rng.uniform(0.3, 0.7), front, floor), (2.5, 1.6, 0.3)) for floor in floors]
            x += width + rng.uniform(0.5, 4.0)
        for x in np.arange(-35.0, 36.0, 9.0):
            at = x + rng.uniform(-1, 1)
            if rng.random() < 0.7:
                shapes.append(Box((at, side * 3.2, 0.55), (4.2, 1.7, 0.7), rng.normal(0, 0.03)))
                shapes.append(Quadric((at - 0.2, side * 3.2, 0.85), (1.6, 0.8, 0.65), rng.normal(0, 0.03)))
            if rng.random() < 0.6:
                shapes.append(Quadric((at + 4.0, side * 5.0, 3.0), (0.09, 0.09, np.inf), height=6.0))
            elif rng.random() < 0.8:
                crown = rng.uniform(1.2, 2.0)
                shapes.append(Quadric((at + 4.0, side * 5.0, 1.5), (0.18, 0.18, np.inf), height=3.0))
                shapes.append(Quadric((at + 4.0, side * 5.0, 3.0 + crown * 0.8), (crown, crown, crown * 1.2)))
    return Scene(tuple(shapes))
