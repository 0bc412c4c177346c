"""The head: neighbours weighed by attention, and the moments of what they weigh."""

import numpy as np

from poli.estimation.neighbourhoods import CELL
from poli.estimation.runtime.arithmetic import FAST, TILE, exponential, fill, larger, logarithm, multiply, rectify
from poli.estimation.runtime.places import gather_features, gather_offsets, load_points, own_features, squares, turn_offsets
from poli.kernel import kernel


@kernel(fastmath=FAST)
def attend(
    points, frames, radius, near, near1, wide1, near2, wide2, scalars, table, first, before, weights, floor, begin, end, moments
):
    """One round. Each point weighs its nearest neighbours (`near`), the first `wide1` neighbours of its cell's lead and the first
    `wide2` of its leaf's. `table` has the neighbours' scalars mapped, from column `first` on, and `before` the ellipsoids of the
    round before (`invert`; empty in the first). The covariance, in the own frame and in local spacings, is written to `moments`
    as xx, yx, yy, zx, zy, zz. `begin` and `end` count tiles."""
    place_weight, place_bias, reader_weight, reader_bias, out_weight, out_bias, hidden_weight, hidden_bias, shape_weight, shape_bias = weights
    logs, factors, away = before
    count, width, heads, known = len(points), len(place_bias), len(out_bias), scalars.shape[1]
    again, wide, k = len(logs) > 0, wide1 + wide2 > 0, near.shape[1]
    total = k + wide1 + wide2
    columns, shared = total * TILE, (k + wide1) * TILE
    rows, at, frame = np.empty(TILE, np.int32), np.empty((3, TILE)), np.empty((9, TILE), np.float32)
    inverse, offsets, x = np.empty(TILE, np.float32), np.empty((3, columns), np.float32), np.empty((3, columns), np.float32)
    place, edge = np.empty((place_weight.shape[1], columns), np.float32), np.empty((width, columns), np.float32)
    attention, square = np.empty((heads, columns), np.float32), np.empty(columns, np.float32)
    inputs, reader = np.empty((reader_weight.shape[1], TILE), np.float32), np.empty((width, TILE), np.float32)
    hidden, shape = np.empty((len(hidden_bias), TILE), np.float32), np.empty((len(shape_bias), TILE), np.float32)
    sums, scratch = np.empty((6, TILE), np.float32), np.empty((4, TILE), np.float32)
    for tile in range(begin, end):
        start = tile * TILE
        load_points(tile, count, 1, points, frames, radius, rows, at, frame, inverse)
        own_features(scalars, rows, inputs, 0)
        fill(hidden, hidden_bias, TILE)
        multiply(hidden_weight, inputs[:known], hidden, TILE)
        rectify(hidden, len(hidden_bias), TILE)
        fill(shape, shape_bias, TILE)
        multiply(shape_weight, hidden, shape, TILE)
        _positive(shape, heads, floor, scratch[0])
        if again:
            own_features(logs, rows, inputs, known)
        for o in range(width):
            row, bias = reader[o], reader_bias[o] + place_bias[o]
            for p in range(TILE):
                row[p] = bias
        multiply(reader_weight, inputs, reader, TILE)

        gather_offsets(points, near, rows, at, k, offsets)
        gather_shared(points, near1, wide1, CELL, start, at, offsets[:, k * TILE : shared])
        gather_shared(points, near2, wide2, CELL * CELL, start, at, offsets[:, shared:])
        turn_offsets(offsets, frame, inverse, total, x)
        _lengths(x, columns, square)
        _drawn_in(x, square, columns, wide, place)
        squares(place, columns)
        if again:
            _deviations(x, offsets, inverse, near, near1, wide1, near2, wide2, rows, factors, away, place)
        gather_features(table, first, near, rows, k, reader, edge)
        share_features(table, first, near1, wide1, CELL, start, reader, edge[:, k * TILE : shared])
        share_features(table, first, near2, wide2, CELL * CELL, start, reader, edge[:, shared:])
        multiply(place_weight, place, edge, columns)
        rectify(edge, width, columns)
        fill(attention, out_bias, columns)
        multiply(out_weight, edge, attention, columns)
        for h in range(heads):
            _soften(attention[h], total, square, wide, scratch)
        _weigh(attention, x, total, shape, sums, scratch)
        for p in range(min(TILE, count - start)):
            for m in range(6):
                moments[start + p, m] = sums[m, p]


@kernel(fastmath=FAST)
def _positive(shape, heads, floor, scratch):
    """In place: the diagonal of B (rows 0, 2, 5), half the softplus above the floor; the share of every head, its softplus."""
    for row in range(6 + heads):
        if row in (1, 3, 4):
            continue
        shift = np.float32(4.0) if row > 5 else np.float32(1.5)
        half, least = (np.float32(1.0), np.float32(0.0)) if row > 5 else (np.float32(0.5), floor)
        values = shape[row]
        for p in range(TILE):
            values[p] -= shift
            scratch[p] = -abs(values[p])
        exponential(scratch, TILE)
        for p in range(TILE):
            scratch[p] += np.float32(1.0)
        logarithm(scratch, TILE)
        for p in range(TILE):
            values[p] = half * (larger(values[p], np.float32(0.0)) + scratch[p]) + least


@kernel(fastmath=FAST)
def gather_shared(points, near, wide, step, start, at, offsets):
    """The neighbours of those who lead these points: `step` points have the same."""
    for j in range(wide):
        strip = slice(j * TILE, (j + 1) * TILE)
        X, Y, Z = offsets[0, strip], offsets[1, strip], offsets[2, strip]
        for cell in range(0, TILE, step):
            n = near[min((start + cell) // step, len(near) - 1), j] * step
            x, y, z = points[n, 0], points[n, 1], points[n, 2]
            for p in range(cell, cell + step):
                X[p], Y[p], Z[p] = x - at[0, p], y - at[1, p], z - at[2, p]


@kernel(fastmath=FAST)
def share_features(table, first, near, wide, step, start, own, out):
    """The features of these neighbours, and the readers' own."""
    values = np.empty(TILE, np.float32)
    for j in range(wide):
        strip = slice(j * TILE, (j + 1) * TILE)
        for o in range(len(own)):
            for cell in range(0, TILE, step):
                n = near[min((start + cell) // step, len(near) - 1), j] * step
                value = table[n, first + o]
                for p in range(cell, cell + step):
                    values[p] = value
            row, mine = out[o, strip], own[o]
            for p in range(TILE):
                row[p] = values[p] + mine[p]


@kernel(fastmath=FAST)
def _lengths(x, columns, square):
    X, Y, Z = x[0], x[1], x[2]
    for c in range(columns):
        square[c] = X[c] * X[c] + Y[c] * Y[c] + Z[c] * Z[c]


@kernel(fastmath=FAST)
def _drawn_in(x, square, columns, wide, place):
    """Rows 0 to 2: the same directions with lengths that grow as a logarithm, asinh; as they are if nobody is far."""
    ratio = place[3]
    if wide:
        for c in range(columns):
            length = np.sqrt(square[c]) + np.float32(1e-6)
            ratio[c] = length + np.sqrt(length * length + np.float32(1.0))
        logarithm(ratio, columns)
        for c in range(columns):
            ratio[c] /= np.sqrt(square[c]) + np.float32(1e-6)
    else:
        for c in range(columns):
            ratio[c] = np.float32(1.0)
    for a in range(3):
        row, out = x[a], place[a]
        for c in range(columns):
            out[c] = ratio[c] * row[c]


@kernel(fastmath=FAST)
def _soften(row, total, square, wide, scratch):
    """Softmax over the neighbours; those of the whole region start with weights (1 + squared distance)^-1."""
    most, sums = scratch[0], scratch[1]
    for p in range(TILE):
        most[p], sums[p] = np.float32(-1e30), np.float32(0.0)
    for j in range(total):
        strip = row[j * TILE : (j + 1) * TILE]
        for p in range(TILE):
            most[p] = larger(most[p], strip[p])
    for j in range(total):
        strip = row[j * TILE : (j + 1) * TILE]
        for p in range(TILE):
            strip[p] -= most[p]
    exponential(row, total * TILE)
    if wide:
        for c in range(total * TILE):
            row[c] /= np.float32(1.0) + square[c]
    for j in range(total):
        strip = row[j * TILE : (j + 1) * TILE]
        for p in range(TILE):
            sums[p] += strip[p]
    for p in range(TILE):
        sums[p] = np.float32(1.0) / sums[p]
    for j in range(total):
        strip = row[j * TILE : (j + 1) * TILE]
        for p in range(TILE):
            strip[p] *= sums[p]


@kernel(fastmath=FAST)
def _weigh(attention, x, total, shape, sums, scratch):
    """xx, yx, yy, zx, zy, zz of: moments of the weighed neighbours, (x - m / 2)(x - m / 2)' on average, and B B'."""
    a, b, c, d, e, f = shape[0], shape[1], shape[2], shape[3], shape[4], shape[5]
    xx, yx, yy, zx, zy, zz = sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]
    for p in range(TILE):
        xx[p], yx[p], yy[p] = a[p] * a[p], a[p] * b[p], b[p] * b[p] + c[p] * c[p]
        zx[p], zy[p], zz[p] = a[p] * d[p], b[p] * d[p] + c[p] * e[p], d[p] * d[p] + e[p] * e[p] + f[p] * f[p]
    mx, my, mz, weight = scratch[0], scratch[1], scratch[2], scratch[3]
    for h in range(len(attention)):
        for p in range(TILE):
            mx[p], my[p], mz[p] = np.float32(0.0), np.float32(0.0), np.float32(0.0)
        for j in range(total):
            strip = slice(j * TILE, (j + 1) * TILE)
            share, X, Y, Z = attention[h, strip], x[0, strip], x[1, strip], x[2, strip]
            for p in range(TILE):
                mx[p] += share[p] * X[p]
                my[p] += share[p] * Y[p]
                mz[p] += share[p] * Z[p]
        of_head = shape[6 + h]
        for p in range(TILE):
            w = np.float32(-0.75) * of_head[p]
            xx[p] += w * mx[p] * mx[p]
            yx[p] += w * my[p] * mx[p]
            yy[p] += w * my[p] * my[p]
            zx[p] += w * mz[p] * mx[p]
            zy[p] += w * mz[p] * my[p]
            zz[p] += w * mz[p] * mz[p]
    for j in range(total):
        strip = slice(j * TILE, (j + 1) * TILE)
        X, Y, Z = x[0, strip], x[1, strip], x[2, strip]
        for p in range(TILE):
            weight[p] = np.float32(0.0)
        for h in range(len(attention)):
            share, of_head = attention[h, strip], shape[6 + h]
            for p in range(TILE):
                weight[p] += of_head[p] * share[p]
        for p in range(TILE):
            u, v, w = weight[p] * X[p], weight[p] * Y[p], weight[p] * Z[p]
            xx[p] += u * X[p]
            yx[p] += v * X[p]
            yy[p] += v * Y[p]
            zx[p] += w * X[p]
            zy[p] += w * Y[p]
            zz[p] += w * Z[p]


@kernel(fastmath=FAST)
def _deviations(x, offsets, inverse, near, near1, wide1, near2, wide2, rows, factors, away, place):
    """Rows 9 and 10: the logarithm of one and squared distances in standard deviations, of a neighbour in this point's ellipsoid of
    the round before (`factors`: L^-1), and of this point in the neighbour's (`away`: L^-1 F')."""
    k = near.shape[1]
    total = k + wide1 + wide2
    for j in range(total):
        strip = slice(j * TILE, (j + 1) * TILE)
        U, V, W, X, Y, Z = x[0, strip], x[1, strip], x[2, strip], offsets[0, strip], offsets[1, strip], offsets[2, strip]
        mine, theirs = place[9, strip], place[10, strip]
        for p in range(TILE):
            i = rows[p]
            if j < k:
                n = near[i, j]
            elif j < k + wide1:
                n = near1[i // CELL, j - k] * CELL
            else:
                n = near2[i // (CELL * CELL), j - k - wide1] * (CELL * CELL)
            a = factors[i, 0] * U[p]
            b = factors[i, 1] * U[p] + factors[i, 2] * V[p]
            c = factors[i, 3] * U[p] + factors[i, 4] * V[p] + factors[i, 5] * W[p]
            mine[p] = np.float32(1.0) + a * a + b * b + c * c
            a = away[n, 0] * X[p] + away[n, 1] * Y[p] + away[n, 2] * Z[p]
            b = away[n, 3] * X[p] + away[n, 4] * Y[p] + away[n, 5] * Z[p]
            c = away[n, 6] * X[p] + away[n, 7] * Y[p] + away[n, 8] * Z[p]
            theirs[p] = np.float32(1.0) + (a * a + b * b + c * c) * inverse[p] * inverse[p]
    logarithm(place[9], total * TILE)
    logarithm(place[10], total * TILE)


@kernel
def invert(moments, frames, floor, begin, end, logs, factors, away):
    """What the next round asks of an ellipsoid: L as six numbers of moderate size, L^-1 (both xx, yx, yy, zx, zy, zz), and L^-1 F'."""
    for i in range(begin, end):
        xx, yx, yy, zx, zy, zz = moments[i]
        a = max(np.sqrt(max(xx, 0.0)), floor)
        b, d = yx / a, zx / a
        c = max(np.sqrt(max(yy - b * b, 0.0)), floor)
        e = (zy - d * b) / c
        f = max(np.sqrt(max(zz - d * d - e * e, 0.0)), floor)
        logs[i, 0], logs[i, 1], logs[i, 2], logs[i, 3], logs[i, 4], logs[i, 5] = np.log(a), b, np.log(c), d, e, np.log(f)
        A, C, F = 1.0 / a, 1.0 / c, 1.0 / f
        B, E = -b * A * C, -e * C * F
        D = (b * e - c * d) * A * C * F
        factors[i, 0], factors[i, 1], factors[i, 2], factors[i, 3], factors[i, 4], factors[i, 5] = A, B, C, D, E, F
        for r in range(3):
            x, y, z = frames[i, r, 0], frames[i, r, 1], frames[i, r, 2]
            away[i, r], away[i, 3 + r], away[i, 6 + r] = A * x, B * x + C * y, D * x + E * y + F * z
