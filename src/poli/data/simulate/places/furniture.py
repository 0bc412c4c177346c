"""Street furniture: lamps, signs, bins, benches, shelters, bicycles, people. Each stands on z = 0, facing +x."""

from __future__ import annotations

import numpy as np

from poli.data.simulate.places.solids import beams, box, boxes, copies, ellipsoid, fan, joined, lathe, post, prism, surface, tube


def lamp(rng: np.random.Generator) -> np.ndarray:
    """A post with a curved or straight arm over the road, or a lantern on top."""
    tall, thick = rng.uniform(4.0, 9.0), rng.uniform(0.05, 0.11)
    base = lathe(np.array([[1.9 * thick, -0.4], [1.9 * thick, 0.5], [thick, 0.7]]), 10)
    if tall < 5.0:
        lantern = lathe(np.array([[0.05, tall - 0.1], [0.2, tall], [0.28, tall + 0.45], [0.02, tall + 0.7]]), 8)
        return joined([base, post(tall, thick, 0.6 * thick, 10), lantern])
    reach, t = rng.uniform(0.8, 2.4), np.linspace(0, 1, 7)[:, None]
    curve = np.array([0, 0, tall - 1.0]) + t * [reach, 0, 0] + (1 - (1 - t) ** 2) * [0, 0, 1.2]
    head = ellipsoid((0.38, 0.15, 0.08), 10, 6) + curve[-1] + [0.2, 0, 0]
    return joined([base, post(tall - 1.0, thick, 0.7 * thick, 10), tube(curve, 0.55 * thick, 8), head])


def sign(rng: np.random.Generator) -> np.ndarray:
    """A round, triangular or square sign, or a large board, on one or two posts."""
    tall, size = rng.uniform(2.1, 2.9), rng.uniform(0.3, 0.45)
    shape = rng.choice(["round", "triangle", "square", "board"])
    if shape == "board":
        wide, high = rng.uniform(1.0, 2.6), rng.uniform(0.6, 1.4)
        posts = [post(tall + high, 0.045, sides=6) + [0, y, 0] for y in (-0.35 * wide, 0.35 * wide)]
        return joined([*posts, box((0.06, 0, tall + high / 2), (0.03, wide, high))])
    corners = {"round": 14, "triangle": 3, "square": 4}[str(shape)]
    angle = np.arange(corners) * (2 * np.pi / corners) + (np.pi / 4 if corners == 4 else np.pi / 2)
    plate = prism(size * np.stack([np.cos(angle), np.sin(angle)], axis=1), -0.012, 0.012)[..., [2, 0, 1]]
    return joined([post(tall + size, 0.035, sides=6), plate + [0.06, 0, tall]])


def signal(rng: np.random.Generator) -> np.ndarray:
    head = joined(
        [box((0, 0, 0), (0.25, 0.3, 0.9)), *[tube(np.array([[0.1, 0, z], [0.32, 0, z]]), 0.11, 8) for z in (-0.28, 0, 0.28)]]
    )
    tall = rng.uniform(2.4, 3.2)
    parts = [post(tall + 0.6, 0.06, sides=8), head + [0.2, 0, tall]]
    if rng.random() < 0.4:
        reach = rng.uniform(2.0, 3.0)
        parts += [post(5.8, 0.09, 0.06, 8), tube(np.array([[0, 0, 5.6], [0, reach, 5.9]]), 0.05, 6), head + [0.2, reach, 5.6]]
    return joined(parts)


def bollard(rng: np.random.Generator) -> np.ndarray:
    r, tall = rng.uniform(0.06, 0.16), rng.uniform(0.6, 1.1)
    return lathe(np.array([[r, -0.2], [r, 0.8 * tall], [1.2 * r, 0.83 * tall], [1.1 * r, 0.95 * tall], [0.01, tall]]), 10)


def bin_(rng: np.random.Generator) -> np.ndarray:
    if rng.random() < 0.5:  # a wheeled bin
        wide, tall = rng.uniform(0.45, 1.2), rng.uniform(0.9, 1.2)
        rings = [
            np.array([[-a, -b, z], [a, -b, z], [a, b, z], [-a, b, z]])
            for a, b, z in (
                (0.25, 0.42 * wide, -0.1),
                (0.3, 0.5 * wide, tall),
                (0.34, 0.53 * wide, tall + 0.03),
                (0.2, 0.5 * wide, tall + 0.13),
            )
        ]
        return joined([surface(np.stack(rings), close=True), fan(rings[-1])])
    r = rng.uniform(0.18, 0.3)
    return lathe(np.array([[0.8 * r, -0.1], [r, 0.75], [1.1 * r, 0.8], [0.7 * r, 0.95], [0.02, 1.0]]), 12)


def bench(rng: np.random.Generator) -> np.ndarray:
    wide, slats = rng.uniform(1.4, 2.2), int(rng.integers(3, 6))
    x = np.linspace(-0.2, 0.2, slats)
    seat = boxes(np.column_stack([x, 0 * x, 0.45 + 0.05 * (x / 0.2) ** 2]), [0.3 / slats, wide, 0.04])
    back = boxes(np.column_stack([-0.26 - 0.06 * np.arange(3), np.zeros(3), 0.6 + 0.14 * np.arange(3)]), [0.04, wide, 0.1])
    legs = boxes(np.array([[0, y, 0.18] for y in (-0.4 * wide, 0.4 * wide)]), [0.45, 0.07, 0.56])
    return joined([seat, back, legs])


def shelter(rng: np.random.Generator) -> np.ndarray:
    """A bus shelter: a curved roof on posts, a back wall of panels, a seat."""
    wide, deep, tall = rng.uniform(2.5, 5.0), rng.uniform(1.2, 1.7), rng.uniform(2.2, 2.6)
    x = np.linspace(-0.6, 0.6, 8) * deep
    arch = np.stack([np.column_stack([x, np.full(8, y), tall + 0.25 * np.cos(x / deep * 2.2)]) for y in (-wide / 2, wide / 2)])
    feet = np.array([[a * deep, b * wide, -0.3] for a in (-0.45, 0.45) for b in (-0.48, 0.0, 0.48)])
    panels = boxes(np.array([[-0.45 * deep, b * wide, 1.15] for b in (-0.24, 0.24)]), [0.03, 0.44 * wide, 1.8])
    seat = box((-0.25 * deep, 0, 0.5), (0.35, 0.7 * wide, 0.05))
    return joined([surface(arch), beams(feet, feet + [0, 0, tall + 0.4], 0.08, 6), panels, seat])


def bicycle(rng: np.random.Generator) -> np.ndarray:
    angle = np.linspace(0, 2 * np.pi, 17)
    wheel = tube(np.stack([0.34 * np.cos(angle), 0 * angle, 0.34 + 0.34 * np.sin(angle)], axis=1), 0.025, 5)
    joints = np.array([[-0.52, 0, 0.34], [-0.1, 0, 0.32], [-0.2, 0, 0.85], [0.38, 0, 0.8], [0.52, 0, 0.34], [0.33, 0, 1.0]])
    tubes = beams(joints[[0, 1, 2, 1, 3, 0, 3]], joints[[1, 2, 3, 3, 4, 2, 5]], 0.05, 5)
    bar = tube(np.array([[0.25, -0.28, 1.02], [0.35, 0, 1.02], [0.25, 0.28, 1.02]]), 0.02, 5)
    return joined([wheel + [-0.52, 0, 0], wheel + [0.52, 0, 0], tubes, bar, box((-0.22, 0, 0.9), (0.26, 0.14, 0.06))])


def bicycle_rack(rng: np.random.Generator) -> np.ndarray:
    n = int(rng.integers(3, 9))
    spots = np.column_stack([rng.normal(0, 0.05, n), (np.arange(n) - n / 2) * 0.6, np.zeros(n)])
    hoop = np.array([[-0.4, 0, -0.1], [-0.4, 0, 0.65], [-0.3, 0, 0.78], [0.3, 0, 0.78], [0.4, 0, 0.65], [0.4, 0, -0.1]])
    used = spots[rng.random(n) < 0.7]
    parts = [copies(tube(hoop, 0.025, 6), spots)]
    return joined([*parts, copies(bicycle(rng), used + [0, 0.2, 0], rng.normal(0, 0.08, len(used)))] if len(used) else parts)


def person(rng: np.random.Generator) -> np.ndarray:
    """A figure of rounded limbs, standing or walking."""
    tall, step, wide = rng.uniform(1.5, 1.9), rng.uniform(-0.35, 0.35), rng.uniform(0.17, 0.23)
    hip, shoulder = 0.52 * tall, 0.82 * tall
    parts = [ellipsoid((0.1, 0.09, 0.13), 10, 6) + [0, 0, 0.93 * tall]]
    body = np.array(
        [[0.9, hip - 0.05], [1.0, hip + 0.1], [0.85, 0.65 * tall], [1.15, shoulder - 0.08], [0.9, shoulder], [0.3, shoulder + 0.05]]
    )
    parts.append(lathe(body * [wide, 1.0], 12) * [0.65, 1.0, 1.0])
    for side in (-1, 1):
        swing = side * step
        leg = np.array([[0, side * 0.1, hip], [0.4 * swing + 0.03, side * 0.1, 0.5 * hip], [swing, side * 0.1, 0.0]])
        arm = np.array(
            [
                [0, side * wide * 1.15, shoulder - 0.05],
                [-0.3 * swing, side * wide * 1.4, 0.66 * tall],
                [-swing + 0.1, side * wide * 1.3, hip],
            ]
        )
        parts += [tube(leg, np.array([0.09, 0.07, 0.05]), 8), tube(arm, np.array([0.06, 0.05, 0.035]), 7)]
    return joined(parts)


def planter(rng: np.random.Generator) -> np.ndarray:
    r, tall = rng.uniform(0.4, 0.9), rng.uniform(0.4, 0.8)
    return lathe(np.array([[0.8 * r, -0.1], [r, tall], [0.9 * r, tall], [0.85 * r, tall - 0.1], [0.05, tall - 0.05]]), 14)


def cabinet(rng: np.random.Generator) -> np.ndarray:
    wide, deep, tall = rng.uniform(0.5, 1.6), rng.uniform(0.3, 0.6), rng.uniform(0.8, 1.6)
    return joined([box((0, 0, tall / 2 - 0.1), (deep, wide, tall + 0.2)), box((0, 0, tall), (deep + 0.08, wide + 0.08, 0.06))])
