"""Trees, conifers, bushes and hedges: wood as tapered tubes, foliage as small folded leaf clusters with gaps that rays pass
through."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.worlds.places.geometry import NOTHING, from_quads, joined, surface, tube


@dataclass(frozen=True)
class Tree:
    wood: np.ndarray  # (F, 3, 3)
    leaves: np.ndarray  # (G, 3, 3)


def leaf_clusters(rng: np.random.Generator, centers: np.ndarray, sizes: np.ndarray) -> np.ndarray:  # (N, 3), (N,)
    """One randomly rotated square per center, folded along its diagonal."""
    n = len(centers)
    first = rng.normal(size=(n, 3))
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    second = np.cross(first, rng.normal(size=(n, 3)))
    second /= np.linalg.norm(second, axis=1, keepdims=True)
    up = np.cross(first, second) * (sizes * rng.uniform(-0.3, 0.3, n))[:, None]
    a, b = first * sizes[:, None] / 2, second * (sizes * rng.uniform(0.5, 1.0, n))[:, None] / 2
    return from_quads(np.stack([centers - a - b, centers + a - b + up, centers + a + b, centers - a + b + up], axis=1))


def _in_blobs(rng: np.random.Generator, centers: np.ndarray, radii: np.ndarray, count: int) -> np.ndarray:  # (B, 3), (B, 3)
    """Points in ellipsoids, concentrated near the surface as leaves are."""
    which = rng.choice(len(centers), count, p=radii.prod(axis=1) ** 0.7 / (radii.prod(axis=1) ** 0.7).sum())
    direction = rng.normal(size=(count, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return centers[which] + radii[which] * direction * (rng.random(count) ** 0.22)[:, None]


def broadleaf(rng: np.random.Generator, leaves: int) -> Tree:
    height = rng.uniform(4.5, 13.0)
    bare = height * rng.uniform(0.25, 0.42)
    thick = height * rng.uniform(0.013, 0.026)
    bend = np.cumsum(rng.normal(0, 0.025 * height, (6, 2)), axis=0) * np.linspace(0, 1, 6)[:, None]
    z = np.linspace(-0.5, 0.85 * height, 6)
    trunk = np.column_stack([bend, z])
    wood = [tube(trunk, thick * np.array([1.6, 1.1, 0.9, 0.7, 0.45, 0.2]), 9)]
    reach = height * rng.uniform(0.2, 0.34)
    n = int(rng.integers(4, 9))
    angle = rng.uniform(0, 2 * np.pi) + np.arange(n) * 2.4
    start_z = np.linspace(bare, 0.7 * height, n)
    starts = np.column_stack([np.interp(start_z, z, trunk[:, 0]), np.interp(start_z, z, trunk[:, 1]), start_z])
    out = reach * rng.uniform(0.5, 1.0, n)
    ends = starts + np.column_stack([out * np.cos(angle), out * np.sin(angle), rng.uniform(0.3, 0.9, n) * out])
    for a, b in zip(starts, ends, strict=True):
        knee = 0.5 * (a + b) + [0, 0, -0.12 * np.linalg.norm(b - a)]
        wood.append(tube(np.stack([a, knee, b]), thick * np.array([0.45, 0.3, 0.1]), 6))
    blobs = np.concatenate([ends, trunk[-2:]])
    radii = reach * rng.uniform(0.4, 0.75, (len(blobs), 1)) * np.array([1, 1, rng.uniform(0.7, 1.2)])
    centers = _in_blobs(rng, blobs, radii, leaves)
    centers = centers[centers[:, 2] > 0.7 * bare]
    return Tree(joined(*wood), leaf_clusters(rng, centers, rng.uniform(0.13, 0.32, len(centers))))


def conifer(rng: np.random.Generator, leaves: int) -> Tree:
    height, spread = rng.uniform(5, 15), rng.uniform(0.14, 0.24)
    trunk = tube(np.array([[0, 0, -0.5], [0, 0, height]]), np.array([0.022, 0.004]) * height, 8)
    low = rng.uniform(0.05, 0.2) * height
    t = 1 - np.sqrt(rng.random(leaves))  # most needles are low on the cone
    tier = 0.7 + 0.3 * np.cos(2 * np.pi * t * rng.integers(6, 14))
    r = spread * height * (1 - t) * tier * rng.random(leaves) ** 0.35
    angle = rng.uniform(0, 2 * np.pi, leaves)
    centers = np.column_stack([r * np.cos(angle), r * np.sin(angle), low + t * (height - low) - 0.25 * r])
    return Tree(trunk, leaf_clusters(rng, centers, rng.uniform(0.08, 0.28, leaves)))


def bare_tree(rng: np.random.Generator) -> Tree:
    """A tree without leaves: boughs, branches and twigs."""
    height = rng.uniform(4, 9)
    ends, wood = [(np.array([0.0, 0, -0.4]), np.array([0.0, 0, 0.35 * height]), 0.02 * height)], []
    for _ in range(4):
        grown = []
        for a, b, r in ends:
            wood.append(tube(np.stack([a, b]), np.array([r, 0.75 * r]), 6))
            for _ in range(int(rng.integers(2, 4))):
                way = (b - a) / np.linalg.norm(b - a) + rng.normal(0, 0.55, 3) + [0, 0, 0.25]
                grown.append((b, b + way / np.linalg.norm(way) * 0.22 * height * rng.uniform(0.7, 1.1), 0.55 * r))
        ends = grown
    return Tree(joined(*wood), NOTHING)


def bush(rng: np.random.Generator, leaves: int = 160) -> Tree:
    radii = rng.uniform(0.4, 1.1, 3) * np.array([1, 1, 0.8])
    centers = _in_blobs(rng, np.array([[0, 0, 0.6 * radii[2]]]), radii[None], leaves)
    return Tree(NOTHING, leaf_clusters(rng, centers[centers[:, 2] > 0], rng.uniform(0.08, 0.22, int((centers[:, 2] > 0).sum()))))


def hedge(rng: np.random.Generator, path: np.ndarray) -> np.ndarray:  # (K, 3) on the ground, about half a meter apart
    """A clipped hedge: a rough, dense core with protruding leaf clusters."""
    wide, tall = rng.uniform(0.25, 0.5), rng.uniform(0.7, 1.9)
    forward = np.gradient(path, axis=0)
    left = np.column_stack([-forward[:, 1], forward[:, 0], np.zeros(len(path))])
    left /= np.linalg.norm(left, axis=1, keepdims=True)
    profile = np.array(
        [[-1.0, -0.1], [-1.0, 0.3], [-0.95, 0.7], [-0.7, 1.0], [0.0, 1.03], [0.7, 1.0], [0.95, 0.7], [1.0, 0.3], [1.0, -0.1]]
    )
    skin = path[:, None] + wide * profile[None, :, :1] * left[:, None] + tall * profile[None, :, 1:] * np.array([0, 0, 1.0])
    skin = skin + rng.normal(0, 0.05, skin.shape)
    spots = skin[:-1][rng.random(skin[:-1].shape[:2]) < 0.8] + rng.normal(0, 0.12, 3)
    return joined(surface(skin), leaf_clusters(rng, spots + rng.normal(0, 0.08, spots.shape), rng.uniform(0.08, 0.2, len(spots))))


def grove(rng: np.random.Generator, count: int, leaves: int, conifers: float = 0.2, bare: float = 0.1) -> list[Tree]:
    """`count` different trees."""
    draws = rng.random(count)
    return [
        conifer(rng, leaves) if d < conifers else bare_tree(rng) if d < conifers + bare else broadleaf(rng, leaves) for d in draws
    ]
