"""A fine map of the free floor inside a building, so furniture leaves the walls, the doors and the walk alone."""

from __future__ import annotations

import numpy as np

from poli.data.simulate.places.curves import resampled
from poli.data.simulate.places.floorplan import Cell, Plan
from poli.data.simulate.places.place import Label
from poli.data.simulate.places.site import Site
from poli.data.simulate.places.solids import turned

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
