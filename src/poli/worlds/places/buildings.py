"""Buildings: relief walls around a rectangle, a roof, and wall attachments. The front faces +y; the floor is z = 0."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from poli.worlds.places.solids import NOTHING, beams, boxes, copies, fan, from_quads, joined, lathe, surface, tube, turned

WALL, GLASS, MULLION, PILASTER = 0, 1, 2, 3  # kinds of columns
PLAIN, SILL, PANE, COURSE, CORNICE, PLINTH = 0, 1, 2, 3, 4, 5  # kinds of rows


def relief_wall(across: np.ndarray, up: np.ndarray, depth: np.ndarray) -> np.ndarray:  # (A + 1,), (B + 1,), (A, B)
    """Return a wall in the plane y = 0 facing +y, with rectangle (i, j) moved outwards by depth[i, j]."""
    x0, x1, z0, z1 = across[:-1], across[1:], up[:-1], up[1:]
    first, last, row = _runs(depth[..., None], np.ones(depth.shape, bool))
    y = depth[first, row]
    faces = _quads((x0[first], y, z0[row]), (x1[last], y, z0[row]), (x1[last], y, z1[row]), (x0[first], y, z1[row]))
    i, j = np.nonzero(depth[:-1] != depth[1:])
    x, a, b = x1[i], depth[i, j], depth[i + 1, j]
    upright = _quads((x, a, z0[j]), (x, b, z0[j]), (x, b, z1[j]), (x, a, z1[j]))
    pairs = np.stack([depth[:, :-1], depth[:, 1:]], axis=-1)
    first, last, row = _runs(pairs, pairs[..., 0] != pairs[..., 1])
    a, b, z = pairs[first, row, 0], pairs[first, row, 1], z1[row]
    level = _quads((x0[first], a, z), (x1[last], a, z), (x1[last], b, z), (x0[first], b, z))
    return from_quads(np.concatenate([faces, upright, level]))


def _quads(*corners: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:  # (N, 4, 3)
    return np.stack([np.stack(corner, axis=1) for corner in corners], axis=1)


def _runs(values: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (A, B, C), (A, B)
    """Merge neighboring columns of equal values: the first and last column of each run, and its row."""
    same = (values[1:] == values[:-1]).all(axis=-1) & wanted[1:] & wanted[:-1]
    gap = np.zeros((1, values.shape[1]), bool)
    starts, ends = wanted & ~np.concatenate([gap, same]), wanted & ~np.concatenate([same, gap])
    row, first = np.nonzero(starts.T)
    return first, np.nonzero(ends.T)[1], row


@dataclass(frozen=True)
class Style:
    """Style shared by the walls of one building (meters)."""

    storey: float
    bay: float
    window: tuple[float, float]  # width, height
    sill: float  # height above the floor
    recess: float
    pilaster: float
    course: float
    cornice: float
    plinth: float
    mullion: bool
    shop: bool  # large windows on the ground floor
    blind: float  # share of bays without a window

    @staticmethod
    def drawn(rng: np.random.Generator, grand: float = 0.5) -> Style:
        """Draw a style; `grand` buildings have taller stories and more decoration."""
        storey = rng.uniform(2.6, 3.3) + 0.6 * grand * rng.random()
        bay = rng.uniform(2.0, 3.8)
        some = lambda share, low, high: float(rng.uniform(low, high)) if rng.random() < share else 0.0  # noqa: E731
        return Style(
            storey=storey,
            bay=bay,
            window=(min(rng.uniform(0.8, 2.0), 0.7 * bay), rng.uniform(1.1, 0.65 * storey)),
            sill=rng.uniform(0.45, 0.95),
            recess=rng.uniform(0.08, 0.35),
            pilaster=some(grand, 0.06, 0.25),
            course=some(0.3 + 0.5 * grand, 0.04, 0.14),
            cornice=some(0.7, 0.1, 0.4),
            plinth=some(0.6, 0.04, 0.15),
            mullion=bool(rng.random() < 0.5),
            shop=bool(rng.random() < 0.25),
            blind=float(rng.uniform(0.0, 0.25)),
        )


def facade(
    rng: np.random.Generator, style: Style, width: float, storeys: int, door: bool, below: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return a wall facing +y, centered on x = 0, starting `below` meters under the floor, and the centers of its bays (n,)."""
    bays = max(1, round(width / style.bay))
    bay = width / bays
    pane = min(style.window[0], bay - 0.5)
    rest = 0.5 * (bay - pane)
    strip = min(0.45, 0.6 * rest)
    widths, kinds = [strip / 2], [PILASTER]
    for _ in range(bays):
        inner = [pane] if not style.mullion else [0.5 * pane - 0.04, 0.08, 0.5 * pane - 0.04]
        widths += [rest - strip / 2, *inner, rest - strip / 2, strip]
        kinds += [WALL, *([GLASS] if not style.mullion else [GLASS, MULLION, GLASS]), WALL, PILASTER]
    widths[-1] = strip / 2
    across = np.concatenate([[0.0], np.cumsum(widths)]) - width / 2
    columns = np.array(kinds)
    bay_of = np.clip(((across[:-1] + across[1:]) / 2 + width / 2) // bay, 0, bays - 1).astype(int)

    heights, rows, floor_of = [below + 0.35], [PLINTH], [0]
    for floor in range(storeys):
        low = style.sill - (0.35 if floor == 0 else 0.0)
        tall = min(style.window[1], style.storey - style.sill - 0.45)
        heights += [max(low - 0.08, 0.05), 0.08, tall, style.storey - style.sill - tall - 0.2, 0.2]
        rows += [PLAIN, SILL, PANE, PLAIN, COURSE if floor < storeys - 1 else CORNICE]
        floor_of += [floor] * 5
    up = np.concatenate([[0.0], np.cumsum(heights)]) - below
    row, floors = np.array(rows), np.array(floor_of)

    c, r = np.meshgrid(columns, row, indexing="ij")
    open_column = (c == GLASS) | (c == MULLION)
    depth = np.where(c == PILASTER, style.pilaster, 0.0)
    depth = np.maximum(depth, np.select([r == COURSE, r == CORNICE, r == PLINTH], [style.course, style.cornice, style.plinth], 0.0))
    seen = (rng.random((bays, storeys)) >= style.blind)[bay_of[:, None], floors[None]]  # (A, B)
    depth = np.where(open_column & (r == SILL) & seen, 0.07, depth)
    behind = np.where(c == MULLION, 0.05 - style.recess, -style.recess)
    depth = np.where(open_column & (r == PANE) & seen, behind, depth)
    if style.shop and door:
        wide = (c != PILASTER) & (floors == 0)[None] & ((r == PANE) | (r == SILL))
        depth = np.where(wide, -style.recess - 0.1, depth)
    if door:
        at = int(rng.integers(bays))
        opening = (
            open_column & (bay_of == at)[:, None] & (floors == 0)[None] & (r != COURSE) & (r != CORNICE) & (up[1:] < 2.7)[None]
        )
        depth = np.where(opening, -style.recess - 0.05, depth)
    return relief_wall(across, up, depth), (np.arange(bays) + 0.5) * bay - width / 2


def _slope(eave: np.ndarray, ridge: np.ndarray, tile: float, period: float) -> np.ndarray:  # (2, 3), (2, 3)
    """A sheet from an eave to a ridge. If `tile` is given, courses of round tiles run up the slope as waves of that height."""
    length = np.linalg.norm(eave[1] - eave[0])
    waves = max(2, int(length / period)) if tile > 0 else 1
    t = np.linspace(0.0, 1.0, 4 * waves + 1 if tile > 0 else 2)[:, None]
    low, high = eave[0] + t * (eave[1] - eave[0]), ridge[0] + t * (ridge[1] - ridge[0])
    normal = np.cross(eave[1] - eave[0], ridge.mean(axis=0) - eave.mean(axis=0))
    normal /= np.linalg.norm(normal)
    lift = tile * np.sin(2 * np.pi * waves * t) * normal
    return surface(np.stack([low + lift, 0.5 * (low + high) + lift, high + 0.7 * lift]))


def roof(rng: np.random.Generator, width: float, depth: float, kind: str) -> np.ndarray:
    """A roof over a rectangle centered on the origin, eaves at height zero, with tiles, gutters and chimneys."""
    if kind == "flat":
        return _flat(rng, width, depth)
    along_y = depth > width if kind == "hipped" else rng.random() < 0.25
    if along_y:
        return turned(_pitched(rng, depth, width, kind), np.pi / 2)
    return _pitched(rng, width, depth, kind)


def _pitched(rng: np.random.Generator, width: float, depth: float, kind: str) -> np.ndarray:
    over, pitch = rng.uniform(0.15, 0.6), np.deg2rad(rng.uniform(22, 50))
    tile = rng.uniform(0.02, 0.045) if rng.random() < 0.75 else 0.0
    period = rng.uniform(0.24, 0.45)
    hip = min(depth / 2, 0.45 * width) * (1.0 if kind == "hipped" else 0.0)
    x, y = width / 2 + over, depth / 2 + over
    eave, rise = -over * np.tan(pitch), depth / 2 * np.tan(pitch)
    top = x - (hip + over if hip else 0.0)
    corner = np.array([[x, y, eave], [-x, y, eave], [-x, -y, eave], [x, -y, eave]])
    ridge = np.array([[top, 0, rise], [-top, 0, rise]])
    parts = [_slope(corner[:2], ridge, tile, period), _slope(corner[2:], ridge[::-1], tile, period)]
    if hip:
        parts += [_slope(corner[[1, 2]], ridge[[1, 1]], tile, period), _slope(corner[[3, 0]], ridge[[0, 0]], tile, period)]
    else:
        gable = np.array([[width / 2, depth / 2, 0], [width / 2, -depth / 2, 0], [width / 2, 0, rise]])
        parts += [gable[None], (gable * [-1, 1, 1])[None]]
    for side in (y + 0.05, -y - 0.05):
        parts.append(tube([[-x, side, eave], [x, side, eave]], 0.07, 6))
    parts.append(tube(ridge + [[0.1, 0, 0.02], [-0.1, 0, 0.02]], 0.1, 6))
    parts += [_chimneys(rng, top, depth, rise), _dormers(rng, top, depth, rise, np.tan(pitch))]
    return joined(*parts)


def _chimneys(rng: np.random.Generator, reach: float, depth: float, rise: float) -> np.ndarray:
    n = int(rng.integers(0, 3))
    at = np.column_stack([rng.uniform(-0.8, 0.8, n) * reach, rng.uniform(-0.2, 0.2, n) * depth, np.full(n, rise - 0.1)])
    size = np.column_stack([rng.uniform(0.4, 1.1, n), rng.uniform(0.4, 0.7, n), rng.uniform(1.8, 3.4, n)])
    if n == 0:
        return NOTHING
    top = at + 0.5 * size * np.array([0.0, 0.0, 1.0])
    pots = copies(lathe([[0.13, 0.0], [0.12, 0.5]], 8), top)
    return joined(boxes(at, size), boxes(top, size * [1, 1, 0] + [0.15, 0.15, 0.12]), pots)


def _dormers(rng: np.random.Generator, reach: float, depth: float, rise: float, slope: float) -> np.ndarray:
    n = int(rng.integers(0, 4)) if rise > 3.0 and rng.random() < 0.6 else 0
    wide, tall = rng.uniform(1.2, 2.2), rng.uniform(1.3, 1.8)
    front = depth / 2 * rng.uniform(0.65, 0.85)
    floor = rise - front * slope
    parts = []
    for x in np.linspace(-0.7, 0.7, n) * reach if n > 1 else np.zeros(n):
        deep = front + 0.0
        w = wide / 2
        wall = np.array([[x - w, front, floor], [x + w, front, floor], [x + w, front, floor + tall], [x - w, front, floor + tall]])
        parts.append(fan(np.array([*wall[:3], [x, front, floor + tall + 0.5 * w], wall[3]])))
        parts.append(boxes([[x, front, floor + 0.5 * tall]], [1.3 * w, 0.12, 0.7 * tall]))
        for side in (-1, 1):
            edge = np.array([[x + side * w, front, floor], [x + side * w, front - deep * 0.5, floor + deep * 0.5 * slope]])
            parts.append(surface(np.stack([edge, np.column_stack([edge[:, :2], np.full(2, floor + tall)])])))
            eave = np.array([[x + side * 1.2 * w, front + 0.2, floor + tall - 0.1], [x + side * 1.2 * w, 0.1, floor + tall - 0.1]])
            ridge = np.array([[x, front + 0.2, floor + tall + 0.5 * w], [x, 0.1, floor + tall + 0.5 * w]])
            parts.append(surface(np.stack([eave, ridge])))
    return joined(*parts)


def _flat(rng: np.random.Generator, width: float, depth: float) -> np.ndarray:
    x, y, rim = width / 2, depth / 2, rng.uniform(0.2, 1.1)
    centers = np.array([[0, y - 0.15, rim / 2], [0, 0.15 - y, rim / 2], [x - 0.15, 0, rim / 2], [0.15 - x, 0, rim / 2]])
    sizes = np.array([[width, 0.3, rim], [width, 0.3, rim], [0.3, depth - 0.6, rim], [0.3, depth - 0.6, rim]])
    top = surface(np.array([[[-x, -y, 0.05], [x, -y, 0.05]], [[-x, y, 0.05], [x, y, 0.05]]]))
    n = int(rng.integers(1, 6))
    huts = np.column_stack([rng.uniform(0.8, 0.35 * width, n), rng.uniform(0.8, 0.35 * depth, n), rng.uniform(0.6, 3.0, n)])
    at = np.column_stack([rng.uniform(-0.3, 0.3, (n, 2)) * [width, depth], huts[:, 2] / 2])
    return joined(boxes(centers, sizes), top, boxes(at, huts, rng.normal(0, 0.02, n)))


_BELOW = 4.0  # how far walls extend below the floor, which avoids gaps on slopes


def building(
    rng: np.random.Generator,
    width: float,
    depth: float,
    storeys: int,
    roof_kind: str,
    grand: float = 0.5,
    balconies: float = 0.2,
    plain: bool = False,
) -> np.ndarray:
    """Return the triangles of a building. `plain` omits details too small to be seen from far away."""
    style = Style.drawn(rng, grand)
    if plain:
        style, balconies = replace(style, mullion=False, pilaster=0.0), 0.0
    parts = []
    for side in range(4):
        wide, out = (width, depth / 2) if side % 2 == 0 else (depth, width / 2)
        look = replace(style, mullion=False, pilaster=0.0) if side == 2 else style  # backs are plain
        wall, bays = facade(rng, look, wide, storeys, door=side == 0 or rng.random() < 0.2, below=_BELOW)
        things = [wall]
        if side != 1 and rng.random() < balconies:
            things.append(_balconies(rng, style, bays, wide / len(bays), storeys))
        if rng.random() < 0.7:
            things.append(_downpipes(rng, wide, storeys * style.storey))
        parts.append(turned(joined(*things) + [0, out, 0], side * np.pi / 2))
    top = storeys * style.storey
    parts.append(roof(rng, width, depth, roof_kind) + [0, 0, top])
    parts.append(_entrance(rng, depth / 2))
    if rng.random() < 0.35 and depth > 6:
        parts.append(_bay_window(rng, width, depth, min(storeys, int(rng.integers(1, 4))) * style.storey))
    return joined(*parts)


def _balconies(rng: np.random.Generator, style: Style, bays: np.ndarray, bay: float, storeys: int) -> np.ndarray:
    """Slabs with railings of bars or panels, in some columns of bays, from the second story up."""
    chosen = bays[rng.random(len(bays)) < rng.uniform(0.25, 0.9)]
    if not len(chosen) or storeys < 2:
        return joined()
    deep, wide = rng.uniform(0.8, 1.8), min(0.9 * bay, rng.uniform(1.6, 3.4))
    x, z = (v.ravel() for v in np.meshgrid(chosen, np.arange(1, storeys) * style.storey))
    n, half = len(x), wide / 2
    slabs = boxes((x, deep / 2, z), [wide, deep, 0.18])
    corners = np.array([[-half, 0.05, 0], [-half, deep - 0.05, 0], [half, deep - 0.05, 0], [half, 0.05, 0]])
    base = np.column_stack([x, np.zeros(n), z + 0.09])[:, None]
    if rng.random() < 0.45:  # panels
        rim = base + corners
        sheets = [surface(np.stack([r, r + [0, 0, 0.95]])) for r in rim]
        return joined(slabs, *sheets, *[s * [0.97, 0.98, 1.0] + s.mean(axis=(0, 1)) * [0.03, 0, 0] for s in sheets[:4]])
    feet = [np.linspace(a, b, max(2, int(np.linalg.norm(b - a) / 0.16)))[:-1] for a, b in pairwise(corners)]
    feet_all = (base + np.concatenate([*feet, corners[-1:]])).reshape(-1, 3)
    rails_from, rails_to = (base + corners[:-1] + [0, 0, 0.95]).reshape(-1, 3), (base + corners[1:] + [0, 0, 0.95]).reshape(-1, 3)
    return joined(slabs, beams(feet_all, feet_all + [0, 0, 0.95], 0.03, 3), beams(rails_from, rails_to, 0.06))


def _downpipes(rng: np.random.Generator, width: float, top: float) -> np.ndarray:
    spots = np.array([-1, 1]) * (width / 2 - rng.uniform(0.15, 0.6))
    pipes = [tube([[x, 0.12, -0.5], [x, 0.12, top - 0.5], [x, 0.4, top]], 0.055, 6) for x in spots[: rng.integers(1, 3)]]
    return joined(*pipes)


def _entrance(rng: np.random.Generator, front: float) -> np.ndarray:
    """Steps, sometimes with a canopy on columns."""
    x, wide, steps = rng.normal(0, 1.0), rng.uniform(1.4, 3.0), int(rng.integers(1, 4))
    k = np.arange(steps)
    flights = boxes((x, front + 0.5 - 0.0 * k, np.full(steps, -0.8) + 0.15 * k), (wide, 0.3 * (steps - k) + 0.8, 1.6))
    if rng.random() < 0.5:
        return flights
    deep = rng.uniform(0.9, 1.5)
    canopy = boxes([[x, front + deep / 2, 2.8]], [wide + 0.5, deep, 0.15])
    feet = np.array([[x - wide / 2, front + deep - 0.15, -1.0], [x + wide / 2, front + deep - 0.15, -1.0]])
    return joined(flights, canopy, beams(feet, feet + [0, 0, 3.75], rng.uniform(0.1, 0.3), 10))


def _bay_window(rng: np.random.Generator, width: float, depth: float, top: float) -> np.ndarray:
    """A curved or polygonal bay window on the front."""
    radius, flat, sides = rng.uniform(1.0, 1.8), rng.uniform(0.4, 0.9), int(rng.choice([3, 4, 10]))
    angle = np.linspace(0, np.pi, sides + 1)
    x = rng.uniform(-0.3, 0.3) * width
    rim = np.column_stack([x + radius * np.cos(angle), depth / 2 + flat * radius * np.sin(angle)])
    levels = np.array([-1.5, 0.6, 0.65, top - 0.3, top - 0.25, top])
    swell = np.array([1.0, 1.0, 0.94, 0.94, 1.08, 1.08])
    middle = np.array([x, depth / 2])
    rings = np.stack(
        [np.column_stack([middle + s * (rim - middle), np.full(len(rim), z)]) for s, z in zip(swell, levels, strict=True)]
    )
    peak = np.broadcast_to([x, depth / 2, top + 0.5 * radius], rings[-1].shape)
    return joined(surface(rings), surface(np.stack([rings[-1], peak])))
