"""A floor plan: a grid of rooms and narrow corridors, the passages between them, a walk through them, and the walls around them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from poli.worlds.places.curves import lengths, resampled, smoothed
from poli.worlds.places.ground import Label
from poli.worlds.places.site import Site
from poli.worlds.places.solids import beams, boxes, joined, lathe, surface, turned

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
    """A grid of rooms and corridors."""

    x: np.ndarray  # (A + 1,) center lines of the walls
    y: np.ndarray  # (B + 1,)
    narrow: np.ndarray  # (A, B) bool: corridors, without walls between them
    thick: float  # of the walls, meters
    walk: list[Cell] = field(default_factory=list)
    passages: dict[tuple[Cell, Cell], Passage] = field(default_factory=dict)
    windows: list[tuple[np.ndarray, float]] = field(default_factory=list)  # centers (2,) and widths

    @property
    def cells(self) -> list[Cell]:
        """All rooms and corridors."""
        return [(i, j) for i in range(len(self.x) - 1) for j in range(len(self.y) - 1)]

    def inner(self, cell: Cell) -> tuple[np.ndarray, np.ndarray]:
        """The lowest and highest corner of a room, between its walls: (2,), (2,)."""
        i, j = cell
        return np.array([self.x[i], self.y[j]]) + self.thick / 2, np.array([self.x[i + 1], self.y[j + 1]]) - self.thick / 2

    def neighbors(self, cell: Cell) -> list[Cell]:
        """The cells that share a wall with this one."""
        inside = set(self.cells)
        return [c for c in ((cell[0] + a, cell[1] + b) for a, b in _STEPS) if c in inside]

    def passage(self, a: Cell, b: Cell) -> Passage | None:
        """The passage between two cells, if there is one."""
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
            inwards = [d + reach * (np.where(d < low, 1.0, 0.0) - np.where(d > high, 1.0, 0.0)) for d in doors]
            via = middle + rng.uniform(-0.15, 0.15, 2) * size
            winding = (via - inwards[0]) @ (inwards[1] - via) < 0.0 or None in ends
            points += [doors[0], inwards[0], *([] if size.min() < _ROOMY or winding else [via]), inwards[1], doors[1]]
    line = np.array(points)
    line = line[np.concatenate([[True], np.diff(lengths(line)) > 1e-6])]
    return resampled(smoothed(resampled(line, 0.25), 1), 0.5)


_CELL = 0.1  # meters
_SLACK = 0.08  # meters by which a claim may overlap what is there: the map is coarse, and furniture stands close to walls


class FloorSpace:
    """A fine map of the free floor, so that furniture leaves the walls, the doors and the walk alone."""

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
        deep, wide = np.ptp(part, axis=(0, 1))[:2]
        for _ in range(tries):
            side = int(rng.integers(4))
            long = (high - low)[(side + 1) % 2]
            if wide > long - 0.1 or deep > (high - low)[side % 2] - 0.6:
                continue
            s = rng.uniform(wide / 2 + 0.03, long - wide / 2 - 0.03)
            gap = 0.03 + deep / 2
            x, y = (low[0] + gap, low[0] + s, high[0] - gap, low[0] + s), (low[1] + s, low[1] + gap, low[1] + s, high[1] - gap)
            if self._stand(site, part, np.array([x[side], y[side]]), side * np.pi / 2, label):
                return True
        return False

    def free_standing(
        self, site: Site, cell: Cell, part: np.ndarray, label: Label = Label.STRUCTURE, tries: int = 4, skew: float = 0.1
    ) -> np.ndarray | None:
        """Stand a part anywhere in a room, if it fits; return where, (2,)."""
        rng, (low, high) = site.rng, self.plan.inner(cell)
        for _ in range(tries):
            yaw = rng.integers(4) * np.pi / 2 + rng.normal(0.0, skew)
            spot = rng.uniform(low, high)
            if self._stand(site, part, spot, yaw, label):
                return spot
        return None

    def _stand(self, site: Site, part: np.ndarray, spot: np.ndarray, yaw: float, label: Label) -> bool:
        """Stand a part there, if the floor is free."""
        first, last = part.min(axis=(0, 1)), part.max(axis=(0, 1))
        if not self.claim(spot, yaw, (last - first)[:2]):
            return False
        site.add(turned(part - np.array([*(first + last)[:2] / 2, 0.0]), yaw) + np.array([*spot, 0.0]), label)
        return True


def build_walls(
    site: Site, plan: Plan, space: FloorSpace, tall: float, windows: float, curtains: float, styles: tuple[str, ...]
) -> None:
    """Add all walls, floors and ceilings. `windows` is the share of outer walls with a window, `curtains` the share of windows with
    curtains."""
    rng = site.rng
    skirting = rng.uniform(0.05, 0.14) if rng.random() < 0.8 else 0.0
    door_top = rng.uniform(1.95, min(2.12, tall - 0.12))
    for axis, lines in ((0, plan.x), (1, plan.y)):
        others = (plan.y, plan.x)[axis]
        for k, line in enumerate(lines):
            for j in range(len(others) - 1):
                before, after = ((k - 1, j), (k, j)) if axis == 0 else ((j, k - 1), (j, k))
                outer = k in (0, len(lines) - 1)
                passage = None if outer else plan.passage(before, after)
                if passage is not None and not passage.door:
                    continue
                wall = _Wall(float(line), axis, (float(others[j]), float(others[j + 1])), plan.thick, tall, skirting)
                cell = after if k == 0 else before
                if outer and rng.random() < windows and not plan.narrow[cell]:
                    plan.windows.append(wall.window(site, -1 if k else 1, curtains))
                elif passage is not None:
                    wall.door(site, space, passage, door_top)
                else:
                    wall.plain(site)
    for cell in plan.cells:
        _floor(site, plan, cell)
        _ceiling(site, plan, cell, tall, str(rng.choice(styles)))


class _Wall:
    """A wall between two grid points, on the line x = `line` (axis 0) or y = `line` (axis 1)."""

    def __init__(self, line: float, axis: int, ends: tuple[float, float], thick: float, tall: float, skirting: float) -> None:
        self.line, self.axis, self.ends, self.thick, self.tall, self.skirting = line, axis, ends, thick, tall, skirting

    def _boxes(self, site: Site, pieces: list[tuple[float, float, float, float, float, float]]) -> None:
        """Add boxes, each from s to s along the wall, z to z, and offset to offset across it."""
        p = np.array(pieces)
        p = p[(p[:, 1] > p[:, 0] + 1e-3) & (p[:, 3] > p[:, 2] + 1e-3)]
        along, up, across = (0.5 * (p[:, a] + p[:, a + 1]) for a in (0, 2, 4))
        sizes = p[:, 1::2] - p[:, ::2]  # along, up, across
        order = [across + self.line, along] if self.axis == 0 else [along, across + self.line]
        extent = sizes[:, [2, 0, 1]] if self.axis == 0 else sizes[:, [0, 2, 1]]
        site.add(boxes(np.column_stack([*order, up]), extent))

    def _solid(self, a: float, b: float) -> list[tuple[float, float, float, float, float, float]]:
        half = self.thick / 2
        pieces = [(a, b, -0.1, self.tall + 0.1, -half, half)]
        if self.skirting:
            pieces.append((a, b, -0.05, self.skirting, -half - 0.015, half + 0.015))
        return pieces

    @property
    def _span(self) -> tuple[float, float]:
        return self.ends[0] - self.thick / 2, self.ends[1] + self.thick / 2  # to the far sides of the crossing walls

    def plain(self, site: Site) -> None:
        self._boxes(site, self._solid(*self._span))

    def door(self, site: Site, space: FloorSpace, passage: Passage, top: float) -> None:
        rng, half = site.rng, self.thick / 2
        s = passage.center[1 - self.axis]
        a, b = s - passage.wide / 2, s + passage.wide / 2
        start, end = self._span
        pieces = [*self._solid(start, a), *self._solid(b, end), (a, b, top, self.tall + 0.1, -half, half)]
        frame = rng.uniform(0.01, 0.03) + half
        pieces += [
            (a - 0.07, a, 0, top + 0.06, -frame, frame),
            (b, b + 0.07, 0, top + 0.06, -frame, frame),
            (a, b, top, top + 0.06, -frame, frame),
        ]
        if passage.wide < 1.1:
            if not passage.used and rng.random() < 0.6:
                pieces.append((a, b, 0.0, top, -0.02, 0.02))  # closed
            elif rng.random() < 0.7:
                self._leaf(site, space, passage, top)
        self._boxes(site, pieces)

    def _leaf(self, site: Site, space: FloorSpace, passage: Passage, top: float) -> None:
        """Add an open door where it does not block the walk."""
        rng = site.rng
        side, hinge = rng.choice([-1, 1], 2)
        normal, along = np.eye(2)[self.axis] * side, np.eye(2)[1 - self.axis] * hinge
        angle = rng.uniform(np.deg2rad(80), np.deg2rad(125))
        pivot = passage.center + 0.5 * passage.wide * along + (self.thick / 2 + 0.02) * normal
        way = -np.cos(angle) * along + np.sin(angle) * normal
        line = pivot + np.linspace(0.05, passage.wide, 12)[:, None] * way
        beyond = line[-1] + 0.03 * np.sign(line[-1] - line[0])
        if (
            site.from_route(line).min() < 0.4
            or not self.ends[0] + self.thick / 2 < beyond[1 - self.axis] < self.ends[1] - self.thick / 2
        ):
            return
        space.block(line, 0.1)
        yaw = float(np.arctan2(way[1], way[0]))
        middle = pivot + 0.5 * passage.wide * way
        knob = pivot + 0.9 * passage.wide * way
        across = 0.05 * np.array([-way[1], way[0]])
        handles = boxes([[*(knob + across), 1.05], [*(knob - across), 1.05]], [0.12, 0.02, 0.02], yaw)
        site.add(joined(boxes((*middle, top / 2), (passage.wide, 0.04, top - 0.02), yaw), handles))

    def window(self, site: Site, inwards: int, curtains: float) -> tuple[np.ndarray, float]:
        """Add a wall with a window: frame, mullions, a sill, and perhaps a blind and curtains. Return its center (2,) and width."""
        rng, half = site.rng, self.thick / 2
        start, end = self._span
        room = end - start - 2 * self.thick
        wide = min(rng.uniform(0.8, 2.6), room - 0.5)
        s = rng.uniform(start + self.thick + 0.2 + wide / 2, end - self.thick - 0.2 - wide / 2)
        a, b = s - wide / 2, s + wide / 2
        low, high = rng.choice([0.08, rng.uniform(0.6, 1.1)], p=[0.2, 0.8]), rng.uniform(1.95, self.tall - 0.1)
        pieces = [
            *self._solid(start, a),
            *self._solid(b, end),
            (a, b, -0.1, low, -half, half),
            (a, b, high, self.tall + 0.1, -half, half),
        ]
        sill = sorted((-half * inwards, (half + rng.uniform(0.03, 0.2)) * inwards))
        pieces.append((a - 0.05, b + 0.05, low - 0.03, low, sill[0], sill[1]))
        bars = np.linspace(a, b, int(wide / rng.uniform(0.6, 1.1)) + 2)
        pieces += [(max(a, v - 0.035), min(b, v + 0.035), low, high, -0.03, 0.03) for v in bars]
        pieces += [(a, b, z, z + 0.06, -0.028, 0.028) for z in (low, high - 0.06)]
        if rng.random() < 0.5:  # a blind, or glass that returns the beam
            pieces.append((a, b, low + rng.choice([0.0, 0.5 * (high - low)]), high, -0.01, 0.01))
        self._boxes(site, pieces)
        if rng.random() < curtains:
            self._curtains(site, inwards, a, b)
        return np.array([self.line, s] if self.axis == 0 else [s, self.line]), wide

    def _curtains(self, site: Site, inwards: int, a: float, b: float) -> None:
        rng = site.rng
        deep, top, bottom = rng.uniform(0.02, 0.05), self.tall - rng.uniform(0.03, 0.2), rng.choice([0.03, 0.6])
        offset = inwards * (self.thick / 2 + 0.1)
        closed = rng.uniform(0.15, 0.6)
        for first, last in ((a - 0.2, a + closed * (b - a) / 2), (b - closed * (b - a) / 2, b + 0.2)):
            s = np.arange(max(first, self.ends[0] + 0.15), min(last, self.ends[1] - 0.15), 0.025)
            if len(s) < 3:
                continue
            z = np.linspace(bottom, top, 4)[:, None]
            wave = np.sin(2 * np.pi * s / rng.uniform(0.1, 0.2) + rng.uniform(0, 6)) + 0.4 * np.sin(2 * np.pi * s / 0.37)
            across = self.line + offset + deep * wave[None] * (1.3 - 0.6 * (z - bottom) / (top - bottom))
            grid = [across, np.broadcast_to(s, across.shape)]
            site.add(surface(np.stack([*(grid if self.axis == 0 else grid[::-1]), np.broadcast_to(z, across.shape)], axis=-1)))
        rod = np.array([[self.line + offset, a - 0.3, top + 0.02], [self.line + offset, b + 0.3, top + 0.02]])
        rod = rod if self.axis == 0 else rod[:, [1, 0, 2]]
        site.add(beams(rod[:1], rod[1:], 0.03, 6), Label.THIN)


def _floor(site: Site, plan: Plan, cell: Cell) -> None:
    low, high = plan.inner(cell)
    x, y = (np.linspace(a - plan.thick, b + plan.thick, int((b - a) / 0.7) + 2) for a, b in zip(low, high, strict=True))
    grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)
    site.add(surface(np.concatenate([grid, site.rng.normal(0, 0.0015, (*grid.shape[:2], 1))], axis=-1)), Label.GROUND)


def _ceiling(site: Site, plan: Plan, cell: Cell, tall: float, style: str) -> None:
    """Add a ceiling: plain, with beams, or with suspended panels; and lamps."""
    rng, (low, high) = site.rng, plan.inner(cell)
    middle, size = 0.5 * (low + high), high - low
    site.add(boxes((*middle, tall + 0.05), (*(size + plan.thick), 0.1)))
    long = int(size[1] > size[0])
    if style == "beams":
        deep, step = rng.uniform(0.06, min(0.25, tall - 2.1)), rng.uniform(0.5, 1.6)
        spots = np.arange(low[long] + step / 2, high[long], step)
        centers = np.tile([*middle, tall - deep / 2], (len(spots), 1))
        centers[:, long] = spots
        site.add(boxes(centers, [*(size * (np.arange(2) != long) + rng.uniform(0.08, 0.2) * (np.arange(2) == long)), deep]))
    elif style == "panels" and tall > 2.4:
        n = np.maximum((size / 0.6).astype(int), 1)
        x, y = (a + (np.arange(k) + 0.5) * s / k for a, k, s in zip(low, n, size, strict=True))
        spots = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
        keep = rng.random(len(spots)) > 0.04
        z = tall - rng.uniform(0.08, 0.2) + rng.normal(0, 0.002, len(spots))
        site.add(boxes(np.column_stack([spots, z])[keep], [*(size / n - 0.02), 0.02]))
        return
    for _ in range(int(rng.integers(1, 4))):
        spot = middle + rng.uniform(-0.35, 0.35, 2) * size
        if rng.random() < 0.5:
            r = rng.uniform(0.05, 0.25)
            site.add(lathe([[r, 0.0], [0.95 * r, -0.04], [0.6 * r, -0.09], [0.01, -0.1]], 12) + [*spot, tall])
        else:
            tube = boxes((0, 0, -0.05), (rng.uniform(0.6, 1.5), rng.uniform(0.06, 0.3), 0.07))
            site.add(turned(tube, long * np.pi / 2) + [*spot, tall])
