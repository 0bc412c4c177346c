"""Helpers that write the tiny sequences of the dataset tests."""

import struct

import numpy as np

from poli import se3

POINTS = [(1.5, -2.0, 0.25, 7.0), (4.0, 5.0, -6.0, 8.0), (0.5, 0.5, 0.5, 9.0)]


def floats(rows) -> bytes:
    return b"".join(struct.pack("<4f", *row) for row in rows)


def line(T) -> str:
    return " ".join(f"{v:.17g}" for v in T[:3].ravel())


def random_poses(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([se3.exp(rng.normal(size=6) * [0.3, 0.3, 0.3, 9, 9, 9]) for _ in range(count)])
