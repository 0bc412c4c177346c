"""A roundabout: roads that meet in a ring around a planted mound."""

from __future__ import annotations

import numpy as np

from poli.data.simulate.places import furniture
from poli.data.simulate.places.curves import line, resampled, shifted, smoothed
from poli.data.simulate.places.outdoors import drawn_ground
from poli.data.simulate.places.paving import Strip
from poli.data.simulate.places.place import Label, Place
from poli.data.simulate.places.site import Site
from poli.data.simulate.places.solids import ellipsoid, joined, lathe
from poli.data.simulate.places.streets import (
    boundaries,
    bushes,
    drive,
    groves,
    make_house,
    new_fleet,
    plant,
    row_of_houses,
    scatter,
    street_things,
)
from poli.data.simulate.places.trees import Tree
from poli.data.simulate.places.waves import ramp


def roundabout(rng: np.random.Generator, kind: str, seed: int) -> Place:
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
        drawn_ground(rng, (ring, *roads), rng.uniform(0.2, 0.9), island, corner=(10.0, 15.0)),
        _through(roads[entry], roads[leave], angles[entry], angles[leave], radius, lane, ring_half),
        rng.uniform(40, 65),
    )
    cars, (near, far) = new_fleet(rng), groves(rng)
    before = int(ring_half + 7)
    for k, road in enumerate(roads):  # other cars wait before the ring or leave it, so none crosses the route
        outwards = shifted(road.line, -lane)[before:-5]
        inwards = shifted(road.line, lane)[before:-5][::-1]
        for path, own in ((outwards, k == leave), (inwards, k == entry)):
            site.keep_clear(path, 1.6)
            if not own and rng.random() < 0.5 and len(site.movers) < 5:
                drive(site, cars, path, float(rng.uniform(5, 12)), float(rng.uniform(0, 90)))
    if len(site.movers) < 2:
        for start in (10.0, 60.0):
            drive(site, cars, shifted(roads[entry].line, -lane)[before:-5], float(rng.uniform(5, 12)), start)

    _decorate(site, core, near)
    house = make_house((1, 5), (8, 24), (8, 14), ("gabled", "hipped", "flat"), rng.random(), 0.3)
    gap, setback = rng.uniform(1, 14), rng.uniform(1, 10)
    for k, road in enumerate(roads):
        stretch = road.line[int(ring_half + 6) :]
        row_of_houses(site, stretch, half + pavement, (0.5, setback + 0.5), (0.5, gap), house, rng.uniform(0.4, 0.95))
        if k in (entry, leave):
            street_things(site, stretch, half, pavement)
            boundaries(site, stretch, half + pavement, 0.6)
            spots = shifted(road.line, rng.choice([-1, 1]) * (half + pavement + 1.2))[25::11]
            plant(site, spots, near, far, "paved", 0.4)
    plant(site, scatter(site, int(rng.integers(20, 60)), 35.0), near, far, "paved")
    plant(site, scatter(site, int(rng.integers(15, 40))), near, far, "paved")
    bushes(site, int(rng.integers(20, 60)), 25.0)
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


def _decorate(site: Site, core: float, trees: list[Tree]) -> None:
    """Fill the island with trees, bushes or a monument, and put chevron signs at its edge."""
    rng = site.rng
    if rng.random() < 0.5:
        stone = [lathe(np.array([[1.6, -0.5], [1.6, 0.4], [1.1, 0.5], [0.8, 2.0], [1.0, 2.1], [0.1, 2.2]]), 14)]
        heights = 2.5 + 0.8 * np.arange(rng.integers(2, 5))
        stone += [ellipsoid(rng.uniform(0.4, 1.1, 3), 14, 8) + [*rng.normal(0, 0.3, 2), z] for z in heights]
        if site.claim((0.0, 0.0), 0.0, (3.2, 3.2), off="nothing"):
            site.put(joined(stone), Label.STRUCTURE, np.zeros((1, 2)), rng.uniform(0, 6.3))
    angle = rng.uniform(0, 2 * np.pi, int(rng.integers(1, 7)))
    r = core * rng.uniform(0.2, 0.8, len(angle))
    plant(site, np.column_stack([r * np.cos(angle), r * np.sin(angle)]), trees, trees, "paved", 0.5)
    around = np.arange(5) * (2 * np.pi / 5) + rng.random()
    spots = (core - 0.6) * np.stack([np.cos(around), np.sin(around)], axis=1)
    ok = site.claim_discs(spots, 0.1, "paved", 0.0)
    site.put(furniture.sign(rng), Label.THIN, spots[ok], around[ok])
