"""The cost as a quadratic form: sum d' W d = x' Q x with x = [h; vec(R); t], d = q - (R p + t) and h = 1.

Each match contributes B' W B with B = [q, -(p' (x) I), -I]. The paper prints Q with the signs of d = q - R p + t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.certify.small import dot, eigh, matmul, matvec
from poli.kernel import kernel
from poli.se3 import hat, inverse, log, right_jacobian_inverse, so3_log
from poli.threads import run_chunks

_BLOCK = 2048  # matches per partial sum: fixed, so sums do not depend on the number of threads
_MOMENTS = (14, 6)  # see _add_moments
_UNPACK = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])  # packed symmetric matrices: xx xy xz yy yz zz


@dataclass(frozen=True)
class Frame:
    """Centered coordinates of size one, in which far origins and large units cost no precision.

    p = size p' + source and q = size q' + target, so t = target - R source + size t'.
    """

    source: np.ndarray  # (3,)
    target: np.ndarray  # (3,)
    size: float

    def pose(self, R: np.ndarray, t: np.ndarray) -> np.ndarray:  # (3, 3), (3,) -> (4, 4)
        """Return the pose in the caller's coordinates."""
        T = np.eye(4)
        T[:3, :3] = R
        T[:3, 3] = self.target - R @ self.source + self.size * t
        return T

    def tangent(self) -> np.ndarray:  # (6, 6)
        """Return the map from a right perturbation (rotation, translation) of the pose to that of the centered pose."""
        M = np.zeros((6, 6))
        M[:3, :3] = np.eye(3)
        M[3:, :3] = -hat(self.source) / self.size
        M[3:, 3:] = np.eye(3) / self.size
        return M


def quadratic_form(
    source: np.ndarray,  # (N, 3) p
    target: np.ndarray,  # (N, 3) q
    weights: np.ndarray,  # (N, 3, 3) W
    source_center: np.ndarray,  # (3,)
    target_center: np.ndarray,  # (3,)
) -> tuple[np.ndarray, Frame, np.ndarray]:  # (13, 13), frame, (3,)
    """Return Q of the matches in centered coordinates of size one, the frame, and the principal spreads of the source points."""
    blocks = max(1, -(-len(source) // _BLOCK))
    sums = np.zeros((blocks, *_MOMENTS))
    args = (source, target, weights, source_center, target_center)
    run_chunks(lambda begin, end: _add_moments(*args, begin, end, sums), blocks, smallest=2)
    Q, spread, size = _assemble(sums)
    return Q, Frame(source_center, target_center, size), spread


def residual_cost(source: np.ndarray, target: np.ndarray, weights: np.ndarray, frame: Frame, R: np.ndarray, t: np.ndarray) -> float:
    """Return sum d' W d computed from the residuals. x' Q x is the same number, but suffers from cancellation for precise data."""
    blocks = max(1, -(-len(source) // _BLOCK))
    sums = np.zeros(blocks)
    args = (source, target, weights, frame.source, frame.target, np.ascontiguousarray(R), frame.size * t)
    run_chunks(lambda begin, end: _add_costs(*args, begin, end, sums), blocks, smallest=2)
    return float(sums.sum())


@kernel
def _add_costs(source, target, weights, source_center, target_center, R, shift, first, last, sums):
    for block in range(first, last):
        total = 0.0
        for i in range(block * _BLOCK, min((block + 1) * _BLOCK, len(source))):
            x, y, z = source[i, 0] - source_center[0], source[i, 1] - source_center[1], source[i, 2] - source_center[2]
            a = target[i, 0] - target_center[0] - shift[0] - (R[0, 0] * x + R[0, 1] * y + R[0, 2] * z)
            b = target[i, 1] - target_center[1] - shift[1] - (R[1, 0] * x + R[1, 1] * y + R[1, 2] * z)
            c = target[i, 2] - target_center[2] - shift[2] - (R[2, 0] * x + R[2, 1] * y + R[2, 2] * z)
            W = weights[i]
            total += W[0, 0] * a * a + W[1, 1] * b * b + W[2, 2] * c * c
            total += (W[0, 1] + W[1, 0]) * a * b + (W[0, 2] + W[2, 0]) * a * c + (W[1, 2] + W[2, 1]) * b * c
        sums[block] = total


@kernel(inline="always")
def _add_row(row, f, xx, xy, xz, yy, yz, zz):
    """Takes scalars, which cannot alias the row: the compiler keeps them in registers."""
    row[0] += f * xx
    row[1] += f * xy
    row[2] += f * xz
    row[3] += f * yy
    row[4] += f * yz
    row[5] += f * zz


@kernel
def _add_moments(source, target, weights, source_center, target_center, first, last, sums):
    """Add each block's matches to its `sums`, for centered p and q.

    Row f holds feature f of p, out of (1, x, y, z, xx, xy, xz, yy, yz, zz), times W, packed as xx xy xz yy yz zz. Row 10: the six
    products of p. Rows 11 and 12: (1, x) and (y, z) times W q. Row 13: q' W q, and the number of matches. Matches without weight do
    not count.
    """
    for block in range(first, last):
        out = sums[block]
        for i in range(block * _BLOCK, min((block + 1) * _BLOCK, len(source))):
            xx, yy, zz = weights[i, 0, 0], weights[i, 1, 1], weights[i, 2, 2]
            if xx + yy + zz <= 0.0:
                continue
            xy = 0.5 * (weights[i, 0, 1] + weights[i, 1, 0])
            xz = 0.5 * (weights[i, 0, 2] + weights[i, 2, 0])
            yz = 0.5 * (weights[i, 1, 2] + weights[i, 2, 1])
            x, y, z = source[i, 0] - source_center[0], source[i, 1] - source_center[1], source[i, 2] - source_center[2]
            a, b, c = target[i, 0] - target_center[0], target[i, 1] - target_center[1], target[i, 2] - target_center[2]
            _add_row(out[0], 1.0, xx, xy, xz, yy, yz, zz)
            _add_row(out[1], x, xx, xy, xz, yy, yz, zz)
            _add_row(out[2], y, xx, xy, xz, yy, yz, zz)
            _add_row(out[3], z, xx, xy, xz, yy, yz, zz)
            _add_row(out[4], x * x, xx, xy, xz, yy, yz, zz)
            _add_row(out[5], x * y, xx, xy, xz, yy, yz, zz)
            _add_row(out[6], x * z, xx, xy, xz, yy, yz, zz)
            _add_row(out[7], y * y, xx, xy, xz, yy, yz, zz)
            _add_row(out[8], y * z, xx, xy, xz, yy, yz, zz)
            _add_row(out[9], z * z, xx, xy, xz, yy, yz, zz)
            _add_row(out[10], 1.0, x * x, x * y, x * z, y * y, y * z, z * z)
            u, v, w = xx * a + xy * b + xz * c, xy * a + yy * b + yz * c, xz * a + yz * b + zz * c
            _add_row(out[11], 1.0, u, v, w, x * u, x * v, x * w)
            _add_row(out[12], 1.0, y * u, y * v, y * w, z * u, z * v, z * w)
            out[13, 0] += a * u + b * v + c * w
            out[13, 1] += 1.0


@kernel
def _assemble(sums):
    """Return Q in coordinates of size one from the sums of the blocks, the eigenvalues of the source points' scatter in them, and
    that size."""
    moments = np.zeros(_MOMENTS)
    for block in range(len(sums)):
        for f in range(_MOMENTS[0]):
            for w in range(_MOMENTS[1]):
                moments[f, w] += sums[block, f, w]
    size = np.sqrt((moments[10, 0] + moments[10, 3] + moments[10, 5]) / max(moments[13, 1], 1.0))
    if size <= 0.0:
        size = 1.0
    Q = np.empty((13, 13))
    scatter = np.empty((3, 3))
    Q[0, 0] = moments[13, 0]
    for a in range(3):
        Q[0, 10 + a] = Q[10 + a, 0] = -moments[11, a] * size
        for b in range(3):
            scatter[a, b] = moments[10, _UNPACK[a, b]] / size**2
            Q[10 + a, 10 + b] = moments[0, _UNPACK[a, b]] * size**2
            Q[0, 1 + 3 * a + b] = Q[1 + 3 * a + b, 0] = -moments[11 + (1 + a) // 2, 3 * ((1 + a) % 2) + b]
            for c in range(3):  # a, b: the columns of R that p's entries multiply; c, d: the axes of W
                Q[1 + 3 * a + b, 10 + c] = Q[10 + c, 1 + 3 * a + b] = moments[1 + a, _UNPACK[b, c]] * size
                for d in range(3):
                    Q[1 + 3 * a + c, 1 + 3 * b + d] = moments[4 + _UNPACK[a, b], _UNPACK[c, d]]
    return Q, eigh(scatter)[0], size


@kernel
def eliminate_translation(Q, values, vectors):  # (13, 13), (3,), (3, 3) -> (10, 10), (3, 10)
    """Return M, the cost minimized over the translation t as a form in y = [1; vec R] (the Schur complement of Q), and the map
    y -> t that attains it. `values` and `vectors` are the eigensystem of the block of t."""
    coordinates = matmul(vectors.T, Q[10:, :10].copy())
    for i in range(3):
        coordinates[i] /= -values[i]
    to_translation = matmul(vectors, coordinates)
    M = Q[:10, :10] + matmul(Q[10:, :10].copy().T, to_translation)
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
    """Return the change of x by the right perturbation R Exp(w), t + R v: columns vec(R hat(e_i)) under w, R under v."""
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

    For x = [1; vec(R)] by w alone, for x = [1; vec(R); t] by (w, v). The two matrices differ by the curvature of the rotation
    group, which scales with the residual: Exp(w) = I + hat(w) + hat(w)^2 / 2 and <A, hat(w)^2> = w' (sym(A) - tr(A) I) w.
    """
    D = tangent_map(x)
    pull = matvec(Q, x)
    gauss_newton = matmul(D.T, matmul(Q, D))
    hessian = gauss_newton.copy()
    for i in range(3):
        for j in range(3):  # A = R' G with G the gradient by R
            a = dot(x[1 + 3 * i : 4 + 3 * i], pull[1 + 3 * j : 4 + 3 * j])
            hessian[i, j] += 0.5 * a
            hessian[j, i] += 0.5 * a
            if i == j:
                for k in range(3):
                    hessian[k, k] -= a
    return matvec(D.T, pull), gauss_newton, hessian


# --- A measured pose as a quadratic form, which can be added to the certified problem: equation 13, which the paper relaxed away.
#
# The paper's prior is xi' Gamma^-1 xi with xi = Log(T^-1 T~). Its logarithm is not polynomial in T. The chordal form replaces it by
# one that agrees to second order at T~ and has its minimum over all poses there, for any positive definite Gamma. With
# Gamma^-1 = [[A, B], [B', C]] in blocks of rotation and translation, K = tr(A) I / 2 - A, s = -vee(R~'R) and u = R~'(t~ - t):
#
#     2 tr(K (I - R~'R)) + 2 s' B u + u' C u.
#
# For a rotation by theta about a unit axis e the rotational part is 4 sin^2(theta/2) e'A e, and s = -sin(theta) e. Minimized over
# u, the form is at least 4 sin^2(theta/2) e'(A - cos^2(theta/2) B C^-1 B') e >= 0. With Gamma = diag(s_r^2 I, s_t^2 I) it is
# |R - R~|^2 / (2 s_r^2) + |t - t~|^2 / s_t^2.


def chordal_form(T_prior: np.ndarray, information: np.ndarray, frame: Frame) -> np.ndarray:  # (4, 4), (6, 6) -> (13, 13)
    """Return Q of the prior in the coordinates of `frame`; `information` is Gamma^-1, rotation first."""
    R, t = T_prior[:3, :3], T_prior[:3, 3]
    A, B, C = information[:3, :3], information[:3, 3:], information[3:, 3:]
    K = 0.5 * np.trace(A) * np.eye(3) - A
    sine = np.zeros((3, 13))  # s, linear in vec(R)
    sine[:, 1:10] = -0.5 * tangent_map(lifted(R))[1:].T  # vee(M)_i = <hat(e_i), M> / 2
    shift = np.zeros((3, 13))  # u, linear in h, vec(R) and t'; offsets are subtracted first, so a far target costs no precision
    shift[:, 0] = R.T @ (t - frame.target)
    shift[:, 1:10] = np.kron(frame.source, R.T)
    shift[:, 10:] = -frame.size * R.T
    cross = sine.T @ B @ shift
    Q = cross + cross.T + shift.T @ C @ shift
    Q[0, 0] += 2.0 * np.trace(K)
    pull = -(R @ K).T.reshape(9)
    Q[0, 1:10] += pull
    Q[1:10, 0] += pull
    return Q


def chordal_cost(T: np.ndarray, T_prior: np.ndarray, information: np.ndarray) -> float:
    """Return the chordal cost of a pose from angle and axis, without cancellation."""
    A, B, C = information[:3, :3], information[:3, 3:], information[3:, 3:]
    omega = so3_log(T_prior[:3, :3].T @ T[:3, :3])
    angle = float(np.linalg.norm(omega))
    half = np.sin(0.5 * angle) / (0.5 * angle) if angle > 0 else 1.0
    sine = -omega * (np.sin(angle) / angle if angle > 0 else 1.0)
    shift = T_prior[:3, :3].T @ (T_prior[:3, 3] - T[:3, 3])
    return float(half**2 * (omega @ A @ omega) + 2.0 * (sine @ B @ shift) + shift @ C @ shift)


def prior_gauss_newton(T: np.ndarray, T_prior: np.ndarray, information: np.ndarray) -> np.ndarray:  # -> (6, 6)
    """Return J' Gamma^-1 J with J the derivative of xi = Log(T^-1 T~) by a right perturbation of T: the prior's share of H."""
    J = -right_jacobian_inverse(-log(inverse(T) @ T_prior))  # Log(Exp(-d) Exp(xi)) = xi - J_l^-1(xi) d, J_l(xi) = J_r(-xi)
    return J.T @ information @ J


# --- The rotation constraints as quadratic forms y' A y = 0 on y = [h; vec(R)] with h = 1 (supplement SB).
#
# The paper lists 24 such forms of rank 17. These are 21 forms of rank 20: orthonormal columns, orthonormal rows, and each column
# equal to the cross product of the other two. The one that depends on the others (traces of R'R and RR' are equal) is omitted.


SIZE = 10  # h and the nine entries of R, column by column


def _entry(row: int, column: int) -> int:
    return 1 + 3 * column + row


def _form(products: list[tuple[int, int, float]]) -> np.ndarray:
    """Return the symmetric A with y' A y = sum of value * y_i * y_j."""
    A = np.zeros((SIZE, SIZE))
    for i, j, value in products:
        A[i, j] += 0.5 * value
        A[j, i] += 0.5 * value
    return A


def _rotation_forms() -> list[np.ndarray]:
    forms = []
    for i in range(3):
        for j in range(i, 3):
            unit = [(0, 0, -1.0)] if i == j else []
            forms.append(_form([(_entry(r, i), _entry(r, j), 1.0) for r in range(3)] + unit))  # columns: R'R = h^2 I
            if (i, j) != (2, 2):
                forms.append(_form([(_entry(i, c), _entry(j, c), 1.0) for c in range(3)] + unit))  # rows: RR' = h^2 I
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        for r in range(3):  # handedness: r_j x r_k = h r_i
            s, t = (r + 1) % 3, (r + 2) % 3
            forms.append(_form([(_entry(s, j), _entry(t, k), 1.0), (_entry(t, j), _entry(s, k), -1.0), (0, _entry(r, i), -1.0)]))
    return forms


FORMS = np.stack([_form([(0, 0, 1.0)]), *_rotation_forms()])  # (21, 10, 10): A_0 (h^2 = 1), then A_l with y' A_l y = 0
COUNT = len(FORMS)
_DIAGONALS = np.einsum("lii->li", FORMS)[:, 1:]
# The forms that constrain a column to unit length: they add up to diag(-3, 1, ..., 1).
COLUMN_LENGTHS = np.array([(np.repeat(np.eye(3)[column], 3) == _DIAGONALS).all(axis=1).argmax() for column in range(3)])
# The forms have few entries: which form, row and column, and the value, of the lower triangles alone. Each array of its own, since
# numba keeps no code that refers to a view.
FORM, ROW, COLUMN = (indices.copy() for indices in np.nonzero(np.tril(FORMS)))
VALUE = FORMS[FORM, ROW, COLUMN]


@kernel
def certificate_matrix(M, multipliers):  # (10, 10), (21,) -> (10, 10)
    """Return the certificate matrix S = M - sum_l lambda_l A_l."""
    S = M.copy()
    for e in range(len(FORM)):
        i, j = ROW[e], COLUMN[e]
        S[i, j] -= multipliers[FORM[e]] * VALUE[e]
        S[j, i] = S[i, j]
    return S
