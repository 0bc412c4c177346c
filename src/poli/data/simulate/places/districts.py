"""Districts of large buildings in green areas: a campus and apartment blocks."""

from __future__ import annotations

import numpy as np

from poli.data.simulate.places import furniture
from poli.data.simulate.places.curves import headings, lefts, line, winding
from poli.data.simulate.places.lots import car_park
from poli.data.simulate.places.outdoors import Road, drawn_ground, drawn_road, opened, side_lane, side_roads, traffic
from poli.data.simulate.places.paving import Lot, Strip
from poli.data.simulate.places.place import Label, Place
from poli.data.simulate.places.site import Site
from poli.data.simulate.places.spans import overpass
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
from poli.data.simulate.places.trees import Tree


def campus(rng: np.random.Generator, kind: str, seed: int) -> Place:
    """Halls and offices set back behind lawns, with paths, tree-lined walks, benches and bicycles."""
    path = winding(rng, rng.uniform(270, 330), rng.uniform(0.3, 0.9))
    road = drawn_road(rng, path, parking=bool(rng.random() < 0.35))
    sides = side_roads(rng, road, int(rng.integers(0, 3)), 0.3)
    paths = _footpaths(rng, road, int(rng.integers(5, 12)))
    site = opened(rng, drawn_ground(rng, (road.strip(), *sides, *paths), rng.uniform(0.5, 2.0)), road)
    cars, (near, far) = new_fleet(rng), groves(rng)
    traffic(site, road, cars, [side_lane(s, road.edge + 4.0) for s in sides])
    large = make_house((2, 6), (18, 45), (12, 22), ("flat", "flat", "hipped", "gabled"), rng.random(), 0.2)
    row_of_houses(site, road.line, road.edge, (rng.uniform(2, 8), rng.uniform(9, 22)), (6, 30), large, 0.85)
    if rng.random() < 0.4:
        overpass(site, road.line, int(rng.uniform(0.3, 0.7) * len(road.line)), road.edge)
    _green(site, road, near, far, float(rng.uniform(0.5, 1.0)))
    if road.half - road.lane > 3.5:
        parked_cars(site, road.line, road.half - 1.05, cars, 0.5)
    spots = np.concatenate([p.line[::9] + lefts(p.line)[::9, :2] * (p.pavement + 0.7) for p in paths])
    for part in (furniture.bench(rng), furniture.bicycle_rack(rng), furniture.lamp(rng), furniture.person(rng)):
        some = spots[rng.random(len(spots)) < 0.3]
        site.put(part, Label.STRUCTURE, some[site.claim_discs(some, 0.5, "paved", 0.0)], rng.uniform(0, 6.3))
    return site.finished(kind, seed)


def apartments(rng: np.random.Generator, kind: str, seed: int) -> Place:
    """Tall slabs with balconies, parking lots between them, hedges, sheds and bins."""
    corners = ((rng.uniform(100, 180), rng.choice([-1, 1]) * rng.uniform(0.6, 1.5), rng.uniform(12, 30)),)
    path = winding(rng, rng.uniform(270, 320), rng.uniform(0.1, 0.6), corners if rng.random() < 0.5 else ())
    road = drawn_road(rng, path, parking=bool(rng.random() < 0.6))
    sides = side_roads(rng, road, int(rng.integers(1, 4)), 0.3)
    lots = _lots(rng, road, int(rng.integers(1, 4)))
    site = opened(rng, drawn_ground(rng, (road.strip(), *sides, *lots, *_footpaths(rng, road, 5)), rng.uniform(0.3, 1.5)), road)
    cars, (near, far) = new_fleet(rng), groves(rng)
    traffic(site, road, cars, [side_lane(s, road.edge + 4.0) for s in sides])
    for lot in lots:
        car_park(site, lot, cars, rng.uniform(0.3, 0.9))
    slab = make_house((3, 9), (16, 48), (10, 14), ("flat", "flat", "gabled", "hipped"), rng.uniform(0, 0.4), 0.9)
    row_of_houses(site, road.line, road.edge, (rng.uniform(1.5, 6), rng.uniform(7, 18)), (5, 20), slab, 0.9)
    shed = make_house((1, 1), (3, 7), (3, 6), ("flat", "gabled"), 0.0, 0.0)
    row_of_houses(site, road.line, road.edge, (2.0, 10.0), (8, 40), shed, 0.5)
    if road.half - road.lane > 3.5:
        for offset in (-1, 1):
            parked_cars(site, road.line, offset * (road.half - 1.05), cars, rng.uniform(0.3, 0.9))
    if rng.random() < 0.3:
        overpass(site, road.line, int(rng.uniform(0.3, 0.7) * len(road.line)), road.edge)
    _green(site, road, near, far, float(rng.uniform(0.3, 0.8)))
    return site.finished(kind, seed)


def _footpaths(rng: np.random.Generator, road: Road, count: int) -> list[Strip]:
    heading = headings(road.line)
    found = []
    for k in rng.integers(10, len(road.line) - 10, count):
        turn = heading[k] + rng.choice([-1, 1]) * np.pi / 2 + rng.normal(0, 0.4)
        found.append(Strip(line(road.line[k], turn, rng.uniform(30, 80)), 0.0, rng.uniform(0.8, 2.0)))
    return found


def _lots(rng: np.random.Generator, road: Road, count: int) -> list[Lot]:
    """Parking lots that open to the road."""
    heading, left = headings(road.line), lefts(road.line)[:, :2]
    lots = []
    for k in (np.linspace(0.2, 0.8, count) * len(road.line)).astype(int):
        size = (rng.uniform(16, 36), rng.uniform(17, 24))
        center = road.line[k] + rng.choice([-1, 1]) * (road.edge + size[1] / 2 - 1.5) * left[k]
        lots.append(Lot((float(center[0]), float(center[1])), float(heading[k]), size, rng.uniform(0.3, 1.5)))
    return lots


def _green(site: Site, road: Road, near: list[Tree], far: list[Tree], share: float) -> None:
    """Add trees in rows and at random, hedges and fences, bushes, and sidewalk furniture."""
    rng = site.rng
    street_things(site, road.line, road.half, road.pavement)
    steps = np.arange(5, len(road.line) - 5, int(rng.integers(8, 15)))
    for side in (-1, 1):
        plant(
            site, (road.line + side * (road.edge + rng.uniform(0.8, 2.5)) * lefts(road.line)[:, :2])[steps], near, far, "paved", 0.4
        )
    boundaries(site, road.line, road.edge, share)
    plant(site, scatter(site, int(rng.integers(15, 50)), 30.0), near, far, "paved")
    plant(site, scatter(site, int(rng.integers(20, 60))), near, far, "paved")
    bushes(site, int(rng.integers(20, 80)))
