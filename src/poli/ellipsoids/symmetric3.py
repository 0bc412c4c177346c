"""Eigenvalues and Cholesky factors of many symmetric 3x3 matrices at once."""

import numpy as np

from poli.kernel import kernel, over_range, readable
from poli.threads import run_chunks

# Relative to the largest entry: a smaller pivot is rounding, and its column is set to zero. This decides nothing: with or without
# such a column a factor gives the same matrix to 1e-15, and callers that need a regular one use `gaussian.regular_cholesky`.
_SINGULAR = 1e-15
_SWEEPS = 12  # cyclic Jacobi converges quadratically; four are typical
_SMALL = 1e-18  # of a matrix of size one: the remaining off-diagonal entries change eigenvalues by their square
_PARALLEL = 1e-28  # of a matrix of size one: shorter squared cross products are rounding
_TINY, _LIFT = 1e-250, 2.0**400  # smaller matrices are scaled up first: the inverse of a denormal number is infinite


def eigh3(matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (N, 3, 3) -> (N, 3), (N, 3, 3)
    """Return ascending eigenvalues, and eigenvectors as columns of rotations (determinant +1)."""
    matrices = readable(matrices)
    values, vectors = np.empty(matrices.shape[:2]), np.empty(matrices.shape)
    run_chunks(over_range(_eigh3, matrices, values, vectors), len(matrices))
    return values, vectors


def cholesky3(matrices: np.ndarray) -> np.ndarray:  # (N, 3, 3) -> (N, 3, 3)
    """Return lower triangular L with L L' = C. A singular C gives a zero on L's diagonal and zeros below it."""
    matrices = readable(matrices)
    factors = np.zeros(matrices.shape)
    run_chunks(over_range(_cholesky3, matrices, factors), len(matrices), smallest=4096)
    return factors


@kernel(inline="always")
def _rotate(app, aqq, apq, akp, akq, x0, x1, x2, y0, y1, y2):
    """Zero apq by one Jacobi rotation; return the changed entries of the matrix and of the eigenvectors x (of p) and y (of q)."""
    if apq == 0.0:
        return app, aqq, akp, akq, x0, x1, x2, y0, y1, y2
    theta = 0.5 * (aqq - app) / apq
    t = 1.0 / (abs(theta) + np.sqrt(theta * theta + 1.0)) if abs(theta) < 1e150 else 0.5 / abs(theta)
    if theta < 0.0:
        t = -t
    c = 1.0 / np.sqrt(t * t + 1.0)
    s = t * c
    return (
        app - t * apq, aqq + t * apq, c * akp - s * akq, s * akp + c * akq,
        c * x0 - s * y0, c * x1 - s * y1, c * x2 - s * y2, s * x0 + c * y0, s * x1 + c * y1, s * x2 + c * y2,
    )  # fmt: skip


@kernel
def _eigh3(matrices, begin, end, values, vectors):
    """Cyclic Jacobi on scalars. The matrix is [[a, d, e], [d, b, f], [e, f, c]]; x, y, z are the eigenvectors of a, b, c."""
    for i in range(begin, end):
        largest = 0.0
        for r in range(3):
            for k in range(3):
                largest = max(largest, abs(matrices[i, r, k]))
        lift = _LIFT if largest < _TINY else 1.0
        scale = 1.0 / (largest * lift) if largest > 0.0 else 1.0  # keeps squares from overflowing or underflowing
        a, b, c = matrices[i, 0, 0] * lift * scale, matrices[i, 1, 1] * lift * scale, matrices[i, 2, 2] * lift * scale
        d = (0.5 * matrices[i, 0, 1] + 0.5 * matrices[i, 1, 0]) * lift * scale
        e = (0.5 * matrices[i, 0, 2] + 0.5 * matrices[i, 2, 0]) * lift * scale
        f = (0.5 * matrices[i, 1, 2] + 0.5 * matrices[i, 2, 1]) * lift * scale
        x0, x1, x2, y0, y1, y2, z0, z1, z2 = 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0
        for _ in range(_SWEEPS):
            if abs(d) + abs(e) + abs(f) < _SMALL:
                break
            a, b, e, f, x0, x1, x2, y0, y1, y2 = _rotate(a, b, d, e, f, x0, x1, x2, y0, y1, y2)
            d = 0.0
            a, c, d, f, x0, x1, x2, z0, z1, z2 = _rotate(a, c, e, d, f, x0, x1, x2, z0, z1, z2)
            e = 0.0
            b, c, d, e, y0, y1, y2, z0, z1, z2 = _rotate(b, c, f, d, e, y0, y1, y2, z0, z1, z2)
            f = 0.0
        # Sort in ascending order by swaps.
        if a > b:
            a, b, x0, x1, x2, y0, y1, y2 = b, a, y0, y1, y2, x0, x1, x2
        if b > c:
            b, c, y0, y1, y2, z0, z1, z2 = c, b, z0, z1, z2, y0, y1, y2
        if a > b:
            a, b, x0, x1, x2, y0, y1, y2 = b, a, y0, y1, y2, x0, x1, x2
        values[i, 0], values[i, 1], values[i, 2] = a / scale / lift, b / scale / lift, c / scale / lift
        # The first is the cross product of the others, so the three form a rotation, never a reflection.
        vectors[i, 0, 0], vectors[i, 1, 0], vectors[i, 2, 0] = y1 * z2 - y2 * z1, y2 * z0 - y0 * z2, y0 * z1 - y1 * z0
        vectors[i, 0, 1], vectors[i, 1, 1], vectors[i, 2, 1] = y0, y1, y2
        vectors[i, 0, 2], vectors[i, 1, 2], vectors[i, 2, 2] = z0, z1, z2


@kernel
def _cholesky3(matrices: np.ndarray, begin: int, end: int, factors: np.ndarray) -> None:
    for i in range(begin, end):
        tiny = _SINGULAR * max(matrices[i, 0, 0], matrices[i, 1, 1], matrices[i, 2, 2])
        for c in range(3):
            pivot = matrices[i, c, c]
            for k in range(c):
                pivot -= factors[i, c, k] ** 2
            if pivot <= tiny:  # rank deficient: this column is zero
                continue
            root = np.sqrt(pivot)
            factors[i, c, c] = root
            for r in range(c + 1, 3):
                value = matrices[i, r, c]
                for k in range(c):
                    value -= factors[i, r, k] * factors[i, c, k]
                factors[i, r, c] = value / root


@kernel(inline="always")
def _null(a, d, e, b, f, c, value):
    """Return the unit eigenvector of [[a, d, e], [d, b, f], [e, f, c]], of size one, for a known eigenvalue: the rows of the matrix
    minus the eigenvalue are perpendicular to it, so it is the longest cross product of two rows."""
    a, b, c = a - value, b - value, c - value
    x, y, z = d * f - e * b, e * d - a * f, a * b - d * d
    best = x * x + y * y + z * z
    u, v, w = d * c - e * f, e * e - a * c, a * f - d * e
    length = u * u + v * v + w * w
    if length > best:
        x, y, z, best = u, v, w, length
    u, v, w = b * c - f * f, f * e - d * c, d * f - b * e
    length = u * u + v * v + w * w
    if length > best:
        x, y, z, best = u, v, w, length
    if best < _PARALLEL:  # two eigenvalues are equal: anything perpendicular to the longest row
        u, v, w, length = a, d, e, a * a + d * d + e * e
        if d * d + b * b + f * f > length:
            u, v, w, length = d, b, f, d * d + b * b + f * f
        if e * e + f * f + c * c > length:
            u, v, w, length = e, f, c, e * e + f * f + c * c
        if length < _PARALLEL:
            return 1.0, 0.0, 0.0
        x, y, z = (-v, u, 0.0) if abs(w) < abs(u) or abs(w) < abs(v) else (0.0, -w, v)
        best = x * x + y * y + z * z
    scale = 1.0 / np.sqrt(best)
    return x * scale, y * scale, z * scale


@kernel(inline="always")
def thinnest(a, d, e, b, f, c):
    """Return the two smallest eigenvalues of [[a, d, e], [d, b, f], [e, f, c]] and the unit eigenvector of the smallest.

    By the formula for the roots of a cubic, in a quarter of the time of Jacobi's method. Near equal eigenvalues it is accurate to
    half the digits only; a Rayleigh quotient restores them."""
    largest = max(max(max(abs(a), abs(b)), max(abs(c), abs(d))), max(abs(e), abs(f)))
    lift = _LIFT if largest < _TINY else 1.0
    scale = 1.0 / (largest * lift) if largest > 0.0 else 1.0
    a, b, c, d, e, f = a * lift * scale, b * lift * scale, c * lift * scale, d * lift * scale, e * lift * scale, f * lift * scale
    mean = (a + b + c) / 3.0
    u, v, w = a - mean, b - mean, c - mean
    spread = np.sqrt((u * u + v * v + w * w + 2.0 * (d * d + e * e + f * f)) / 6.0)
    if spread < 1e-15:
        return mean / scale / lift, mean / scale / lift, 1.0, 0.0, 0.0
    half = 0.5 * (u * (v * w - f * f) - d * (d * w - f * e) + e * (d * f - v * e)) / (spread * spread * spread)
    angle = np.arccos(min(max(half, -1.0), 1.0)) / 3.0
    most = mean + 2.0 * spread * np.cos(angle)
    least = mean + 2.0 * spread * np.cos(angle + 2.0 * np.pi / 3.0)
    x, y, z = _null(a, d, e, b, f, c, least)
    least = x * (a * x + 2.0 * (d * y + e * z)) + y * (b * y + 2.0 * f * z) + c * z * z
    x, y, z = _null(a, d, e, b, f, c, least)
    return least / scale / lift, (3.0 * mean - most - least) / scale / lift, x, y, z
