"""Do the data determine the pose, and is it the only one?

Rounding must not decide. Every quantity here is compared with an estimate of its own error, and counts only if it is `ROOM` times
as large (`least_curvature`). Everything is in centered coordinates of size one, without the translation, with M of size one.

- `error_of` estimates how far the entries of M may be off: rounding in the sums, and the last digit of the coordinates given.
- `weakest_turn` looks at the cost around the optimum. The curvature there is known only as well as the place of the optimum is:
  a cost that grows with the fourth power has no curvature at its minimum, but some at any point beside it. So the amount by which
  the curvature changes over the stretch in which the optimum may lie is taken off.
- `low_minima` looks far away, for rotations whose cost cannot be distinguished from that of the optimum; `tie` says which
  difference of costs counts as none. Both are needed only where the certificate matrix S has more than one eigenvalue near zero.
  Otherwise S proves that there is no such rotation: one by the angle a away from the optimum costs more by at least
  (4 - (1 + cos a)^2) times the second eigenvalue of S.
"""

import numpy as np

from poli.certify.newton import cost, exp, minima
from poli.certify.quadratic import derivatives, lifted
from poli.certify.small import dot, eigh, matmul, matvec
from poli.kernel import kernel

ROOM = 1000.0
# Of the sums in Q, in units of the size of Q. Blocks of up to 2,048 terms are summed in a row, whose roundings add up at random.
_SUMMATION = 4.0 * np.finfo(float).eps
_REACH = 3.0  # Newton steps to the minimum of a fourth power; a square needs one
_EQUAL = 1e-9  # two costs whose ratio is that close to one are equal
_DEGREE = np.deg2rad(1.0)
_ASIDE = 0.3  # radians: beside a minimum, where another turn of a cube does not lead to
_SQUARED_NORM = 4.0  # of y = [1; vec(R)]: an error of M is carried into the cost by it


@kernel
def error_of(Q, to_translation, size_of_M, offset):  # (13, 13), (3, 10)
    """Of the entries of M / size_of_M. `offset` is the largest coordinate given, in units of the size of the source cloud: the last
    digit of that coordinate is what is known of the cloud.

    M = [I; K]' Q [I; K] with K = `to_translation`, which makes M stationary, so an error of Q is carried over by K as it stands:
    that of the block of y once, that of the mixed block twice by K, that of the block of t by K on either side.
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
    """Of half the cost, about any axis: clear of rounding, and enough for a turn by a degree to change the cost by a billionth.
    Costs that differ by less are equal for every practical purpose."""
    return max(ROOM * error, _EQUAL * cost / _DEGREE**2)


@kernel
def weakest_turn(M, R, error):  # (10, 10), (3, 3) -> curvature, (3,)
    """The least curvature of half the cost that can be vouched for, along the axis (source's frame) about which the data hold the
    rotation least."""
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
    """Minima that may be the lowest, as far as M can tell: found from R and from beside it, turned in many ways."""
    beside = matmul(R, exp(_ASIDE * weakest_turn(M, R, error)[1]))
    found = np.concatenate([R[None], minima(M, R, error), minima(M, beside, error)])
    costs = np.array([cost(M, candidate) for candidate in found])
    return found[costs <= costs.min() + _SQUARED_NORM * ROOM * error]


def tie(total: float, curvature: float, error: float, size_of_M: float, offset: float) -> float:
    """By how much the cost of another minimum may exceed `total` and still count as equal. Costs are those of the residuals, which
    are far more accurate than those by M: off by the last digit of the coordinates, by rounding in the sum, and by how closely
    Newton's method met the minimum."""
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
