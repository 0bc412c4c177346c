"""Shor's relaxation of min y' M y over rotations: a semidefinite program in 10 x 10, solved by Clarabel in its dual form (see
`proof`), whose own multiplier is the primal X. The dual has 21 free variables and one cone; the primal would have 55."""

from functools import cache
from typing import Any

import clarabel
import numpy as np
from scipy import sparse

from poli.certify.constraints import COUNT, FORMS, SIZE
from poli.certify.newton import nearest_rotation

_COLUMNS, _ROWS = np.tril_indices(SIZE)  # the upper triangle, column by column: Clarabel's order
_SCALE = np.where(_ROWS == _COLUMNS, 1.0, np.sqrt(2.0))  # off-diagonal entries count twice in an inner product


def solve_relaxation(M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (10, 10) -> (10, 10), (21,)
    """The primal X, and the multipliers (gamma, lambda). M should be of size one."""
    P, objective, A, cones, settings = _program()
    solution = clarabel.DefaultSolver(P, objective, A, svec(M), cones, settings).solve()
    return smat(np.asarray(solution.z)), np.asarray(solution.x)


def round_to_rotation(X: np.ndarray) -> tuple[np.ndarray, float]:  # (10, 10) -> (3, 3)
    """The rotation nearest to the leading eigenvector of X, and how many times that eigenvalue exceeds the next."""
    values, vectors = np.linalg.eigh(X)
    y = vectors[:, -1]
    y = y / y[0] if abs(y[0]) > 1e-6 else y
    ratio = float(values[-1] / max(values[-2], np.finfo(float).tiny))
    return nearest_rotation(np.ascontiguousarray(y[1:].reshape(3, 3).T)), ratio


def svec(matrices: np.ndarray) -> np.ndarray:  # (..., 10, 10) -> (..., 55)
    """Symmetric matrices as vectors, with <A, B> = svec(A) . svec(B)."""
    return matrices[..., _ROWS, _COLUMNS] * _SCALE


def smat(vector: np.ndarray) -> np.ndarray:  # (55,) -> (10, 10)
    out = np.empty((SIZE, SIZE))
    out[_ROWS, _COLUMNS] = out[_COLUMNS, _ROWS] = vector / _SCALE
    return out


@cache
def _program() -> tuple[Any, np.ndarray, Any, list[Any], Any]:
    """All that does not depend on M: the dual's matrices, cone and settings."""
    A = sparse.csc_matrix(svec(FORMS).T)
    P = sparse.csc_matrix((COUNT, COUNT))
    objective = np.zeros(COUNT)
    objective[0] = -1.0
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1  # the matrices are tiny
    return P, objective, A, [clarabel.PSDTriangleConeT(SIZE)], settings
