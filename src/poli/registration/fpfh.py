"""Fast Point Feature Histograms (Rusu et al. 2009): the shape of the surface around a point as 33 numbers.

Two oriented points define three angles that are invariant to rigid motion. A point's simple histogram (SPFH) counts the angles to
each of its neighbors, with 11 bins per angle that sum to 100. Its fast histogram adds the simple histograms of the neighbors,
weighted by 1 / squared distance and again scaled to sum to 100. Bins, order and weights are the same as in Open3D, so the features
of both can be compared.
"""

from __future__ import annotations

import numpy as np

from poli.errors import InputError
from poli.kdtree.tree import KDTree
from poli.kernel import kernel
from poli.options import real_array, real_number, whole_number
from poli.scan import ScanLike, points_of
from poli.threads import run_chunks

BINS = 11  # per angle
SIZE = 3 * BINS


def fpfh(
    points: ScanLike,  # (N, 3)
    normals: np.ndarray,  # (N, 3) unit vectors
    radius: float,
    max_neighbors: int = 100,
) -> np.ndarray:  # (N, 33)
    """Return the feature of each point, from at most the `max_neighbors` nearest points within `radius` (including itself).

    Features are invariant to rotation and translation of the cloud. Flipping a normal changes the features of its neighborhood, so
    orient the normals of all compared clouds by the same rule. The feature of a point without neighbors is 0.
    """
    points = points_of(points)
    radius = real_number(radius, "radius", "a positive length", above=True)
    return fpfh_of_scales(points, unit_normals(normals, len(points)), np.array([radius]), max_neighbors)


def fpfh_of_scales(
    points: np.ndarray,  # (N, 3)
    normals: np.ndarray,  # (N, 3)
    radii: np.ndarray,  # (S,) ascending
    max_neighbors: int,
) -> np.ndarray:  # (N, 33 S)
    """Return the features of several radii, concatenated. The cost is little more than for the largest radius."""
    k = whole_number(max_neighbors, "max_neighbors", least=2)
    distances, indices = KDTree(points).nearest(min(k, len(points)))
    near = indices, distances
    simple, fast = np.zeros((2, len(points), len(radii), SIZE))
    run_chunks(lambda begin, end: _simple(points, normals, *near, radii, begin, end, simple), len(points), smallest=64)
    run_chunks(lambda begin, end: _fast(simple, *near, radii, begin, end, fast), len(points), smallest=64)
    return fast.reshape(len(points), -1)


def unit_normals(normals: np.ndarray, count: int, name: str = "normals") -> np.ndarray:  # -> (count, 3)
    """Return `normals` as contiguous float64. Raise InputError if they are not `count` unit vectors."""
    normals = np.ascontiguousarray(real_array(normals, name))
    if normals.shape != (count, 3):
        raise InputError(f"{name} have shape {normals.shape}; expected ({count}, 3), one per point")
    length = np.linalg.norm(normals, axis=1)
    bad = ~(np.abs(length - 1.0) < 1e-3)
    if bad.any():
        row = int(bad.argmax())
        raise InputError(f"{name}: {int(bad.sum())} are not unit vectors, the first is row {row} of length {length[row]:.3g}")
    return normals


@kernel(inline="always")
def _bin(share):
    """Return the bin of a number in 0..1, which rounding may move slightly past either end."""
    return min(max(int(np.floor(BINS * share)), 0), BINS - 1)


@kernel
def _simple(points, normals, indices, distances, radii, begin, end, simple):
    counts = np.empty(SIZE)
    for i in range(begin, end):
        counts[:] = 0.0
        total, scale = 0, 0
        for k in range(indices.shape[1]):
            j, distance = indices[i, k], distances[i, k]
            while scale < len(radii) and distance >= radii[scale]:  # neighbors are sorted, so this scale is complete
                simple[i, scale] = counts * (100.0 / max(total, 1))
                scale += 1
            if scale == len(radii):
                break
            if j == i:
                continue
            turn, tilt, slope = _pair(points[i], normals[i], points[j], normals[j], distance)
            counts[_bin((turn + np.pi) / (2.0 * np.pi))] += 1.0
            counts[BINS + _bin(0.5 * (tilt + 1.0))] += 1.0
            counts[2 * BINS + _bin(0.5 * (slope + 1.0))] += 1.0
            total += 1
        for s in range(scale, len(radii)):
            simple[i, s] = counts * (100.0 / max(total, 1))


@kernel(inline="always")
def _pair(p, a, q, b, distance):
    """Return the three angles of two oriented points: one in radians, two as cosines."""
    if distance == 0.0:
        return 0.0, 0.0, 0.0
    dx, dy, dz = q[0] - p[0], q[1] - p[1], q[2] - p[2]
    ax, ay, az = a[0], a[1], a[2]
    bx, by, bz = b[0], b[1], b[2]
    slope = (ax * dx + ay * dy + az * dz) / distance
    other = (bx * dx + by * dy + bz * dz) / distance
    if abs(slope) < abs(other):  # the frame is at the point whose normal is closer to the line between them
        ax, ay, az, bx, by, bz = bx, by, bz, ax, ay, az
        dx, dy, dz = -dx, -dy, -dz
        slope = -other
    # Darboux frame: the normal a, v = d x a, w = a x v.
    vx, vy, vz = dy * az - dz * ay, dz * ax - dx * az, dx * ay - dy * ax
    length = np.sqrt(vx * vx + vy * vy + vz * vz)
    if length == 0.0:
        return 0.0, 0.0, 0.0
    vx, vy, vz = vx / length, vy / length, vz / length
    wx, wy, wz = ay * vz - az * vy, az * vx - ax * vz, ax * vy - ay * vx
    turn = np.arctan2(wx * bx + wy * by + wz * bz, ax * bx + ay * by + az * bz)
    return turn, vx * bx + vy * by + vz * bz, slope


@kernel
def _fast(simple, indices, distances, radii, begin, end, fast):
    for i in range(begin, end):
        for s in range(len(radii)):
            total = 0.0  # of the weights: each neighbor's histogram sums to 100 per angle, because it has neighbors
            for k in range(indices.shape[1]):
                j, distance = indices[i, k], distances[i, k]
                if distance >= radii[s]:
                    break
                if distance == 0.0:  # itself and its duplicates
                    continue
                weight = 1.0 / (distance * distance)
                total += weight
                for b in range(SIZE):
                    fast[i, s, b] += weight * simple[j, s, b]
            if total > 0.0:
                fast[i, s] /= total
            fast[i, s] += simple[i, s]
