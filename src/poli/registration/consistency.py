"""Consistency graph of matches: an edge connects two matches that one rigid motion can explain. Stored as bitsets.

A rigid motion preserves distances, so two correct matches span the same length in both clouds (the invariant of TEASER and ROBIN).
Correct matches are all consistent with each other; wrong ones are consistent with few. Row i of the adjacency has one bit per
vertex, in 64-bit words, so set operations run at memory speed.
"""

from __future__ import annotations

import numpy as np

from poli.errors import InputError
from poli.kernel import kernel
from poli.options import real_number
from poli.scan import points_of
from poli.simd import lowest_bit
from poli.threads import run_chunks

_WORD = 64


def consistency_graph(
    source: np.ndarray,  # (K, 3) p
    target: np.ndarray,  # (K, 3) q
    noise_bound: float,
) -> np.ndarray:  # (K, ceil(K / 64)) uint64
    """Return the graph with an edge where | |p_i - p_j| - |q_i - q_j| | <= 2 noise_bound.

    Both matches of an edge can be correct if points are accurate to `noise_bound`. Matches that share a point are never connected:
    at most one is correct.
    """
    source, target = check_matches(source, target)
    bound = 2.0 * real_number(noise_bound, "noise_bound", "a length of at least 0")
    adjacency = np.zeros((len(source), -(-len(source) // _WORD)), np.uint64)
    columns = np.ascontiguousarray(source.T), np.ascontiguousarray(target.T)
    run_chunks(lambda begin, end: _connect(*columns, bound, begin, end, adjacency), len(source), smallest=64)
    return adjacency


def check_matches(source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (K, 3), (K, 3)
    """Return the points of matches as float64. Raise InputError if they are not finite points, one match per row."""
    source, target = points_of(source, "source", least=0), points_of(target, "target", least=0)
    if len(source) != len(target):
        raise InputError(f"source has {len(source)} points and target has {len(target)}; expected one match per row")
    return source, target


def from_dense(graph: np.ndarray) -> np.ndarray:  # (K, K) bool -> (K, W) uint64
    """Return the bitsets of a matrix of edges."""
    padded = np.pad(graph, ((0, 0), (0, -len(graph) % _WORD)))
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64).reshape(len(graph), padded.shape[1] // _WORD)


def to_dense(adjacency: np.ndarray) -> np.ndarray:  # (K, W) uint64 -> (K, K) bool
    """Return the matrix of edges of bitsets."""
    bits = np.unpackbits(adjacency.view(np.uint8).reshape(len(adjacency), -1), axis=1, bitorder="little")
    return bits[:, : len(adjacency)].astype(bool)


@kernel
def _connect(source, target, bound, begin, end, adjacency):
    for i in range(begin, end):
        for j in range(source.shape[1]):
            p = (source[0, i] - source[0, j]) ** 2 + (source[1, i] - source[1, j]) ** 2 + (source[2, i] - source[2, j]) ** 2
            q = (target[0, i] - target[0, j]) ** 2 + (target[1, i] - target[1, j]) ** 2 + (target[2, i] - target[2, j]) ** 2
            if p > 0.0 and q > 0.0 and abs(np.sqrt(p) - np.sqrt(q)) <= bound:
                adjacency[i, j >> 6] |= np.uint64(1) << np.uint64(j & 63)


def peel(adjacency: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (K, W) uint64 -> (K,), (K,)
    """Return the core numbers, and the vertices in the order of removal when always removing one of least degree.

    The core number of a vertex is the largest k such that the vertex belongs to a subgraph of minimum degree k. It is therefore in
    no clique of more than k + 1 vertices.
    """
    return _peel(adjacency, np.bitwise_count(adjacency).sum(axis=1, dtype=np.int64))


@kernel
def _peel(adjacency, degree):
    n, words = adjacency.shape
    cores, order = np.zeros(n, np.int64), np.empty(n, np.int64)
    level = 0
    for step in range(n):
        least, v = n, -1
        for u in range(n):
            if 0 <= degree[u] < least:
                least, v = degree[u], u
        level = max(level, least)
        cores[v], order[step], degree[v] = level, v, -1
        for w in range(words):
            word = adjacency[v, w]
            while word:
                u = (w << 6) + lowest_bit(np.int64(word))
                word &= word - np.uint64(1)
                if degree[u] > 0:
                    degree[u] -= 1
    return cores, order


# --- The largest set of mutually consistent matches: the maximum clique of the consistency graph.


_LARGEST_STACK = 1 << 26  # entries of the search's stack: 0.5 GB


def maximum_clique(
    adjacency: np.ndarray,  # (K, W) uint64
    node_budget: int = 20_000,  # about 20 ms
) -> tuple[np.ndarray, bool]:  # (n,) ascending, exact
    """Return a maximum clique, and whether it is proven to be one.

    Branch and bound (Tomita; bitsets after San Segundo): find a greedy clique, drop vertices whose core number rules them out, then
    search, bounded by greedy coloring. After `node_budget` branches, return the best clique so far. It is at least as large as the
    greedy one, which is grown from the innermost core outward and is also returned if the graph is too large to search.
    """
    cores, order = peel(adjacency)
    clique = np.empty(len(order), np.int64)
    best = clique[: _grow(adjacency, order, np.full(adjacency.shape[1], ~np.uint64(0)), clique, 0)]
    most = int(cores.max(initial=-1)) + 1
    if len(best) == most:
        return np.sort(best), True
    # Innermost vertices first: they are colored first and branched on last.
    kept = order[cores[order] >= len(best)][::-1]
    if (most + 1) * len(kept) > _LARGEST_STACK:
        return np.sort(best), False
    found, exact = _search(from_dense(to_dense(adjacency)[np.ix_(kept, kept)]), len(best), most + 1, node_budget)
    return np.sort(kept[found] if len(found) else best), bool(exact)


def cliques_through(adjacency: np.ndarray, max_cliques: int) -> np.ndarray:  # (K, W) uint64 -> (H, K) bool
    """Return a greedy clique through each vertex, without duplicates, largest first, at most `max_cliques`.

    If wrong matches happen to form the maximum clique, one of these usually contains the right ones.
    """
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
def _grow_all(adjacency, order, members):
    clique = np.empty(len(order), np.int64)
    for v in range(len(order)):
        clique[0] = v
        size = _grow(adjacency, order, adjacency[v].copy(), clique, 1)
        for m in range(size):
            members[v, clique[m]] = True


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
                v = (w << 6) + lowest_bit(np.int64(same[w]))
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
