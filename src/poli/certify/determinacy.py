"""Do the data determine the pose, and is it unique?

Rounding must not decide. Every quantity here is compared with an estimate of its error and counts only if it is `ROOM` times larger
(`least_curvature`). Everything is in centered coordinates of size one, without the translation, with M of size one.

- `error_of` estimates the error of the entries of M: rounding in the sums, and the last digit of the input coordinates.
- `weakest_turn` examines the cost around the optimum. The curvature there is known only as precisely as the optimum's location: a
  cost that grows with the fourth power has zero curvature at its minimum, but not at nearby points. The change of the curvature
  over the interval that may contain the optimum is therefore subtracted.
- `low_minima` searches far away for rotations whose cost is indistinguishable from the optimum's; `tie` defines which cost
  differences count as zero. Both are needed only if the certificate matrix S has more than one eigenvalue near zero. Otherwise S
  proves that no such rotation exists: a rotation at angle a from the optimum costs more by at least (4 - (1 + cos a)^2) times the
  second eigenvalue of S.
"""

import numpy as np

from poli.certify.newton import cost, exp, minima
from poli.certify.quadratic import derivatives, lifted
from poli.certify.small import dot, eigh, matmul, matvec
from poli.kernel import kernel

ROOM = 1000.0
# Relative error of the sums in Q, in units of the size of Q. Blocks of up to 2,048 terms are summed sequentially; their
# rounding errors add up at random.
_SUMMATION = 4.0 * np.finfo(float).eps
_REACH = 3.0  # Newton steps to the minimum of a fourth power; a square needs one
_EQUAL = 1e-9  # two costs whose ratio differs from one by less than this are equal
_DEGREE = np.deg2rad(1.0)
_ASIDE = 0.3  # radians: offset from a minimum, not reachable from it by rotations of a cube
_SQUARED_NORM = 4.0  # of y = [1; vec(R)]: the factor from an error of M to an error of the cost


@kernel
def error_of(Q, to_translation, size_of_M, offset):  # (13, 13), (3, 10)
    """Return the error of the entries of M / size_of_M. `offset` is the largest input coordinate, in units of the size of the
    source cloud: its last digit limits the precision of the cloud.

    M = [I; K]' Q [I; K] with K = `to_translation`, which makes M stationary. An error of Q is therefore propagated with K fixed:
    the y block directly, the mixed block twice through K, the t block through K on both sides.
    """
    rotation, mixed, translation, K = 0.0, 0.0, 0.0, 0.0
    for i in range(10):
        for j in range(10):
            rotation += Q[i, j] ** 2
        for j in range(3):
            mixed += Q[i, 10 + j] ** 2
            K += to_translation[j, i] ** 2
    for i in range(10, 13):
        for j in range(10, 13):
            translation += Q[i, j] ** 2
    total = np.sqrt(rotation) + 2.0 * np.sqrt(K * mixed) + K * np.sqrt(translation)
    return _SUMMATION * (1.0 + offset) * total / size_of_M


def least_curvature(cost: float, error: float) -> float:
    """Return the curvature of half the cost that counts as determined, about any axis.

    It is clear of rounding, and large enough for a rotation by one degree to change the cost by a billionth. Costs that differ by
    less are equal for all practical purposes.
    """
    return max(ROOM * error, _EQUAL * cost / _DEGREE**2)


@kernel
def weakest_turn(M, R, error):  # (10, 10), (3, 3) -> curvature, (3,)
    """Return a conservative estimate of the smallest curvature of half the cost, and its axis (source frame), about which the
    data constrain the rotation least."""
    gradient, _, hessian = derivatives(M, lifted(R))
    values, vectors = eigh(hessian)
    axis = vectors[:, 0].copy()
    distance = min(_REACH * (abs(dot(gradient, axis)) + error) / max(abs(values[0]), error), 0.1)
    change = 0.0
    for way in (-1.0, 1.0):
        beside = derivatives(M, lifted(matmul(R, exp(way * distance * axis))))[2]
        change = max(change, abs(dot(axis, matvec(beside, axis)) - values[0]))
    return values[0] - change, axis


def low_minima(M: np.ndarray, R: np.ndarray, error: float) -> np.ndarray:  # (10, 10), (3, 3) -> (K, 3, 3)
    """Return the minima that may be the lowest given the error of M, searched from R and a nearby rotation in many orientations."""
    beside = matmul(R, exp(_ASIDE * weakest_turn(M, R, error)[1]))
    found = np.concatenate([R[None], minima(M, R, error), minima(M, beside, error)])
    costs = np.array([cost(M, candidate) for candidate in found])
    return found[costs <= costs.min() + _SQUARED_NORM * ROOM * error]


def tie(total: float, curvature: float, error: float, size_of_M: float, offset: float) -> float:
    """Return by how much the cost of another minimum may exceed `total` and still count as equal.

    Costs are computed from the residuals, which is far more accurate than from M. Their errors are the last digit of the
    coordinates, rounding in the sum, and how closely Newton's method reached the minimum.
    """
    digit = _SUMMATION * (1.0 + offset)
    met = error**2 / max(curvature, error)
    rounding = 2.0 * digit * np.sqrt(max(total, 0.0) * size_of_M) + _SUMMATION * total + (digit**2 + met) * size_of_M
    return max(ROOM * rounding, _EQUAL * total)


@kernel
def angle_between(A, B):  # (3, 3), (3, 3)
    squared = 0.0
    for i in range(3):
        for j in range(3):
            squared += (A[i, j] - B[i, j]) ** 2
    return 2.0 * np.arcsin(min(1.0, np.sqrt(squared / 8.0)))
