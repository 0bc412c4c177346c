"""Nearest points of a line in the plane.

Consecutive points of a line are close together, so runs of points are boxed. A run is skipped if its box is farther away than the
best point so far, which makes a tree unnecessary.
"""

import numpy as np

from poli.kernel import kernel, over_range
from poli.threads import run_chunks

_RUN = 16  # points


class NearestOnLine:
    def __init__(self, line: np.ndarray) -> None:  # (K, 2)
        self._line = np.ascontiguousarray(line, np.float64)
        starts = np.arange(0, len(line), _RUN)
        self._boxes = np.hstack([np.minimum.reduceat(self._line, starts), np.maximum.reduceat(self._line, starts)])

    def __call__(self, xy: np.ndarray, k: int = 1) -> tuple[np.ndarray, np.ndarray]:  # (N, 2) -> (N, k), (N, k)
        """Return the distances of the `k` nearest points, ascending, and their indices."""
        queries = np.ascontiguousarray(xy, np.float64)
        found, distances = np.empty((len(queries), k), np.int64), np.empty((len(queries), k))
        run_chunks(over_range(_nearest, self._line, self._boxes, queries, found, distances), len(queries), smallest=2048)
        return distances, found


@kernel
def _nearest(line, boxes, queries, begin, end, found, distances):  # (K, 2), (runs, 4), (N, 2), (N, k), (N, k)
    k = found.shape[1]
    hint = 0  # the run with the previous query's nearest point: starting there skips most other runs
    for q in range(begin, end):
        x, y = queries[q, 0], queries[q, 1]
        best, which = distances[q], found[q]
        best[:], which[:] = np.inf, 0
        first = hint
        for turn in range(-1, len(boxes)):
            run = first if turn < 0 else turn
            if turn == first:
                continue
            dx = max(max(boxes[run, 0] - x, x - boxes[run, 2]), 0.0)
            dy = max(max(boxes[run, 1] - y, y - boxes[run, 3]), 0.0)
            if dx * dx + dy * dy > best[k - 1]:
                continue
            for i in range(run * _RUN, min(run * _RUN + _RUN, len(line))):
                dx, dy = line[i, 0] - x, line[i, 1] - y
                squared = dx * dx + dy * dy
                # Among equally near points the first on the line wins, regardless of the order in which runs are searched.
                if squared > best[k - 1] or (squared == best[k - 1] and i > which[k - 1]):
                    continue
                at = k - 1
                while at > 0 and (best[at - 1] > squared or (best[at - 1] == squared and which[at - 1] > i)):
                    best[at], which[at] = best[at - 1], which[at - 1]
                    at -= 1
                best[at], which[at] = squared, i
        hint = which[0] // _RUN
        for j in range(k):
            best[j] = np.sqrt(best[j])
