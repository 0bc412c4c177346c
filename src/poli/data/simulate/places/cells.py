"""A mesh of square cells that are small near the route and double in size with distance, without cracks between sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_CORNERS = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
_MIDDLES = np.array([[1, 0], [2, 1], [1, 2], [0, 1]])  # of the edges, in halves of a cell; edge k joins corners k and k + 1
_WIDE = np.int64(1) << 32


@dataclass(frozen=True)
class Cells:
    xy: np.ndarray  # (V, 2)
    faces: np.ndarray  # (F, 3)
    hanging: tuple[tuple[np.ndarray, np.ndarray], ...]  # (vertex (H,), its two parents (H, 2)), largest cells first

    def settled(self, values: np.ndarray) -> np.ndarray:  # (V, A)
        """Set the values of vertices on the middle of a larger cell's edge to the edge's values there."""
        values = values.copy()
        for vertex, parents in self.hanging:
            values[vertex] = values[parents].mean(axis=1)
        return values


def graded_cells(
    low: np.ndarray, high: np.ndarray, finest: float, reach: tuple[float, ...], distance: Callable[[np.ndarray], np.ndarray]
) -> Cells:
    """Return cells of size finest * 2^k where `distance` (N, 2) -> (N,) is below reach[k], and the next size beyond the last."""
    coarsest = len(reach)
    size = finest * 2**coarsest
    counts = np.ceil((high - low) / size).astype(int)
    cells = np.stack(np.meshgrid(np.arange(counts[0]), np.arange(counts[1]), indexing="ij"), axis=-1).reshape(-1, 2)
    leaves = []
    for level in range(coarsest, -1, -1):
        step = finest * 2**level
        if level == 0:
            leaves.append((level, cells))
            break
        near = distance(low + (cells + 0.5) * step) < reach[level - 1]
        leaves.append((level, cells[~near]))
        cells = (2 * cells[near][:, None] + _CORNERS).reshape(-1, 2)
    corner_keys = [_key((c[:, None] + _CORNERS) * 2**level) for level, c in leaves]  # each (n, 4)
    keys, inverse = np.unique(np.concatenate([k.ravel() for k in corner_keys]), return_inverse=True)
    quads = inverse.reshape(-1, 4)
    hanging, first = [], 0
    for (level, c), corners in zip(leaves, corner_keys, strict=True):
        mine = quads[first : first + len(corners)]
        first += len(corners)
        if level > 0 and len(c):
            middle = _key((2 * c[:, None] + _MIDDLES) * 2 ** (level - 1)).ravel()
            parents = np.stack([mine, np.roll(mine, -1, axis=1)], axis=-1).reshape(-1, 2)
            found = np.minimum(np.searchsorted(keys, middle), len(keys) - 1)
            met = keys[found] == middle
            hanging.append((found[met], parents[met]))
    grid = np.stack([keys // _WIDE, keys % _WIDE], axis=1)
    odd = (quads.sum(axis=1) % 2 == 0)[:, None, None]  # alternate the diagonals: the ground has no preferred direction
    faces = np.where(odd, quads[:, [[0, 1, 2], [0, 2, 3]]], quads[:, [[0, 1, 3], [1, 2, 3]]]).reshape(-1, 3)
    return Cells(low + grid * finest, faces, tuple(hanging))


def _key(grid: np.ndarray) -> np.ndarray:  # (..., 2) whole numbers
    return grid[..., 0].astype(np.int64) * _WIDE + grid[..., 1]
