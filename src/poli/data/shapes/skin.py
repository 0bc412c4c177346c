"""What makes a plain solid look carved, grown or worn: gentle warps, and relief at several scales, in patches."""

import numpy as np

from poli.data.shapes import relief
from poli.data.shapes.combine import embossed, warped
from poli.data.shapes.draws import chance, direction, log_uniform
from poli.data.shapes.implicit import Field


def with_skin(solid: Field, rng: np.random.Generator, highest: float = 0.04) -> Field:
    """`solid` out of true, with muscles (wavelengths 0.2 to 0.45) and up to two finer reliefs (0.05 to 0.3).

    No relief is higher than `highest`, which keeps thin walls from being pierced.
    """
    if chance(rng, 0.6):
        bulge = rng.uniform(0.02, 0.07)
        shifts = [relief.fractal(rng, 0.7, 2) for _ in range(3)]
        solid = warped(solid, [lambda points, shift=shift: bulge * shift(points) for shift in shifts])  # type: ignore[misc]
    if chance(rng, 0.6):
        solid = embossed(solid, relief.fractal(rng, log_uniform(rng, 0.2, 0.45), 2), rng.uniform(0.4, 1.0) * highest)
    for _ in range(int(rng.choice(3, p=[0.15, 0.45, 0.4]))):
        wavelength = log_uniform(rng, 0.06, 0.28)
        pattern = _pattern(rng, wavelength)
        if chance(rng, 0.5):
            pattern = relief.in_patches(rng, pattern)
        solid = embossed(solid, pattern, min(wavelength * rng.uniform(0.06, 0.16), highest))
    return solid


def _pattern(rng: np.random.Generator, wavelength: float) -> Field:
    kind = rng.choice(["scales", "wrinkles", "folds", "rough"], p=[0.25, 0.25, 0.3, 0.2])
    if kind == "scales":
        return relief.scales(rng, wavelength)
    if kind == "wrinkles":
        return relief.ridges(rng, 1.6 * wavelength, 2)
    if kind == "folds":
        return relief.folds(rng, wavelength, direction(rng), rng.uniform(0.3, 1.0), rng.uniform(0.6, 2.5))
    return relief.fractal(rng, 1.5 * wavelength, 3, 0.6)
