"""Objects outdoors, on z = 0 and facing +x: street furniture, vehicles, and trees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.worlds.places.solids import (
    NOTHING,
    beams,
    boxes,
    copies,
    ellipsoid,
    fan,
    from_quads,
    joined,
    lathe,
    post,
    prism,
    rows_of,
    surface,
    tube,
    turned,
)


def lamp(rng: np.random.Generator) -> np.ndarray:
    """A post with a curved or straight arm over the road, or a lantern on top."""
    tall, thick = rng.uniform(4.0, 9.0), rng.uniform(0.05, 0.11)
    base = lathe([[1.9 * thick, -0.4], [1.9 * thick, 0.5], [thick, 0.7]], 10)
    if tall < 5.0:
        lantern = lathe([[0.05, tall - 0.1], [0.2, tall], [0.28, tall + 0.45], [0.02, tall + 0.7]], 8)
        return joined(base, post(tall, thick, 0.6 * thick, 10), lantern)
    reach, t = rng.uniform(0.8, 2.4), np.linspace(0, 1, 7)[:, None]
    curve = np.array([0, 0, tall - 1.0]) + t * [reach, 0, 0] + (1 - (1 - t) ** 2) * [0, 0, 1.2]
    head = ellipsoid((0.38, 0.15, 0.08), 10, 6) + curve[-1] + [0.2, 0, 0]
    return joined(base, post(tall - 1.0, thick, 0.7 * thick, 10), tube(curve, 0.55 * thick, 8), head)


def sign(rng: np.random.Generator) -> np.ndarray:
    """A round, triangular or square sign, or a large board, on one or two posts."""
    tall, size = rng.uniform(2.1, 2.9), rng.uniform(0.3, 0.45)
    shape = rng.choice(["round", "triangle", "square", "board"])
    if shape == "board":
        wide, high = rng.uniform(1.0, 2.6), rng.uniform(0.6, 1.4)
        posts = [post(tall + high, 0.045, sides=6) + [0, y, 0] for y in (-0.35 * wide, 0.35 * wide)]
        return joined(*posts, boxes((0.06, 0, tall + high / 2), (0.03, wide, high)))
    corners = {"round": 14, "triangle": 3, "square": 4}[str(shape)]
    angle = np.arange(corners) * (2 * np.pi / corners) + (np.pi / 4 if corners == 4 else np.pi / 2)
    plate = prism(size * np.stack([np.cos(angle), np.sin(angle)], axis=1), -0.012, 0.012)[..., [2, 0, 1]]
    return joined(post(tall + size, 0.035, sides=6), plate + [0.06, 0, tall])


def signal(rng: np.random.Generator) -> np.ndarray:
    """Traffic lights on a post, some with an arm over the road."""
    head = joined(boxes((0, 0, 0), (0.25, 0.3, 0.9)), *[tube([[0.1, 0, z], [0.32, 0, z]], 0.11, 8) for z in (-0.28, 0, 0.28)])
    tall = rng.uniform(2.4, 3.2)
    parts = [post(tall + 0.6, 0.06, sides=8), head + [0.2, 0, tall]]
    if rng.random() < 0.4:
        reach = rng.uniform(2.0, 3.0)
        parts += [post(5.8, 0.09, 0.06, 8), tube([[0, 0, 5.6], [0, reach, 5.9]], 0.05, 6), head + [0.2, reach, 5.6]]
    return joined(*parts)


def bollard(rng: np.random.Generator) -> np.ndarray:
    """A bollard."""
    r, tall = rng.uniform(0.06, 0.16), rng.uniform(0.6, 1.1)
    return lathe([[r, -0.2], [r, 0.8 * tall], [1.2 * r, 0.83 * tall], [1.1 * r, 0.95 * tall], [0.01, tall]], 10)


def bin_(rng: np.random.Generator) -> np.ndarray:
    """A wheeled bin or a round litter bin."""
    if rng.random() < 0.5:  # a wheeled bin
        wide, tall = rng.uniform(0.45, 1.2), rng.uniform(0.9, 1.2)
        deep, broad, high = [0.25, 0.3, 0.34, 0.2], [0.42, 0.5, 0.53, 0.5], [-0.1, tall, tall + 0.03, tall + 0.13]
        rings = [
            np.array([[-a, -b * wide, z], [a, -b * wide, z], [a, b * wide, z], [-a, b * wide, z]])
            for a, b, z in zip(deep, broad, high, strict=True)
        ]
        return joined(surface(np.stack(rings), close=True), fan(rings[-1]))
    r = rng.uniform(0.18, 0.3)
    return lathe([[0.8 * r, -0.1], [r, 0.75], [1.1 * r, 0.8], [0.7 * r, 0.95], [0.02, 1.0]], 12)


def bench(rng: np.random.Generator) -> np.ndarray:
    """A bench with a back of slats."""
    wide, slats = rng.uniform(1.4, 2.2), int(rng.integers(3, 6))
    x = np.linspace(-0.2, 0.2, slats)
    seat = boxes((x, 0.0, 0.45 + 0.05 * (x / 0.2) ** 2), [0.3 / slats, wide, 0.04])
    back = boxes((-0.26 - 0.06 * np.arange(3), 0.0, 0.6 + 0.14 * np.arange(3)), [0.04, wide, 0.1])
    legs = boxes(np.array([[0, y, 0.18] for y in (-0.4 * wide, 0.4 * wide)]), [0.45, 0.07, 0.56])
    return joined(seat, back, legs)


def shelter(rng: np.random.Generator) -> np.ndarray:
    """A bus shelter: a curved roof on posts, a back wall of panels, a seat."""
    wide, deep, tall = rng.uniform(2.5, 5.0), rng.uniform(1.2, 1.7), rng.uniform(2.2, 2.6)
    x = np.linspace(-0.6, 0.6, 8) * deep
    arch = np.stack([rows_of((x, y, tall + 0.25 * np.cos(x / deep * 2.2))) for y in (-wide / 2, wide / 2)])
    feet = np.array([[a * deep, b * wide, -0.3] for a in (-0.45, 0.45) for b in (-0.48, 0.0, 0.48)])
    panels = boxes(np.array([[-0.45 * deep, b * wide, 1.15] for b in (-0.24, 0.24)]), [0.03, 0.44 * wide, 1.8])
    seat = boxes((-0.25 * deep, 0, 0.5), (0.35, 0.7 * wide, 0.05))
    return joined(surface(arch), beams(feet, feet + [0, 0, tall + 0.4], 0.08, 6), panels, seat)


def bicycle(rng: np.random.Generator) -> np.ndarray:
    """A bicycle."""
    angle = np.linspace(0, 2 * np.pi, 17)
    wheel = tube(np.stack([0.34 * np.cos(angle), 0 * angle, 0.34 + 0.34 * np.sin(angle)], axis=1), 0.025, 5)
    joints = np.array([[-0.52, 0, 0.34], [-0.1, 0, 0.32], [-0.2, 0, 0.85], [0.38, 0, 0.8], [0.52, 0, 0.34], [0.33, 0, 1.0]])
    tubes = beams(joints[[0, 1, 2, 1, 3, 0, 3]], joints[[1, 2, 3, 3, 4, 2, 5]], 0.05, 5)
    bar = tube([[0.25, -0.28, 1.02], [0.35, 0, 1.02], [0.25, 0.28, 1.02]], 0.02, 5)
    return joined(wheel + [-0.52, 0, 0], wheel + [0.52, 0, 0], tubes, bar, boxes((-0.22, 0, 0.9), (0.26, 0.14, 0.06)))


def bicycle_rack(rng: np.random.Generator) -> np.ndarray:
    """Hoops, most with a bicycle."""
    n = int(rng.integers(3, 9))
    spots = rows_of((rng.normal(0, 0.05, n), (np.arange(n) - n / 2) * 0.6, 0.0))
    hoop = np.array([[-0.4, 0, -0.1], [-0.4, 0, 0.65], [-0.3, 0, 0.78], [0.3, 0, 0.78], [0.4, 0, 0.65], [0.4, 0, -0.1]])
    used = spots[rng.random(n) < 0.7]
    parts = [copies(tube(hoop, 0.025, 6), spots)]
    return joined(*[*parts, copies(bicycle(rng), used + [0, 0.2, 0], rng.normal(0, 0.08, len(used)))] if len(used) else parts)


def person(rng: np.random.Generator) -> np.ndarray:
    """A figure of rounded limbs, standing or walking."""
    tall, step, wide = rng.uniform(1.5, 1.9), rng.uniform(-0.35, 0.35), rng.uniform(0.17, 0.23)
    hip, shoulder = 0.52 * tall, 0.82 * tall
    parts = [ellipsoid((0.1, 0.09, 0.13), 10, 6) + [0, 0, 0.93 * tall]]
    heights = [hip - 0.05, hip + 0.1, 0.65 * tall, shoulder - 0.08, shoulder, shoulder + 0.05]
    parts.append(lathe((np.array([0.9, 1.0, 0.85, 1.15, 0.9, 0.3]) * wide, heights), 12) * [0.65, 1.0, 1.0])
    for side in (-1, 1):
        swing = side * step
        leg = np.array([[0, side * 0.1, hip], [0.4 * swing + 0.03, side * 0.1, 0.5 * hip], [swing, side * 0.1, 0.0]])
        elbow, hand = [-0.3 * swing, side * wide * 1.4, 0.66 * tall], [-swing + 0.1, side * wide * 1.3, hip]
        arm = [[0, side * wide * 1.15, shoulder - 0.05], elbow, hand]
        parts += [tube(leg, [0.09, 0.07, 0.05], 8), tube(arm, [0.06, 0.05, 0.035], 7)]
    return joined(*parts)


def planter(rng: np.random.Generator) -> np.ndarray:
    """A round planter."""
    r, tall = rng.uniform(0.4, 0.9), rng.uniform(0.4, 0.8)
    return lathe([[0.8 * r, -0.1], [r, tall], [0.9 * r, tall], [0.85 * r, tall - 0.1], [0.05, tall - 0.05]], 14)


def cabinet(rng: np.random.Generator) -> np.ndarray:
    """A switch cabinet."""
    wide, deep, tall = rng.uniform(0.5, 1.6), rng.uniform(0.3, 0.6), rng.uniform(0.8, 1.6)
    return joined(boxes((0, 0, tall / 2 - 0.1), (deep, wide, tall + 0.2)), boxes((0, 0, tall), (deep + 0.08, wide + 0.08, 0.06)))


# Roof outlines from rear to front: shares of the length, and of the height there.
_SHAPES = {
    "saloon": ((0.0, 0.02, 0.17, 0.32, 0.42, 0.55, 0.72, 0.95, 1.0), (0.5, 0.62, 0.67, 0.97, 1.0, 0.98, 0.65, 0.52, 0.38)),
    "hatch": ((0.0, 0.02, 0.1, 0.2, 0.45, 0.58, 0.75, 0.96, 1.0), (0.45, 0.62, 0.9, 0.98, 1.0, 0.96, 0.64, 0.52, 0.36)),
    "estate": ((0.0, 0.02, 0.06, 0.3, 0.58, 0.74, 0.96, 1.0), (0.5, 0.7, 0.93, 1.0, 0.97, 0.66, 0.54, 0.36)),
    "van": ((0.0, 0.01, 0.05, 0.6, 0.74, 0.86, 0.97, 1.0), (0.5, 0.93, 1.0, 1.0, 0.94, 0.58, 0.47, 0.3)),
    "bus": ((0.0, 0.005, 0.02, 0.96, 0.985, 1.0), (0.5, 0.95, 1.0, 1.0, 0.9, 0.4)),
    "cab": ((0.0, 0.02, 0.2, 0.75, 0.93, 1.0), (0.5, 0.97, 1.0, 0.98, 0.5, 0.3)),
}
_SIZES = {  # ranges of length, width and height
    "saloon": ((4.2, 5.0), (1.7, 1.9), (1.38, 1.5)),
    "hatch": ((3.5, 4.3), (1.62, 1.82), (1.42, 1.62)),
    "estate": ((4.3, 4.9), (1.72, 1.95), (1.45, 1.8)),
    "van": ((4.6, 6.4), (1.85, 2.1), (1.9, 2.7)),
    "bus": ((9.0, 12.5), (2.4, 2.55), (2.9, 3.3)),
    "cab": ((1.9, 2.4), (2.2, 2.5), (2.4, 3.2)),
}


@dataclass(frozen=True)
class Vehicle:
    """A vehicle: x forward, z up, origin on the ground below its center."""

    triangles: np.ndarray  # (F, 3, 3)
    length: float
    width: float


def _body(
    rng: np.random.Generator, shape: str, length: float, width: float, height: float, wheels: np.ndarray, radius: float
) -> np.ndarray:
    """The shell: for each station along the car, half a section from the sill to the roof, and its mirror image."""
    control = rows_of(_SHAPES[shape])
    control = control + rng.normal(0, 0.008, control.shape) * [length < 8, 1]
    control[0, 0], control[-1, 0] = 0.0, 1.0
    count = 26 if length < 8 else 48
    t = np.unique(np.concatenate([0.5 - 0.5 * np.cos(np.linspace(0, np.pi, count)), control[:, 0].clip(0, 1)]))
    top = height * np.interp(t, np.sort(control[:, 0]), control[:, 1])
    top[1:-1] = 0.25 * top[:-2] + 0.5 * top[1:-1] + 0.25 * top[2:]  # round the creases
    x = (t - 0.5) * length
    end = np.abs(2 * t - 1) ** 7
    belt = np.minimum(top - 0.05 * height * (1 - 0.5 * end), rng.uniform(0.58, 0.64) * height)
    half = 0.5 * width * (1 - 0.22 * end)
    lean = rng.uniform(0.15, 0.3) if length < 7 else 0.06
    crown = half * (1 - lean * np.clip((top - belt) / (0.4 * height), 0, 1) - 0.08)
    sill = np.full_like(x, 0.55 * radius) + 0.12 * height * end
    arch = np.sqrt(np.maximum((1.18 * radius) ** 2 - (x[:, None] - wheels) ** 2, 0.0)).max(axis=1) + radius * 0.9
    low = np.where(np.abs(x[:, None] - wheels).min(axis=1) < 1.18 * radius, np.maximum(sill, np.minimum(arch, 0.95 * belt)), sill)
    y = np.stack(
        [0 * half, 0.7 * half, half * 0.97, half, 0.985 * half, 0.5 * (half * 0.96 + crown), crown, 0.6 * crown, 0 * crown], axis=1
    )
    z = np.stack(
        [sill, sill, low, 0.5 * (low + belt), belt, 0.45 * belt + 0.55 * top, top - 0.04 * height, top - 0.01 * height, top], axis=1
    )
    y, z = _rounded(y), _rounded(z)
    side = np.stack([np.broadcast_to(x[:, None], y.shape), y, z], axis=-1)  # (S, 13, 3)
    ring = np.concatenate([side, side[:, -2:0:-1] * [1, -1, 1]], axis=1)
    return joined(surface(ring, close=True), fan(ring[0]), fan(ring[-1]))


def _rounded(values: np.ndarray) -> np.ndarray:  # (S, 9) -> (S, 13)
    """Cut the corners from the belt line to the roof twice, which blends the flanks into the roof."""
    edges = 0.25 * values[:, 3:-1] + 0.75 * values[:, 4:], 0.75 * values[:, 3:-1] + 0.25 * values[:, 4:]
    cut = np.stack([edges[1], edges[0]], axis=2).reshape(len(values), -1)  # (S, 10)
    return np.concatenate([values[:, :3], cut[:, 1:], values[:, -1:]], axis=1)


def _wheels(x: np.ndarray, width: float, radius: float) -> np.ndarray:
    angle = np.arange(12) * (2 * np.pi / 12)
    rings = [(0.55, 0.06), (0.9, 0.0), (1.0, 0.04), (1.0, 0.2), (0.9, 0.24)]  # share of the radius, meters inwards
    wheel = np.stack([np.stack([s * radius * np.cos(angle), np.full(12, d), s * radius * np.sin(angle)], axis=1) for s, d in rings])
    one = joined(surface(wheel, close=True), fan(wheel[0])) + [0, 0, radius]
    both = joined(one - [0, width / 2, 0], one * [1, -1, 1] + [0, width / 2, 0])
    return joined(*[both + [v, 0, 0] for v in x])


def vehicle(rng: np.random.Generator, kind: str) -> Vehicle:
    """Return a random vehicle of kind saloon, hatch, estate, van, bus or truck."""
    if kind == "truck":
        return _truck(rng)
    length, width, height = (rng.uniform(*r) for r in _SIZES[kind])
    radius = rng.uniform(0.29, 0.36) if kind != "bus" else 0.48
    wheels = length * np.array([-rng.uniform(0.28, 0.33), rng.uniform(0.29, 0.33)])
    mirrors = turned(ellipsoid((0.08, 0.12, 0.1), 8, 4), 0.0)
    at = [0.2 * length if kind != "bus" else 0.47 * length, width / 2 + 0.08, 0.63 * height]
    parts = [_body(rng, kind, length, width, height, wheels, radius), _wheels(wheels, width, radius)]
    parts += [mirrors + at, mirrors * [1, -1, 1] + np.multiply(at, [1, -1, 1])]
    if kind in ("estate", "van") and rng.random() < 0.4:  # a roof rack
        bars = np.linspace(-0.3, 0.1, 3)[:, None] * [length, 0, 0] + [0, 0, height + 0.06]
        parts.append(boxes(bars, [0.06, 0.75 * width, 0.06]))
    return Vehicle(joined(*parts), length, width)


def _truck(rng: np.random.Generator) -> Vehicle:
    """A cab in front of a box, a tank or an open bed."""
    cab_length, width, height = (rng.uniform(*r) for r in _SIZES["cab"])
    load, radius = rng.uniform(3.5, 7.5), 0.48
    length = cab_length + load + 0.3
    front = length / 2 - cab_length / 2
    middle = -length / 2 + load / 2
    cab = _body(rng, "cab", cab_length, width, height, np.array([0.0]), radius) + [front, 0, 0]
    wheels = _wheels(np.array([front, -length / 2 + 1.1, -length / 2 + 2.3]), width, radius)
    frame = boxes([[middle, 0, 0.85]], [load + 0.6, 0.8 * width, 0.25])
    style = rng.choice(["box", "tank", "bed"])
    if style == "box":
        tall = rng.uniform(1.8, 2.6)
        body = boxes([[middle, 0, 1.0 + tall / 2]], [load, width, tall])
        ribs = boxes(
            [[v, 0, 1.0 + tall / 2] for v in np.arange(middle - load / 2 + 0.3, middle + load / 2, 0.6)], [0.06, width + 0.06, tall]
        )
        body = joined(body, ribs)
    elif style == "tank":
        r = rng.uniform(0.8, 1.1)
        angle = np.linspace(0, 2 * np.pi, 21)[:-1]
        ends = [(-0.5, 0.5), (-0.48, 0.85), (-0.45, 1.0), (0.45, 1.0), (0.48, 0.85), (0.5, 0.5)]
        rings = np.stack([rows_of((middle + e * load, s * r * np.cos(angle), 1.05 + r + s * r * np.sin(angle))) for e, s in ends])
        body = joined(surface(rings, close=True), fan(rings[0]), fan(rings[-1]))
    else:
        walls = [[middle, 0, 1.1], [middle, width / 2, 1.4], [middle, -width / 2, 1.4], [-length / 2, 0, 1.4]]
        body = boxes(np.array(walls), [[load, width, 0.15], [load, 0.06, 0.7], [load, 0.06, 0.7], [0.06, width, 0.7]])
        heap = ellipsoid((0.42 * load, 0.42 * width, rng.uniform(0.4, 0.9)), 14, 8) + [middle, 0, 1.2]
        body = joined(body, heap)
    return Vehicle(joined(cab, wheels, frame, body), length, width)


def fleet(rng: np.random.Generator, count: int, heavy: float = 0.15) -> list[Vehicle]:
    """`count` random vehicles; a share of `heavy` are vans, buses and trucks."""
    light, large = ["saloon", "hatch", "estate"], ["van", "van", "truck", "bus"]
    return [vehicle(rng, str(rng.choice(large if rng.random() < heavy else light))) for _ in range(count)]


@dataclass(frozen=True)
class Tree:
    """Wood as tapered tubes, and foliage as small folded leaf clusters with gaps that rays pass through."""

    wood: np.ndarray  # (F, 3, 3)
    leaves: np.ndarray  # (G, 3, 3)


def leaf_clusters(rng: np.random.Generator, centers: np.ndarray, sizes: np.ndarray) -> np.ndarray:  # (N, 3), (N,)
    """One randomly rotated square per center, folded along its diagonal."""
    n = len(centers)
    first = rng.normal(size=(n, 3))
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    second = np.cross(first, rng.normal(size=(n, 3)))
    second /= np.linalg.norm(second, axis=1, keepdims=True)
    up = np.cross(first, second) * (sizes * rng.uniform(-0.3, 0.3, n))[:, None]
    a, b = first * sizes[:, None] / 2, second * (sizes * rng.uniform(0.5, 1.0, n))[:, None] / 2
    return from_quads(np.stack([centers - a - b, centers + a - b + up, centers + a + b, centers - a + b + up], axis=1))


def _in_blobs(rng: np.random.Generator, centers: np.ndarray, radii: np.ndarray, count: int) -> np.ndarray:  # (B, 3), (B, 3)
    """Points in ellipsoids, concentrated near the surface as leaves are."""
    which = rng.choice(len(centers), count, p=radii.prod(axis=1) ** 0.7 / (radii.prod(axis=1) ** 0.7).sum())
    direction = rng.normal(size=(count, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return centers[which] + radii[which] * direction * (rng.random(count) ** 0.22)[:, None]


def broadleaf(rng: np.random.Generator, leaves: int) -> Tree:
    """A trunk with boughs, and leaves in blobs around their ends."""
    height = rng.uniform(4.5, 13.0)
    bare = height * rng.uniform(0.25, 0.42)
    thick = height * rng.uniform(0.013, 0.026)
    bend = np.cumsum(rng.normal(0, 0.025 * height, (6, 2)), axis=0) * np.linspace(0, 1, 6)[:, None]
    z = np.linspace(-0.5, 0.85 * height, 6)
    trunk = np.column_stack([bend, z])
    wood = [tube(trunk, thick * np.array([1.6, 1.1, 0.9, 0.7, 0.45, 0.2]), 9)]
    reach = height * rng.uniform(0.2, 0.34)
    n = int(rng.integers(4, 9))
    angle = rng.uniform(0, 2 * np.pi) + np.arange(n) * 2.4
    start_z = np.linspace(bare, 0.7 * height, n)
    starts = np.column_stack([np.interp(start_z, z, trunk[:, 0]), np.interp(start_z, z, trunk[:, 1]), start_z])
    out = reach * rng.uniform(0.5, 1.0, n)
    ends = starts + np.column_stack([out * np.cos(angle), out * np.sin(angle), rng.uniform(0.3, 0.9, n) * out])
    for a, b in zip(starts, ends, strict=True):
        knee = 0.5 * (a + b) + [0, 0, -0.12 * np.linalg.norm(b - a)]
        wood.append(tube(np.stack([a, knee, b]), thick * np.array([0.45, 0.3, 0.1]), 6))
    blobs = np.concatenate([ends, trunk[-2:]])
    radii = reach * rng.uniform(0.4, 0.75, (len(blobs), 1)) * np.array([1, 1, rng.uniform(0.7, 1.2)])
    centers = _in_blobs(rng, blobs, radii, leaves)
    centers = centers[centers[:, 2] > 0.7 * bare]
    return Tree(joined(*wood), leaf_clusters(rng, centers, rng.uniform(0.13, 0.32, len(centers))))


def conifer(rng: np.random.Generator, leaves: int) -> Tree:
    """A straight trunk in a cone of needles."""
    height, spread = rng.uniform(5, 15), rng.uniform(0.14, 0.24)
    trunk = tube([[0, 0, -0.5], [0, 0, height]], np.array([0.022, 0.004]) * height, 8)
    low = rng.uniform(0.05, 0.2) * height
    t = 1 - np.sqrt(rng.random(leaves))  # most needles are low on the cone
    tier = 0.7 + 0.3 * np.cos(2 * np.pi * t * rng.integers(6, 14))
    r = spread * height * (1 - t) * tier * rng.random(leaves) ** 0.35
    angle = rng.uniform(0, 2 * np.pi, leaves)
    centers = np.column_stack([r * np.cos(angle), r * np.sin(angle), low + t * (height - low) - 0.25 * r])
    return Tree(trunk, leaf_clusters(rng, centers, rng.uniform(0.08, 0.28, leaves)))


def bare_tree(rng: np.random.Generator) -> Tree:
    """A tree without leaves: boughs, branches and twigs."""
    height = rng.uniform(4, 9)
    ends, wood = [(np.array([0.0, 0, -0.4]), np.array([0.0, 0, 0.35 * height]), 0.02 * height)], []
    for _ in range(4):
        grown = []
        for a, b, r in ends:
            wood.append(tube(np.stack([a, b]), [r, 0.75 * r], 6))
            for _ in range(int(rng.integers(2, 4))):
                way = (b - a) / np.linalg.norm(b - a) + rng.normal(0, 0.55, 3) + [0, 0, 0.25]
                grown.append((b, b + way / np.linalg.norm(way) * 0.22 * height * rng.uniform(0.7, 1.1), 0.55 * r))
        ends = grown
    return Tree(joined(*wood), NOTHING)


def bush(rng: np.random.Generator, leaves: int = 160) -> Tree:
    """A blob of leaves on the ground."""
    radii = rng.uniform(0.4, 1.1, 3) * np.array([1, 1, 0.8])
    centers = _in_blobs(rng, np.array([[0, 0, 0.6 * radii[2]]]), radii[None], leaves)
    return Tree(NOTHING, leaf_clusters(rng, centers[centers[:, 2] > 0], rng.uniform(0.08, 0.22, int((centers[:, 2] > 0).sum()))))


def hedge(rng: np.random.Generator, path: np.ndarray) -> np.ndarray:  # (K, 3) on the ground, about half a meter apart
    """A clipped hedge: a rough, dense core with protruding leaf clusters."""
    wide, tall = rng.uniform(0.25, 0.5), rng.uniform(0.7, 1.9)
    forward = np.gradient(path, axis=0)
    left = np.column_stack([-forward[:, 1], forward[:, 0], np.zeros(len(path))])
    left /= np.linalg.norm(left, axis=1, keepdims=True)
    profile = np.array(
        [[-1.0, -0.1], [-1.0, 0.3], [-0.95, 0.7], [-0.7, 1.0], [0.0, 1.03], [0.7, 1.0], [0.95, 0.7], [1.0, 0.3], [1.0, -0.1]]
    )
    skin = path[:, None] + wide * profile[None, :, :1] * left[:, None] + tall * profile[None, :, 1:] * np.array([0, 0, 1.0])
    skin = skin + rng.normal(0, 0.05, skin.shape)
    spots = skin[:-1][rng.random(skin[:-1].shape[:2]) < 0.8] + rng.normal(0, 0.12, 3)
    return joined(surface(skin), leaf_clusters(rng, spots + rng.normal(0, 0.08, spots.shape), rng.uniform(0.08, 0.2, len(spots))))


def grove(rng: np.random.Generator, count: int, leaves: int, conifers: float = 0.2, bare: float = 0.1) -> list[Tree]:
    """`count` different trees."""
    draws = rng.random(count)
    return [
        conifer(rng, leaves) if d < conifers else bare_tree(rng) if d < conifers + bare else broadleaf(rng, leaves) for d in draws
    ]
