"""Surfaces whose principal curvatures are known: sphere, torus, cylinder, saddle and plane by formula, and meshes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.rivals.jets import of_neighbors
from poli.kdtree.tree import KDTree
from poli.worlds.shapes import Mesh, procedural_mesh, read_mesh


class Curved(NamedTuple):
    points: np.ndarray  # (N, 3) on the surface
    normals: np.ndarray  # (N, 3) outward
    curvatures: np.ndarray  # (N, 2), the larger first, positive towards the normals


def _sphere(count: int, rng: np.random.Generator) -> Curved:
    normals = rng.standard_normal((count, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return Curved(normals, normals, np.full((count, 2), -1.0))


def _torus(count: int, rng: np.random.Generator, large: float = 1.0, small: float = 0.4) -> Curved:
    v = rng.uniform(0.0, 2.0 * np.pi, 8 * count)
    v = v[rng.random(len(v)) < (large + small * np.cos(v)) / (large + small)][:count]  # uniform on the surface
    u = rng.uniform(0.0, 2.0 * np.pi, count)
    normals = np.stack([np.cos(v) * np.cos(u), np.cos(v) * np.sin(u), np.sin(v)], axis=1)
    points = small * normals + large * np.stack([np.cos(u), np.sin(u), 0.0 * u], axis=1)
    around = -np.cos(v) / (large + small * np.cos(v))
    return Curved(points, normals, np.stack([around, np.full(count, -1.0 / small)], axis=1))


def _cylinder(count: int, rng: np.random.Generator, radius: float = 0.5, length: float = 3.0) -> Curved:
    angle, z = rng.uniform(0.0, 2.0 * np.pi, count), rng.uniform(-0.5 * length, 0.5 * length, count)
    normals = np.stack([np.cos(angle), np.sin(angle), 0.0 * z], axis=1)
    points = radius * normals + z[:, None] * (0.0, 0.0, 1.0)
    return Curved(points, normals, np.tile([0.0, -1.0 / radius], (count, 1)))


def _saddle(count: int, rng: np.random.Generator) -> Curved:
    x, y = rng.uniform(-1.0, 1.0, (2, 8 * count))
    kept = np.flatnonzero(rng.random(8 * count) < np.sqrt((1.0 + x * x + y * y) / 3.0))[:count]  # uniform on z = (x^2 - y^2) / 2
    x, y = x[kept], y[kept]
    steep = np.sqrt(1.0 + x * x + y * y)
    E, G, L = 1.0 + x * x, 1.0 + y * y, 1.0 / steep
    mean, product = (G * L - E * L) / (2.0 * steep**2), -L * L / steep**2
    spread = np.sqrt(np.maximum(mean**2 - product, 0.0))
    normals = np.stack([-x, y, np.ones(count)], axis=1) / steep[:, None]
    return Curved(np.stack([x, y, 0.5 * (x * x - y * y)], axis=1), normals, np.stack([mean + spread, mean - spread], axis=1))


def _plane(count: int, rng: np.random.Generator) -> Curved:
    points = np.c_[rng.uniform(-1.0, 1.0, (count, 2)), np.zeros(count)]
    return Curved(points, np.tile([0.0, 0.0, 1.0], (count, 1)), np.zeros((count, 2)))


FORMULAS: dict[str, Callable[[int, np.random.Generator], Curved]] = {
    "sphere": _sphere, "torus": _torus, "cylinder": _cylinder, "saddle": _saddle, "plane": _plane,
}  # fmt: skip
_OWN_SHAPES = 90_000  # procedural shapes that no model is trained on start here
_DENSE, _AROUND = 60_000, 24  # points of a mesh, and neighbors, that define its curvature


def of_mesh(mesh: Mesh, count: int, rng: np.random.Generator) -> Curved:
    """Draw points of a mesh. Their curvatures are those of jets fitted to a cloud so dense that its jets hardly have an error."""
    dense, _ = mesh.sample(_DENSE, rng)
    center, radius = dense.mean(axis=0), np.linalg.norm(dense - dense.mean(axis=0), axis=1).max()
    points, normals = mesh.sample(count, rng)
    dense, points = (dense - center) / radius, (points - center) / radius
    around = dense[KDTree(dense).nearest(_AROUND, points)[1]] - points[:, None]
    axes = np.linalg.eigh(np.swapaxes(around, 1, 2) @ around)[1]
    return Curved(points, normals, of_neighbors(around, axes, normals))


def held_out_surfaces(own: int, meshes: Sequence[Path]) -> dict[str, Callable[[int, np.random.Generator], Curved]]:
    """Return procedural shapes that no model is trained on, and meshes, by name."""
    surfaces = {f"own {number}": partial(of_mesh, procedural_mesh(_OWN_SHAPES + number)) for number in range(own)}
    return surfaces | {path.stem: partial(of_mesh, read_mesh(path)) for path in meshes}
