"""The cost as a quadratic form: sum d' W d = x' Q x with x = [h; vec(R); t], d = q - (R p + t) and h = 1.

Each match contributes B' W B with B = [q, -(p' (x) I), -I]. The paper prints Q with the signs of d = q - R p + t; see the tests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from poli.certify.small import dot, eigh, matmul, matvec, transposed_matmul, transposed_matvec
from poli.se3 import hat
from poli.threads import run_chunks

_BLOCK = 2048  # matches summed in one go: fixed, so that the sums do not depend on the number of threads
_MOMENTS = 80
_UNPACK = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])  # packed symmetric matrices: xx xy xz yy yz zz


@dataclass(frozen=True)
class Frame:
    """Centred coordinates of size one: p = size p' + source, q = size q' + target. Far origins and large units cost no digits."""

    source: np.ndarray  # (3,)
    target: np.ndarray  # (3,)
    size: float

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
    source_centre: np.ndarray,  # (3,)
    target_centre: np.ndarray,  # (3,)
) -> tuple[np.ndarray, Frame, np.ndarray]:  # (13, 13), frame, (3, 3)
    """Q of the matches in centred coordinates of size one, those coordinates, and the scatter of the source points in them."""
    blocks = max(1, -(-len(source) // _BLOCK))
    partial = np.zeros((blocks, _MOMENTS))

    def add(begin: int, end: int) -> None:
        for block in range(begin, end):
            rows = slice(block * _BLOCK, (block + 1) * _BLOCK)
            _add_moments(source[rows], target[rows], weights[rows], source_centre, target_centre, partial[block])

    run_chunks(add, blocks, smallest=2)
    Q, scatter, size = _assemble(partial.sum(axis=0))
    return Q, Frame(source_centre, target_centre, size), scatter


@njit(nogil=True, cache=True)
def eliminate_translation(Q):  # (13, 13) -> (10, 10), (3, 10)
    """The Schur complement M = min over t, and the map y -> t that attains it. The block of t must be regular."""
    values, vectors = eigh(Q[10:, 10:].copy())
    coordinates = transposed_matmul(vectors, Q[10:, :10].copy())
    for i in range(3):
        coordinates[i] /= -values[i]
    to_translation = matmul(vectors, coordinates)
    M = Q[:10, :10] + transposed_matmul(Q[10:, :10].copy(), to_translation)
    return 0.5 * (M + M.T), to_translation


@njit(nogil=True, cache=True)
def _add_moments(source, target, weights, source_centre, target_centre, out):
    """Add to `out`, for centred p and q: 0-59 the features (1, x, y, z, xx, xy, xz, yy, yz, zz) of p times W; 60-71 the first four
    times W q; 72 q' W q; 73-78 p p'; 79 the number of matches. Those without weight do not count."""
    feature = np.empty(10)
    packed = np.empty(6)
    feature[0] = 1.0
    for i in range(len(source)):
        W = weights[i]
        if W[0, 0] + W[1, 1] + W[2, 2] <= 0.0:
            continue
        for a in range(3):
            feature[1 + a] = source[i, a] - source_centre[a]
        x, y, z = feature[1], feature[2], feature[3]
        feature[4], feature[5], feature[6], feature[7], feature[8], feature[9] = x * x, x * y, x * z, y * y, y * z, z * z
        packed[0], packed[3], packed[5] = W[0, 0], W[1, 1], W[2, 2]
        packed[1], packed[2], packed[4] = 0.5 * (W[0, 1] + W[1, 0]), 0.5 * (W[0, 2] + W[2, 0]), 0.5 * (W[1, 2] + W[2, 1])
        for f in range(10):
            for w in range(6):
                out[6 * f + w] += feature[f] * packed[w]
        a, b, c = target[i, 0] - target_centre[0], target[i, 1] - target_centre[1], target[i, 2] - target_centre[2]
        u = packed[0] * a + packed[1] * b + packed[2] * c
        v = packed[1] * a + packed[3] * b + packed[4] * c
        w = packed[2] * a + packed[4] * b + packed[5] * c
        for f in range(4):
            out[60 + 3 * f] += feature[f] * u
            out[61 + 3 * f] += feature[f] * v
            out[62 + 3 * f] += feature[f] * w
        out[72] += a * u + b * v + c * w
        for f in range(6):
            out[73 + f] += feature[4 + f]
        out[79] += 1.0


@njit(nogil=True, cache=True)
def _assemble(moments):
    """Q in coordinates of size one from the moments, the scatter of the source points in them, and that size."""
    size = np.sqrt((moments[73] + moments[76] + moments[78]) / max(moments[79], 1.0))
    if size <= 0.0:
        size = 1.0
    Q = np.empty((13, 13))
    scatter = np.empty((3, 3))
    Q[0, 0] = moments[72]
    for a in range(3):
        Q[0, 10 + a] = Q[10 + a, 0] = -moments[60 + a] * size
        for b in range(3):
            scatter[a, b] = moments[73 + _UNPACK[a, b]] / size**2
            Q[10 + a, 10 + b] = moments[_UNPACK[a, b]] * size**2
            Q[0, 1 + 3 * a + b] = Q[1 + 3 * a + b, 0] = -moments[63 + 3 * a + b]
            for c in range(3):  # a, b: the columns of R that p's entries multiply; c, d: the axes of W
                Q[1 + 3 * a + b, 10 + c] = Q[10 + c, 1 + 3 * a + b] = moments[6 * (1 + a) + _UNPACK[b, c]] * size
                for d in range(3):
                    Q[1 + 3 * a + c, 1 + 3 * b + d] = moments[6 * (4 + _UNPACK[a, b]) + _UNPACK[c, d]]
    return Q, scatter, size


@njit(nogil=True, cache=True)
def lifted(R):  # (3, 3) -> (10,)
    """[1; vec(R)], columns first."""
    y = np.empty(10)
    y[0] = 1.0
    for c in range(3):
        for r in range(3):
            y[1 + 3 * c + r] = R[r, c]
    return y


@njit(nogil=True, cache=True)
def tangent_map(x):  # (10,) or (13,) -> (10, 3) or (13, 6)
    """The change of x by the right perturbation R Exp(w), t + R v: columns vec(R hat(e_i)) under w, R under v."""
    D = np.zeros((len(x), 3 if len(x) == 10 else 6))
    for i in range(3):  # R hat(e_i) has R's column k in place of column j, and minus column j in place of column k
        j, k = (i + 1) % 3, (i + 2) % 3
        for r in range(3):
            D[1 + 3 * j + r, i] = x[1 + 3 * k + r]
            D[1 + 3 * k + r, i] = -x[1 + 3 * j + r]
            if len(x) == 13:
                D[10 + r, 3 + i] = x[1 + 3 * i + r]
    return D


@njit(nogil=True, cache=True)
def derivatives(Q, x):  # (n, n), (n,) with n = 10 or 13
    """Gradient, Gauss-Newton matrix and exact Hessian of x' Q x / 2 by the perturbation of `tangent_map`.

    For x = [1; vec(R)] of w alone, for x = [1; vec(R); t] of (w, v). The two matrices differ by the curvature of the rotation
    group, which weighs with the residual: Exp(w) = I + hat(w) + hat(w)^2 / 2 and <A, hat(w)^2> = w' (sym(A) - tr(A) I) w.
    """
    D = tangent_map(x)
    pull = matvec(Q, x)
    gauss_newton = transposed_matmul(D, matmul(Q, D))
    hessian = gauss_newton.copy()
    for i in range(3):
        for j in range(3):  # A = R' G with G the gradient by R
            a = dot(x[1 + 3 * i : 4 + 3 * i], pull[1 + 3 * j : 4 + 3 * j])
            hessian[i, j] += 0.5 * a
            hessian[j, i] += 0.5 * a
            if i == j:
                for k in range(3):
                    hessian[k, k] -= a
    return transposed_matvec(D, pull), gauss_newton, hessian
