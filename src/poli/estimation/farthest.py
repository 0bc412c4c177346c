"""Farthest point sampling: centres that cover a cloud evenly."""

import numpy as np

from poli.kernel import kernel


def farthest_points(points: np.ndarray, count: int) -> np.ndarray:  # (N, 3) -> (count,) int32
    """Indices of `count` points, each the farthest from those before it; the first is the farthest from the centroid.

    So the choice depends on the cloud and not on the order of its points (but for exact ties).
    """
    return _farthest(np.ascontiguousarray(points, dtype=np.float64), count)


@kernel
def _farthest(points, count):
    n = len(points)
    cx, cy, cz = points[:, 0].mean(), points[:, 1].mean(), points[:, 2].mean()
    distance = np.empty(n)
    chosen = np.empty(count, np.int32)
    for i in range(n):
        distance[i] = (points[i, 0] - cx) ** 2 + (points[i, 1] - cy) ** 2 + (points[i, 2] - cz) ** 2
    best = int(np.argmax(distance))
    distance[:] = np.inf
    for c in range(count):
        chosen[c] = best
        x, y, z = points[best, 0], points[best, 1], points[best, 2]
        distance[best] = -1.0  # never again, even among duplicates
        best, farthest = 0, -2.0
        for i in range(n):
            if distance[i] >= 0.0:
                d = (points[i, 0] - x) ** 2 + (points[i, 1] - y) ** 2 + (points[i, 2] - z) ** 2
                distance[i] = min(distance[i], d)
                if distance[i] > farthest:
                    best, farthest = i, distance[i]
    return chosen
