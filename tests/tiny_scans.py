"""The input of the densify tests: a few hundred returns from the ground and two walls."""

import numpy as np

from poli.scan import Scan


def room(count: int = 300, seed: int = 0) -> Scan:
    """Float32 points with a field of each kind that sensors have, and one of three columns."""
    rng = np.random.default_rng(seed)
    u, v = rng.uniform(-6.0, 6.0, (2, count))
    wall = np.arange(count) % 3
    x = np.choose(wall, [u, np.full(count, 6.0), u])
    y = np.choose(wall, [v, u, np.full(count, -6.0)])
    z = np.choose(wall, [np.full(count, -1.5), 0.3 * v, 0.3 * v])
    points = np.stack([x, y, z], axis=1) + rng.normal(0.0, 0.01, (count, 3))
    fields = {
        "intensity": rng.uniform(0.0, 255.0, count).astype(np.float32),
        "ring": (np.arange(count) % 16).astype(np.uint16),
        "time": np.linspace(0.0, 0.1, count),
        "normal": rng.normal(size=(count, 3)),
    }
    return Scan(points.astype(np.float32), fields, stamp=1_691_936_557_946_849_180)
