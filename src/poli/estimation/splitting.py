"""How the k-d tree comes about: nodes boxed and halved, leaves ordered into cells."""

import numpy as np

from poli.estimation.neighbourhoods import CELL
from poli.kernel import kernel

LEAF = 4 * CELL  # points a leaf


@kernel
def split(xyz, order, ranges, boxes, depth, levels, begin, end):
    """Box and split the nodes of this range and, one after another, their descendants for `levels` levels; the children of node i
    are 2 i + 1 and 2 i + 2."""
    for root in range(begin, end):
        first, count = root, 1
        for _ in range(levels + 1):
            for node in range(first, first + count):
                lo, hi = ranges[node, 0], ranges[node, 1]
                axis = _box(xyz, lo, hi, boxes[node])
                if node < (1 << depth) - 1:
                    # Whole leaves to the left; at the right, maybe none.
                    mid = min(lo + LEAF * (((hi - lo + LEAF - 1) // LEAF + 1) // 2), hi)
                    if mid < hi:
                        _partition(xyz[axis], xyz, order, lo, hi - 1, mid)
                    ranges[2 * node + 1, 0], ranges[2 * node + 1, 1] = lo, mid
                    ranges[2 * node + 2, 0], ranges[2 * node + 2, 1] = mid, hi
                else:
                    _cells(xyz, order, lo, hi, axis)
            first, count = 2 * first + 1, 2 * count


@kernel(inline="always")
def _box(xyz, lo, hi, box):
    """The bounding box of these points (infinite and inverted if there are none), and its longest axis."""
    axis = 0
    for a in range(3):
        row = xyz[a]
        least, most = np.inf, -np.inf
        for s in range(lo, hi):
            least = min(least, row[s])
            most = max(most, row[s])
        box[a], box[3 + a] = least, most
        if most - least > box[3 + axis] - box[axis]:
            axis = a
    return axis


@kernel
def _cells(xyz, order, lo, hi, axis):
    """Order a leaf into cells, each led by the point nearest to its mean, whatever the order in which points came."""
    half, box = 2 * CELL, np.empty(6)
    if lo + half < hi:
        _partition(xyz[axis], xyz, order, lo, hi - 1, lo + half)
    for start in range(lo, hi, half):
        end = min(start + half, hi)
        if start + CELL < end:
            _partition(xyz[_box(xyz, start, end, box)], xyz, order, start, end - 1, start + CELL)
    X, Y, Z = xyz[0], xyz[1], xyz[2]
    for start in range(lo, hi, CELL):
        end = min(start + CELL, hi)
        x, y, z = X[start:end].mean(), Y[start:end].mean(), Z[start:end].mean()
        first, nearest = start, np.inf
        for s in range(start, end):
            d = (X[s] - x) ** 2 + (Y[s] - y) ** 2 + (Z[s] - z) ** 2
            tie = abs(d - nearest) <= 1e-9 * d  # always of two points: then rounding must not decide
            if X[s] < X[first] if tie else d < nearest:
                first, nearest = s, d
        X[start], X[first] = X[first], X[start]
        Y[start], Y[first] = Y[first], Y[start]
        Z[start], Z[first] = Z[first], Z[start]
        order[start], order[first] = order[first], order[start]


@kernel
def _partition(key, xyz, order, left, right, mid):
    """Quickselect: reorder points so that key[mid] stands where sorting would put it."""
    X, Y, Z = xyz[0], xyz[1], xyz[2]
    while right > left:
        a, b, c = key[left], key[(left + right) >> 1], key[right]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = left, right
        while i <= j:
            while key[i] < pivot:
                i += 1
            while key[j] > pivot:
                j -= 1
            if i <= j:
                X[i], X[j] = X[j], X[i]
                Y[i], Y[j] = Y[j], Y[i]
                Z[i], Z[j] = Z[j], Z[i]
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if mid <= j:
            right = j
        elif mid >= i:
            left = i
        else:
            return
