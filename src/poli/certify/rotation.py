"""Find the rotation of least cost y' M y, y = [1; vec(R)], by Newton's method, and prove that none is better.

The dual of Shor's relaxation is

    max gamma   such that   S = M - gamma A_0 - sum_l lambda_l A_l   is positive semidefinite,

so any multipliers (gamma, lambda) prove a bound: no rotation costs less than gamma + |y|^2 min(0, smallest eigenvalue of S).
"""

from itertools import permutations, product

import numpy as np

from poli.certify.quadratic import FORMS, certificate_matrix, derivatives, lifted
from poli.certify.small import dot, eigh, matmul, matvec
from poli.kernel import kernel

_STEPS = 100  # three from a tight relaxation, a few more from a guess; many only if weights differ by many powers of ten
_ROUNDING = 1e-14  # of a cost whose M has size one
_FLAT = 10.0  # times the error of M: curvatures and slopes up to this are indistinguishable from zero
_SIGNED_PERMUTATIONS = [np.eye(3)[list(p)] * s for p in permutations(range(3)) for s in product((1.0, -1.0), repeat=3)]
_CUBE_TURNS = np.stack([m for m in _SIGNED_PERMUTATIONS if np.linalg.det(m) > 0])  # (24, 3, 3)
_SQUARED_NORM = 4.0  # of y


@kernel
def nearest_rotation(A):  # (3, 3) -> (3, 3)
    """Return the rotation that maximizes tr(R'A): its quaternion (w, x, y, z) is the leading eigenvector of Davenport's matrix."""
    K = np.empty((4, 4))
    K[0, 0] = A[0, 0] + A[1, 1] + A[2, 2]
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        K[0, 1 + i] = K[1 + i, 0] = A[k, j] - A[j, k]
        K[1 + i, 1 + i] = A[i, i] - A[j, j] - A[k, k]
        K[1 + i, 1 + j] = K[1 + j, 1 + i] = A[i, j] + A[j, i]
    w, x, y, z = eigh(K)[1][:, 3]
    return np.array([
        [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
    ])  # fmt: skip


@kernel
def cost(M, R):  # (10, 10), (3, 3)
    """y' M y with y = [1; vec(R)]."""
    y = lifted(R)
    return dot(y, matvec(M, y))


@kernel
def exp(omega):  # (3,) -> (3, 3)
    """`se3.so3_exp`, compiled."""
    angle = np.sqrt(dot(omega, omega))
    a, b = 1.0 - angle**2 / 6, 0.5 - angle**2 / 24
    if angle > 1e-4:
        a, b = np.sin(angle) / angle, (1.0 - np.cos(angle)) / angle**2
    R = np.empty((3, 3))
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        R[i, i] = 1.0 - b * (omega[j] ** 2 + omega[k] ** 2)
        R[i, j] = b * omega[i] * omega[j] - a * omega[k]
        R[j, i] = b * omega[i] * omega[j] + a * omega[k]
    return R


@kernel
def polish(M, R, error):  # (10, 10), (3, 3) -> (3, 3)
    """Return the local minimum of y' M y near R, by Newton steps, turned downhill and shortened where the cost is not convex.

    `error` is the error of the entries of M. A direction whose slope and curvature are both of that size is numerically flat, and
    no step is made along it, so the other directions can converge.
    """
    current = cost(M, R)
    for _ in range(_STEPS):
        gradient, _, hessian = derivatives(M, lifted(R))
        values, vectors = eigh(hessian)
        slopes = matvec(vectors.T, gradient)
        step = np.zeros(3)
        for i in range(3):
            if abs(values[i]) > _FLAT * error or abs(slopes[i]) > _FLAT * error:
                step[i] = -slopes[i] / max(abs(values[i]), error)
        step = matvec(vectors, step)
        if values[0] < -1e-6 * abs(values[2]) and np.sqrt(dot(step, step)) < 0.1:
            step += 0.3 * vectors[:, 0]  # on or near a saddle the gradient is uninformative: leave it downhill
        length = np.sqrt(dot(step, step))
        if length > 0.5:
            step *= 0.5 / length
        while True:
            candidate = matmul(R, exp(step))
            lower = cost(M, candidate)
            if lower <= current + _ROUNDING or dot(step, step) < 1e-18:
                break
            step *= 0.25
        R, current = candidate, lower
        if length < 1e-8:  # convergence is quadratic: further steps change no digit
            break
    return nearest_rotation(R)


@kernel
def minima(M, R, error):  # (10, 10), (3, 3) -> (24, 3, 3)
    """Return the minima that Newton's method reaches from R times each of the 24 rotations of a cube."""
    found = np.empty((len(_CUBE_TURNS), 3, 3))
    for i in range(len(_CUBE_TURNS)):
        found[i] = polish(M, matmul(R, _CUBE_TURNS[i]), error)
    return found


@kernel
def guess(M, error):  # (10, 10) -> (3, 3)
    """Return the result of Newton's method from the rotation favored by the cost's linear part.

    Minimum-norm multipliers prove it in about 99 of 100 random problems, hard ones included, without a semidefinite solver.
    """
    linear = np.empty((3, 3))
    for c in range(3):
        for r in range(3):
            linear[r, c] = -M[0, 1 + 3 * c + r]
    return polish(M, nearest_rotation(linear), error)


# --- proofs


def round_to_rotation(X: np.ndarray) -> tuple[np.ndarray, float]:  # (10, 10) -> (3, 3)
    """Return the rotation nearest to the leading eigenvector of the relaxation's X, and that eigenvalue's ratio to the next."""
    values, vectors = eigh(X)
    y = vectors[:, -1]
    y = y / y[0] if abs(y[0]) > 1e-6 else y
    ratio = float(values[-1] / max(values[-2], np.finfo(float).tiny))
    return nearest_rotation(np.ascontiguousarray(y[1:].reshape(3, 3).T)), ratio


@kernel
def prove(M, R, multipliers):  # (10, 10), (3, 3), (21,)
    """Return the gap between the cost of R and the lower bound proven for all rotations, and the two smallest eigenvalues of S.

    First the multipliers are moved to the nearest ones with S y = 0, as required at an optimum: solvers stop at a tolerance, but R
    is exact. This makes the bound exact, too, so the gap measures the relaxation and not the solver.
    """
    y = lifted(R)
    rows = np.empty((len(multipliers), 10))
    for i in range(len(multipliers)):
        rows[i] = matvec(FORMS[i], y)
    residual = matvec(certificate_matrix(M, multipliers), y)
    # Minimum-norm least squares. The rank is 7, the normal space of the rotations at y: seven eigenvalues are of size one for every
    # rotation, and the other three are rounding, 1e-16.
    squares, directions = eigh(matmul(rows.T, rows))
    parts = matvec(directions.T, residual)
    for i in range(10):
        parts[i] = parts[i] / squares[i] if squares[i] > 1e-9 * squares[9] else 0.0
    multipliers = multipliers + matvec(rows, matvec(directions, parts))
    values = eigh(certificate_matrix(M, multipliers))[0]
    bound = multipliers[0] + _SQUARED_NORM * min(values[0], 0.0)
    return max(cost(M, R) - bound, 0.0), values[0], values[1]
