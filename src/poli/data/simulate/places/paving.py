"""Paved areas as signed distances (m, negative inside): roads as thick lines, lots as boxes, footpaths."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from poli.data.simulate.places.curves import directions, resampled
from poli.data.simulate.places.nearest import NearestOnLine

FAR = 40.0  # distances are capped here


@dataclass(frozen=True)
class Strip:
    """A road or footpath along a line. If `half` is zero there is no roadway, only a footpath of half width `pavement`."""

    line: np.ndarray  # (K, 2)
    half: float  # half the width of the roadway
    pavement: float  # width of the sidewalk next to it

    @cached_property
    def _points(self) -> tuple[NearestOnLine, np.ndarray, np.ndarray]:
        dense = resampled(self.line, 0.5)
        return NearestOnLine(dense), dense, directions(dense)

    def distance(self, xy: np.ndarray) -> np.ndarray:  # (N, 2) -> (N,), to the roadway's edge
        nearest_on_line, dense, forwards = self._points
        distance, nearest = (column[:, 0] for column in nearest_on_line(xy))
        known = distance < FAR
        result = np.full(len(xy), FAR)
        forward, away = forwards[nearest[known]], xy[known] - dense[nearest[known]]
        along = (away * forward).sum(axis=1)
        across = np.abs(away[:, 0] * forward[:, 1] - away[:, 1] * forward[:, 0])
        result[known] = np.where(np.abs(along) < 0.6, across, distance[known])  # beyond an end, use the distance to the end point
        return result - self.half


@dataclass(frozen=True)
class Lot:
    """A paved rectangle."""

    center: tuple[float, float]
    yaw: float
    size: tuple[float, float]
    pavement: float

    def distance(self, xy: np.ndarray) -> np.ndarray:  # (N, 2) -> (N,)
        c, s = np.cos(self.yaw), np.sin(self.yaw)
        away = xy - np.array(self.center)
        q = np.abs(np.stack([c * away[:, 0] + s * away[:, 1], c * away[:, 1] - s * away[:, 0]], axis=1)) - 0.5 * np.array(self.size)
        return np.minimum(np.linalg.norm(np.maximum(q, 0.0), axis=1) + np.minimum(q.max(axis=1), 0.0), FAR)


def _blended(a: np.ndarray, b: np.ndarray, radius: float) -> np.ndarray:
    """Smooth minimum: rounds the corners of junctions."""
    mix = np.maximum(radius - np.abs(a - b), 0.0)
    return np.minimum(a, b) - mix * mix / (4.0 * radius)


@dataclass(frozen=True)
class Paving:
    parts: tuple[Strip | Lot, ...]
    corner: float = 5.0

    def distances(self, xy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (N, 2)
        """Distances to the edge of the roadway and to the outer edge of the sidewalk: each (N,)."""
        road, paved = np.full(len(xy), FAR), np.full(len(xy), FAR)
        for part in self.parts:
            d = part.distance(xy)
            if isinstance(part, Lot) or part.half > 0:
                road = _blended(road, d, self.corner)
            paved = _blended(paved, d - part.pavement, self.corner)
        return road, np.minimum(paved, road - 0.3)  # at least one curbstone, so the two edges never meet
