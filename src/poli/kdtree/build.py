"""Build the k-d tree: nodes are boxed and halved, leaves are ordered into cells.

Points are compared by all three coordinates, starting with the split axis. So no two distinct points tie, and the order of the
leaves depends on the coordinates alone: a shuffled cloud gives the same tree. Scans are rounded and have many ties."""

import numpy as np

from poli.kdtree.neighborhoods import CELL
from poli.kernel import kernel

LEAF = CELL * CELL  # points per leaf: CELL cells of CELL points, so that each level of the network thins by CELL


@kernel(fastmath={"nnan", "nsz"})  # so that the minimum and maximum of a box are computed in vectors
def split(xyz, order, ranges, boxes, depth, levels, begin, end):
    """Box and split the nodes from `begin` to `end` and, one by one, their descendants for `levels` levels.

    The children of node i are 2 i + 1 and 2 i + 2."""
    for root in range(begin, end):
        first, count = root, 1
        for _ in range(levels + 1):
            for node in range(first, first + count):
                lo, hi = np.int64(ranges[node, 0]), np.int64(ranges[node, 1])  # one type of index for all calls
                axis = _box(xyz, lo, hi, boxes[node])
                if node < (1 << depth) - 1:
                    # The left child gets whole leaves; the right one may be empty.
                    mid = min(lo + LEAF * (((hi - lo + LEAF - 1) // LEAF + 1) // 2), hi)
                    if mid < hi:
                        _partition(axis, xyz, order, lo, hi - 1, mid)
                    ranges[2 * node + 1, 0], ranges[2 * node + 1, 1] = lo, mid
                    ranges[2 * node + 2, 0], ranges[2 * node + 2, 1] = mid, hi
                else:
                    _cells(xyz, order, lo, hi, axis)
            first, count = 2 * first + 1, 2 * count


@kernel(inline="always")
def _box(xyz, lo, hi, box):
    """Compute the bounding box of these points (infinite and inverted if there are none), and return its longest axis."""
    axis = np.int64(0)  # not a literal, for which numba would compile the callers again
    for a in range(3):
        row = xyz[a]
        least, most = np.inf, -np.inf
        for s in range(lo, hi):
            least = min(least, row[s])
            most = max(most, row[s])
        box[a], box[3 + a] = least, most
        if most - least > box[3 + axis] - box[axis]:
            axis = np.int64(a)
    return axis


@kernel
def _cells(xyz, order, lo, hi, axis):
    """Order a leaf into cells, each led by the point nearest to its mean, independent of the order of the points."""
    half, box = 2 * CELL, np.empty(6)
    if lo + half < hi:
        _partition(axis, xyz, order, lo, hi - 1, lo + half)
    for start in range(lo, hi, half):
        end = min(start + half, hi)
        if start + CELL < end:
            _partition(_box(xyz, start, end, box), xyz, order, start, end - 1, start + CELL)
    X, Y, Z = xyz[0], xyz[1], xyz[2]
    for start in range(lo, hi, CELL):
        end = min(start + CELL, hi)
        _sort(xyz, order, start, end)
        x, y, z = X[start:end].mean(), Y[start:end].mean(), Z[start:end].mean()
        first, nearest = start, np.inf
        for s in range(start, end):
            d = (X[s] - x) ** 2 + (Y[s] - y) ** 2 + (Z[s] - z) ** 2
            # In a cell of two points both are equally far from the mean, up to rounding: about 1e-16 of d where coordinates are no
            # larger than the cell. Differences below 1e-9 count as ties, and the first point leads.
            if d < nearest and not abs(d - nearest) <= 1e-9 * d:
                first, nearest = s, d
        _exchange(X, Y, Z, order, start, first)


@kernel(inline="always")
def _exchange(X, Y, Z, order, i, j):
    X[i], X[j] = X[j], X[i]
    Y[i], Y[j] = Y[j], Y[i]
    Z[i], Z[j] = Z[j], Z[i]
    order[i], order[j] = order[j], order[i]


@kernel
def _sort(xyz, order, start, end):
    """Sort a few points by x, then y, then z."""
    X, Y, Z = xyz[0], xyz[1], xyz[2]
    for s in range(start + 1, end):
        i = s
        while i > start and _less(X[i], Y[i], Z[i], X[i - 1], Y[i - 1], Z[i - 1]):
            _exchange(X, Y, Z, order, i, i - 1)
            i -= 1


@kernel(inline="always")
def _less(a, b, c, x, y, z):
    return a < x or (a == x and (b < y or (b == y and c < z)))


@kernel
def _partition(axis, xyz, order, left, right, mid):
    """Quickselect: reorder points so that the one at `mid` is where sorting by this axis, then the next two, would put it."""
    X, Y, Z = xyz[0], xyz[1], xyz[2]
    A, B, C = xyz[axis], xyz[(axis + 1) % 3], xyz[(axis + 2) % 3]
    while right > left:
        middle = (left + right) >> 1
        a, b, c = A[left], A[middle], A[right]
        pivot = middle if a <= b <= c or c <= b <= a else left if b <= a <= c or c <= a <= b else right
        x, y, z = A[pivot], B[pivot], C[pivot]
        i, j = left, right
        while i <= j:
            while _less(A[i], B[i], C[i], x, y, z):
                i += 1
            while _less(x, y, z, A[j], B[j], C[j]):
                j -= 1
            if i <= j:
                _exchange(X, Y, Z, order, i, j)
                i += 1
                j -= 1
        if mid <= j:
            right = j
        elif mid >= i:
            left = i
        else:
            return
