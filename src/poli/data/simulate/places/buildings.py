"""Buildings: relief walls around a rectangle, a roof, and wall attachments. The front faces +y; the floor is z = 0."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from poli.data.simulate.places.facades import Style, facade
from poli.data.simulate.places.roofs import roof
from poli.data.simulate.places.solids import beams, boxes, joined, surface, tube, turned

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
        parts.append(turned(joined(things) + [0, out, 0], side * np.pi / 2))
    top = storeys * style.storey
    parts.append(roof(rng, width, depth, roof_kind) + [0, 0, top])
    parts.append(_entrance(rng, depth / 2))
    if rng.random() < 0.35 and depth > 6:
        parts.append(_bay_window(rng, width, depth, min(storeys, int(rng.integers(1, 4))) * style.storey))
    return joined(parts)


def _balconies(rng: np.random.Generator, style: Style, bays: np.ndarray, bay: float, storeys: int) -> np.ndarray:
    """Slabs with railings of bars or panels, in some columns of bays, from the second story up."""
    chosen = bays[rng.random(len(bays)) < rng.uniform(0.25, 0.9)]
    if not len(chosen) or storeys < 2:
        return joined([])
    deep, wide = rng.uniform(0.8, 1.8), min(0.9 * bay, rng.uniform(1.6, 3.4))
    x, z = (v.ravel() for v in np.meshgrid(chosen, np.arange(1, storeys) * style.storey))
    n, half = len(x), wide / 2
    slabs = boxes(np.column_stack([x, np.full(n, deep / 2), z]), [wide, deep, 0.18])
    corners = np.array([[-half, 0.05, 0], [-half, deep - 0.05, 0], [half, deep - 0.05, 0], [half, 0.05, 0]])
    base = np.column_stack([x, np.zeros(n), z + 0.09])[:, None]
    if rng.random() < 0.45:  # panels
        rim = base + corners
        sheets = [surface(np.stack([r, r + [0, 0, 0.95]])) for r in rim]
        return joined([slabs, *sheets, *[s * [0.97, 0.98, 1.0] + s.mean(axis=(0, 1)) * [0.03, 0, 0] for s in sheets[:4]]])
    feet = [np.linspace(a, b, max(2, int(np.linalg.norm(b - a) / 0.16)))[:-1] for a, b in pairwise(corners)]
    feet_all = (base + np.concatenate([*feet, corners[-1:]])).reshape(-1, 3)
    rails_from, rails_to = (base + corners[:-1] + [0, 0, 0.95]).reshape(-1, 3), (base + corners[1:] + [0, 0, 0.95]).reshape(-1, 3)
    return joined([slabs, beams(feet_all, feet_all + [0, 0, 0.95], 0.03, 3), beams(rails_from, rails_to, 0.06)])


def _downpipes(rng: np.random.Generator, width: float, top: float) -> np.ndarray:
    spots = np.array([-1, 1]) * (width / 2 - rng.uniform(0.15, 0.6))
    pipes = [tube(np.array([[x, 0.12, -0.5], [x, 0.12, top - 0.5], [x, 0.4, top]]), 0.055, 6) for x in spots[: rng.integers(1, 3)]]
    return joined(pipes)


def _entrance(rng: np.random.Generator, front: float) -> np.ndarray:
    """Steps, sometimes with a canopy on columns."""
    x, wide, steps = rng.normal(0, 1.0), rng.uniform(1.4, 3.0), int(rng.integers(1, 4))
    k = np.arange(steps)
    flights = boxes(
        np.column_stack([np.full(steps, x), front + 0.5 - 0.0 * k, np.full(steps, -0.8) + 0.15 * k]),
        np.column_stack([np.full(steps, wide), 0.3 * (steps - k) + 0.8, np.full(steps, 1.6)]),
    )
    if rng.random() < 0.5:
        return flights
    deep = rng.uniform(0.9, 1.5)
    canopy = boxes([[x, front + deep / 2, 2.8]], [wide + 0.5, deep, 0.15])
    feet = np.array([[x - wide / 2, front + deep - 0.15, -1.0], [x + wide / 2, front + deep - 0.15, -1.0]])
    return joined([flights, canopy, beams(feet, feet + [0, 0, 3.75], rng.uniform(0.1, 0.3), 10)])


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
    return joined([surface(rings), surface(np.stack([rings[-1], peak]))])
