"""Roads, their ground and traffic, and what is along them: houses on plots, parked cars, trees, lamps, signs, fences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from poli.worlds.places import street_objects as furniture
from poli.worlds.places.buildings import building
from poli.worlds.places.curves import Waves, headings, lefts, lengthened, lengths, line, resampled, shifted, smoothed
from poli.worlds.places.ground import Ground, Heights, Label, Lot, Paving, Strip, flat
from poli.worlds.places.site import Mover, Site
from poli.worlds.places.solids import NOTHING, beams, boxes, joined, swept, turned
from poli.worlds.places.street_objects import Vehicle, bush, fleet, grove, hedge


@dataclass(frozen=True)
class Road:
    """The main road: its line, extended beyond both ends of the route, and its lanes."""

    line: np.ndarray  # (K, 2), 1 m apart, where the route runs
    half: float
    pavement: float
    lane: float  # offset of the lane's center from the line; traffic keeps to the right

    @property
    def edge(self) -> float:
        """Distance of the sidewalk's outer edge from the line."""
        return self.half + self.pavement

    def strip(self, extra: float = 90.0) -> Strip:
        """The paved strip, extended beyond both ends."""
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
    stock(site)
    return site


def traffic(site: Site, road: Road, sides: list[np.ndarray] | None = None) -> None:
    """Add oncoming cars, one car ahead on the route, and some on side roads that stop before the main road."""
    rng = site.rng
    oncoming = shifted(lengthened(road.line, 30.0), road.lane)[::-1]
    spaced = rng.uniform(0, 60) + np.cumsum(rng.uniform(30, 110, int(rng.integers(1, 4))))
    for start in spaced[spaced < len(oncoming) - 40]:
        drive(site, oncoming, rng.uniform(6, 14), float(start))
    if rng.random() < 0.6:
        drive(site, site.route[:, :2], rng.uniform(7, 12), float(rng.uniform(22, 60)))
    for side in (sides or [])[:2]:
        if len(side) > 25 and len(site.movers) < 5:
            drive(site, side, rng.uniform(4, 10), float(rng.uniform(0, len(side) - 20)))
    if len(site.movers) < 2:
        drive(site, oncoming, rng.uniform(6, 14), float(rng.uniform(60, 160)))


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


FENCES = ("picket", "mesh", "bars", "rails", "barrier", "wall")


def _at(path: np.ndarray, every: float) -> np.ndarray:  # (K, 3)
    along = lengths(path)
    wanted = np.arange(0.0, along[-1], every)
    return np.stack([np.interp(wanted, along, column) for column in path.T], axis=1)


def fence(rng: np.random.Generator, path: np.ndarray, kind: str) -> np.ndarray:  # (K, 3)
    """A fence, railing, crash barrier or garden wall along a path on the ground."""
    if len(path) < 3:
        return NOTHING
    up = np.array([0.0, 0.0, 1.0])
    if kind == "wall":
        tall, thick = rng.uniform(0.5, 1.9), rng.uniform(0.12, 0.2)
        cap = thick + 0.05
        profile = np.array(
            [
                [-thick, -0.6],
                [-thick, tall - 0.1],
                [-cap, tall - 0.1],
                [-cap, tall],
                [0, tall + 0.04],
                [cap, tall],
                [cap, tall - 0.1],
                [thick, tall - 0.1],
                [thick, -0.6],
            ]
        )
        piers = _at(path, rng.uniform(2.5, 5.0))
        return joined(swept(path, lefts(path), profile), boxes(piers + up * (tall / 2 - 0.2), [0.42, 0.42, tall + 0.7]))
    if kind == "barrier":  # the corrugated sheet of a crash barrier
        profile = np.array([[0.0, 0.42], [0.09, 0.47], [0.09, 0.54], [0.02, 0.59], [0.09, 0.64], [0.09, 0.71], [0.0, 0.76]])
        posts = _at(path, 2.0)
        return joined(swept(path, lefts(path), profile), beams(posts - 0.4 * up, posts + 0.72 * up, 0.1))
    tall = {"picket": 1.0, "mesh": 1.9, "bars": 1.2, "rails": 1.05}[kind] * rng.uniform(0.85, 1.25)
    posts = _at(path, {"picket": 2.2, "mesh": 2.5, "bars": 2.0, "rails": 1.8}[kind])
    parts = [beams(posts - 0.5 * up, posts + (tall + 0.06) * up, 0.09, 6)]
    levels = {"picket": (0.25, 0.8), "mesh": (0.05, 0.17, 0.29, 0.41, 0.53, 0.65, 0.77, 0.89, 1.0), "bars": (0.12, 1.0)}
    for level in levels.get(kind, (0.35, 0.65, 1.0)):
        rail = path + up * (tall * level)
        parts.append(beams(rail[:-1], rail[1:], 0.015 if kind == "mesh" else 0.055, 3 if kind == "mesh" else 4))
    if kind == "picket":
        slats = _at(path, rng.uniform(0.12, 0.2))
        parts.append(boxes(slats + up * (0.5 * tall), np.array([0.075, 0.075, tall]) * rng.uniform(0.9, 1.1, (len(slats), 3))))
    if kind in ("bars", "mesh"):
        rods = _at(path, rng.uniform(0.11, 0.16) if kind == "bars" else rng.uniform(0.2, 0.35))
        parts.append(beams(rods + 0.05 * up, rods + tall * up, 0.025 if kind == "bars" else 0.015, 3))
    return joined(*parts)


_MOST_BUILT = 105_000  # triangles of buildings on a site; buildings get plainer as the total approaches it
HouseMaker = Callable[[np.random.Generator], tuple[float, float, Callable[[bool], np.ndarray]]]  # width, depth, triangles if plain


def put_building(site: Site, triangles: np.ndarray, center: np.ndarray, yaw: float, width: float, depth: float) -> None:
    """Place a building at the mean ground height under its footprint, sunk slightly."""
    corners = turned(np.array([[x * width, y * depth, 0] for x in (-0.5, 0, 0.5) for y in (-0.5, 0.5)]), yaw)[:, :2] + center
    level = np.quantile(site.ground.height(corners), 0.7)
    site.add(turned(triangles, yaw) + np.array([*center, level + 0.05]), Label.BUILDING)
    site.built += len(triangles)


def row_of_houses(
    site: Site,
    line: np.ndarray,
    edge: float,
    setback: tuple[float, float],
    gap: tuple[float, float],
    make: HouseMaker,
    chance: float = 0.9,
) -> None:
    """Add houses on both sides of a road's line (K, 2), facing it, `setback` meters from the sidewalk's outer edge."""
    rng = site.rng
    along, heading, left = lengths(line), headings(line), lefts(line)[:, :2]
    for side in (-1.0, 1.0):
        s = rng.uniform(0.0, 6.0)
        while s < along[-1]:
            if rng.random() > chance:
                s += rng.uniform(6.0, 18.0)
                continue
            width, depth, build = make(rng)
            k = min(int(s + width / 2), len(line) - 1)
            away = edge + rng.uniform(*setback) + depth / 2
            center = line[k] + side * away * left[k]
            yaw = heading[k] + (np.pi if side > 0 else 0.0) + rng.normal(0, 0.015)
            if site.claim(center, yaw, (width, depth), spare=0.0):
                if site.built > _MOST_BUILT:
                    return
                plain = bool(site.from_route(center[None])[0] > 40.0) or site.built > 0.6 * _MOST_BUILT
                put_building(site, build(plain), center, yaw, width, depth)
                s += width + rng.uniform(*gap)
            else:
                s += 2.5


def parked_cars(site: Site, line: np.ndarray, offset: float, chance: float) -> None:
    """Park cars along a line (K, 2), `offset` meters to its left, off the lanes."""
    rng = site.rng
    s, along = rng.uniform(2, 6), lengths(line)
    heading, left = headings(line), lefts(line)[:, :2]
    while s < along[-1] - 4:
        car = site.cars[int(rng.integers(len(site.cars)))]
        k = min(int(s + car.length / 2), len(line) - 1)
        center = line[k] + (offset + rng.normal(0, 0.08)) * left[k]
        yaw = heading[k] + (np.pi if offset > 0 else 0.0) + rng.normal(0, 0.025)
        if rng.random() < chance and car.length < 7 and site.claim(center, yaw, (car.length, car.width), off="nothing"):
            park(site, car, center, yaw)
        s += car.length + rng.uniform(0.6, 1.6)


def park(site: Site, car: Vehicle, center: np.ndarray, yaw: float) -> None:
    """Park a car on the local slope, with its wheels on the ground."""
    ahead, aside = np.array([np.cos(yaw), np.sin(yaw)]), np.array([-np.sin(yaw), np.cos(yaw)])
    feet = center + np.array(
        [0.3 * car.length * ahead, -0.3 * car.length * ahead, 0.4 * car.width * aside, -0.4 * car.width * aside]
    )
    z = site.ground.height(feet)
    climb, bank = (z[0] - z[1]) / (0.6 * car.length), (z[2] - z[3]) / (0.8 * car.width)
    tilted = car.triangles.copy()
    tilted[..., 2] += climb * tilted[..., 0] + bank * tilted[..., 1]
    site.add(turned(tilted, yaw) + np.array([*center, z.mean()]), Label.VEHICLE)


def along_road(
    site: Site, line: np.ndarray, offset: float, every: float, parts: list[np.ndarray], label: Label, keep: float = 0.85
) -> None:
    """Add copies of the parts along the road at nearly equal steps, facing it."""
    rng, left, heading = site.rng, lefts(line)[:, :2], headings(line)
    for k in np.arange(rng.uniform(0, every), len(line) - 1, every):
        i = min(int(k + rng.normal(0, 0.06 * every)), len(line) - 1) if k > 1 else 0
        spot = line[i] + offset * left[i]
        if rng.random() < keep and site.claim(spot, 0.0, (0.1, 0.1), off="road", spare=0.15):
            yaw = heading[i] + (-np.pi / 2 if offset > 0 else np.pi / 2)
            site.put(parts[int(rng.integers(len(parts)))], spot, yaw, label=label)


def plant(site: Site, spots: np.ndarray, off: str = "road", radius: float = 0.7, simpler: bool = True) -> None:
    """Plant trees at the free spots among (N, 2), simpler ones far from the route."""
    rng, (near, far) = site.rng, site.trees
    spots = spots[site.claim_discs(spots, radius, off, 0.5)]
    if not len(spots):
        return
    distance = site.from_route(spots)
    for spot, away in zip(spots, distance, strict=True):
        trees = far if simpler and away >= 25 else near
        tree = trees[int(rng.integers(len(trees)))]
        yaw, scale = rng.uniform(0, 2 * np.pi), rng.uniform(0.75, 1.2)
        for part, label in ((tree.wood, Label.TRUNK), (tree.leaves, Label.LEAVES)):
            if len(part):
                site.put(part, spot, yaw, scale, label=label)


def stock(site: Site) -> None:
    """Draw the cars of a place, and its trees: detailed ones for nearby spots, simpler ones for distant spots."""
    rng = site.rng
    site.cars = fleet(rng, 7, rng.uniform(0.0, 0.35))
    conifers, bare = rng.uniform(0, 0.5), rng.uniform(0, 0.25)
    site.trees = grove(rng, 6, int(rng.integers(550, 900)), conifers, bare), grove(rng, 4, 300, conifers, bare)


def scatter(site: Site, count: int, within: float = np.inf) -> np.ndarray:
    """Random spots (count, 2): uniform over the site, or within about `within` meters of the route if that is finite."""
    rng = site.rng
    if np.isfinite(within):
        start = site.route[rng.integers(len(site.route), size=count), :2]
        return start + rng.normal(0, 0.5 * within, (count, 2))
    return rng.uniform(site.low, site.high, (count, 2))


def greenery(
    site: Site, close: tuple[int, int], within: float, loose: tuple[int, int], shrubs: tuple[int, int], reach: float = 25.0
) -> None:
    """Plant trees within about `within` meters of the route, trees anywhere, and bushes; their numbers are drawn from ranges."""
    plant(site, scatter(site, int(site.rng.integers(*close)), within), "paved")
    plant(site, scatter(site, int(site.rng.integers(*loose))), "paved")
    bushes(site, int(site.rng.integers(*shrubs)), reach)


def boundaries(site: Site, line: np.ndarray, edge: float, share: float) -> None:
    """Add stretches of fences, walls and hedges between gardens and sidewalk."""
    rng = site.rng
    for side in (-1.0, 1.0):
        s = rng.uniform(0, 10)
        while s < len(line) - 8:
            n = int(rng.uniform(6, 22))
            if rng.random() < share:
                path = resampled(shifted(line, side * (edge + rng.uniform(0.4, 1.2)))[int(s) : int(s) + n], 0.5)
                enclose(site, path)
            s += n + rng.uniform(1, 8)


def enclose(site: Site, path: np.ndarray) -> None:  # (K, 2), half a meter apart
    """Add a fence, wall or hedge along the free parts of the path."""
    free = site.claim_path(path, "paved", 0.1)
    for stretch in np.split(np.arange(len(path)), np.flatnonzero(np.diff(free.astype(int))) + 1):
        if free[stretch[0]] and len(stretch) > 5:
            grounded = np.column_stack([path[stretch], site.ground.height(path[stretch])])
            if site.rng.random() < 0.35:
                site.add(hedge(site.rng, grounded), Label.LEAVES)
                continue
            kind = str(site.rng.choice(FENCES))
            site.add(fence(site.rng, grounded, kind), Label.STRUCTURE if kind == "wall" else Label.THIN)


def bushes(site: Site, count: int, within: float = 25.0) -> None:
    """Scatter bushes."""
    kinds = [bush(site.rng) for _ in range(4)]
    spots = scatter(site, count, within)
    for spot in spots[site.claim_discs(spots, 0.5, "paved", 0.3)]:
        site.put(
            kinds[int(site.rng.integers(4))].leaves, spot, site.rng.uniform(0, 6.3), site.rng.uniform(0.7, 1.4), label=Label.LEAVES
        )


def street_things(site: Site, line: np.ndarray, half: float, pavement: float) -> None:
    """Add lamps, signs, bins, bollards, people and similar objects to the sidewalks of a road."""
    rng = site.rng
    curbside, back = half + 0.6, half + max(0.9, pavement - 0.5)
    lamps = [furniture.lamp(rng)]
    signs = [furniture.sign(rng) for _ in range(4)] + [furniture.signal(rng)]
    small = [furniture.bin_(rng), furniture.bollard(rng), furniture.cabinet(rng), furniture.bench(rng), furniture.planter(rng)]
    people = [furniture.person(rng) for _ in range(3)]
    for side in (-1, 1):
        along_road(site, line, side * curbside, rng.uniform(18, 35), lamps, Label.THIN)
        along_road(site, line, side * curbside, rng.uniform(14, 40), signs, Label.THIN, 0.6)
        along_road(site, line, side * back, rng.uniform(8, 25), small, Label.STRUCTURE, 0.6)
        along_road(site, line, side * back, rng.uniform(10, 40), people, Label.STRUCTURE, 0.6)
    if rng.random() < 0.4:
        along_road(site, line, rng.choice([-1, 1]) * curbside, 1.8, [small[1]], Label.THIN, 0.5)
    for part in (furniture.shelter(rng), furniture.bicycle_rack(rng)):
        along_road(site, line, rng.choice([-1, 1]) * (half + pavement + 1.0), 70.0, [part], Label.STRUCTURE)


def make_house(
    storeys: tuple[int, int],
    width: tuple[float, float],
    depth: tuple[float, float],
    roofs: tuple[str, ...],
    grand: float,
    balconies: float,
) -> HouseMaker:
    """Return a function that draws the size of a house, and builds it."""

    def make(rng: np.random.Generator) -> tuple[float, float, Callable[[bool], np.ndarray]]:
        w, d = rng.uniform(*width), rng.uniform(*depth)
        count, top = int(rng.integers(storeys[0], storeys[1] + 1)), str(rng.choice(roofs))
        return w, d, lambda plain: building(rng, w, d, count, top, grand, balconies, plain)

    return make


def drive(site: Site, path: np.ndarray, speed: float, start: float) -> None:  # (K, 2)
    """Add a moving car along a path."""
    inside = ((path > site.low) & (path < site.high)).all(axis=1)
    first = int(np.argmax(inside))
    path = path[first : first + int(np.argmin(np.append(inside[first:], False)))]  # end where the ground ends
    if len(path) < 25:
        return
    path = resampled(path, 1.0)
    site.keep_clear(path, 1.5)
    car = site.cars[int(site.rng.integers(len(site.cars)))]
    route = np.column_stack([path, site.ground.road_height(path)])
    site.movers.append(Mover(car.triangles.astype(np.float32), route, speed, min(start, len(path) - 15.0)))
