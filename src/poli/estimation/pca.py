"""Principal component analysis of neighborhoods: the hand-crafted alternative to the network."""

from __future__ import annotations

from typing import Literal

import numpy as np

from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.kdtree.tree import FARTHEST, STACK, KDTree, box_distance
from poli.kernel import kernel, over_range
from poli.options import real_number, whole_number
from poli.scan import ScanLike, points_of
from poli.threads import run_chunks

NEIGHBORS = 24  # default of `pca` and its callers, except where another number is explained


def pca(
    scan: ScanLike,  # (N, 3)
    k: int = NEIGHBORS,
    radius: float | None = None,
    regularize: Literal["none", "plane"] = "none",
    floor: float = 0.0,
    viewpoint: np.ndarray | None = None,  # (3,)
) -> Ellipsoids:
    """Estimate an ellipsoid for every point: centered at the point, with the covariance of its neighbors (divided by their number).

    The neighbors are the `k` nearest (the point included), or all within `radius` meters if given. `regularize="plane"`
    sets the variances to GICP's (0.001, 1, 1) along the directions found. `floor` (meters) thickens every ellipsoid.

    A neighborhood of fewer than 3 points has no shape; its ellipsoid is a ball whose standard deviation is the distance to the
    nearest other point (or the radius, if no point is within it). Collinear neighbors give a needle and identical ones a dot, both
    exactly flat: add a `floor` before using them as densities.
    """
    k = whole_number(k, "k", least=3)  # fewer do not define a plane
    floor = real_number(floor, "floor", "meters, at least 0")
    if regularize not in ("none", "plane"):
        raise InputError(f"regularize is {regularize!r}; expected 'none' or 'plane'")
    points = points_of(scan).copy()  # later changes of the scan must not change the field
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
    # No two points are farther apart than this bound, and its square is finite.
    radius = min(real_number(radius, "radius", "a positive number of meters", above=True), 4.0 * FARTHEST)
    covariances = np.empty((len(index), 3, 3))
    run_chunks(over_range(_ball_covariances, *index.tree, index.leaf_order, radius, covariances), len(index))
    return covariances


@kernel(inline="always")
def _store(sums, count, out):
    """Store the covariance from sums of x, y, z, xx, xy, xz, yy, yz, zz relative to the query, which avoids cancellation."""
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
    """Covariances of all neighbors in a ball, summed during the search: a wide radius costs time, but no memory."""
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
