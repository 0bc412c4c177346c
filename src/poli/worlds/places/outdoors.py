"""Places along a road: a town, a tunnel, a bridge over a valley, and a road along a river."""

from __future__ import annotations

import numpy as np

from poli.worlds.places import streets
from poli.worlds.places.curves import Along, Waves, headings, lefts, lengthened, ramp, resampled, shifted, winding
from poli.worlds.places.ground import Label
from poli.worlds.places.site import Place, Site
from poli.worlds.places.solids import beams, boxes, copies, ellipsoid, joined, lathe, surface, swept, tube, turned
from poli.worlds.places.streets import Road

_EXTRA = 90.0  # meters: how far roads continue beyond the route
HANGERS = ("girder", "truss", "arch", "cables")
_UP = np.array([0.0, 0.0, 1.0])


def town(rng: np.random.Generator, kind: str, seed: int) -> Place:
    """Streets of attached or closely spaced houses, parked cars, sidewalk furniture, and gardens behind."""
    corners: tuple[tuple[float, float, float], ...] = ()
    if rng.random() < 0.55:
        corners = ((rng.uniform(90, 200), rng.choice([-1, 1]) * rng.uniform(1.0, 1.6), rng.uniform(9, 16)),)
    path = winding(rng, rng.uniform(265, 320), rng.uniform(0.05, 0.5), corners)
    road = streets.drawn_road(rng, path, parking=bool(rng.random() < 0.75))
    sides = streets.side_roads(rng, road, int(rng.integers(1, 5)))
    site = streets.opened(rng, streets.drawn_ground(rng, (road.strip(), *sides)), road)
    streets.traffic(site, road, [streets.side_lane(s, road.edge + 4.0) for s in sides])

    dense = rng.random()
    roofs = ("gabled", "gabled", "hipped", "flat")
    low = streets.make_house((1, 3), (7, 13), (7, 11), roofs, rng.random(), 0.15)
    tall = streets.make_house((2, 5), (8, 18), (9, 14), roofs, rng.random(), 0.35)
    gap = (0.0, 0.5) if dense > 0.5 else (2.0, 9.0)
    setback = (0.35, 1.2) if dense > 0.5 else (1.5, 7.0)
    streets.row_of_houses(site, road.line, road.edge, setback, gap, tall if dense > 0.4 else low, rng.uniform(0.75, 0.97))
    for side in sides:
        streets.row_of_houses(site, side.line, side.half + side.pavement, setback, gap, low, rng.uniform(0.5, 0.9))
    if road.half - road.lane > 3.5:
        for offset in (-1, 1):
            streets.parked_cars(site, road.line, offset * (road.half - 1.05), rng.uniform(0.3, 0.9))
    for side in sides:
        streets.parked_cars(site, side.line, 1.0 - side.half, 0.4)
    streets.street_things(site, road.line, road.half, road.pavement)
    streets.boundaries(site, road.line, road.edge, rng.uniform(0.3, 0.9))
    if road.pavement > 2.0 and rng.random() < 0.6:  # an avenue
        steps = np.arange(5, len(road.line) - 5, int(rng.integers(9, 16)))
        for sign in (-1, 1):
            streets.plant(site, shifted(road.line, sign * (road.half + 0.8))[steps], radius=0.3)
    streets.greenery(site, (20, 60), 30.0, (10, 40), (10, 60))
    return site.finished(kind, seed)


def tunnel(rng: np.random.Generator, kind: str, seed: int) -> Place:
    """A road through a hill: cuttings with retaining walls, portals, and a vault with ribs, lamps, fans, niches and pipes."""
    path = winding(rng, rng.uniform(265, 320), rng.uniform(0.1, 0.9))
    road = streets.drawn_road(rng, path, parking=False)
    along = Along(lengthened(road.line, _EXTRA))
    length, crown = rng.uniform(110, 190), rng.uniform(5.3, 7.8)
    middle = _EXTRA + len(road.line) / 2 + rng.uniform(-20, 20)
    hill, cutting = crown + rng.uniform(1.0, 6.0), rng.uniform(12, 35)

    def rise(s: np.ndarray) -> np.ndarray:
        return hill * ramp(length / 2 + cutting - np.abs(s - middle), 0.0, cutting - 0.5)

    ground = streets.drawn_ground(rng, (road.strip(_EXTRA),), rng.uniform(0.2, 0.7), lambda xy: rise(along(xy)[0]))
    site = streets.opened(rng, ground, road, rng.uniform(30, 50))
    streets.traffic(site, road)
    inside = np.abs(along(road.line)[0] - middle) < length / 2
    line = road.line[inside]
    _vault(site, line, road, crown, hill)
    site.keep_clear(line, road.edge + 2.0)
    first, last = int(np.argmax(inside)), len(inside) - int(np.argmax(inside[::-1]))
    for end in (road.line[: max(first - 2, 0)], road.line[last + 2 :]):
        if len(end) > 15:
            streets.street_things(site, end, road.half, road.pavement)
            streets.boundaries(site, end, road.edge, 0.7)
    streets.plant(site, streets.scatter(site, int(rng.integers(40, 90)), 40.0), "paved")
    streets.bushes(site, int(rng.integers(30, 90)), 35.0)
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


def deck(site: Site, line: np.ndarray, half: float, edge: float) -> np.ndarray:  # (K, 2), along the gap in the ground
    """Add the road, sidewalks, girders and railings over the gap; return the deck's center line (K, 3)."""
    rng, left = site.rng, lefts(line)[:, :2]

    def strip(offsets: np.ndarray, layer: int) -> np.ndarray:
        xy = line[:, None] + offsets[None, :, None] * left[:, None]
        z = site.ground.layers(xy.reshape(-1, 2))[:, layer].reshape(xy.shape[:2])
        return np.concatenate([xy, z[..., None]], axis=-1)  # (K, n, 3)

    road = strip(np.linspace(-half, half, 11), 0)
    site.add(surface(road), Label.ROAD)
    for side in (-1.0, 1.0):
        walk = strip(side * np.array([half, edge]), 1)
        curb = np.stack([road[:, 0 if side < 0 else -1], walk[:, 0]], axis=1)
        rim = walk[:, 1]
        site.add(joined(surface(walk), surface(curb)))
        site.add(streets.fence(rng, rim - side * 0.15 * lefts(line), str(rng.choice(["bars", "rails", "mesh"]))), Label.THIN)
        girder = np.array([[0.0, 0.0], [0.12, 0.0], [0.12, -0.35], [-0.25, -0.4], [-0.25, -1.1], [-0.9, -1.15], [-0.9, -0.4]])
        site.add(swept(rim, lefts(line) * side, girder))
    under = strip(np.linspace(-edge, edge, 5), 0) - 0.45 * _UP
    site.add(surface(under))
    return road[:, 5]


def piers(site: Site, middle: np.ndarray, edge: float, every: float) -> None:  # (K, 3)
    """Add columns or walls from below the ground to the deck."""
    rng, wall = site.rng, site.rng.random() < 0.5
    left, heading = lefts(middle), headings(middle)
    for k in np.arange(every / 2, len(middle), every).astype(int):
        low = site.ground.height(middle[k : k + 1, :2])[0] - 1.0
        top = middle[k, 2] - 0.5
        if top - low < 1.5:
            continue
        head = middle[k] - 0.9 * _UP
        site.add(boxes(head[None], [1.2, 1.7 * edge, 0.8], heading[k]))
        if wall:
            center = np.array([*middle[k, :2], (low + top) / 2])
            site.add(boxes(center[None], [0.9, 1.1 * edge, top - low], heading[k]))
        else:
            feet = np.array(
                [[*(middle[k] + s * 0.5 * edge * left[k])[:2], low] for s in (-1, 0, 1)][:: 2 if rng.random() < 0.5 else 1]
            )
            site.add(beams(feet, feet + (top - low) * _UP, rng.uniform(0.7, 1.3), 14))


def hangers(site: Site, middle: np.ndarray, edge: float, style: str) -> None:  # (K, 3)
    """Add the structure above the deck on both sides."""
    rng, left, n = site.rng, lefts(middle), len(middle)
    step = int(rng.integers(3, 7))
    k = np.arange(0, n, step)
    parts: list[np.ndarray] = []
    shoulders: list[np.ndarray] = []
    for side in (-1.0, 1.0):
        rim = middle + side * (edge + 0.35) * left
        if style == "truss":
            tall = 5.6 + rng.uniform(0, 0.5) * (side > 0) * 0
            low, high = rim[k] - 0.3 * _UP, rim[k] + tall * _UP
            parts += [tube(high, 0.2, 6), beams(low, high, 0.24), beams(low[:-1:2], high[1::2], 0.18), tube(low, 0.22, 6)]
            parts.append(beams(high[1:-1:2], low[2::2], 0.18))
            shoulders.append(high)
        elif style == "arch":
            rise = n / 5.5
            t = np.linspace(-1, 1, n)[:, None]
            curve = rim - 0.6 * _UP + rise * (1 - t * t) * _UP
            parts += [tube(curve[:: max(1, step // 2)], 0.38, 10), beams(rim[k[1:-1]], curve[k[1:-1]], 0.07, 6)]
            shoulders.append(curve[k])
        elif style == "cables":
            masts = rim[[n // 4, 3 * n // 4]]
            tops = masts + rng.uniform(13, 20) * _UP
            parts.append(beams(masts - 9.0 * _UP, tops, 0.9, 10))
            for at, top in zip((n // 4, 3 * n // 4), tops, strict=True):
                ends = np.clip(at + np.arange(-n // 4 + 2, n // 4, step), 0, n - 1)
                ends = ends[np.abs(ends - at) > 2]
                heights = top - (np.linspace(0, 3.0, len(ends))[:, None] * _UP)
                parts.append(beams(rim[ends], heights, 0.09, 5))
            shoulders.append(tops - 1.5 * _UP)
    if len(shoulders) == 2:
        high = (shoulders[0][:, 2] - middle[:, 2].mean() > 4.8) & (shoulders[1][:, 2] - middle[:, 2].mean() > 4.8)
        if high.any():
            parts.append(beams(shoulders[0][high], shoulders[1][high], 0.22, 6))
            a, b = shoulders[0][high], shoulders[1][high]
            parts.append(beams(a[:-1], b[1:], 0.12) if style == "truss" and len(a) > 1 else joined())
    site.add(joined(*parts))


def overpass(site: Site, line: np.ndarray, at: int, edge: float) -> None:  # (K, 2)
    """Add a bridge across the road, between banks of steps and walls, high enough for trucks."""
    rng = site.rng
    width, clear, reach = rng.uniform(3.0, 12.0), rng.uniform(4.6, 6.0), edge + rng.uniform(0.8, 3.0)
    yaw = headings(line)[at] + rng.normal(0, 0.15)
    spots = [line[at] + s * (reach + 5.0) * lefts(line)[at, :2] for s in (-1, 1)]
    if not all(site.claim(s, yaw, (width, 8.5)) for s in spots):
        return
    x, y, bank = width / 2, reach + 9.5, reach + 0.9
    slab = np.array(
        [[-x, clear], [-x, clear + 0.9], [x, clear + 0.9], [x, clear], [0.5 * x, clear - 0.35], [-0.5 * x, clear - 0.35]]
    )
    path = np.array([[0.0, v, 0.0] for v in np.linspace(-y, y, 14)]) + _UP * 0.25 * np.cos(np.linspace(-1.5, 1.5, 14))[:, None]
    body = [swept(path, np.tile([-1.0, 0, 0], (14, 1)), slab, close=True)]
    for side in (-1, 1):
        body.append(boxes([[0, side * (bank + 4.3), clear / 2 - 1.0]], [width - 0.4, 8.0, clear + 2.0]))
        steps = np.arange(9)
        body.append(boxes((x + 0.7, side * (bank + 0.6 * steps), 0.25 * steps - 0.6), [1.4, 0.7, 1.6]))
        body.append(beams([[v, side * reach, -1.0] for v in (-0.35 * width, 0.35 * width)],
                          [[v, side * reach, clear + 0.1] for v in (-0.35 * width, 0.35 * width)], 0.6, 12))  # fmt: skip
    height = site.ground.road_height(line[at : at + 1])[0]
    shift = np.array([*line[at], height])
    site.add(turned(joined(*body), yaw) + shift)
    for side in (-1, 1):
        rail = path + [side * (x - 0.1), 0, clear + 0.9]
        site.add(turned(streets.fence(rng, rail, "bars"), yaw) + shift, Label.THIN)


def bridge(rng: np.random.Generator, kind: str, seed: int) -> Place:
    """A road that crosses a valley on a bridge, with houses and trees at both ends."""
    path = winding(rng, rng.uniform(270, 330), rng.uniform(0.0, 0.35))
    road = streets.drawn_road(rng, path, parking=False)
    along = Along(lengthened(road.line, _EXTRA))
    span, deep = rng.uniform(50, 120), rng.uniform(4, 11)
    middle = _EXTRA + len(road.line) * rng.uniform(0.4, 0.6)
    wobble = Waves(rng, 1.0, 25.0, 80.0)

    def beyond(xy: np.ndarray) -> np.ndarray:  # meters from the end of the bridge, negative below it
        return np.abs(along(xy)[0] - middle) - span / 2

    def valley(xy: np.ndarray) -> np.ndarray:
        inside = -beyond(xy)  # the bridge's ends rest on walls, and the slope begins below them
        return -1.6 * ramp(inside, -0.6, 0.0) - deep * ramp(inside, 0.5, 2.2 * deep) + 0.35 * wobble(xy) * ramp(inside, 2.0, 9.0)

    ground = streets.drawn_ground(rng, (road.strip(_EXTRA),), rng.uniform(0.2, 0.8), valley, beyond)
    site = streets.opened(rng, ground, road)
    streets.traffic(site, road)
    over = np.abs(along(road.line)[0] - middle) < span / 2 + 0.6
    line = road.line[over]
    center = deck(site, line, road.half, road.edge)
    piers(site, center, road.edge, rng.uniform(14, 26))
    hangers(site, center, road.edge, str(rng.choice(HANGERS)))
    site.keep_clear(line, road.edge + 1.5)
    ends = [road.line[: int(np.argmax(over)) - 2], road.line[len(over) - int(np.argmax(over[::-1])) + 2 :]]
    house = streets.make_house((1, 4), (8, 18), (8, 13), ("gabled", "hipped", "flat"), rng.random(), 0.3)
    for end in ends:
        streets.row_of_houses(site, end, road.edge, (1.0, rng.uniform(4, 12)), (2, 25), house, rng.uniform(0.3, 0.9))
        streets.street_things(site, end, road.half, road.pavement)
        streets.boundaries(site, end, road.edge, 0.6)
        barrier = resampled(shifted(end, rng.choice([-1, 1]) * (road.half + 0.45)), 1.0)
        free = site.claim_path(barrier, "road", 0.0)
        if free.mean() > 0.7:
            barrier = barrier[free]
            site.add(streets.fence(rng, np.column_stack([barrier, ground.height(barrier)]), "barrier"), Label.THIN)
        if rng.random() < 0.3 and len(end) > 40:
            overpass(site, end, len(end) // 2, road.edge)
    streets.greenery(site, (40, 90), 40.0, (20, 60), (30, 90), 35.0)
    return site.finished(kind, seed)


def riverside(rng: np.random.Generator, kind: str, seed: int) -> Place:
    """A road along a river: a quay wall with a railing or a sloping bank on one side, houses on the other."""
    path = winding(rng, rng.uniform(270, 330), rng.uniform(0.1, 0.7))
    road = streets.drawn_road(rng, path, parking=bool(rng.random() < 0.5))
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

    lanes = [s for s in streets.side_roads(rng, road, int(rng.integers(1, 4)), 0.0) if side * along(s.line[-1:])[1][0] < 0]
    ground = streets.drawn_ground(rng, (road.strip(_EXTRA), *lanes), rng.uniform(0.2, 0.9), river)
    site = streets.opened(rng, ground, road)
    streets.traffic(site, road, [streets.side_lane(s, road.edge + 4.0) for s in lanes])
    rim = resampled(shifted(road.line, side * (road.edge - 0.25)), 1.0)
    if quay or rng.random() < 0.5:
        kinds = ["bars", "rails", "wall", "mesh"]
        choice = str(rng.choice(kinds))
        label = Label.STRUCTURE if choice == "wall" else Label.THIN
        site.add(streets.fence(rng, np.column_stack([rim, ground.height(rim)]), choice), label)
        site.keep_clear(rim, 0.4)
    water = shifted(road.line, side * (start + slope + 0.45 * wide))
    site.keep_clear(water, 0.3 * wide)  # no houses or trees in the water
    boats = water[rng.integers(5, len(water) - 5, int(rng.integers(2, 7)))] + rng.normal(0, 0.12 * wide, (1, 2))
    for spot in boats:
        site.put(_boat(rng), spot, rng.uniform(0, 6.3), label=Label.VEHICLE)
    house = streets.make_house((2, 5), (8, 20), (8, 14), ("gabled", "hipped", "gabled", "flat"), rng.random(), 0.4)
    setback, gap = (0.5, rng.uniform(1, 10)), (0.3, rng.uniform(1, 14))
    streets.row_of_houses(site, road.line, road.edge, setback, gap, house, rng.uniform(0.6, 0.95))
    for street in lanes:
        streets.row_of_houses(site, street.line, street.half + street.pavement, (0.5, 5.0), (1, 8), house, 0.7)
    if road.half - road.lane > 3.5:
        streets.parked_cars(site, road.line, -side * (road.half - 1.05), 0.6)
    streets.street_things(site, road.line, road.half, road.pavement)
    steps = np.arange(5, len(road.line) - 5, int(rng.integers(8, 18)))
    streets.plant(site, shifted(road.line, side * (road.half + min(1.0, road.pavement / 2)))[steps], radius=0.3)
    streets.plant(site, shifted(road.line, side * (road.edge + rng.uniform(1.0, 3.0)))[steps], "paved", 0.3)
    streets.boundaries(site, road.line, road.edge, 0.4)
    streets.greenery(site, (30, 70), 40.0, (15, 40), (20, 60), 30.0)
    return site.finished(kind, seed)


def _boat(rng: np.random.Generator) -> np.ndarray:
    """A hull with a cabin, floating above the riverbed."""
    length, wide, tall = rng.uniform(5, 12), rng.uniform(1.8, 3.2), rng.uniform(0.8, 1.4)
    hull = ellipsoid((length / 2, wide / 2, tall), 22, 10)
    hull[..., 2] = np.minimum(hull[..., 2], 0.15 * tall)
    hull[..., 0] *= 1 + 0.12 * hull[..., 2] / tall
    cabin = boxes([[-0.1 * length, 0, 0.5 * tall + 0.4]], [0.35 * length, 0.6 * wide, 1.1])
    return turned(joined(hull, cabin) + [0, 0, tall + 0.3], 0.0)
