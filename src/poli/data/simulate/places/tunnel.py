"""A road through a hill: cuttings with retaining walls, portals, and a vault with ribs, lamps, fans, niches and pipes."""

from __future__ import annotations

import numpy as np

from poli.data.simulate.places.along import Along
from poli.data.simulate.places.curves import headings, lefts, lengthened, winding
from poli.data.simulate.places.outdoors import Road, drawn_ground, drawn_road, opened, traffic
from poli.data.simulate.places.place import Label, Place
from poli.data.simulate.places.site import Site
from poli.data.simulate.places.solids import boxes, copies, joined, lathe, surface, tube
from poli.data.simulate.places.streets import boundaries, bushes, groves, new_fleet, plant, scatter, street_things
from poli.data.simulate.places.waves import ramp

_EXTRA = 90.0


def tunnel(rng: np.random.Generator, kind: str, seed: int) -> Place:
    path = winding(rng, rng.uniform(265, 320), rng.uniform(0.1, 0.9))
    road = drawn_road(rng, path, parking=False)
    along = Along(lengthened(road.line, _EXTRA))
    length, crown = rng.uniform(110, 190), rng.uniform(5.3, 7.8)
    middle = _EXTRA + len(road.line) / 2 + rng.uniform(-20, 20)
    hill, cutting = crown + rng.uniform(1.0, 6.0), rng.uniform(12, 35)

    def rise(s: np.ndarray) -> np.ndarray:
        return hill * ramp(length / 2 + cutting - np.abs(s - middle), 0.0, cutting - 0.5)

    ground = drawn_ground(rng, (road.strip(_EXTRA),), rng.uniform(0.2, 0.7), lambda xy: rise(along(xy)[0]))
    site = opened(rng, ground, road, rng.uniform(30, 50))
    cars, (near, far) = new_fleet(rng), groves(rng)
    traffic(site, road, cars)
    inside = np.abs(along(road.line)[0] - middle) < length / 2
    line = road.line[inside]
    _vault(site, line, road, crown, hill)
    site.keep_clear(line, road.edge + 2.0)
    first, last = int(np.argmax(inside)), len(inside) - int(np.argmax(inside[::-1]))
    for end in (road.line[: max(first - 2, 0)], road.line[last + 2 :]):
        if len(end) > 15:
            street_things(site, end, road.half, road.pavement)
            boundaries(site, end, road.edge, 0.7)
    plant(site, scatter(site, int(rng.integers(40, 90)), 40.0), near, far, "paved")
    bushes(site, int(rng.integers(30, 90)), 35.0)
    return site.finished(kind, seed)


def _vault(site: Site, line: np.ndarray, road: Road, crown: float, hill: float) -> None:  # (K, 2)
    rng, left, n = site.rng, lefts(line), len(line)
    base = np.column_stack([line, site.ground.road_height(line)])
    wall, half = rng.uniform(0.8, 3.0), road.edge - 0.15
    angle = np.linspace(0, np.pi, 25)
    power = rng.uniform(0.6, 1.0)  # from a round vault to a boxy one
    arch = np.column_stack(
        [half * np.sign(np.cos(angle)) * np.abs(np.cos(angle)) ** power, wall + (crown - wall) * np.sin(angle) ** power]
    )
    profile = np.concatenate([[[half, -0.3]], arch, [[-half, -0.3]]])  # (27, 2), from left to right

    rough = rng.uniform(0.03, 0.14) if rng.random() < 0.5 else rng.uniform(0.002, 0.01)  # bare rock or lining
    inner = (base[:, None] + profile[None, :, :1] * left[:, None]) + profile[None, :, 1:] * np.array([0, 0, 1.0])
    middle = base[:, None] + np.array([0, 0, 0.5 * crown])
    outward = inner - middle
    outward /= np.linalg.norm(outward, axis=2, keepdims=True)
    shift = np.abs(rng.normal(0, rough, (n, 27)))
    shift[:, [0, -1]] = 0.0
    site.add(surface(inner + shift[..., None] * outward), Label.STRUCTURE)

    every, deep = int(rng.integers(4, 13)), rng.uniform(0.08, 0.25)
    for k in range(2, n - 2, every):  # ribs protrude from the vault by `deep`
        ring = [inner[k] + 0.05 * outward[k], inner[k] - deep * outward[k], inner[k + 1] - deep * outward[k + 1], inner[k + 1]]
        keep = slice(2, 25) if rng.random() < 0.9 else slice(6, 21)
        site.add(surface(np.stack(ring)[:, keep]), Label.STRUCTURE)

    for k, sign in ((0, -1.0), (n - 1, 1.0)):  # portals: the face around the mouth, and a parapet
        forward = np.array([np.cos(headings(line)[k]), np.sin(headings(line)[k]), 0.0]) * sign
        across = np.linspace(half + 2.2, -half - 2.2, 27)
        top = base[k] + across[:, None] * left[k] + np.array([0, 0, hill + 0.9])
        face = np.stack([inner[k], top]) + 0.4 * forward
        rim = np.stack(
            [inner[k] + 0.35 * outward[k], inner[k] + 0.35 * outward[k] + 0.6 * forward, inner[k] + 0.6 * forward, inner[k]]
        )
        site.add(
            joined([surface(face), surface(rim), surface(np.stack([top + 0.4 * forward, top - 0.2 * forward]))]), Label.STRUCTURE
        )
    lid = base[:, None] + np.array([half + 0.6, 0.0, -half - 0.6])[None, :, None] * left[:, None] + np.array([0, 0, hill])
    site.add(surface(lid), Label.GROUND)
    _fittings(site, base, left, half, wall, crown, power)


def _fittings(
    site: Site, base: np.ndarray, left: np.ndarray, half: float, wall: float, crown: float, power: float
) -> None:  # (K, 3)
    """Lamps and fans under the crown, pipes and cabinets on the walls."""
    rng, n, up = site.rng, len(base), np.array([0.0, 0.0, 1.0])
    heading = headings(base)
    aside = rng.uniform(0.0, 0.35) * half
    under = wall + (crown - wall) * (1 - (aside / half) ** (2 / power)) ** (power / 2)
    k = np.arange(4, n - 3, int(rng.integers(6, 14)))
    for side in (-1, 1) if aside > 0.6 else (1,):
        lamps = base[k] + side * aside * left[k] + (under - 0.22) * up
        site.add(boxes(lamps, [rng.uniform(0.6, 1.6), 0.25, 0.12], heading[k]), Label.STRUCTURE)
    if crown > 6.2:
        r = rng.uniform(0.35, 0.55)
        fan = lathe(np.array([[r, -1.2], [r, 1.2], [0.7 * r, 1.25], [0.7 * r, -1.25], [r, -1.2]]), 14)[..., [2, 1, 0]]
        k = np.arange(20, n - 10, 45)
        site.add(copies(fan, base[k] + (crown - r - 0.5) * up, heading[k]), Label.STRUCTURE)
    for side in (-1, 1):
        for level in rng.uniform(1.0, max(1.2, wall), int(rng.integers(1, 4))):
            site.add(tube(base[::3] + side * (half - 0.14) * left[::3] + level * up, rng.uniform(0.03, 0.1), 7), Label.THIN)
        k = rng.integers(3, n - 3, int(rng.integers(2, 7)))
        cabinets = base[k] + side * (half - 0.2) * left[k] + 1.0 * up
        site.add(boxes(cabinets, [rng.uniform(0.5, 1.2), 0.35, rng.uniform(0.8, 1.9)], heading[k]), Label.STRUCTURE)
