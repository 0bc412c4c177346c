"""Sums over neighbors that quadrics are fitted to, and the Cholesky factors of their equations, for a tile of points at once.

The inner loop is written in LLVM IR, as in `arithmetic`: sums stay in registers or on the stack during the loop over neighbors."""

import numpy as np
from llvmlite import ir
from numba import types

from poli.estimation.architecture import QUADRIC_REACH, QUADRIC_TERMS, RESIDUAL_CENTER, RESIDUAL_FLOOR, RESIDUAL_RIDGE, RESIDUALS
from poli.estimation.runtime.arithmetic import FAST, TILE, blocks_of, logarithm, rows_of
from poli.estimation.runtime.gather import gather_seen, own_features, turn_offsets
from poli.estimation.runtime.scale import diagonalize
from poli.kdtree.neighborhoods import CELL
from poli.kernel import intrinsic, kernel
from poli.simd import LANES, Vector, data_of, larger, load, loop, offset, store
from poli.turns import take

PACKED = QUADRIC_TERMS * (QUADRIC_TERMS + 1) // 2  # entries of a lower triangle, by rows
# Rows of the sums: w u^a v^b with a + b <= 4, in the order 1, u, v, uu, uv, vv, uuu, uuv, ..., vvvv; w h u^a v^b with a + b <= 2;
# and w h^2.
RIGHT, HEIGHTS, SUMS = 15, 21, 22
# Entry (i, j) of sum w phi phi', packed: which sum, and its factor.
WHICH = np.array([0, 1, 3, 2, 4, 5, 3, 6, 7, 10, 4, 7, 8, 11, 12, 5, 8, 9, 12, 13, 14])
HALF = np.array([1, 1, 1, 0.5, 1, 0.5], np.float32)
FACTOR = np.array([HALF[i] * HALF[j] for i in range(QUADRIC_TERMS) for j in range(i + 1)], np.float32)
_STEEPEST = 1e-12  # as in `train.curvature`


@intrinsic
def _add_eight(_context, local, weights, first, count, p, sums):
    """Add the terms of `count` > 0 neighbors, from `first` on, to the sums of the points p to p + 7. Arrays are flat."""

    def generate(context, builder, signature, arguments):
        local, weights, sums = (data_of(context, builder, signature.args[n], arguments[n]) for n in (0, 1, 5))
        first, count, p = (arguments[n] for n in (2, 3, 4))
        tile = ir.Constant(p.type, TILE)

        def add_neighbor(i, running):
            row = builder.mul(builder.add(first, i), tile)
            w = Vector(builder, load(builder, weights, builder.add(row, p)))
            place = builder.add(builder.mul(row, ir.Constant(p.type, 3)), p)
            h, u, v = (Vector(builder, load(builder, local, offset(builder, place, tile, a))) for a in range(3))
            wu, wv, uu, uv, vv = w * u, w * v, u * u, u * v, v * v
            low = [w, wu, wv, w * uu, w * uv, w * vv]
            wuu, wvv = low[3], low[5]
            high = [wuu * u, wuu * v, wvv * u, wvv * v, wuu * uu, wuu * uv, wuu * vv, wvv * uv, wvv * vv]
            terms = [*low, *high, *(term * h for term in low), w * h * h]
            return [(Vector(builder, total) + term).value for total, term in zip(running, terms, strict=True)]

        before = [load(builder, sums, offset(builder, p, tile, n)) for n in range(SUMS)]
        for n, total in enumerate(loop(builder, count, before, add_neighbor)):
            store(builder, total, sums, offset(builder, p, tile, n))
        return context.get_dummy_value()

    number = types.intp
    return types.void(local, weights, number, number, number, sums), generate


@kernel
def add_neighbors(local, weights, first, last, sums):  # (k, 3, TILE), (k, TILE), (SUMS, TILE)
    """Add the terms of the neighbors from `first` to `last` to the sums."""
    if last > first:
        for p in range(0, TILE, LANES):
            _add_eight(local.reshape(-1), weights.reshape(-1), first, last - first, p, sums.reshape(-1))


@kernel(**FAST)
def chords(local, longer):
    """Lengthen (u, v) to the distance in space (`train.curvature.chords`)."""
    one, steepest = np.float32(1.0), np.float32(_STEEPEST)
    for j in range(len(local)):
        h, u, v = local[j, 0], local[j, 1], local[j, 2]
        for p in range(TILE):
            longer[p] = np.sqrt(one + h[p] * h[p] / larger(u[p] * u[p] + v[p] * v[p], steepest))
        for p in range(TILE):
            u[p] *= longer[p]
        for p in range(TILE):
            v[p] *= longer[p]


@kernel(**FAST)
def factor(A):  # (PACKED, TILE)
    """Replace matrices by their Cholesky factors L, with the reciprocals of the diagonal."""
    for i in range(QUADRIC_TERMS):
        for j in range(i + 1):
            entry = A[i * (i + 1) // 2 + j]
            for m in range(j):
                left, above = A[i * (i + 1) // 2 + m], A[j * (j + 1) // 2 + m]
                for p in range(TILE):
                    entry[p] -= left[p] * above[p]
            if i == j:
                for p in range(TILE):
                    entry[p] = np.float32(1.0) / np.sqrt(larger(entry[p], np.float32(1e-6)))
            else:
                pivot = A[j * (j + 1) // 2 + j]
                for p in range(TILE):
                    entry[p] *= pivot[p]


# --- What planes and quadrics leave of the neighbors of each lead, at two scales (`train.curvature.residuals`), pooled over leads.


@kernel(**FAST)
def residuals(points, frames, radius, seen, moments, turns, result):
    """Compute the residuals of the leads, the points of level 1, from the ellipsoids' moments: (M, RESIDUALS)."""
    count, group, total = len(result), seen[1], seen[1] + seen[3] + seen[5]
    rows, who = np.empty(TILE, np.int32), np.empty((total, TILE), np.int32)
    at, frame, inverse = np.empty((3, TILE)), rows_of(9), np.empty(TILE)
    offsets, local = blocks_of(total, 3), blocks_of(total, 3)
    matrix, axes, world = rows_of(6), rows_of(9), rows_of(9)
    weights, scratch, sums = rows_of(total), np.empty(TILE, np.float32), rows_of(SUMS)
    A, left, right = rows_of(PACKED), rows_of(RESIDUALS), rows_of(QUADRIC_TERMS)
    tile = take(turns)
    while tile < turns[1]:
        start = tile * TILE
        gather_seen(tile, count, CELL, points, frames, radius, seen, rows, at, frame, inverse, who, offsets, scratch)
        own_features(moments, rows, matrix, 0)
        diagonalize(matrix, axes)
        turn_axes(frame, axes, world)
        turn_offsets(offsets, world, local)
        chords(local, scratch)
        _within_reach(local, weights)
        sums[:] = 0.0
        add_neighbors(local, weights, 0, group, sums)
        _leave(sums, A, right, left[:2])
        add_neighbors(local, weights, group, total, sums)
        _leave(sums, A, right, left[2:])
        for n in range(RESIDUALS):
            logarithm(left[n])
        for p in range(min(TILE, count - start)):
            for n in range(RESIDUALS):
                result[start + p, n] = np.float32(0.5) * left[n, p] + np.float32(RESIDUAL_CENTER)
        tile = take(turns)


@kernel
def pool(found, near, wide, begin, end, result):
    """Average the residuals of each lead and of the leads nearest to it."""
    for i in range(begin, end):
        for n in range(RESIDUALS):
            total = found[i, n]
            for j in range(wide):
                total += found[near[i, j], n]
            result[i, n] = total / np.float32(1 + wide)


@kernel(**FAST)
def turn_axes(frame, axes, world):
    """Compute the axes in the common frame, as columns of a matrix."""
    for r in range(3):
        for i in range(3):
            out, a, b, c = world[3 * r + i], axes[3 * i], axes[3 * i + 1], axes[3 * i + 2]
            f, g, h = frame[3 * r], frame[3 * r + 1], frame[3 * r + 2]
            for p in range(TILE):
                out[p] = f[p] * a[p] + g[p] * b[p] + h[p] * c[p]


@kernel(**FAST)
def _within_reach(local, weights):
    farthest = np.float32(QUADRIC_REACH * QUADRIC_REACH)
    for j in range(len(local)):
        u, v, weight = local[j, 1], local[j, 2], weights[j]
        for p in range(TILE):
            weight[p] = np.float32(1.0) if u[p] * u[p] + v[p] * v[p] < farthest else np.float32(0.0)


@kernel(**FAST)
def _leave(sums, A, right, left):
    """Compute the mean squared residuals of a plane and of a quadric from the sums."""
    count, ridge, least = sums[0], np.float32(RESIDUAL_RIDGE), np.float32(RESIDUAL_FLOOR**2)
    n = 0
    for i in range(QUADRIC_TERMS):
        for j in range(i + 1):
            entry, moment, scale = A[n], sums[WHICH[n]], FACTOR[n]
            for p in range(TILE):
                entry[p] = scale * moment[p]
            if i == j:
                for p in range(TILE):
                    entry[p] += larger(ridge * count[p], ridge)
            n += 1
    factor(A)
    total = sums[HEIGHTS]
    for p in range(TILE):
        left[1, p] = total[p]
    for i in range(QUADRIC_TERMS):  # L^-1 b, whose squares are what each term explains
        row, half, height = right[i], HALF[i], sums[RIGHT + i]
        for p in range(TILE):
            row[p] = half * height[p]
        for j in range(i):
            entry, known = A[i * (i + 1) // 2 + j], right[j]
            for p in range(TILE):
                row[p] -= entry[p] * known[p]
        pivot, remains = A[i * (i + 1) // 2 + i], left[1]
        for p in range(TILE):
            row[p] *= pivot[p]
        for p in range(TILE):
            remains[p] -= row[p] * row[p]
        if i == 2:
            for p in range(TILE):
                left[0, p] = remains[p]
    for n in range(2):
        row, terms = left[n], np.float32(3 if n == 0 else QUADRIC_TERMS)
        for p in range(TILE):
            row[p] = larger(row[p], np.float32(0.0)) / larger(count[p] - terms, np.float32(1.0)) + least
