"""A place, and the site on which it is built."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from poli.worlds.places.curves import NearestOnLine
from poli.worlds.places.ground import Ground, Label, ground_triangles
from poli.worlds.places.solids import copies, turned
from poli.worlds.places.street_objects import Tree, Vehicle

_CELL = 0.5  # cell size of the occupancy map, meters
_WIDEST = 340.0  # maximum extent of a site in meters, if its route allows
CLEAR_BESIDE, CLEAR_ABOVE = 1.7, 3.4  # clearance of a vehicle on a route, with a margin


@dataclass(frozen=True)
class Mover:
    """A moving vehicle. Its route never crosses the place's route; it may share it (a car ahead), starting farther along."""

    triangles: np.ndarray  # (F, 3, 3) float32 in the vehicle's frame: x forward, z up, origin on the ground below its center
    route: np.ndarray  # (K, 3) float64, points about 1 m apart
    speed: float  # m/s
    start: float  # m along the route at time zero


@dataclass(frozen=True)
class Place:
    """A world of triangles, a drivable route through it, and other moving vehicles."""

    kind: str
    seed: int
    triangles: np.ndarray  # (F, 3, 3) float32, meters, z up
    labels: np.ndarray  # (F,) uint8, values of Label
    route: np.ndarray  # (K, 3) float64 on the ground, free of obstacles; points about 1 m apart, for walks half a meter
    movers: tuple[Mover, ...]


class Site:
    """A site under construction: its ground, its route, a map of occupied space, and the triangles so far."""

    def __init__(
        self,
        rng: np.random.Generator,
        ground: Ground,
        route: np.ndarray,  # (K, 2)
        margin: float,
        clear: float = 2.2,  # meters to either side of the route that stay empty
    ) -> None:
        self.rng, self.ground = rng, ground
        spare = np.clip(0.5 * (_WIDEST - np.ptp(route, axis=0)), 25.0, margin)
        self.low, self.high = route.min(axis=0) - spare, route.max(axis=0) + spare
        self.route = np.column_stack([route, ground.road_height(route)])
        self._near_route = NearestOnLine(self.route[:, :2])
        self.parts: list[tuple[np.ndarray, Label]] = []
        self.movers: list[Mover] = []
        self.cars: list[Vehicle] = []
        self.trees: tuple[list[Tree], list[Tree]] = [], []  # near the route, and far from it
        self.built = 0  # triangles of buildings
        shape = np.ceil((self.high - self.low) / _CELL).astype(int) + 1
        self._to_road, self._to_paved = self._edges(tuple(shape))
        self._taken = np.zeros(tuple(shape), bool)
        self.inside = (self.low + 1.0, self.high - 1.0)  # where objects may stand
        self.keep_clear(self.route, clear)

    # -- free space ----------------------------------------------------------------------------------------------------------------

    def keep_clear(self, path: np.ndarray, beside: float = 2.2) -> None:  # (K, 2 or 3)
        """Keep a path free of objects added from now on."""
        offsets = np.arange(-beside, beside + 0.1, 0.4)
        around = path[:, None, None, :2] + np.stack(np.meshgrid(offsets, offsets), axis=-1)[None]
        self._taken[self._index(around.reshape(-1, 2))] = True

    def claim(self, center: ArrayLike, yaw: float, size: tuple[float, float], off: str = "paved", spare: float = 0.3) -> bool:
        """Claim a rectangle if it is free, inside the site, and off the sidewalk (`paved`), the roadway (`road`) or nothing."""
        half = 0.5 * np.asarray(size, float) + 0.25
        steps = [np.linspace(-h, h, int(2 * h / 0.6) + 2) for h in half]
        points = np.stack(np.meshgrid(*steps), axis=-1).reshape(-1, 2)
        points = turned(np.column_stack([points, np.zeros(len(points))]), yaw)[:, :2] + np.asarray(center)[:2]
        if (points < self.inside[0]).any() or (points > self.inside[1]).any():
            return False
        index = self._index(points)
        edge = {"paved": self._to_paved, "road": self._to_road, "nothing": None}[off]
        if self._taken[index].any() or (edge is not None and (edge[index] < spare).any()):
            return False
        self._taken[index] = True
        return True

    def claim_discs(self, centers: np.ndarray, radius: float, off: str = "road", spare: float = 0.4) -> np.ndarray:  # (N, 2)
        """Claim discs one after the other; return which claims succeeded."""
        return np.array([self.claim(c, 0.0, (2 * radius, 2 * radius), off, spare) for c in centers], bool)

    def claim_path(self, path: np.ndarray, off: str = "road", spare: float = 0.1) -> np.ndarray:  # (K, 2) -> (K,)
        """Claim the free points of a path for a thin object; return which points those are."""
        index = self._index(path)
        edge = {"paved": self._to_paved, "road": self._to_road}[off]
        inside = (path > self.inside[0]).all(axis=1) & (path < self.inside[1]).all(axis=1)
        free = inside & ~self._taken[index] & (edge[index] > spare)
        self._taken[index[0][free], index[1][free]] = True
        return free

    def _index(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        i = np.clip(((points - self.low) / _CELL + 0.5).astype(int), 0, np.array(self._taken.shape) - 1)
        return i[:, 0], i[:, 1]

    def _edges(self, shape: tuple[int, int]) -> list[np.ndarray]:
        """Distances to the edges of roadway and sidewalk on the map, evaluated at every fourth cell and interpolated."""
        coarse = [np.arange(0, n + 4, 4) for n in shape]
        spots = self.low + _CELL * np.stack(np.meshgrid(*coarse, indexing="ij"), axis=-1)
        layers = self.ground.layers(spots.reshape(-1, 2)).reshape(*spots.shape[:2], 5)
        (i, fi), (j, fj) = ((np.arange(n) // 4, (np.arange(n) % 4) / 4.0) for n in shape)
        maps = []
        for field in (layers[..., 3], layers[..., 4]):
            rows = field[i] + fi[:, None] * (field[i + 1] - field[i])
            maps.append(rows[:, j] + fj * (rows[:, j + 1] - rows[:, j]))
        return maps

    def from_route(self, xy: np.ndarray) -> np.ndarray:  # (N, 2) -> (N,)
        """Distance from the route."""
        return self._near_route(xy)[0][:, 0]

    # -- adding objects ------------------------------------------------------------------------------------------------------------

    def add(self, triangles: np.ndarray, label: Label = Label.STRUCTURE) -> None:
        """Add triangles (F, 3, 3)."""
        self.parts.append((triangles, label))

    def put(
        self,
        part: np.ndarray,
        xy: np.ndarray,
        yaw: np.ndarray | float = 0.0,
        scale: np.ndarray | float = 1.0,
        label: Label = Label.STRUCTURE,
    ) -> None:
        """Add copies of a part (F, 3, 3), standing on the ground at the spots (N, 2)."""
        xy = np.atleast_2d(np.asarray(xy, float))[:, :2]
        if len(xy):
            self.add(copies(part, np.column_stack([xy, self.ground.height(xy)]), yaw, scale), label)

    def finished(self, kind: str, seed: int, finest: float = 0.5, indoors: bool = False, beside: float = CLEAR_BESIDE) -> Place:
        """Return the finished place. `indoors` means that the floor has already been added as triangles; leaves are cut back within
        `beside` meters of the route."""

        def distance(xy: np.ndarray) -> np.ndarray:
            roads = 10.0 + np.maximum(self.ground.layers(xy)[:, 3], 0.0)  # side roads need cells small enough to show their curbs
            return np.minimum(self.from_route(xy), roads)

        below = [] if indoors else ground_triangles(self.ground, self.rng, self.low, self.high, finest, distance)
        triangles, labels = soup(self.parts + below)
        leaves = np.flatnonzero(labels == Label.LEAVES)
        blocked = leaves[in_the_way(triangles[leaves], self.route, beside)]  # cut back branches over the road
        triangles, labels = np.delete(triangles, blocked, axis=0), np.delete(labels, blocked)
        return Place(kind, seed, triangles, labels, self.route, tuple(self.movers))


def soup(parts: list[tuple[np.ndarray, Label]]) -> tuple[np.ndarray, np.ndarray]:
    """All triangles of nonzero area, (F, 3, 3) float32, and their labels (F,) uint8."""
    triangles = np.concatenate([t.astype(np.float32) for t, _ in parts])
    labels = np.concatenate([np.full(len(t), label, np.uint8) for t, label in parts])
    a, b = triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]
    solid = (np.cross(a, b) ** 2).sum(axis=1) > 1e-12
    return triangles[solid], labels[solid]


def in_the_way(triangles: np.ndarray, route: np.ndarray, beside: float = CLEAR_BESIDE, above: float = CLEAR_ABOVE) -> np.ndarray:
    """Which triangles (F, 3, 3) a vehicle on the route (K, 3) would touch, judged by their bounding boxes: (F,)."""
    low, high = triangles.min(axis=1), triangles.max(axis=1)
    nearest = NearestOnLine(route[:, :2])
    middle, reach = 0.5 * (low + high)[:, :2], 0.5 * np.linalg.norm((high - low)[:, :2], axis=1)
    hits = np.zeros(len(triangles), bool)
    close = np.flatnonzero(nearest(middle)[0][:, 0] < reach + beside + 1.0)
    for start in range(0, len(close), 4096):
        f = close[start : start + 4096]
        near = nearest(middle[f], k=min(12, len(route)))[1]  # (n, k) points of the route
        p = route[near]
        gap = np.maximum(np.maximum(low[f][:, None] - p, p - high[f][:, None]), 0.0)[..., :2]
        level = (low[f][:, None, 2] < p[..., 2] + above) & (high[f][:, None, 2] > p[..., 2] + 0.05)
        hits[f] = ((np.linalg.norm(gap, axis=2) < beside) & level).any(axis=1)
    return hits
