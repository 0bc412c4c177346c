"""Products of small matrices as plain loops: as fast as a BLAS call at these sizes, and compiled in a tenth of the time."""

import numpy as np

from poli.kernel import kernel


@kernel
def matmul(A, B):  # (n, k), (k, m) -> (n, m)
    out = np.zeros((A.shape[0], B.shape[1]))
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            for j in range(B.shape[1]):
                out[i, j] += A[i, k] * B[k, j]
    return out


@kernel
def transposed_matmul(A, B):  # (k, n), (k, m) -> (n, m)
    """A' B."""
    out = np.zeros((A.shape[1], B.shape[1]))
    for k in range(A.shape[0]):
        for i in range(A.shape[1]):
            for j in range(B.shape[1]):
                out[i, j] += A[k, i] * B[k, j]
    return out


@kernel
def matvec(A, x):  # (n, m), (m,) -> (n,)
    out = np.zeros(A.shape[0])
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            out[i] += A[i, j] * x[j]
    return out


@kernel
def transposed_matvec(A, x):  # (m, n), (m,) -> (n,)
    """A' x."""
    out = np.zeros(A.shape[1])
    for j in range(A.shape[0]):
        for i in range(A.shape[1]):
            out[i] += A[j, i] * x[j]
    return out


@kernel
def dot(x, y):  # (n,), (n,)
    out = 0.0
    for i in range(len(x)):
        out += x[i] * y[i]
    return out


@kernel
def eigh(A):  # (n, n) -> (n,), (n, n)
    """Ascending eigenvalues, and eigenvectors as columns. One place to compile LAPACK's call."""
    values, vectors = np.linalg.eigh(A)
    return values, np.ascontiguousarray(vectors)
