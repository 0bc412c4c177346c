"""One random shape per seed: figures and animals, blends of solids, and machine parts."""

import numpy as np

from poli.errors import DegenerateError
from poli.options import whole_number
from poli.worlds.shapes import fields, relief
from poli.worlds.shapes.fields import Field
from poli.worlds.shapes.figures import creature, statue
from poli.worlds.shapes.mesh import Mesh
from poli.worlds.shapes.polygonize import outer_components, polygonize
from poli.worlds.shapes.relief import chance, direction, log_uniform, outline, rotation, smooth_curve, turned_profile, with_skin


def blend_of_solids(rng: np.random.Generator) -> Field:
    """Simple solids that are blended, cut, hollowed, warped and given relief."""
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
        return fields.ellipsoid(size * rng.uniform(0.25, 1.0, 3))
    if kind == "superquadric":
        return fields.superquadric(size * rng.uniform(0.3, 0.9, 3), rng.uniform(0.25, 1.8), rng.uniform(0.25, 1.8))
    if kind == "box":
        sides = size * rng.uniform(0.12, 0.8, 3)
        return fields.rounded_box(sides, rng.uniform(0.0, 0.6) * sides.min())
    if kind == "torus":
        return fields.torus(0.75 * size, size * rng.uniform(0.08, 0.3))
    if kind == "extrusion":
        return fields.extrusion(outline(rng, size), size * log_uniform(rng, 0.08, 0.7))
    if kind == "revolution":
        return fields.revolution(turned_profile(rng, size, rng.uniform(0.4, 0.9) * size))
    ends = size * rng.uniform(-0.8, 0.8, (1, 2, 3))
    return fields.limbs(ends, size * rng.uniform(0.1, 0.4, (1, 2)), 0.0)


def deformed(solid: Field, rng: np.random.Generator) -> Field:
    """The solid twisted, bent, tapered or warped, at random and by a random amount."""
    kind = rng.choice(["twist", "bend", "taper", "warp"])
    if kind == "twist":
        return fields.twisted(solid, rng.uniform(-2.0, 2.0))
    if kind == "bend":
        return fields.bent(solid, rng.uniform(-0.6, 0.6))
    if kind == "taper":
        return fields.tapered(solid, rng.uniform(-0.6, 0.6))
    amount, wavelength = rng.uniform(0.05, 0.2), rng.uniform(0.7, 1.2)
    shifts = [relief.fractal(rng, wavelength, 1) for _ in range(3)]
    return fields.warped(solid, [lambda points, shift=shift: amount * shift(points) for shift in shifts])  # type: ignore[misc]


def _cluster(rng: np.random.Generator) -> Field:
    blend = log_uniform(rng, 0.02, 0.25)
    solid = fields.placed(simple_solid(rng, 0.75), np.zeros(3), rotation(rng))
    for _ in range(int(rng.integers(2, 7))):
        other = fields.placed(simple_solid(rng, rng.uniform(0.25, 0.6)), rng.uniform(0.2, 0.75) * direction(rng), rotation(rng))
        solid = fields.difference(solid, other, blend) if chance(rng, 0.3) else fields.union([solid, other], blend)
    return solid


def _open_shell(rng: np.random.Generator) -> Field:
    """Thin walls visible from both sides: bowls, masks, broken pots."""
    body = simple_solid(rng, 0.9)
    if chance(rng, 0.5):
        body = fields.union([body, fields.placed(simple_solid(rng, 0.6), 0.5 * direction(rng), rotation(rng))], 0.15)
    wall = fields.shell(body, rng.uniform(0.045, 0.12))
    for _ in range(int(rng.integers(1, 3))):
        side, depth = direction(rng), rng.uniform(0.05, 0.4)
        edge = relief.fractal(rng, 0.4, 2)
        rough = rng.choice([0.0, 0.1])
        wall = fields.intersection(wall, lambda p, s=side, d=depth, e=edge, r=rough: p @ s - d + r * e(p), 0.01)  # type: ignore[misc]
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
        tubes.append(fields.limbs(ends, np.stack([radii[:-1], radii[1:]], axis=1), 0.0))
    if chance(rng, 0.5):
        tubes.append(simple_solid(rng, 0.5))
    return fields.union(tubes, rng.uniform(0.0, 0.08))


def _sheets(rng: np.random.Generator) -> Field:
    """Nearly parallel wavy sheets, close together, on a common root: petals, pages, cloth."""
    gap = rng.uniform(0.1, 0.22)
    thickness = gap * rng.uniform(0.35, 0.55)
    wave = relief.fractal(rng, rng.uniform(0.5, 1.0), 2)
    ripple = relief.folds(rng, rng.uniform(0.2, 0.5), np.array([1.0, 0.0, 0.0]))
    bend, curl = rng.uniform(0.05, 0.3), rng.uniform(0.0, 0.04)
    count = int(rng.integers(1, 5))
    bound = fields.extrusion(outline(rng, 0.9), 0.7)

    def stack(points: np.ndarray) -> np.ndarray:
        height = points[:, 2] + bend * wave(points) + curl * ripple(points)
        nearest = np.clip(np.round(height / gap), -count // 2, count - 1 - count // 2)
        return np.abs(height - gap * nearest) - 0.5 * thickness

    root = fields.placed(fields.rounded_box(np.array([0.08, 0.5, 0.5 * gap * count + 0.1]), 0.04), [rng.uniform(-0.3, 0.3), 0, 0])
    return fields.union([fields.intersection(stack, bound, 0.01), root], 0.03)


_QUARTER_TURNS = [np.eye(3), np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]]), np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]])]


def part(rng: np.random.Generator) -> Field:
    """A machine part: turned, extruded, drilled or ribbed, with mostly flat faces, sharp edges and thin walls."""
    kind = rng.choice(["extruded", "turned", "bracket", "housing", "fins", "built"])
    makers = {"extruded": _extruded, "turned": _turned, "bracket": _bracket, "housing": _housing, "fins": _fins, "built": _built}
    solid = makers[kind](rng)
    if chance(rng, 0.15):
        solid = deformed(solid, rng)
    return fields.placed(solid, np.zeros(3), rotation(rng)) if chance(rng, 0.5) else solid


def _edge(rng: np.random.Generator) -> float:
    """The rounding radius of an edge; zero for half of the parts."""
    return 0.0 if chance(rng, 0.5) else rng.uniform(0.01, 0.06)


def _cylinder(radius: float, half_height: float) -> Field:
    return fields.revolution(np.array([[0.0, -half_height], [radius, -half_height], [radius, half_height], [0.0, half_height]]))


def _extruded(rng: np.random.Generator) -> Field:
    half_height = log_uniform(rng, 0.05, 0.7)
    edge = min(_edge(rng), 0.4 * half_height)
    solid = fields.extrusion(outline(rng, 0.9), half_height, edge)
    if chance(rng, 0.6):
        solid = fields.difference(solid, _cylinder(rng.uniform(0.1, 0.4), 2.0), edge)
    return _bolted(solid, rng) if chance(rng, 0.4) else solid


def _turned(rng: np.random.Generator) -> Field:
    profile = turned_profile(rng, 0.85, rng.uniform(0.35, 0.9))
    solid = fields.revolution(profile)
    if chance(rng, 0.4):  # a vessel
        wall = fields.shell(solid, rng.uniform(0.05, 0.12))
        top = rng.uniform(0.3, 0.8)
        solid = fields.intersection(wall, lambda points: points[:, 2] - top)
    elif chance(rng, 0.5):
        solid = fields.difference(solid, _cylinder(rng.uniform(0.05, 0.2), 2.0))
    if chance(rng, 0.4):
        flute = fields.placed(_cylinder(rng.uniform(0.04, 0.1), 2.0), np.array([rng.uniform(0.3, 0.7), 0.0, 0.0]))
        solid = fields.difference(solid, fields.repeated_around(flute, int(rng.integers(4, 13))))
    return _bolted(solid, rng) if chance(rng, 0.3) else solid


def _bolted(solid: Field, rng: np.random.Generator) -> Field:
    """Add holes in a circle."""
    bolt = fields.placed(_cylinder(rng.uniform(0.04, 0.1), rng.uniform(0.2, 2.0)), [rng.uniform(0.4, 0.75), 0.0, 0.0])
    return fields.difference(solid, fields.repeated_around(bolt, int(rng.integers(3, 9))))


def _bracket(rng: np.random.Generator) -> Field:
    """Thin plates at right angles, with ribs and holes."""
    thick = rng.uniform(0.03, 0.08)
    edge = min(_edge(rng), 0.9 * thick)
    plates: list[Field] = []
    for k in range(int(rng.integers(2, 6))):
        sides = np.array([rng.uniform(0.4, 0.85), rng.uniform(0.3, 0.8), thick])
        offset = np.array([0.0, 0.0, rng.uniform(-0.5, 0.5)])
        turn = _QUARTER_TURNS[k % 3]
        plate = fields.rounded_box(sides, edge)
        if chance(rng, 0.5):
            place = np.r_[rng.uniform(-0.4, 0.4, 2), 0.0]
            plate = fields.difference(plate, fields.placed(_cylinder(rng.uniform(0.08, 0.25), 1.0), place))
        plates.append(fields.placed(plate, turn @ offset, turn))
    return fields.union(plates, edge)


def _housing(rng: np.random.Generator) -> Field:
    """A box with thin walls, open on one side, with posts inside and holes in the walls."""
    sides, wall = rng.uniform(0.3, 0.85, 3), rng.uniform(0.05, 0.1)
    edge = _edge(rng)
    inner = fields.placed(fields.rounded_box(sides - wall, 0.5 * edge), np.array([0.0, 0.0, 2.0 * wall]))
    parts = [fields.difference(fields.rounded_box(sides, edge), inner)]
    for _ in range(int(rng.integers(0, 4))):
        post = _cylinder(rng.uniform(0.05, 0.12), rng.uniform(0.3, 0.9) * sides[2])
        parts.append(fields.placed(post, np.r_[rng.uniform(-0.7, 0.7, 2) * sides[:2], -0.1]))
    solid = fields.union(parts)
    for k in range(int(rng.integers(0, 3))):
        turn = _QUARTER_TURNS[1 + k % 2]
        hole = fields.extrusion(outline(rng, rng.uniform(0.1, 0.25)), 2.0)
        solid = fields.difference(solid, fields.placed(hole, rng.uniform(-0.3, 0.3, 3), turn))
    return fields.intersection(solid, lambda points: points[:, 2] - (sides[2] - 1.5 * wall))


def _fins(rng: np.random.Generator) -> Field:
    """A heat sink: parallel plates on a base or around a core."""
    thick, gap = rng.uniform(0.045, 0.08), rng.uniform(0.14, 0.3)
    count = int(rng.integers(3, 8))
    if chance(rng, 0.4):
        blade = fields.placed(fields.rounded_box(np.array([0.45, 0.5 * thick, 0.6]), 0.0), np.array([0.45, 0.0, 0.0]))
        return fields.union([fields.repeated_around(blade, count + 3), _cylinder(0.25, rng.uniform(0.3, 0.8))], _edge(rng))
    half_width = 0.5 * gap * (count - 1)
    fin = fields.rounded_box(np.array([0.5 * thick, rng.uniform(0.3, 0.8), rng.uniform(0.3, 0.6)]), 0.0)

    def row(points: np.ndarray) -> np.ndarray:
        nearest = np.clip(np.round((points[:, 0] + half_width) / gap), 0, count - 1) * gap - half_width
        return fin(np.stack([points[:, 0] - nearest, points[:, 1], points[:, 2]], axis=1))

    foot = fields.rounded_box(np.array([half_width + thick, 0.6, 0.08]), 0.0)
    return fields.union([row, fields.placed(foot, np.array([0.0, 0.0, rng.uniform(-0.5, 0.0)]))], _edge(rng))


def _built(rng: np.random.Generator) -> Field:
    """Axis-aligned solids, joined and cut without blending."""
    solid = simple_solid(rng, 0.8)
    for _ in range(int(rng.integers(2, 6))):
        turn = _QUARTER_TURNS[rng.integers(3)]
        other = fields.placed(simple_solid(rng, rng.uniform(0.25, 0.6)), rng.uniform(-0.5, 0.5, 3), turn)
        solid = fields.difference(solid, other) if chance(rng, 0.4) else fields.union([solid, other])
    return solid


_KINDS = {creature: 0.25, statue: 0.15, blend_of_solids: 0.3, part: 0.3}
_LEAST_VOLUME = 1e-3  # of a normalized mesh, whose bounding ball has volume 4.2; smaller shapes are splinters
_MOST_DRAWS = 50


def procedural_mesh(seed: int, resolution: int = 96) -> Mesh:
    """Return the shape of this seed, always the same: closed, facing outward, normalized, with `resolution` grid cells along its
    length."""
    rng = np.random.default_rng(whole_number(seed, "seed", 0))
    resolution = whole_number(resolution, "resolution", 8)
    for _ in range(_MOST_DRAWS):
        field = random_field(rng)
        try:
            mesh = outer_components(polygonize(field, resolution)).normalized()
        except DegenerateError:
            continue
        if mesh.volume > _LEAST_VOLUME:
            return mesh
    raise DegenerateError(f"seed {seed}: none of {_MOST_DRAWS} random shapes had a volume at resolution {resolution}")


def random_field(rng: np.random.Generator) -> Field:
    """A random solid within about 1.5 of the origin."""
    makers = list(_KINDS)
    return makers[rng.choice(len(makers), p=list(_KINDS.values()))](rng)
