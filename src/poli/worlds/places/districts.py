"""Districts of large buildings in green areas: parking lots, a campus, apartment blocks, and a roundabout."""

from __future__ import annotations

import numpy as np

from poli.worlds.places import street_objects as furniture
from poli.worlds.places import streets
from poli.worlds.places.curves import headings, lefts, line, ramp, resampled, shifted, smoothed, winding
from poli.worlds.places.ground import Label, Lot, Strip
from poli.worlds.places.outdoors import overpass
from poli.worlds.places.site import Place, Site
from poli.worlds.places.solids import boxes, ellipsoid, joined, lathe, turned
from poli.worlds.places.streets import Road


def _spots(lot: Lot, local: np.ndarray) -> np.ndarray:  # (N, 2) in the lot's frame -> world
    return turned(np.column_stack([local, np.zeros(len(local))]), lot.yaw)[:, :2] + np.array(lot.center)


def car_row(site: Site, lot: Lot, y: float, reach: float, share: float, nose: float) -> None:
    """Add cars side by side along the lot's x, within `reach` of its center, most with the nose towards `nose` (a sign) y."""
    rng, bay = site.rng, site.rng.uniform(2.4, 2.8)
    x = np.arange(-reach + bay / 2, reach - bay / 2, bay)
    local = np.column_stack([x, np.full(len(x), y)]) + rng.normal(0, 0.12, (len(x), 2))
    for spot in _spots(lot, local)[rng.random(len(x)) < share]:
        car = site.cars[int(rng.integers(len(site.cars)))]
        yaw = lot.yaw + np.pi / 2 * nose * (1 if rng.random() < 0.8 else -1) + rng.normal(0, 0.03)
        if car.length < 6 and site.claim(spot, yaw, (car.length - 0.5, car.width - 0.9), off="nothing"):
            streets.park(site, car, spot, yaw)


def parking(rng: np.random.Generator, kind: str, seed: int) -> Place:
    """A large parking lot: the route winds through its aisles, surrounded by a store, a street and planting."""
    aisles, pitch = int(rng.integers(3, 6)), rng.uniform(16.5, 18.5)
    length = max(rng.uniform(55, 85), 265.0 / aisles)
    size = (length + 22.0, aisles * pitch + 4.0)
    lot = Lot((0.0, 0.0), rng.uniform(-np.pi, np.pi), size, rng.uniform(0.5, 2.0))
    rows = (np.arange(aisles) - (aisles - 1) / 2) * pitch
    ends = np.where(np.arange(aisles) % 2 == 0, 1.0, -1.0)[:, None] * np.array([[-1.0, 1.0]]) * (length / 2 + 4.0)
    corners = np.stack([ends, np.repeat(rows[:, None], 2, axis=1)], axis=-1).reshape(-1, 2)
    route = resampled(smoothed(resampled(_spots(lot, corners), 0.5), 7), 1.0)
    street = Strip(_spots(lot, line(np.array([-150.0, size[1] / 2 + rng.uniform(9, 16)]), 0.0, 300.0)), rng.uniform(3.4, 4.5), 2.0)
    gate = Strip(_spots(lot, line(np.array([rng.uniform(-0.3, 0.3) * length, size[1] / 2 - 2.0]), np.pi / 2, 16.0)), 3.5, 1.0)
    site = Site(rng, streets.drawn_ground(rng, (lot, street, gate), rng.uniform(0.2, 0.8)), route, rng.uniform(40, 65))
    streets.stock(site)
    for path in (shifted(street.line, -street.half / 2), shifted(street.line, street.half / 2)[::-1]):
        for start in rng.uniform(20, 220, int(rng.integers(1, 3))):
            streets.drive(site, path, float(rng.uniform(6, 13)), float(start))
    _islands(site, lot, rows, length)
    share = min(rng.uniform(0.35, 0.95), 90.0 / (aisles * 2 * (length - 8.0) / 2.6))  # about 90 cars at most
    for y in rows:
        for side in (-1.0, 1.0):
            car_row(site, lot, y + side * (pitch / 2 - 2.75), length / 2 - 4.0, share, side)
    _store(site, lot, size)
    x, y = size[0] / 2 + lot.pavement, size[1] / 2 + lot.pavement
    border = np.array([[-x, -y], [x, -y], [x, y], [-x, y], [-x, -y]]) * rng.uniform(1.01, 1.04)
    streets.enclose(site, resampled(_spots(lot, border), 0.5))
    streets.plant(site, streets.scatter(site, int(rng.integers(25, 70))), "paved")
    streets.plant(site, streets.scatter(site, int(rng.integers(15, 40)), 45.0), "paved")
    streets.bushes(site, int(rng.integers(20, 60)), 60.0)
    return site.finished(kind, seed)


def _islands(site: Site, lot: Lot, rows: np.ndarray, length: float) -> None:
    """Add curbed islands between the rows, with lamps, trees, cart shelters, and people next to cars."""
    rng = site.rng
    between = np.concatenate([[rows[0] - (rows[1] - rows[0])], rows]) + (rows[1] - rows[0]) / 2
    lamp, shelter, sign = furniture.lamp(rng), furniture.shelter(rng), furniture.sign(rng)
    for y in between:
        x = np.arange(-length / 2 + 6, length / 2 - 5, rng.uniform(9, 20))
        spots = _spots(lot, np.column_stack([x, np.full(len(x), y)]))
        for spot in spots:
            if not site.claim(spot, lot.yaw, (1.6, 5.0), off="nothing"):
                continue
            site.put(boxes((0, 0, 0.0), (1.6, 5.0, 0.26)), spot, lot.yaw)
            pick = rng.random()
            if pick < 0.45:
                tree = site.trees[0][int(rng.integers(len(site.trees[0])))]
                site.put(tree.wood, spot, 0.0, 0.6, label=Label.TRUNK)
                site.put(tree.leaves, spot, 0.0, 0.6, label=Label.LEAVES)
            else:
                site.put(lamp if pick < 0.75 else sign, spot, lot.yaw + np.pi / 2, label=Label.THIN)
    spots = _spots(lot, np.column_stack([rng.uniform(-0.4, 0.4, 6) * length, rng.choice(between, 6) + rng.normal(0, 1.5, 6)]))
    for spot in spots[:2][site.claim_discs(spots[:2], 2.2, "nothing")]:
        site.put(shelter, spot, lot.yaw)
    people = spots[2:][site.claim_discs(spots[2:], 0.3, "nothing")]
    site.put(furniture.person(rng), people, rng.uniform(0, 6.3, len(people)))


def _store(site: Site, lot: Lot, size: tuple[float, float]) -> None:
    """Add one or two low, wide buildings next to the lot."""
    rng = site.rng
    make = streets.make_house((1, 2), (30, 60), (15, 25), ("flat", "flat", "gabled"), rng.random(), 0.0)
    for _ in range(2):
        width, depth, build = make(rng)
        spot = _spots(lot, np.array([[rng.uniform(-0.2, 0.2) * size[0], -size[1] / 2 - rng.uniform(3, 6) - depth / 2]]))[0]
        if site.claim(spot, lot.yaw, (width, depth)):
            streets.put_building(site, build(False), spot, lot.yaw, width, depth)


def campus(rng: np.random.Generator, kind: str, seed: int) -> Place:
    """Halls and offices set back behind lawns, with paths, tree-lined walks, benches and bicycles."""
    path = winding(rng, rng.uniform(270, 330), rng.uniform(0.3, 0.9))
    road = streets.drawn_road(rng, path, parking=bool(rng.random() < 0.35))
    sides = streets.side_roads(rng, road, int(rng.integers(0, 3)), 0.3)
    paths = _footpaths(rng, road, int(rng.integers(5, 12)))
    site = streets.opened(rng, streets.drawn_ground(rng, (road.strip(), *sides, *paths), rng.uniform(0.5, 2.0)), road)
    streets.traffic(site, road, [streets.side_lane(s, road.edge + 4.0) for s in sides])
    large = streets.make_house((2, 6), (18, 45), (12, 22), ("flat", "flat", "hipped", "gabled"), rng.random(), 0.2)
    streets.row_of_houses(site, road.line, road.edge, (rng.uniform(2, 8), rng.uniform(9, 22)), (6, 30), large, 0.85)
    if rng.random() < 0.4:
        overpass(site, road.line, int(rng.uniform(0.3, 0.7) * len(road.line)), road.edge)
    _green(site, road, float(rng.uniform(0.5, 1.0)))
    if road.half - road.lane > 3.5:
        streets.parked_cars(site, road.line, road.half - 1.05, 0.5)
    spots = np.concatenate([p.line[::9] + lefts(p.line)[::9, :2] * (p.pavement + 0.7) for p in paths])
    for part in (furniture.bench(rng), furniture.bicycle_rack(rng), furniture.lamp(rng), furniture.person(rng)):
        some = spots[rng.random(len(spots)) < 0.3]
        site.put(part, some[site.claim_discs(some, 0.5, "paved", 0.0)], rng.uniform(0, 6.3))
    return site.finished(kind, seed)


def apartments(rng: np.random.Generator, kind: str, seed: int) -> Place:
    """Tall slabs with balconies, parking lots between them, hedges, sheds and bins."""
    corners = ((rng.uniform(100, 180), rng.choice([-1, 1]) * rng.uniform(0.6, 1.5), rng.uniform(12, 30)),)
    path = winding(rng, rng.uniform(270, 320), rng.uniform(0.1, 0.6), corners if rng.random() < 0.5 else ())
    road = streets.drawn_road(rng, path, parking=bool(rng.random() < 0.6))
    sides = streets.side_roads(rng, road, int(rng.integers(1, 4)), 0.3)
    lots = _lots(rng, road, int(rng.integers(1, 4)))
    paved: tuple[Strip | Lot, ...] = (road.strip(), *sides, *lots, *_footpaths(rng, road, 5))
    site = streets.opened(rng, streets.drawn_ground(rng, paved, rng.uniform(0.3, 1.5)), road)
    streets.traffic(site, road, [streets.side_lane(s, road.edge + 4.0) for s in sides])
    for lot in lots:
        share = rng.uniform(0.3, 0.9)
        for side in (-1.0, 1.0):
            car_row(site, lot, side * (lot.size[1] / 2 - 2.8), lot.size[0] / 2, share, side)
    slab = streets.make_house((3, 9), (16, 48), (10, 14), ("flat", "flat", "gabled", "hipped"), rng.uniform(0, 0.4), 0.9)
    streets.row_of_houses(site, road.line, road.edge, (rng.uniform(1.5, 6), rng.uniform(7, 18)), (5, 20), slab, 0.9)
    shed = streets.make_house((1, 1), (3, 7), (3, 6), ("flat", "gabled"), 0.0, 0.0)
    streets.row_of_houses(site, road.line, road.edge, (2.0, 10.0), (8, 40), shed, 0.5)
    if road.half - road.lane > 3.5:
        for offset in (-1, 1):
            streets.parked_cars(site, road.line, offset * (road.half - 1.05), rng.uniform(0.3, 0.9))
    if rng.random() < 0.3:
        overpass(site, road.line, int(rng.uniform(0.3, 0.7) * len(road.line)), road.edge)
    _green(site, road, float(rng.uniform(0.3, 0.8)))
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


def _green(site: Site, road: Road, share: float) -> None:
    """Add trees in rows and at random, hedges and fences, bushes, and sidewalk furniture."""
    rng = site.rng
    streets.street_things(site, road.line, road.half, road.pavement)
    steps = np.arange(5, len(road.line) - 5, int(rng.integers(8, 15)))
    for side in (-1, 1):
        streets.plant(site, (road.line + side * (road.edge + rng.uniform(0.8, 2.5)) * lefts(road.line)[:, :2])[steps], "paved", 0.4)
    streets.boundaries(site, road.line, road.edge, share)
    streets.greenery(site, (15, 50), 30.0, (20, 60), (20, 80))


def roundabout(rng: np.random.Generator, kind: str, seed: int) -> Place:
    """Roads that meet in a ring around a planted mound."""
    arms = int(rng.integers(3, 6))
    angles = rng.uniform(0, 2 * np.pi) + np.arange(arms) * (2 * np.pi / arms) + rng.normal(0, 0.1, arms)
    radius, ring_half = rng.uniform(12, 21), rng.uniform(3.8, 5.0)
    half, pavement = rng.uniform(3.5, 4.6), rng.uniform(1.5, 3.5)
    lane, apron = half / 2, rng.uniform(0.5, 2.0)
    circle = np.linspace(0, 2 * np.pi, 97)
    ring = Strip(radius * np.stack([np.cos(circle), np.sin(circle)], axis=1), ring_half, apron)
    roads = [Strip(line(radius * np.array([np.cos(a), np.sin(a)]), a + rng.normal(0, 0.08), 175.0), half, pavement) for a in angles]
    mound, core = rng.uniform(0.3, 2.0), radius - ring_half - apron

    def island(xy: np.ndarray) -> np.ndarray:
        return mound * ramp(core - np.linalg.norm(xy, axis=1), 0.0, max(2.0, 0.7 * core))

    entry, leave = 0, int(rng.integers(1, arms))
    site = Site(
        rng,
        streets.drawn_ground(rng, (ring, *roads), rng.uniform(0.2, 0.9), island, corner=(10.0, 15.0)),
        _through(roads[entry], roads[leave], angles[entry], angles[leave], radius, lane, ring_half),
        rng.uniform(40, 65),
    )
    streets.stock(site)
    before = int(ring_half + 7)
    for k, road in enumerate(roads):  # other cars wait before the ring or leave it, so none crosses the route
        outwards = shifted(road.line, -lane)[before:-5]
        inwards = shifted(road.line, lane)[before:-5][::-1]
        for path, own in ((outwards, k == leave), (inwards, k == entry)):
            site.keep_clear(path, 1.6)
            if not own and rng.random() < 0.5 and len(site.movers) < 5:
                streets.drive(site, path, float(rng.uniform(5, 12)), float(rng.uniform(0, 90)))
    if len(site.movers) < 2:
        for start in (10.0, 60.0):
            streets.drive(site, shifted(roads[entry].line, -lane)[before:-5], float(rng.uniform(5, 12)), start)

    _decorate(site, core)
    house = streets.make_house((1, 5), (8, 24), (8, 14), ("gabled", "hipped", "flat"), rng.random(), 0.3)
    gap, setback = rng.uniform(1, 14), rng.uniform(1, 10)
    for k, road in enumerate(roads):
        stretch = road.line[int(ring_half + 6) :]
        streets.row_of_houses(site, stretch, half + pavement, (0.5, setback + 0.5), (0.5, gap), house, rng.uniform(0.4, 0.95))
        if k in (entry, leave):
            streets.street_things(site, stretch, half, pavement)
            streets.boundaries(site, stretch, half + pavement, 0.6)
            spots = shifted(road.line, rng.choice([-1, 1]) * (half + pavement + 1.2))[25::11]
            streets.plant(site, spots, "paved", 0.4)
    streets.greenery(site, (20, 60), 35.0, (15, 40), (20, 60))
    return site.finished(kind, seed)


def _through(entry: Strip, leave: Strip, a: float, b: float, radius: float, lane: float, half: float) -> np.ndarray:
    """Enter the ring on the right, follow it counterclockwise, and leave at the other arm: (K, 2)."""
    turn = (b - a) % (2 * np.pi)
    first, last = a + (half + 3.0) / radius, a + turn - (half + 3.0) / radius
    arc = np.linspace(first, max(last, first + 0.1), 60)
    around = (radius + 0.3) * np.stack([np.cos(arc), np.sin(arc)], axis=1)
    start = int(half + 5.0)
    inwards, outwards = shifted(entry.line, lane)[start:150][::-1], shifted(leave.line, -lane)[start:150]
    return resampled(smoothed(resampled(np.concatenate([inwards, around, outwards]), 0.5), 8), 1.0)


def _decorate(site: Site, core: float) -> None:
    """Fill the island with trees, bushes or a monument, and put chevron signs at its edge."""
    rng = site.rng
    if rng.random() < 0.5:
        stone = [lathe([[1.6, -0.5], [1.6, 0.4], [1.1, 0.5], [0.8, 2.0], [1.0, 2.1], [0.1, 2.2]], 14)]
        heights = 2.5 + 0.8 * np.arange(rng.integers(2, 5))
        stone += [ellipsoid(rng.uniform(0.4, 1.1, 3), 14, 8) + [*rng.normal(0, 0.3, 2), z] for z in heights]
        if site.claim((0.0, 0.0), 0.0, (3.2, 3.2), off="nothing"):
            site.put(joined(*stone), np.zeros((1, 2)), rng.uniform(0, 6.3))
    angle = rng.uniform(0, 2 * np.pi, int(rng.integers(1, 7)))
    r = core * rng.uniform(0.2, 0.8, len(angle))
    streets.plant(site, np.column_stack([r * np.cos(angle), r * np.sin(angle)]), "paved", 0.5, simpler=False)
    around = np.arange(5) * (2 * np.pi / 5) + rng.random()
    spots = (core - 0.6) * np.stack([np.cos(around), np.sin(around)], axis=1)
    ok = site.claim_discs(spots, 0.1, "paved", 0.0)
    site.put(furniture.sign(rng), spots[ok], around[ok], label=Label.THIN)
