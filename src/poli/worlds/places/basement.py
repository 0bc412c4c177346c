"""Basements: narrow corridors, storage rooms, workshops, boiler rooms and stairwells, with pipes and cable trays overhead."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from poli.worlds.places import fittings, interiors, partitions
from poli.worlds.places import street_objects as furniture
from poli.worlds.places.floorplan import Cell, FloorSpace, Plan, drawn_plan, walked
from poli.worlds.places.geometry import beams, boxes, joined, lathe, lengths, tube, turned
from poli.worlds.places.ground import Label
from poli.worlds.places.hall import indoor_site
from poli.worlds.places.rooms import facing, pictures
from poli.worlds.places.site import Place, Site
from poli.worlds.places.streets import fence

_SHORTEST = 28.0  # meters of a route
_FREE = 1.97  # meters: nothing overhead hangs lower


def basement(rng: np.random.Generator, kind: str, seed: int) -> Place:
    plan, route = _plan(rng)
    tall = rng.uniform(2.2, 3.0)
    site = indoor_site(rng, route, 3.0, clear=0.5)
    space = FloorSpace(plan, route, rng.uniform(0.35, 0.5))
    partitions.build(site, plan, space, tall, windows=0.15, curtains=0.0, styles=("plain", "beams"))
    for cell in plan.cells:
        if plan.narrow[cell]:
            _corridor(site, space, cell)
        else:
            _room(site, space, cell, tall, str(rng.choice(["storage", "workshop", "machines", "stairs", "cages"])))
        pictures(site, plan, cell, tall)  # here switch boxes and boards
    _overhead(site, plan, tall)
    return facing(site.finished(kind, seed, indoors=True, beside=0.4), rng.uniform(0, 2 * np.pi))


def _plan(rng: np.random.Generator) -> tuple[Plan, np.ndarray]:
    """Rooms with corridors between them, and a route (K, 2) that is long enough."""
    while True:
        sides, narrow = [], []
        for count in (rng.integers(2, 4), rng.integers(2, 4)):
            size, thin = list(rng.uniform(2.6, 6.5, count)), [False] * count
            for _ in range(int(rng.integers(1, 3))):
                at = int(rng.integers(len(size) + 1))
                if not any(thin[max(at - 1, 0) : at + 1]):  # no two side by side
                    size.insert(at, rng.uniform(1.35, 2.6))  # with walls of 0.1 to 0.2 m
                    thin.insert(at, True)
            sides.append(np.array(size))
            narrow.append(np.array(thin))
        plan = drawn_plan(rng, (sides[0], sides[1]), (narrow[0], narrow[1]), wide_doors=0.15)
        route = walked(rng, plan)
        if lengths(route)[-1] > _SHORTEST:
            return plan, route


def _room(site: Site, space: FloorSpace, cell: Cell, tall: float, use: str) -> None:
    rng, top = site.rng, tall - 0.3
    area = float(np.prod(np.subtract(*space.plan.inner(cell)[::-1])))
    if use == "stairs":
        space.against_wall(site, cell, _stairwell(rng, tall), tries=30)
    if use == "cages":
        path = np.column_stack([np.zeros(9), np.linspace(-1.0, 1.0, 9), np.zeros(9)])
        for _ in range(4):
            space.free_standing(
                site, cell, fence(rng, path, str(rng.choice(["mesh", "bars", "rails"]))), Label.THIN, skew=0.0, tries=8
            )
    makes = {
        "storage": [
            lambda r: _rack(r, top),
            lambda r: _rack(r, top),
            lambda r: interiors.cartons(r, 0.9),
            _barrel,
            furniture.bicycle,
        ],
        "workshop": [_workbench, _workbench, lambda r: _rack(r, top), _ladder, fittings.cabinet, lambda r: _machine(r, top)],
        "machines": [lambda r: _tank(r, top), lambda r: _tank(r, top), lambda r: _machine(r, top), _boiler, _barrel],
        "stairs": [furniture.bicycle, lambda r: interiors.cartons(r, 0.7), furniture.bin_],
        "cages": [lambda r: interiors.cartons(r, 0.9), furniture.bicycle, lambda r: _rack(r, top), _ladder],
    }[use]
    for _ in range(int(rng.uniform(0.6, 2.0) * area)):
        pick = int(rng.integers(len(makes) + 3))
        if pick < len(makes):
            space.against_wall(site, cell, makes[pick](rng))
        elif pick == len(makes):
            part = (_barrel, lambda r: interiors.cartons(r, 0.8), lambda r: _tank(r, top))[int(rng.integers(3))](rng)
            space.free_standing(site, cell, part)
        elif pick == len(makes) + 1:
            space.free_standing(site, cell, interiors.clutter(rng, 0.5, 0.5, 3, 1.5), skew=1.0)
        elif rng.random() < 0.3:
            space.free_standing(site, cell, fittings.column(rng, tall), tries=8, skew=0.0)
    if rng.random() < 0.2:
        space.free_standing(site, cell, furniture.person(rng), skew=1.0)


def _corridor(site: Site, space: FloorSpace, cell: Cell) -> None:
    """Add what fits beside the walk: pipes up the walls, extinguishers, boxes, pilasters."""
    rng = site.rng
    makes = (
        fittings.extinguisher,
        lambda r: tube(np.array([[0.08, 0, 0], [0.08, 0, 3.0]]), r.uniform(0.02, 0.07), 10),
        lambda r: boxes((0.06, 0, r.uniform(0.9, 1.5)), (r.uniform(0.08, 0.2), r.uniform(0.2, 0.8), r.uniform(0.3, 0.9))),
        lambda r: boxes((0.06, 0, 1.5), (r.uniform(0.08, 0.3), r.uniform(0.2, 0.5), 3.0)),
        lambda r: interiors.cartons(r, 0.5),
        lambda r: _rack(r, 1.9),
        fittings.radiator,
    )
    for _ in range(int(rng.integers(2, 9))):
        space.against_wall(site, cell, makes[int(rng.integers(len(makes)))](rng))


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
                    site.add(fittings.duct(rng, ends, r))
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
    hung = [
        beams(hooks + s * across, np.column_stack([(hooks + s * across)[:, :2], np.full(len(hooks), tall)]), 0.02) for s in (-1, 1)
    ]
    return joined(*sides, beams(rungs - across, rungs + across, 0.025), *cables, *hung)


def _rack(rng: np.random.Generator, top: float) -> np.ndarray:
    return fittings.rack(rng, rng.uniform(0.9, 2.6), rng.uniform(0.3, 0.6), rng.uniform(1.1, max(1.2, min(2.2, top))))


def _fitting(part: np.ndarray, top: float) -> np.ndarray:
    """The part, scaled down if it is too tall."""
    return part * min(1.0, top / float(part[..., 2].max()))


def _machine(rng: np.random.Generator, top: float) -> np.ndarray:
    return _fitting(fittings.machine(rng) * rng.uniform(0.4, 0.75), top)


def _tank(rng: np.random.Generator, top: float) -> np.ndarray:
    """A tank: upright on feet, or lying on saddles, with pipes to the ceiling."""
    r, long = rng.uniform(0.25, 0.55), rng.uniform(0.8, 1.7)
    dome = np.array(
        [
            [0.02, 0.0],
            [0.7 * r, 0.08 * r],
            [0.95 * r, 0.25 * r],
            [r, 0.5 * r],
            [r, long],
            [0.95 * r, long + 0.25 * r],
            [0.7 * r, long + 0.42 * r],
            [0.02, long + 0.5 * r],
        ]
    )
    if rng.random() < 0.6:
        feet = np.array([[0.7 * r * np.cos(a), 0.7 * r * np.sin(a), 0.0] for a in (0.5, 2.6, 4.7)])
        pipe = tube(np.array([[0.3 * r, 0, long + 0.4 * r], [0.3 * r, 0, 4.0]]), 0.03, 8)
        tank = _fitting(joined(lathe(dome, 18) + [0, 0, 0.15], beams(feet, feet + [0, 0, 0.4], 0.06)), top - 0.05)
        pipe[..., 2] = np.clip(pipe[..., 2], 0.5, top + 0.3)
        return joined(tank, pipe)
    lying = lathe(dome, 18)[..., [2, 0, 1]][..., [1, 0, 2]] + [0, -long / 2, r + 0.15]
    return joined(lying, *[boxes((0, s * 0.3 * long, 0.15), (1.4 * r, 0.08, 0.3 + 0.2 * r)) for s in (-1, 1)])


def _boiler(rng: np.random.Generator) -> np.ndarray:
    """A boiler or a washing machine: a cabinet with a round door or a control panel, and pipes."""
    wide, tall = rng.uniform(0.5, 0.8), rng.uniform(0.8, 1.6)
    parts = [boxes((0.3, 0, tall / 2), (0.6, wide, tall)), boxes((0.61, 0, tall - 0.1), (0.03, 0.7 * wide, 0.12))]
    parts.append(
        turned(lathe(np.array([[0.3 * wide, 0.0], [0.3 * wide, 0.04], [0.2 * wide, 0.02], [0.01, 0.05]]), 16)[..., [2, 0, 1]], 0.0)
        + [0.6, 0, 0.45]
    )
    pipes = [tube(np.array([[0.15, y, tall], [0.15, y, tall + 0.25], [0.0, y, tall + 0.35]]), 0.02, 6) for y in (-0.15, 0.0, 0.12)]
    return joined(*parts, *pipes)


def _barrel(rng: np.random.Generator) -> np.ndarray:
    r, h = rng.uniform(0.18, 0.32), rng.uniform(0.5, 0.95)
    rings = [
        [0.97 * r, 0.0],
        [r, 0.02],
        [r, 0.32 * h],
        [1.05 * r, 0.34 * h],
        [r, 0.36 * h],
        [r, 0.64 * h],
        [1.05 * r, 0.66 * h],
        [r, 0.68 * h],
        [r, h],
        [0.9 * r, h - 0.02],
        [0.01, h - 0.02],
    ]
    return lathe(np.array(rings), 16)


def _workbench(rng: np.random.Generator) -> np.ndarray:
    """A bench with tools on it and a board with tools above it."""
    deep, wide, tall = rng.uniform(0.5, 0.75), rng.uniform(1.2, 2.2), rng.uniform(0.82, 0.95)
    bench = interiors.table(rng, deep, wide, tall) + [deep / 2, 0, 0]
    tools = interiors.clutter(rng, 0.6 * deep, 0.9 * wide, int(rng.integers(3, 10))) + [deep / 2, 0, tall]
    vise = joined(boxes((0, 0, 0.08), (0.25, 0.12, 0.16)), tube(np.array([[0.1, 0, 0.1], [0.3, 0, 0.1]]), 0.02, 6)) + [
        deep - 0.15,
        0.3 * wide,
        tall,
    ]
    n = int(rng.integers(4, 14))
    hung = boxes(
        (0.05, rng.uniform(-0.45, 0.45, n) * wide, rng.uniform(1.3, 1.75, n)),
        (0.04, rng.uniform(0.02, 0.12, n), rng.uniform(0.1, 0.35, n)),
    )
    return joined(
        bench,
        tools,
        vise,
        hung,
        boxes((0.015, 0, 1.5), (0.03, wide, 0.8)),
        boxes((deep / 2, 0, 0.25), (0.8 * deep, 0.9 * wide, 0.03)),
    )


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
    flight = fittings.stairs(rng, rise, wide)
    run, top = 0.27 * int(rise / 0.19), 0.19 * int(rise / 0.19)
    back = turned(fittings.stairs(rng, tall - top - 0.25, wide), np.pi) + [run, wide + 0.1, top]
    back = back[(back[..., 2] < tall).all(axis=1)]
    landing = boxes((run + 0.4, wide / 2 + 0.05, top), (0.9, 2 * wide + 0.1, 0.12))
    return turned(joined(flight, back, landing), np.pi / 2)
