"""Common setup of outdoor places: a road with its ground, lanes and traffic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.worlds.places.geometry import (
    Along,
    Waves,
    boxes,
    copies,
    headings,
    joined,
    lathe,
    lefts,
    lengthened,
    line,
    ramp,
    resampled,
    shifted,
    smoothed,
    surface,
    tube,
    winding,
)
from poli.worlds.places.ground import Ground, Heights, Label, Lot, Paving, Strip, flat
from poli.worlds.places.site import Place, Site
from poli.worlds.places.street_objects import Vehicle
from poli.worlds.places.streets import (
    boundaries,
    bushes,
    drive,
    groves,
    make_house,
    new_fleet,
    parked_cars,
    plant,
    row_of_houses,
    scatter,
    street_things,
)


@dataclass(frozen=True)
class Road:
    """The main road: its line, extended beyond both ends of the route, and its lanes."""

    line: np.ndarray  # (K, 2), 1 m apart, where the route runs
    half: float
    pavement: float
    lane: float  # offset of the lane's center from the line; traffic keeps to the right

    @property
    def edge(self) -> float:
        return self.half + self.pavement

    def strip(self, extra: float = 90.0) -> Strip:
        return Strip(lengthened(self.line, extra), self.half, self.pavement)


def drawn_road(rng: np.random.Generator, path: np.ndarray, parking: bool) -> Road:  # (K, 2)
    """A two-lane road, optionally with space for parked cars along it."""
    lane = rng.uniform(1.6, 2.1)
    half = lane + 1.7 + (rng.uniform(2.0, 2.4) if parking else rng.uniform(0.0, 0.5))
    return Road(resampled(smoothed(path, 3), 1.0), half, rng.uniform(1.3, 4.0), lane)


def drawn_ground(
    rng: np.random.Generator,
    parts: tuple[Strip | Lot, ...],
    hills: float = 1.0,
    beside: Heights = flat,
    gap: Heights | None = None,
    corner: tuple[float, float] = (4.0, 8.0),
) -> Ground:
    """Ground with the paved `parts`; its hills, relief, wear, curb and camber are random. `beside` and `gap`: heights off it."""
    waves = Waves(rng, hills * rng.uniform(0.3, 1.6), 110.0, 320.0)
    tilt = rng.normal(0, 0.012, 2) * hills
    return Ground(
        paving=Paving(parts, corner=rng.uniform(*corner)),
        base=lambda xy: waves(xy) + xy @ tilt,
        beside=beside,
        relief=Waves(rng, hills * rng.uniform(0.15, 0.9), 14.0, 70.0),
        wear=Waves(rng, rng.uniform(0.002, 0.008), 2.5, 15.0),
        curb=rng.uniform(0.09, 0.16),
        camber=rng.uniform(0.02, 0.09),
        roughness=rng.uniform(0.02, 0.06),
        gap=gap,
    )


def opened(rng: np.random.Generator, ground: Ground, road: Road, margin: float | None = None) -> Site:
    """Return a site whose route is the right lane of the road, with both lanes kept clear."""
    site = Site(rng, ground, resampled(shifted(road.line, -road.lane), 1.0), rng.uniform(45.0, 75.0) if margin is None else margin)
    site.keep_clear(shifted(road.line, road.lane), 1.6)
    return site


def traffic(site: Site, road: Road, cars: list[Vehicle], sides: list[np.ndarray] | None = None) -> None:
    """Add oncoming cars, one car ahead on the route, and some on side roads that stop before the main road."""
    rng = site.rng
    oncoming = shifted(lengthened(road.line, 30.0), road.lane)[::-1]
    spaced = rng.uniform(0, 60) + np.cumsum(rng.uniform(30, 110, int(rng.integers(1, 4))))
    for start in spaced[spaced < len(oncoming) - 40]:
        drive(site, cars, oncoming, rng.uniform(6, 14), float(start))
    if rng.random() < 0.6:
        drive(site, cars, site.route[:, :2], rng.uniform(7, 12), float(rng.uniform(22, 60)))
    for side in (sides or [])[:2]:
        if len(side) > 25 and len(site.movers) < 5:
            drive(site, cars, side, rng.uniform(4, 10), float(rng.uniform(0, len(side) - 20)))
    if len(site.movers) < 2:
        drive(site, cars, oncoming, rng.uniform(6, 14), float(rng.uniform(60, 160)))


def side_roads(rng: np.random.Generator, road: Road, count: int, both: float = 0.6) -> list[Strip]:
    """Roads that start at the main road; some cross it."""
    strips: list[Strip] = []
    heading = headings(road.line)
    spots = np.linspace(0.15, 0.85, count) * len(road.line) + rng.normal(0, 8, count)
    for k in spots.clip(15, len(road.line) - 15).astype(int):
        angle = heading[k] + np.pi / 2 + rng.normal(0, 0.18)
        half, pavement = rng.uniform(2.4, 4.0), rng.uniform(1.0, 2.5)
        first = rng.choice([0.0, np.pi])
        turns = [first, first + np.pi] if rng.random() < both else [first]
        strips += [Strip(line(road.line[k], angle + turn, rng.uniform(60, 130)), half, pavement) for turn in turns]
    return strips


def side_lane(strip: Strip, before: float) -> np.ndarray:  # -> (K, 2)
    """The lane towards the main road, ending `before` meters from its line."""
    return shifted(strip.line[::-1], -0.5 * strip.half)[: max(0, len(strip.line) - int(before))]


# --- A town: streets of attached or closely spaced houses, parked cars, sidewalk furniture, and gardens behind.


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


# --- A road through a hill: cuttings with retaining walls, portals, and a vault with ribs, lamps, fans, niches and pipes.


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
    site.add(surface(inner + shift[..., None] * outward))

    every, deep = int(rng.integers(4, 13)), rng.uniform(0.08, 0.25)
    for k in range(2, n - 2, every):  # ribs protrude from the vault by `deep`
        ring = [inner[k] + 0.05 * outward[k], inner[k] - deep * outward[k], inner[k + 1] - deep * outward[k + 1], inner[k + 1]]
        keep = slice(2, 25) if rng.random() < 0.9 else slice(6, 21)
        site.add(surface(np.stack(ring)[:, keep]))

    for k, sign in ((0, -1.0), (n - 1, 1.0)):  # portals: the face around the mouth, and a parapet
        forward = np.array([np.cos(headings(line)[k]), np.sin(headings(line)[k]), 0.0]) * sign
        across = np.linspace(half + 2.2, -half - 2.2, 27)
        top = base[k] + across[:, None] * left[k] + np.array([0, 0, hill + 0.9])
        face = np.stack([inner[k], top]) + 0.4 * forward
        rim = np.stack(
            [inner[k] + 0.35 * outward[k], inner[k] + 0.35 * outward[k] + 0.6 * forward, inner[k] + 0.6 * forward, inner[k]]
        )
        site.add(joined(surface(face), surface(rim), surface(np.stack([top + 0.4 * forward, top - 0.2 * forward]))))
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
        site.add(boxes(lamps, [rng.uniform(0.6, 1.6), 0.25, 0.12], heading[k]))
    if crown > 6.2:
        r = rng.uniform(0.35, 0.55)
        fan = lathe([[r, -1.2], [r, 1.2], [0.7 * r, 1.25], [0.7 * r, -1.25], [r, -1.2]], 14)[..., [2, 1, 0]]
        k = np.arange(20, n - 10, 45)
        site.add(copies(fan, base[k] + (crown - r - 0.5) * up, heading[k]))
    for side in (-1, 1):
        for level in rng.uniform(1.0, max(1.2, wall), int(rng.integers(1, 4))):
            site.add(tube(base[::3] + side * (half - 0.14) * left[::3] + level * up, rng.uniform(0.03, 0.1), 7), Label.THIN)
        k = rng.integers(3, n - 3, int(rng.integers(2, 7)))
        cabinets = base[k] + side * (half - 0.2) * left[k] + 1.0 * up
        site.add(boxes(cabinets, [rng.uniform(0.5, 1.2), 0.35, rng.uniform(0.8, 1.9)], heading[k]))
