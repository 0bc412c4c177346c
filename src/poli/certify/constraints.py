"""What makes nine numbers a rotation, as quadratic forms y' A y = 0 on y = [h; vec(R)] with h = 1 (supplement SB).

The paper lists 24 such forms; they have rank 17. These are 21 of rank 20: columns orthonormal, rows orthonormal, and each column
the cross product of the other two. The one that depends on the others (the traces of R'R and RR' agree) is left out.
"""

from functools import cache

import numpy as np

COUNT = 21  # the forms below, and A_0: h^2 = 1
SIZE = 10  # h and the nine entries of R, column by column
_COLUMNS, _ROWS = np.tril_indices(SIZE)
_SCALE = np.where(_ROWS == _COLUMNS, 1.0, np.sqrt(2.0))  # off-diagonal entries count twice in an inner product


@cache
def rotation_constraints() -> np.ndarray:  # (20, 10, 10)
    """Symmetric, linearly independent A_l with y' A_l y = 0 for every rotation."""

    def entry(row: int, column: int) -> int:
        return 1 + 3 * column + row

    def form(products: list[tuple[int, int, float]]) -> np.ndarray:
        A = np.zeros((SIZE, SIZE))
        for i, j, value in products:
            A[i, j] += 0.5 * value
            A[j, i] += 0.5 * value
        return A

    forms = []
    for i in range(3):
        for j in range(i, 3):
            unit = [(0, 0, -1.0)] if i == j else []
            forms.append(form([(entry(r, i), entry(r, j), 1.0) for r in range(3)] + unit))  # columns: R'R = h^2 I
            if (i, j) != (2, 2):
                forms.append(form([(entry(i, c), entry(j, c), 1.0) for c in range(3)] + unit))  # rows: RR' = h^2 I
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        for r in range(3):  # handedness: r_j x r_k = h r_i
            s, t = (r + 1) % 3, (r + 2) % 3
            forms.append(form([(entry(s, j), entry(t, k), 1.0), (entry(t, j), entry(s, k), -1.0), (0, entry(r, i), -1.0)]))
    return np.stack(forms)


def svec(matrices: np.ndarray) -> np.ndarray:  # (..., 10, 10) -> (..., 55)
    """The upper triangle, column by column, scaled so that <A, B> = svec(A) . svec(B): Clarabel's order."""
    return matrices[..., _ROWS, _COLUMNS] * _SCALE


def smat(vector: np.ndarray) -> np.ndarray:  # (55,) -> (10, 10)
    out = np.empty((SIZE, SIZE))
    out[_ROWS, _COLUMNS] = out[_COLUMNS, _ROWS] = vector / _SCALE
    return out
