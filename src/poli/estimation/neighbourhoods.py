"""The k nearest others of every point of a k-d tree at once.

Queries of a leaf share their search. First each looks among the points of a common ancestor, which bounds the distance to its k-th
neighbour; one walk through the tree then finds the leaves within the largest bound, and each query reads those within its own.
Of the distances so gathered, the k smallest are found by counting those below a threshold, a vector loop, instead of sorting.
"""

from __future__ import annotations

import numpy as np

from poli.kernel import kernel
from poli.threads import run_chunks

_NO_NAN = {"contract", "reassoc", "nsz", "nnan", "arcp"}  # boxes of nothing are infinite
CELL = 4  # points that stand together in a leaf; the first of them is the one that is left of them in a thinned cloud
_SECANTS = 6  # guesses that trust distances to be evenly spread, before halving


def neighbourhoods(ranges, boxes, xyz, depth, k: int, ordered: bool) -> np.ndarray:  # -> (N, k) int32
    """Of a tree as `NeighbourIndex.tree` gives it; k must be less than the number of points."""
    count, first = xyz.shape[1], (1 << depth) - 1
    found = np.empty((count, k), np.int32)

    def search(begin: int, end: int) -> None:
        leaves, indices, stack = np.empty(first + 1, np.int32), np.empty(count, np.int32), np.empty(64, np.int32)
        distances, bounds = np.empty(count, xyz.dtype), np.empty(count, xyz.dtype)
        scratch = (leaves, stack, bounds, distances, indices)
        _neighbourhoods(ranges, boxes, xyz, depth, k, ordered, first + begin, first + end, *scratch, found)

    if k:
        run_chunks(search, first + 1, smallest=16)
    return found


@kernel(fastmath=_NO_NAN)
def _neighbourhoods(ranges, boxes, xyz, depth, k, ordered, begin, end, leaves, stack, bounds, distances, indices, found):
    X, Y, Z = xyz[0], xyz[1], xyz[2]
    first = (1 << depth) - 1
    zero = boxes[0, 0] - boxes[0, 0]
    for leaf in range(begin, end):
        lo, hi = ranges[leaf, 0], ranges[leaf, 1]
        if lo == hi:
            continue
        ancestor = leaf
        while ancestor > 0 and ranges[ancestor, 1] - ranges[ancestor, 0] < 2 * (k + 1) + 8:
            ancestor = (ancestor - 1) >> 1
        start = ranges[ancestor, 0]
        size = ranges[ancestor, 1] - start
        largest = zero
        for q in range(lo, hi):
            x, y, z = X[q], Y[q], Z[q]
            farthest = zero
            for j in range(size):
                dx, dy, dz = X[start + j] - x, Y[start + j] - y, Z[start + j] - z
                d = dx * dx + dy * dy + dz * dz
                distances[j] = d
                farthest = d if d > farthest else farthest
            bound, _, _ = _threshold(distances, size, k + 1, k + 1 + (k >> 2), farthest)  # the point itself is among them
            bounds[q - lo] = bound
            largest = bound if bound > largest else largest
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
            if dx * dx + dy * dy + dz * dz < largest:
                if node < first:
                    stack[top], stack[top + 1] = 2 * node + 1, 2 * node + 2
                    top += 2
                else:
                    leaves[count] = node
                    count += 1
        for q in range(lo, hi):
            x, y, z, bound = X[q], Y[q], Z[q], bounds[q - lo]
            gathered = 0
            for j in range(start, start + size):
                dx, dy, dz = X[j] - x, Y[j] - y, Z[j] - z
                d = dx * dx + dy * dy + dz * dz
                distances[gathered], indices[gathered] = d, j
                gathered += (d <= bound) & (j != q)
            for i in range(count):
                node = leaves[i]
                dx = max(max(boxes[node, 0] - x, x - boxes[node, 3]), zero)
                dy = max(max(boxes[node, 1] - y, y - boxes[node, 4]), zero)
                dz = max(max(boxes[node, 2] - z, z - boxes[node, 5]), zero)
                if dx * dx + dy * dy + dz * dz < bound:
                    for j in range(ranges[node, 0], ranges[node, 1]):
                        ex, ey, ez = X[j] - x, Y[j] - y, Z[j] - z
                        d = ex * ex + ey * ey + ez * ez
                        distances[gathered], indices[gathered] = d, j
                        gathered += d <= bound
            _keep_nearest(distances, indices, gathered, k, bound)
            if ordered:
                _sort(distances, indices, k)
            for j in range(k):
                found[q, j] = indices[j]


@kernel(fastmath=_NO_NAN)
def _threshold(distances, count, least, most, above):
    """A threshold that `least` to `most` of these distances do not exceed, all being at most `above`: it, how many these are, and
    the largest threshold tried that is too small. Where ties allow none, too many do not exceed it, and all the rest of them tie."""
    below, base, under, upto = -1.0 + 0.0 * above, 0.0 * above, 0, count
    tries = 0
    while upto > most:
        share = (least - under + 0.5) / (upto - under) if tries < _SECANTS else 0.5
        middle = base + (above - base) * share
        if not below < middle < above:
            break
        inside = 0.0 * above  # counted in the type of the distances: a vector loop
        for j in range(count):
            inside += 1.0 if distances[j] <= middle else 0.0
        if inside >= least:
            above, upto = middle, int(inside)
        else:
            below, base, under = middle, middle, int(inside)
        tries += 1
    return above, upto, below


@kernel(fastmath=_NO_NAN)
def _keep_nearest(distances, indices, count, k, above):
    """Move the k smallest distances and their indices to the front; of those that tie, any."""
    above, upto, below = _threshold(distances, count, k, k, above)
    limit, kept = above if upto == k else below, 0
    for j in range(count):  # without a branch: who is not kept changes places with one who is
        d, i = distances[j], indices[j]
        distances[j], indices[j] = distances[kept], indices[kept]
        distances[kept], indices[kept] = d, i
        kept += d <= limit
    j = kept
    while kept < k:  # ties
        if distances[j] <= above:
            distances[kept], distances[j] = distances[j], distances[kept]
            indices[kept], indices[j] = indices[j], indices[kept]
            kept += 1
        j += 1


def thinned(tree, times: int):
    """The tree of every CELL-th point of another, CELL-th of those, and so on: the nodes two levels up are its leaves."""
    ranges, boxes, xyz, depth = tree
    step = CELL**times
    return (ranges + step - 1) // step, boxes, np.ascontiguousarray(xyz[:, ::step]), max(0, depth - 2 * times)


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
    """The nearest of a point's lead and of that one's neighbours, and their weights, by inverse distance."""
    count, filled = len(chosen), 0
    for j in range(-1, near.shape[1]):
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
