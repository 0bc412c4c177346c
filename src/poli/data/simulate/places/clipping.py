"""Cutting triangles along the zero line of a value that is linear in each of them."""

from __future__ import annotations

import numpy as np


def split(corners: np.ndarray, column: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (F, 3, A), values at the corners
    """Triangles where the column is negative, those where it is not, (., 3, A) each, and the cut's segments (S, 2, A)."""
    inside = corners[..., column] < 0
    count = inside.sum(axis=1)
    below, above = [corners[count == 3]], [corners[count == 0]]
    cuts = []
    for alone_inside, chosen in ((True, count == 1), (False, count == 2)):
        part, flags = corners[chosen], inside[chosen]
        if not len(part):
            continue
        lonely = np.argmax(flags == alone_inside, axis=1)  # the corner that has a side of the cut to itself
        rows = np.arange(len(part))
        a, b, c = (part[rows, (lonely + k) % 3] for k in range(3))
        ab, ac = _crossing(a, b, column), _crossing(a, c, column)
        tip = np.stack([a, ab, ac], axis=1)
        rest = np.concatenate([np.stack([ab, b, c], axis=1), np.stack([ab, c, ac], axis=1)])
        below.append(tip if alone_inside else rest)
        above.append(rest if alone_inside else tip)
        cuts.append(np.stack([ab, ac], axis=1))
    segments = np.concatenate(cuts) if cuts else np.zeros((0, 2, corners.shape[2]))
    return np.concatenate(below), np.concatenate(above), segments


def _crossing(a: np.ndarray, b: np.ndarray, column: int) -> np.ndarray:  # (F, A), (F, A)
    t = a[:, column] / (a[:, column] - b[:, column])
    return a + t[:, None] * (b - a)
