"""Homes and offices, and basements: connected rooms with doors, windows, furniture and people. The route walks through them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from poli.worlds.places import indoor_objects as indoor
from poli.worlds.places import street_objects as street
from poli.worlds.places.curves import lengths
from poli.worlds.places.floorplan import Cell, FloorSpace, Plan, build_walls, drawn_plan, walked
from poli.worlds.places.ground import Label
from poli.worlds.places.halls import indoor_site
from poli.worlds.places.site import Place, Site
from poli.worlds.places.solids import beams, boxes, joined, lathe, rows_of, tube, turned
from poli.worlds.places.streets import fence

_SHORTEST = 28.0  # meters of a route
_FREE = 1.97  # meters: nothing overhead hangs lower
_USES = ("living", "bed", "office", "kitchen", "storage", "meeting")
Part = Callable[[np.random.Generator], np.ndarray]  # draws an object
Sizes = Callable[[np.random.Generator], tuple[list[np.ndarray], list[np.ndarray]]]  # of rows and columns; which are narrow


def rooms(rng: np.random.Generator, kind: str, seed: int) -> Place:
    """A home or an office."""
    styles = ("plain", "plain", "beams", "panels")
    site, space, tall = _walled(rng, _home, 0.25, 2.3, 0.6, windows=0.75, curtains=0.6, styles=styles)
    office = rng.random() < 0.4
    for cell in space.plan.cells:
        if space.plan.narrow[cell]:
            shelf: Part = lambda r: indoor.bookshelf(r, 1.6)  # noqa: E731
            makes = (indoor.radiator, indoor.cabinet, indoor.cartons, shelf, indoor.extinguisher)
            _line_walls(site, space, cell, makes, int(rng.integers(1, 7)))
        else:
            _furnish(site, space, cell, tall, str(rng.choice(["office", "office", "meeting", "storage"] if office else _USES)))
        _pictures(site, space.plan, cell, tall)
    return _facing(site.finished(kind, seed, indoors=True, beside=0.4), rng.uniform(0, 2 * np.pi))


def basement(rng: np.random.Generator, kind: str, seed: int) -> Place:
    """Narrow corridors, storage rooms, workshops, boiler rooms and stairwells, with pipes and cable trays overhead."""
    site, space, tall = _walled(rng, _cellar, 0.15, 2.2, 0.5, windows=0.15, curtains=0.0, styles=("plain", "beams"))
    for cell in space.plan.cells:
        if space.plan.narrow[cell]:  # pipes up the walls, extinguishers, boxes, pilasters
            makes: tuple[Part, ...] = (
                indoor.extinguisher,
                lambda r: tube([[0.08, 0, 0], [0.08, 0, 3.0]], r.uniform(0.02, 0.07), 10),
                lambda r: boxes((0.06, 0, r.uniform(0.9, 1.5)), (r.uniform(0.08, 0.2), r.uniform(0.2, 0.8), r.uniform(0.3, 0.9))),
                lambda r: boxes((0.06, 0, 1.5), (r.uniform(0.08, 0.3), r.uniform(0.2, 0.5), 3.0)),
                lambda r: indoor.cartons(r, 0.5),
                lambda r: _rack(r, 1.9),
                indoor.radiator,
            )
            _line_walls(site, space, cell, makes, int(rng.integers(2, 9)))
        else:
            _stock(site, space, cell, tall, str(rng.choice(["storage", "workshop", "machines", "stairs", "cages"])))
        _pictures(site, space.plan, cell, tall)  # here switch boxes and boards
    _overhead(site, space.plan, tall)
    return _facing(site.finished(kind, seed, indoors=True, beside=0.4), rng.uniform(0, 2 * np.pi))


def _walled(
    rng: np.random.Generator, sizes: Sizes, wide_doors: float, lowest: float, widest: float, **walls
) -> tuple[Site, FloorSpace, float]:
    """Draw a plan whose route is long enough; return the site with its walls, the free floor, and the height of the ceiling."""
    while True:
        sides, narrow = sizes(rng)
        plan = drawn_plan(rng, (sides[0], sides[1]), (narrow[0], narrow[1]), wide_doors)
        route = walked(rng, plan)
        if lengths(route)[-1] > _SHORTEST:
            break
    tall = rng.uniform(lowest, 3.0)
    site = indoor_site(rng, route, 3.0, clear=0.5)
    space = FloorSpace(plan, route, rng.uniform(0.35, widest))
    build_walls(site, plan, space, tall, **walls)
    return site, space, tall


def _home(rng: np.random.Generator) -> tuple[list[np.ndarray], list[np.ndarray]]:
    smallest, largest = rng.uniform(2.7, 4.2), rng.uniform(5.5, 8.0)
    sides = [rng.uniform(smallest, largest, rng.integers(*counts)) for counts in ((3, 5), (2, 4))]
    narrow = [np.zeros(len(s), bool) for s in sides]
    if rng.random() < 0.6:  # a hallway along the rooms
        at = int(rng.integers(len(sides[1])))
        sides[1], narrow[1] = np.insert(sides[1], at, rng.uniform(1.4, 2.2)), np.insert(narrow[1], at, True)
    return sides, narrow


def _cellar(rng: np.random.Generator) -> tuple[list[np.ndarray], list[np.ndarray]]:
    sides, narrow = [], []
    for count in (rng.integers(2, 4), rng.integers(2, 4)):
        size, thin = list(rng.uniform(2.6, 6.5, count)), [False] * count
        for _ in range(int(rng.integers(1, 3))):
            at = int(rng.integers(len(size) + 1))
            if not any(thin[max(at - 1, 0) : at + 1]):  # no two corridors side by side
                size.insert(at, rng.uniform(1.35, 2.6))  # with walls of 0.1 to 0.2 m
                thin.insert(at, True)
        sides.append(np.array(size))
        narrow.append(np.array(thin))
    return sides, narrow


def _facing(place: Place, yaw: float) -> Place:
    """The place rotated about z, so that its walls are not aligned with the axes."""
    triangles = turned(place.triangles.astype(np.float64), yaw).astype(np.float32)
    movers = tuple(replace(m, route=turned(m.route, yaw)) for m in place.movers)
    return replace(place, triangles=triangles, route=turned(place.route, yaw), movers=movers)


def _line_walls(site: Site, space: FloorSpace, cell: Cell, makes: tuple[Part, ...], count: int) -> None:
    """Add what fits beside the walk along a corridor."""
    for _ in range(count):
        space.against_wall(site, cell, makes[int(site.rng.integers(len(makes)))](site.rng))


def _furnish(site: Site, space: FloorSpace, cell: Cell, tall: float, use: str) -> None:
    """Furnish a room: large pieces first, then small ones, then things on the floor."""
    rng = site.rng
    low, high = space.plan.inner(cell)
    area, top = float(np.prod(high - low)), tall - 0.15
    choices: dict[str, list[Part]] = {
        "living": [indoor.sofa, indoor.television, indoor.sofa],
        "bed": [indoor.bed, indoor.cabinet],
        "office": [indoor.desk] * 4,
        "kitchen": [lambda r: indoor.kitchen(r, top)],
        "storage": [lambda r: indoor.rack(r, r.uniform(1.0, 2.5), r.uniform(0.3, 0.5), r.uniform(1.2, min(2.1, top)))] * 3,
        "meeting": [],
    }
    for make in choices[use]:
        space.against_wall(site, cell, make(rng), tries=14)
    if use in ("living", "kitchen", "meeting"):
        for _ in range(1 + int(area / 18)):
            if space.free_standing(site, cell, indoor.dining(rng), tries=10) is None:
                part = indoor.table(rng, rng.uniform(0.45, 0.7), rng.uniform(0.5, 1.1), rng.uniform(0.35, 0.75))
                space.free_standing(site, cell, part, tries=10)
    crowd = rng.uniform(0.5, 2.0)
    for _ in range(min(int(crowd * area), 45)):
        pick = int(rng.integers(10))
        if pick < 3:
            space.against_wall(site, cell, indoor.bookshelf(rng, top))
        elif pick == 3:
            space.against_wall(site, cell, indoor.cabinet(rng))
        elif pick == 4:
            space.against_wall(site, cell, indoor.radiator(rng), Label.THIN)
        elif pick == 5:
            if rng.random() < 0.3:  # they fit everywhere
                space.free_standing(site, cell, indoor.floor_lamp(rng), Label.THIN)
        elif pick == 6:
            _put_plant(site, space, cell)
        elif pick == 7:
            space.free_standing(site, cell, indoor.chair(rng), skew=1.0)
        elif pick == 8:
            space.against_wall(site, cell, indoor.cartons(rng))
        else:
            space.free_standing(site, cell, indoor.clutter(rng, 0.4, 0.4, 2, 1.4), skew=1.0)
    if rng.random() < 0.4:
        space.free_standing(site, cell, street.person(rng), skew=1.0, tries=8)


def _put_plant(site: Site, space: FloorSpace, cell: Cell) -> None:
    plant = indoor.plant(site.rng)
    spot = space.free_standing(site, cell, plant.wood, skew=0.0)
    if spot is not None:
        center = 0.5 * (plant.wood.min(axis=(0, 1)) + plant.wood.max(axis=(0, 1)))
        site.add(plant.leaves - [*center[:2], 0.0] + [*spot, 0.0], Label.LEAVES)


def _pictures(site: Site, plan: Plan, cell: Cell, tall: float) -> None:
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
        size = (0.05, wide, high_) if axis == 0 else (wide, 0.05, high_)
        site.add(boxes((*spot, rng.uniform(1.2, min(1.8, tall - 0.5))), size))


def _stock(site: Site, space: FloorSpace, cell: Cell, tall: float, use: str) -> None:
    """Fill a room of a basement."""
    rng, top = site.rng, tall - 0.3
    area = float(np.prod(np.subtract(*space.plan.inner(cell)[::-1])))
    if use == "stairs":
        space.against_wall(site, cell, _stairwell(rng, tall), tries=30)
    if use == "cages":
        path = rows_of((0.0, np.linspace(-1.0, 1.0, 9), 0.0))
        for _ in range(4):
            part = fence(rng, path, str(rng.choice(["mesh", "bars", "rails"])))
            space.free_standing(site, cell, part, Label.THIN, skew=0.0, tries=8)
    rack: Part = lambda r: _rack(r, top)  # noqa: E731
    tank: Part = lambda r: _tank(r, top)  # noqa: E731
    machine: Part = lambda r: _machine(r, top)  # noqa: E731
    cartons: Part = lambda r: indoor.cartons(r, 0.9)  # noqa: E731
    makes: list[Part] = {
        "storage": [rack, rack, cartons, _barrel, street.bicycle],
        "workshop": [_workbench, _workbench, rack, _ladder, indoor.cabinet, machine],
        "machines": [tank, tank, machine, _boiler, _barrel],
        "stairs": [street.bicycle, lambda r: indoor.cartons(r, 0.7), street.bin_],
        "cages": [cartons, street.bicycle, rack, _ladder],
    }[use]
    for _ in range(int(rng.uniform(0.6, 2.0) * area)):
        pick = int(rng.integers(len(makes) + 3))
        if pick < len(makes):
            space.against_wall(site, cell, makes[pick](rng))
        elif pick == len(makes):
            part = (_barrel, lambda r: indoor.cartons(r, 0.8), tank)[int(rng.integers(3))](rng)
            space.free_standing(site, cell, part)
        elif pick == len(makes) + 1:
            space.free_standing(site, cell, indoor.clutter(rng, 0.5, 0.5, 3, 1.5), skew=1.0)
        elif rng.random() < 0.3:
            space.free_standing(site, cell, indoor.column(rng, tall), tries=8, skew=0.0)
    if rng.random() < 0.2:
        space.free_standing(site, cell, street.person(rng), skew=1.0)


def _overhead(site: Site, plan: Plan, tall: float) -> None:
    """Run pipes, ducts and cable trays below the ceilings along corridors and through walls into some rooms."""
    rng = site.rng
    for axis, (lines, others) in enumerate(((plan.x, plan.y), (plan.y, plan.x))):
        for k, (low, high) in enumerate(pairwise(lines)):
            narrow = plan.narrow.take(k, axis).all()
            for _ in range(int(rng.integers(2, 6)) if narrow else int(rng.integers(0, 2))):
                s = rng.uniform(low + plan.thick + 0.1, high - plan.thick - 0.1)
                r = min(rng.choice([0.02, 0.04, 0.08, 0.14]), 0.5 * (tall - _FREE))
                z = rng.uniform(_FREE + r, tall - r)
                ends = np.array([[s, others[0], z], [s, others[-1], z]])
                ends = ends if axis == 0 else ends[:, [1, 0, 2]]
                if rng.random() < 0.25 and tall - _FREE > 0.2:
                    site.add(_tray(ends, rng.uniform(0.15, 0.4), tall), Label.THIN)
                elif r > 0.06:
                    site.add(indoor.duct(rng, ends, r))
                else:
                    site.add(tube(ends, r, 8), Label.THIN)


def _tray(ends: np.ndarray, wide: float, tall: float) -> np.ndarray:  # (2, 3)
    """A cable tray with rungs, cables and hangers."""
    way = (ends[1] - ends[0]) / np.linalg.norm(ends[1] - ends[0])
    across = wide / 2 * np.array([-way[1], way[0], 0.0])
    length = float(np.linalg.norm(ends[1] - ends[0]))
    rungs = ends[0] + np.arange(0.15, length, 0.3)[:, None] * way
    hooks = ends[0] + np.arange(0.4, length, 1.4)[:, None] * way
    sides = [beams(ends[:1] + s * across, ends[1:] + s * across, 0.06) for s in (-1, 1)]
    cables = [tube(ends + u * across + [0, 0, 0.03], 0.015, 5) for u in (-0.6, -0.2, 0.5)]
    edges = [hooks + s * across for s in (-1, 1)]
    hung = [beams(edge, (edge[:, 0], edge[:, 1], tall), 0.02) for edge in edges]
    return joined(*sides, beams(rungs - across, rungs + across, 0.025), *cables, *hung)


def _rack(rng: np.random.Generator, top: float) -> np.ndarray:
    return indoor.rack(rng, rng.uniform(0.9, 2.6), rng.uniform(0.3, 0.6), rng.uniform(1.1, max(1.2, min(2.2, top))))


def _fitting(part: np.ndarray, top: float) -> np.ndarray:
    """The part, scaled down if it is too tall."""
    return part * min(1.0, top / float(part[..., 2].max()))


def _machine(rng: np.random.Generator, top: float) -> np.ndarray:
    return _fitting(indoor.machine(rng) * rng.uniform(0.4, 0.75), top)


def _tank(rng: np.random.Generator, top: float) -> np.ndarray:
    """A tank: upright on feet, or lying on saddles, with pipes to the ceiling."""
    r, long = rng.uniform(0.25, 0.55), rng.uniform(0.8, 1.7)
    radii = [0.02, 0.7 * r, 0.95 * r, r, r, 0.95 * r, 0.7 * r, 0.02]
    heights = [0.0, 0.08 * r, 0.25 * r, 0.5 * r, long, long + 0.25 * r, long + 0.42 * r, long + 0.5 * r]
    dome = lathe((radii, heights), 18)
    if rng.random() < 0.6:
        feet = np.array([[0.7 * r * np.cos(a), 0.7 * r * np.sin(a), 0.0] for a in (0.5, 2.6, 4.7)])
        pipe = tube([[0.3 * r, 0, long + 0.4 * r], [0.3 * r, 0, 4.0]], 0.03, 8)
        tank = _fitting(joined(dome + [0, 0, 0.15], beams(feet, feet + [0, 0, 0.4], 0.06)), top - 0.05)
        pipe[..., 2] = np.clip(pipe[..., 2], 0.5, top + 0.3)
        return joined(tank, pipe)
    lying = dome[..., [2, 0, 1]][..., [1, 0, 2]] + [0, -long / 2, r + 0.15]
    return joined(lying, *[boxes((0, s * 0.3 * long, 0.15), (1.4 * r, 0.08, 0.3 + 0.2 * r)) for s in (-1, 1)])


def _boiler(rng: np.random.Generator) -> np.ndarray:
    """A boiler or a washing machine: a cabinet with a round door or a control panel, and pipes."""
    wide, tall = rng.uniform(0.5, 0.8), rng.uniform(0.8, 1.6)
    parts = [boxes((0.3, 0, tall / 2), (0.6, wide, tall)), boxes((0.61, 0, tall - 0.1), (0.03, 0.7 * wide, 0.12))]
    door = lathe([[0.3 * wide, 0.0], [0.3 * wide, 0.04], [0.2 * wide, 0.02], [0.01, 0.05]], 16)[..., [2, 0, 1]]
    parts.append(turned(door, 0.0) + [0.6, 0, 0.45])
    pipes = [tube([[0.15, y, tall], [0.15, y, tall + 0.25], [0.0, y, tall + 0.35]], 0.02, 6) for y in (-0.15, 0.0, 0.12)]
    return joined(*parts, *pipes)


def _barrel(rng: np.random.Generator) -> np.ndarray:
    r, h = rng.uniform(0.18, 0.32), rng.uniform(0.5, 0.95)
    radii = np.array([0.97, 1.0, 1.0, 1.05, 1.0, 1.0, 1.05, 1.0, 1.0, 0.9]) * r
    heights = [0.0, 0.02, 0.32 * h, 0.34 * h, 0.36 * h, 0.64 * h, 0.66 * h, 0.68 * h, h, h - 0.02, h - 0.02]
    return lathe(([*radii, 0.01], heights), 16)


def _workbench(rng: np.random.Generator) -> np.ndarray:
    """A bench with tools on it and a board with tools above it."""
    deep, wide, tall = rng.uniform(0.5, 0.75), rng.uniform(1.2, 2.2), rng.uniform(0.82, 0.95)
    bench = indoor.table(rng, deep, wide, tall) + [deep / 2, 0, 0]
    tools = indoor.clutter(rng, 0.6 * deep, 0.9 * wide, int(rng.integers(3, 10))) + [deep / 2, 0, tall]
    vise = joined(boxes((0, 0, 0.08), (0.25, 0.12, 0.16)), tube([[0.1, 0, 0.1], [0.3, 0, 0.1]], 0.02, 6))
    n = int(rng.integers(4, 14))
    hung = boxes(
        (0.05, rng.uniform(-0.45, 0.45, n) * wide, rng.uniform(1.3, 1.75, n)),
        (0.04, rng.uniform(0.02, 0.12, n), rng.uniform(0.1, 0.35, n)),
    )
    boards = boxes((0.015, 0, 1.5), (0.03, wide, 0.8)), boxes((deep / 2, 0, 0.25), (0.8 * deep, 0.9 * wide, 0.03))
    return joined(bench, tools, vise + [deep - 0.15, 0.3 * wide, tall], hung, *boards)


def _ladder(rng: np.random.Generator) -> np.ndarray:
    """A ladder that leans on the wall."""
    tall, lean = rng.uniform(1.6, 2.1), rng.uniform(0.25, 0.5)
    t = np.arange(0.1, 0.98, 0.28 / tall)[:, None]
    foot, head = np.array([lean, 0.0, 0.0]), np.array([0.03, 0.0, tall])
    rungs, side = foot + t * (head - foot), np.array([0.0, 0.2, 0.0])
    return joined(beams([foot - side, foot + side], [head - side, head + side], 0.06), beams(rungs - side, rungs + side, 0.035, 6))


def _stairwell(rng: np.random.Generator, tall: float) -> np.ndarray:
    """A flight of stairs up to a landing, and the next one from there up to the ceiling."""
    wide, rise = rng.uniform(0.8, 1.1), 0.5 * tall
    flight = indoor.stairs(rng, rise, wide)
    run, top = 0.27 * int(rise / 0.19), 0.19 * int(rise / 0.19)
    back = turned(indoor.stairs(rng, tall - top - 0.25, wide), np.pi) + [run, wide + 0.1, top]
    back = back[(back[..., 2] < tall).all(axis=1)]
    landing = boxes((run + 0.4, wide / 2 + 0.05, top), (0.9, 2 * wide + 0.1, 0.12))
    return turned(joined(flight, back, landing), np.pi / 2)
