"""One linearization of GICP: match the source points and sum up the normal equations in one pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poli.kdtree.tree import STACK, box_distance
from poli.kernel import kernel, over_range
from poli.threads import run_chunks

BLOCK = 256  # points per partial sum; fixed, so that the result does not depend on the number of threads
_HESSIAN = 21  # distinct entries of a symmetric 6x6 matrix
_COST, _TOTAL, _MATCHED = 27, 28, 29
SUMS = 30
_SAME_MATCH = 5e-3  # meters; a point that moves less keeps its match, even between two target points that are equally near
_UPPER = np.triu_indices(6)


class NormalEquations:
    """Normal equations H dx = -g for the tangent `dx` of `T Exp(dx)`."""

    def __init__(self, sums: np.ndarray) -> None:  # (SUMS,)
        upper = np.zeros((6, 6))
        upper[_UPPER] = sums[:_HESSIAN]
        self.H = upper + np.triu(upper, 1).T  # (6, 6)
        self.g = sums[_HESSIAN:_COST].copy()  # (6,)
        self.cost = float(sums[_COST])
        self.weight = float(sums[_TOTAL])  # of all matches, before the robust kernel
        self.matched = int(sums[_MATCHED])


@dataclass(frozen=True, eq=False)
class Matches:
    """The nearest target point of each source point, and how far the source point may move before it can be another one."""

    rows: np.ndarray  # (N,) int32, in leaf order of the target; -1: none
    searched_at: np.ndarray  # (N, 3) position at the last search
    slack: np.ndarray  # (N,) meters from there within which the match stays the nearest

    @classmethod
    def none(cls, count: int) -> Matches:
        return cls(np.full(count, -1, np.int32), np.empty((count, 3)), np.full(count, -1.0))


def linearize(
    tree: tuple[np.ndarray, np.ndarray, np.ndarray, int],  # of the target, see KDTree.tree
    target: tuple[np.ndarray, np.ndarray, np.ndarray],  # (M,) row of each point in leaf order; (M, 3, 3) covariances, (M,) weights
    source: tuple[np.ndarray, np.ndarray, np.ndarray],  # (N, 3) points, (N, 3, 3) covariances, (N,) weights
    follow: np.ndarray,  # (N,) how far each point moves if the pose moves by 1; all 1 unless deskewed
    T: np.ndarray,  # (4, 4) T_target_source
    max_distance: float,  # meters
    scale: float,  # of the robust kernel, in standard deviations
    matches: Matches,  # updated
) -> NormalEquations:
    blocks = -(-len(source[0]) // BLOCK)
    sums = np.zeros((blocks, SUMS))
    known = (matches.rows, matches.searched_at, matches.slack)
    work = over_range(
        _linearize, *tree, *target, *source, follow, np.ascontiguousarray(T), max_distance**2, scale**2, *known, sums
    )
    run_chunks(work, blocks, 4)
    return NormalEquations(sums.sum(axis=0))


@kernel(inline="always")
def _two_nearest(ranges, boxes, xyz, depth, x, y, z, limit, waiting, waiting_distance):
    """Return the nearest point within the squared distance `limit`, or -1, its squared distance, and that of the second nearest;
    `limit` stands for points that do not exist."""
    first_leaf = (1 << depth) - 1
    waiting[0], waiting_distance[0], top = 0, 0.0, 1
    best, first, second = np.int32(-1), limit, limit
    while top > 0:
        top -= 1
        if waiting_distance[top] >= second:
            continue
        node = waiting[top]
        while node < first_leaf:
            child = 2 * node + 1
            left, right = box_distance(boxes, child, x, y, z), box_distance(boxes, child + 1, x, y, z)
            if left <= right:
                node, near, other, far = child, left, child + 1, right
            else:
                node, near, other, far = child + 1, right, child, left
            if near >= second:
                node = -1
                break
            if far < second:
                waiting[top], waiting_distance[top] = other, far
                top += 1
        if node < 0:
            continue
        for j in range(ranges[node, 0], ranges[node, 1]):
            squared = (xyz[0, j] - x) ** 2 + (xyz[1, j] - y) ** 2 + (xyz[2, j] - z) ** 2
            if squared < first:
                best, first, second = np.int32(j), squared, first
            elif squared < second:
                second = squared
    return best, first, second


@kernel
def _linearize(
    ranges, boxes, xyz, depth, order, C_q, weight_q, points, C_p, weight_p, follow, T, gate2, scale2,
    match, searched_at, slack, begin, end, sums,
):  # fmt: skip
    """Sum up the normal equations of d = q - (R p + t), J = dd/d(rotation, translation) = [R hat(p), -R] under T Exp(dx), times
    `follow`. The weight is the inverse of C_q + R C_p R', times the weights of the two points, times Cauchy's 1 / (1 + d'Wd /
    scale^2). A point is matched again only if it has moved so far that another target point may be the nearest: if the second
    nearest is farther than the nearest by 2 s, the nearest stays the same within s."""
    waiting, waiting_distance = np.empty(STACK, np.int32), np.empty(STACK)
    J, WJ, RC = np.empty((3, 6)), np.empty((3, 6)), np.empty((3, 3))
    for block in range(begin, end):
        out = sums[block]
        for i in range(block * BLOCK, min(len(points), (block + 1) * BLOCK)):
            px, py, pz = points[i, 0], points[i, 1], points[i, 2]
            x = T[0, 0] * px + T[0, 1] * py + T[0, 2] * pz + T[0, 3]
            y = T[1, 0] * px + T[1, 1] * py + T[1, 2] * pz + T[1, 3]
            z = T[2, 0] * px + T[2, 1] * py + T[2, 2] * pz + T[2, 3]
            m = match[i]
            sx, sy, sz = x - searched_at[i, 0], y - searched_at[i, 1], z - searched_at[i, 2]
            if slack[i] < 0.0 or sx * sx + sy * sy + sz * sz > slack[i] * slack[i]:
                m, first, second = _two_nearest(ranges, boxes, xyz, depth, x, y, z, gate2, waiting, waiting_distance)
                match[i] = m
                searched_at[i, 0], searched_at[i, 1], searched_at[i, 2] = x, y, z
                slack[i] = max(_SAME_MATCH, 0.5 * (np.sqrt(second) - np.sqrt(first)))
            if m < 0:
                continue
            q = order[m]
            for a in range(3):
                for b in range(3):
                    RC[a, b] = T[a, 0] * C_p[i, 0, b] + T[a, 1] * C_p[i, 1, b] + T[a, 2] * C_p[i, 2, b]
            s00 = C_q[q, 0, 0] + RC[0, 0] * T[0, 0] + RC[0, 1] * T[0, 1] + RC[0, 2] * T[0, 2]
            s01 = C_q[q, 0, 1] + RC[0, 0] * T[1, 0] + RC[0, 1] * T[1, 1] + RC[0, 2] * T[1, 2]
            s02 = C_q[q, 0, 2] + RC[0, 0] * T[2, 0] + RC[0, 1] * T[2, 1] + RC[0, 2] * T[2, 2]
            s11 = C_q[q, 1, 1] + RC[1, 0] * T[1, 0] + RC[1, 1] * T[1, 1] + RC[1, 2] * T[1, 2]
            s12 = C_q[q, 1, 2] + RC[1, 0] * T[2, 0] + RC[1, 1] * T[2, 1] + RC[1, 2] * T[2, 2]
            s22 = C_q[q, 2, 2] + RC[2, 0] * T[2, 0] + RC[2, 1] * T[2, 1] + RC[2, 2] * T[2, 2]
            w00, w01, w02 = s11 * s22 - s12 * s12, s02 * s12 - s01 * s22, s01 * s12 - s02 * s11
            inverse = 1.0 / (s00 * w00 + s01 * w01 + s02 * w02)
            w11, w12, w22 = (s00 * s22 - s02 * s02) * inverse, (s01 * s02 - s00 * s12) * inverse, (s00 * s11 - s01 * s01) * inverse
            w00, w01, w02 = w00 * inverse, w01 * inverse, w02 * inverse
            dx, dy, dz = xyz[0, m] - x, xyz[1, m] - y, xyz[2, m] - z
            wx, wy, wz = w00 * dx + w01 * dy + w02 * dz, w01 * dx + w11 * dy + w12 * dz, w02 * dx + w12 * dy + w22 * dz
            squared = dx * wx + dy * wy + dz * wz
            both = weight_p[i] * weight_q[q]
            weight = both / (1.0 + squared / scale2)
            f = follow[i]
            for a in range(3):
                J[a, 0] = f * (T[a, 1] * pz - T[a, 2] * py)
                J[a, 1] = f * (T[a, 2] * px - T[a, 0] * pz)
                J[a, 2] = f * (T[a, 0] * py - T[a, 1] * px)
                J[a, 3], J[a, 4], J[a, 5] = -f * T[a, 0], -f * T[a, 1], -f * T[a, 2]
            for b in range(6):
                WJ[0, b] = weight * (w00 * J[0, b] + w01 * J[1, b] + w02 * J[2, b])
                WJ[1, b] = weight * (w01 * J[0, b] + w11 * J[1, b] + w12 * J[2, b])
                WJ[2, b] = weight * (w02 * J[0, b] + w12 * J[1, b] + w22 * J[2, b])
            k = 0
            for a in range(6):
                for b in range(a, 6):
                    out[k] += J[0, a] * WJ[0, b] + J[1, a] * WJ[1, b] + J[2, a] * WJ[2, b]
                    k += 1
                out[_HESSIAN + a] += WJ[0, a] * dx + WJ[1, a] * dy + WJ[2, a] * dz
            out[_COST] += both * scale2 * np.log(1.0 + squared / scale2)
            out[_TOTAL] += both
            out[_MATCHED] += 1.0
