"""The rotation constraints as quadratic forms y' A y = 0 on y = [h; vec(R)] with h = 1 (supplement SB).

The paper lists 24 such forms of rank 17. These are 21 forms of rank 20: orthonormal columns, orthonormal rows, and each column
equal to the cross product of the other two. The one that depends on the others (the traces of R'R and RR' are equal) is omitted.
"""

import numpy as np

SIZE = 10  # h and the nine entries of R, column by column


def _entry(row: int, column: int) -> int:
    return 1 + 3 * column + row


def _form(products: list[tuple[int, int, float]]) -> np.ndarray:
    """Return the symmetric A with y' A y = sum of value * y_i * y_j."""
    A = np.zeros((SIZE, SIZE))
    for i, j, value in products:
        A[i, j] += 0.5 * value
        A[j, i] += 0.5 * value
    return A


def _rotation_forms() -> list[np.ndarray]:
    forms = []
    for i in range(3):
        for j in range(i, 3):
            unit = [(0, 0, -1.0)] if i == j else []
            forms.append(_form([(_entry(r, i), _entry(r, j), 1.0) for r in range(3)] + unit))  # columns: R'R = h^2 I
            if (i, j) != (2, 2):
                forms.append(_form([(_entry(i, c), _entry(j, c), 1.0) for c in range(3)] + unit))  # rows: RR' = h^2 I
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        for r in range(3):  # handedness: r_j x r_k = h r_i
            s, t = (r + 1) % 3, (r + 2) % 3
            forms.append(_form([(_entry(s, j), _entry(t, k), 1.0), (_entry(t, j), _entry(s, k), -1.0), (0, _entry(r, i), -1.0)]))
    return forms


FORMS = np.stack([_form([(0, 0, 1.0)]), *_rotation_forms()])  # (21, 10, 10): A_0 (h^2 = 1), then A_l with y' A_l y = 0
COUNT = len(FORMS)
_DIAGONALS = np.einsum("lii->li", FORMS)[:, 1:]
COLUMN_LENGTHS = np.array(
    [(np.repeat(np.eye(3)[column], 3) == _DIAGONALS).all(axis=1).argmax() for column in range(3)]
)  # the forms that constrain a column to unit length: they add up to diag(-3, 1, ..., 1)
