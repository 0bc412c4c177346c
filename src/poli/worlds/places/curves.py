"""Curves in the plane and in space as polylines, coordinates relative to them, and smooth random heights."""

from __future__ import annotations

import numpy as np

from poli.kernel import kernel, over_range
from poli.threads import run_chunks

_RUN = 16  # points


class Along:
    """Coordinates relative to a line in the plane: distance along it, and offset to its left."""

    def __init__(self, line: np.ndarray) -> None:  # (K, 2)
        self.line, self.meters, self.forward = line, lengths(line), directions(line)
        self._nearest = NearestOnLine(line)

    def __call__(self, xy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (N, 2) -> (N,), (N,)
        nearest = self._nearest(xy)[1][:, 0]
        away, forward = xy - self.line[nearest], self.forward[nearest]
        ahead = (away * forward).sum(axis=1)
        return self.meters[nearest] + ahead, forward[:, 0] * away[:, 1] - forward[:, 1] * away[:, 0]


def lengths(path: np.ndarray) -> np.ndarray:  # (K, D) -> (K,)
    """Distance in meters along the path to each of its points."""
    return np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])


def resampled(path: np.ndarray, spacing: float = 1.0) -> np.ndarray:  # (K, D)
    """Resample the polyline at equal steps of about `spacing`."""
    along = lengths(path)
    wanted = np.linspace(0.0, along[-1], max(2, round(along[-1] / spacing) + 1))
    return np.stack([np.interp(wanted, along, column) for column in path.T], axis=1)


def directions(path: np.ndarray) -> np.ndarray:  # (K, D) -> unit (K, D)
    """Unit vectors along the path."""
    forward = np.gradient(path, axis=0)
    return forward / np.linalg.norm(forward, axis=1, keepdims=True)


def headings(path: np.ndarray) -> np.ndarray:  # (K, 2 or 3) -> (K,)
    """Angles of the path in the plane."""
    forward = directions(path[:, :2])
    return np.arctan2(forward[:, 1], forward[:, 0])


def lefts(path: np.ndarray) -> np.ndarray:  # (K, 2 or 3) -> level unit vectors (K, 3)
    """Horizontal directions to the left of the path."""
    forward = directions(path[:, :2])
    return np.column_stack([-forward[:, 1], forward[:, 0], np.zeros(len(path))])


def shifted(path: np.ndarray, offset: np.ndarray | float) -> np.ndarray:  # (K, D), positive to the left
    """The path moved sideways."""
    offset = np.broadcast_to(np.asarray(offset, float), len(path))
    return path + offset[:, None] * lefts(path)[:, : path.shape[1]]


def smoothed(path: np.ndarray, reach: int) -> np.ndarray:  # (K, D)
    """Smooth a path with two passes of a moving average; the ends stay fixed."""
    for _ in range(2):
        padded = np.concatenate([2 * path[:1] - path[reach:0:-1], path, 2 * path[-1:] - path[-2 : -reach - 2 : -1]])
        sums = np.cumsum(np.concatenate([np.zeros((1, path.shape[1])), padded]), axis=0)
        path = (sums[2 * reach + 1 :] - sums[: -2 * reach - 1]) / (2 * reach + 1)
    return path


def winding(
    rng: np.random.Generator, length: float, swing: float, corners: tuple[tuple[float, float, float], ...] = ()
) -> np.ndarray:
    """Return a path (K, 2) that swings to both sides by up to `swing` radians; each corner is (meters along, turn in radians,
    radius)."""
    s = np.arange(0.0, length)
    waves = rng.uniform(90.0, 260.0, 2)
    heading = rng.uniform(-np.pi, np.pi) + 0.5 * swing * sum(np.sin(2 * np.pi * (s / w + rng.random())) for w in waves)
    for at, turn, radius in corners:
        reach = abs(turn) * radius
        heading = heading + turn * np.clip((s - at) / reach + 0.5, 0.0, 1.0)
    steps = np.stack([np.cos(heading), np.sin(heading)], axis=1)
    return np.concatenate([np.zeros((1, 2)), np.cumsum(steps[:-1], axis=0)])


def lengthened(path: np.ndarray, extra: float) -> np.ndarray:  # (K, 2)
    """Extend a path straight at both ends."""
    steps = np.arange(1.0, extra)[:, None]
    d = directions(path)
    return np.concatenate([(path[0] - steps * d[0])[::-1], path, path[-1] + steps * d[-1]])


def line(start: np.ndarray, heading: float, length: float) -> np.ndarray:
    """Return a straight path (K, 2)."""
    return start + np.arange(0.0, length)[:, None] * np.array([np.cos(heading), np.sin(heading)])


class NearestOnLine:
    """The nearest points of a line in the plane.

    Consecutive points are close together, so runs of points are boxed. A run is skipped if its box is farther away than the best
    point so far, which makes a tree unnecessary.
    """

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


class Waves:
    """A sum of plane waves of random direction and a range of wavelengths, with standard deviation `height`."""

    def __init__(self, rng: np.random.Generator, height: float, shortest: float, longest: float, count: int = 7) -> None:
        wavelength = np.exp(rng.uniform(np.log(shortest), np.log(longest), count))
        angle = rng.uniform(0, 2 * np.pi, count)
        self.frequency = (2 * np.pi / wavelength) * np.stack([np.cos(angle), np.sin(angle)])  # (2, count)
        self.phase = rng.uniform(0, 2 * np.pi, count)
        weight = wavelength / np.linalg.norm(wavelength)  # longer waves are higher
        self.amplitude = np.sqrt(2.0) * height * weight

    def __call__(self, xy: np.ndarray) -> np.ndarray:  # (N, 2) -> (N,)
        return np.sin(xy @ self.frequency + self.phase) @ self.amplitude


def ramp(value: np.ndarray, low: float, high: float) -> np.ndarray:
    """Smooth step from 0 below `low` to 1 above `high`."""
    t = np.clip((value - low) / (high - low), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)
