"""Newton's method on the rotation group: from the relaxation's solution to the last digit."""

import numpy as np

from poli.certify.quadratic import derivatives, lifted
from poli.se3 import so3_exp

_STEPS = 20  # two or three from a tight relaxation; more only where it is not
_ROUNDING = 1e-14  # of a cost whose M has size one


def nearest_rotation(matrix: np.ndarray) -> np.ndarray:  # (3, 3) -> (3, 3)
    U, _, Vt = np.linalg.svd(matrix)
    return U @ np.diag([1.0, 1.0, np.linalg.det(U @ Vt)]) @ Vt


def round_to_rotation(X: np.ndarray) -> tuple[np.ndarray, float]:  # (10, 10) -> (3, 3)
    """The rotation nearest to the leading eigenvector of X, and how much that eigenvalue exceeds the next."""
    values, vectors = np.linalg.eigh(X)
    y = vectors[:, -1]
    y = y / y[0] if abs(y[0]) > 1e-6 else y
    ratio = float(values[-1] / max(values[-2], np.finfo(float).tiny))
    return nearest_rotation(y[1:].reshape(3, 3).T), ratio


def cost(M: np.ndarray, R: np.ndarray) -> float:  # (10, 10), (3, 3)
    y = lifted(R)
    return float(y @ M @ y)


def polish(M: np.ndarray, R: np.ndarray) -> np.ndarray:  # (10, 10), (3, 3) -> (3, 3)
    """The local minimum of y' M y that R lies by: Newton steps, turned downhill and shortened where the cost is not convex."""
    current = cost(M, R)
    for _ in range(_STEPS):
        gradient, _, hessian = derivatives(M, R)
        values, vectors = np.linalg.eigh(hessian)
        floor = 1e-12 * max(np.abs(values).max(), np.finfo(float).tiny)
        step = -vectors @ ((vectors.T @ gradient) / np.maximum(np.abs(values), floor))
        length = float(np.linalg.norm(step))
        if length > 0.5:
            step *= 0.5 / length
        while True:
            candidate = R @ so3_exp(step)
            lower = cost(M, candidate)
            if lower <= current + _ROUNDING or np.linalg.norm(step) < 1e-9:
                break
            step *= 0.25
        R, current = candidate, lower
        if length < 1e-8:  # convergence is quadratic: this step was the last to change a digit
            break
    return nearest_rotation(R)
