"""Halls and corridors, indoors."""

from __future__ import annotations

import numpy as np

from poli.worlds.places import indoor_objects as indoor
from poli.worlds.places import street_objects as street
from poli.worlds.places.buildings import Style, facade, relief_wall
from poli.worlds.places.curves import Waves, resampled, smoothed
from poli.worlds.places.ground import Ground, Label, Lot, Paving, flat
from poli.worlds.places.site import Place, Site
from poli.worlds.places.solids import beams, boxes, joined, rows_of, surface, tube, turned
from poli.worlds.places.streets import fence

# Recesses in the walls of corridors: doors, niches and side rooms, as cumulative shares and ranges of the depth.
_NICHES = ((0.5, 0.06, 0.3), (0.7, 0.4, 1.1), (0.8, 2.0, 4.5))


def indoor_site(rng: np.random.Generator, route: np.ndarray, margin: float, clear: float = 1.6) -> Site:  # (K, 2)
    """Return a site on a level floor."""
    level = Waves(rng, 0.0, 1.0, 2.0)
    paving = Paving((Lot((0.0, 0.0), 0.0, (2000.0, 2000.0), 0.0),))
    ground = Ground(paving, flat, flat, level, level, curb=0.0, camber=0.0, roughness=0.0)
    return Site(rng, ground, route, margin, clear)


def hall(rng: np.random.Generator, kind: str, seed: int) -> Place:
    """A hall with pillars, roof trusses, racks, machines and ducts. The route goes around the aisles."""
    size = rng.uniform([40, 30], [100, 70])
    tall = rng.uniform(6.0, 13.0)
    inset = rng.uniform([4.5, 4.5], 0.22 * size)
    x, y = size / 2 - inset
    middle = rng.uniform(-0.3, 0.3) * y
    loop = np.array([[-x, -y], [x, -y], [x, middle], [-x + 7, middle], [-x + 7, y], [x, y]])
    if rng.random() < 0.5:
        loop = np.array([[-x, middle], [-x, -y], [x, -y], [x, y], [-x + 6, y]])
    route = resampled(smoothed(resampled(loop * rng.choice([-1, 1], 2), 0.5), 8), 1.0)
    site = indoor_site(rng, route, float(inset.max()) + 1.0)
    site.inside = (-size / 2, size / 2)
    _shell(site, size, tall)
    _pillars(site, size, tall)
    _racks(site, size, tall)
    _machines(site, size)
    _overhead(site, size, tall)
    return site.finished(kind, seed, indoors=True)


def _shell(site: Site, size: np.ndarray, tall: float) -> None:
    """Add the floor, walls and roof."""
    rng = site.rng
    style = Style.drawn(rng, 0.9)
    storeys = max(1, round(tall / style.storey))
    for side in range(4):
        wide, out = (size[0], size[1] / 2) if side % 2 == 0 else (size[1], size[0] / 2)
        wall, _ = facade(rng, style, float(wide), storeys, door=True, below=0.5)
        site.add(turned(wall - [0, out, 0], side * np.pi / 2))
    top = storeys * style.storey
    x, y = (np.linspace(-s / 2, s / 2, int(s / 1.2)) for s in size)
    grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)
    site.add(surface(np.concatenate([grid, rng.normal(0, 0.004, (*grid.shape[:2], 1))], axis=-1)), Label.GROUND)
    bow = rng.uniform(0.0, 0.2) * size[1]
    sheet = np.linspace(-size[0] / 2, size[0] / 2, int(size[0] / 0.25))  # corrugated
    rows = np.linspace(-1, 1, 13)
    z = top + bow * (1 - rows[None] ** 2) + 0.06 * (np.arange(len(sheet)) % 4 > 1)[:, None]
    roof = np.stack([np.broadcast_to(sheet[:, None], z.shape), np.broadcast_to(rows[None] * size[1] / 2, z.shape), z], axis=-1)
    site.add(surface(roof))
    for end in (0, -1):  # the openings between the end walls and a bowed roof
        site.add(surface(np.stack([roof[end], roof[end] * [1, 1, 0] + [0, 0, top - 0.3]])))
    _trusses(site, size, top, bow)


def _trusses(site: Site, size: np.ndarray, top: float, bow: float) -> None:
    rng, n = site.rng, int(size[1] / 2.2)
    y = np.linspace(-size[1] / 2, size[1] / 2, n)
    deep = rng.uniform(0.8, 1.6)
    for x in np.arange(-size[0] / 2 + 3, size[0] / 2 - 2, rng.uniform(4.0, 8.0)):
        high = rows_of((x, y, top + bow * (1 - (2 * y / size[1]) ** 2) - 0.1))
        low = high * [1, 1, 0] + [0, 0, top - deep] + [0, 0, 0.5] * (high - [0, 0, top])
        chords = beams(high[:-1], high[1:], 0.16), beams(low[:-1], low[1:], 0.14)
        site.add(joined(*chords, beams(low, high, 0.08), beams(low[:-1], high[1:], 0.08)))


def _pillars(site: Site, size: np.ndarray, tall: float) -> None:
    rng = site.rng
    part = indoor.column(rng, tall + 0.5)
    step = rng.uniform([6, 6], [12, 12])
    x, y = (np.arange(-s / 2 + d, s / 2 - d / 2, d) for s, d in zip(size, step, strict=True))
    spots = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    site.put(part, spots[site.claim_discs(spots, 0.45, "nothing")])


def _racks(site: Site, size: np.ndarray, tall: float) -> None:
    """Add rows along y, as many as fit; no two are alike."""
    rng = site.rng
    share, step = rng.uniform(0.4, 1.0), rng.uniform(2.4, 4.8)
    for x in np.arange(-size[0] / 2 + 1.5, size[0] / 2 - 1.0, step):
        y = -size[1] / 2 + 1.0
        while y < size[1] / 2 - 3.0:
            wide, deep = rng.uniform(3.0, 9.0), rng.uniform(0.6, 1.2)
            if rng.random() < share and site.claim((x, y + wide / 2), 0.0, (deep, wide), off="nothing"):
                site.put(indoor.rack(rng, wide, deep, rng.uniform(1.8, min(6.0, tall - 1.0))), np.array([[x, y + wide / 2]]))
                y += wide + 0.6
            else:
                y += 1.5


def _machines(site: Site, size: np.ndarray) -> None:
    """Add machines, parked vans, pallets, railings, people, and stairs to a gallery."""
    rng = site.rng
    spots = rng.uniform(-size / 2 + 2, size / 2 - 2, (160, 2))
    for k, spot in enumerate(spots):
        yaw = rng.choice([0, np.pi / 2]) + rng.normal(0, 0.05)
        pick = k % 6
        if pick < 2 and site.claim(spot, yaw, (3.0, 3.8), off="nothing"):
            site.put(indoor.machine(rng), spot, yaw)
        elif pick == 2 and k < 60 and site.claim(spot, yaw, (5.2, 2.1), off="nothing"):
            site.put(street.vehicle(rng, str(rng.choice(["hatch", "saloon", "estate"]))).triangles, spot, yaw, label=Label.VEHICLE)
        elif pick == 3 and site.claim(spot, yaw, (1.3, 1.9), off="nothing"):
            site.put(indoor.goods(rng, 1.8, 1.1, 1.4), spot, yaw)
        elif pick == 4 and site.claim(spot, yaw, (0.5, 5.0), off="nothing"):
            path = rows_of((0.0, np.linspace(-2.5, 2.5, 11), 0.0))
            site.put(fence(rng, path, str(rng.choice(["rails", "mesh", "bars"]))), spot, yaw, label=Label.THIN)
        elif pick == 5 and site.claim(spot, yaw, (0.4, 0.6), off="nothing"):
            site.put(street.person(rng), spot, yaw)
    tall = rng.uniform(2.6, 3.4)
    spot = rng.choice([-1, 1], 2) * (size / 2 - [6.5, 3.0])
    if site.claim(spot, 0.0, (11.0, 4.0), off="nothing"):
        legs = np.array([[a, b, 0.0] for a in (-1.0, 5.0) for b in (-1.8, 1.8)])
        gallery = [boxes((2.0, 0, tall), (6.4, 4.0, 0.2)), beams(legs, legs + [0, 0, tall], 0.2, 10)]
        site.put(joined(*gallery, indoor.stairs(rng, tall) - [1.2 + 0.27 * int(tall / 0.19), 0, 0]), spot)


def _overhead(site: Site, size: np.ndarray, tall: float) -> None:
    """Add round ducts, lamps and a crane on its rails, all above the vehicles."""
    rng = site.rng
    for _ in range(int(rng.integers(2, 5))):
        z, r = rng.uniform(min(4.3, tall - 1.5), tall - 1.2), rng.uniform(0.15, 0.5)
        x, y = rng.uniform(-0.4, 0.4, 2) * size
        path = np.array([[-size[0] / 2, y, z], [x, y, z], [x, np.sign(y + 0.01) * size[1] / 2, z]])
        site.add(indoor.duct(rng, path, r))
    spots = np.stack(np.meshgrid(*(np.arange(-s / 2 + 3, s / 2 - 2, rng.uniform(4, 8)) for s in size)), axis=-1).reshape(-1, 2)
    lamps = np.column_stack([spots, np.full(len(spots), tall - 1.8)])
    site.add(boxes(lamps, [0.3, 1.4, 0.12]))
    site.add(beams(lamps, lamps + [0, 0, 1.4], 0.03, 3), Label.THIN)
    if rng.random() < 0.6:
        x = rng.uniform(-0.3, 0.3) * size[0]
        crane = [boxes((x, 0, tall - 1.2), (0.6, size[1] - 1.0, 0.7)), boxes((x, 0.2 * size[1], tall - 1.8), (1.0, 1.2, 0.7))]
        rails = [boxes((0, s * (size[1] / 2 - 0.5), tall - 1.7), (size[0], 0.3, 0.4)) for s in (-1, 1)]
        hook = beams([[x, 0.2 * size[1], tall - 2.2]], [[x, 0.2 * size[1], min(4.2, tall - 2.4)]], 0.04)
        site.add(joined(*crane, *rails, hook))


def corridor(rng: np.random.Generator, kind: str, seed: int) -> Place:
    """A corridor with turns: walls with doors, niches and side rooms; a ceiling with beams, panels or a vault; furniture."""
    half, tall = rng.uniform(2.5, 3.9), rng.uniform(3.25, 4.6)
    corners = _plan(rng, half)
    route = resampled(corners, 0.5)[3:-3]
    site = indoor_site(rng, resampled(smoothed(route, 7), 1.0), half + 8.0, clear=1.35)
    rims = {side: _offset(corners, side * half) for side in (-1, 1)}
    style = str(rng.choice(["beams", "panels", "vault"]))
    for a, b, p, q in zip(rims[1][:-1], rims[1][1:], rims[-1][:-1], rims[-1][1:], strict=True):
        _section(site, a, b, p, q, tall, style)
    for side in (-1, 1):
        for a, b in zip(rims[side][:-1], rims[side][1:], strict=True):
            _dress_wall(site, a, b, -side, half, tall)
        for height, r in zip(rng.uniform(tall - 0.12, tall - 0.04, 3), rng.uniform(0.02, 0.09, 3), strict=True):
            line = _offset(corners, side * (half - 0.12 - 0.25 * rng.random()))
            site.add(tube(np.column_stack([line, np.full(len(line), height - r)]), r, 8), Label.THIN)
    for end, facing in ((0, 1), (-1, -1)):  # close the ends with walls and doors
        site.add(_upright(rng, rims[1][end], rims[-1][end], facing, tall))
    return site.finished(kind, seed, indoors=True)


def _plan(rng: np.random.Generator, half: float) -> np.ndarray:
    """Corners (K, 2) of the center line: straight parts at right angles that never fold back on themselves."""
    points, heading, turn = [np.zeros(2)], rng.uniform(0, 2 * np.pi), rng.choice([-1, 1])
    for _ in range(int(rng.integers(4, 7))):
        length = rng.uniform(16.0, 34.0) + 2 * half
        points.append(points[-1] + length * np.array([np.cos(heading), np.sin(heading)]))
        heading += turn * np.pi / 2
        turn = -turn
    return np.array(points)


def _offset(corners: np.ndarray, offset: float) -> np.ndarray:  # (K, 2), positive to the left
    """The parallel line at `offset`, with sharp corners."""
    way = np.diff(corners, axis=0)
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    left = np.stack([-way[:, 1], way[:, 0]], axis=1)
    first, last = left[:1], left[-1:]
    inner = left[:-1] + left[1:]  # at right angles the corner moves along both normals
    return corners + offset * np.concatenate([first, inner, last])


def _upright(rng: np.random.Generator, a: np.ndarray, b: np.ndarray, facing: int, tall: float) -> np.ndarray:
    """A relief wall from a to b (2,), facing left (+1) or right (-1): doors, niches, panels, side rooms and plain parts."""
    length = float(np.linalg.norm(b - a))
    edges, depths, door_top = [0.0], [], min(2.1, tall - 0.6)
    limit = max(length - 0.8, 0.5)
    while edges[-1] < limit:
        edges.append(min(edges[-1] + rng.uniform(0.4, 2.5), length))
        depths.append(0.0)
        width = rng.uniform(0.8, 1.9)
        if edges[-1] + width > limit:
            break
        pick = rng.random()
        deep = next((-rng.uniform(low, high) for share, low, high in _NICHES if pick < share), 0.12)
        frame = 0.08 if pick < 0.5 else 0.0
        for part, step in ((frame, 0.04), (width, deep), (frame, 0.04)):
            if part:
                edges.append(edges[-1] + part)
                depths.append(step)
    if edges[-1] < length:
        edges.append(length)
        depths.append(0.0)
    depth_low = np.array(depths)
    depth_high = np.where(np.isin(depth_low, (0.04, 0.12)), depth_low, 0.0)
    skirting = np.where(depth_low == 0.0, 0.02, depth_low)
    rows = np.array([-0.15, -0.01, 0.12, door_top, door_top + 0.08, tall])  # the lowest row is below the floor and closes niches
    over = np.where(depth_low < 0, 0.04, depth_low)
    depth = np.stack([np.full(len(skirting), 0.03), skirting, depth_low, over, depth_high], axis=1)
    wall = relief_wall(np.array(edges), rows, depth)
    yaw = np.arctan2(*(b - a)[::-1])
    if facing < 0:
        wall = wall * [1, -1, 1]
    return turned(wall, yaw) + np.array([*a, 0.0])


def _section(site: Site, a: np.ndarray, b: np.ndarray, p: np.ndarray, q: np.ndarray, tall: float, style: str) -> None:
    """Add walls, floor and ceiling between the left rim a-b and the right rim p-q."""
    rng = site.rng
    site.add(joined(_upright(rng, a, b, -1, tall), _upright(rng, p, q, 1, tall)))
    t = np.linspace(0, 1, 20)[:, None]
    left, right = a + t * (b - a), p + t * (q - p)
    across = np.linspace(0, 1, 7)[None, :, None]
    floor = left[:, None] + across * (right - left)[:, None]
    site.add(surface(np.concatenate([floor, rng.normal(0, 0.002, (20, 7, 1))], axis=-1)), Label.GROUND)
    if style == "vault":
        angle = np.linspace(0, np.pi, 15)
        rise = rng.uniform(0.4, 1.2)
        curve = left[:, None] + (0.5 - 0.5 * np.cos(angle))[None, :, None] * (right - left)[:, None]
        height = np.broadcast_to((tall - 0.02 + rise * np.sin(angle))[None, :, None], (20, 15, 1))
        site.add(surface(np.concatenate([curve, height], axis=-1)))
        return
    site.add(surface(np.concatenate([floor, np.full((20, 7, 1), tall)], axis=-1)))
    way = (b - a) / np.linalg.norm(b - a)
    yaw, wide = np.arctan2(way[1], way[0]), float(np.linalg.norm(p - a + way * np.dot(a - p, way)))
    spots = np.arange(1.2 * wide, np.linalg.norm(b - a) - 1.2 * wide, rng.uniform(1.2, 3.5))
    middle = a + spots[:, None] * way + 0.5 * wide * np.array([way[1], -way[0]])
    if len(spots):
        z = np.full((len(spots), 1), tall - 0.02)
        sizes = [rng.uniform(0.15, 0.4), wide, rng.uniform(0.08, 0.2)] if style == "beams" else [1.1, 0.85 * wide, 0.05]
        site.add(boxes(np.concatenate([middle, z], axis=1), sizes, yaw))
        lamps = np.concatenate([middle + 0.6 * way, z - 0.05], axis=1)
        site.add(boxes(lamps, [0.3, 1.2, 0.08], yaw))


def _dress_wall(site: Site, a: np.ndarray, b: np.ndarray, inward: int, half: float, tall: float) -> None:
    """Add objects along a wall, within the strip that the route leaves free, and frames, boards and lamps on the wall."""
    rng, length = site.rng, float(np.linalg.norm(b - a))
    way = (b - a) / length
    normal = inward * np.array([-way[1], way[0]])
    yaw = np.arctan2(normal[1], normal[0])
    crowd = rng.uniform(0.3, 2.5)
    s = rng.uniform(0.5, 2.5)
    while s < length - 0.8:
        part, off = _thing(rng, tall, half - 1.55)
        low, high = part.min(axis=(0, 1)), part.max(axis=(0, 1))
        deep, wide = high[0] + off, high[1] - low[1]
        spot = a + (s + wide / 2) * way
        size, fits = (max(deep - 0.5, 0.05), wide - 0.4), s + wide < length - 0.3 and deep < half - 1.5
        if fits and site.claim(spot + normal * deep / 2, yaw, size, off="nothing"):
            site.add(turned(part, yaw) + np.array([*(spot + off * normal), 0.0]))
            if wide < 0.9 and rng.random() < 0.3:  # a plant next to it
                leaves = street.bush(rng, 160).leaves * 0.4 + np.array([0.0, 0.0, rng.uniform(0.2, 1.0)])
                keep = np.abs(leaves[..., 0]).max(axis=1) < 0.4
                site.add(turned(leaves[keep], yaw) + np.array([*(spot + 0.42 * normal + 0.8 * way), 0.0]), Label.LEAVES)
        s += wide + rng.exponential(crowd)
    n = int(length / rng.uniform(1.5, 5.0))
    at = a + rng.uniform(0.5, length - 0.5, n)[:, None] * way + 0.02 * normal
    frames = np.column_stack([at, rng.uniform(1.3, 2.2, n)])
    site.add(boxes(frames, np.column_stack([rng.uniform(0.03, 0.1, n), rng.uniform(0.2, 1.4, (n, 2))]), yaw))


def _thing(rng: np.random.Generator, tall: float, room: float) -> tuple[np.ndarray, float]:
    """An object that stands against a wall, and the distance of its center from the wall."""
    pick = int(rng.integers(9))
    if pick < 4:
        return (indoor.radiator, indoor.cabinet, indoor.extinguisher, indoor.cabinet)[pick](rng), 0.02
    if pick == 4:
        deep = min(0.45, room - 0.1)
        return indoor.rack(rng, rng.uniform(1.0, 3.0), deep, rng.uniform(1.0, 2.2)), deep / 2 + 0.06
    if pick == 5:
        return indoor.column(rng, tall), 0.25
    if pick == 6:
        return street.bench(rng), 0.42
    return (street.bin_, street.person)[pick - 7](rng), 0.35
