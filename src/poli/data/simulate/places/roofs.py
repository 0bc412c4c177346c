"""Roofs over a rectangle centered on the origin, eaves at height zero: gabled, hipped and flat, with tiles, gutters and
chimneys."""

from __future__ import annotations

import numpy as np

from poli.data.simulate.places.solids import NOTHING, boxes, copies, fan, joined, lathe, surface, tube, turned


def _slope(eave: np.ndarray, ridge: np.ndarray, tile: float, period: float) -> np.ndarray:  # (2, 3), (2, 3)
    """A sheet from an eave to a ridge. If `tile` is given, courses of round tiles run up the slope as waves of that height."""
    length = np.linalg.norm(eave[1] - eave[0])
    waves = max(2, int(length / period)) if tile > 0 else 1
    t = np.linspace(0.0, 1.0, 4 * waves + 1 if tile > 0 else 2)[:, None]
    low, high = eave[0] + t * (eave[1] - eave[0]), ridge[0] + t * (ridge[1] - ridge[0])
    normal = np.cross(eave[1] - eave[0], ridge.mean(axis=0) - eave.mean(axis=0))
    normal /= np.linalg.norm(normal)
    lift = tile * np.sin(2 * np.pi * waves * t) * normal
    return surface(np.stack([low + lift, 0.5 * (low + high) + lift, high + 0.7 * lift]))


def roof(rng: np.random.Generator, width: float, depth: float, kind: str) -> np.ndarray:
    if kind == "flat":
        return _flat(rng, width, depth)
    along_y = depth > width if kind == "hipped" else rng.random() < 0.25
    if along_y:
        return turned(_pitched(rng, depth, width, kind), np.pi / 2)
    return _pitched(rng, width, depth, kind)


def _pitched(rng: np.random.Generator, width: float, depth: float, kind: str) -> np.ndarray:
    over, pitch = rng.uniform(0.15, 0.6), np.deg2rad(rng.uniform(22, 50))
    tile = rng.uniform(0.02, 0.045) if rng.random() < 0.75 else 0.0
    period = rng.uniform(0.24, 0.45)
    hip = min(depth / 2, 0.45 * width) * (1.0 if kind == "hipped" else 0.0)
    x, y = width / 2 + over, depth / 2 + over
    eave, rise = -over * np.tan(pitch), depth / 2 * np.tan(pitch)
    top = x - (hip + over if hip else 0.0)
    corner = np.array([[x, y, eave], [-x, y, eave], [-x, -y, eave], [x, -y, eave]])
    ridge = np.array([[top, 0, rise], [-top, 0, rise]])
    parts = [_slope(corner[:2], ridge, tile, period), _slope(corner[2:], ridge[::-1], tile, period)]
    if hip:
        parts += [_slope(corner[[1, 2]], ridge[[1, 1]], tile, period), _slope(corner[[3, 0]], ridge[[0, 0]], tile, period)]
    else:
        gable = np.array([[width / 2, depth / 2, 0], [width / 2, -depth / 2, 0], [width / 2, 0, rise]])
        parts += [gable[None], (gable * [-1, 1, 1])[None]]
    for side in (y + 0.05, -y - 0.05):
        parts.append(tube(np.array([[-x, side, eave], [x, side, eave]]), 0.07, 6))
    parts.append(tube(ridge + [[0.1, 0, 0.02], [-0.1, 0, 0.02]], 0.1, 6))
    parts += [_chimneys(rng, top, depth, rise), _dormers(rng, top, depth, rise, np.tan(pitch))]
    return joined(parts)


def _chimneys(rng: np.random.Generator, reach: float, depth: float, rise: float) -> np.ndarray:
    n = int(rng.integers(0, 3))
    at = np.column_stack([rng.uniform(-0.8, 0.8, n) * reach, rng.uniform(-0.2, 0.2, n) * depth, np.full(n, rise - 0.1)])
    size = np.column_stack([rng.uniform(0.4, 1.1, n), rng.uniform(0.4, 0.7, n), rng.uniform(1.8, 3.4, n)])
    if n == 0:
        return NOTHING
    top = at + 0.5 * size * np.array([0.0, 0.0, 1.0])
    pots = copies(lathe(np.array([[0.13, 0.0], [0.12, 0.5]]), 8), top)
    return joined([boxes(at, size), boxes(top, size * [1, 1, 0] + [0.15, 0.15, 0.12]), pots])


def _dormers(rng: np.random.Generator, reach: float, depth: float, rise: float, slope: float) -> np.ndarray:
    n = int(rng.integers(0, 4)) if rise > 3.0 and rng.random() < 0.6 else 0
    wide, tall = rng.uniform(1.2, 2.2), rng.uniform(1.3, 1.8)
    front = depth / 2 * rng.uniform(0.65, 0.85)
    floor = rise - front * slope
    parts = []
    for x in np.linspace(-0.7, 0.7, n) * reach if n > 1 else np.zeros(n):
        deep = front + 0.0
        w = wide / 2
        wall = np.array([[x - w, front, floor], [x + w, front, floor], [x + w, front, floor + tall], [x - w, front, floor + tall]])
        parts.append(fan(np.array([*wall[:3], [x, front, floor + tall + 0.5 * w], wall[3]])))
        parts.append(boxes([[x, front, floor + 0.5 * tall]], [1.3 * w, 0.12, 0.7 * tall]))
        for side in (-1, 1):
            edge = np.array([[x + side * w, front, floor], [x + side * w, front - deep * 0.5, floor + deep * 0.5 * slope]])
            parts.append(surface(np.stack([edge, np.column_stack([edge[:, :2], np.full(2, floor + tall)])])))
            eave = np.array([[x + side * 1.2 * w, front + 0.2, floor + tall - 0.1], [x + side * 1.2 * w, 0.1, floor + tall - 0.1]])
            ridge = np.array([[x, front + 0.2, floor + tall + 0.5 * w], [x, 0.1, floor + tall + 0.5 * w]])
            parts.append(surface(np.stack([eave, ridge])))
    return joined(parts)


def _flat(rng: np.random.Generator, width: float, depth: float) -> np.ndarray:
    x, y, rim = width / 2, depth / 2, rng.uniform(0.2, 1.1)
    centers = np.array([[0, y - 0.15, rim / 2], [0, 0.15 - y, rim / 2], [x - 0.15, 0, rim / 2], [0.15 - x, 0, rim / 2]])
    sizes = np.array([[width, 0.3, rim], [width, 0.3, rim], [0.3, depth - 0.6, rim], [0.3, depth - 0.6, rim]])
    top = surface(np.array([[[-x, -y, 0.05], [x, -y, 0.05]], [[-x, y, 0.05], [x, y, 0.05]]]))
    n = int(rng.integers(1, 6))
    huts = np.column_stack([rng.uniform(0.8, 0.35 * width, n), rng.uniform(0.8, 0.35 * depth, n), rng.uniform(0.6, 3.0, n)])
    at = np.column_stack([rng.uniform(-0.3, 0.3, (n, 2)) * [width, depth], huts[:, 2] / 2])
    return joined([boxes(centers, sizes), top, boxes(at, huts, rng.normal(0, 0.02, n))])
