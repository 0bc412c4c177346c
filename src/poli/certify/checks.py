"""Input validation of `solve`, and tests for degenerate problems."""

from dataclasses import dataclass

import numpy as np

from poli.certify.quadratic import derivatives, lifted
from poli.certify.rotation import cost, exp, minima
from poli.certify.small import dot, eigh, matmul, matvec
from poli.ellipsoids.symmetric3 import eigh3
from poli.errors import DegenerateError, InputError
from poli.kernel import kernel
from poli.options import real_array
from poli.se3 import check_pose, so3_log

# Ratio of the smallest to the largest eigenvalue below which a direction counts as undetermined: of a sum of weights, of squared
# offsets, of a covariance with unit diagonal. Rounding is about 1e-16, which leaves a margin of 10,000.
_SINGULAR = 1e-12
_DISTINCT = 1e-2  # radians, smallest angle between two distinct minima; Newton's method reaches a determined one to 1e-8
_LARGEST, _SMALLEST = 1e100, 1e-100  # outside this range squares overflow or underflow
# Relative to the largest entry: asymmetry and negative eigenvalues up to this may be rounding. float32 rounds to 1e-7, which leaves
# a margin of 1,000.
_ROUNDING = 1e-4
_SOUND, _NONFINITE, _SKEW, _NEGATIVE = range(4)


@dataclass(frozen=True)
class Matches:
    """Validated input, its weighted centers and extent."""

    source: np.ndarray  # (N, 3)
    target: np.ndarray  # (N, 3)
    information: np.ndarray  # (N, 3, 3)
    count: int  # of matches with weight
    heft: float  # the sum of the traces of their weights
    center: tuple[np.ndarray, np.ndarray]  # (3,), (3,): weighted, so a heavy match does not cost the others precision
    farthest: float  # the largest coordinate of their points

    def center_with(self, T_prior: np.ndarray, information: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (4, 4), (6, 6)
        """The centers with a prior, which acts as a match between the source's origin and its position under the prior."""
        heft = float(np.trace(information[3:, 3:]))
        source, target = self.center
        return source * (self.heft / (self.heft + heft)), target + (T_prior[:3, 3] - target) * (heft / (self.heft + heft))


def matches(source: np.ndarray, target: np.ndarray, information: np.ndarray) -> Matches:
    """Return the arrays as float64 after checking shapes, finite values, and symmetric positive semidefinite weights."""
    p, q, W = (
        np.ascontiguousarray(real_array(a, name))
        for a, name in ((source, "source"), (target, "target"), (information, "information"))
    )
    if p.ndim != 2 or p.shape[1] != 3 or q.shape != p.shape or W.shape != (len(p), 3, 3):
        raise InputError(
            f"source {p.shape}, target {q.shape} and information {W.shape} do not match; expected (N, 3), (N, 3) and (N, 3, 3)"
        )
    row, trouble, count, heft, source_center, target_center, farthest, largest_point, largest_weight = _survey(p, q, W)
    if trouble == _NEGATIVE:  # principal minors are fast but sensitive to rounding: let eigenvalues decide
        negative = eigh3(W)[0][:, 0] < -_ROUNDING * np.abs(W).max(axis=(1, 2))
        row, trouble = int(negative.argmax()), _NEGATIVE if negative.any() else _SOUND
    if trouble == _NONFINITE:
        bad = next(name for name, a in (("source", p), ("target", q), ("information", W)) if not np.isfinite(a[row]).all())
        raise InputError(f"{bad}: row {row} is not finite")
    if trouble == _SKEW:
        raise InputError(f"information: row {row} is not symmetric")
    if trouble == _NEGATIVE:
        raise InputError(f"information: row {row} is not positive semidefinite; weights are inverse covariances")
    if largest_point > _LARGEST or (count and not _SMALLEST < largest_weight < _LARGEST):
        raise InputError(f"points reach {largest_point:.0e} and weights {largest_weight:.0e}; choose other units")
    return Matches(p, q, W, count, heft, (source_center, target_center), farthest)


def spread(matches: Matches, values: np.ndarray) -> None:  # (3,): variances of the source points along their axes, ascending
    """Check a problem without a prior: at least three matches with weight, not all collinear, with at least six equations."""
    count = matches.count
    if count < 3:
        raise DegenerateError(f"{count} matches with weight; at least 3 are needed to determine a pose")
    if values[2] <= 0:
        raise DegenerateError(f"the {count} source points coincide, so the rotation is undetermined")
    if values[1] <= _SINGULAR * values[2]:
        raise DegenerateError(f"the {count} source points are collinear, so the rotation about their line is undetermined")
    if count <= 5:
        held = eigh3(matches.information)[0]
        equations = int((held > _SINGULAR * np.maximum(held[:, 2:], _SMALLEST)).sum())
        if equations < 6:
            raise DegenerateError(
                f"{count} matches whose weights constrain {equations} directions in total; 6 are needed to determine a pose; "
                "add matches or a prior"
            )


def translation(values: np.ndarray, vectors: np.ndarray) -> None:  # (3,), (3, 3): of the sum of the weights
    """Check that the sum of the weights is regular."""
    if values[0] <= _SINGULAR * values[2]:
        raise DegenerateError(
            f"the sum of the weights is singular: the translation along {_numbers(vectors[:, 0])} is undetermined "
            "(target frame); add matches or a prior"
        )


def rotation(curvature: float, axis: np.ndarray, least: float) -> None:  # axis (3,), of the source's frame
    """Check that the curvature about `axis` exceeds `least`; see `determinacy`."""
    if not curvature > least:  # NaN is rejected, too
        raise DegenerateError(
            f"the matches and weights leave the rotation about {_numbers(axis)} undetermined (source frame; the curvature "
            f"of the cost is {curvature:.0e}, and must exceed {least:.0e} to be clear of rounding); add matches or a prior"
        )


def no_rival(R: np.ndarray, rivals: list[np.ndarray]) -> None:  # (3, 3), (3, 3) each
    """Raise if one of `rivals`, which fit as well as R, is a distinct rotation."""
    rival = max(rivals, key=lambda other: angle_between(R, other))
    angle = angle_between(R, rival)
    if angle > _DISTINCT:
        turn = so3_log(R.T @ rival)
        raise DegenerateError(
            f"the matches and weights leave the pose undetermined: rotated by {np.rad2deg(angle):.0f} degrees about "
            f"{_numbers(turn / np.linalg.norm(turn))} (source frame) it fits equally well; add matches or a prior"
        )


def prior(T_target_source: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # -> (4, 4), (6, 6)
    """Return the validated pose and the information Gamma^-1."""
    T = check_pose(T_target_source, "the prior's T_target_source")
    covariance = real_array(covariance, "the prior's covariance")
    if covariance.shape != (6, 6) or not np.isfinite(covariance).all():
        raise InputError(f"the prior's covariance has shape {covariance.shape}; expected finite numbers of shape (6, 6)")
    if np.abs(covariance - covariance.T).max() > _ROUNDING * np.abs(covariance).max():
        raise InputError("the prior's covariance is not symmetric")
    # Rotation and translation have different units: check and invert the matrix with a unit diagonal.
    scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    if (scale <= 0).any() or np.linalg.eigvalsh(covariance / np.outer(scale, scale))[0] <= _SINGULAR:
        raise InputError("the prior's covariance is not positive definite")
    information = np.linalg.inv(covariance / np.outer(scale, scale)) / np.outer(scale, scale)
    return T, 0.5 * (information + information.T)


def _numbers(vector: np.ndarray) -> str:
    return "(" + ", ".join(f"{v:.2f}" for v in vector) + ")"


@kernel
def _survey(source, target, weights):
    """Return the first invalid row and the kind of error (negative principal minors only if nothing is worse); the number of
    matches with weight, the weighted means of their points and their largest coordinate; the largest coordinate and weight of
    all."""
    doubtful, count, heft = -1, 0, 0.0
    source_center, target_center = np.zeros(3), np.zeros(3)
    farthest, largest_point, largest_weight = 0.0, 0.0, 0.0
    for i in range(len(source)):
        W = weights[i]
        a, b, c = W[0, 0], W[1, 1], W[2, 2]
        d, e, f = W[0, 1], W[0, 2], W[1, 2]
        finite, reach = 0.0, 0.0  # `finite` becomes NaN if any entry is not finite
        for axis in range(3):
            finite += 0.0 * source[i, axis] + 0.0 * target[i, axis]
            for other in range(3):
                finite += 0.0 * W[axis, other]
            reach = max(reach, abs(source[i, axis]), abs(target[i, axis]))
        if finite != 0.0:
            return i, _NONFINITE, count, heft, source_center, target_center, farthest, largest_point, largest_weight
        size = max(abs(a), abs(b), abs(c), abs(d), abs(e), abs(f))
        if max(abs(d - W[1, 0]), abs(e - W[2, 0]), abs(f - W[2, 1])) > _ROUNDING * size:
            return i, _SKEW, count, heft, source_center, target_center, farthest, largest_point, largest_weight
        largest_point, largest_weight = max(largest_point, reach), max(largest_weight, size)
        if (
            min(a, b, c) < 0.0
            or min(a * b - d * d, a * c - e * e, b * c - f * f) < -1e-12 * size**2
            or a * (b * c - f * f) - d * (d * c - f * e) + e * (d * f - b * e) < -1e-12 * size**3
        ) and doubtful < 0:
            doubtful = i
        weight = a + b + c
        if weight > 0.0:
            count += 1
            heft += weight
            farthest = max(farthest, reach)
            for axis in range(3):  # running means: sums of large coordinates times large weights would overflow
                source_center[axis] += (source[i, axis] - source_center[axis]) * (weight / heft)
                target_center[axis] += (target[i, axis] - target_center[axis]) * (weight / heft)
    trouble = _NEGATIVE if doubtful >= 0 else _SOUND
    return doubtful, trouble, count, heft, source_center, target_center, farthest, largest_point, largest_weight


# --- Do the data determine the pose, and is it unique?
#
# Rounding must not decide. Every quantity here is compared with an estimate of its error and counts only if it is `ROOM` times
# larger (`least_curvature`). Everything is in centered coordinates of size one, without the translation, with M of size one.
#
# - `error_of` estimates the error of the entries of M: rounding in the sums, and the last digit of the input coordinates.
# - `weakest_turn` examines the cost around the optimum. The curvature there is known only as precisely as the optimum's location: a
#   cost that grows with the fourth power has zero curvature at its minimum, but not at nearby points. The change of the curvature
#   over the interval that may contain the optimum is therefore subtracted.
# - `low_minima` searches far away for rotations whose cost is indistinguishable from the optimum's; `tie` defines which cost
#   differences count as zero. Both are needed only if the certificate matrix S has more than one eigenvalue near zero. Otherwise S
#   proves that no such rotation exists: a rotation at angle a from the optimum costs more by at least (4 - (1 + cos a)^2) times
#   the second eigenvalue of S.


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
    """Return the angle between two rotations."""
    squared = 0.0
    for i in range(3):
        for j in range(3):
            squared += (A[i, j] - B[i, j]) ** 2
    return 2.0 * np.arcsin(min(1.0, np.sqrt(squared / 8.0)))
