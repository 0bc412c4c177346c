"""The ground of a place: one height field divided into roadway, sidewalk and grass, with the steps between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from poli.worlds.places.curves import NearestOnLine, Waves, directions, ramp, resampled
from poli.worlds.places.solids import from_quads


class Label(IntEnum):
    """What a surface belongs to."""

    GROUND = 0
    ROAD = 1
    BUILDING = 2
    VEHICLE = 3
    THIN = 4  # poles, signs, fences, railings
    TRUNK = 5
    LEAVES = 6
    STRUCTURE = 7  # bridges, tunnels, walls, everything indoors


_CORNERS = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
_MIDDLES = np.array([[1, 0], [2, 1], [1, 2], [0, 1]])  # of the edges, in halves of a cell; edge k joins corners k and k + 1
_WIDE = np.int64(1) << 32


@dataclass(frozen=True)
class Cells:
    """A mesh of square cells, small near the route and doubling in size with distance, without cracks between sizes."""

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
        """Signed distance to the edge of the roadway."""
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
        """Signed distance to the edge."""
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
    """Paved areas as signed distances (m, negative inside)."""

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


Heights = Callable[[np.ndarray], np.ndarray]  # (N, 2) -> (N,)
_REACH = (7.0, 14.0, 32.0)  # meters from the route within which cells have one, two and four times the finest size


def flat(xy: np.ndarray) -> np.ndarray:
    """Zero everywhere."""
    return np.zeros(len(xy))


@dataclass(frozen=True)
class Ground:
    """Height model of the ground. Roads follow the smooth `base`; everything else is added outside them, so nothing pokes through a
    road."""

    paving: Paving
    base: Heights
    beside: Heights  # added abruptly off the sidewalk: banks, walls, islands
    relief: Waves  # added gradually off the sidewalk
    wear: Waves  # of the road's surface
    curb: float
    camber: float  # height of the road's crown above its edges
    roughness: float  # of grass
    gap: Heights | None = None  # negative where a bridge carries the road and the ground has none

    def layers(self, xy: np.ndarray) -> np.ndarray:  # (N, 2) -> (N, 5)
        """Heights of road, sidewalk and grass where each applies, and the distances to the edges of road and sidewalk."""
        to_road, to_paved = self.paving.distances(xy)
        base = self.base(xy)
        inward = np.clip(-to_road / 4.0, 0.0, 1.0)
        road = base + self.camber * inward * (2.0 - inward) + self.wear(xy)
        lowered = ramp(np.sin(0.23 * xy[:, 0] + 1.7 * np.sin(0.11 * xy[:, 1])), 0.75, 0.95)  # curbs dip at crossings and driveways
        pavement = base + self.curb * (1.0 - 0.75 * lowered) + 0.02 * np.clip(to_road, 0.0, 4.0)
        if self.gap is not None:  # where the road ends at a bridge, nothing may be higher than the road
            pavement = np.where((to_road < -0.05) & (np.abs(self.gap(xy)) < 3.0), road - 0.03, pavement)
        grass = pavement + 0.02 + self.beside(xy) + self.relief(xy) * ramp(to_paved, 0.0, 18.0)
        if self.gap is not None:
            outside = -self.gap(xy)
            to_road, to_paved = np.maximum(to_road, outside), np.maximum(to_paved, outside)
        return np.stack([road, pavement, grass, to_road, to_paved], axis=1)

    def height(self, xy: np.ndarray) -> np.ndarray:  # (N, 2) -> (N,)
        """Height of whatever is on top."""
        road, pavement, grass, to_road, to_paved = self.layers(np.atleast_2d(xy)).T
        return np.where(to_road < 0, road, np.where(to_paved < 0, pavement, grass))

    def road_height(self, xy: np.ndarray) -> np.ndarray:  # (N, 2) -> (N,)
        """Height of the roadway, including on bridges."""
        return self.layers(np.atleast_2d(xy))[:, 0]


def ground_triangles(
    ground: Ground, rng: np.random.Generator, low: np.ndarray, high: np.ndarray, finest: float, distance: Heights
) -> list[tuple[np.ndarray, Label]]:
    """Return all ground triangles with their labels; `distance` is the distance to the route used to choose cell sizes."""
    cells = graded_cells(low, high, finest, _REACH, distance)
    values = np.column_stack([cells.xy, ground.layers(cells.xy)])  # columns x, y, road, pavement, grass, to road, to pavement
    grown = ramp(values[:, 6], 0.0, 1.0) * (
        0.4 + 0.6 * ramp(np.sin(0.13 * cells.xy[:, 0]) * np.sin(0.17 * cells.xy[:, 1]), -0.5, 0.5)
    )
    values[:, 4] += rng.normal(0.0, ground.roughness, len(values)) * grown
    values[:, 2:4] += rng.normal(0.0, 0.003, (len(values), 1))
    values[:, 5:] = np.where(np.abs(values[:, 5:]) < 1e-3, 1e-3, values[:, 5:])  # vertices on an edge give degenerate triangles
    corners = cells.settled(values)[cells.faces]
    paved, grass, outer_edge = split(corners, 6)
    road, pavement, inner_edge = split(paved, 5)
    outer, inner = _steps(outer_edge, 3, 4), _steps(inner_edge, 2, 3)
    tall = np.ptp(outer[:, :, 2], axis=1) > 0.6  # a drop this large is a wall, not a curb
    return [
        (grass[..., [0, 1, 4]], Label.GROUND),
        (road[..., [0, 1, 2]], Label.ROAD),
        (pavement[..., [0, 1, 3]], Label.GROUND),
        (outer[~tall], Label.GROUND),
        (outer[tall], Label.STRUCTURE),
        (inner, Label.GROUND),
    ]


def _steps(edge: np.ndarray, one: int, other: int) -> np.ndarray:  # (S, 2, A)
    """Vertical faces over the segments of a cut, between the two heights that meet there."""
    a, b = edge[:, 0], edge[:, 1]
    corners = [a[:, [0, 1, one]], b[:, [0, 1, one]], b[:, [0, 1, other]], a[:, [0, 1, other]]]
    return from_quads(np.stack(corners, axis=1))


def split(corners: np.ndarray, column: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (F, 3, A), values at the corners
    """Return the triangles where the column is negative, those where it is not, (., 3, A) each, and the cut's segments (S, 2,
    A)."""
    inside = corners[..., column] < 0
    count = inside.sum(axis=1)
    below, above = [corners[count == 3]], [corners[count == 0]]
    cuts = []
    for alone_inside, chosen in ((True, count == 1), (False, count == 2)):
        part, flags = corners[chosen], inside[chosen]
        if not len(part):
            continue
        lonely = np.argmax(flags == alone_inside, axis=1)  # the corner that is alone on its side of the cut
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
