"""Simple surfaces as triangle soups, (F, 3, 3), with many copies per call."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

_CUBE = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
_CUBE_FACES = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
NOTHING = np.zeros((0, 3, 3))


def joined(*parts: np.ndarray) -> np.ndarray:
    """Return the triangles of all parts."""
    return np.concatenate([NOTHING, *parts])


def rows_of(points: ArrayLike | tuple) -> np.ndarray:  # (N, D)
    """Return points given as rows, or as a tuple of x, y and so on, each a number or an array."""
    return np.atleast_2d(np.asarray(np.stack(np.broadcast_arrays(*points), -1) if isinstance(points, tuple) else points, float))


def from_quads(quads: np.ndarray) -> np.ndarray:  # (N, 4, 3), corners in order around
    """Two triangles for each quadrilateral."""
    return quads[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3, 3)


def boxes(centers: ArrayLike | tuple, sizes: ArrayLike | tuple, yaws: ArrayLike = 0.0) -> np.ndarray:
    """Return boxes of full extents `sizes`, rotated about z. Centers and sizes are `rows_of` points; one size may serve all."""
    centers, sizes = rows_of(centers), rows_of(sizes)
    corners = _CUBE * np.broadcast_to(sizes, centers.shape)[:, None]  # (N, 8, 3)
    corners = turned(corners, np.broadcast_to(np.asarray(yaws, float), len(centers))[:, None]) + centers[:, None]
    return from_quads(corners[:, _CUBE_FACES].reshape(-1, 4, 3))


def turned(points: np.ndarray, yaw: np.ndarray | float) -> np.ndarray:  # (..., 3), yaw broadcasts against (...)
    """Rotate points about z."""
    cos, sin = np.cos(yaw), np.sin(yaw)
    x, y = points[..., 0], points[..., 1]
    return np.stack([cos * x - sin * y, sin * x + cos * y, points[..., 2] + 0.0 * cos], axis=-1)


def copies(
    part: np.ndarray, positions: ArrayLike | tuple, yaws: np.ndarray | float = 0.0, scales: np.ndarray | float = 1.0
) -> np.ndarray:
    """Return a part (F, 3, 3) at each of the positions (M, 3), rotated and scaled: (M F, 3, 3)."""
    positions = rows_of(positions)
    yaws, scales = (np.broadcast_to(np.asarray(v, float), len(positions)) for v in (yaws, scales))
    many = part[None] * scales[:, None, None, None]
    return (turned(many, yaws[:, None, None]) + positions[:, None, None]).reshape(-1, 3, 3)


def surface(points: np.ndarray, close: bool = False) -> np.ndarray:  # (A, B, 3)
    """Return the sheet over a grid of points; `close` joins the last column to the first."""
    if close:
        points = np.concatenate([points, points[:, :1]], axis=1)
    a, b, c, d = points[:-1, :-1], points[1:, :-1], points[1:, 1:], points[:-1, 1:]
    return from_quads(np.stack([a, b, c, d], axis=2).reshape(-1, 4, 3))


def fan(rim: np.ndarray) -> np.ndarray:  # (B, 3), closed
    """A lid: triangles from the center of a closed rim."""
    center = np.broadcast_to(rim.mean(axis=0), rim.shape)
    return np.stack([center, rim, np.roll(rim, -1, axis=0)], axis=1)


def tube(path: ArrayLike, radii: ArrayLike, sides: int = 8, caps: bool = False) -> np.ndarray:  # (K, 3), (K,)
    """A round, possibly tapered tube along a path."""
    path = np.asarray(path, float)
    radii = np.broadcast_to(np.asarray(radii, float), len(path))
    along = np.gradient(path, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    mean = along.mean(axis=0)
    helper = np.eye(3)[np.argmin(np.abs(mean))]  # one helper for all rings, so they do not twist relative to each other
    first = np.cross(along, helper)
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    second = np.cross(along, first)
    angle = np.arange(sides) * (2 * np.pi / sides)
    rings = first[:, None] * np.cos(angle)[:, None] + second[:, None] * np.sin(angle)[:, None]
    rings = path[:, None] + radii[:, None, None] * rings
    ends = [fan(rings[0]), fan(rings[-1])] if caps else []
    return joined(surface(rings, close=True), *ends)


def post(height: float, radius: float, top: float | None = None, sides: int = 8, buried: float = 0.4) -> np.ndarray:
    """A vertical tube from below the ground, closed at the top."""
    return tube([[0, 0, -buried], [0, 0, height]], [radius, radius if top is None else top], sides, caps=True)


def lathe(profile: ArrayLike | tuple, sides: int = 12) -> np.ndarray:
    """A surface of revolution about z; `profile` has rows of radius and height, or is a tuple of radii and heights."""
    profile = rows_of(profile)
    angle = np.arange(sides) * (2 * np.pi / sides)
    rings = np.stack(
        [profile[:, :1] * np.cos(angle), profile[:, :1] * np.sin(angle), np.repeat(profile[:, 1:], sides, axis=1)], axis=-1
    )
    return surface(rings, close=True)


def prism(outline: np.ndarray, low: float, high: float) -> np.ndarray:  # (B, 2), convex
    """A vertical prism over a convex outline, closed above and below."""
    lower, upper = (np.column_stack([outline, np.full(len(outline), z)]) for z in (low, high))
    return joined(surface(np.stack([lower, upper]), close=True), fan(lower), fan(upper))


def ellipsoid(radii: ArrayLike, sides: int = 10, rings: int = 6) -> np.ndarray:
    """An ellipsoid centered on the origin."""
    angle = np.linspace(-np.pi / 2, np.pi / 2, rings + 1)
    ball = lathe(np.stack([np.maximum(np.cos(angle), 1e-3), np.sin(angle)], axis=1), sides)
    return ball * np.asarray(radii, float)


def swept(path: np.ndarray, left: np.ndarray, profile: np.ndarray, close: bool = False) -> np.ndarray:  # (K, 3), (K, 3), (B, 2)
    """Sweep a cross-section of (offset to the left, height) along a path."""
    sections = path[:, None] + profile[None, :, :1] * left[:, None] + profile[None, :, 1:] * np.array([0.0, 0.0, 1.0])
    return surface(sections, close)


def beams(starts: ArrayLike | tuple, ends: ArrayLike | tuple, thickness: ArrayLike, sides: int = 4) -> np.ndarray:
    """Straight bars with a regular cross-section, open at the ends."""
    starts, ends = rows_of(starts), rows_of(ends)
    along = ends - starts
    along = along / np.linalg.norm(along, axis=1, keepdims=True)
    helper = np.eye(3)[np.argmin(np.abs(along), axis=1)]
    first = np.cross(along, helper)
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    second = np.cross(along, first)
    angle = (np.arange(sides) + 0.5) * (2 * np.pi / sides)
    radius = np.broadcast_to(np.asarray(thickness, float), len(starts))[:, None, None] / 2
    ring = radius * (first[:, None] * np.cos(angle)[:, None] + second[:, None] * np.sin(angle)[:, None])  # (N, sides, 3)
    low, high = starts[:, None] + ring, ends[:, None] + ring
    quads = np.stack([low, np.roll(low, -1, axis=1), np.roll(high, -1, axis=1), high], axis=2)
    return from_quads(quads.reshape(-1, 4, 3))
