"""What planes and quadrics leave of the neighbors of each lead, at two scales (`learn.curvature.residuals`), pooled over leads."""

import numpy as np

from poli.estimation.architecture import QUADRIC_REACH, QUADRIC_TERMS, RESIDUAL_CENTER, RESIDUAL_FLOOR, RESIDUAL_RIDGE, RESIDUALS
from poli.estimation.runtime.arithmetic import FAST, TILE, logarithm
from poli.estimation.runtime.axes import diagonalize
from poli.estimation.runtime.gather import draw_near, gather_offsets, list_near, load_points, own_features, turn_offsets
from poli.estimation.runtime.quadric_sums import FACTOR, HALF, HEIGHTS, PACKED, RIGHT, SUMS, WHICH, add_neighbors, chords, factor
from poli.kdtree.build import LEAF
from poli.kdtree.neighborhoods import CELL
from poli.kernel import kernel
from poli.simd import larger


@kernel(**FAST)
def residuals(points, frames, radius, near, group, near1, wide1, near2, wide2, moments, begin, end, result):
    """Compute the residuals of the leads, the points of level 1, from the ellipsoids' moments: (M, RESIDUALS)."""
    count, total = len(result), group + wide1 + wide2
    rows, who = np.empty(TILE, np.int32), np.empty((total, TILE), np.int32)
    at, frame, inverse = np.empty((3, TILE)), np.empty((9, TILE), np.float32), np.empty(TILE)
    offsets, local = np.empty((total, 3, TILE), np.float32), np.empty((total, 3, TILE), np.float32)
    matrix, axes, world = np.empty((6, TILE), np.float32), np.empty((9, TILE), np.float32), np.empty((9, TILE), np.float32)
    weights, scratch, sums = np.empty((total, TILE), np.float32), np.empty(TILE, np.float32), np.empty((SUMS, TILE), np.float32)
    A, left = np.empty((PACKED, TILE), np.float32), np.empty((RESIDUALS, TILE), np.float32)
    right = np.empty((QUADRIC_TERMS, TILE), np.float32)
    for tile in range(begin, end):
        start = tile * TILE
        load_points(tile, count, CELL, points, frames, radius, rows, at, frame, inverse)
        list_near(near, rows, group, who)
        _list_others(near1, wide1, 1, CELL, start, group, who)
        _list_others(near2, wide2, CELL, LEAF, start, group + wide1, who)
        gather_offsets(points, who, at, inverse, offsets)
        draw_near(offsets, scratch)
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


@kernel
def pool(found, near, wide, begin, end, result):
    """Average the residuals of each lead and of the leads nearest to it."""
    for i in range(begin, end):
        for n in range(RESIDUALS):
            total = found[i, n]
            for j in range(wide):
                total += found[near[i, j], n]
            result[i, n] = total / np.float32(1 + wide)


@kernel
def _list_others(near, wide, share, step, start, first, who):
    """List the neighbors of the leads' own leads (`share` of them have the same one), as points of level 0."""
    for j in range(wide):
        for p in range(TILE):
            who[first + j, p] = near[min((start + p) // share, len(near) - 1), j] * step


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
