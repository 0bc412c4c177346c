"""Indoor equipment: radiators, cabinets, shelves and racks, machines, ducts, columns, stairs. Placed on z = 0, facing +x."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from poli.worlds.places.geometry import beams, boxes, copies, ellipsoid, joined, lathe, tube


def radiator(rng: np.random.Generator) -> np.ndarray:
    wide, tall = rng.uniform(0.6, 1.8), rng.uniform(0.45, 0.8)
    y = np.arange(-wide / 2, wide / 2, 0.08)
    fins = boxes((0.08, y, 0.15 + tall / 2), [0.12, 0.035, tall])
    pipes = [tube(np.array([[0.08, -wide / 2 - 0.15, z], [0.08, wide / 2, z]]), 0.02, 6) for z in (0.2, 0.1 + tall)]
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
    r = rng.uniform(0.07, 0.1)
    return lathe(np.array([[0.9 * r, 0.6], [r, 0.63], [r, 1.05], [0.4 * r, 1.13], [0.3 * r, 1.2]]), 10) + [r + 0.02, 0, 0]


def column(rng: np.random.Generator, tall: float) -> np.ndarray:
    """A column: round with base and capital, square, or an H section."""
    r, kind = rng.uniform(0.14, 0.35), rng.choice(["round", "square", "steel"])
    if kind == "round":
        stem = [
            [1.4 * r, 0.0],
            [1.4 * r, 0.15],
            [1.1 * r, 0.22],
            [r, 0.3],
            [0.95 * r, tall - 0.4],
            [1.3 * r, tall - 0.15],
            [1.5 * r, tall],
        ]
        return lathe(np.array(stem), 18)
    if kind == "square":
        return joined(boxes((0, 0, tall / 2), (2 * r, 2 * r, tall)), boxes((0, 0, 0.3), (2.3 * r, 2.3 * r, 0.6)))
    web = np.array([[0, 0, tall / 2], [0, r, tall / 2], [0, -r, tall / 2]])
    return joined(
        boxes(web, np.array([[0.03, 2 * r, tall], [1.6 * r, 0.04, tall], [1.6 * r, 0.04, tall]])),
        boxes((0, 0, 0.03), (2.4 * r, 2.6 * r, 0.06)),
    )


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
            parts.append(lathe(np.array([[r, 0.0], [1.05 * r, 0.3 * h], [r, h], [0.05, h]]), 12) + at)
        elif pick < 0.85:
            r = 0.45 * min(w, h)
            parts.append(tube(np.array([[-0.45 * deep, 0, r], [0.45 * deep, 0, r]]), r, 12, caps=True) + at)
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
        tube(np.array([[size[0] / 2 - 0.1, 0.3 * size[1], 0.8], [*panel[:2], 1.1]]), 0.04, 6),
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
    feet = np.column_stack([0.27 * k[::3], np.full(len(k[::3]), wide / 2), 0.19 * k[::3]])
    rods = [beams(feet * [1, s, 1], feet * [1, s, 1] + [0, 0, 1.0], 0.03) for s in (-1, 1)]
    return joined(treads, *side, *rails, *rods)
