"""Slow, obvious reference implementations, and generators of test data."""

import numpy as np
from hypothesis import strategies as st

from benchmarks.data.pose_problems import random_rotations
from poli import se3
from poli.ellipsoids import Ellipsoids
from poli.worlds.shapes import Mesh

seeds = st.integers(0, 2**32 - 1)


def random_pose(rng: np.random.Generator, shift: float = 5.0) -> np.ndarray:  # (4, 4)
    T = np.eye(4)
    T[:3, :3] = random_rotations(rng, 1)[0]
    T[:3, 3] = shift * rng.standard_normal(3)
    return T


def random_covariances(rng: np.random.Generator, count: int, thinnest: float = 0.05) -> np.ndarray:  # (count, 3, 3)
    axes = random_rotations(rng, count)
    scales = np.exp(rng.uniform(np.log(thinnest), 0.0, (count, 3)))
    covariances = np.einsum("nij,nj,nkj->nik", axes, scales**2, axes)
    return 0.5 * (covariances + covariances.swapaxes(1, 2))


def random_field(rng: np.random.Generator, count: int = 20) -> Ellipsoids:
    return Ellipsoids(
        3.0 * rng.standard_normal((count, 3)), random_covariances(rng, count), viewpoint=10.0 * rng.standard_normal(3)
    )


def pose_cost(T: np.ndarray, source: np.ndarray, target: np.ndarray, weights: np.ndarray) -> float:
    """sum d' W d with d = q - (R p + t), as written."""
    return float(sum((d := q - (T[:3, :3] @ p + T[:3, 3])) @ W @ d for p, q, W in zip(source, target, weights, strict=True)))


def quadratic_form(source: np.ndarray, target: np.ndarray, weights: np.ndarray) -> np.ndarray:  # (13, 13)
    """sum B' W B with B = [q, -(p' (x) I), -I]."""
    Q = np.zeros((13, 13))
    for p, q, W in zip(source, target, weights, strict=True):
        B = np.hstack([q[:, None], -np.kron(p, np.eye(3)), -np.eye(3)])
        Q += B.T @ W @ B
    return Q


def lifted_pose(T: np.ndarray) -> np.ndarray:  # (13,)
    return np.concatenate([[1.0], T[:3, :3].T.reshape(9), T[:3, 3]])


def lift(frame) -> np.ndarray:  # (13, 13)
    """x = lift x' from the centered coordinates of a frame: t = h target - R source + size t'."""
    G = np.eye(13)
    G[10:, 10:] *= frame.size
    G[10:, 0] = frame.target
    G[10:, 1:10] = -np.kron(frame.source, np.eye(3))
    return G


def local_minima(source: np.ndarray, target: np.ndarray, weights: np.ndarray, starts: np.ndarray, steps: int = 60) -> np.ndarray:
    """Levenberg-Marquardt on SE(3) from many poses at once (S, 4, 4); final costs (S,). Shares no code with the solver."""
    factors = np.linalg.cholesky(weights)  # W = L L', so |L' d|^2 = d' W d
    R, t = starts[:, :3, :3].copy(), starts[:, :3, 3].copy()

    def residuals(R: np.ndarray, t: np.ndarray) -> np.ndarray:  # (S, N, 3)
        d = target[None] - np.einsum("sij,nj->sni", R, source) - t[:, None]
        return np.einsum("nji,snj->sni", factors, d)

    current = residuals(R, t)
    cost = (current**2).sum(axis=(1, 2))
    damping = np.full(len(starts), 1e-3)
    cross = np.stack([se3.hat(p) for p in source])  # (N, 3, 3)
    for _ in range(steps):
        J = np.concatenate(
            [np.einsum("sij,njk->snik", R, cross), -np.broadcast_to(R[:, None], (len(R), len(source), 3, 3))], axis=3
        )
        J = np.einsum("nji,snjk->snik", factors, J)
        H = np.einsum("snia,snib->sab", J, J)
        g = np.einsum("snia,sni->sa", J, current)
        diagonal = np.einsum("sii->si", H)
        step = -np.linalg.solve(H + (damping[:, None] * diagonal + 1e-12)[:, :, None] * np.eye(6), g[:, :, None])[:, :, 0]
        moved_R = np.stack([r @ se3.so3_exp(s[:3]) for r, s in zip(R, step, strict=True)])
        moved_t = t + np.einsum("sij,sj->si", R, step[:, 3:])
        moved = residuals(moved_R, moved_t)
        lower = (moved**2).sum(axis=(1, 2))
        better = lower < cost
        R[better], t[better], current[better], cost[better] = moved_R[better], moved_t[better], moved[better], lower[better]
        damping = np.where(better, damping * 0.2, damping * 5.0).clip(1e-12, 1e8)
    return cost


SIDES = np.array([1.0, 2.0, 3.0])  # of `box`


def box() -> Mesh:
    """A box from the origin to SIDES, two triangles per side."""
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)]) * SIDES
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    return Mesh(corners, np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))]))
