"""Parking lots: rows of cars on a paved rectangle, with lamps and trees on islands between them; and a place that is one large
lot."""

from __future__ import annotations

import numpy as np

from poli.data.simulate.places import furniture
from poli.data.simulate.places.cars import Vehicle
from poli.data.simulate.places.curves import line, resampled, shifted, smoothed
from poli.data.simulate.places.outdoors import drawn_ground
from poli.data.simulate.places.paving import Lot, Strip
from poli.data.simulate.places.place import Label, Place
from poli.data.simulate.places.site import Site
from poli.data.simulate.places.solids import box, turned
from poli.data.simulate.places.streets import (
    bushes,
    drive,
    enclose,
    groves,
    make_house,
    new_fleet,
    park,
    plant,
    put_building,
    scatter,
)
from poli.data.simulate.places.trees import Tree


def _spots(lot: Lot, local: np.ndarray) -> np.ndarray:  # (N, 2) in the lot's frame -> world
    return turned(np.column_stack([local, np.zeros(len(local))]), lot.yaw)[:, :2] + np.array(lot.center)


def car_row(site: Site, lot: Lot, y: float, reach: float, cars: list[Vehicle], share: float, nose: float) -> None:
    """Add cars side by side along the lot's x, within `reach` of its center, most with the nose towards `nose` (a sign) y."""
    rng, bay = site.rng, site.rng.uniform(2.4, 2.8)
    x = np.arange(-reach + bay / 2, reach - bay / 2, bay)
    local = np.column_stack([x, np.full(len(x), y)]) + rng.normal(0, 0.12, (len(x), 2))
    for spot in _spots(lot, local)[rng.random(len(x)) < share]:
        car = cars[int(rng.integers(len(cars)))]
        yaw = lot.yaw + np.pi / 2 * nose * (1 if rng.random() < 0.8 else -1) + rng.normal(0, 0.03)
        if car.length < 6 and site.claim(spot, yaw, (car.length - 0.5, car.width - 0.9), off="nothing"):
            park(site, car, spot, yaw)


def car_park(site: Site, lot: Lot, cars: list[Vehicle], share: float) -> None:
    """Add a row of cars along each long side."""
    for side in (-1.0, 1.0):
        car_row(site, lot, side * (lot.size[1] / 2 - 2.8), lot.size[0] / 2, cars, share, side)


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
    site = Site(rng, drawn_ground(rng, (lot, street, gate), rng.uniform(0.2, 0.8)), route, rng.uniform(40, 65))
    cars, (near, far) = new_fleet(rng), groves(rng)
    for path in (shifted(street.line, -street.half / 2), shifted(street.line, street.half / 2)[::-1]):
        for start in rng.uniform(20, 220, int(rng.integers(1, 3))):
            drive(site, cars, path, float(rng.uniform(6, 13)), float(start))
    _islands(site, lot, rows, length, near)
    share = min(rng.uniform(0.35, 0.95), 90.0 / (aisles * 2 * (length - 8.0) / 2.6))  # about 90 cars at most
    for y in rows:
        for side in (-1.0, 1.0):
            car_row(site, lot, y + side * (pitch / 2 - 2.75), length / 2 - 4.0, cars, share, side)
    _store(site, lot, size)
    x, y = size[0] / 2 + lot.pavement, size[1] / 2 + lot.pavement
    border = np.array([[-x, -y], [x, -y], [x, y], [-x, y], [-x, -y]]) * rng.uniform(1.01, 1.04)
    enclose(site, resampled(_spots(lot, border), 0.5))
    plant(site, scatter(site, int(rng.integers(25, 70))), near, far, "paved")
    plant(site, scatter(site, int(rng.integers(15, 40)), 45.0), near, far, "paved")
    bushes(site, int(rng.integers(20, 60)), 60.0)
    return site.finished(kind, seed)


def _islands(site: Site, lot: Lot, rows: np.ndarray, length: float, trees: list[Tree]) -> None:
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
            site.put(box((0, 0, 0.0), (1.6, 5.0, 0.26)), Label.STRUCTURE, spot, lot.yaw)
            pick = rng.random()
            if pick < 0.45:
                tree = trees[int(rng.integers(len(trees)))]
                site.put(tree.wood, Label.TRUNK, spot, 0.0, 0.6)
                site.put(tree.leaves, Label.LEAVES, spot, 0.0, 0.6)
            else:
                site.put(lamp if pick < 0.75 else sign, Label.THIN, spot, lot.yaw + np.pi / 2)
    spots = _spots(lot, np.column_stack([rng.uniform(-0.4, 0.4, 6) * length, rng.choice(between, 6) + rng.normal(0, 1.5, 6)]))
    for spot in spots[:2][site.claim_discs(spots[:2], 2.2, "nothing")]:
        site.put(shelter, Label.STRUCTURE, spot, lot.yaw)
    people = spots[2:][site.claim_discs(spots[2:], 0.3, "nothing")]
    site.put(furniture.person(rng), Label.STRUCTURE, people, rng.uniform(0, 6.3, len(people)))


def _store(site: Site, lot: Lot, size: tuple[float, float]) -> None:
    """Add one or two low, wide buildings next to the lot."""
    rng = site.rng
    make = make_house((1, 2), (30, 60), (15, 25), ("flat", "flat", "gabled"), rng.random(), 0.0)
    for _ in range(2):
        width, depth, build = make(rng)
        spot = _spots(lot, np.array([[rng.uniform(-0.2, 0.2) * size[0], -size[1] / 2 - rng.uniform(3, 6) - depth / 2]]))[0]
        if site.claim(spot, lot.yaw, (width, depth)):
            put_building(site, build(False), spot, lot.yaw, width, depth)
