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


def packed(covariances: np.ndarray, weights: np.ndarray) -> np.ndarray:  # (N, 3, 3), (N,) -> (N, 7)
    """Upper triangles and weights side by side, so that a match costs one access to memory."""
    rows = np.empty((len(weights), 7))
    rows[:, :3], rows[:, 3:5], rows[:, 5], rows[:, 6] = covariances[:, 0], covariances[:, 1, 1:], covariances[:, 2, 2], weights
    return rows


def linearize(
    tree: tuple[np.ndarray, np.ndarray, np.ndarray, int],  # of the target, see KDTree.tree
    target: np.ndarray,  # (M, 7) `packed`, in leaf order
    points: np.ndarray,  # (N, 3) of the source
    source: np.ndarray,  # (N, 7) `packed`
    follow: np.ndarray,  # (N,) how far each point moves if the pose moves by 1; all 1 unless deskewed
    T: np.ndarray,  # (4, 4) T_target_source
    max_distance: float,  # meters
    scale: float,  # of the robust kernel, in standard deviations
    matches: Matches,  # updated
) -> NormalEquations:
    blocks = -(-len(points) // BLOCK)
    sums = np.zeros((blocks, SUMS))
    known = (matches.rows, matches.searched_at, matches.slack)
    work = over_range(
        _linearize, *tree, target, points, source, follow, np.ascontiguousarray(T), max_distance**2, scale**2, *known, sums
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
    ranges, boxes, xyz, depth, target, points, source, follow, T, gate2, scale2, match, searched_at, slack, begin, end, sums
):  # fmt: skip
    """Sum up the normal equations of d = R'(q - t) - p, the residual in the source frame, J = dd/d(rotation, translation) =
    [hat(p), -I] under T Exp(dx), times `follow`. The weight W is the inverse of R' C_q R + C_p, times the weights of the two
    points, times Cauchy's 1 / (1 + d'Wd / scale^2).

    A point is matched again only if it has moved so far that another target point may be the nearest: if the second nearest is
    farther than the nearest by 2 s, the nearest stays the same within s."""
    waiting, waiting_distance = np.empty(STACK, np.int32), np.empty(STACK)
    R00, R01, R02, R10, R11, R12, R20, R21, R22 = T[0, 0], T[0, 1], T[0, 2], T[1, 0], T[1, 1], T[1, 2], T[2, 0], T[2, 1], T[2, 2]
    for block in range(begin, end):
        out = sums[block]
        for i in range(block * BLOCK, min(len(points), (block + 1) * BLOCK)):
            px, py, pz = points[i, 0], points[i, 1], points[i, 2]
            x = R00 * px + R01 * py + R02 * pz + T[0, 3]
            y = R10 * px + R11 * py + R12 * pz + T[1, 3]
            z = R20 * px + R21 * py + R22 * pz + T[2, 3]
            m = match[i]
            sx, sy, sz = x - searched_at[i, 0], y - searched_at[i, 1], z - searched_at[i, 2]
            if slack[i] < 0.0 or sx * sx + sy * sy + sz * sz > slack[i] * slack[i]:
                m, first, second = _two_nearest(ranges, boxes, xyz, depth, x, y, z, gate2, waiting, waiting_distance)
                match[i] = m
                searched_at[i, 0], searched_at[i, 1], searched_at[i, 2] = x, y, z
                slack[i] = max(_SAME_MATCH, 0.5 * (np.sqrt(second) - np.sqrt(first)))
            if m < 0:
                continue
            c00, c01, c02, c11, c12, c22 = target[m, 0], target[m, 1], target[m, 2], target[m, 3], target[m, 4], target[m, 5]
            a00, a01, a02 = c00 * R00 + c01 * R10 + c02 * R20, c00 * R01 + c01 * R11 + c02 * R21, c00 * R02 + c01 * R12 + c02 * R22
            a10, a11, a12 = c01 * R00 + c11 * R10 + c12 * R20, c01 * R01 + c11 * R11 + c12 * R21, c01 * R02 + c11 * R12 + c12 * R22
            a20, a21, a22 = c02 * R00 + c12 * R10 + c22 * R20, c02 * R01 + c12 * R11 + c22 * R21, c02 * R02 + c12 * R12 + c22 * R22
            s00 = source[i, 0] + R00 * a00 + R10 * a10 + R20 * a20
            s01 = source[i, 1] + R00 * a01 + R10 * a11 + R20 * a21
            s02 = source[i, 2] + R00 * a02 + R10 * a12 + R20 * a22
            s11 = source[i, 3] + R01 * a01 + R11 * a11 + R21 * a21
            s12 = source[i, 4] + R01 * a02 + R11 * a12 + R21 * a22
            s22 = source[i, 5] + R02 * a02 + R12 * a12 + R22 * a22
            w00, w01, w02 = s11 * s22 - s12 * s12, s02 * s12 - s01 * s22, s01 * s12 - s02 * s11
            inverse = 1.0 / (s00 * w00 + s01 * w01 + s02 * w02)
            w11, w12, w22 = (s00 * s22 - s02 * s02) * inverse, (s01 * s02 - s00 * s12) * inverse, (s00 * s11 - s01 * s01) * inverse
            w00, w01, w02 = w00 * inverse, w01 * inverse, w02 * inverse
            ox, oy, oz = xyz[0, m] - x, xyz[1, m] - y, xyz[2, m] - z
            dx, dy, dz = R00 * ox + R10 * oy + R20 * oz, R01 * ox + R11 * oy + R21 * oz, R02 * ox + R12 * oy + R22 * oz
            gx, gy, gz = w00 * dx + w01 * dy + w02 * dz, w01 * dx + w11 * dy + w12 * dz, w02 * dx + w12 * dy + w22 * dz
            squared = dx * gx + dy * gy + dz * gz
            both = source[i, 6] * target[m, 6]
            g = follow[i] * both / (1.0 + squared / scale2)  # of the gradient
            h = follow[i] * g  # of the Hessian
            w00, w01, w02, w11, w12, w22 = h * w00, h * w01, h * w02, h * w11, h * w12, h * w22
            # A = W hat(p). The blocks of J'WJ are hat(p)'A, -A' and W.
            a00, a01, a02 = w01 * pz - w02 * py, w02 * px - w00 * pz, w00 * py - w01 * px
            a10, a11, a12 = w11 * pz - w12 * py, w12 * px - w01 * pz, w01 * py - w11 * px
            a20, a21, a22 = w12 * pz - w22 * py, w22 * px - w02 * pz, w02 * py - w12 * px
            out[0] += pz * a10 - py * a20
            out[1] += pz * a11 - py * a21
            out[2] += pz * a12 - py * a22
            out[3] -= a00
            out[4] -= a10
            out[5] -= a20
            out[6] += px * a21 - pz * a01
            out[7] += px * a22 - pz * a02
            out[8] -= a01
            out[9] -= a11
            out[10] -= a21
            out[11] += py * a02 - px * a12
            out[12] -= a02
            out[13] -= a12
            out[14] -= a22
            out[15] += w00
            out[16] += w01
            out[17] += w02
            out[18] += w11
            out[19] += w12
            out[20] += w22
            out[21] += g * (pz * gy - py * gz)
            out[22] += g * (px * gz - pz * gx)
            out[23] += g * (py * gx - px * gy)
            out[24] -= g * gx
            out[25] -= g * gy
            out[26] -= g * gz
            out[_COST] += both * scale2 * np.log(1.0 + squared / scale2)
            out[_TOTAL] += both
            out[_MATCHED] += 1.0
