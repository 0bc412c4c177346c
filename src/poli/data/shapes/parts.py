"""Machine parts: turned, extruded, drilled or ribbed, with mostly flat faces, sharp edges and thin walls."""

import numpy as np

from poli.data.shapes.blends import deformed, simple_solid
from poli.data.shapes.combine import difference, intersection, placed, repeated_around, shell, union
from poli.data.shapes.draws import chance, log_uniform, outline, rotation, turned_profile
from poli.data.shapes.implicit import Field, extrusion, revolution, rounded_box

_QUARTER_TURNS = [np.eye(3), np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]]), np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]])]


def part(rng: np.random.Generator) -> Field:
    kind = rng.choice(["extruded", "turned", "bracket", "housing", "fins", "built"])
    makers = {"extruded": _extruded, "turned": _turned, "bracket": _bracket, "housing": _housing, "fins": _fins, "built": _built}
    solid = makers[kind](rng)
    if chance(rng, 0.15):
        solid = deformed(solid, rng)
    return placed(solid, np.zeros(3), rotation(rng)) if chance(rng, 0.5) else solid


def _edge(rng: np.random.Generator) -> float:
    """The rounding radius of an edge; zero for half of the parts."""
    return 0.0 if chance(rng, 0.5) else rng.uniform(0.01, 0.06)


def _cylinder(radius: float, half_height: float) -> Field:
    return revolution(np.array([[0.0, -half_height], [radius, -half_height], [radius, half_height], [0.0, half_height]]))


def _extruded(rng: np.random.Generator) -> Field:
    half_height = log_uniform(rng, 0.05, 0.7)
    edge = min(_edge(rng), 0.4 * half_height)
    solid = extrusion(outline(rng, 0.9), half_height, edge)
    if chance(rng, 0.6):
        solid = difference(solid, _cylinder(rng.uniform(0.1, 0.4), 2.0), edge)
    return _bolted(solid, rng) if chance(rng, 0.4) else solid


def _turned(rng: np.random.Generator) -> Field:
    profile = turned_profile(rng, 0.85, rng.uniform(0.35, 0.9))
    solid = revolution(profile)
    if chance(rng, 0.4):  # a vessel
        wall = shell(solid, rng.uniform(0.05, 0.12))
        top = rng.uniform(0.3, 0.8)
        solid = intersection(wall, lambda points: points[:, 2] - top)
    elif chance(rng, 0.5):
        solid = difference(solid, _cylinder(rng.uniform(0.05, 0.2), 2.0))
    if chance(rng, 0.4):
        flute = placed(_cylinder(rng.uniform(0.04, 0.1), 2.0), np.array([rng.uniform(0.3, 0.7), 0.0, 0.0]), np.eye(3))
        solid = difference(solid, repeated_around(flute, int(rng.integers(4, 13))))
    return _bolted(solid, rng) if chance(rng, 0.3) else solid


def _bolted(solid: Field, rng: np.random.Generator) -> Field:
    """Add holes in a circle."""
    bolt = placed(_cylinder(rng.uniform(0.04, 0.1), rng.uniform(0.2, 2.0)), np.array([rng.uniform(0.4, 0.75), 0.0, 0.0]), np.eye(3))
    circle = repeated_around(bolt, int(rng.integers(3, 9)))
    return difference(solid, circle)


def _bracket(rng: np.random.Generator) -> Field:
    """Thin plates at right angles, with ribs and holes."""
    thick = rng.uniform(0.03, 0.08)
    edge = min(_edge(rng), 0.9 * thick)
    plates: list[Field] = []
    for k in range(int(rng.integers(2, 6))):
        sides = np.array([rng.uniform(0.4, 0.85), rng.uniform(0.3, 0.8), thick])
        offset = np.array([0.0, 0.0, rng.uniform(-0.5, 0.5)])
        turn = _QUARTER_TURNS[k % 3]
        plate = rounded_box(sides, edge)
        if chance(rng, 0.5):
            place = np.r_[rng.uniform(-0.4, 0.4, 2), 0.0]
            plate = difference(plate, placed(_cylinder(rng.uniform(0.08, 0.25), 1.0), place, np.eye(3)))
        plates.append(placed(plate, turn @ offset, turn))
    return union(plates, edge)


def _housing(rng: np.random.Generator) -> Field:
    """A box with thin walls, open on one side, with posts inside and holes in the walls."""
    sides, wall = rng.uniform(0.3, 0.85, 3), rng.uniform(0.05, 0.1)
    edge = _edge(rng)
    inner = placed(rounded_box(sides - wall, 0.5 * edge), np.array([0.0, 0.0, 2.0 * wall]), np.eye(3))
    parts = [difference(rounded_box(sides, edge), inner)]
    for _ in range(int(rng.integers(0, 4))):
        post = _cylinder(rng.uniform(0.05, 0.12), rng.uniform(0.3, 0.9) * sides[2])
        parts.append(placed(post, np.r_[rng.uniform(-0.7, 0.7, 2) * sides[:2], -0.1], np.eye(3)))
    solid = union(parts)
    for k in range(int(rng.integers(0, 3))):
        turn = _QUARTER_TURNS[1 + k % 2]
        hole = extrusion(outline(rng, rng.uniform(0.1, 0.25)), 2.0)
        solid = difference(solid, placed(hole, rng.uniform(-0.3, 0.3, 3), turn))
    return intersection(solid, lambda points: points[:, 2] - (sides[2] - 1.5 * wall))


def _fins(rng: np.random.Generator) -> Field:
    """A heat sink: parallel plates on a base or around a core."""
    thick, gap = rng.uniform(0.045, 0.08), rng.uniform(0.14, 0.3)
    count = int(rng.integers(3, 8))
    if chance(rng, 0.4):
        blade = placed(rounded_box(np.array([0.45, 0.5 * thick, 0.6]), 0.0), np.array([0.45, 0.0, 0.0]), np.eye(3))
        return union([repeated_around(blade, count + 3), _cylinder(0.25, rng.uniform(0.3, 0.8))], _edge(rng))
    half_width = 0.5 * gap * (count - 1)
    fin = rounded_box(np.array([0.5 * thick, rng.uniform(0.3, 0.8), rng.uniform(0.3, 0.6)]), 0.0)

    def row(points: np.ndarray) -> np.ndarray:
        nearest = np.clip(np.round((points[:, 0] + half_width) / gap), 0, count - 1) * gap - half_width
        return fin(np.stack([points[:, 0] - nearest, points[:, 1], points[:, 2]], axis=1))

    foot = rounded_box(np.array([half_width + thick, 0.6, 0.08]), 0.0)
    return union([row, placed(foot, np.array([0.0, 0.0, rng.uniform(-0.5, 0.0)]), np.eye(3))], _edge(rng))


def _built(rng: np.random.Generator) -> Field:
    """Axis-aligned solids, joined and cut without blending."""
    solid = simple_solid(rng, 0.8)
    for _ in range(int(rng.integers(2, 6))):
        turn = _QUARTER_TURNS[rng.integers(3)]
        other = placed(simple_solid(rng, rng.uniform(0.25, 0.6)), rng.uniform(-0.5, 0.5, 3), turn)
        solid = difference(solid, other) if chance(rng, 0.4) else union([solid, other])
    return solid
