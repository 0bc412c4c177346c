"""Roads at water: a bridge over a valley, and a road along a river."""

from __future__ import annotations

import numpy as np

from poli.data.simulate.places.along import Along
from poli.data.simulate.places.curves import lengthened, resampled, shifted, winding
from poli.data.simulate.places.fences import fence
from poli.data.simulate.places.outdoors import drawn_ground, drawn_road, opened, side_lane, side_roads, traffic
from poli.data.simulate.places.place import Label, Place
from poli.data.simulate.places.solids import boxes, ellipsoid, joined, turned
from poli.data.simulate.places.spans import HANGERS, deck, hangers, overpass, piers
from poli.data.simulate.places.streets import (
    boundaries,
    bushes,
    groves,
    make_house,
    new_fleet,
    parked_cars,
    plant,
    row_of_houses,
    scatter,
    street_things,
)
from poli.data.simulate.places.waves import Waves, ramp

_EXTRA = 90.0  # how far roads continue beyond the route


def bridge(rng: np.random.Generator, kind: str, seed: int) -> Place:
    """A road that crosses a valley on a bridge, with houses and trees at both ends."""
    path = winding(rng, rng.uniform(270, 330), rng.uniform(0.0, 0.35))
    road = drawn_road(rng, path, parking=False)
    along = Along(lengthened(road.line, _EXTRA))
    span, deep = rng.uniform(50, 120), rng.uniform(4, 11)
    middle = _EXTRA + len(road.line) * rng.uniform(0.4, 0.6)
    wobble = Waves(rng, 1.0, 25.0, 80.0)

    def beyond(xy: np.ndarray) -> np.ndarray:  # meters from the end of the bridge, negative below it
        return np.abs(along(xy)[0] - middle) - span / 2

    def valley(xy: np.ndarray) -> np.ndarray:
        inside = -beyond(xy)  # the bridge's ends rest on walls, and the slope begins below them
        return -1.6 * ramp(inside, -0.6, 0.0) - deep * ramp(inside, 0.5, 2.2 * deep) + 0.35 * wobble(xy) * ramp(inside, 2.0, 9.0)

    ground = drawn_ground(rng, (road.strip(_EXTRA),), rng.uniform(0.2, 0.8), valley, beyond)
    site = opened(rng, ground, road)
    cars, (near, far) = new_fleet(rng), groves(rng)
    traffic(site, road, cars)
    over = np.abs(along(road.line)[0] - middle) < span / 2 + 0.6
    line = road.line[over]
    center = deck(site, line, road.half, road.edge)
    piers(site, center, road.edge, rng.uniform(14, 26))
    hangers(site, center, road.edge, str(rng.choice(HANGERS)))
    site.keep_clear(line, road.edge + 1.5)
    ends = [road.line[: int(np.argmax(over)) - 2], road.line[len(over) - int(np.argmax(over[::-1])) + 2 :]]
    house = make_house((1, 4), (8, 18), (8, 13), ("gabled", "hipped", "flat"), rng.random(), 0.3)
    for end in ends:
        row_of_houses(site, end, road.edge, (1.0, rng.uniform(4, 12)), (2, 25), house, rng.uniform(0.3, 0.9))
        street_things(site, end, road.half, road.pavement)
        boundaries(site, end, road.edge, 0.6)
        barrier = resampled(shifted(end, rng.choice([-1, 1]) * (road.half + 0.45)), 1.0)
        free = site.claim_path(barrier, "road", 0.0)
        if free.mean() > 0.7:
            barrier = barrier[free]
            site.add(fence(rng, np.column_stack([barrier, ground.height(barrier)]), "barrier"), Label.THIN)
        if rng.random() < 0.3 and len(end) > 40:
            overpass(site, end, len(end) // 2, road.edge)
    plant(site, scatter(site, int(rng.integers(40, 90)), 40.0), near, far, "paved")
    plant(site, scatter(site, int(rng.integers(20, 60))), near, far, "paved")
    bushes(site, int(rng.integers(30, 90)), 35.0)
    return site.finished(kind, seed)


def riverside(rng: np.random.Generator, kind: str, seed: int) -> Place:
    """A road along a river: a quay wall with a railing or a sloping bank on one side, houses on the other."""
    path = winding(rng, rng.uniform(270, 330), rng.uniform(0.1, 0.7))
    road = drawn_road(rng, path, parking=bool(rng.random() < 0.5))
    along = Along(lengthened(road.line, _EXTRA))
    side, quay = rng.choice([-1.0, 1.0]), rng.random() < 0.5
    deep, wide = rng.uniform(2.0, 4.5), rng.uniform(18, 45)
    start = road.edge + (0.0 if quay else rng.uniform(1.5, 9.0))
    slope = 0.5 if quay else deep * rng.uniform(0.8, 2.5)
    stones = Waves(rng, 0.18, 1.5, 8.0)

    def river(xy: np.ndarray) -> np.ndarray:
        away = side * along(xy)[1] - start
        inside = ramp(away, -0.6 if quay else 0.0, slope) * (1 - ramp(away, wide, wide + 2.5 * deep))
        return -deep * inside + stones(xy) * inside

    streets = [s for s in side_roads(rng, road, int(rng.integers(1, 4)), 0.0) if side * along(s.line[-1:])[1][0] < 0]
    ground = drawn_ground(rng, (road.strip(_EXTRA), *streets), rng.uniform(0.2, 0.9), river)
    site = opened(rng, ground, road)
    cars, (near, far) = new_fleet(rng), groves(rng)
    traffic(site, road, cars, [side_lane(s, road.edge + 4.0) for s in streets])
    rim = resampled(shifted(road.line, side * (road.edge - 0.25)), 1.0)
    if quay or rng.random() < 0.5:
        kinds = ["bars", "rails", "wall", "mesh"]
        choice = str(rng.choice(kinds))
        label = Label.STRUCTURE if choice == "wall" else Label.THIN
        site.add(fence(rng, np.column_stack([rim, ground.height(rim)]), choice), label)
        site.keep_clear(rim, 0.4)
    water = shifted(road.line, side * (start + slope + 0.45 * wide))
    site.keep_clear(water, 0.3 * wide)  # no houses or trees in the water
    boats = water[rng.integers(5, len(water) - 5, int(rng.integers(2, 7)))] + rng.normal(0, 0.12 * wide, (1, 2))
    for spot in boats:
        site.put(_boat(rng), Label.VEHICLE, spot, rng.uniform(0, 6.3))
    house = make_house((2, 5), (8, 20), (8, 14), ("gabled", "hipped", "gabled", "flat"), rng.random(), 0.4)
    row_of_houses(site, road.line, road.edge, (0.5, rng.uniform(1, 10)), (0.3, rng.uniform(1, 14)), house, rng.uniform(0.6, 0.95))
    for street in streets:
        row_of_houses(site, street.line, street.half + street.pavement, (0.5, 5.0), (1, 8), house, 0.7)
    if road.half - road.lane > 3.5:
        parked_cars(site, road.line, -side * (road.half - 1.05), cars, 0.6)
    street_things(site, road.line, road.half, road.pavement)
    steps = np.arange(5, len(road.line) - 5, int(rng.integers(8, 18)))
    plant(site, shifted(road.line, side * (road.half + min(1.0, road.pavement / 2)))[steps], near, far, radius=0.3)
    plant(site, shifted(road.line, side * (road.edge + rng.uniform(1.0, 3.0)))[steps], near, far, "paved", 0.3)
    boundaries(site, road.line, road.edge, 0.4)
    plant(site, scatter(site, int(rng.integers(30, 70)), 40.0), near, far, "paved")
    plant(site, scatter(site, int(rng.integers(15, 40))), near, far, "paved")
    bushes(site, int(rng.integers(20, 60)), 30.0)
    return site.finished(kind, seed)


def _boat(rng: np.random.Generator) -> np.ndarray:
    """A hull with a cabin, floating above the riverbed."""
    length, wide, tall = rng.uniform(5, 12), rng.uniform(1.8, 3.2), rng.uniform(0.8, 1.4)
    hull = ellipsoid((length / 2, wide / 2, tall), 22, 10)
    hull[..., 2] = np.minimum(hull[..., 2], 0.15 * tall)
    hull[..., 0] *= 1 + 0.12 * hull[..., 2] / tall
    cabin = boxes([[-0.1 * length, 0, 0.5 * tall + 0.4]], [0.35 * length, 0.6 * wide, 1.1])
    return turned(joined([hull, cabin]) + [0, 0, tall + 0.3], 0.0)
