"""Bridges: decks that carry a road over a gap in the ground, their supports, and overpasses above a road."""

from __future__ import annotations

import numpy as np

from poli.data.simulate.places.curves import headings, lefts
from poli.data.simulate.places.fences import fence
from poli.data.simulate.places.place import Label
from poli.data.simulate.places.site import Site
from poli.data.simulate.places.solids import beams, boxes, joined, surface, swept, tube, turned

HANGERS = ("girder", "truss", "arch", "cables")
_UP = np.array([0.0, 0.0, 1.0])


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
        site.add(joined([surface(walk), surface(curb)]), Label.STRUCTURE)
        site.add(fence(rng, rim - side * 0.15 * lefts(line), str(rng.choice(["bars", "rails", "mesh"]))), Label.THIN)
        girder = np.array([[0.0, 0.0], [0.12, 0.0], [0.12, -0.35], [-0.25, -0.4], [-0.25, -1.1], [-0.9, -1.15], [-0.9, -0.4]])
        site.add(swept(rim, lefts(line) * side, girder), Label.STRUCTURE)
    under = strip(np.linspace(-edge, edge, 5), 0) - 0.45 * _UP
    site.add(surface(under), Label.STRUCTURE)
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
        site.add(boxes(head[None], [1.2, 1.7 * edge, 0.8], heading[k]), Label.STRUCTURE)
        if wall:
            center = np.array([*middle[k, :2], (low + top) / 2])
            site.add(boxes(center[None], [0.9, 1.1 * edge, top - low], heading[k]), Label.STRUCTURE)
        else:
            feet = np.array(
                [[*(middle[k] + s * 0.5 * edge * left[k])[:2], low] for s in (-1, 0, 1)][:: 2 if rng.random() < 0.5 else 1]
            )
            site.add(beams(feet, feet + (top - low) * _UP, rng.uniform(0.7, 1.3), 14), Label.STRUCTURE)


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
            parts.append(beams(a[:-1], b[1:], 0.12) if style == "truss" and len(a) > 1 else joined([]))
    site.add(joined(parts), Label.STRUCTURE)


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
        body.append(boxes(np.column_stack([np.full(9, x + 0.7), side * (bank + 0.6 * steps), 0.25 * steps - 0.6]), [1.4, 0.7, 1.6]))
        body.append(beams([[v, side * reach, -1.0] for v in (-0.35 * width, 0.35 * width)],
                          [[v, side * reach, clear + 0.1] for v in (-0.35 * width, 0.35 * width)], 0.6, 12))  # fmt: skip
    height = site.ground.road_height(line[at : at + 1])[0]
    shift = np.array([*line[at], height])
    site.add(turned(joined(body), yaw) + shift, Label.STRUCTURE)
    for side in (-1, 1):
        rail = path + [side * (x - 0.1), 0, clear + 0.9]
        site.add(turned(fence(rng, rail, "bars"), yaw) + shift, Label.THIN)
