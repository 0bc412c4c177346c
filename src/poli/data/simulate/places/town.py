"""A town: streets of attached or closely spaced houses, parked cars, sidewalk furniture, and gardens behind."""

from __future__ import annotations

import numpy as np

from poli.data.simulate.places.curves import shifted, winding
from poli.data.simulate.places.outdoors import drawn_ground, drawn_road, opened, side_lane, side_roads, traffic
from poli.data.simulate.places.place import Place
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


def town(rng: np.random.Generator, kind: str, seed: int) -> Place:
    corners: tuple[tuple[float, float, float], ...] = ()
    if rng.random() < 0.55:
        corners = ((rng.uniform(90, 200), rng.choice([-1, 1]) * rng.uniform(1.0, 1.6), rng.uniform(9, 16)),)
    path = winding(rng, rng.uniform(265, 320), rng.uniform(0.05, 0.5), corners)
    road = drawn_road(rng, path, parking=bool(rng.random() < 0.75))
    sides = side_roads(rng, road, int(rng.integers(1, 5)))
    site = opened(rng, drawn_ground(rng, (road.strip(), *sides)), road)
    cars, (near, far) = new_fleet(rng), groves(rng)
    traffic(site, road, cars, [side_lane(s, road.edge + 4.0) for s in sides])

    dense = rng.random()
    roofs = ("gabled", "gabled", "hipped", "flat")
    low = make_house((1, 3), (7, 13), (7, 11), roofs, rng.random(), 0.15)
    tall = make_house((2, 5), (8, 18), (9, 14), roofs, rng.random(), 0.35)
    gap = (0.0, 0.5) if dense > 0.5 else (2.0, 9.0)
    setback = (0.35, 1.2) if dense > 0.5 else (1.5, 7.0)
    row_of_houses(site, road.line, road.edge, setback, gap, tall if dense > 0.4 else low, rng.uniform(0.75, 0.97))
    for side in sides:
        row_of_houses(site, side.line, side.half + side.pavement, setback, gap, low, rng.uniform(0.5, 0.9))
    if road.half - road.lane > 3.5:
        for offset in (-1, 1):
            parked_cars(site, road.line, offset * (road.half - 1.05), cars, rng.uniform(0.3, 0.9))
    for side in sides:
        parked_cars(site, side.line, 1.0 - side.half, cars, 0.4)
    street_things(site, road.line, road.half, road.pavement)
    boundaries(site, road.line, road.edge, rng.uniform(0.3, 0.9))
    if road.pavement > 2.0 and rng.random() < 0.6:  # an avenue
        steps = np.arange(5, len(road.line) - 5, int(rng.integers(9, 16)))
        for sign in (-1, 1):
            plant(site, shifted(road.line, sign * (road.half + 0.8))[steps], near, far, radius=0.3)
    plant(site, scatter(site, int(rng.integers(20, 60)), 30.0), near, far, "paved")
    plant(site, scatter(site, int(rng.integers(10, 40))), near, far, "paved")
    bushes(site, int(rng.integers(10, 60)))
    return site.finished(kind, seed)
