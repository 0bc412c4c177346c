"""Shor's relaxation of min y' M y over rotations: a semidefinite program in 10 x 10, and how its solution becomes a rotation."""

import numpy as np

from poli.certify.newton import nearest_rotation
from poli.certify.semidefinite import interior_point
from poli.certify.small import eigh


def solve_relaxation(M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (10, 10) -> (10, 10), (21,)
    """The primal X, and the multipliers (gamma, lambda). M should be of size one."""
    X, multipliers, _, _ = interior_point(M)
    return X, multipliers


def round_to_rotation(X: np.ndarray) -> tuple[np.ndarray, float]:  # (10, 10) -> (3, 3)
    """The rotation nearest to the leading eigenvector of X, and how many times that eigenvalue exceeds the next."""
    values, vectors = eigh(X)
    y = vectors[:, -1]
    y = y / y[0] if abs(y[0]) > 1e-6 else y
    ratio = float(values[-1] / max(values[-2], np.finfo(float).tiny))
    return nearest_rotation(np.ascontiguousarray(y[1:].reshape(3, 3).T)), ratio
