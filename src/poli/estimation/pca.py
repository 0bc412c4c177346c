"""Principal component analysis of neighborhoods: the hand-crafted rival of the network, done well."""

from __future__ import annotations

from typing import Literal

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.kdtree.tree import FARTHEST, STACK, KDTree, box_distance
from poli.kernel import kernel, over_range
from poli.scan import ScanLike, points_of
from poli.threads import run_chunks
from poli.validation import real_number, whole_number

NEIGHBORS = 24  # default of `pca`, and of whatever estimates by it unless a reason stands beside another number


def pca(
    scan: ScanLike,  # (N, 3)
    k: int = NEIGHBORS,
    radius: float | None = None,
    regularize: Literal["none", "plane"] = "none",
    floor: float = 0.0,
    viewpoint: np.ndarray | None = None,  # (3,)
) -> Ellipsoids:
    """An ellipsoid for every point from the spread of its neighbors: its own position, their covariance (divided by their number).

    The neighbors are the `k` nearest (itself included), or all within `radius` meters if that is given. `regularize="plane"`
    sets the variances to GICP's (0.001, 1, 1) along the directions found. `floor` (meters) thickens every ellipsoid.

    Where the neighborhood cannot tell a shape (fewer than 3 points), the ellipsoid is a ball as wide as the distance to the
    nearest other point (or the radius, if there is none within it): nothing is known but how sparse the scan is. Collinear
    neighbors give a needle and identical ones a dot, both exactly flat: add a `floor` before using them as densities.
    """
    k = whole_number(k, "k", least=3)  # fewer have no plane
    floor = real_number(floor, "floor", "meters, at least 0")
    if regularize not in ("none", "plane"):
        raise InputError(f"regularize is {regularize!r}; expected 'none' or 'plane'")
    points = points_of(scan).copy()  # a field is a value: what becomes of the scan later does not touch it
    index = KDTree(points)
    covariances = _within(index, radius) if radius is not None else _nearest(index, min(k, len(points)))
    field = Ellipsoids.trusted(points, covariances, viewpoint)
    if floor:
        field = field.with_floor(floor)
    return field.as_planes() if regularize == "plane" else field


def _nearest(index: KDTree, k: int) -> np.ndarray:  # -> (N, 3, 3)
    covariances = np.empty((len(index), 3, 3))
    if k < 3:
        spacing = index.nearest_in_leaf_order(min(2, len(index)))[0][:, -1]  # zero for a single point or a duplicate: a dot
        covariances[index.leaf_order] = spacing[:, None, None] * np.eye(3)
        return covariances
    _, found = index.nearest_in_leaf_order(k)
    run_chunks(over_range(_covariances, index.tree[2], index.leaf_order, found, covariances), len(index))
    return covariances


def _within(index: KDTree, radius: float) -> np.ndarray:  # -> (N, 3, 3)
    # No two points are farther apart, and squares of it are numbers.
    radius = min(real_number(radius, "radius", "a positive number of meters", above=True), 4.0 * FARTHEST)
    covariances = np.empty((len(index), 3, 3))
    run_chunks(over_range(_ball_covariances, *index.tree, index.leaf_order, radius, covariances), len(index))
    return covariances


@kernel(inline="always")
def _store(sums, count, out):
    """Covariance from sums of x, y, z, xx, xy, xz, yy, yz, zz relative to the query: no large numbers cancel."""
    mx, my, mz = sums[0] / count, sums[1] / count, sums[2] / count
    out[0, 0] = max(sums[3] / count - mx * mx, 0.0)
    out[1, 1] = max(sums[6] / count - my * my, 0.0)
    out[2, 2] = max(sums[8] / count - mz * mz, 0.0)
    out[0, 1] = out[1, 0] = sums[4] / count - mx * my
    out[0, 2] = out[2, 0] = sums[5] / count - mx * mz
    out[1, 2] = out[2, 1] = sums[7] / count - my * mz


@kernel(inline="always")
def _add(sums, dx, dy, dz):
    sums[0] += dx
    sums[1] += dy
    sums[2] += dz
    sums[3] += dx * dx
    sums[4] += dx * dy
    sums[5] += dx * dz
    sums[6] += dy * dy
    sums[7] += dy * dz
    sums[8] += dz * dz


@kernel
def _covariances(xyz, order, found, begin, end, covariances):
    X, Y, Z = xyz[0], xyz[1], xyz[2]
    k = found.shape[1]
    sums = np.empty(9)
    for s in range(begin, end):
        sums[:] = 0.0
        x, y, z = X[s], Y[s], Z[s]
        for j in range(k):
            n = found[s, j]
            _add(sums, X[n] - x, Y[n] - y, Z[n] - z)
        _store(sums, k, covariances[order[s]])


@kernel
def _ball_covariances(ranges, boxes, xyz, depth, order, radius, begin, end, covariances):
    """Summed during the search: a wide radius costs time, but no memory."""
    X, Y, Z = xyz[0], xyz[1], xyz[2]
    waiting = np.empty(STACK, np.int32)
    sums = np.empty(9)
    for s in range(begin, end):
        x, y, z = X[s], Y[s], Z[s]
        sums[:] = 0.0
        count, spacing = 0, radius * radius
        waiting[0], top = 0, 1
        while top > 0:
            top -= 1
            node = waiting[top]
            if box_distance(boxes, node, x, y, z) > radius * radius:
                continue
            if node < (1 << depth) - 1:
                waiting[top], waiting[top + 1] = 2 * node + 1, 2 * node + 2
                top += 2
                continue
            for j in range(ranges[node, 0], ranges[node, 1]):
                dx, dy, dz = X[j] - x, Y[j] - y, Z[j] - z
                squared = dx * dx + dy * dy + dz * dz
                if squared <= radius * radius:
                    _add(sums, dx, dy, dz)
                    count += 1
                    if j != s:
                        spacing = min(spacing, squared)
        out = covariances[order[s]]
        if count < 3:
            for a in range(3):
                for b in range(3):
                    out[a, b] = spacing if a == b else 0.0
        else:
            _store(sums, count, out)
