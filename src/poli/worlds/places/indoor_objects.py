"""Objects indoors, on z = 0 and facing +x: equipment of halls and basements, and furniture of homes and offices."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from poli.worlds.places.solids import beams, boxes, copies, ellipsoid, joined, lathe, rows_of, surface, tube, turned
from poli.worlds.places.street_objects import Tree, leaf_clusters


def radiator(rng: np.random.Generator) -> np.ndarray:
    """Fins between two pipes."""
    wide, tall = rng.uniform(0.6, 1.8), rng.uniform(0.45, 0.8)
    y = np.arange(-wide / 2, wide / 2, 0.08)
    fins = boxes((0.08, y, 0.15 + tall / 2), [0.12, 0.035, tall])
    pipes = [tube([[0.08, -wide / 2 - 0.15, z], [0.08, wide / 2, z]], 0.02, 6) for z in (0.2, 0.1 + tall)]
    return joined(fins, *pipes)


def cabinet(rng: np.random.Generator) -> np.ndarray:
    """A cabinet or locker with doors slightly in front of the body."""
    wide, deep, tall = rng.uniform(0.6, 2.4), rng.uniform(0.25, 0.5), rng.uniform(0.8, 2.1)
    n = max(1, int(wide / 0.45))
    y = (np.arange(n) + 0.5) * (wide / n) - wide / 2
    doors = boxes((deep, y, tall / 2 + 0.04), [0.04, wide / n - 0.03, tall - 0.14])
    knobs = copies(ellipsoid((0.03, 0.02, 0.02), 6, 4), (deep + 0.04, y + 0.3 * wide / n, 0.5 * tall))
    return joined(boxes((deep / 2, 0, tall / 2), (deep, wide, tall)), doors, knobs)


def extinguisher(rng: np.random.Generator) -> np.ndarray:
    """A fire extinguisher on the wall."""
    r = rng.uniform(0.07, 0.1)
    return lathe([[0.9 * r, 0.6], [r, 0.63], [r, 1.05], [0.4 * r, 1.13], [0.3 * r, 1.2]], 10) + [r + 0.02, 0, 0]


def column(rng: np.random.Generator, tall: float) -> np.ndarray:
    """A column: round with base and capital, square, or an H section."""
    r, kind = rng.uniform(0.14, 0.35), rng.choice(["round", "square", "steel"])
    if kind == "round":
        radii = [1.4 * r, 1.4 * r, 1.1 * r, r, 0.95 * r, 1.3 * r, 1.5 * r]
        return lathe((radii, [0.0, 0.15, 0.22, 0.3, tall - 0.4, tall - 0.15, tall]), 18)
    if kind == "square":
        return joined(boxes((0, 0, tall / 2), (2 * r, 2 * r, tall)), boxes((0, 0, 0.3), (2.3 * r, 2.3 * r, 0.6)))
    web = np.array([[0, 0, tall / 2], [0, r, tall / 2], [0, -r, tall / 2]])
    steel = boxes(web, [[0.03, 2 * r, tall], [1.6 * r, 0.04, tall], [1.6 * r, 0.04, tall]])
    return joined(steel, boxes((0, 0, 0.03), (2.4 * r, 2.6 * r, 0.06)))


def goods(rng: np.random.Generator, wide: float, deep: float, tall: float) -> np.ndarray:
    """The goods on one shelf: boxes, barrels, rolls and balls of different sizes, with gaps."""
    parts, y = [], -wide / 2
    while y < wide / 2 - 0.3:
        w, h = rng.uniform(0.25, min(1.2, wide / 2)), tall * rng.uniform(0.4, 0.9)
        if y + w > wide / 2:
            break
        at = np.array([rng.normal(0, 0.05), y + w / 2, 0.0])
        pick = rng.random()
        if pick < 0.5:
            parts.append(boxes((0, 0, h / 2), (deep * rng.uniform(0.6, 0.95), 0.9 * w, h), rng.normal(0, 0.05)) + at)
        elif pick < 0.7:
            r = 0.45 * min(w, deep)
            parts.append(lathe([[r, 0.0], [1.05 * r, 0.3 * h], [r, h], [0.05, h]], 12) + at)
        elif pick < 0.85:
            r = 0.45 * min(w, h)
            parts.append(tube([[-0.45 * deep, 0, r], [0.45 * deep, 0, r]], r, 12, caps=True) + at)
        y += w + rng.uniform(0.03, 0.3)
    return joined(*parts)


def rack(rng: np.random.Generator, wide: float, deep: float, tall: float) -> np.ndarray:
    """A pallet rack along y: uprights, braces, beams, and goods on every level."""
    bays = max(1, round(wide / rng.uniform(1.8, 2.9)))
    levels = np.arange(0.15, tall - 0.4, rng.uniform(0.7, 1.7))
    y = np.linspace(-wide / 2, wide / 2, bays + 1)
    feet = np.array([[x, v, 0.0] for v in y for x in (-deep / 2, deep / 2)])
    parts = [beams(feet, feet + [0, 0, tall], 0.11)]
    front, back = feet[1::2], feet[::2]
    parts += [beams(front + [0, 0, low], back + [0, 0, low + 0.6], 0.05) for low in np.arange(0.2, tall - 0.6, 0.8)]
    step = np.diff(levels, append=tall)
    for level, room in zip(levels, step, strict=True):
        parts += [beams([[x, y[0], level]], [[x, y[-1], level]], 0.1) for x in (-deep / 2, deep / 2)]
        if rng.random() < 0.5:
            parts.append(boxes((0, 0, level), (deep, wide, 0.03)))
        for a, b in pairwise(y):
            if rng.random() < 0.85:
                parts.append(goods(rng, b - a - 0.15, deep, min(room - 0.1, 1.3)) + [0, (a + b) / 2, level + 0.04])
    return joined(*parts)


def machine(rng: np.random.Generator) -> np.ndarray:
    """A body with tanks, pipes, a hood, and a panel on an arm."""
    size = rng.uniform([1.0, 1.2, 0.9], [2.2, 3.5, 2.2])
    parts = [boxes((0, 0, size[2] / 2), tuple(size))]
    for _ in range(int(rng.integers(2, 6))):
        at = rng.uniform(-0.4, 0.4, 2) * size[:2]
        r, h = rng.uniform(0.15, 0.5), rng.uniform(0.3, 1.2)
        pick = rng.random()
        if pick < 0.4:
            dome = [[r, 0.0], [r, h], [0.85 * r, h + 0.35 * r], [0.5 * r, h + 0.55 * r], [0.02, h + 0.62 * r]]
            parts.append(lathe(np.array(dome), 14) + [*at, size[2]])
        elif pick < 0.7:
            parts.append(boxes((0, 0, h / 2), (2 * r, 1.5 * r, h), rng.uniform(0, 0.5)) + [*at, size[2]])
        else:
            parts.append(ellipsoid((r, r, 0.8 * r), 12, 8) + [*at, size[2]])
    t = np.linspace(0, 1, 9)[:, None]
    for _ in range(int(rng.integers(1, 4))):
        a, b = rng.uniform(-0.45, 0.45, (2, 2)) * size[:2]
        arch = np.concatenate([a + t * (b - a), size[2] + 4 * rng.uniform(0.2, 0.6) * t * (1 - t)], axis=1)
        parts.append(tube(arch, rng.uniform(0.03, 0.12), 8))
    panel = [size[0] / 2 + 0.3, 0.3 * size[1], 1.3]
    parts += [
        tube([[size[0] / 2 - 0.1, 0.3 * size[1], 0.8], [*panel[:2], 1.1]], 0.04, 6),
        boxes(tuple(panel), (0.1, 0.5, 0.4), 0.3),
    ]
    return joined(*parts)


def duct(rng: np.random.Generator, path: np.ndarray, radius: float) -> np.ndarray:  # (K, 3): the corners
    """A round pipe with bent corners and flanges."""
    corners = [path[0]]
    for a, b, c in zip(path[:-2], path[1:-1], path[2:], strict=True):
        u, v = (a - b) / np.linalg.norm(a - b), (c - b) / np.linalg.norm(c - b)
        t = np.linspace(0, 1, 6)[:, None]
        bend = 2.2 * radius
        p, q = b + bend * u, b + bend * v
        corners += list((1 - t) ** 2 * p + 2 * t * (1 - t) * b + t * t * q)
    smooth = np.array([*corners, path[-1]])
    rings = []
    for a, b in pairwise(path):
        way = (b - a) / np.linalg.norm(b - a)
        spots = np.arange(3.0 * radius + 0.3, np.linalg.norm(b - a) - 3.0 * radius, rng.uniform(1.5, 3.5))
        rings += [tube(np.stack([a + s * way, a + (s + 0.06) * way]), 1.1 * radius, 14, caps=True) for s in spots]
    return joined(tube(smooth, radius, 14), *rings)


def stairs(rng: np.random.Generator, tall: float, wide: float = 1.2) -> np.ndarray:
    """A flight rising along +x with a railing."""
    n = int(tall / 0.19)
    k = np.arange(n)
    treads = boxes((0.27 * k, 0.0, 0.19 * (k + 1)), [0.3, wide, 0.05])
    ends = np.array([[0, 0, 0], [0.27 * n, 0, 0.19 * n]])
    side = [beams((ends + [0, s * wide / 2, 0])[:1], (ends + [0, s * wide / 2, 0])[1:], 0.16) for s in (-1, 1)]
    rails = [beams((ends + [0, s * wide / 2, 1.0])[:1], (ends + [0, s * wide / 2, 1.0])[1:], 0.05, 6) for s in (-1, 1)]
    feet = rows_of((0.27 * k[::3], wide / 2, 0.19 * k[::3]))
    rods = [beams(feet * [1, s, 1], feet * [1, s, 1] + [0, 0, 1.0], 0.03) for s in (-1, 1)]
    return joined(treads, *side, *rails, *rods)


def cushion(size: tuple[float, float, float], square: float = 0.4) -> np.ndarray:
    """A rounded box centered on the origin; `square` goes from 0, a box, to 1, an ellipsoid."""
    u, v = np.linspace(-np.pi / 2, np.pi / 2, 8)[:, None], np.linspace(-np.pi, np.pi, 17)[None, :-1]
    bent = lambda a: np.sign(a) * np.abs(a) ** square  # noqa: E731
    x, y, z = bent(np.cos(u)) * bent(np.cos(v)), bent(np.cos(u)) * bent(np.sin(v)), bent(np.sin(u)) + 0.0 * v
    return surface(np.stack([x, y, z], axis=-1), close=True) * (0.5 * np.asarray(size))


def clutter(rng: np.random.Generator, deep: float, wide: float, count: int, big: float = 1.0) -> np.ndarray:
    """Small things on a surface at z = 0: books, cups, vases, bowls, laptops, bags. They may touch each other."""
    parts = []
    for _ in range(count):
        at = np.array([*(rng.uniform(-0.42, 0.42, 2) * (deep, wide)), 0.0])
        s = big * rng.uniform(0.6, 1.2)
        pick, yaw = int(rng.integers(7)), rng.uniform(0, np.pi)
        if pick == 0:  # a pile of books
            n = int(rng.integers(1, 6))
            sizes = np.column_stack([rng.uniform(0.12, 0.22, (n, 2)) * s, np.full(n, 0.03 * s)])
            centers = np.column_stack([rng.normal(0, 0.01, (n, 2)), 0.03 * s * (np.arange(n) + 0.5)])
            part = boxes(centers, sizes, rng.normal(0, 0.2, n))
        elif pick == 1:  # a cup or a bottle
            r, h = rng.uniform(0.03, 0.05) * s, rng.uniform(0.08, 0.3) * s
            part = lathe([[r, 0.0], [r, 0.6 * h], [0.6 * r, 0.8 * h], [0.5 * r, h], [0.005, h]], 8)
        elif pick == 2:  # a bowl or a vase
            r, h = rng.uniform(0.06, 0.14) * s, rng.uniform(0.06, 0.3) * s
            part = lathe([[0.5 * r, 0.0], [0.9 * r, 0.35 * h], [r, 0.6 * h], [0.8 * r, h], [0.7 * r, 0.5 * h], [0.01, 0.3 * h]], 12)
        elif pick == 3:  # a laptop
            part = joined(boxes((0, 0, 0.01), (0.22, 0.32, 0.02)), boxes((-0.14, 0, 0.12), (0.015, 0.32, 0.22)))
        elif pick == 4:
            part = cushion(tuple(rng.uniform(0.1, 0.3, 3) * s), 0.6)
            part = part - [0, 0, part[..., 2].min()]
        else:
            size = rng.uniform([0.06, 0.06, 0.04], [0.3, 0.3, 0.3]) * s
            part = boxes((0, 0, size[2] / 2), size)
        parts.append(turned(part, yaw) + at)
    return joined(*parts)


def table(rng: np.random.Generator, deep: float, wide: float, tall: float) -> np.ndarray:
    """A table with legs or a round one on a foot, with things on it."""
    things = clutter(rng, 0.8 * deep, 0.8 * wide, int(rng.integers(0, 7))) + [0, 0, tall]
    if rng.random() < 0.25:
        r = 0.5 * min(deep, wide)
        heights = [0.0, 0.03, 0.08, tall - 0.06, tall - 0.04, tall, tall]
        return joined(lathe(([0.6 * r, 0.55 * r, 0.05, 0.05, r, r, 0.01], heights), 18), things)
    inset = rng.uniform(0.02, 0.1)
    feet = np.array([[a * (deep / 2 - inset), b * (wide / 2 - inset), 0.0] for a in (-1, 1) for b in (-1, 1)])
    thick = rng.uniform(0.03, 0.09)
    legs = beams(feet, feet + [0, 0, tall - 0.02], thick, int(rng.choice([4, 8])))
    apron = boxes(
        [[0, b * (wide / 2 - inset), tall - 0.08] for b in (-1, 1)] + [[a * (deep / 2 - inset), 0, tall - 0.08] for a in (-1, 1)],
        [[deep - 2 * inset, 0.02, 0.09]] * 2 + [[0.02, wide - 2 * inset, 0.09]] * 2,
    )
    return joined(boxes((0, 0, tall - 0.015), (deep, wide, 0.03)), legs, *([apron] if rng.random() < 0.6 else []), things)


def chair(rng: np.random.Generator) -> np.ndarray:
    """A chair with four legs, or an office chair on a star base."""
    seat, wide, back = rng.uniform(0.42, 0.48), rng.uniform(0.4, 0.48), rng.uniform(0.78, 1.0)
    if rng.random() < 0.4:
        angle = np.arange(5) * (2 * np.pi / 5)
        tips = rows_of((0.28 * np.cos(angle), 0.28 * np.sin(angle), 0.06))
        parts = [
            beams(np.tile([0.0, 0.0, 0.1], (5, 1)), tips, 0.05),
            copies(ellipsoid((0.03, 0.03, 0.03), 6, 4), tips - [0, 0, 0.03]),
        ]
        parts += [tube([[0, 0, 0.1], [0, 0, seat]], 0.03, 8), cushion((wide, wide, 0.1)) + [0, 0, seat]]
        parts.append(cushion((0.09, wide, 0.5)) + [-wide / 2, 0, seat + 0.38])
        parts.append(beams((-0.15, 0, seat), (-wide / 2, 0, seat + 0.3), 0.05))
        return joined(*parts, *[boxes((-0.02, s * (wide / 2 + 0.04), seat + 0.2), (0.25, 0.06, 0.03)) for s in (-1, 1)])
    feet = np.array([[a * (wide / 2 - 0.02), b * (wide / 2 - 0.02), 0.0] for a in (-1, 1) for b in (-1, 1)])
    tops = feet + np.array([0, 0, seat])
    posts = beams(tops[:2], tops[:2] + [-0.06, 0, back - seat], 0.035)
    n = int(rng.integers(2, 5))
    z = np.linspace(seat + 0.15, back - 0.03, n)
    slats = boxes((-wide / 2 - 0.06 * (z - seat) / (back - seat), 0.0, z), [0.02, wide - 0.04, 0.25 / n])
    return joined(beams(feet, tops, 0.04), posts, slats, cushion((wide, wide, 0.05), 0.25) + [0, 0, seat])


def dining(rng: np.random.Generator) -> np.ndarray:
    """A table with chairs around it."""
    deep, wide = rng.uniform(0.7, 1.0), rng.uniform(0.8, 1.9)
    parts, seat = [table(rng, deep, wide, rng.uniform(0.7, 0.77))], chair(rng)
    for side in (-1, 1):
        for y in np.arange(-wide / 2 + 0.35, wide / 2 - 0.2, 0.65):
            if rng.random() < 0.8:
                out = deep / 2 + rng.uniform(-0.05, 0.25)
                parts.append(turned(seat, np.pi / 2 * (1 + side) + rng.normal(0, 0.15)) + [side * out, y, 0])
    return joined(*parts)


def desk(rng: np.random.Generator) -> np.ndarray:
    """A desk against a wall: monitors, keyboard, drawers, and in most cases a chair."""
    deep, wide, tall = rng.uniform(0.55, 0.8), rng.uniform(1.1, 1.8), rng.uniform(0.7, 0.78)
    parts = [table(rng, deep, wide, tall)]
    for y in rng.choice([-0.3, 0.0, 0.3], int(rng.integers(1, 3)), replace=False) * wide:
        sizes = [[0.03, rng.uniform(0.45, 0.7), 0.34], [0.03, 0.05, 0.24], [0.2, 0.24, 0.02]]
        screen = boxes([[0, 0, 0.33], [-0.02, 0, 0.12], [0, 0, 0.01]], sizes)
        parts.append(turned(screen, rng.normal(0, 0.15)) + [-0.2 * deep, y, tall])
    parts.append(boxes((0.15, 0, tall + 0.015), (0.15, 0.42, 0.03)))
    if rng.random() < 0.6:
        parts.append(boxes((0, 0.5 * wide - 0.25, 0.3), (0.8 * deep, 0.4, 0.55)))
    if rng.random() < 0.7:
        parts.append(turned(chair(rng), np.pi + rng.normal(0, 0.4)) + [deep / 2 + 0.1, rng.uniform(-0.2, 0.2), 0])
    return joined(*parts) + [deep / 2, 0, 0]


def sofa(rng: np.random.Generator) -> np.ndarray:
    """A sofa or an armchair with cushions."""
    seats = int(rng.integers(1, 4))
    each, deep, tall = rng.uniform(0.55, 0.75), rng.uniform(0.75, 1.0), rng.uniform(0.7, 0.95)
    wide, arm = seats * each, rng.uniform(0.12, 0.25)
    y = (np.arange(seats) + 0.5) * each - wide / 2
    parts = [boxes((deep / 2, 0, 0.2), (deep, wide + 2 * arm, 0.24))]
    parts.append(cushion((0.3, wide + 2 * arm, tall - 0.1), 0.25) + [0.15, 0, tall / 2 + 0.05])
    parts += [cushion((deep, arm, rng.uniform(0.5, 0.62)), 0.3) + [deep / 2, s * (wide + arm) / 2, 0.35] for s in (-1, 1)]
    parts += [cushion((deep - 0.2, each, 0.2), 0.3) + [deep / 2 + 0.1, v, 0.4] for v in y]
    parts += [cushion((0.22, each - 0.02, 0.45), 0.5) + [0.36, v, 0.65] for v in y]
    return joined(*parts)


def bed(rng: np.random.Generator) -> np.ndarray:
    """A bed with its head at the wall: frame, mattress, a wrinkled cover, pillows."""
    wide, long, tall = rng.uniform(0.9, 1.8), rng.uniform(1.9, 2.1), rng.uniform(0.4, 0.6)
    parts = [boxes((long / 2, 0, 0.5 * tall - 0.08), (long, wide, 0.16))]
    parts.append(boxes((0.03, 0, 0.5), (0.06, wide + 0.06, rng.uniform(0.9, 1.2))))
    parts.append(cushion((long - 0.06, wide - 0.02, 0.24), 0.15) + [long / 2, 0, tall - 0.12])
    x, y = np.meshgrid(np.linspace(0.55, long + 0.02, 22), np.linspace(-0.56, 0.56, 18) * wide, indexing="ij")
    bumps = sum(0.02 * np.sin(rng.uniform(3, 14) * x + rng.uniform(-9, 9) * y + rng.uniform(0, 6)) for _ in range(4))
    drop = np.clip((np.abs(y) - 0.49 * wide) / (0.06 * wide), 0, 1) * rng.uniform(0.1, 0.3)
    parts.append(surface(np.stack([x, y, tall + 0.06 + bumps - drop], axis=-1)))
    heads = [0.0] if wide < 1.3 else [-0.23, 0.23]
    parts += [cushion((0.4, 0.65 * wide / len(heads), 0.16), 0.6) + [0.3, v * wide, tall + 0.08] for v in heads]
    feet = np.array([[a, b * 0.45 * wide, 0.0] for a in (0.1, long - 0.1) for b in (-1, 1)])
    return joined(*parts, beams(feet, feet + [0, 0, 0.3], 0.06))


def bookshelf(rng: np.random.Generator, highest: float) -> np.ndarray:
    """A shelf against a wall, with books and other things."""
    wide, deep, tall = rng.uniform(0.6, 1.6), rng.uniform(0.22, 0.4), rng.uniform(0.8, min(2.2, highest))
    levels = np.linspace(0.05, tall, int(tall / rng.uniform(0.28, 0.42)) + 2)
    parts = [boxes((deep / 2, 0.0, levels), [deep, wide, 0.02])]
    parts += [boxes((deep / 2, s * wide / 2, tall / 2), (deep, 0.02, tall)) for s in (-1, 1)]
    if rng.random() < 0.6:
        parts.append(boxes((0.005, 0, tall / 2), (0.01, wide, tall)))
    for low, high in pairwise(levels):
        room, pick = high - low - 0.04, rng.random()
        if pick < 0.6:
            y = -wide / 2 + 0.03 + np.cumsum(rng.uniform(0.015, 0.06, int(wide / 0.04)))
            y = y[y < wide * rng.uniform(0.1, 0.47)]
            tops, depths = room * rng.uniform(0.55, 0.95, len(y)), deep * rng.uniform(0.5, 0.85, len(y))
            thick = np.diff(y, append=y[-1:] + 0.03) * 0.9
            parts.append(boxes((depths / 2 + 0.02, y, low + 0.01 + tops / 2), (depths, thick, tops)))
        elif pick < 0.9:
            things = clutter(rng, 0.6 * deep, 0.8 * wide, int(rng.integers(1, 5)), 0.7) * [1, 1, min(1.0, room / 0.36)]
            parts.append(things + [deep / 2, 0, low + 0.01])
    return joined(*parts)


def kitchen(rng: np.random.Generator, highest: float) -> np.ndarray:
    """A counter with cupboards below and above, a tap, a hood, and a fridge at its end."""
    wide, deep = rng.uniform(1.5, 3.2), rng.uniform(0.55, 0.65)
    n = max(2, round(wide / 0.6))
    y = (np.arange(n) + 0.5) * (wide / n) - wide / 2
    body = [[deep - 0.06, wide, 0.76], [deep - 0.14, wide, 0.1]]
    parts = [boxes([[deep / 2 - 0.02, 0, 0.48], [deep / 2 - 0.05, 0, 0.05]], body)]
    parts += [boxes((deep - 0.03, y, 0.48), (0.03, wide / n - 0.01, 0.72)), boxes((deep / 2, 0, 0.88), (deep, wide, 0.04))]
    parts.append(beams((deep + 0.02, y - 0.1, 0.78), (deep + 0.02, y + 0.1, 0.78), 0.015))
    bow = np.array([[0.12, y[0], 0.9], [0.12, y[0], 1.15], [0.18, y[0], 1.22], [0.28, y[0], 1.2], [0.3, y[0], 1.12]])
    parts += [tube(bow, 0.015, 6), clutter(rng, 0.6 * deep, 0.9 * wide, int(rng.integers(2, 8))) + [deep / 2, 0, 0.9]]
    top = min(2.2, highest)
    some = y[rng.random(n) < 0.75]
    parts.append(boxes((0.17, some, (1.45 + top) / 2), (0.34, wide / n - 0.008, top - 1.45)))
    if rng.random() < 0.6:
        parts.append(boxes((0.31, wide / 2 + 0.32, 0.9), (0.62, 0.6, min(1.8, highest))))
    return joined(*parts)


def television(rng: np.random.Generator) -> np.ndarray:
    """A screen on a low cupboard."""
    wide, tall, screen = rng.uniform(1.0, 1.9), rng.uniform(0.4, 0.6), rng.uniform(0.8, 1.4)
    parts = [boxes((0.2, 0, tall / 2), (0.4, wide, tall))]
    parts.append(boxes((0.41, np.array([-1, 1]) * wide / 4, tall / 2), (0.02, wide / 2 - 0.03, tall - 0.08)))
    parts.append(boxes((0.2, 0, tall + 0.08 + 0.28 * screen), (0.04, screen, 0.56 * screen)))
    parts.append(boxes((0.2, 0, tall + 0.05), (0.15, 0.4, 0.1)))
    return joined(*parts, clutter(rng, 0.2, wide, 3, 0.5) + [0.3, 0, tall])


def floor_lamp(rng: np.random.Generator) -> np.ndarray:
    """A stem with a shade."""
    tall, r = rng.uniform(1.3, 1.8), rng.uniform(0.12, 0.24)
    stem = np.array([[0.14, 0.0], [0.14, 0.02], [0.015, 0.04], [0.015, tall]])
    shade = np.array([[r, tall - 0.25], [0.65 * r, tall + 0.05]])
    return joined(lathe(stem, 10), lathe(shade, 14))


def plant(rng: np.random.Generator) -> Tree:
    """A plant in a pot: the pot and the stems, and the leaves."""
    r, h, tall = rng.uniform(0.08, 0.2), rng.uniform(0.15, 0.4), rng.uniform(0.4, 1.6)
    pot = [lathe([[0.75 * r, 0.0], [r, h], [0.9 * r, h], [0.85 * r, h - 0.04], [0.01, h - 0.04]], 14)]
    tips = np.column_stack([rng.normal(0, 0.12 + 0.08 * tall, (5, 2)), rng.uniform(0.5, 1.0, 5) * tall + h])
    pot += [tube([[0, 0, h - 0.05], [0.3 * t[0], 0.3 * t[1], 0.6 * t[2]], t], 0.012, 5) for t in tips]
    n = int(rng.integers(60, 200))
    stem = tips[rng.integers(5, size=n)]
    spots = stem * np.column_stack([np.ones((n, 2)), rng.uniform(0.6, 1.0, n)]) + rng.normal(0, 0.08 + 0.04 * tall, (n, 3))
    spots[:, 2] = np.maximum(spots[:, 2], h)
    return Tree(joined(*pot), leaf_clusters(rng, spots, rng.uniform(0.04, 0.18, n)))


def cartons(rng: np.random.Generator, widest: float = 0.6) -> np.ndarray:
    """Boxes piled up, each a bit smaller than the one below."""
    parts, z, size = [], 0.0, rng.uniform([0.25, 0.25], [widest, widest])
    for _ in range(int(rng.integers(1, 5))):
        h = rng.uniform(0.15, 0.45)
        parts.append(boxes((*rng.normal(0, 0.02, 2), z + h / 2), (*size, h), rng.normal(0, 0.1)))
        z, size = z + h, size * rng.uniform(0.7, 1.0, 2)
    return joined(*parts)
