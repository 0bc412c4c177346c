"""Convert ellipsoids to the covariances and weights that GICP uses.

A learned covariance predicts where the matched point of another scan is, and the prediction is right: matched points differ by
N(0, 2 C). Used directly, it is still a poor weight. Along a surface, the residual is small because the nearest point was chosen,
not because the pose is right, and weighting it holds the pose back. Only the residual across the surface carries information about
the pose. Each point therefore becomes a plane with the ellipsoid's normal, the same variance across for all points, and a standard
deviation of 1 m along it (GICP's regularization with POLI's directions). The size of the ellipsoid enters as a weight: points with
thick ellipsoids, in a bush or at an edge, count less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.ellipsoids.symmetric3 import thinnest
from poli.errors import InputError
from poli.kdtree.growing import TreeArrays
from poli.kdtree.tree import STACK, box_distance
from poli.kernel import kernel, over_range, readable
from poli.lidar_odometry.deskewing import MOTION, Sweep, moved
from poli.options import real_number
from poli.threads import run_chunks

MetricKind = Literal["surfaces", "raw"]
SHAPE = 7  # numbers: the upper triangle of a covariance and a weight, side by side, so that a match costs one access to memory
WEIGHT = 6  # column
_FULL = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])  # columns of the entries of a covariance


@dataclass(frozen=True)
class Metric:
    """How ellipsoids become weights of matches.

    `surfaces`: variances (thickness^2, 1, 1) along the ellipsoid's axes, weight trust^2 / (trust^2 + smallest variance).
    `raw`: the covariance plus thickness^2, weight 1, as in the paper.
    """

    kind: MetricKind = "surfaces"
    thickness: float = 0.01  # meters: one sigma across a surface, including sensor noise; no covariance is thinner
    trust: float = 0.15  # meters: ellipsoids this thick have weight 0.5

    def __post_init__(self) -> None:
        if self.kind not in get_args(MetricKind):
            raise InputError(f"metric: kind is {self.kind!r}; expected one of {', '.join(get_args(MetricKind))}")
        real_number(self.thickness, "metric: thickness", "a positive number of meters", above=True)
        real_number(self.trust, "metric: trust", "a positive number of meters", above=True)

    def __call__(self, field: Ellipsoids) -> WeightedPoints:
        points = WeightedPoints.empty(len(field))
        points.means[:] = field.means
        self.weigh(field.covariances, np.arange(len(field)), points)
        return points

    def weigh(self, covariances: np.ndarray, rows: np.ndarray, points: WeightedPoints) -> None:  # (N, 3, 3), (k,)
        """Set shapes, normals and flatness of these rows of `points` from those of `covariances`."""
        how = (self.kind == "raw", self.thickness**2, self.trust**2)
        work = over_range(_weigh, readable(covariances), rows, *how, points.shapes, points.normals, points.flatness)
        run_chunks(work, len(rows), 1024)


@dataclass(frozen=True, eq=False)
class WeightedPoints:
    """Points with the covariances and weights that GICP uses."""

    means: np.ndarray  # (N, 3)
    shapes: np.ndarray  # (N, SHAPE)
    normals: np.ndarray  # (N, 3)
    flatness: np.ndarray  # (N,) from 0, where the normal is undetermined, to 1

    @classmethod
    def empty(cls, count: int) -> WeightedPoints:
        return cls(np.empty((count, 3)), np.empty((count, SHAPE)), np.empty((count, 3)), np.empty(count))

    def __len__(self) -> int:
        return len(self.means)

    def first(self, count: int) -> WeightedPoints:
        """A view of the first rows."""
        return WeightedPoints(self.means[:count], self.shapes[:count], self.normals[:count], self.flatness[:count])

    @property
    def weights(self) -> np.ndarray:  # (N,)
        return self.shapes[:, WEIGHT]

    @property
    def covariances(self) -> np.ndarray:  # (N, 3, 3)
        return self.shapes[:, _FULL]


@kernel
def _weigh(covariances, rows, raw, thickness2, trust2, begin, end, shapes, normals, flatness):
    """Planes I - (1 - thickness^2) n n', or covariances plus thickness^2; weights; and how well each normal is determined."""
    for k in range(begin, end):
        i = rows[k]
        C, shape = covariances[i], shapes[i]
        thin, middle, x, y, z = thinnest(C[0, 0], C[0, 1], C[0, 2], C[1, 1], C[1, 2], C[2, 2])
        thin = max(thin, 0.0)
        normals[i, 0], normals[i, 1], normals[i, 2] = x, y, z
        flatness[i] = 1.0 - thin / max(middle, 1e-12)
        if raw:
            shape[0], shape[3], shape[5] = C[0, 0] + thickness2, C[1, 1] + thickness2, C[2, 2] + thickness2
            shape[1], shape[2], shape[4], shape[6] = C[0, 1], C[0, 2], C[1, 2], 1.0
        else:
            s = 1.0 - thickness2
            shape[0], shape[3], shape[5] = 1.0 - s * x * x, 1.0 - s * y * y, 1.0 - s * z * z
            shape[1], shape[2], shape[4], shape[6] = -s * x * y, -s * x * z, -s * y * z, trust2 / (trust2 + thin)


# --- One linearization of GICP: match the source points and sum up the normal equations in one pass.


BLOCK = 256  # points per partial sum; fixed, so that the result does not depend on the number of threads
_HESSIAN = 21  # distinct entries of a symmetric 6x6 matrix
_COST, _TOTAL, _MATCHED = 27, 28, 29
SUMS = 30
SAME_MATCH = 5e-3  # meters; a point that moves less keeps its match, even between two target points that are equally near
_NEAR = 3 + SHAPE  # numbers of a matched target point
_MARGIN = 1.0 + 1e-9  # of bounds of distances, for rounding
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
class NearestPoints:
    """The nearest target point of each source point, and what is known about the distances to the two nearest."""

    slots: np.ndarray  # (N,) int32 in the target's tree; -1: none
    near: np.ndarray  # (N, _NEAR) mean, covariance and weight of the target point: copies, which are adjacent in memory
    searched: np.ndarray  # (N, 5) position at the last search, and distances to the two nearest there; -1: never searched

    @classmethod
    def none(cls, count: int) -> NearestPoints:
        return cls(np.full(count, -1, np.int32), np.empty((count, _NEAR)), np.full((count, 5), -1.0))


@dataclass(frozen=True, eq=False)
class Source:
    """The points to be aligned."""

    points: np.ndarray  # (N, 3); with a sweep, as measured
    shapes: np.ndarray  # (N, SHAPE)
    sweep: Sweep | None = None

    def linear_terms(self, T: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (4, 4) -> (N,), (N,), (MOTION,)
        """Time of each point, how far it moves if the pose moves by 1, and the motion during the scan; empty without a sweep."""
        if self.sweep is None:
            return _NOTHING, _NOTHING, _AT_REST
        return self.sweep.times, self.sweep.follow, self.sweep.motion(T)


_NOTHING, _AT_REST = np.empty(0), np.zeros(MOTION)


def linearize(
    tree: TreeArrays,  # of the target
    target: np.ndarray,  # (M, SHAPE)
    source: Source,
    T: np.ndarray,  # (4, 4) T_target_source
    max_distance: float,  # meters
    scale: float,  # of the robust kernel, in standard deviations
    matches: NearestPoints,  # updated
    same: float = SAME_MATCH,  # meters that a point may move without being matched again
) -> NormalEquations:
    blocks = -(-len(source.points) // BLOCK)
    sums = np.zeros((blocks, SUMS))
    times, follow, motion = source.linear_terms(T)
    how = (np.ascontiguousarray(T), motion, max_distance**2, scale**2, same)
    known = (matches.slots, matches.near, matches.searched)
    work = over_range(_linearize, tree, target, source.points, times, source.shapes, follow, *how, *known, sums)
    run_chunks(work, blocks, 4)
    return NormalEquations(sums.sum(axis=0))


@kernel(inline="always")
def _two_nearest(tree, x, y, z, known, first, second, waiting, waiting_distance):
    """Return the slot of the nearest point, its squared distance, and that of the second nearest. `first` and `second` are upper
    bounds of them: `first` is the distance of the slot `known`, or equal to `second` if that is -1. Points that are not nearer
    than the bounds are not found."""
    children, spans, boxes, xyz = tree.children, tree.spans, tree.boxes, tree.xyz
    waiting[0], waiting_distance[0], top = 0, 0.0, 1
    best = known
    while top > 0:
        top -= 1
        if waiting_distance[top] >= second:
            continue
        node = waiting[top]
        child = children[node]
        while child >= 0:
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
            child = children[node]
        if node < 0:
            continue
        for j in range(spans[node, 0], spans[node, 1]):
            squared = (xyz[0, j] - x) ** 2 + (xyz[1, j] - y) ** 2 + (xyz[2, j] - z) ** 2
            if squared < second and j != best:
                if squared < first:
                    best, first, second = j, squared, first
                else:
                    second = squared
    return best, first, second


@kernel
def _linearize(
    tree, target, points, times, source, follow, T, motion, gate2, scale2, same, match, near, searched, begin, end, sums
):  # fmt: skip
    """Sum up the normal equations of d = R'(q - t) - p, the residual in the source frame, J = dd/d(rotation, translation) =
    [hat(p), -I] under T Exp(dx), times `follow`. The weight W is the inverse of R' C_q R + C_p, times the weights of the two
    points, times Cauchy's 1 / (1 + d'Wd / scale^2).

    A point is matched again only if it has moved so far that another target point may be the nearest: if the second nearest is
    farther than the nearest by 2 s, the nearest stays the same within s. The distances at the last search also bound those of the
    next one, which makes it faster."""
    waiting, waiting_distance = np.empty(STACK, np.int32), np.empty(STACK)
    swept = len(times) > 0
    R00, R01, R02, R10, R11, R12, R20, R21, R22 = T[0, 0], T[0, 1], T[0, 2], T[1, 0], T[1, 1], T[1, 2], T[2, 0], T[2, 1], T[2, 2]
    for block in range(begin, end):
        out = sums[block]
        for i in range(block * BLOCK, min(len(points), (block + 1) * BLOCK)):
            px, py, pz, follows = points[i, 0], points[i, 1], points[i, 2], 1.0
            if swept:
                px, py, pz = moved(px, py, pz, times[i], motion)
                follows = follow[i]
            x = R00 * px + R01 * py + R02 * pz + T[0, 3]
            y = R10 * px + R11 * py + R12 * pz + T[1, 3]
            z = R20 * px + R21 * py + R22 * pz + T[2, 3]
            q, last = near[i], searched[i]
            shift = np.sqrt((x - last[0]) ** 2 + (y - last[1]) ** 2 + (z - last[2]) ** 2)
            if last[3] < 0.0 or shift > max(same, 0.5 * (last[4] - last[3])):
                first, second, slot = gate2, gate2, np.int64(-1)
                if match[i] >= 0:
                    first = (q[0] - x) ** 2 + (q[1] - y) ** 2 + (q[2] - z) ** 2
                    if first < gate2:
                        second, slot = min(gate2, ((last[4] + shift) * _MARGIN) ** 2), np.int64(match[i])
                    else:
                        first = gate2
                slot, first, second = _two_nearest(tree, x, y, z, slot, first, second, waiting, waiting_distance)
                if slot >= 0 and slot != match[i]:
                    q[0], q[1], q[2] = tree.xyz[0, slot], tree.xyz[1, slot], tree.xyz[2, slot]
                    for a in range(SHAPE):
                        q[3 + a] = target[tree.rows[slot], a]
                match[i] = slot
                last[0], last[1], last[2], last[3], last[4] = x, y, z, np.sqrt(first), np.sqrt(second)
            if match[i] < 0:
                continue
            c00, c01, c02, c11, c12, c22 = q[3], q[4], q[5], q[6], q[7], q[8]
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
            ox, oy, oz = q[0] - x, q[1] - y, q[2] - z
            dx, dy, dz = R00 * ox + R10 * oy + R20 * oz, R01 * ox + R11 * oy + R21 * oz, R02 * ox + R12 * oy + R22 * oz
            gx, gy, gz = w00 * dx + w01 * dy + w02 * dz, w01 * dx + w11 * dy + w12 * dz, w02 * dx + w12 * dy + w22 * dz
            squared = dx * gx + dy * gy + dz * gz
            both = source[i, 6] * q[9]
            g = follows * both / (1.0 + squared / scale2)  # of the gradient
            h = follows * g  # of the Hessian
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
