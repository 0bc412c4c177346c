"""Fences, railings, crash barriers and garden walls along a path on the ground."""

from __future__ import annotations

import numpy as np

from poli.data.simulate.places.curves import lefts, lengths
from poli.data.simulate.places.solids import NOTHING, beams, boxes, joined, swept

FENCES = ("picket", "mesh", "bars", "rails", "barrier", "wall")


def _at(path: np.ndarray, every: float) -> np.ndarray:  # (K, 3)
    along = lengths(path)
    wanted = np.arange(0.0, along[-1], every)
    return np.stack([np.interp(wanted, along, column) for column in path.T], axis=1)


def fence(rng: np.random.Generator, path: np.ndarray, kind: str) -> np.ndarray:  # (K, 3)
    if len(path) < 3:
        return NOTHING
    up = np.array([0.0, 0.0, 1.0])
    if kind == "wall":
        tall, thick = rng.uniform(0.5, 1.9), rng.uniform(0.12, 0.2)
        cap = thick + 0.05
        profile = np.array(
            [
                [-thick, -0.6],
                [-thick, tall - 0.1],
                [-cap, tall - 0.1],
                [-cap, tall],
                [0, tall + 0.04],
                [cap, tall],
                [cap, tall - 0.1],
                [thick, tall - 0.1],
                [thick, -0.6],
            ]
        )
        piers = _at(path, rng.uniform(2.5, 5.0))
        return joined([swept(path, lefts(path), profile), boxes(piers + up * (tall / 2 - 0.2), [0.42, 0.42, tall + 0.7])])
    if kind == "barrier":  # the corrugated sheet of a crash barrier
        profile = np.array([[0.0, 0.42], [0.09, 0.47], [0.09, 0.54], [0.02, 0.59], [0.09, 0.64], [0.09, 0.71], [0.0, 0.76]])
        posts = _at(path, 2.0)
        return joined([swept(path, lefts(path), profile), beams(posts - 0.4 * up, posts + 0.72 * up, 0.1)])
    tall = {"picket": 1.0, "mesh": 1.9, "bars": 1.2, "rails": 1.05}[kind] * rng.uniform(0.85, 1.25)
    posts = _at(path, {"picket": 2.2, "mesh": 2.5, "bars": 2.0, "rails": 1.8}[kind])
    parts = [beams(posts - 0.5 * up, posts + (tall + 0.06) * up, 0.09, 6)]
    levels = {"picket": (0.25, 0.8), "mesh": (0.05, 0.17, 0.29, 0.41, 0.53, 0.65, 0.77, 0.89, 1.0), "bars": (0.12, 1.0)}
    for level in levels.get(kind, (0.35, 0.65, 1.0)):
        rail = path + up * (tall * level)
        parts.append(beams(rail[:-1], rail[1:], 0.015 if kind == "mesh" else 0.055, 3 if kind == "mesh" else 4))
    if kind == "picket":
        slats = _at(path, rng.uniform(0.12, 0.2))
        parts.append(boxes(slats + up * (0.5 * tall), np.array([0.075, 0.075, tall]) * rng.uniform(0.9, 1.1, (len(slats), 3))))
    if kind in ("bars", "mesh"):
        rods = _at(path, rng.uniform(0.11, 0.16) if kind == "bars" else rng.uniform(0.2, 0.35))
        parts.append(beams(rods + 0.05 * up, rods + tall * up, 0.025 if kind == "bars" else 0.015, 3))
    return joined(parts)
