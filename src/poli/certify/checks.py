"""What `solve` refuses, and how it says why."""

import numpy as np
from numba import njit

from poli.ellipsoids.symmetric3 import eigh3
from poli.errors import DegenerateError, InputError

_SINGULAR = 1e-10  # ratio of eigenvalues below which a direction counts as undetermined
_COLLINEAR = 1e-14  # ratio of variances across and along the line
_TOLERANCE = 1e-9


def matches(source: np.ndarray, target: np.ndarray, information: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shapes, finite numbers, and symmetric positive semidefinite weights; all in float64. Matches without weight are left out."""
    arrays = tuple(np.ascontiguousarray(a, dtype=np.float64) for a in (source, target, information))
    p, q, W = arrays
    if p.ndim != 2 or p.shape[1] != 3 or q.shape != p.shape or W.shape != (len(p), 3, 3):
        raise InputError(
            f"source {p.shape}, target {q.shape} and information {W.shape} do not fit; expected (N, 3), (N, 3) and (N, 3, 3)"
        )
    for name, array in zip(("source", "target", "information"), arrays, strict=True):
        bad = ~np.isfinite(array.reshape(len(array), -1).sum(axis=1))
        if bad.any():
            raise InputError(f"{name}: {int(bad.sum())} of {len(p)} rows are not finite, the first is row {int(bad.argmax())}")
    row, kind = _first_unsound(W)
    if kind == 1:
        raise InputError(f"information: row {row} is not symmetric")
    if kind == 2:
        raise InputError(f"information: row {row} is not positive semidefinite; weights are inverse covariances")
    weighty = np.einsum("nii->n", W) > 0
    return arrays if weighty.all() else (p[weighty], q[weighty], W[weighty])


def spread(source: np.ndarray, information: np.ndarray) -> None:
    """Without a prior: three matches that carry weight, not all on one line."""
    if len(source) < 3:
        raise DegenerateError(f"{len(source)} matches with weight; at least 3 are needed to determine a pose")
    centred = source - source.mean(axis=0)
    values = np.linalg.eigvalsh(centred.T @ centred)
    if values[1] <= _COLLINEAR * values[2] or values[2] <= 0:
        what = "coincide" if values[2] <= 0 else "are collinear"
        raise DegenerateError(f"the {len(source)} source points {what}, so the rotation about them is undetermined")


def translation(total: np.ndarray) -> None:  # (3, 3): the sum of the weights
    values, vectors = np.linalg.eigh(total)
    if values[0] <= _SINGULAR * values[2]:
        raise DegenerateError(
            f"the sum of the weights is singular: nothing holds the translation along {_numbers(vectors[:, 0])} (target's frame)"
        )


def pose(gauss_newton: np.ndarray) -> None:  # (6, 6), centred frame of size one
    values, vectors = np.linalg.eigh(gauss_newton)
    if values[0] <= _SINGULAR * values[5]:
        rotation, shift = vectors[:3, 0], vectors[3:, 0]
        free = "rotation about" if np.linalg.norm(rotation) >= np.linalg.norm(shift) else "translation along"
        axis = rotation if free.startswith("rotation") else shift
        raise DegenerateError(
            f"the matches and weights leave a {free} {_numbers(axis / np.linalg.norm(axis))} undetermined (source's frame; "
            f"information {values[0]:.1e} against {values[5]:.1e}); add matches, or a prior"
        )


def prior_information(covariance: np.ndarray) -> np.ndarray:  # (6, 6) -> (6, 6)
    covariance = np.asarray(covariance, dtype=np.float64)
    if covariance.shape != (6, 6) or not np.isfinite(covariance).all():
        raise InputError(f"the prior's covariance has shape {covariance.shape}; expected finite numbers of shape (6, 6)")
    if np.abs(covariance - covariance.T).max() > _TOLERANCE * np.abs(covariance).max():
        raise InputError("the prior's covariance is not symmetric")
    # Rotation and translation have different units: judge the matrix with a unit diagonal.
    scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    if (scale <= 0).any() or np.linalg.eigvalsh(covariance / np.outer(scale, scale))[0] <= 1e-12:
        raise InputError("the prior's covariance is not positive definite")
    information = np.linalg.inv(covariance / np.outer(scale, scale)) / np.outer(scale, scale)
    return 0.5 * (information + information.T)


def _first_unsound(weights: np.ndarray) -> tuple[int, int]:
    row, kind = _scan_weights(weights, _TOLERANCE)
    if kind == 2 and eigh3(weights[row : row + 1])[0][0, 0] >= -1e-6 * np.abs(weights[row]).max():
        # The quick test is strict; decide all doubtful ones by their eigenvalues.
        values = eigh3(weights)[0]
        negative = values[:, 0] < -1e-6 * np.abs(weights).max(axis=(1, 2))
        return (int(negative.argmax()), 2) if negative.any() else (0, 0)
    return row, kind


@njit(nogil=True, cache=True)
def _scan_weights(weights, tolerance):
    """The first row that is not symmetric (1) or has a negative principal minor (2); kind 0 if there is none."""
    for i in range(len(weights)):
        W = weights[i]
        a, b, c = W[0, 0], W[1, 1], W[2, 2]
        d, e, f = W[0, 1], W[0, 2], W[1, 2]
        size = max(max(abs(a), abs(b)), max(abs(c), max(abs(d), max(abs(e), abs(f)))))
        if max(abs(d - W[1, 0]), max(abs(e - W[2, 0]), abs(f - W[2, 1]))) > 1e-6 * size:
            return i, 1
        t1, t2, t3 = tolerance * size, tolerance * size**2, tolerance * size**3
        if (
            min(a, min(b, c)) < -t1
            or min(a * b - d * d, min(a * c - e * e, b * c - f * f)) < -t2
            or a * (b * c - f * f) - d * (d * c - f * e) + e * (d * f - b * e) < -t3
        ):
            return i, 2
    return 0, 0
