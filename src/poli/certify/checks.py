"""Input validation of `solve`, and tests for degenerate problems."""

from dataclasses import dataclass

import numpy as np

from poli.certify.determinacy import angle_between
from poli.ellipsoids.symmetric3 import eigh3
from poli.errors import DegenerateError, InputError
from poli.kernel import kernel
from poli.se3 import check_pose, so3_log
from poli.validation import real_array

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
    center: tuple[
        np.ndarray, np.ndarray
    ]  # (3,), (3,): weighted centers of their points, so a heavy match does not cost the others precision
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
    return check_pose(T_target_source, "the prior's T_target_source"), _prior_information(covariance)


def _prior_information(covariance: np.ndarray) -> np.ndarray:  # (6, 6) -> (6, 6)
    """Return Gamma^-1 after validating the covariance."""
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
    return 0.5 * (information + information.T)


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
