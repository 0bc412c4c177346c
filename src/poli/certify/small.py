"""Products of small matrices as plain loops: as fast as BLAS at these sizes, and compiled in a tenth of the time."""

import numpy as np

from poli.kernel import kernel

_SWEEPS = 30  # six to eight are enough for a 10 x 10 matrix; the limit ends the loop for matrices with NaN


@kernel
def matmul(A, B):  # (n, k), (k, m) -> (n, m)
    """A B."""
    out = np.zeros((A.shape[0], B.shape[1]))
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            for j in range(B.shape[1]):
                out[i, j] += A[i, k] * B[k, j]
    return out


@kernel
def matvec(A, x):  # (n, m), (m,) -> (n,)
    """A x."""
    out = np.zeros(A.shape[0])
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            out[i] += A[i, j] * x[j]
    return out


@kernel
def dot(x, y):  # (n,), (n,)
    """x' y."""
    out = 0.0
    for i in range(len(x)):
        out += x[i] * y[i]
    return out


@kernel
def eigh(A):  # (n, n) -> (n,), (n, n)
    """Return the ascending eigenvalues of a symmetric matrix, and its eigenvectors as columns.

    Jacobi rotations instead of LAPACK: as fast at these sizes, small eigenvalues keep their digits, and the result is the same on
    every CPU, whereas LAPACK's depends on the BLAS kernels of the machine.
    """
    n = len(A)
    D, V = A.copy(), np.eye(n)  # rows of V: the eigenvectors
    for sweep in range(_SWEEPS):
        rotated = False
        for i in range(n - 1):
            for j in range(i + 1, n):
                x = D[i, j]
                # An entry below the last digit of both diagonal entries changes nothing. The first sweeps wait for the entries to
                # settle.
                if x == 0.0 or (
                    sweep > 3 and abs(D[i, i]) + 100 * abs(x) == abs(D[i, i]) and abs(D[j, j]) + 100 * abs(x) == abs(D[j, j])
                ):
                    continue
                rotated = True
                theta = 0.5 * (D[j, j] - D[i, i]) / x  # infinite if x is nearly zero; the tangent is then 0
                tangent = 1.0 / (abs(theta) + np.sqrt(1.0 + theta * theta))
                if theta < 0.0:
                    tangent = -tangent
                cosine = 1.0 / np.sqrt(1.0 + tangent * tangent)
                sine = tangent * cosine
                half = sine / (1.0 + cosine)
                D[i, i] -= tangent * x
                D[j, j] += tangent * x
                D[i, j] = D[j, i] = 0.0
                for k in range(n):
                    if k != i and k != j:
                        a, b = D[i, k], D[j, k]
                        D[i, k] = D[k, i] = a - sine * (b + half * a)
                        D[j, k] = D[k, j] = b + sine * (a - half * b)
                    a, b = V[i, k], V[j, k]
                    V[i, k] = a - sine * (b + half * a)
                    V[j, k] = b + sine * (a - half * b)
        if not rotated:
            break
    values, vectors = np.empty(n), np.empty((n, n))
    for i in range(n):
        values[i] = D[i, i]
    order = np.argsort(values)
    for i in range(n):
        values[i] = D[order[i], order[i]]
        vectors[:, i] = V[order[i]]
    return values, vectors
