"""Where the neighbours of a tile's points are: gathered, turned into their frames and divided by their radii."""

import numpy as np

from poli.estimation.runtime.arithmetic import FAST, TILE
from poli.kernel import kernel


@kernel
def load_points(tile, count, step, points, frames, radius, rows, at, frame, inverse):
    """Which rows of the level below a tile's points are (beyond the last: the last once more), where they stand, their frames and
    one over their radii."""
    for p in range(TILE):
        i = min(tile * TILE + p, count - 1)
        rows[p] = i * step
        inverse[p] = 1.0 / radius[i]
        for a in range(3):
            at[a, p] = points[i * step, a]
            for b in range(3):
                frame[3 * a + b, p] = frames[i, a, b]


@kernel(fastmath=FAST)
def gather_offsets(below, near, rows, at, k, offsets):
    """Neighbours less points, in the common frame. Subtracted in float64: clouds may be far off."""
    for j in range(k):
        strip = slice(j * TILE, (j + 1) * TILE)
        X, Y, Z = offsets[0, strip], offsets[1, strip], offsets[2, strip]
        for p in range(TILE):
            n = near[rows[p], j]
            X[p], Y[p], Z[p] = below[n, 0] - at[0, p], below[n, 1] - at[1, p], below[n, 2] - at[2, p]


@kernel(fastmath=FAST)
def turn_offsets(offsets, frame, inverse, k, place):
    """F' d / radius: rows 0 to 2."""
    for j in range(k):
        strip = slice(j * TILE, (j + 1) * TILE)
        X, Y, Z = offsets[0, strip], offsets[1, strip], offsets[2, strip]
        for a in range(3):
            out, f, g, h = place[a, strip], frame[a], frame[3 + a], frame[6 + a]
            for p in range(TILE):
                out[p] = (f[p] * X[p] + g[p] * Y[p] + h[p] * Z[p]) * inverse[p]


@kernel(fastmath=FAST)
def squares(place, columns):
    """Rows 3 to 8 from rows 0 to 2: squares and products. Pooled, they are the moments of the group."""
    for a in range(3):
        x, y, square, product = place[a], place[(a + 2) % 3], place[3 + a], place[6 + a]
        for c in range(columns):
            square[c] = x[c] * x[c]
            product[c] = x[c] * y[c]


@kernel(fastmath=FAST)
def gather_vectors(vectors, near, rows, k, frame, place, first):
    """The neighbours' vectors, from the common frame into those of their readers: rows `first` and on."""
    for v in range(vectors.shape[1]):
        for j in range(k):
            strip = slice(j * TILE, (j + 1) * TILE)
            U, V, W = place[first + 3 * v, strip], place[first + 3 * v + 1, strip], place[first + 3 * v + 2, strip]
            for p in range(TILE):
                n = near[rows[p], j]
                x, y, z = vectors[n, v, 0], vectors[n, v, 1], vectors[n, v, 2]
                U[p] = frame[0, p] * x + frame[3, p] * y + frame[6, p] * z
                V[p] = frame[1, p] * x + frame[4, p] * y + frame[7, p] * z
                W[p] = frame[2, p] * x + frame[5, p] * y + frame[8, p] * z


@kernel(fastmath=FAST)
def own_vectors(vectors, rows, frame, tile, first):
    """The points' own vectors, from the common frame into theirs: rows `first` and on."""
    for v in range(vectors.shape[1]):
        for a in range(3):
            out = tile[first + 3 * v + a]
            for p in range(TILE):
                i = rows[p]
                out[p] = frame[a, p] * vectors[i, v, 0] + frame[3 + a, p] * vectors[i, v, 1] + frame[6 + a, p] * vectors[i, v, 2]


@kernel(fastmath=FAST)
def own_features(table, rows, tile, first):
    """Columns of a table, as rows `first` and on."""
    for p in range(TILE):
        i = rows[p]
        for c in range(table.shape[1]):
            tile[first + c, p] = table[i, c]


@kernel(fastmath=FAST)
def gather_features(table, first, near, rows, k, own, out):
    """The neighbours' features, columns `first` and on of the table, and the readers' own."""
    flat, stride, starts = table.reshape(-1), np.uint32(table.shape[1]), np.empty(TILE, np.uint32)
    for j in range(k):
        strip = slice(j * TILE, (j + 1) * TILE)
        for p in range(TILE):
            starts[p] = np.uint32(near[rows[p], j]) * stride + np.uint32(first)
        for o in range(len(own)):
            row, mine = out[o, strip], own[o]
            for p in range(TILE):
                row[p] = flat[starts[p] + np.uint32(o)] + mine[p]
