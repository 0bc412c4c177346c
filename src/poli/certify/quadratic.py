"""The cost as a quadratic form: sum d' W d = x' Q x with x = [h; vec(R); t], d = q - (R p + t) and h = 1.

Each match contributes B' W B with B = [q, -(p' (x) I), -I]. The paper prints Q with the signs of d = q - R p + t; see the tests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.certify.small import dot, eigh, matmul, matvec, transposed_matmul, transposed_matvec
from poli.kernel import kernel
from poli.se3 import hat
from poli.threads import run_chunks

_BLOCK = 2048  # matches summed in one go: fixed, so that the sums do not depend on the number of threads
_MOMENTS = (15, 8)  # see _add_moments
_UNPACK = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])  # packed symmetric matrices: xx xy xz yy yz zz


@dataclass(frozen=True)
class Frame:
    """Centred coordinates of size one: p = size p' + source, q = size q' + target, so t = target - R source + size t'. Far
    origins and large units cost no digits in them."""

    source: np.ndarray  # (3,)
    target: np.ndarray  # (3,)
    size: float

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


PLAIN = Frame(np.zeros(3), np.zeros(3), 1.0)


def quadratic_form(
    source: np.ndarray,  # (N, 3) p
    target: np.ndarray,  # (N, 3) q
    weights: np.ndarray,  # (N, 3, 3) W
    source_centre: np.ndarray,  # (3,)
    target_centre: np.ndarray,  # (3,)
) -> tuple[np.ndarray, Frame, np.ndarray]:  # (13, 13), frame, (3,)
    """Q of the matches in centred coordinates of size one, those coordinates, and the principal spreads of the source points."""
    blocks = max(1, -(-len(source) // _BLOCK))
    sums = np.zeros((blocks, *_MOMENTS))
    args = (source, target, weights, source_centre, target_centre)
    run_chunks(lambda begin, end: _add_moments(*args, begin, end, sums), blocks, smallest=2)
    Q, spread, size = _assemble(sums)
    return Q, Frame(source_centre, target_centre, size), spread


def residual_cost(source: np.ndarray, target: np.ndarray, weights: np.ndarray, frame: Frame, R: np.ndarray, t: np.ndarray) -> float:
    """sum d' W d from the residuals themselves: x' Q x is the same number, but of precise data it is what large numbers leave."""
    blocks = max(1, -(-len(source) // _BLOCK))
    sums = np.zeros(blocks)
    args = (source, target, weights, frame.source, frame.target, np.ascontiguousarray(R), frame.size * t)
    run_chunks(lambda begin, end: _add_costs(*args, begin, end, sums), blocks, smallest=2)
    return float(sums.sum())


@kernel
def _add_costs(source, target, weights, source_centre, target_centre, R, shift, first, last, sums):
    for block in range(first, last):
        total = 0.0
        for i in range(block * _BLOCK, min((block + 1) * _BLOCK, len(source))):
            x, y, z = source[i, 0] - source_centre[0], source[i, 1] - source_centre[1], source[i, 2] - source_centre[2]
            a = target[i, 0] - target_centre[0] - shift[0] - (R[0, 0] * x + R[0, 1] * y + R[0, 2] * z)
            b = target[i, 1] - target_centre[1] - shift[1] - (R[1, 0] * x + R[1, 1] * y + R[1, 2] * z)
            c = target[i, 2] - target_centre[2] - shift[2] - (R[2, 0] * x + R[2, 1] * y + R[2, 2] * z)
            W = weights[i]
            total += W[0, 0] * a * a + W[1, 1] * b * b + W[2, 2] * c * c
            total += (W[0, 1] + W[1, 0]) * a * b + (W[0, 2] + W[2, 0]) * a * c + (W[1, 2] + W[2, 1]) * b * c
        sums[block] = total


@kernel
def _add_moments(source, target, weights, source_centre, target_centre, first, last, sums):
    """Add each block's matches to its `sums`, for centred p and q. Row f holds feature f of p, of (1, x, y, z, xx, xy, xz, yy, yz,
    zz), times W, packed as xx xy xz yy yz zz. Row 10: q' W q, the six products of p, and the number of matches. Rows 11 to 14:
    the first four features times W q. Matches without weight do not count. Rows are padded to 8: whole vector registers."""
    feature, packed = np.zeros(10), np.zeros(8)
    feature[0] = 1.0
    for block in range(first, last):
        out = sums[block]
        for i in range(block * _BLOCK, min((block + 1) * _BLOCK, len(source))):
            W = weights[i]
            if W[0, 0] + W[1, 1] + W[2, 2] <= 0.0:
                continue
            x, y, z = source[i, 0] - source_centre[0], source[i, 1] - source_centre[1], source[i, 2] - source_centre[2]
            a, b, c = target[i, 0] - target_centre[0], target[i, 1] - target_centre[1], target[i, 2] - target_centre[2]
            feature[1], feature[2], feature[3] = x, y, z
            feature[4], feature[5], feature[6], feature[7], feature[8], feature[9] = x * x, x * y, x * z, y * y, y * z, z * z
            packed[0], packed[3], packed[5] = W[0, 0], W[1, 1], W[2, 2]
            packed[1], packed[2], packed[4] = 0.5 * (W[0, 1] + W[1, 0]), 0.5 * (W[0, 2] + W[2, 0]), 0.5 * (W[1, 2] + W[2, 1])
            for f in range(10):
                for w in range(8):
                    out[f, w] += feature[f] * packed[w]
            u = packed[0] * a + packed[1] * b + packed[2] * c
            v = packed[1] * a + packed[3] * b + packed[4] * c
            w_ = packed[2] * a + packed[4] * b + packed[5] * c
            out[10, 0] += a * u + b * v + c * w_
            for f in range(6):
                out[10, 1 + f] += feature[4 + f]
            out[10, 7] += 1.0
            for f in range(4):
                out[11 + f, 0] += feature[f] * u
                out[11 + f, 1] += feature[f] * v
                out[11 + f, 2] += feature[f] * w_


@kernel
def _assemble(sums):
    """Q in coordinates of size one from the blocks' sums, the eigenvalues of the source points' scatter in them, and that size."""
    moments = np.zeros(_MOMENTS)
    for block in range(len(sums)):
        for f in range(_MOMENTS[0]):
            for w in range(_MOMENTS[1]):
                moments[f, w] += sums[block, f, w]
    size = np.sqrt((moments[10, 1] + moments[10, 4] + moments[10, 6]) / max(moments[10, 7], 1.0))
    if size <= 0.0:
        size = 1.0
    Q = np.empty((13, 13))
    scatter = np.empty((3, 3))
    Q[0, 0] = moments[10, 0]
    for a in range(3):
        Q[0, 10 + a] = Q[10 + a, 0] = -moments[11, a] * size
        for b in range(3):
            scatter[a, b] = moments[10, 1 + _UNPACK[a, b]] / size**2
            Q[10 + a, 10 + b] = moments[0, _UNPACK[a, b]] * size**2
            Q[0, 1 + 3 * a + b] = Q[1 + 3 * a + b, 0] = -moments[12 + a, b]
            for c in range(3):  # a, b: the columns of R that p's entries multiply; c, d: the axes of W
                Q[1 + 3 * a + b, 10 + c] = Q[10 + c, 1 + 3 * a + b] = moments[1 + a, _UNPACK[b, c]] * size
                for d in range(3):
                    Q[1 + 3 * a + c, 1 + 3 * b + d] = moments[4 + _UNPACK[a, b], _UNPACK[c, d]]
    return Q, eigh(scatter)[0], size


@kernel
def eliminate_translation(Q, values, vectors):  # (13, 13), (3,), (3, 3) -> (10, 10), (3, 10)
    """The Schur complement M = min over t, and the map y -> t that attains it, from the eigensystem of the block of t."""
    coordinates = transposed_matmul(vectors, Q[10:, :10].copy())
    for i in range(3):
        coordinates[i] /= -values[i]
    to_translation = matmul(vectors, coordinates)
    M = Q[:10, :10] + transposed_matmul(Q[10:, :10].copy(), to_translation)
    return 0.5 * (M + M.T), to_translation


@kernel
def lifted(R):  # (3, 3) -> (10,)
    """[1; vec(R)], columns first."""
    y = np.empty(10)
    y[0] = 1.0
    for c in range(3):
        for r in range(3):
            y[1 + 3 * c + r] = R[r, c]
    return y


@kernel
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


@kernel
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
