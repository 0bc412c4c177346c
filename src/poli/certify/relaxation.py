"""Shor's relaxation of min y' M y over rotations: a semidefinite program in 10 x 10, solved by Clarabel in its dual form

    max gamma   such that   S = M - gamma A_0 - sum_l lambda_l A_l   is positive semidefinite,

whose multiplier is the primal X. The dual has 21 free variables and one cone; the primal would have 55."""

from functools import cache
from typing import Any

import clarabel
import numpy as np
from scipy import sparse

from poli.certify.constraints import SIZE, rotation_constraints, smat, svec


@cache
def _program() -> tuple[Any, np.ndarray, Any, list[Any], Any]:
    """All that does not depend on M: the dual's matrices, cone and settings."""
    forms = np.concatenate([np.eye(1, SIZE * SIZE).reshape(1, SIZE, SIZE), rotation_constraints()])
    A = sparse.csc_matrix(svec(forms).T)
    P = sparse.csc_matrix((len(forms), len(forms)))
    objective = np.zeros(len(forms))
    objective[0] = -1.0
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1  # the matrices are tiny
    return P, objective, A, [clarabel.PSDTriangleConeT(SIZE)], settings


def solve_relaxation(M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (10, 10) -> (10, 10), (21,)
    """The primal X, and the multipliers (gamma, lambda). M should be of size one."""
    P, objective, A, cones, settings = _program()
    solution = clarabel.DefaultSolver(P, objective, A, svec(M), cones, settings).solve()
    return smat(np.asarray(solution.z)), np.asarray(solution.x)


def certificate_matrix(M: np.ndarray, multipliers: np.ndarray) -> np.ndarray:  # (10, 10), (21,) -> (10, 10)
    """S = M - gamma A_0 - sum lambda_l A_l."""
    S = M - np.tensordot(multipliers[1:], rotation_constraints(), axes=1)
    S[0, 0] -= multipliers[0]
    return S


def fit_multipliers(M: np.ndarray, multipliers: np.ndarray, y: np.ndarray) -> np.ndarray:  # -> (21,)
    """The multipliers nearest to the given ones for which S y = 0, as it must be at an optimum.

    The solver stops at its tolerance; y comes from Newton's method and is exact. After this step the bound that S proves is
    exact too, to rounding, so that the gap measures the relaxation and not the solver.
    """
    residual = certificate_matrix(M, multipliers) @ y
    columns = np.concatenate([np.eye(1, SIZE) * y[0], rotation_constraints() @ y]).T  # (10, 21): A_l y
    # Rank 7, the normal space of the rotations at y; the remaining singular values are rounding.
    return multipliers + np.linalg.lstsq(columns, residual, rcond=1e-10)[0]
