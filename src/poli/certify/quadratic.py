"""The cost as a quadratic form: sum d' W d = x' Q x with x = [h; vec(R); t], d = q - (R p + t) and h = 1.

Each match contributes B' W B with B = [q, -(p' (x) I), -I]. The paper prints Q with the signs of d = q - R p + t; see the tests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.se3 import hat

_UPPER = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
_ROW, _COLUMN = np.array(_UPPER).T
_GENERATORS = hat(np.eye(3))  # (3, 3, 3)
_UNPACK = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])


@dataclass(frozen=True)
class Frame:
    """Centred coordinates of size one: p = size p' + source, q = size q' + target. Far origins and large units cost no digits."""

    source: np.ndarray  # (3,)
    target: np.ndarray  # (3,)
    size: float

    @staticmethod
    def around(source: np.ndarray, target: np.ndarray) -> Frame:
        middle = source.mean(axis=0)
        size = float(np.sqrt(((source - middle) ** 2).sum(axis=1).mean()))
        return Frame(middle, target.mean(axis=0), size if size > 0 else 1.0)

    def lift(self) -> np.ndarray:  # (13, 13)
        """x = lift x': t = h target - R source + size t'."""
        G = np.eye(13)
        G[10:, 10:] *= self.size
        G[10:, 0] = self.target
        G[10:, 1:10] = -np.kron(self.source, np.eye(3))
        return G

    def pose(self, R: np.ndarray, t: np.ndarray) -> np.ndarray:  # (3, 3), (3,) -> (4, 4)
        T = np.eye(4)
        T[:3, :3] = R
        T[:3, 3] = self.target - R @ self.source + self.size * t
        return T

    def tangent(self) -> np.ndarray:  # (6, 6)
        """Takes a right perturbation (rotation, translation) of the pose to one of the centred pose."""
        M = np.zeros((6, 6))
        M[:3, :3] = np.eye(3)
        M[3:, :3] = -hat(self.source) / self.size
        M[3:, 3:] = np.eye(3) / self.size
        return M


def quadratic_form(
    source: np.ndarray,  # (N, 3) p
    target: np.ndarray,  # (N, 3) q
    weights: np.ndarray,  # (N, 3, 3) W
) -> np.ndarray:  # (13, 13)
    """Q of the matches, from the moments sum W, sum p W, sum p p' W, sum W q, sum p q' W and sum q' W q."""
    packed = weights[:, _ROW, _COLUMN]  # (N, 6)
    features = np.empty((len(source), 10))  # 1, p, and the six products of p with itself
    features[:, 0] = 1.0
    features[:, 1:4] = source
    features[:, 4:] = source[:, _ROW] * source[:, _COLUMN]
    moments = (features.T @ packed)[:, _UNPACK]  # (10, 3, 3)
    weighted = np.einsum("nij,nj->ni", weights, target)
    linear = features[:, :4].T @ weighted  # (4, 3)
    Q = np.empty((13, 13))
    Q[0, 0] = np.einsum("ni,ni->", target, weighted)
    Q[0, 1:10] = Q[1:10, 0] = -linear[1:].reshape(9)
    Q[0, 10:] = Q[10:, 0] = -linear[0]
    for a in range(3):
        block = slice(1 + 3 * a, 4 + 3 * a)
        Q[block, 10:] = Q[10:, block] = moments[1 + a]
        for b in range(3):
            Q[block, 1 + 3 * b : 4 + 3 * b] = moments[4 + _UNPACK[a, b]]
    Q[10:, 10:] = moments[0]
    return Q


def eliminate_translation(Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (13, 13) -> (10, 10), (3, 10)
    """The Schur complement M = min over t, and the map y -> t that attains it."""
    to_translation = -np.linalg.solve(Q[10:, 10:], Q[10:, :10])
    M = Q[:10, :10] + Q[:10, 10:] @ to_translation
    return 0.5 * (M + M.T), to_translation


def lifted(R: np.ndarray, t: np.ndarray | None = None) -> np.ndarray:  # -> (10,) or (13,)
    """[1; vec(R)] or [1; vec(R); t], columns first."""
    return np.concatenate([[1.0], R.T.reshape(9)] + ([] if t is None else [t]))


def rotation_tangent(R: np.ndarray) -> np.ndarray:  # (3, 3) -> (9, 3)
    """The change of vec(R) by a right perturbation: columns vec(R hat(e_i))."""
    return np.swapaxes(R @ _GENERATORS, 1, 2).reshape(3, 9).T


def derivatives(Q: np.ndarray, R: np.ndarray, t: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradient, Gauss-Newton matrix and exact Hessian of x' Q x / 2 by the right perturbation R Exp(w), t + R v.

    Without t: of y' M y / 2 by w alone. The two matrices differ by the curvature of the rotation group, which weighs with the
    residual: Exp(w) = I + hat(w) + hat(w)^2 / 2, and <A, hat(w)^2> = w' (sym(A) - tr(A) I) w.
    """
    size = 3 if t is None else 6
    x = lifted(R, t)
    D = np.zeros((len(x), size))
    D[1:10, :3] = rotation_tangent(R)
    if t is not None:
        D[10:, 3:] = R
    pull = Q @ x
    A = R.T @ pull[1:10].reshape(3, 3).T
    gauss_newton = D.T @ Q @ D
    hessian = gauss_newton.copy()
    hessian[:3, :3] += 0.5 * (A + A.T) - np.trace(A) * np.eye(3)
    return D.T @ pull, gauss_newton, hessian
