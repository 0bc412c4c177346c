"""A hall: relief walls, pillars, roof trusses, rows of racks, machines, ducts, a gallery. The route goes around the aisles."""

from __future__ import annotations

import numpy as np

from poli.worlds.places import fittings
from poli.worlds.places import street_objects as furniture
from poli.worlds.places.buildings import Style, facade
from poli.worlds.places.geometry import Waves, beams, boxes, joined, resampled, smoothed, surface, turned
from poli.worlds.places.ground import Ground, Label, Lot, Paving, flat
from poli.worlds.places.site import Place, Site
from poli.worlds.places.street_objects import vehicle
from poli.worlds.places.streets import fence


def indoor_site(rng: np.random.Generator, route: np.ndarray, margin: float, clear: float = 1.6) -> Site:  # (K, 2)
    """Return a site on a level floor."""
    level = Waves(rng, 0.0, 1.0, 2.0)
    paving = Paving((Lot((0.0, 0.0), 0.0, (2000.0, 2000.0), 0.0),))
    ground = Ground(paving, flat, flat, level, level, curb=0.0, camber=0.0, roughness=0.0)
    return Site(rng, ground, route, margin, clear)


def hall(rng: np.random.Generator, kind: str, seed: int) -> Place:
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
        high = np.column_stack([np.full(n, x), y, top + bow * (1 - (2 * y / size[1]) ** 2) - 0.1])
        low = high * [1, 1, 0] + [0, 0, top - deep] + [0, 0, 0.5] * (high - [0, 0, top])
        parts = [
            beams(high[:-1], high[1:], 0.16),
            beams(low[:-1], low[1:], 0.14),
            beams(low, high, 0.08),
            beams(low[:-1], high[1:], 0.08),
        ]
        site.add(joined(*parts))


def _pillars(site: Site, size: np.ndarray, tall: float) -> None:
    rng = site.rng
    part = fittings.column(rng, tall + 0.5)
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
                site.put(fittings.rack(rng, wide, deep, rng.uniform(1.8, min(6.0, tall - 1.0))), np.array([[x, y + wide / 2]]))
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
            site.put(fittings.machine(rng), spot, yaw)
        elif pick == 2 and k < 60 and site.claim(spot, yaw, (5.2, 2.1), off="nothing"):
            site.put(vehicle(rng, str(rng.choice(["hatch", "saloon", "estate"]))).triangles, spot, yaw, label=Label.VEHICLE)
        elif pick == 3 and site.claim(spot, yaw, (1.3, 1.9), off="nothing"):
            site.put(fittings.goods(rng, 1.8, 1.1, 1.4), spot, yaw)
        elif pick == 4 and site.claim(spot, yaw, (0.5, 5.0), off="nothing"):
            path = np.column_stack([np.zeros(11), np.linspace(-2.5, 2.5, 11), np.zeros(11)])
            site.put(fence(rng, path, str(rng.choice(["rails", "mesh", "bars"]))), spot, yaw, label=Label.THIN)
        elif pick == 5 and site.claim(spot, yaw, (0.4, 0.6), off="nothing"):
            site.put(furniture.person(rng), spot, yaw)
    tall = rng.uniform(2.6, 3.4)
    spot = rng.choice([-1, 1], 2) * (size / 2 - [6.5, 3.0])
    if site.claim(spot, 0.0, (11.0, 4.0), off="nothing"):
        legs = np.array([[a, b, 0.0] for a in (-1.0, 5.0) for b in (-1.8, 1.8)])
        gallery = [boxes((2.0, 0, tall), (6.4, 4.0, 0.2)), beams(legs, legs + [0, 0, tall], 0.2, 10)]
        site.put(joined(*gallery, fittings.stairs(rng, tall) - [1.2 + 0.27 * int(tall / 0.19), 0, 0]), spot)


def _overhead(site: Site, size: np.ndarray, tall: float) -> None:
    """Add round ducts, lamps and a crane on its rails, all above the vehicles."""
    rng = site.rng
    for _ in range(int(rng.integers(2, 5))):
        z, r = rng.uniform(min(4.3, tall - 1.5), tall - 1.2), rng.uniform(0.15, 0.5)
        x, y = rng.uniform(-0.4, 0.4, 2) * size
        path = np.array([[-size[0] / 2, y, z], [x, y, z], [x, np.sign(y + 0.01) * size[1] / 2, z]])
        site.add(fittings.duct(rng, path, r))
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
