"""Normal equations of points on planes, with the planes eliminated.

The residual of point k on plane v is r = n' (T p) - d. It is linear in small changes of the beams' corrections, of the pose of the
scan, and of the plane (its offset and two tilts). For each plane the three parameters are eliminated by their Schur complement, so
only beams and poses remain. A plane that all beams measure equally wrong therefore says nothing about them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.kernel import kernel

_RIDGE = 1e-9  # relative, of the plane's 3x3 system: points on one line leave a tilt undetermined, which this sets to zero


@dataclass(frozen=True, eq=False)
class Rows:
    """Residuals sorted by plane, with their derivatives."""

    starts: np.ndarray  # (V + 1,) first row of each plane
    nodes: np.ndarray  # (N,) first of three scans
    parts: np.ndarray  # (N, 3) their shares in the pose of the return
    low: np.ndarray  # (N,) beam
    high: np.ndarray  # (N,) beam
    share: np.ndarray  # (N,) of the second beam
    beside: np.ndarray  # (N, 2) coordinates in the plane, from its center
    by_beam: np.ndarray  # (N, 2) per degree of elevation and meter of range
    by_pose: np.ndarray  # (N, 6) rotation, translation
    residuals: np.ndarray  # (N,) meters
    weights: np.ndarray  # (N,) 1 / variance, times the robust weight


@dataclass(frozen=True, eq=False)
class Equations:
    """matrix x = -gradient. Unknowns: elevation of B beams, range of B beams, 6 numbers for each of S scans."""

    matrix: np.ndarray  # (2 B + 6 S, 2 B + 6 S)
    gradient: np.ndarray  # (2 B + 6 S,)


def equations(rows: Rows, beams: int, scans: int) -> Equations:
    size = 2 * beams + 6 * scans
    matrix, gradient = np.zeros((size, size)), np.zeros(size)
    _accumulate(
        rows.starts, rows.nodes, rows.parts, rows.low, rows.high, rows.share, rows.beside, rows.by_beam, rows.by_pose,
        rows.residuals, rows.weights, beams, matrix, gradient,
    )  # fmt: skip
    return Equations(matrix + np.triu(matrix, 1).T, gradient)


@kernel
def _accumulate(starts, nodes, parts, low, high, share, beside, by_beam, by_pose, residuals, weights, beams, matrix, gradient):
    size = len(gradient)
    place = np.full(size, -1, np.int64)  # of an unknown among those that the plane touches
    touched = np.empty(size, np.int64)
    coupling = np.empty((size, 3))
    solved = np.empty((size, 3))
    score = np.empty(size)
    columns, values = np.empty(22, np.int64), np.empty(22)
    on_plane = np.empty(3)
    for v in range(len(starts) - 1):
        if starts[v + 1] - starts[v] < 4:
            continue
        count = 0
        plane, right = np.zeros((3, 3)), np.zeros(3)
        for k in range(starts[v], starts[v + 1]):
            w, r = weights[k], residuals[k]
            on_plane[0], on_plane[1], on_plane[2] = 1.0, beside[k, 0], beside[k, 1]
            used = 0
            for side in range(2):
                beam, part = (low[k], 1.0 - share[k]) if side == 0 else (high[k], share[k])
                if part == 0.0:
                    continue
                for kind in range(2):
                    columns[used], values[used] = kind * beams + beam, part * by_beam[k, kind]
                    used += 1
            for node in range(3):
                part = parts[k, node]
                if part == 0.0:
                    continue
                for a in range(6):
                    columns[used], values[used] = 2 * beams + 6 * (nodes[k] + node) + a, part * by_pose[k, a]
                    used += 1
            for a in range(3):
                right[a] += w * on_plane[a] * r
                for b in range(3):
                    plane[a, b] += w * on_plane[a] * on_plane[b]
            for i in range(used):
                c = columns[i]
                if place[c] < 0:
                    place[c] = count
                    touched[count] = c
                    for a in range(3):
                        coupling[count, a] = 0.0
                    score[count] = 0.0
                    count += 1
                score[place[c]] += w * values[i] * r
                for a in range(3):
                    coupling[place[c], a] += w * values[i] * on_plane[a]
                for j in range(used):
                    if columns[j] >= c:
                        matrix[c, columns[j]] += w * values[i] * values[j]
        ridge = _RIDGE * (plane[0, 0] + plane[1, 1] + plane[2, 2])
        for a in range(3):
            plane[a, a] += ridge
        inverse = _inverse(plane)
        for i in range(count):
            for a in range(3):
                solved[i, a] = inverse[a, 0] * coupling[i, 0] + inverse[a, 1] * coupling[i, 1] + inverse[a, 2] * coupling[i, 2]
            score[i] -= solved[i, 0] * right[0] + solved[i, 1] * right[1] + solved[i, 2] * right[2]
            gradient[touched[i]] += score[i]
        for i in range(count):
            c = touched[i]
            for j in range(count):
                d = touched[j]
                if d >= c:
                    matrix[c, d] -= solved[i, 0] * coupling[j, 0] + solved[i, 1] * coupling[j, 1] + solved[i, 2] * coupling[j, 2]
            place[c] = -1


@kernel
def _inverse(A):  # (3, 3), symmetric and positive definite
    B = np.empty((3, 3))
    B[0, 0] = A[1, 1] * A[2, 2] - A[1, 2] * A[1, 2]
    B[0, 1] = B[1, 0] = A[0, 2] * A[1, 2] - A[0, 1] * A[2, 2]
    B[0, 2] = B[2, 0] = A[0, 1] * A[1, 2] - A[0, 2] * A[1, 1]
    B[1, 1] = A[0, 0] * A[2, 2] - A[0, 2] * A[0, 2]
    B[1, 2] = B[2, 1] = A[0, 1] * A[0, 2] - A[0, 0] * A[1, 2]
    B[2, 2] = A[0, 0] * A[1, 1] - A[0, 1] * A[0, 1]
    determinant = A[0, 0] * B[0, 0] + A[0, 1] * B[0, 1] + A[0, 2] * B[0, 2]
    return B / determinant
