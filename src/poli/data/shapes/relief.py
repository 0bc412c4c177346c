"""Surface patterns in about -1 to 1 (fractal noise, ridges, scales, folds of cloth), and skins made of them."""

from __future__ import annotations

import numpy as np

from poli.data.shapes.combine import embossed, warped
from poli.data.shapes.draws import chance, direction, log_uniform
from poli.data.shapes.implicit import Field
from poli.kernel import kernel


def fractal(rng: np.random.Generator, wavelength: float, octaves: int, gain: float = 0.5) -> Field:
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


# --- skins that make a plain solid look carved, grown or worn: gentle warps, and relief at several scales, in patches


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
