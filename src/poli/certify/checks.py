"""What `solve` refuses, and how it says why."""

from dataclasses import dataclass

import numpy as np

from poli.arrays import real_array
from poli.certify.small import eigh
from poli.ellipsoids.symmetric3 import eigh3
from poli.errors import DegenerateError, InputError
from poli.kernel import kernel

_SINGULAR = 1e-12  # ratio of eigenvalues below which a direction counts as undetermined: rounding leaves some 1e-15
_LARGEST, _SMALLEST = 1e100, 1e-100  # beyond them squares overflow, or vanish
_ROUNDING = 1e-6  # of the largest entry: asymmetry and negative eigenvalues up to this may be float32 rounding
_SOUND, _NONFINITE, _SKEW, _NEGATIVE = range(4)


@dataclass(frozen=True)
class Matches:
    """Sound input, and its centre."""

    source: np.ndarray  # (N, 3)
    target: np.ndarray  # (N, 3)
    information: np.ndarray  # (N, 3, 3)
    count: int  # of matches that carry weight
    source_centre: np.ndarray  # (3,), of those
    target_centre: np.ndarray  # (3,)


def matches(source: np.ndarray, target: np.ndarray, information: np.ndarray) -> Matches:
    """The arrays in float64, if they fit together, are finite, and the weights symmetric and positive semidefinite."""
    p, q, W = (
        np.ascontiguousarray(real_array(a, name))
        for a, name in ((source, "source"), (target, "target"), (information, "information"))
    )
    if p.ndim != 2 or p.shape[1] != 3 or q.shape != p.shape or W.shape != (len(p), 3, 3):
        raise InputError(
            f"source {p.shape}, target {q.shape} and information {W.shape} do not fit; expected (N, 3), (N, 3) and (N, 3, 3)"
        )
    row, trouble, count, source_centre, target_centre, largest_point, largest_weight = _survey(p, q, W)
    if trouble == _NEGATIVE:  # by principal minors, which are quick but harsh on rounding: let eigenvalues decide
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
        raise InputError(f"points of up to {largest_point:.0e} and weights of up to {largest_weight:.0e}: choose other units")
    return Matches(p, q, W, count, source_centre, target_centre)


def spread(count: int, values: np.ndarray) -> None:  # (3,): variances of the source points along their axes, ascending
    """Without a prior: three matches that carry weight, not all on one line."""
    if count < 3:
        raise DegenerateError(f"{count} matches with weight; at least 3 are needed to determine a pose")
    if values[2] <= 0:
        raise DegenerateError(f"the {count} source points coincide, so the rotation is undetermined")
    if values[1] <= _SINGULAR * values[2]:
        raise DegenerateError(f"the {count} source points are collinear, so the rotation about their line is undetermined")


def translation(values: np.ndarray, vectors: np.ndarray) -> None:  # (3,), (3, 3): of the sum of the weights
    if values[0] <= _SINGULAR * values[2]:
        raise DegenerateError(
            f"the sum of the weights is singular: nothing holds the translation along {_numbers(vectors[:, 0])} (target's frame)"
        )


def pose(hessian: np.ndarray) -> None:  # (6, 6): exact, in the centred frame of size one
    """The exact one, because the Gauss-Newton matrix is singular at some optima that are sharp: six planes that do not meet."""
    conditioning, free = _weakest(hessian)
    if conditioning <= _SINGULAR:
        turns = np.linalg.norm(free[:3]) >= np.linalg.norm(free[3:])
        axis = free[:3] if turns else free[3:]
        raise DegenerateError(
            f"the matches and weights leave the {'rotation about' if turns else 'translation along'} "
            f"{_numbers(axis / np.linalg.norm(axis))} undetermined (source's frame; conditioning {conditioning:.0e}); "
            "add matches, or a prior"
        )


def prior_information(covariance: np.ndarray) -> np.ndarray:  # (6, 6) -> (6, 6)
    """Gamma^-1."""
    covariance = real_array(covariance, "the prior's covariance")
    if covariance.shape != (6, 6) or not np.isfinite(covariance).all():
        raise InputError(f"the prior's covariance has shape {covariance.shape}; expected finite numbers of shape (6, 6)")
    if np.abs(covariance - covariance.T).max() > _ROUNDING * np.abs(covariance).max():
        raise InputError("the prior's covariance is not symmetric")
    # Rotation and translation have different units: judge and invert the matrix with a unit diagonal.
    scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    if (scale <= 0).any() or np.linalg.eigvalsh(covariance / np.outer(scale, scale))[0] <= 1e-12:
        raise InputError("the prior's covariance is not positive definite")
    information = np.linalg.inv(covariance / np.outer(scale, scale)) / np.outer(scale, scale)
    return 0.5 * (information + information.T)


def _numbers(vector: np.ndarray) -> str:
    return "(" + ", ".join(f"{v:.2f}" for v in vector) + ")"


@kernel
def _weakest(hessian):  # (6, 6) -> ratio, (6,)
    """How much weaker the weakest direction is held than the strongest, and which it is. Rotation and translation have different
    units, so each coordinate is measured by its own size."""
    largest = 0.0
    for i in range(6):
        largest = max(largest, hessian[i, i])
    scale, scaled = np.empty(6), np.empty((6, 6))
    for i in range(6):
        scale[i] = np.sqrt(max(hessian[i, i], _SINGULAR * largest, 1e-300))
    for i in range(6):
        for j in range(6):
            scaled[i, j] = hessian[i, j] / (scale[i] * scale[j])
    values, vectors = eigh(scaled)
    return values[0] / values[5], vectors[:, 0] / scale


@kernel
def _survey(source, target, weights):
    """The first row in trouble and its kind (negative principal minors only if nothing is worse); the number of matches with
    weight, the means of their points, and the largest coordinate and weight."""
    doubtful, count = -1, 0
    source_centre, target_centre = np.zeros(3), np.zeros(3)
    largest_point, largest_weight = 0.0, 0.0
    for i in range(len(source)):
        W = weights[i]
        a, b, c = W[0, 0], W[1, 1], W[2, 2]
        d, e, f = W[0, 1], W[0, 2], W[1, 2]
        finite = 0.0  # not a number as soon as zero times any entry is not
        for axis in range(3):
            finite += 0.0 * source[i, axis] + 0.0 * target[i, axis]
            for other in range(3):
                finite += 0.0 * W[axis, other]
            largest_point = max(largest_point, abs(source[i, axis]), abs(target[i, axis]))
        if finite != 0.0:
            return i, _NONFINITE, count, source_centre, target_centre, largest_point, largest_weight
        size = max(abs(a), abs(b), abs(c), abs(d), abs(e), abs(f))
        if max(abs(d - W[1, 0]), abs(e - W[2, 0]), abs(f - W[2, 1])) > _ROUNDING * size:
            return i, _SKEW, count, source_centre, target_centre, largest_point, largest_weight
        largest_weight = max(largest_weight, size)
        if (
            min(a, b, c) < 0.0
            or min(a * b - d * d, a * c - e * e, b * c - f * f) < -1e-12 * size**2
            or a * (b * c - f * f) - d * (d * c - f * e) + e * (d * f - b * e) < -1e-12 * size**3
        ) and doubtful < 0:
            doubtful = i
        if a + b + c > 0.0:
            count += 1
            for axis in range(3):
                source_centre[axis] += source[i, axis]
                target_centre[axis] += target[i, axis]
    source_centre /= max(count, 1)
    target_centre /= max(count, 1)
    trouble = _NEGATIVE if doubtful >= 0 else _SOUND
    return doubtful, trouble, count, source_centre, target_centre, largest_point, largest_weight
