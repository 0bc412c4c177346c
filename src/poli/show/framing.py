"""Layout of panels: their grid, point size, and a camera that sees all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from poli.show.panel import Panel
from poli.show.render import Camera

_BEHIND = -0.92, -0.39  # from the target to the eye, seen from above: behind, a little to the right
_STEEPNESS = 30.0, 40.0, 50.0  # degrees above the horizon
# The camera shows all of a place: near surfaces have most of the points, so cells count, not points. Of a scan's few far returns,
# cells that hold almost nothing are left out, and so is what lies farther away than a multiple of the median over the cells.
_CELL = 0.25  # edge of a cell, relative to the distance from the center within which `_MOST` of the points are
_MOST = 80.0  # percent
_LEAST = 4  # points of a cell, for `_FEW` points
_REACH = 3.0
_ROOM = 1.05
_FEW = 20_000  # points are enough to fit the camera

# Constants of the grid; keep in sync with `viewer/layout.js`.
_WIDEST, _NARROWEST = 2.2, 0.75  # width / height: a panel does not use space beyond these

_LARGEST, _SMALLEST = 3.0, 1.0  # pixels, size of a point
_MANY = 15_000  # points drawn at the largest size


@dataclass(frozen=True)
class Grid:
    columns: int
    rows: int
    width: int  # pixels, of a panel
    height: int


def grid_of(count: int, width: int, height: int, gap: int) -> Grid:
    """The grid of `count` panels that wastes the fewest pixels on empty cells and on panels that are too wide or too narrow."""
    return max((_grid(count, columns, width, height, gap) for columns in range(1, count + 1)), key=_useful)


def _grid(count: int, columns: int, width: int, height: int, gap: int) -> Grid:
    rows = -(-count // columns)
    return Grid(columns, rows, (width - gap * (columns - 1)) // columns, (height - gap * (rows - 1)) // rows)


def _useful(grid: Grid) -> float:
    """Useful pixels per panel."""
    return min(grid.width, _WIDEST * grid.height) * min(grid.height, grid.width / _NARROWEST)


def point_size(count: int) -> float:
    """Point size in half pixels. Clouds of more than `_MANY` points get smaller points, to cover the same area in total."""
    size = _LARGEST * sqrt(_MANY / max(count, _MANY))
    return max(round(2.0 * size) / 2.0, _SMALLEST)


def camera_for(panels: Sequence[Panel], width: int = 1280, height: int = 720, sky: float = 0.0) -> Camera:
    """A camera behind and above that fits all panels, z up; `sky` is the share of the height left free at the top.

    Tries several elevations and takes the one that gets the eye closest: a flat scan fills a tall picture best from above.
    """
    places = np.concatenate([_some(part) for panel in panels for part in _parts(panel)] or [np.zeros((1, 3))])
    shown = _occupied(places)
    middle = 0.5 * (shown.min(axis=0) + shown.max(axis=0))
    views = [_view(shown, middle, np.deg2rad(steep), width, height, sky) for steep in _STEEPNESS]
    return min(views, key=lambda view: np.linalg.norm(np.subtract(view.eye, view.target)))


def _occupied(places: np.ndarray) -> np.ndarray:  # (N, 3) -> (n, 3)
    """The corners of what the points of each occupied cell span: the shape of a place, however unevenly it was seen."""
    middle = np.median(places, axis=0)
    away = np.linalg.norm(places - middle, axis=1)
    edge = _CELL * float(np.percentile(away, _MOST))
    if not edge > 0.0:
        return places
    cells, which, counts = np.unique(
        np.floor((places - middle) / edge).clip(-1e9, 1e9), axis=0, return_inverse=True, return_counts=True
    )
    kept = counts >= max(1, round(_LEAST * min(len(places) / _FEW, 1.0)))
    distance = np.linalg.norm(cells + 0.5, axis=1)
    kept &= distance <= _REACH * np.median(distance[kept])
    low, high = np.full((len(cells), 3), np.inf), np.full((len(cells), 3), -np.inf)
    np.minimum.at(low, which.reshape(-1), places)
    np.maximum.at(high, which.reshape(-1), places)
    return np.concatenate([low[kept], high[kept]])


def _view(places: np.ndarray, middle: np.ndarray, steepness: float, width: int, height: int, sky: float) -> Camera:
    back = np.array([*(np.cos(steepness) * np.array(_BEHIND)), np.sin(steepness)])
    camera = Camera(_tuple(middle + back), _tuple(middle), width=width, height=height)
    across, down, ahead = camera.axes @ (places - middle).T  # (3, n)
    half = np.tan(np.deg2rad(camera.field_of_view) / 2) / _ROOM
    upright = half * height / width
    left_right = _Between(across, ahead, half, half)
    top_bottom = _Between(down, ahead, upright * (1.0 - 2.0 * sky), upright)
    distance = max(left_right.distance, top_bottom.distance)
    distance = distance if distance > 0.0 else 1.0
    target = middle + np.array([left_right.middle(distance), top_bottom.middle(distance), 0.0]) @ camera.axes
    return replace(camera, eye=_tuple(target + distance * back), target=_tuple(target))


class _Between:
    """One axis of the picture: the points seen between its two edges from `distance` behind, shifted by `middle`.

    A point at x across and z ahead is inside if  -before (z + distance) <= x - middle <= after (z + distance).  Over all points,
    this bounds the middle from both sides, each by one point; at the smallest distance both bounds are equal.
    """

    def __init__(self, x: np.ndarray, z: np.ndarray, before: float, after: float) -> None:  # (n,), (n,), slopes of the two edges
        self.before, self.after = before, after
        self.low, self.high = float((x - after * z).max()), float((x + before * z).min())

    @property
    def distance(self) -> float:
        return (self.low - self.high) / (self.before + self.after)

    def middle(self, distance: float) -> float:
        return 0.5 * (self.low - self.after * distance + self.high + self.before * distance)


def _parts(panel: Panel) -> list[np.ndarray]:
    field = [] if panel.field is None else [panel.field.means]
    parts = [panel.places, *field, *(track.positions for track in panel.tracks), *(frame.places for frame in panel.frames)]
    return [part for part in parts if len(part)]


def _some(places: np.ndarray) -> np.ndarray:  # (N, 3) -> (n, 3)
    return places[:: len(places) // _FEW + 1]


def _tuple(place: np.ndarray) -> tuple[float, float, float]:
    x, y, z = place.tolist()
    return x, y, z
