"""A corridor with turns: walls with doors, niches and side rooms; a ceiling with beams, panels or a vault; pipes and furniture."""

from __future__ import annotations

import numpy as np

from poli.worlds.places import fittings
from poli.worlds.places import street_objects as furniture
from poli.worlds.places.buildings import relief_wall
from poli.worlds.places.geometry import boxes, joined, resampled, smoothed, surface, tube, turned
from poli.worlds.places.ground import Label
from poli.worlds.places.hall import indoor_site
from poli.worlds.places.site import Place, Site
from poli.worlds.places.trees import bush


def corridor(rng: np.random.Generator, kind: str, seed: int) -> Place:
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
    edges, depth_low, depth_high, door_top = [0.0], [], [], min(2.1, tall - 0.6)
    limit = max(length - 0.8, 0.5)
    while edges[-1] < limit:
        plain = rng.uniform(0.4, 2.5)
        edges.append(min(edges[-1] + plain, length))
        depth_low.append(0.0)
        depth_high.append(0.0)
        width = rng.uniform(0.8, 1.9)
        if edges[-1] + width > limit:
            break
        pick = rng.random()
        deep = (
            -rng.uniform(0.06, 0.3)
            if pick < 0.5
            else -rng.uniform(0.4, 1.1)
            if pick < 0.7
            else -rng.uniform(2.0, 4.5)
            if pick < 0.8
            else 0.12
        )
        frame = 0.08 if pick < 0.5 else 0.0
        for part, step in ((frame, 0.04), (width, deep), (frame, 0.04)):
            if part:
                edges.append(edges[-1] + part)
                depth_low.append(step)
                depth_high.append(step if step in (0.04, 0.12) else 0.0)
    if edges[-1] < length:
        edges.append(length)
        depth_low.append(0.0)
        depth_high.append(0.0)
    skirting = np.where(np.array(depth_low) == 0.0, 0.02, depth_low)
    rows = np.array([-0.15, -0.01, 0.12, door_top, door_top + 0.08, tall])  # the lowest row is below the floor and closes niches
    over = np.where(np.array(depth_low) < 0, 0.04, depth_low)
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
        curve = np.concatenate(
            [
                left[:, None] + (0.5 - 0.5 * np.cos(angle))[None, :, None] * (right - left)[:, None],
                np.broadcast_to((tall - 0.02 + rise * np.sin(angle))[None, :, None], (20, 15, 1)),
            ],
            axis=-1,
        )
        site.add(surface(curve))
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
        low, high = part.reshape(-1, 3).min(axis=0), part.reshape(-1, 3).max(axis=0)
        deep, wide = high[0] + off, high[1] - low[1]
        spot = a + (s + wide / 2) * way
        if (
            s + wide < length - 0.3
            and deep < half - 1.5
            and site.claim(spot + normal * deep / 2, yaw, (max(deep - 0.5, 0.05), wide - 0.4), off="nothing")
        ):
            site.add(turned(part, yaw) + np.array([*(spot + off * normal), 0.0]))
            if wide < 0.9 and rng.random() < 0.3:  # a plant next to it
                leaves = bush(rng, 160).leaves * 0.4 + np.array([0.0, 0.0, rng.uniform(0.2, 1.0)])
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
        return (fittings.radiator, fittings.cabinet, fittings.extinguisher, fittings.cabinet)[pick](rng), 0.02
    if pick == 4:
        deep = min(0.45, room - 0.1)
        return fittings.rack(rng, rng.uniform(1.0, 3.0), deep, rng.uniform(1.0, 2.2)), deep / 2 + 0.06
    if pick == 5:
        return fittings.column(rng, tall), 0.25
    if pick == 6:
        return furniture.bench(rng), 0.42
    return (furniture.bin_, furniture.person)[pick - 7](rng), 0.35
