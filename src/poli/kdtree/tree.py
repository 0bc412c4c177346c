"""A balanced k-d tree in contiguous arrays, searched in parallel.

Points are stored in the order of the leaves, so a leaf is contiguous in memory and the distances to all its points are one vector
loop. Nodes have bounding boxes, which prune far better than splitting planes on scans, where points lie on surfaces.

A leaf has LEAF points in cells of CELL that are split like nodes; the last one that is not empty may have fewer. The first point of
a cell, its lead, is the one nearest to the mean of the cell. The leads form a thinned cloud with the same tree, whose leaves are
the nodes two levels up (`thinned`), because CELL is 4.
"""

from __future__ import annotations

import numpy as np

from poli.errors import InputError
from poli.kdtree.build import LEAF, split
from poli.kdtree.neighborhoods import neighborhoods, thinned, too_fine
from poli.kernel import kernel, over_range
from poli.options import real_number, whole_number
from poli.scan import ScanLike, points_of
from poli.threads import run_chunks, run_turns, thread_count

STACK = 64  # deeper than any tree of 2^31 points
# Squared distances must be finite and nonzero: from 1e154 on they overflow, below 1e-162 they vanish. Both limits leave a margin of
# at least fourteen orders of magnitude for sums and differences; real coordinates are a hundred orders away.
FARTHEST, NARROWEST = 1e140, 1e-140
_BLOCK = 64  # consecutive queries that start from each other's bounds; independent of the number of threads


class KDTree:
    """A k-d tree over points. Build it once; query it any number of times, from any number of threads."""

    def __init__(self, points: ScanLike) -> None:  # (N, 3)
        self.points = points_of(points)
        count = len(self.points)
        if count >= 2**31:
            raise InputError(f"{count} points; expected fewer than 2^31")
        check_range(self.points, narrowest=NARROWEST)
        self._depth = max(0, int(np.ceil(np.log2(count / LEAF))))
        nodes = (2 << self._depth) - 1
        self._order = np.arange(count, dtype=np.int32)
        self._xyz = np.ascontiguousarray(self.points.T)  # (3, N), in the order of the leaves once built
        self._ranges = np.zeros((nodes, 2), np.int32)
        self._boxes = np.empty((nodes, 6))
        self._ranges[0] = 0, count
        arrays = (self._xyz, self._order, self._ranges, self._boxes, self._depth)
        # One subtree per thread, in parallel, after the levels above them.
        top = min((thread_count() - 1).bit_length(), self._depth) if count > 2048 else 0
        if top:
            split(*arrays, top - 1, 0, 1)
        first, rest = (1 << top) - 1, self._depth - top
        run_chunks(lambda a, b: split(*arrays, rest, first + a, first + b), 1 << top, 1)

    def __len__(self) -> int:
        return len(self.points)

    def nearest(self, k: int, queries: ScanLike | None = None) -> tuple[np.ndarray, np.ndarray]:  # (M, k), (M, k)
        """Return the distances of the `k` nearest points of each query, ascending, and their indices (int32).

        Without `queries`, the queries are the points themselves; each is its own first neighbor unless it has duplicates."""
        k = whole_number(k, "k", least=1)
        if k > len(self):
            raise InputError(f"k is {k}; expected 1 to {len(self)}, the number of points")
        squared, found = _search(self.tree, k, self._xyz if queries is None else _columns(queries))
        indices, distances = np.empty_like(found), np.empty_like(squared)
        rows = self._order if queries is None else np.arange(len(found), dtype=np.int32)
        run_chunks(over_range(_unsort, rows, self._order, found, squared, indices, distances), len(found), 4096)
        return distances, indices

    def within(self, radius: float, queries: ScanLike | None = None) -> tuple[np.ndarray, np.ndarray]:  # (M + 1,), (total,)
        """Return all points at most `radius` from each query, a query that is a point of the tree included, as (starts, indices).

        Those of query i are indices[starts[i]:starts[i + 1]], in no particular order."""
        radius = real_number(radius, "radius", "a positive number", above=True)
        columns = _columns(self.points if queries is None else queries)
        tree = (self._order, *self.tree, radius * radius, columns)
        counts = np.zeros(columns.shape[1] + 1, np.int64)
        nothing = np.empty(0, np.int32)
        run_chunks(over_range(_ball, *tree, counts, nothing, False), columns.shape[1])
        starts = np.cumsum(counts)
        indices = np.empty(starts[-1], np.int32)
        run_chunks(over_range(_ball, *tree, starts, indices, True), columns.shape[1])
        return starts, indices

    # Leaf order is cache-friendly: kernels that can work in it do.

    @property
    def leaf_order(self) -> np.ndarray:  # (N,)
        """The original index of each point in leaf order."""
        return self._order

    @property
    def tree(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """For kernels: ranges (nodes, 2) and boxes (nodes, 6) of the nodes, coordinates in leaf order (3, N), and the depth."""
        return self._ranges, self._boxes, self._xyz, self._depth

    def nearest_in_leaf_order(self, k: int) -> tuple[np.ndarray, np.ndarray]:  # (N, k), (N, k)
        """Return squared distances and indices of the k nearest of every point, rows and indices both in leaf order."""
        return _search(self.tree, k, self._xyz)

    def neighborhoods(self, *searches: tuple[int, bool]) -> tuple[np.ndarray, ...]:  # (M, k) int32 each
        """Return the k nearest neighbors of every point, itself excluded, of the cloud and of the cloud thinned by CELL once,
        twice, and so on: for each (k, ordered) in `searches`.

        Rows and indices are positions in the leaf order of the thinned cloud, which must have more than k points.
        Neighbors are in no particular order, or nearest first if `ordered`. Much faster than `nearest`, which processes queries one
        by one."""
        trees = [thinned(self.tree, times) for times in range(len(searches))]
        prepared = [neighborhoods(tree, k, ordered) for tree, (k, ordered) in zip(trees, searches, strict=True)]
        run_turns(*(job for _, job in prepared))
        for tree, (found, _) in zip(trees, prepared, strict=True):
            fine = too_fine(tree[1], tree[3])
            if found.shape[1] and fine.any():
                _search_again(tree, fine, found.shape[1], found)
        return tuple(found for found, _ in prepared)


def diagonal(index: KDTree) -> float:
    """Return the diagonal of the box of all points: no two are farther apart."""
    box = index.tree[1][0]
    return float(np.sqrt(((box[3:] - box[:3]) ** 2).sum()))


def check_range(points: np.ndarray, name: str = "points", narrowest: float = 0.0) -> None:  # (N, 3), finite
    """Raise InputError if distances cannot be computed in float64."""
    reach = max(float(points.max(initial=0.0)), -float(points.min(initial=0.0)))
    if reach > FARTHEST:
        row = int(np.abs(points).max(axis=1).argmax())
        raise InputError(
            f"{name}: coordinates reach {reach:.3g} (row {row}), but float64 distances are limited to {FARTHEST:g}; "
            "drop such points, or scale the cloud"
        )
    if 0.0 < reach < narrowest:
        raise InputError(
            f"{name}: no coordinate exceeds {reach:.3g}, but squares of less than {narrowest:g} underflow; scale the cloud"
        )


def _search(tree, k: int, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (3, M) -> (M, k), (M, k)
    found = np.empty((columns.shape[1], k), np.int32)
    squared = np.empty((columns.shape[1], k))
    run_chunks(over_range(_nearest, *tree, k, columns, found, squared), -(-columns.shape[1] // _BLOCK), smallest=4)
    return squared, found


def _search_again(tree, leaves: np.ndarray, k: int, found: np.ndarray) -> None:  # (L,) bool, (M, k)
    """Replace the neighbors of the points in these leaves by the result of a search in float64."""
    ranges, _, xyz, depth = tree
    spans = ranges[(1 << depth) - 1 :][: len(leaves)][leaves]
    rows = np.concatenate([np.arange(lo, hi) for lo, hi in spans])
    _, nearest = _search(tree, k + 1, np.ascontiguousarray(xyz[:, rows]))
    itself = nearest == rows[:, None]
    itself[~itself.any(axis=1), -1] = True  # many duplicates: drop one of the others
    found[rows] = nearest[~itself].reshape(len(rows), k)


def _columns(points: ScanLike) -> np.ndarray:  # (M, 3) -> (3, M)
    queries = points_of(points, "queries", least=0)
    check_range(queries, "queries")
    return np.ascontiguousarray(queries.T)


@kernel(inline="always")
def box_distance(boxes, node, x, y, z):
    """Return the squared distance of (x, y, z) to the box of a node."""
    dx = max(max(boxes[node, 0] - x, x - boxes[node, 3]), 0.0)
    dy = max(max(boxes[node, 1] - y, y - boxes[node, 4]), 0.0)
    dz = max(max(boxes[node, 2] - z, z - boxes[node, 5]), 0.0)
    return dx * dx + dy * dy + dz * dz


@kernel
def _nearest(ranges, boxes, xyz, depth, k, queries, begin, end, found, squared):
    """Find the k nearest points of each query. `begin` and `end` count blocks of queries."""
    X, Y, Z = xyz[0], xyz[1], xyz[2]
    first_leaf = (1 << depth) - 1
    waiting, waiting_distance = np.empty(STACK, np.int32), np.empty(STACK)
    leaf_distance = np.empty(2 * LEAF)
    best, best_index = np.full(k, np.inf), np.zeros(k, np.int32)  # always valid indices
    previous = np.inf  # distance of the previous query to its k-th neighbor
    for s in range(begin * _BLOCK, min(end * _BLOCK, queries.shape[1])):
        x, y, z = queries[0, s], queries[1, s], queries[2, s]
        limit = np.inf
        if s % _BLOCK > 0:
            # The previous query's k neighbors lie within its k-th distance plus the step from it to here.
            step = np.sqrt((x - queries[0, s - 1]) ** 2 + (y - queries[1, s - 1]) ** 2 + (z - queries[2, s - 1]) ** 2)
            limit = ((previous + step) * (1.0 + 1e-9)) ** 2 + 1e-300
        count = 0
        waiting[0], waiting_distance[0], top = 0, 0.0, 1
        while top > 0:
            top -= 1
            if waiting_distance[top] > limit or (count == k and waiting_distance[top] >= limit):
                continue
            node = waiting[top]
            while node < first_leaf:  # descend to the nearer leaf; push the farther child
                child = 2 * node + 1
                left = box_distance(boxes, child, x, y, z)
                right = box_distance(boxes, child + 1, x, y, z)
                if left <= right:
                    node, near, other, far = child, left, child + 1, right
                else:
                    node, near, other, far = child + 1, right, child, left
                if near > limit or (count == k and near >= limit):  # strictly: else all duplicates are visited
                    node = -1
                    break
                if far < limit or (far <= limit and count < k):
                    waiting[top], waiting_distance[top] = other, far
                    top += 1
            if node < 0:
                continue
            start = ranges[node, 0]
            size = ranges[node, 1] - start
            for j in range(size):
                dx, dy, dz = X[start + j] - x, Y[start + j] - y, Z[start + j] - z
                leaf_distance[j] = dx * dx + dy * dy + dz * dz
            for j in range(size):
                d = leaf_distance[j]
                if d < limit or (d <= limit and count < k):
                    p = count if count < k else k - 1
                    while p > 0 and best[p - 1] > d:
                        best[p], best_index[p] = best[p - 1], best_index[p - 1]
                        p -= 1
                    best[p], best_index[p] = d, start + j
                    if count < k:
                        count += 1
                    if count == k:
                        limit = min(limit, best[k - 1])
        previous = np.sqrt(best[k - 1])
        for j in range(k):
            found[s, j], squared[s, j] = best_index[j], best[j]


@kernel
def _ball(order, ranges, boxes, xyz, depth, limit, queries, begin, end, starts, indices, fill):
    """Count the neighbors of query s into starts[s + 1], or, if `fill`, write them from starts[s] on."""
    X, Y, Z = xyz[0], xyz[1], xyz[2]
    first_leaf = (1 << depth) - 1
    waiting = np.empty(STACK, np.int32)
    for s in range(begin, end):
        x, y, z = queries[0, s], queries[1, s], queries[2, s]
        count = starts[s] if fill else 0
        waiting[0], top = 0, 1
        while top > 0:
            top -= 1
            node = waiting[top]
            if box_distance(boxes, node, x, y, z) > limit:
                continue
            if node < first_leaf:
                waiting[top], waiting[top + 1] = 2 * node + 1, 2 * node + 2
                top += 2
                continue
            for j in range(ranges[node, 0], ranges[node, 1]):
                if (X[j] - x) ** 2 + (Y[j] - y) ** 2 + (Z[j] - z) ** 2 <= limit:
                    if fill:
                        indices[count] = order[j]
                    count += 1
        if not fill:
            starts[s + 1] = count


@kernel
def _unsort(rows, order, found, squared, begin, end, indices, distances):
    for s in range(begin, end):
        for j in range(found.shape[1]):
            indices[rows[s], j] = order[found[s, j]]
            distances[rows[s], j] = np.sqrt(squared[s, j])
