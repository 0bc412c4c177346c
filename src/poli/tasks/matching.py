"""Match features: pairs that are among each other's nearest."""

from __future__ import annotations

import numpy as np

from poli.errors import InputError
from poli.validation import real_array, whole_number

_BLOCK = 1 << 22  # distances held at a time: 32 MB


def mutual_matches(
    a: np.ndarray,  # (N, D)
    b: np.ndarray,  # (M, D)
    k: int = 1,
) -> np.ndarray:  # (K, 2) rows of a and b
    """Return the pairs (i, j) where b[j] is among the `k` nearest features of a[i] and a[i] among the `k` nearest of b[j].

    Sorted by i, then j. Ties go to the lower index.
    """
    k = whole_number(k, "k", least=1)
    a, b = _features(a, "a"), _features(b, "b")
    if a.shape[1] != b.shape[1]:
        raise InputError(f"a holds features of size {a.shape[1]} and b of size {b.shape[1]}; they must have the same size")
    if k == 1 and len(a) and len(b):
        return _nearest_to_each_other(a, b)
    # Encode a pair (i, j) as i M + j: the intersection of the two lists is then one sorted merge.
    forth = np.arange(len(a))[:, None] * len(b) + _nearest(a, b, min(k, len(b)))
    back = _nearest(b, a, min(k, len(a))) * len(b) + np.arange(len(b))[:, None]
    both = np.intersect1d(forth, back, assume_unique=True)
    return np.stack([both // max(len(b), 1), both % max(len(b), 1)], axis=1)


def _nearest(a: np.ndarray, b: np.ndarray, k: int) -> np.ndarray:  # (N, D), (M, D) -> (N, k)
    found = np.empty((len(a), k), np.int64)
    half_squares = 0.5 * np.einsum("ij,ij->i", b, b)
    rows = max(1, _BLOCK // max(len(b), 1))
    for begin in range(0, len(a), rows):
        # |a - b|^2 = |a|^2 + 2 (|b|^2 / 2 - a.b); the first term is the same for the whole row.
        distance = half_squares - a[begin : begin + rows] @ b.T
        row = np.arange(len(distance))
        for n in range(k):
            nearest = distance.argmin(axis=1)
            found[begin : begin + rows, n] = nearest
            distance[row, nearest] = np.inf
    return found


def _nearest_to_each_other(a: np.ndarray, b: np.ndarray) -> np.ndarray:  # (N, D), (M, D) -> (K, 2)
    """Return the matches for k = 1, computing every product once instead of twice: keep the nearest row of `a` so far."""
    forth, back, least = np.empty(len(a), np.int64), np.zeros(len(b), np.int64), np.full(len(b), np.inf)
    half_a, half_b = 0.5 * np.einsum("ij,ij->i", a, a), 0.5 * np.einsum("ij,ij->i", b, b)
    rows, column = max(1, _BLOCK // len(b)), np.arange(len(b))
    for begin in range(0, len(a), rows):
        distance = half_b - a[begin : begin + rows] @ b.T
        forth[begin : begin + rows] = distance.argmin(axis=1)
        distance += half_a[begin : begin + rows, None]
        nearest = distance.argmin(axis=0)
        nearer = distance[nearest, column] < least
        least[nearer], back[nearer] = distance[nearest, column][nearer], nearest[nearer] + begin
    i = np.flatnonzero(back[forth] == np.arange(len(a)))
    return np.stack([i, forth[i]], axis=1)


def _features(value: np.ndarray, name: str) -> np.ndarray:
    features = real_array(value, name)
    if features.ndim != 2:
        raise InputError(f"{name} has shape {features.shape}; expected (N, D), one feature per row")
    if not np.isfinite(features).all():
        raise InputError(f"{name}: row {int((~np.isfinite(features)).any(axis=1).argmax())} is not finite")
    return features
