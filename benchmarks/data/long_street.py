"""A winding street of any length: thousands of scans from a few triangles per meter."""

from __future__ import annotations

import numpy as np

from poli.data.simulate.places import Label, Place
from poli.data.simulate.places.solids import boxes, surface

_STEP = 2.0  # meters between the points of the ground
_ACROSS = np.array([-45.0, -20.0, -9.0, -4.0, 0.0, 4.0, 9.0, 20.0, 45.0])  # meters from the middle of the road
_BEYOND = 100.0  # meters of street before the start and after the end of the route


def long_street(length: float, seed: int = 0) -> Place:
    """A street with houses, parked cars, poles and trees on both sides; the route of `length` meters follows its middle."""
    rng = np.random.default_rng([seed, 11])
    s = np.arange(0.0, length + 2 * _BEYOND, _STEP)
    # The heading stays within 50 degrees of the x axis, so that the street never meets itself.
    heading = 0.45 * np.sin(s / 170.0 + rng.uniform(0, 6)) + 0.4 * np.sin(s / 61.0 + rng.uniform(0, 6))
    middle = _STEP * np.cumsum(np.stack([np.cos(heading), np.sin(heading)], axis=1), axis=0)
    height = 3.0 * np.sin(s / 120.0) + 1.0 * np.sin(s / 37.0)
    middle = np.column_stack([middle, height])  # (K, 3)
    left = np.stack([-np.sin(heading), np.cos(heading), np.zeros(len(s))], axis=1)
    ground = surface(middle[:, None] + _ACROSS[None, :, None] * left[:, None])
    parts, labels = [ground], [Label.GROUND]
    for side in (-1.0, 1.0):
        for label, every, aside, size, above in _THINGS:
            at = np.cumsum(rng.uniform(0.6, 1.4, int(s[-1] / every) + 1) * every)
            at = at[at < s[-1]]
            k = np.minimum((at / _STEP).astype(int), len(s) - 1)
            sizes = np.asarray(size) * rng.uniform(0.6, 1.5, (len(k), 3))
            away = rng.uniform(*aside, len(k)) + 0.5 * sizes[:, 1]
            centers = middle[k] + (side * away)[:, None] * left[k]
            centers[:, 2] += above + 0.5 * sizes[:, 2]
            parts.append(boxes(centers, sizes, heading[k] + rng.normal(0.0, 0.03, len(k))))
            labels.append(label)
    counts = [len(part) for part in parts]
    inside = (s >= _BEYOND) & (s <= _BEYOND + length + _STEP)
    return Place(
        "long_street",
        seed,
        np.concatenate(parts).astype(np.float32),
        np.repeat(labels, counts).astype(np.uint8),
        middle[inside],
        (),
    )


# Label, meters between neighbors, range of the distance from the middle of the road to the front, mean extents (along, across,
# up), height above the ground. Extents vary by a factor of 0.6 to 1.5.
_THINGS = (
    (Label.BUILDING, 16.0, (9.0, 14.0), (12.0, 9.0, 8.0), -0.5),
    (Label.BUILDING, 25.0, (9.0, 10.0), (1.5, 1.5, 2.5), -0.3),
    (Label.VEHICLE, 18.0, (4.0, 4.5), (4.2, 1.8, 1.5), 0.1),
    (Label.THIN, 22.0, (5.5, 6.0), (0.15, 0.15, 6.0), -0.3),
    (Label.TRUNK, 14.0, (6.5, 8.0), (0.35, 0.35, 3.0), -0.3),
    (Label.LEAVES, 14.0, (5.5, 7.5), (2.5, 2.5, 2.5), 2.5),
)
