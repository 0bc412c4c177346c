"""Find the k nearest others of every point of a k-d tree at once.

The queries of a leaf share their search. Each first measures the points of a common ancestor, which bounds the distance to its k-th
neighbor. One traversal of the tree then finds the leaves within the largest bound, and each query measures those within its own
bound. The k smallest of these distances are found by counting those below a threshold, a vector at a time, instead of sorting.
Coordinates are float32 in units of the cloud's extent, so neighbors are ranked to seven digits of the extent; the distances used in
results are computed elsewhere. Leaves too small for this precision are reported by `too_fine`; the caller searches them in float64.

Results do not depend on the number of threads: the guess that one leaf passes to the next stays within a block of leaves. Whatever
the rounding, every index is that of a point: only points are gathered, and a list that is not full is filled with the first."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from poli.kernel import in_turns, kernel
from poli.simd import MOST_LANES, boxes_within, count_bits, lowest_bit, not_above, squared_distances, widest_lanes
from poli.turns import take

CELL = 4  # consecutive points of a leaf; a thinned cloud keeps the first
_WAITING = 256  # nodes of a search: at most 15 for each step of 4 levels, or 7 of 3
_SECANTS = 6  # guesses that assume evenly spread distances, before bisection
_NOWHERE = np.float32(np.inf)  # coordinates and squared distances of padding
_BLOCK = 32  # consecutive leaves whose searches start from each other's bounds
# Distances have errors of 2^-24 of the cloud's extent, which is 2^-9 of the side of the smallest leaf searched this way.
_FINEST = 2.0**-15  # of the cloud's extent
# Squared distances to boxes and to points are rounded differently, by up to 1e-6 relative; a leaf with a tie must not be missed.
_ROUNDED = np.float32(1.0 + 1e-5)


Job = tuple[Callable[[np.ndarray], None], int]  # for `threads.run_turns`


def neighborhoods(tree, k: int, ordered: bool) -> tuple[np.ndarray, Job]:
    """Return an array for the k nearest others of every point of a tree (`KDTree.tree`), (N, k) int32, and the job that fills it.

    k must be less than the number of points."""
    ranges, boxes, xyz, depth = tree
    count, first = xyz.shape[1], (1 << depth) - 1
    found = np.empty((count, k), np.int32)
    center, scale = 0.5 * (boxes[0, :3] + boxes[0, 3:]), binary_scale(_extent(boxes))
    padded = np.full((3, count + MOST_LANES), _NOWHERE)  # whole vectors can be read starting at the last point
    for row, axis, middle in zip(padded, xyz, center, strict=True):
        np.multiply(axis - middle, scale, out=row[:count], casting="same_kind")
    rounded = np.full((6, len(boxes) + MOST_LANES), _NOWHERE)
    np.multiply((boxes - np.tile(center, 2)).T, scale, out=rounded[:, : len(boxes)], casting="same_kind")
    work = in_turns(_neighborhoods, ranges, rounded, padded, depth, k, ordered, found)
    return found, (work, -(-(first + 1) // _BLOCK) if k else 0)


def too_fine(boxes, depth) -> np.ndarray:  # -> (L,) bool
    """Whether each leaf is too small for a search in float32."""
    sides = boxes[(1 << depth) - 1 : (2 << depth) - 1, 3:] - boxes[(1 << depth) - 1 : (2 << depth) - 1, :3]
    longest = sides.max(axis=1)
    return (longest < _FINEST * _extent(boxes)) & (longest >= 0.0)  # a leaf without points has sides of minus infinity


def binary_scale(length: float) -> float:
    """Return the power of two that scales a length to between a half and one. Multiplying by it does not round."""
    return 2.0 ** -math.frexp(length)[1]


def _extent(boxes) -> float:
    """Return the longest side of the cloud's box, or one if all points coincide."""
    return float((boxes[0, 3:] - boxes[0, :3]).max()) or 1.0


def thinned(tree, times: int):
    """Return the tree of the cloud thinned `times` times to every CELL-th point: its leaves are the nodes 2 `times` levels up."""
    ranges, boxes, xyz, depth = tree
    step = CELL**times
    return (ranges + step - 1) // step, boxes, np.ascontiguousarray(xyz[:, ::step]), max(0, depth - 2 * times)


@kernel
def _neighborhoods(ranges, boxes, xyz, depth, k, ordered, turns, found):
    """Write the neighbors of all points to `found`. A turn is a block of leaves."""
    first, count = (1 << depth) - 1, len(found)
    room = MOST_LANES * (first + 3) + count
    leaves, stack = np.empty(first + 1, np.int32), np.empty(_WAITING, np.int32)
    near = np.empty((6, first + 1 + MOST_LANES), np.float32)
    bounds, distances = np.empty(count, np.float32), np.empty(room, np.float32)
    indices, nearest = np.empty(room // widest_lanes() + 1, np.int32), np.empty(k, np.float32)
    scratch = (leaves, stack, near, bounds, distances, indices, nearest)
    block = take(turns)
    while block < turns[1]:
        _search_block(ranges, boxes, xyz, first, k, ordered, first + block * _BLOCK, scratch, found)
        block = take(turns)


@kernel
def _search_block(ranges, boxes, xyz, first, k, ordered, begin, scratch, found):
    """Search the leaves of the block that starts with node `begin`."""
    leaves, stack, near, bounds, distances, indices, nearest = scratch
    X, Y, Z = xyz[0], xyz[1], xyz[2]
    guess = np.float32(-1.0)
    for leaf in range(begin, min(begin + _BLOCK, 2 * first + 1)):
        lo, hi = ranges[leaf, 0], ranges[leaf, 1]
        if lo == hi:
            continue
        ancestor = leaf
        while ancestor > 0 and ranges[ancestor, 1] - ranges[ancestor, 0] < 2 * (k + 1) + 8:
            ancestor = (ancestor - 1) >> 1
        start = ranges[ancestor, 0]
        size = ranges[ancestor, 1] - start
        dx = boxes[3, ancestor] - boxes[0, ancestor]
        dy = boxes[4, ancestor] - boxes[1, ancestor]
        dz = boxes[5, ancestor] - boxes[2, ancestor]
        diagonal = np.float32(1.0001) * (dx * dx + dy * dy + dz * dz)
        largest = np.float32(0.0)
        for q in range(lo, hi):
            gathered = _measure(X, Y, Z, start, size, X[q], Y[q], Z[q], distances, indices, 0)
            # k + 1: the point itself is included.
            guess, _, _ = _threshold(distances, gathered, size, k + 1, k + 1 + (k >> 2), diagonal, guess)
            bounds[q - lo] = guess
            largest = max(largest, guess)
        largest *= _ROUNDED
        # Find the leaves within the largest bound of this leaf's box; those of the ancestor are already measured.
        count = _find_leaves(boxes, first, leaf, ancestor, largest, stack, leaves)
        for i in range(count):
            for a in range(6):
                near[a, i] = boxes[a, leaves[i]]
        for a in range(6):
            near[a, count : count + MOST_LANES] = _NOWHERE
        for q in range(lo, hi):
            x, y, z, bound = X[q], Y[q], Z[q], bounds[q - lo]
            reach = bound * _ROUNDED
            gathered = _measure(X, Y, Z, start, size, x, y, z, distances, indices, 0)
            distances[q - start] = _NOWHERE  # the point itself
            for place in range(0, count, widest_lanes()):
                bits = boxes_within(near, place, (x, y, z, x, y, z), reach)
                while bits:
                    node = leaves[place + lowest_bit(bits)]
                    bits &= bits - 1
                    lower = ranges[node, 0]
                    gathered = _measure(X, Y, Z, lower, ranges[node, 1] - lower, x, y, z, distances, indices, gathered)
            _keep_nearest(distances, indices, gathered, k, bound, nearest, found[q])
            if ordered:
                _sort(nearest, found[q], k)


@kernel
def _find_leaves(boxes, first, leaf, ancestor, limit, stack, leaves):
    """List the leaves whose boxes are within a squared distance of a leaf's, except those below the ancestor. Return their number.

    The descendants of a node a few levels down are consecutive, so that one vector has the boxes of all of them."""
    box = (boxes[0, leaf], boxes[1, leaf], boxes[2, leaf], boxes[3, leaf], boxes[4, leaf], boxes[5, leaf])
    begin, end = ancestor, ancestor  # the first and the last leaf below it
    while begin < first:
        begin, end = 2 * begin + 1, 2 * end + 2
    depth, levels = lowest_bit(first + 1), lowest_bit(widest_lanes())
    count, stack[0], top = 0, 0, 1 if depth else 0
    down = (depth - 1) % levels + 1 if depth else 0  # the first step down, such that the last one ends at the leaves
    while top > 0:
        top -= 1
        node = stack[top]
        if node:
            down = levels
        child = ((node + 1) << down) - 1
        bits = boxes_within(boxes, child, box, limit) & ((1 << (1 << down)) - 1)
        while bits:
            found = child + lowest_bit(bits)
            bits &= bits - 1
            if found < first:
                stack[top] = found
                top += 1
            elif not begin <= found <= end:
                leaves[count] = found
                count += 1
    return count


@kernel(inline="always")
def _measure(X, Y, Z, start, size, x, y, z, distances, indices, gathered):
    """Append the squared distances of (x, y, z) to these points, in whole vectors, and the index of each vector's first point."""
    for offset in range(0, size, widest_lanes()):
        squared_distances(X, Y, Z, start + offset, x, y, z, distances, gathered + offset)
        indices[(gathered + offset) // widest_lanes()] = start + offset
    end = gathered + size
    while end % widest_lanes():
        distances[end] = _NOWHERE
        end += 1
    return end


@kernel
def _threshold(distances, gathered, count, least, most, above, guess):
    """Find a threshold that `least` to `most` of these distances do not exceed, given that `count` do not exceed `above`.

    Return the threshold, the number of distances that do not exceed it, and the largest threshold tried that was too small. If ties
    make that impossible, the count is greater than `most`, and all distances between the third value and the threshold are equal.
    `guess` is tried first if positive."""
    below, base, under, upto, tries = np.float32(-1.0), np.float32(0.0), 0, count, 0
    middle = guess
    while upto > most:
        if tries > 0 or not base < middle < above:
            share = np.float32((least - under + 0.5) / (upto - under)) if tries <= _SECANTS else np.float32(0.5)
            middle = base + (above - base) * share
            if not below < middle < above:
                middle = base + (above - base) * np.float32(0.5)
                if not below < middle < above:
                    break
        inside = 0
        for place in range(0, gathered, widest_lanes()):
            inside += count_bits(not_above(distances, place, middle))
        if inside >= least:
            above, upto = middle, inside
        else:
            below, base, under = middle, middle, inside
        tries += 1
    return above, upto, below


@kernel
def _keep_nearest(distances, indices, gathered, k, bound, nearest, found):
    """Keep the k smallest distances and their indices; ties are broken arbitrarily."""
    count = 0
    for place in range(0, gathered, widest_lanes()):
        count += count_bits(not_above(distances, place, bound))
    above, upto, below = _threshold(distances, gathered, count, k, k, bound, np.float32(-1.0))
    kept, limit = 0, above if upto == k else below
    for place in range(0, gathered, widest_lanes()):
        bits = not_above(distances, place, limit)
        while bits:
            lane = lowest_bit(bits)
            bits &= bits - 1
            nearest[kept], found[kept] = distances[place + lane], indices[place // widest_lanes()] + lane
            kept += 1
    place = 0
    while kept < k and place < gathered:  # ties
        if below < distances[place] <= above:
            nearest[kept], found[kept] = distances[place], indices[place // widest_lanes()] + place % widest_lanes()
            kept += 1
        place += 1
    while kept < k:  # never happens: the bound was found by counting k distances
        nearest[kept], found[kept] = above, indices[0]
        kept += 1


@kernel
def _sort(distances, indices, count):
    for j in range(1, count):
        d, i, p = distances[j], indices[j], j
        while p > 0 and distances[p - 1] > d:
            distances[p], indices[p] = distances[p - 1], indices[p - 1]
            p -= 1
        distances[p], indices[p] = d, i
