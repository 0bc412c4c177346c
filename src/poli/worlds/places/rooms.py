"""Homes and offices: connected rooms with doors, windows, furniture and people. The route walks through the rooms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from poli.worlds.places import fittings, interiors, partitions
from poli.worlds.places import street_objects as furniture
from poli.worlds.places.floorplan import Cell, FloorSpace, Plan, drawn_plan, walked
from poli.worlds.places.geometry import boxes, lengths, turned
from poli.worlds.places.ground import Label
from poli.worlds.places.hall import indoor_site
from poli.worlds.places.site import Place, Site

_SHORTEST = 28.0  # meters of a route
_USES = ("living", "bed", "office", "kitchen", "storage", "meeting")


def rooms(rng: np.random.Generator, kind: str, seed: int) -> Place:
    plan, route = _plan(rng)
    tall = rng.uniform(2.3, 3.0)
    site = indoor_site(rng, route, 3.0, clear=0.5)
    space = FloorSpace(plan, route, rng.uniform(0.35, 0.6))
    partitions.build(site, plan, space, tall, windows=0.75, curtains=0.6, styles=("plain", "plain", "beams", "panels"))
    office = rng.random() < 0.4
    for cell in plan.cells:
        if plan.narrow[cell]:
            _hallway(site, space, cell)
        else:
            _furnish(site, space, cell, tall, str(rng.choice(["office", "office", "meeting", "storage"] if office else _USES)))
        pictures(site, plan, cell, tall)
    return facing(site.finished(kind, seed, indoors=True, beside=0.4), rng.uniform(0, 2 * np.pi))


def facing(place: Place, yaw: float) -> Place:
    """The place rotated about z, so that its walls are not aligned with the axes."""
    triangles = turned(place.triangles.astype(np.float64), yaw).astype(np.float32)
    movers = tuple(replace(m, route=turned(m.route, yaw)) for m in place.movers)
    return replace(place, triangles=triangles, route=turned(place.route, yaw), movers=movers)


def _plan(rng: np.random.Generator) -> tuple[Plan, np.ndarray]:
    """A plan with a route that is long enough, and the route (K, 2)."""
    while True:
        smallest, largest = rng.uniform(2.7, 4.2), rng.uniform(5.5, 8.0)
        sides = [rng.uniform(smallest, largest, rng.integers(*counts)) for counts in ((3, 5), (2, 4))]
        narrow = [np.zeros(len(s), bool) for s in sides]
        if rng.random() < 0.6:  # a hallway along the rooms
            at = int(rng.integers(len(sides[1])))
            sides[1], narrow[1] = np.insert(sides[1], at, rng.uniform(1.4, 2.2)), np.insert(narrow[1], at, True)
        plan = drawn_plan(rng, (sides[0], sides[1]), (narrow[0], narrow[1]), wide_doors=0.25)
        route = walked(rng, plan)
        if lengths(route)[-1] > _SHORTEST:
            return plan, route


def _furnish(site: Site, space: FloorSpace, cell: Cell, tall: float, use: str) -> None:
    """Furnish a room: large pieces first, then small ones, then things on the floor."""
    rng = site.rng
    low, high = space.plan.inner(cell)
    area, top = float(np.prod(high - low)), tall - 0.15
    choices: dict[str, list[Callable[[np.random.Generator], np.ndarray]]] = {
        "living": [interiors.sofa, interiors.television, interiors.sofa],
        "bed": [interiors.bed, fittings.cabinet],
        "office": [interiors.desk] * 4,
        "kitchen": [lambda r: interiors.kitchen(r, top)],
        "storage": [lambda r: fittings.rack(r, r.uniform(1.0, 2.5), r.uniform(0.3, 0.5), r.uniform(1.2, min(2.1, top)))] * 3,
        "meeting": [],
    }
    for make in choices[use]:
        space.against_wall(site, cell, make(rng), tries=14)
    if use in ("living", "kitchen", "meeting"):
        for _ in range(1 + int(area / 18)):
            if space.free_standing(site, cell, interiors.dining(rng), tries=10) is None:
                part = interiors.table(rng, rng.uniform(0.45, 0.7), rng.uniform(0.5, 1.1), rng.uniform(0.35, 0.75))
                space.free_standing(site, cell, part, tries=10)
    crowd = rng.uniform(0.5, 2.0)
    for _ in range(min(int(crowd * area), 45)):
        pick = int(rng.integers(10))
        if pick < 3:
            space.against_wall(site, cell, interiors.bookshelf(rng, top))
        elif pick == 3:
            space.against_wall(site, cell, fittings.cabinet(rng))
        elif pick == 4:
            space.against_wall(site, cell, fittings.radiator(rng), Label.THIN)
        elif pick == 5:
            if rng.random() < 0.3:  # they fit everywhere
                space.free_standing(site, cell, interiors.floor_lamp(rng), Label.THIN)
        elif pick == 6:
            put_plant(site, space, cell)
        elif pick == 7:
            space.free_standing(site, cell, interiors.chair(rng), skew=1.0)
        elif pick == 8:
            space.against_wall(site, cell, interiors.cartons(rng))
        else:
            space.free_standing(site, cell, interiors.clutter(rng, 0.4, 0.4, 2, 1.4), skew=1.0)
    if rng.random() < 0.4:
        space.free_standing(site, cell, furniture.person(rng), skew=1.0, tries=8)


def put_plant(site: Site, space: FloorSpace, cell: Cell) -> None:
    plant = interiors.plant(site.rng)
    spot = space.free_standing(site, cell, plant.wood, skew=0.0)
    if spot is not None:
        center = 0.5 * (plant.wood.reshape(-1, 3).min(axis=0) + plant.wood.reshape(-1, 3).max(axis=0))
        site.add(plant.leaves - [*center[:2], 0.0] + [*spot, 0.0], Label.LEAVES)


def _hallway(site: Site, space: FloorSpace, cell: Cell) -> None:
    rng = site.rng
    for _ in range(int(rng.integers(1, 7))):
        makes = (
            fittings.radiator,
            fittings.cabinet,
            interiors.cartons,
            lambda r: interiors.bookshelf(r, 1.6),
            fittings.extinguisher,
        )
        space.against_wall(site, cell, makes[int(rng.integers(len(makes)))](rng))


def pictures(site: Site, plan: Plan, cell: Cell, tall: float) -> None:
    """Hang flat frames on the walls of a room, where there is no door."""
    rng, (low, high) = site.rng, plan.inner(cell)
    holes = [(p.center, p.wide) for c in plan.neighbors(cell) if (p := plan.passage(cell, c)) is not None] + plan.windows
    for _ in range(int(rng.integers(0, 6))):
        side, wide, high_ = int(rng.integers(4)), rng.uniform(0.2, 1.0), rng.uniform(0.2, 0.8)
        axis = side % 2
        spot = 0.5 * (low + high) + rng.uniform(-0.5, 0.5, 2) * np.maximum(high - low - 0.3 - wide, 0.0)
        spot[axis] = low[axis] if side < 2 else high[axis]
        if any(np.abs(center - spot).max() < hole / 2 + wide / 2 + 0.15 for center, hole in holes):
            continue
        size = np.array([0.05, wide, high_]) if axis == 0 else np.array([wide, 0.05, high_])
        site.add(boxes([[*spot, rng.uniform(1.2, min(1.8, tall - 0.5))]], size))
