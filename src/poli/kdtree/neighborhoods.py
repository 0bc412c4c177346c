"""Find the k nearest others of every point of a k-d tree at once.

The queries of a leaf share their search. Each first measures the points of a common ancestor, which bounds the distance to its k-th
neighbor. One traversal of the tree then finds the leaves within the largest bound, and each query measures those within its own
bound. The k smallest of these distances are found by counting those below a threshold, eight at a time, instead of sorting.
Coordinates are float32 in units of the cloud's extent, so neighbors are ranked to seven digits of the extent; the distances used in
results are computed elsewhere. Leaves too small for this precision are reported by `too_fine`; the caller searches them in float64.

Results do not depend on the number of threads: the guess that one leaf passes to the next stays within a block of leaves. Whatever
the rounding, every index is that of a point: only points are gathered, and a list that is not full is filled with the first."""

from __future__ import annotations

import math

import numpy as np

from poli.kernel import kernel, over_range
from poli.simd import LANES, count_bits, lowest_bit, not_above, squared_distances
from poli.threads import run_chunks

CELL = 4  # consecutive points of a leaf; a thinned cloud keeps the first
_SECANTS = 6  # guesses that assume evenly spread distances, before bisection
_NOWHERE = np.float32(np.inf)  # coordinates and squared distances of padding
_BLOCK = 32  # consecutive leaves whose searches start from each other's bounds
# Distances have errors of 2^-24 of the cloud's extent, which is 2^-9 of the side of the smallest leaf searched this way.
_FINEST = 2.0**-15  # of the cloud's extent
# Squared distances to boxes and to points are rounded differently, by up to 1e-6 relative; a leaf with a tie must not be missed.
_ROUNDED = np.float32(1.0 + 1e-5)


def neighborhoods(ranges, boxes, xyz, depth, k: int, ordered: bool) -> np.ndarray:  # -> (N, k) int32
    """Return the k nearest others of every point of a tree (`KDTree.tree`); k must be less than the number of points."""
    count, first = xyz.shape[1], (1 << depth) - 1
    found = np.empty((count, k), np.int32)
    center, scale = 0.5 * (boxes[0, :3] + boxes[0, 3:]), binary_scale(_extent(boxes))
    padded = np.full((3, count + LANES), _NOWHERE)  # whole vectors can be read starting at the last point
    for row, axis, middle in zip(padded, xyz, center, strict=True):
        np.multiply(axis - middle, scale, out=row[:count], casting="same_kind")
    rounded = ((boxes - np.tile(center, 2)) * scale).astype(np.float32)

    def search(begin: int, end: int) -> None:
        room = 2 * LANES * (first + 2) + count
        leaves, stack = np.empty(first + 1, np.int32), np.empty(64, np.int32)
        bounds, distances = np.empty(count, np.float32), np.empty(room, np.float32)
        indices, nearest = np.empty(room // LANES + 1, np.int32), np.empty(k, np.float32)
        scratch = (leaves, stack, bounds, distances, indices, nearest)
        over_range(_neighborhoods, ranges, rounded, padded, depth, k, ordered, *scratch, found)(begin, end)

    if k:
        run_chunks(search, -(-(first + 1) // _BLOCK), smallest=1)
    return found


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
def _neighborhoods(ranges, boxes, xyz, depth, k, ordered, begin, end, leaves, stack, bounds, distances, indices, nearest, found):
    """Search blocks `begin` to `end` of leaves and write the neighbors of their points to `found`. The rest is scratch."""
    X, Y, Z = xyz[0], xyz[1], xyz[2]
    first, zero = (1 << depth) - 1, np.float32(0.0)
    guess = np.float32(-1.0)
    for number in range(begin * _BLOCK, min(end * _BLOCK, first + 1)):
        leaf = first + number
        lo, hi = ranges[leaf, 0], ranges[leaf, 1]
        if number % _BLOCK == 0:
            guess = np.float32(-1.0)
        if lo == hi:
            continue
        ancestor = leaf
        while ancestor > 0 and ranges[ancestor, 1] - ranges[ancestor, 0] < 2 * (k + 1) + 8:
            ancestor = (ancestor - 1) >> 1
        start = ranges[ancestor, 0]
        size = ranges[ancestor, 1] - start
        dx = boxes[ancestor, 3] - boxes[ancestor, 0]
        dy = boxes[ancestor, 4] - boxes[ancestor, 1]
        dz = boxes[ancestor, 5] - boxes[ancestor, 2]
        diagonal = np.float32(1.0001) * (dx * dx + dy * dy + dz * dz)
        largest = zero
        for q in range(lo, hi):
            gathered = _measure(X, Y, Z, start, size, X[q], Y[q], Z[q], distances, indices, 0)
            # k + 1: the point itself is included.
            guess, _, _ = _threshold(distances, gathered, size, k + 1, k + 1 + (k >> 2), diagonal, guess)
            bounds[q - lo] = guess
            largest = max(largest, guess)
        largest *= _ROUNDED
        # Find the leaves within the largest bound of this leaf's box; those of the ancestor are already measured.
        count, stack[0], top = 0, 0, 1
        while top > 0:
            top -= 1
            node = stack[top]
            if node == ancestor:
                continue
            dx = max(max(boxes[node, 0] - boxes[leaf, 3], boxes[leaf, 0] - boxes[node, 3]), zero)
            dy = max(max(boxes[node, 1] - boxes[leaf, 4], boxes[leaf, 1] - boxes[node, 4]), zero)
            dz = max(max(boxes[node, 2] - boxes[leaf, 5], boxes[leaf, 2] - boxes[node, 5]), zero)
            if dx * dx + dy * dy + dz * dz <= largest:
                if node < first:
                    stack[top], stack[top + 1] = 2 * node + 1, 2 * node + 2
                    top += 2
                else:
                    leaves[count] = node
                    count += 1
        for q in range(lo, hi):
            x, y, z, bound = X[q], Y[q], Z[q], bounds[q - lo]
            reach = bound * _ROUNDED
            gathered = _measure(X, Y, Z, start, size, x, y, z, distances, indices, 0)
            distances[q - start] = _NOWHERE  # the point itself
            for i in range(count):
                node = leaves[i]
                dx = max(max(boxes[node, 0] - x, x - boxes[node, 3]), zero)
                dy = max(max(boxes[node, 1] - y, y - boxes[node, 4]), zero)
                dz = max(max(boxes[node, 2] - z, z - boxes[node, 5]), zero)
                if dx * dx + dy * dy + dz * dz <= reach:
                    lower = ranges[node, 0]
                    gathered = _measure(X, Y, Z, lower, ranges[node, 1] - lower, x, y, z, distances, indices, gathered)
            _keep_nearest(distances, indices, gathered, k, bound, nearest, found[q])
            if ordered:
                _sort(nearest, found[q], k)


@kernel(inline="always")
def _measure(X, Y, Z, start, size, x, y, z, distances, indices, gathered):
    """Append the squared distances of (x, y, z) to these points, in whole vectors, and the index of each vector's first point."""
    for offset in range(0, size, LANES):
        squared_distances(X, Y, Z, start + offset, x, y, z, distances, gathered + offset)
        indices[(gathered + offset) // LANES] = start + offset
    end = gathered + size
    while end % LANES:
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
        for place in range(0, gathered, LANES):
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
    for place in range(0, gathered, LANES):
        count += count_bits(not_above(distances, place, bound))
    above, upto, below = _threshold(distances, gathered, count, k, k, bound, np.float32(-1.0))
    kept, limit = 0, above if upto == k else below
    for place in range(0, gathered, LANES):
        bits = not_above(distances, place, limit)
        while bits:
            lane = lowest_bit(bits)
            bits &= bits - 1
            nearest[kept], found[kept] = distances[place + lane], indices[place // LANES] + lane
            kept += 1
    place = 0
    while kept < k and place < gathered:  # ties
        if below < distances[place] <= above:
            nearest[kept], found[kept] = distances[place], indices[place // LANES] + place % LANES
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
