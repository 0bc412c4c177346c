"""A floor plan: a grid of rooms and narrow corridors, the passages between them, and a walk through them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from poli.worlds.places.geometry import lengths, resampled, smoothed, turned
from poli.worlds.places.ground import Label
from poli.worlds.places.site import Site

Cell = tuple[int, int]
_STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))
_APPROACH = 0.8  # meters: the walk passes a door straight on this far to either side
_ROOMY = 4.0  # meters: in rooms larger than this, the walk comes by the middle


@dataclass(frozen=True)
class Passage:
    """A door, or the whole width of a corridor."""

    center: np.ndarray  # (2,)
    wide: float
    door: bool
    used: bool  # by the walk


@dataclass
class Plan:
    x: np.ndarray  # (A + 1,) center lines of the walls
    y: np.ndarray  # (B + 1,)
    narrow: np.ndarray  # (A, B) bool: corridors, without walls between them
    thick: float  # of the walls, meters
    walk: list[Cell] = field(default_factory=list)
    passages: dict[tuple[Cell, Cell], Passage] = field(default_factory=dict)
    windows: list[tuple[np.ndarray, float]] = field(default_factory=list)  # centers (2,) and widths

    @property
    def cells(self) -> list[Cell]:
        return [(i, j) for i in range(len(self.x) - 1) for j in range(len(self.y) - 1)]

    def inner(self, cell: Cell) -> tuple[np.ndarray, np.ndarray]:
        """The lowest and highest corner of a room, between its walls: (2,), (2,)."""
        i, j = cell
        return np.array([self.x[i], self.y[j]]) + self.thick / 2, np.array([self.x[i + 1], self.y[j + 1]]) - self.thick / 2

    def neighbors(self, cell: Cell) -> list[Cell]:
        inside = set(self.cells)
        return [c for c in ((cell[0] + a, cell[1] + b) for a, b in _STEPS) if c in inside]

    def passage(self, a: Cell, b: Cell) -> Passage | None:
        return self.passages.get((min(a, b), max(a, b)))


def drawn_plan(
    rng: np.random.Generator, sides: tuple[np.ndarray, np.ndarray], narrow: tuple[np.ndarray, np.ndarray], wide_doors: float
) -> Plan:
    """Return a plan with rows and columns of these sizes. Where a row or a column is narrow, it is a corridor."""
    x, y = (np.concatenate([[0.0], np.cumsum(s)]) for s in sides)
    plan = Plan(x - x[-1] / 2, y - y[-1] / 2, narrow[0][:, None] | narrow[1][None], float(rng.uniform(0.08, 0.22)))
    plan.walk = max((_wander(rng, plan) for _ in range(20)), key=len)
    steps = {(min(a, b), max(a, b)) for a, b in zip(plan.walk[:-1], plan.walk[1:], strict=True)}
    for a in plan.cells:
        for b in (c for c in plan.neighbors(a) if c > a):
            along = 1 if b[0] > a[0] else 0  # the axis along the wall between them
            low, high = np.maximum(plan.inner(a)[0], plan.inner(b)[0])[along], np.minimum(plan.inner(a)[1], plan.inner(b)[1])[along]
            center = np.empty(2)
            center[1 - along] = (plan.x, plan.y)[1 - along][b[1 - along]]
            center[along] = 0.5 * (low + high)
            used = (a, b) in steps
            if plan.narrow[a] and plan.narrow[b]:
                plan.passages[a, b] = Passage(center, high - low, False, used)
            elif used or rng.random() < 0.35:
                wide = rng.uniform(1.2, 2.4) if rng.random() < wide_doors else rng.uniform(0.8, 1.05)
                wide = min(wide, high - low - 0.3)
                center[along] = rng.uniform(low + wide / 2 + 0.12, high - wide / 2 - 0.12)
                plan.passages[a, b] = Passage(center, wide, True, used)
    return plan


def _wander(rng: np.random.Generator, plan: Plan) -> list[Cell]:
    """A walk that enters no cell twice."""
    walk = [plan.cells[rng.integers(len(plan.cells))]]
    while True:
        ways = [c for c in plan.neighbors(walk[-1]) if c not in walk]
        if not ways:
            return walk
        walk.append(ways[rng.integers(len(ways))])


def walked(rng: np.random.Generator, plan: Plan) -> np.ndarray:
    """The route of the walk, (K, 2), half a meter apart."""
    points = []
    for k, cell in enumerate(plan.walk):
        low, high = plan.inner(cell)
        middle, size = 0.5 * (low + high), high - low
        ends = [plan.passage(cell, plan.walk[n]) if 0 <= n < len(plan.walk) else None for n in (k - 1, k + 1)]
        doors = [middle if end is None else end.center for end in ends]
        if plan.narrow[cell]:  # along the middle line
            reach = 0.5 * np.maximum(size - size.min(), 0.0)
            turns = [np.clip(door, middle - reach, middle + reach) for door in doors]
            points += [doors[0], *turns, doors[1]]
        else:
            reach = np.minimum(_APPROACH, np.abs(doors[1] - doors[0]))  # less if both doors are at one corner
            inwards = [d + reach * _towards(low, high, d) for d in doors]
            via = middle + rng.uniform(-0.15, 0.15, 2) * size
            winding = (via - inwards[0]) @ (inwards[1] - via) < 0.0 or None in ends
            points += [doors[0], inwards[0], *([] if size.min() < _ROOMY or winding else [via]), inwards[1], doors[1]]
    line = np.array(points)
    line = line[np.concatenate([[True], np.diff(lengths(line)) > 1e-6])]
    return resampled(smoothed(resampled(line, 0.25), 1), 0.5)


def _towards(low: np.ndarray, high: np.ndarray, door: np.ndarray) -> np.ndarray:  # (2,) each
    """The direction from a door in a wall into the room, (2,)."""
    return np.where(door < low, 1.0, 0.0) - np.where(door > high, 1.0, 0.0)


# --- A fine map of the free floor inside a building, so furniture leaves the walls, the doors and the walk alone.


_CELL = 0.1  # meters
_SLACK = 0.08  # meters by which a claim may overlap what is there: the map is coarse, and furniture stands close to walls


class FloorSpace:
    def __init__(self, plan: Plan, route: np.ndarray, clear: float) -> None:  # (K, 2); meters to either side of the route
        self.plan = plan
        self._low = np.array([plan.x[0], plan.y[0]]) - 1.0
        shape = np.ceil((np.array([plan.x[-1], plan.y[-1]]) + 1.0 - self._low) / _CELL).astype(int) + 1
        self._taken = np.ones(tuple(shape), bool)
        for cell in plan.cells:
            (a, b), (c, d) = (self._index(p[None])[0] for p in plan.inner(cell))
            self._taken[a + 1 : c, b + 1 : d] = False
        self.block(resampled(route, _CELL), clear + _SLACK)
        for passage in plan.passages.values():
            if passage.door:
                self.block(passage.center[None], 0.5 * passage.wide + 0.1)

    def block(self, points: np.ndarray, radius: float) -> None:  # (K, 2)
        """Take discs."""
        steps = np.arange(-radius, radius + _CELL / 2, _CELL / 2)
        disc = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
        disc = disc[np.linalg.norm(disc, axis=1) <= radius]
        index = self._index((points[:, None] + disc).reshape(-1, 2))
        self._taken[index[:, 0], index[:, 1]] = True

    def claim(self, center: np.ndarray, yaw: float, size: np.ndarray) -> bool:  # (2,), (2,)
        """Claim a rectangle if it is free."""
        half = np.maximum(0.5 * np.asarray(size) - _SLACK, 0.02)
        steps = [np.linspace(-h, h, int(2 * h / 0.07) + 2) for h in half]
        points = np.stack(np.meshgrid(*steps), axis=-1).reshape(-1, 2)
        points = turned(np.column_stack([points, np.zeros(len(points))]), yaw)[:, :2] + center
        index = self._index(points)
        if self._taken[index[:, 0], index[:, 1]].any():
            return False
        self._taken[index[:, 0], index[:, 1]] = True
        return True

    def _index(self, points: np.ndarray) -> np.ndarray:  # (N, 2) -> (N, 2)
        return np.clip(((points - self._low) / _CELL).astype(int), 0, np.array(self._taken.shape) - 1)

    # -- placing parts -------------------------------------------------------------------------------------------------------------

    def against_wall(self, site: Site, cell: Cell, part: np.ndarray, label: Label = Label.STRUCTURE, tries: int = 4) -> bool:
        """Stand a part that faces +x with its back to a wall of a room, if it fits."""
        rng, (low, high) = site.rng, self.plan.inner(cell)
        first, last = part.reshape(-1, 3).min(axis=0), part.reshape(-1, 3).max(axis=0)
        deep, wide = (last - first)[:2]
        for _ in range(tries):
            side = int(rng.integers(4))
            long = (high - low)[(side + 1) % 2]
            if wide > long - 0.1 or deep > (high - low)[side % 2] - 0.6:
                continue
            s = rng.uniform(wide / 2 + 0.03, long - wide / 2 - 0.03)
            gap = 0.03 + deep / 2
            spot = np.array(
                [(low[0] + gap, low[1] + s), (low[0] + s, low[1] + gap), (high[0] - gap, low[1] + s), (low[0] + s, high[1] - gap)][
                    side
                ]
            )
            if self.claim(spot, side * np.pi / 2, np.array([deep, wide])):
                centered = part - np.array([*(first + last)[:2] / 2, 0.0])
                site.add(turned(centered, side * np.pi / 2) + np.array([*spot, 0.0]), label)
                return True
        return False

    def free_standing(
        self, site: Site, cell: Cell, part: np.ndarray, label: Label = Label.STRUCTURE, tries: int = 4, skew: float = 0.1
    ) -> np.ndarray | None:
        """Stand a part anywhere in a room, if it fits; return where, (2,)."""
        rng, (low, high) = site.rng, self.plan.inner(cell)
        first, last = part.reshape(-1, 3).min(axis=0), part.reshape(-1, 3).max(axis=0)
        for _ in range(tries):
            yaw = rng.integers(4) * np.pi / 2 + rng.normal(0.0, skew)
            spot = rng.uniform(low, high)
            if self.claim(spot, yaw, (last - first)[:2]):
                centered = part - np.array([*(first + last)[:2] / 2, 0.0])
                site.add(turned(centered, yaw) + np.array([*spot, 0.0]), label)
                return spot
        return None
