"""Surface patterns in about -1 to 1 (fractal noise, ridges, scales, folds of cloth), and skins made of them."""

from __future__ import annotations

import numpy as np

from poli.kernel import kernel
from poli.worlds.shapes.fields import Field, embossed, warped


def chance(rng: np.random.Generator, probability: float) -> bool:
    """True with this probability."""
    return bool(rng.random() < probability)


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """Log-uniform draw: every ratio is equally likely, for lengths that span several scales."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def direction(rng: np.random.Generator) -> np.ndarray:  # (3,)
    """A random unit vector."""
    vector = rng.normal(size=3)
    return vector / np.linalg.norm(vector)


def rotation(rng: np.random.Generator) -> np.ndarray:  # (3, 3)
    """A random rotation."""
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


def fractal(rng: np.random.Generator, wavelength: float, octaves: int, gain: float = 0.5) -> Field:
    """Fractal noise."""
    seed = int(rng.integers(1 << 31))
    return lambda points: fractal_noise(points, 1.0 / wavelength, octaves, gain, False, seed)


def ridges(rng: np.random.Generator, wavelength: float, octaves: int, gain: float = 0.5) -> Field:
    """Sharp crests between rounded valleys: wrinkles, rock."""
    seed = int(rng.integers(1 << 31))
    return lambda points: fractal_noise(points, 1.0 / wavelength, octaves, gain, True, seed)


def scales(rng: np.random.Generator, wavelength: float) -> Field:
    """Rounded cells with grooves between them: scales, pebbles, curls of hair."""
    seed = int(rng.integers(1 << 31))
    return lambda points: cell_noise(points, 1.0 / wavelength, seed)


def folds(rng: np.random.Generator, wavelength: float, direction: np.ndarray, wander: float = 0.6, sharpness: float = 1.0) -> Field:
    """Nearly parallel waves across `direction` that wander by `wander` wavelengths; `sharpness` narrows the crests."""
    drift = fractal(rng, 4.0 * wavelength, 2)
    phase = rng.uniform(0.0, 2.0 * np.pi)

    def pattern(points: np.ndarray) -> np.ndarray:
        turn = 2.0 * np.pi * (points @ direction / wavelength + 2.0 * wander * drift(points)) + phase
        return 2.0 * (0.5 + 0.5 * np.cos(turn)) ** sharpness - 1.0

    return pattern


def pleats(rng: np.random.Generator, count: int, wander: float = 0.4) -> Field:
    """Folds that hang around the z axis, as in a skirt."""
    drift = fractal(rng, 0.6, 2)
    phase, lean = rng.uniform(0.0, 2.0 * np.pi), rng.normal(0.0, 0.5)

    def pattern(points: np.ndarray) -> np.ndarray:
        angle = np.arctan2(points[:, 1], points[:, 0])
        # An integer number of waves around the axis avoids a seam; the second wave breaks the regularity.
        first = np.sin(count * angle + phase + lean * points[:, 2] + 4.0 * wander * drift(points))
        second = np.sin((count // 2 + 1) * angle + 2.0 * phase - lean * points[:, 2])
        return 0.65 * first + 0.35 * second

    return pattern


def in_patches(rng: np.random.Generator, pattern: Field) -> Field:
    """`pattern` on about half of space, fading out towards the rest: a mane, a sleeve, a weathered side."""
    place = fractal(rng, rng.uniform(0.5, 1.0), 1)
    bias = rng.uniform(0.2, 0.8)
    return lambda points: np.clip(bias + 4.0 * place(points), 0.0, 1.0) * pattern(points)


@kernel(inline="always")
def _hash(i, j, k, seed):
    """A well-mixed 32-bit hash of a grid cell."""
    h = (i * 73856093) ^ (j * 19349663) ^ (k * 83492791) ^ (seed * 2654435761)
    h &= 0xFFFFFFFF
    h = ((h ^ (h >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    h = ((h ^ (h >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return h ^ (h >> 16)


@kernel
def _gradient_noise(x, y, z, seed):
    i, j, k = int(np.floor(x)), int(np.floor(y)), int(np.floor(z))
    fx, fy, fz = x - i, y - j, z - k
    total = 0.0
    for corner in range(8):
        a, b, c = corner & 1, corner >> 1 & 1, corner >> 2
        h = _hash(i + a, j + b, k + c, seed)
        dx, dy, dz = fx - a, fy - b, fz - c
        # The gradient: three independent numbers in -1..1 from ten bits each.
        gx = (h & 1023) / 511.5 - 1.0
        gy = (h >> 10 & 1023) / 511.5 - 1.0
        gz = (h >> 20 & 1023) / 511.5 - 1.0
        wx, wy, wz = 1.0 - abs(dx), 1.0 - abs(dy), 1.0 - abs(dz)
        weight = wx * wx * (3.0 - 2.0 * wx) * wy * wy * (3.0 - 2.0 * wy) * wz * wz * (3.0 - 2.0 * wz)
        total += weight * (gx * dx + gy * dy + gz * dz)
    return 1.6 * total


@kernel
def fractal_noise(points, frequency, octaves, gain, is_ridged, seed):
    """Return gradient noise of several octaves; its creases are ridges if `is_ridged`."""
    noise = np.empty(len(points))
    for n in range(len(points)):
        total, weight, weights, scale = 0.0, 1.0, 0.0, frequency
        for octave in range(octaves):
            one = _gradient_noise(points[n, 0] * scale, points[n, 1] * scale, points[n, 2] * scale, seed + octave)
            total += weight * (1.0 - 4.0 * abs(one) if is_ridged else one)
            weights += weight
            weight *= gain
            scale *= 2.03  # not 2: the grids of the octaves would coincide at the origin
        noise[n] = total / weights
    return noise


@kernel
def cell_noise(points, frequency, seed):
    """From 1 at the center of a cell to -1 at the border to its neighbor, computed from the distances to the two nearest seeds."""
    noise = np.empty(len(points))
    for n in range(len(points)):
        x, y, z = points[n, 0] * frequency, points[n, 1] * frequency, points[n, 2] * frequency
        i, j, k = int(np.floor(x)), int(np.floor(y)), int(np.floor(z))
        first = second = 9.0
        for a in range(i - 1, i + 2):
            for b in range(j - 1, j + 2):
                for c in range(k - 1, k + 2):
                    h = _hash(a, b, c, seed)
                    dx = a + (h & 1023) / 1023.0 - x
                    dy = b + (h >> 10 & 1023) / 1023.0 - y
                    dz = c + (h >> 20 & 1023) / 1023.0 - z
                    square = dx * dx + dy * dy + dz * dz
                    if square < first:
                        first, second = square, first
                    elif square < second:
                        second = square
        gap = np.sqrt(second) - np.sqrt(first)
        noise[n] = 2.0 * min(1.0, 2.0 * gap) - 1.0
    return noise


def with_skin(solid: Field, rng: np.random.Generator, highest: float = 0.04) -> Field:
    """Warp `solid` slightly and add muscles (wavelengths 0.2 to 0.45) and up to two finer reliefs (0.05 to 0.3).

    No relief is higher than `highest`, so thin walls are not pierced.
    """
    if chance(rng, 0.6):
        bulge = rng.uniform(0.02, 0.07)
        shifts = [fractal(rng, 0.7, 2) for _ in range(3)]
        solid = warped(solid, [lambda points, shift=shift: bulge * shift(points) for shift in shifts])  # type: ignore[misc]
    if chance(rng, 0.6):
        solid = embossed(solid, fractal(rng, log_uniform(rng, 0.2, 0.45), 2), rng.uniform(0.4, 1.0) * highest)
    for _ in range(int(rng.choice(3, p=[0.15, 0.45, 0.4]))):
        wavelength = log_uniform(rng, 0.06, 0.28)
        pattern = _pattern(rng, wavelength)
        if chance(rng, 0.5):
            pattern = in_patches(rng, pattern)
        solid = embossed(solid, pattern, min(wavelength * rng.uniform(0.06, 0.16), highest))
    return solid


def _pattern(rng: np.random.Generator, wavelength: float) -> Field:
    kind = rng.choice(["scales", "wrinkles", "folds", "rough"], p=[0.25, 0.25, 0.3, 0.2])
    if kind == "scales":
        return scales(rng, wavelength)
    if kind == "wrinkles":
        return ridges(rng, 1.6 * wavelength, 2)
    if kind == "folds":
        return folds(rng, wavelength, direction(rng), rng.uniform(0.3, 1.0), rng.uniform(0.6, 2.5))
    return fractal(rng, 1.5 * wavelength, 3, 0.6)
