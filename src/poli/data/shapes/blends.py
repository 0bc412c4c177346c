"""Simple solids that are blended, cut, hollowed, warped and given relief."""

import numpy as np

from poli.data.shapes import relief
from poli.data.shapes.combine import bent, difference, intersection, placed, shell, tapered, twisted, union, warped
from poli.data.shapes.draws import chance, direction, log_uniform, outline, rotation, smooth_curve, turned_profile
from poli.data.shapes.implicit import Field, ellipsoid, extrusion, limbs, revolution, rounded_box, superquadric, torus
from poli.data.shapes.relief import with_skin


def blend_of_solids(rng: np.random.Generator) -> Field:
    kind = str(rng.choice(["cluster", "open shell", "tangle", "sheets"], p=[0.4, 0.2, 0.2, 0.2]))
    solid = {"cluster": _cluster, "open shell": _open_shell, "tangle": _tangle, "sheets": _sheets}[kind](rng)
    if chance(rng, 0.5):
        solid = deformed(solid, rng)
    highest = 0.015 if kind in ("open shell", "sheets") else 0.05
    return with_skin(solid, rng, highest) if chance(rng, 0.7) else solid


def simple_solid(rng: np.random.Generator, size: float) -> Field:
    """One solid of about radius `size`."""
    kind = rng.choice(["ellipsoid", "superquadric", "box", "torus", "extrusion", "revolution", "capsule"])
    if kind == "ellipsoid":
        return ellipsoid(size * rng.uniform(0.25, 1.0, 3))
    if kind == "superquadric":
        return superquadric(size * rng.uniform(0.3, 0.9, 3), rng.uniform(0.25, 1.8), rng.uniform(0.25, 1.8))
    if kind == "box":
        sides = size * rng.uniform(0.12, 0.8, 3)
        return rounded_box(sides, rng.uniform(0.0, 0.6) * sides.min())
    if kind == "torus":
        return torus(0.75 * size, size * rng.uniform(0.08, 0.3))
    if kind == "extrusion":
        return extrusion(outline(rng, size), size * log_uniform(rng, 0.08, 0.7))
    if kind == "revolution":
        return revolution(turned_profile(rng, size, rng.uniform(0.4, 0.9) * size))
    ends = size * rng.uniform(-0.8, 0.8, (1, 2, 3))
    return limbs(ends, size * rng.uniform(0.1, 0.4, (1, 2)), 0.0)


def deformed(solid: Field, rng: np.random.Generator) -> Field:
    """The solid twisted, bent, tapered or warped, at random and by a random amount."""
    kind = rng.choice(["twist", "bend", "taper", "warp"])
    if kind == "twist":
        return twisted(solid, rng.uniform(-2.0, 2.0))
    if kind == "bend":
        return bent(solid, rng.uniform(-0.6, 0.6))
    if kind == "taper":
        return tapered(solid, rng.uniform(-0.6, 0.6))
    amount, wavelength = rng.uniform(0.05, 0.2), rng.uniform(0.7, 1.2)
    shifts = [relief.fractal(rng, wavelength, 1) for _ in range(3)]
    return warped(solid, [lambda points, shift=shift: amount * shift(points) for shift in shifts])  # type: ignore[misc]


def _cluster(rng: np.random.Generator) -> Field:
    blend = log_uniform(rng, 0.02, 0.25)
    solid = placed(simple_solid(rng, 0.75), np.zeros(3), rotation(rng))
    for _ in range(int(rng.integers(2, 7))):
        other = placed(simple_solid(rng, rng.uniform(0.25, 0.6)), rng.uniform(0.2, 0.75) * direction(rng), rotation(rng))
        solid = difference(solid, other, blend) if chance(rng, 0.3) else union([solid, other], blend)
    return solid


def _open_shell(rng: np.random.Generator) -> Field:
    """Thin walls visible from both sides: bowls, masks, broken pots."""
    body = simple_solid(rng, 0.9)
    if chance(rng, 0.5):
        body = union([body, placed(simple_solid(rng, 0.6), 0.5 * direction(rng), rotation(rng))], 0.15)
    wall = shell(body, rng.uniform(0.045, 0.12))
    for _ in range(int(rng.integers(1, 3))):
        side, depth = direction(rng), rng.uniform(0.05, 0.4)
        edge = relief.fractal(rng, 0.4, 2)
        rough = rng.choice([0.0, 0.1])
        wall = intersection(wall, lambda p, s=side, d=depth, e=edge, r=rough: p @ s - d + r * e(p), 0.01)  # type: ignore[misc]
    return wall


def _tangle(rng: np.random.Generator) -> Field:
    """Tubes along random curves, and helices."""
    tubes: list[Field] = []
    for _ in range(int(rng.integers(1, 4))):
        radius = rng.uniform(0.04, 0.13)
        if chance(rng, 0.4):
            turns, ring = rng.uniform(1.5, 4.0), rng.uniform(0.25, 0.6)
            t = np.linspace(-1.0, 1.0, int(16 * turns))
            path = np.stack([ring * np.cos(np.pi * turns * t), ring * np.sin(np.pi * turns * t), 0.75 * t], axis=1) @ rotation(rng)
        else:
            path = smooth_curve(rng.uniform(-0.75, 0.75, (int(rng.integers(4, 8)), 3)), 40)
        radii = radius * np.linspace(1.0, rng.uniform(0.4, 1.0), len(path))
        ends = np.stack([path[:-1], path[1:]], axis=1)
        tubes.append(limbs(ends, np.stack([radii[:-1], radii[1:]], axis=1), 0.0))
    if chance(rng, 0.5):
        tubes.append(simple_solid(rng, 0.5))
    return union(tubes, rng.uniform(0.0, 0.08))


def _sheets(rng: np.random.Generator) -> Field:
    """Nearly parallel wavy sheets, close together, on a common root: petals, pages, cloth."""
    gap = rng.uniform(0.1, 0.22)
    thickness = gap * rng.uniform(0.35, 0.55)
    wave = relief.fractal(rng, rng.uniform(0.5, 1.0), 2)
    ripple = relief.folds(rng, rng.uniform(0.2, 0.5), np.array([1.0, 0.0, 0.0]))
    bend, curl = rng.uniform(0.05, 0.3), rng.uniform(0.0, 0.04)
    count = int(rng.integers(1, 5))
    bound = extrusion(outline(rng, 0.9), 0.7)

    def stack(points: np.ndarray) -> np.ndarray:
        height = points[:, 2] + bend * wave(points) + curl * ripple(points)
        nearest = np.clip(np.round(height / gap), -count // 2, count - 1 - count // 2)
        return np.abs(height - gap * nearest) - 0.5 * thickness

    root = placed(
        rounded_box(np.array([0.08, 0.5, 0.5 * gap * count + 0.1]), 0.04), np.array([rng.uniform(-0.3, 0.3), 0, 0]), np.eye(3)
    )
    return union([intersection(stack, bound, 0.01), root], 0.03)
