"""Walls inside a building: doors, windows with sills and frames, skirting; floors; and ceilings with beams, panels and lamps."""

from __future__ import annotations

import numpy as np

from poli.worlds.places.floorplan import Cell, FloorSpace, Passage, Plan
from poli.worlds.places.geometry import beams, boxes, joined, lathe, surface, turned
from poli.worlds.places.ground import Label
from poli.worlds.places.site import Site


def build(site: Site, plan: Plan, space: FloorSpace, tall: float, windows: float, curtains: float, styles: tuple[str, ...]) -> None:
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
            site.add(lathe(np.array([[r, 0.0], [0.95 * r, -0.04], [0.6 * r, -0.09], [0.01, -0.1]]), 12) + [*spot, tall])
        else:
            tube = boxes((0, 0, -0.05), (rng.uniform(0.6, 1.5), rng.uniform(0.06, 0.3), 0.07))
            site.add(turned(tube, long * np.pi / 2) + [*spot, tall])
