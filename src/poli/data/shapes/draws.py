"""Random directions, rotations, curves and outlines for generating shapes."""

import numpy as np


def chance(rng: np.random.Generator, probability: float) -> bool:
    return bool(rng.random() < probability)


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """Log-uniform draw: every ratio is equally likely, for lengths that span several scales."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def direction(rng: np.random.Generator) -> np.ndarray:  # (3,)
    vector = rng.normal(size=3)
    return vector / np.linalg.norm(vector)


def rotation(rng: np.random.Generator) -> np.ndarray:  # (3, 3)
    w, x, y, z = (q := rng.normal(size=4)) / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def smooth_curve(control: np.ndarray, count: int) -> np.ndarray:  # (K, D) -> (count, D)
    """Return a Catmull-Rom curve through the control points."""
    padded = np.concatenate([2 * control[:1] - control[1:2], control, 2 * control[-1:] - control[-2:-1]])
    position = np.linspace(0.0, len(control) - 1.0, count)
    piece = np.minimum(position.astype(int), len(control) - 2)
    t = (position - piece)[:, None]
    before, start, end, after = (padded[piece + offset] for offset in range(4))
    slope, next_slope = 0.5 * (end - before), 0.5 * (after - start)
    return start + t * slope + t**2 * (3 * (end - start) - 2 * slope - next_slope) + t**3 * (2 * (start - end) + slope + next_slope)


def outline(rng: np.random.Generator, radius: float) -> np.ndarray:  # (K, 2)
    """Return a closed outline around the origin: a polygon, a star or gear, or a smooth blob."""
    kind = rng.choice(["polygon", "star", "gear", "blob", "cross"])
    if kind == "polygon":
        angles = np.sort(rng.uniform(0.0, 2 * np.pi, rng.integers(3, 9)))
        angles = angles[0] + 2 * np.pi * np.arange(len(angles)) / len(angles) if chance(rng, 0.5) else angles
        radii = rng.uniform(0.6, 1.0, len(angles)) if chance(rng, 0.5) else np.ones(len(angles))
    elif kind == "star":
        tips = int(rng.integers(4, 9))
        angles = np.pi * np.arange(2 * tips) / tips
        radii = np.tile([1.0, rng.uniform(0.35, 0.75)], tips)
    elif kind == "gear":
        teeth = int(rng.integers(6, 15))
        angles = (np.arange(teeth)[:, None] + np.array([0.0, 0.12, 0.45, 0.57])).ravel() * 2 * np.pi / teeth
        radii = np.tile([rng.uniform(0.7, 0.88), 1.0, 1.0, 0.0], teeth)
        radii[3::4] = radii[0]
    elif kind == "blob":
        angles = np.linspace(0.0, 2 * np.pi, 60, endpoint=False)
        waves = [rng.normal(0.0, 0.16 / k) * np.cos(k * angles + rng.uniform(0, 2 * np.pi)) for k in range(2, 7)]
        radii = np.clip(0.75 + np.sum(waves, axis=0), 0.3, 1.1)
    else:
        arm, width = 1.0, rng.uniform(0.12, 0.4)
        corners = [
            (arm, -width),
            (arm, width),
            (width, width),
            (width, arm * rng.uniform(0.5, 1.0)),
            (-width, arm),
            (-width, width),
        ]
        corners += [(-arm, width), (-arm, -width), (-width, -width), (-width, -arm), (width, -arm), (width, -width)]
        is_cross = chance(rng, 0.5)
        return radius * np.array(corners if is_cross else corners[:5] + [(-width, -width)])  # otherwise an angle section
    return radius * radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def turned_profile(rng: np.random.Generator, half_height: float, widest: float) -> np.ndarray:  # (K, 2) of radius and height
    """Half section of a vase, baluster or spindle; half of all draws have sharp steps."""
    rings = int(rng.integers(4, 9))
    heights = np.sort(rng.uniform(-1.0, 1.0, rings))
    heights[[0, -1]] = -1.0, 1.0
    knots = np.stack([widest * rng.uniform(0.2, 1.0, rings), half_height * heights], axis=1)
    if chance(rng, 0.5):
        side = smooth_curve(knots, 60)
    else:
        side = np.repeat(knots, 2, axis=0)
        side[1:-1:2, 1] = knots[1:, 1] if chance(rng, 0.5) else side[1:-1:2, 1]  # square steps or slopes
    side[:, 0] = np.clip(side[:, 0], 0.05 * widest, 1.2 * widest)
    return np.concatenate([[[0.0, side[0, 1]]], side, [[0.0, side[-1, 1]]]])
