"""Samples between the rings of a scan, where a sensor with more beams would have measured the same surface.

A gap is filled if the returns below and above it vouch for one surface, so samples end where the surface ends: not across a depth
edge, and not where a beam between had no return. Each sample lies between two beams, so no measured beam has passed through it.
"""

from __future__ import annotations

import numpy as np

from poli.tasks.densify.columns import find_gaps
from poli.tasks.densify.config import DensifyConfig
from poli.tasks.densify.samples import Between, Samples, ScanField, no_samples, scan_generator, suitable, thinned_out
from poli.tasks.densify.surface import Surfaces


def fill_gaps(
    of_scan: ScanField,
    points: np.ndarray,  # (N, 3): the scan
    config: DensifyConfig,
    beams: int | None = None,  # of the sensor, if known
) -> Samples | None:
    """Return the samples between the rings, or None if the scan has no rings or no gaps to fill."""
    returns = of_scan.returns
    gaps = find_gaps(returns, config.rings, beams)
    if gaps is None:
        return None

    # 1. Choose the gaps across which both returns vouch for one surface.
    ellipsoids = of_scan.of_returns
    p, q = returns[gaps.lower], returns[gaps.upper]
    a, b = ellipsoids[gaps.lower], ellipsoids[gaps.upper]
    one_surface = Surfaces(of_scan.field).error_between(a, b, p, q) <= config.max_error
    worth = suitable(of_scan.field, config)
    kept = np.flatnonzero(one_surface & worth[a] & worth[b])
    if not len(kept):
        return no_samples()

    # 2. Place the missing beams at even steps of elevation, each moved at random by up to half a step: rings of samples would move
    # with the sensor from scan to scan, as measured rings do, and point-to-point ICP would take them for static structure.
    count = gaps.missing[kept]
    gap = np.repeat(kept, count)
    number = np.arange(len(gap)) - np.repeat(np.cumsum(count) - count, count) + 1
    moved = 0.0 if config.rings is not None else scan_generator(points, config.seed).uniform(-0.5, 0.5, len(gap))
    share = (number + moved) / (gaps.missing[gap] + 1.0)
    placed = _between(p[gap], q[gap], share)

    # 3. A sample belongs to the nearer of its two returns, and shares the time of both.
    upper = share > 0.5
    parents = np.where(upper, gaps.upper[gap], gaps.lower[gap])
    partners = np.where(upper, gaps.lower[gap], gaps.upper[gap])
    share = np.where(upper, 1.0 - share, share)
    rows = of_scan.rows
    samples = Samples(placed, rows[parents], ellipsoids[parents], Between(rows[partners], share))
    return thinned_out(samples, number - 1, returns, points, config)


def _between(p: np.ndarray, q: np.ndarray, share: np.ndarray) -> np.ndarray:  # (S, 3), (S, 3), (S,) -> (S, 3)
    """Points on the line from p to q at these shares of the angle between them, for small angles.

    This interpolates the inverse range, which is exact on planes.
    """
    near, far = np.linalg.norm(p, axis=1), np.linalg.norm(q, axis=1)
    of_p, of_q = (1.0 - share) * far, share * near
    return (of_p[:, None] * p + of_q[:, None] * q) / (of_p + of_q)[:, None]
