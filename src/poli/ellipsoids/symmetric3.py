"""Eigenvalues and Cholesky factors of many symmetric 3x3 matrices at once."""

import numpy as np

from poli.kernel import kernel
from poli.threads import run_chunks

_SINGULAR = 1e-15  # of the largest entry: a pivot below it is rounding
_SWEEPS = 12  # cyclic Jacobi converges quadratically; five are typical


def eigh3(matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (N, 3, 3) -> (N, 3), (N, 3, 3)
    """Ascending eigenvalues, and eigenvectors as columns of rotations (determinant +1)."""
    matrices = np.ascontiguousarray(matrices, dtype=np.float64)
    values, vectors = np.empty(matrices.shape[:2]), np.empty(matrices.shape)
    run_chunks(lambda begin, end: _eigh3(matrices, begin, end, values, vectors), len(matrices))
    return values, vectors


def cholesky3(matrices: np.ndarray) -> np.ndarray:  # (N, 3, 3) -> (N, 3, 3)
    """Lower triangular L with L L' = C. A singular C has a zero on L's diagonal, and zeros below it."""
    matrices = np.ascontiguousarray(matrices, dtype=np.float64)
    factors = np.zeros(matrices.shape)
    run_chunks(lambda begin, end: _cholesky3(matrices, begin, end, factors), len(matrices), smallest=4096)
    return factors


@kernel
def _eigh3(matrices: np.ndarray, begin: int, end: int, values: np.ndarray, vectors: np.ndarray) -> None:
    a = np.empty((3, 3))
    v = np.empty((3, 3))
    for i in range(begin, end):
        largest = 0.0
        for r in range(3):
            for c in range(3):
                largest = max(largest, abs(matrices[i, r, c]))
        scale = 1.0 / largest if largest > 0.0 else 1.0  # so that squares neither overflow nor vanish
        for r in range(3):
            for c in range(3):
                a[r, c] = 0.5 * (matrices[i, r, c] + matrices[i, c, r]) * scale
                v[r, c] = 1.0 if r == c else 0.0
        for _ in range(_SWEEPS):
            off = abs(a[0, 1]) + abs(a[0, 2]) + abs(a[1, 2])
            if off < 1e-300:
                break
            for p in range(2):
                for q in range(p + 1, 3):
                    if a[p, q] == 0.0:
                        continue
                    theta = 0.5 * (a[q, q] - a[p, p]) / a[p, q]
                    t = 1.0 / (abs(theta) + np.sqrt(theta * theta + 1.0)) if abs(theta) < 1e150 else 0.5 / abs(theta)
                    if theta < 0.0:
                        t = -t
                    cos = 1.0 / np.sqrt(t * t + 1.0)
                    sin = t * cos
                    apq = a[p, q]
                    a[p, p] -= t * apq
                    a[q, q] += t * apq
                    a[p, q] = a[q, p] = 0.0
                    k = 3 - p - q
                    akp, akq = a[k, p], a[k, q]
                    a[k, p] = a[p, k] = cos * akp - sin * akq
                    a[k, q] = a[q, k] = sin * akp + cos * akq
                    for r in range(3):
                        vp, vq = v[r, p], v[r, q]
                        v[r, p] = cos * vp - sin * vq
                        v[r, q] = sin * vp + cos * vq
        lo, mid, hi = 0, 1, 2
        if a[lo, lo] > a[mid, mid]:
            lo, mid = mid, lo
        if a[mid, mid] > a[hi, hi]:
            mid, hi = hi, mid
        if a[lo, lo] > a[mid, mid]:
            lo, mid = mid, lo
        values[i, 0], values[i, 1], values[i, 2] = a[lo, lo] / scale, a[mid, mid] / scale, a[hi, hi] / scale
        for r in range(3):
            vectors[i, r, 1] = v[r, mid]
            vectors[i, r, 2] = v[r, hi]
        # The first column by the cross product, so that the three make a rotation and never a reflection.
        vectors[i, 0, 0] = v[1, mid] * v[2, hi] - v[2, mid] * v[1, hi]
        vectors[i, 1, 0] = v[2, mid] * v[0, hi] - v[0, mid] * v[2, hi]
        vectors[i, 2, 0] = v[0, mid] * v[1, hi] - v[1, mid] * v[0, hi]


@kernel
def _cholesky3(matrices: np.ndarray, begin: int, end: int, factors: np.ndarray) -> None:
    for i in range(begin, end):
        tiny = _SINGULAR * max(matrices[i, 0, 0], matrices[i, 1, 1], matrices[i, 2, 2])
        for c in range(3):
            pivot = matrices[i, c, c]
            for k in range(c):
                pivot -= factors[i, c, k] ** 2
            if pivot <= tiny:  # rank is lost: nothing of this column is left
                continue
            root = np.sqrt(pivot)
            factors[i, c, c] = root
            for r in range(c + 1, 3):
                value = matrices[i, r, c]
                for k in range(c):
                    value -= factors[i, r, k] * factors[i, c, k]
                factors[i, r, c] = value / root
