"""Smooth random heights."""

from __future__ import annotations

import numpy as np


class Waves:
    """A sum of plane waves of random direction and a range of wavelengths, with standard deviation `height`."""

    def __init__(self, rng: np.random.Generator, height: float, shortest: float, longest: float, count: int = 7) -> None:
        wavelength = np.exp(rng.uniform(np.log(shortest), np.log(longest), count))
        angle = rng.uniform(0, 2 * np.pi, count)
        self.frequency = (2 * np.pi / wavelength) * np.stack([np.cos(angle), np.sin(angle)])  # (2, count)
        self.phase = rng.uniform(0, 2 * np.pi, count)
        weight = wavelength / np.linalg.norm(wavelength)  # longer waves are higher
        self.amplitude = np.sqrt(2.0) * height * weight

    def __call__(self, xy: np.ndarray) -> np.ndarray:  # (N, 2) -> (N,)
        return np.sin(xy @ self.frequency + self.phase) @ self.amplitude


def ramp(value: np.ndarray, low: float, high: float) -> np.ndarray:
    """Smooth step from 0 below `low` to 1 above `high`."""
    t = np.clip((value - low) / (high - low), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)
