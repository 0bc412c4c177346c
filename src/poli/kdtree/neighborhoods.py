"""The k nearest others of every point of a k-d tree at once.

Queries of a leaf share their search. First each looks among the points of a common ancestor, which bounds the distance to its k-th
neighbor; one walk through the tree then finds the leaves within the largest bound, and each query reads those within its own. Of
the distances so gathered, the k smallest are found by counting those below a threshold, eight at a time, instead of sorting.
Coordinates are float32, in units of the cloud's extent: who is nearest is told to seven digits of it, and distances that matter are
computed elsewhere. Leaves that are too small for that are named by `too_fine`, and whoever asks searches them in float64.

What a search finds does not depend on the threads that share the work: a guess that one leaf gives to the next stays in a block of
leaves. And whatever rounding does, an index is that of a point: only points are gathered, and a list that were not full would be
filled with the first of them."""

from __future__ import annotations

import math

import numpy as np

from poli.kernel import kernel, over_range
from poli.simd import LANES, count_bits, lowest_bit, not_above, squared_distances
from poli.threads import run_chunks

CELL = 4  # points that stand together in a leaf; the first of them is the one that is left of them in a thinned cloud
CANDIDATES = 8  # nearest points of a coarse level, of which, with their lead, the points of a cell choose those to interpolate
_SECANTS = 6  # guesses that trust distances to be evenly spread, before halving
_NOWHERE = np.float32(np.inf)  # coordinates, and squared distances, of points that are none
_BLOCK = 32  # leaves, one after another, whose searches start from each other's bounds
# Distances are wrong by 2^-24 of the cloud's extent, so by 2^-9 of the side of the smallest leaf that is searched with them.
_FINEST = 2.0**-15  # of the cloud's extent
# Squared distances to boxes and to points are rounded differently, by up to 1e-6 of them; a leaf with a tie must not be missed.
_ROUNDED = np.float32(1.0 + 1e-5)


def neighborhoods(ranges, boxes, xyz, depth, k: int, ordered: bool) -> np.ndarray:  # -> (N, k) int32
    """Of a tree as `KDTree.tree` gives it; k must be less than the number of points."""
    count, first = xyz.shape[1], (1 << depth) - 1
    found = np.empty((count, k), np.int32)
    center, scale = 0.5 * (boxes[0, :3] + boxes[0, 3:]), binary_scale(_extent(boxes))
    padded = np.full((3, count + LANES), _NOWHERE)  # whole vectors can be read from the last point on
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
    """Which leaves are too small for a search in float32."""
    sides = boxes[(1 << depth) - 1 : (2 << depth) - 1, 3:] - boxes[(1 << depth) - 1 : (2 << depth) - 1, :3]
    longest = sides.max(axis=1)
    return (longest < _FINEST * _extent(boxes)) & (longest >= 0.0)  # a leaf without points has sides of minus infinity


def binary_scale(length: float) -> float:
    """A power of two that brings a length to between a half and one: what is multiplied by it is not rounded."""
    return 2.0 ** -math.frexp(length)[1]


def _extent(boxes) -> float:
    """The longest side of the cloud's box, and one if all points coincide."""
    return float((boxes[0, 3:] - boxes[0, :3]).max()) or 1.0


def thinned(tree, times: int):
    """The tree of every CELL-th point of another, CELL-th of those, and so on: the nodes two levels up are its leaves."""
    ranges, boxes, xyz, depth = tree
    step = CELL**times
    return (ranges + step - 1) // step, boxes, np.ascontiguousarray(xyz[:, ::step]), max(0, depth - 2 * times)


@kernel
def _neighborhoods(ranges, boxes, xyz, depth, k, ordered, begin, end, leaves, stack, bounds, distances, indices, nearest, found):
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
            # The point itself is among them.
            guess, _, _ = _threshold(distances, gathered, size, k + 1, k + 1 + (k >> 2), diagonal, guess)
            bounds[q - lo] = guess
            largest = max(largest, guess)
        largest *= _ROUNDED
        # The leaves within the largest bound of this leaf's box; those of the ancestor are known already.
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
            distances[q - start] = _NOWHERE  # itself
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
    """Append the squared distances of (x, y, z) to these points, in whole vectors, and the index that each vector starts with."""
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
    """A threshold that `least` to `most` of these distances do not exceed, where `count` do not exceed `above`: it, how many these
    are, and the largest threshold tried that is too small. Where ties allow none, too many do not exceed it, and all of those above
    the third tie. `guess` is tried first, if it is positive."""
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
    """The k smallest distances and whose they are; of those that tie, any."""
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
    while kept < k:  # never: the bound was found by counting k of these
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


@kernel
def choose(fine, i, lead, coarse, near, radius, chosen, weights):
    """The nearest of a point's lead and of that one's neighbors, and their weights, by inverse distance."""
    count, filled = len(chosen), 0
    for j in range(-1, min(near.shape[1], CANDIDATES)):
        n = lead if j < 0 else near[lead, j]
        d = (coarse[n, 0] - fine[i, 0]) ** 2 + (coarse[n, 1] - fine[i, 1]) ** 2 + (coarse[n, 2] - fine[i, 2]) ** 2
        if filled < count or d < weights[count - 1]:
            p = min(filled, count - 1)
            while p > 0 and weights[p - 1] > d:
                weights[p], chosen[p] = weights[p - 1], chosen[p - 1]
                p -= 1
            weights[p], chosen[p] = d, n
            filled = min(filled + 1, count)
    total = 0.0
    for j in range(count):
        weights[j] = 1.0 / (np.sqrt(weights[j]) + 0.1 * radius)  # softened: a lead, at distance zero, also hears the others
        total += weights[j]
    for j in range(count):
        weights[j] /= total
