"""Statues: a figure on a base, often in a robe that hangs in folds."""

import numpy as np

from poli.data.shapes import relief
from poli.data.shapes.combine import embossed, intersection, union
from poli.data.shapes.creatures import add_biped, creature
from poli.data.shapes.draws import chance, log_uniform, outline, smooth_curve
from poli.data.shapes.implicit import Field, ellipsoid, extrusion, revolution, rounded_box
from poli.data.shapes.skeleton import Skeleton


def statue(rng: np.random.Generator) -> Field:
    if chance(rng, 0.3):
        figure = creature(rng)
        return union([figure, _base(rng, -0.62)], 0.03)
    skeleton = Skeleton()
    add_biped(skeleton, rng)
    parts = [skeleton.figure(rng, log_uniform(rng, 0.03, 0.1))]
    if chance(rng, 0.8):
        parts.append(_robe(rng))
    if chance(rng, 0.4):  # a belly
        radii = rng.uniform(0.16, 0.28, 3)
        parts.append(lambda points: ellipsoid(radii)(points - np.array([0.0, -0.08, 0.12])))
    whole = union(parts, rng.uniform(0.02, 0.07))
    if chance(rng, 0.5):
        axis = np.array([rng.normal(0, 0.6), rng.normal(0, 0.3), 1.0])
        wavelength = log_uniform(rng, 0.07, 0.25)
        whole = embossed(whole, relief.folds(rng, wavelength, axis / np.linalg.norm(axis), 0.8, 1.5), 0.1 * wavelength)
    return union([whole, _base(rng, -0.8)], 0.02)


def _robe(rng: np.random.Generator) -> Field:
    """A robe from the shoulders or hips to the ground, wider at the bottom, with pleats that deepen downwards."""
    top, bottom, wide = rng.uniform(0.0, 0.5), -0.82, rng.uniform(0.25, 0.5)
    heights = np.linspace(top, bottom, 5)
    widths = np.linspace(0.14, wide, 5) * rng.uniform(0.85, 1.15, 5)
    side = smooth_curve(np.stack([widths, heights], axis=1), 24)
    cloth = revolution(np.concatenate([[[0.0, top]], side, [[0.0, bottom]]]))
    if chance(rng, 0.5):  # hollow at the bottom: the hem is a thin sheet around the legs
        thickness = rng.uniform(0.05, 0.09)
        solid = cloth
        hem = bottom + 0.04

        def hollow(points: np.ndarray) -> np.ndarray:
            d = solid(points)
            return np.maximum(np.maximum(d, -d - thickness), hem - points[:, 2])

        cloth = hollow
    depth = rng.uniform(0.02, 0.06)
    flat = rng.uniform(0.55, 1.0)
    waves = relief.pleats(rng, int(rng.integers(6, 22)))

    def draped(points: np.ndarray) -> np.ndarray:
        squeezed = points * np.array([1.0, 1.0 / flat, 1.0])  # people are wider than deep
        deeper = np.clip((top - points[:, 2]) / (top - bottom), 0.1, 1.0)
        return flat * (cloth(squeezed) - depth * deeper * waves(points))

    return draped


def _base(rng: np.random.Generator, ground: float) -> Field:
    """A plinth, a drum, a polygonal step or a rock."""
    half_height, radius = rng.uniform(0.04, 0.14), rng.uniform(0.35, 0.6)
    kind = rng.choice(["plinth", "steps", "polygon", "rock"])
    if kind == "plinth":
        solid = rounded_box(np.array([radius, radius * rng.uniform(0.6, 1.0), half_height]), 0.01)
    elif kind == "steps":
        steps = np.array([[0, 1], [0.75, 1], [0.75, 0.2], [0.9, 0.2], [0.9, -0.4], [1, -0.4], [1, -1], [0, -1]])
        solid = revolution(steps * np.array([radius, half_height]))
    elif kind == "polygon":
        solid = extrusion(outline(rng, radius), half_height)
    else:
        rock = embossed(ellipsoid(np.array([radius, radius, 2.0 * half_height])), relief.ridges(rng, 0.35, 3), 0.03)
        solid = intersection(rock, lambda points: -points[:, 2] - half_height, 0.01)
    return lambda points: solid(points - np.array([0.0, 0.0, ground - half_height]))
