"""Proofs of optimality. The dual of Shor's relaxation of min y' M y over rotations is

    max gamma   such that   S = M - gamma A_0 - sum_l lambda_l A_l   is positive semidefinite,

so any multipliers (gamma, lambda) prove a bound: no rotation costs less than gamma + |y|^2 min(0, smallest eigenvalue of S).
"""

import numpy as np

from poli.certify.newton import cost, nearest_rotation, polish
from poli.certify.quadratic import FORMS, lifted
from poli.certify.small import eigh, matvec, transposed_matmul, transposed_matvec
from poli.kernel import kernel

_SQUARED_NORM = 4.0  # of y = [1; vec(R)]


def round_to_rotation(X: np.ndarray) -> tuple[np.ndarray, float]:  # (10, 10) -> (3, 3)
    """Return the rotation nearest to the leading eigenvector of the relaxation's X, and that eigenvalue's ratio to the next."""
    values, vectors = eigh(X)
    y = vectors[:, -1]
    y = y / y[0] if abs(y[0]) > 1e-6 else y
    ratio = float(values[-1] / max(values[-2], np.finfo(float).tiny))
    return nearest_rotation(np.ascontiguousarray(y[1:].reshape(3, 3).T)), ratio


@kernel
def certificate_matrix(M, multipliers):  # (10, 10), (21,) -> (10, 10)
    """Return the certificate matrix S."""
    S = M.copy()
    for i in range(len(multipliers)):
        S -= multipliers[i] * FORMS[i]
    return S


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
    squares, directions = eigh(transposed_matmul(rows, rows))
    parts = transposed_matvec(directions, residual)
    for i in range(10):
        parts[i] = parts[i] / squares[i] if squares[i] > 1e-9 * squares[9] else 0.0
    multipliers = multipliers + matvec(rows, matvec(directions, parts))
    values = eigh(certificate_matrix(M, multipliers))[0]
    bound = multipliers[0] + _SQUARED_NORM * min(values[0], 0.0)
    return max(cost(M, R) - bound, 0.0), values[0], values[1]


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
