"""How panels are laid out: their grid, the size of their points, and a camera that sees everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from poli.show.panel import Panel
from poli.show.render import Camera

_BEHIND = -0.92, -0.39  # from the target to the eye, seen from above: behind, a little to the right
_STEEPNESS = 30.0, 40.0, 50.0  # degrees above the horizon
# Scans have few, far points, which a picture of all would be made for; an object has none. So the picture is made for points nearer
# to the middle than some times the median: most of a scan, and all of an object.
_REACH = 2.5
_SEEN = 99.0  # percent of these, at every edge of the picture
_ROOM = 1.05
_FEW = 20_000  # points that tell as much as all

# Of the grid; `viewer/layout.js` has the same numbers.
_WIDEST, _NARROWEST = 2.2, 0.75  # width to height: what a panel has beyond is of no use to it

_LARGEST, _SMALLEST = 3.0, 1.0  # pixels of a point
_MANY = 15_000  # points that are drawn at the largest


@dataclass(frozen=True)
class Grid:
    columns: int
    rows: int
    width: int  # pixels, of a panel
    height: int


def grid_of(count: int, width: int, height: int, gap: int) -> Grid:
    """The grid of `count` panels on so many pixels that wastes least: places without a panel, and panels too wide or too narrow."""
    return max((_grid(count, columns, width, height, gap) for columns in range(1, count + 1)), key=_useful)


def _grid(count: int, columns: int, width: int, height: int, gap: int) -> Grid:
    rows = -(-count // columns)
    return Grid(columns, rows, (width - gap * (columns - 1)) // columns, (height - gap * (rows - 1)) // rows)


def _useful(grid: Grid) -> float:
    """Pixels of a panel; there are as many panels in every grid."""
    return min(grid.width, _WIDEST * grid.height) * min(grid.height, grid.width / _NARROWEST)


def point_size(count: int) -> float:
    """Pixels, in halves: the points of a larger cloud cover as much as those of one of `_MANY`, and do not run together."""
    size = _LARGEST * sqrt(_MANY / max(count, _MANY))
    return max(round(2.0 * size) / 2.0, _SMALLEST)


def camera_for(panels: Sequence[Panel], width: int = 1280, height: int = 720, sky: float = 0.0) -> Camera:
    """A view of all panels from behind and above, z upwards, that they fill; `sky` is the share of the height left free above.

    Of several steepnesses it has the one that lets the eye come nearest: a scan lies flat, and fills a tall picture from above.
    """
    places = np.concatenate([_some(part) for panel in panels for part in _parts(panel)] or [np.zeros((1, 3))])
    middle = np.median(places, axis=0)
    away = np.linalg.norm(places - middle, axis=1)
    shown = places[away <= max(_REACH * float(np.median(away)), 1e-9)]
    views = [_view(shown if len(shown) else places, middle, np.deg2rad(steep), width, height, sky) for steep in _STEEPNESS]
    return min(views, key=lambda view: np.linalg.norm(np.subtract(view.eye, view.target)))


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
    """One direction of the picture. From `distance` behind, and moved by `middle`, an eye sees what lies between two of its edges.

    A point at x across and z ahead is inside if  -before (z + distance) <= x - middle <= after (z + distance).  For all points that
    is a bound on the middle from either side, by one point each; from the least distance, both bounds are the same.
    """

    def __init__(self, x: np.ndarray, z: np.ndarray, before: float, after: float) -> None:  # (n,), (n,), slopes of the two edges
        self.before, self.after = before, after
        self.low, self.high = float(np.percentile(x - after * z, _SEEN)), float(np.percentile(x + before * z, 100.0 - _SEEN))

    @property
    def distance(self) -> float:
        return (self.low - self.high) / (self.before + self.after)

    def middle(self, distance: float) -> float:
        return 0.5 * (self.low - self.after * distance + self.high + self.before * distance)


def _parts(panel: Panel) -> list[np.ndarray]:
    field = [] if panel.field is None else [panel.field.means]
    return [part for part in (panel.places, *field, *(track.positions for track in panel.tracks)) if len(part)]


def _some(places: np.ndarray) -> np.ndarray:  # (N, 3) -> (n, 3)
    return places[:: len(places) // _FEW + 1]


def _tuple(place: np.ndarray) -> tuple[float, float, float]:
    x, y, z = place.tolist()
    return x, y, z
