"""A floor plan: a grid of rooms and narrow corridors, the passages between them, and a walk through them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from poli.data.simulate.places.curves import lengths, resampled, smoothed

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
