"""TEASER++, a certifiably robust registration of matches, reimplemented from its paper since it has no package on PyPI.

H. Yang, J. Shi and L. Carlone, "TEASER: Fast and Certifiable Point Cloud Registration", T-RO 2021. At known scale: the differences
between points of matches do not depend on the translation, and their lengths not on the rotation either. Matches are pruned to a
maximum clique of those with equal lengths. Graduated non-convexity with truncated least squares (GNC-TLS) gives the rotation from
the differences along a chain through the clique, and adaptive voting each component of the translation.

The settings and the chain are those of the published code. Without its certificate, which does not change the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.registration.consistency import consistency_graph, maximum_clique


@dataclass(frozen=True)
class Teaser:
    noise_bound: float  # beta: of the error of a match, a length
    cbar2: float = 1.0  # largest squared error of an inlier, relative to the noise bound
    gnc_factor: float = 1.4
    max_iterations: int = 100
    cost_threshold: float = 1e-6  # of the change between two iterations
    node_budget: int = 200_000  # of the search for the clique: some 0.2 s; then the best one so far is taken


def teaser(source: np.ndarray, target: np.ndarray, settings: Teaser) -> np.ndarray | None:  # (M, 3), (M, 3) -> (4, 4)
    """T_target_source from matches, or None if fewer than three agree."""
    bound = settings.noise_bound * np.sqrt(settings.cbar2)
    clique, _ = maximum_clique(consistency_graph(source, target, bound), settings.node_budget)
    if len(clique) < 3:
        return None
    p, q = source[clique], target[clique]
    R, inliers = gnc_rotation(np.roll(p, -1, axis=0) - p, np.roll(q, -1, axis=0) - q, 2.0 * bound, settings)
    inliers &= np.roll(inliers, 1)  # a match is one if both of its differences are
    if not inliers.any():
        inliers[:] = True
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = R, [vote(values, bound) for values in (q - p @ R.T)[inliers].T]
    return T


def gnc_rotation(
    source: np.ndarray, target: np.ndarray, bound: float, settings: Teaser
) -> tuple[np.ndarray, np.ndarray]:  # (M, 3), (M, 3) -> (3, 3), (M,) bool
    """The rotation of vectors by GNC-TLS, and which are inliers."""
    weights, squared_bound, mu, cost = np.ones(len(source)), bound**2, 0.0, np.inf
    R = np.eye(3)
    for number in range(settings.max_iterations):
        R = _rotation(source, target, weights)
        squared = ((target - source @ R.T) ** 2).sum(axis=1)
        if number == 0:
            if 2.0 * squared.max() <= squared_bound:  # nothing to reject
                break
            mu = squared_bound / (2.0 * squared.max() - squared_bound)
        before, cost = cost, float(weights @ squared)
        falling = np.sqrt(squared_bound * mu * (mu + 1.0) / np.maximum(squared, np.finfo(float).tiny)) - mu
        weights = np.clip(falling, 0.0, 1.0)  # reaches its ends just where the published thresholds are
        mu *= settings.gnc_factor
        if abs(cost - before) < settings.cost_threshold:
            break
    return R, weights > 0.0


def _rotation(source: np.ndarray, target: np.ndarray, weights: np.ndarray) -> np.ndarray:
    U, _, Vt = np.linalg.svd((target * weights[:, None]).T @ source)
    return U @ np.diag([1.0, 1.0, np.linalg.det(U @ Vt)]) @ Vt


def vote(values: np.ndarray, bound: float) -> float:  # (M,)
    """The minimum of the truncated least squares sum(min((x - v)^2 / bound^2, 1)), by adaptive voting.

    Between two neighboring ends of the intervals v +- bound, the same values are inliers, and their mean is the only candidate."""
    middle = np.median(values)  # taken off against cancellation in the sums below
    v = np.sort(values - middle)
    ends = np.sort(np.concatenate([v - bound, v + bound]))
    centers = 0.5 * (ends[1:] + ends[:-1])
    first, last = np.searchsorted(v, centers - bound, "left"), np.searchsorted(v, centers + bound, "right")
    first, last = first[last > first], last[last > first]
    sums, squares = (np.concatenate([[0.0], np.cumsum(v**power)]) for power in (1, 2))
    count, total = last - first, sums[last] - sums[first]
    cost = (squares[last] - squares[first] - total**2 / count) / bound**2 + (len(v) - count)
    best = np.argmin(cost)
    return float(middle + total[best] / count[best])
