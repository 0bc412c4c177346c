"""Furniture of homes and offices: tables, chairs, sofas, beds, shelves, and the things on them. Placed on z = 0, facing +x."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from poli.worlds.places.geometry import beams, boxes, copies, ellipsoid, joined, lathe, surface, tube, turned
from poli.worlds.places.trees import Tree, leaf_clusters


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
            part = lathe(np.array([[r, 0.0], [r, 0.6 * h], [0.6 * r, 0.8 * h], [0.5 * r, h], [0.005, h]]), 8)
        elif pick == 2:  # a bowl or a vase
            r, h = rng.uniform(0.06, 0.14) * s, rng.uniform(0.06, 0.3) * s
            part = lathe(
                np.array([[0.5 * r, 0.0], [0.9 * r, 0.35 * h], [r, 0.6 * h], [0.8 * r, h], [0.7 * r, 0.5 * h], [0.01, 0.3 * h]]), 12
            )
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
        stem = np.array(
            [[0.6 * r, 0.0], [0.55 * r, 0.03], [0.05, 0.08], [0.05, tall - 0.06], [r, tall - 0.04], [r, tall], [0.01, tall]]
        )
        return joined(lathe(stem, 18), things)
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
        tips = np.column_stack([0.28 * np.cos(angle), 0.28 * np.sin(angle), np.full(5, 0.06)])
        hub = np.tile([0.0, 0.0, 0.1], (5, 1))
        parts = [beams(hub, tips, 0.05), copies(ellipsoid((0.03, 0.03, 0.03), 6, 4), tips - [0, 0, 0.03])]
        parts += [tube(np.array([[0, 0, 0.1], [0, 0, seat]]), 0.03, 8), cushion((wide, wide, 0.1)) + [0, 0, seat]]
        parts += [
            cushion((0.09, wide, 0.5)) + [-wide / 2, 0, seat + 0.38],
            beams([[-0.15, 0, seat]], [[-wide / 2, 0, seat + 0.3]], 0.05),
        ]
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
        screen = joined(
            boxes((0, 0, 0.33), (0.03, rng.uniform(0.45, 0.7), 0.34)),
            boxes((-0.02, 0, 0.12), (0.03, 0.05, 0.24)),
            boxes((0, 0, 0.01), (0.2, 0.24, 0.02)),
        )
        parts.append(turned(screen, rng.normal(0, 0.15)) + [-0.2 * deep, y, tall])
    parts.append(boxes((0.15, 0, tall + 0.015), (0.15, 0.42, 0.03)))
    if rng.random() < 0.6:
        parts.append(boxes((0, 0.5 * wide - 0.25, 0.3), (0.8 * deep, 0.4, 0.55)))
    if rng.random() < 0.7:
        parts.append(turned(chair(rng), np.pi + rng.normal(0, 0.4)) + [deep / 2 + 0.1, rng.uniform(-0.2, 0.2), 0])
    return joined(*parts) + [deep / 2, 0, 0]


def sofa(rng: np.random.Generator) -> np.ndarray:
    seats = int(rng.integers(1, 4))
    each, deep, tall = rng.uniform(0.55, 0.75), rng.uniform(0.75, 1.0), rng.uniform(0.7, 0.95)
    wide, arm = seats * each, rng.uniform(0.12, 0.25)
    y = (np.arange(seats) + 0.5) * each - wide / 2
    parts = [
        boxes((deep / 2, 0, 0.2), (deep, wide + 2 * arm, 0.24)),
        cushion((0.3, wide + 2 * arm, tall - 0.1), 0.25) + [0.15, 0, tall / 2 + 0.05],
    ]
    parts += [cushion((deep, arm, rng.uniform(0.5, 0.62)), 0.3) + [deep / 2, s * (wide + arm) / 2, 0.35] for s in (-1, 1)]
    parts += [cushion((deep - 0.2, each, 0.2), 0.3) + [deep / 2 + 0.1, v, 0.4] for v in y]
    parts += [cushion((0.22, each - 0.02, 0.45), 0.5) + [0.36, v, 0.65] for v in y]
    return joined(*parts)


def bed(rng: np.random.Generator) -> np.ndarray:
    """A bed with its head at the wall: frame, mattress, a wrinkled cover, pillows."""
    wide, long, tall = rng.uniform(0.9, 1.8), rng.uniform(1.9, 2.1), rng.uniform(0.4, 0.6)
    parts = [
        boxes((long / 2, 0, 0.5 * tall - 0.08), (long, wide, 0.16)),
        boxes((0.03, 0, 0.5), (0.06, wide + 0.06, rng.uniform(0.9, 1.2))),
    ]
    parts.append(cushion((long - 0.06, wide - 0.02, 0.24), 0.15) + [long / 2, 0, tall - 0.12])
    x, y = np.meshgrid(np.linspace(0.55, long + 0.02, 22), np.linspace(-0.56, 0.56, 18) * wide, indexing="ij")
    bumps = sum(0.02 * np.sin(rng.uniform(3, 14) * x + rng.uniform(-9, 9) * y + rng.uniform(0, 6)) for _ in range(4))
    drop = np.clip((np.abs(y) - 0.49 * wide) / (0.06 * wide), 0, 1) * rng.uniform(0.1, 0.3)
    parts.append(surface(np.stack([x, y, tall + 0.06 + bumps - drop], axis=-1)))
    n = 1 if wide < 1.3 else 2
    parts += [
        cushion((0.4, 0.65 * wide / n, 0.16), 0.6) + [0.3, v * wide, tall + 0.08] for v in ([0.0] if n == 1 else [-0.23, 0.23])
    ]
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
            parts.append(
                clutter(rng, 0.6 * deep, 0.8 * wide, int(rng.integers(1, 5)), 0.7) * [1, 1, min(1.0, room / 0.36)]
                + [deep / 2, 0, low + 0.01]
            )
    return joined(*parts)


def kitchen(rng: np.random.Generator, highest: float) -> np.ndarray:
    """A counter with cupboards below and above, a tap, a hood, and a fridge at its end."""
    wide, deep = rng.uniform(1.5, 3.2), rng.uniform(0.55, 0.65)
    n = max(2, round(wide / 0.6))
    y = (np.arange(n) + 0.5) * (wide / n) - wide / 2
    parts = [
        boxes((deep / 2 - 0.02, 0, 0.48), (deep - 0.06, wide, 0.76)),
        boxes((deep / 2 - 0.05, 0, 0.05), (deep - 0.14, wide, 0.1)),
    ]
    parts += [
        boxes((deep - 0.03, y, 0.48), [0.03, wide / n - 0.01, 0.72]),
        boxes((deep / 2, 0, 0.88), (deep, wide, 0.04)),
    ]
    parts.append(
        beams(
            (deep + 0.02, y - 0.1, 0.78),
            (deep + 0.02, y + 0.1, 0.78),
            0.015,
        )
    )
    bow = np.array([[0.12, y[0], 0.9], [0.12, y[0], 1.15], [0.18, y[0], 1.22], [0.28, y[0], 1.2], [0.3, y[0], 1.12]])
    parts += [tube(bow, 0.015, 6), clutter(rng, 0.6 * deep, 0.9 * wide, int(rng.integers(2, 8))) + [deep / 2, 0, 0.9]]
    top = min(2.2, highest)
    some = y[rng.random(n) < 0.75]
    if len(some):
        parts.append(
            boxes(
                (0.17, some, (1.45 + top) / 2),
                [0.34, wide / n - 0.008, top - 1.45],
            )
        )
    if rng.random() < 0.6:
        parts.append(boxes((0.31, wide / 2 + 0.32, 0.9), (0.62, 0.6, min(1.8, highest))))
    return joined(*parts)


def television(rng: np.random.Generator) -> np.ndarray:
    wide, tall, screen = rng.uniform(1.0, 1.9), rng.uniform(0.4, 0.6), rng.uniform(0.8, 1.4)
    stand = joined(
        boxes((0.2, 0, tall / 2), (0.4, wide, tall)),
        boxes([[0.41, s * wide / 4, tall / 2] for s in (-1, 1)], [0.02, wide / 2 - 0.03, tall - 0.08]),
    )
    panel = [
        boxes((0.2, 0, tall + 0.08 + 0.28 * screen), (0.04, screen, 0.56 * screen)),
        boxes((0.2, 0, tall + 0.05), (0.15, 0.4, 0.1)),
    ]
    return joined(stand, *panel, clutter(rng, 0.2, wide, 3, 0.5) + [0.3, 0, tall])


def floor_lamp(rng: np.random.Generator) -> np.ndarray:
    tall, r = rng.uniform(1.3, 1.8), rng.uniform(0.12, 0.24)
    stem = np.array([[0.14, 0.0], [0.14, 0.02], [0.015, 0.04], [0.015, tall]])
    shade = np.array([[r, tall - 0.25], [0.65 * r, tall + 0.05]])
    return joined(lathe(stem, 10), lathe(shade, 14))


def plant(rng: np.random.Generator) -> Tree:
    """A plant in a pot: the pot and the stems, and the leaves."""
    r, h, tall = rng.uniform(0.08, 0.2), rng.uniform(0.15, 0.4), rng.uniform(0.4, 1.6)
    pot = [lathe(np.array([[0.75 * r, 0.0], [r, h], [0.9 * r, h], [0.85 * r, h - 0.04], [0.01, h - 0.04]]), 14)]
    tips = np.column_stack([rng.normal(0, 0.12 + 0.08 * tall, (5, 2)), rng.uniform(0.5, 1.0, 5) * tall + h])
    pot += [tube(np.array([[0, 0, h - 0.05], [0.3 * t[0], 0.3 * t[1], 0.6 * t[2]], t]), 0.012, 5) for t in tips]
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
