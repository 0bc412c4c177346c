"""Curves in the plane and in space, as polylines."""

from __future__ import annotations

import numpy as np


def lengths(path: np.ndarray) -> np.ndarray:  # (K, D) -> (K,)
    """Distance in meters along the path to each of its points."""
    return np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])


def resampled(path: np.ndarray, spacing: float = 1.0) -> np.ndarray:  # (K, D)
    """Resample the polyline at equal steps of about `spacing`."""
    along = lengths(path)
    wanted = np.linspace(0.0, along[-1], max(2, round(along[-1] / spacing) + 1))
    return np.stack([np.interp(wanted, along, column) for column in path.T], axis=1)


def directions(path: np.ndarray) -> np.ndarray:  # (K, D) -> unit (K, D)
    forward = np.gradient(path, axis=0)
    return forward / np.linalg.norm(forward, axis=1, keepdims=True)


def headings(path: np.ndarray) -> np.ndarray:  # (K, 2 or 3) -> (K,)
    forward = directions(path[:, :2])
    return np.arctan2(forward[:, 1], forward[:, 0])


def lefts(path: np.ndarray) -> np.ndarray:  # (K, 2 or 3) -> level unit vectors (K, 3)
    forward = directions(path[:, :2])
    return np.column_stack([-forward[:, 1], forward[:, 0], np.zeros(len(path))])


def shifted(path: np.ndarray, offset: np.ndarray | float) -> np.ndarray:  # (K, D), positive to the left
    offset = np.broadcast_to(np.asarray(offset, float), len(path))
    return path + offset[:, None] * lefts(path)[:, : path.shape[1]]


def smoothed(path: np.ndarray, reach: int) -> np.ndarray:  # (K, D)
    """Smooth a path with two passes of a moving average; the ends stay fixed."""
    for _ in range(2):
        padded = np.concatenate([2 * path[:1] - path[reach:0:-1], path, 2 * path[-1:] - path[-2 : -reach - 2 : -1]])
        sums = np.cumsum(np.concatenate([np.zeros((1, path.shape[1])), padded]), axis=0)
        path = (sums[2 * reach + 1 :] - sums[: -2 * reach - 1]) / (2 * reach + 1)
    return path


def by_heading(heading: np.ndarray, spacing: float = 1.0) -> np.ndarray:  # (K,) -> (K, 2)
    """Integrate headings into a path."""
    steps = spacing * np.stack([np.cos(heading), np.sin(heading)], axis=1)
    return np.concatenate([np.zeros((1, 2)), np.cumsum(steps[:-1], axis=0)])


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
    return by_heading(heading)


def lengthened(path: np.ndarray, extra: float) -> np.ndarray:  # (K, 2)
    """Extend a path straight at both ends."""
    steps = np.arange(1.0, extra)[:, None]
    d = directions(path)
    return np.concatenate([(path[0] - steps * d[0])[::-1], path, path[-1] + steps * d[-1]])


def line(start: np.ndarray, heading: float, length: float) -> np.ndarray:
    """Return a straight path (K, 2)."""
    return start + np.arange(0.0, length)[:, None] * np.array([np.cos(heading), np.sin(heading)])
