"""Relief walls: a grid of rectangles, each in front of or behind the wall's plane, with the faces that connect them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.data.simulate.places.solids import from_quads

WALL, GLASS, MULLION, PILASTER = 0, 1, 2, 3  # kinds of columns
PLAIN, SILL, PANE, COURSE, CORNICE, PLINTH = 0, 1, 2, 3, 4, 5  # kinds of rows


def relief_wall(across: np.ndarray, up: np.ndarray, depth: np.ndarray) -> np.ndarray:  # (A + 1,), (B + 1,), (A, B)
    """Return a wall in the plane y = 0 facing +y, with rectangle (i, j) moved outwards by depth[i, j]."""

    x0, x1, z0, z1 = across[:-1], across[1:], up[:-1], up[1:]
    first, last, row = _runs(depth[..., None], np.ones(depth.shape, bool))
    faces = _quads([(x0[first], z0[row]), (x1[last], z0[row]), (x1[last], z1[row]), (x0[first], z1[row])], depth[first, row])
    i, j = np.nonzero(depth[:-1] != depth[1:])
    x, a, b = x1[i], depth[i, j], depth[i + 1, j]
    upright = np.stack([np.stack(c, axis=1) for c in ((x, a, z0[j]), (x, b, z0[j]), (x, b, z1[j]), (x, a, z1[j]))], axis=1)
    pairs = np.stack([depth[:, :-1], depth[:, 1:]], axis=-1)
    first, last, row = _runs(pairs, pairs[..., 0] != pairs[..., 1])
    a, b, z = pairs[first, row, 0], pairs[first, row, 1], z1[row]
    corners = ((x0[first], a, z), (x1[last], a, z), (x1[last], b, z), (x0[first], b, z))
    level = np.stack([np.stack(c, axis=1) for c in corners], axis=1)
    return from_quads(np.concatenate([faces, upright, level]))


def _quads(corners: list[tuple[np.ndarray, np.ndarray]], depth: np.ndarray) -> np.ndarray:
    return np.stack([np.stack([x, depth, z], axis=1) for x, z in corners], axis=1)


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
