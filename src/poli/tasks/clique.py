"""The largest set of mutually consistent matches: the maximum clique of the consistency graph."""

from __future__ import annotations

import numpy as np

from poli.kernel import kernel
from poli.tasks.graph import bitsets, lowest, peel
from poli.validation import whole_number

NODE_BUDGET = 20_000  # about 20 ms
_LARGEST_STACK = 1 << 26  # entries of the search's stack: 0.5 GB


def maximum_clique(
    adjacency: np.ndarray,  # (K, W) uint64
    node_budget: int = NODE_BUDGET,
) -> tuple[np.ndarray, bool]:  # (n,) ascending, exact
    """Return a maximum clique, and whether it is proven to be one.

    Branch and bound (Tomita; bitsets after San Segundo): find a greedy clique, drop vertices whose core number rules them out, then
    search, bounded by greedy coloring. After `node_budget` branches, return the best clique so far. It is at least as large as the
    greedy one, which is grown from the innermost core outward and is also returned if the graph is too large to search.
    """
    adjacency = bitsets(adjacency)
    budget = whole_number(node_budget, "node_budget", least=0)
    cores, order = peel(adjacency)
    best = _grow_first(adjacency, order)
    most = int(cores.max(initial=-1)) + 1
    if len(best) == most:
        return np.sort(best), True
    # Innermost vertices first: they are colored first and branched on last.
    kept = order[cores[order] >= len(best)][::-1]
    if (most + 1) * len(kept) > _LARGEST_STACK:
        return np.sort(best), False
    found, exact = _search(_induced(adjacency, kept), len(best), most + 1, budget)
    return np.sort(kept[found] if len(found) else best), bool(exact)


def cliques_through(adjacency: np.ndarray, max_cliques: int) -> np.ndarray:  # (K, W) uint64 -> (H, K) bool
    """Return a greedy clique through each vertex, without duplicates, largest first, at most `max_cliques`.

    If wrong matches happen to form the maximum clique, one of these usually contains the right ones.
    """
    adjacency = bitsets(adjacency)
    members = np.zeros((len(adjacency), len(adjacency)), bool)
    _grow_all(adjacency, peel(adjacency)[1], members)
    packed = np.packbits(members, axis=1)
    rows: dict[bytes, int] = {}
    for row in np.argsort(-members.sum(axis=1), kind="stable"):
        rows.setdefault(packed[row].tobytes(), int(row))
        if len(rows) == max_cliques:
            break
    return members[list(rows.values())]


@kernel
def _grow(adjacency, order, fits, clique, size):
    """Grow a clique greedily: visit the vertices in `fits` from the innermost outward, and add those adjacent to all before."""
    for step in range(len(order) - 1, -1, -1):
        v = order[step]
        if (fits[v >> 6] >> np.uint64(v & 63)) & np.uint64(1):
            clique[size] = v
            size += 1
            fits &= adjacency[v]
    return size


@kernel
def _grow_first(adjacency, order):
    clique = np.empty(len(order), np.int64)
    size = _grow(adjacency, order, np.full(adjacency.shape[1], ~np.uint64(0)), clique, 0)
    return clique[:size].copy()


@kernel
def _grow_all(adjacency, order, members):
    clique = np.empty(len(order), np.int64)
    for v in range(len(order)):
        clique[0] = v
        size = _grow(adjacency, order, adjacency[v].copy(), clique, 1)
        for m in range(size):
            members[v, clique[m]] = True


@kernel
def _induced(adjacency, kept):
    """Return the subgraph of the kept vertices, numbered by their position in `kept`."""
    n = len(kept)
    graph = np.zeros((n, (n + 63) >> 6), np.uint64)
    for i in range(n):
        for j in range(n):
            v = kept[j]
            bit = (adjacency[kept[i], v >> 6] >> np.uint64(v & 63)) & np.uint64(1)
            graph[i, j >> 6] |= bit << np.uint64(j & 63)
    return graph


@kernel
def _color(graph, candidates, needed, order, colors, left, same):
    """Color greedily: a clique has at most one vertex per color. List the vertices of color `needed` and above, in ascending color;
    only these can lead to a larger clique."""
    words = len(candidates)
    left[:] = candidates
    color, count, remaining = 0, 0, True
    while remaining:
        color += 1
        remaining = False
        same[:] = left
        for w in range(words):
            while same[w]:
                v = (w << 6) + lowest(same[w])
                left[w] &= ~(np.uint64(1) << np.uint64(v & 63))
                same[w] &= same[w] - np.uint64(1)
                for x in range(w, words):
                    same[x] &= ~graph[v, x]
                if color >= needed:
                    order[count], colors[count] = v, color
                    count += 1
            if left[w]:
                remaining = True
    return count


@kernel
def _search(graph, known, depths, budget):
    """Return the largest clique found with more than `known` vertices (empty if none), and whether the search was completed."""
    n, words = graph.shape
    candidates = np.zeros((depths + 1, words), np.uint64)
    order, colors = np.empty((depths + 1, n), np.int32), np.empty((depths + 1, n), np.int32)
    left, same = np.empty(words, np.uint64), np.empty(words, np.uint64)
    waiting = np.zeros(depths + 1, np.int64)
    clique, best = np.empty(depths + 1, np.int64), np.empty(0, np.int64)
    for v in range(n):
        candidates[0, v >> 6] |= np.uint64(1) << np.uint64(v & 63)
    waiting[0] = _color(graph, candidates[0], known + 1, order[0], colors[0], left, same)
    depth, nodes = 0, 0  # the depth is the size of the current clique
    while depth >= 0:
        if waiting[depth] == 0 or depth + colors[depth, waiting[depth] - 1] <= known:
            depth -= 1
            continue
        nodes += 1
        if nodes > budget:
            return best, False
        waiting[depth] -= 1
        v = order[depth, waiting[depth]]
        candidates[depth, v >> 6] &= ~(np.uint64(1) << np.uint64(v & 63))
        clique[depth] = v
        empty = True
        for w in range(words):
            candidates[depth + 1, w] = candidates[depth, w] & graph[v, w]
            if candidates[depth + 1, w]:
                empty = False
        if empty:
            if depth + 1 > known:
                known, best = depth + 1, clique[: depth + 1].copy()
            continue
        depth += 1
        waiting[depth] = _color(graph, candidates[depth], known - depth + 1, order[depth], colors[depth], left, same)
    return best, True
