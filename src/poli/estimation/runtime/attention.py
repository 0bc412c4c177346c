"""The head: attention weights for the neighbors, and their weighted moments."""

import numpy as np
from llvmlite import ir
from numba import types

from poli.estimation.runtime.arithmetic import FAST, TILE, bias_tile, blocks_of, exponential, linear, logarithm, rows_of
from poli.estimation.runtime.gather import gather_features, gather_seen, own_features, squares, turn_offsets
from poli.kernel import intrinsic, kernel
from poli.simd import LANES, Vector, data_of, larger, load, loop, offset, store

# --- Softmax over neighbors and the weighted moments, for eight points at once: every sum stays in a register.


_LEAST = -60.0  # exp of less is negligible compared with one, and its product with a square would be a slow denormal number
SUMS = 10  # the weights, x, y, z, and xx, yx, yy, zx, zy, zz


@intrinsic
def weighted_sums(_context, attention, first, step, prior, x, place, count, stride, out):
    """Sum w, w x and the lower triangle of w x x' over `count` neighbors, where w = exp(attention - its largest) prior.

    Processes the eight points from `place` on and writes the ten rows of `out`. Arrays are flat and rows are `stride` apart;
    attention starts at `first` and advances by `step` from one neighbor to the next."""

    def generate(context, builder, signature, arguments):
        scores, weights, places, sums = (data_of(context, builder, signature.args[n], arguments[n]) for n in (0, 3, 4, 8))
        first, step, place, count, stride = (arguments[n] for n in (1, 2, 5, 6, 7))

        def at(data, index):
            return Vector(builder, load(builder, data, index))

        def score(j):
            return at(scores, builder.add(first, builder.mul(j, step)))

        def larger(j, values):
            return [score(j).larger(Vector(builder, values[0])).value]

        def add(j, values):
            weight = (score(j) - most).larger(_LEAST).exponential() * at(weights, builder.add(place, builder.mul(j, stride)))
            row = builder.add(place, builder.mul(j, builder.mul(stride, ir.Constant(stride.type, 3))))
            where = [at(places, offset(builder, row, stride, axis)) for axis in range(3)]
            weighed = [weight * coordinate for coordinate in where]
            terms = [weight, *weighed, *(weighed[a] * where[b] for a in range(3) for b in range(a + 1))]
            return [(Vector(builder, value) + term).value for value, term in zip(values, terms, strict=True)]

        floats = ir.VectorType(ir.FloatType(), LANES)
        most = Vector(builder, loop(builder, count, [ir.Constant(floats, [-1e30] * LANES)], larger)[0])
        totals = loop(builder, count, [ir.Constant(floats, [0.0] * LANES)] * SUMS, add)
        for n, total in enumerate(totals):
            store(builder, total, sums, offset(builder, place, stride, n))
        return context.get_dummy_value()

    number = types.intp
    return types.void(attention, number, number, prior, x, number, number, number, out), generate


@kernel(**FAST)
def attend(points, frames, radius, seen, scalars, table, first_maps, maps, floor, begin, end, moments):
    """Compute the covariance of each point from the attention-weighted moments of its neighbors.

    `seen` are its neighbors, as in `gather_seen`. `table` has the mapped scalars of all points; `maps` are those of every round,
    stacked. The covariance, in the point's frame and in local spacings, is written to `moments` as xx, yx, yy, zx, zy, zz. `begin`
    and `end` count tiles."""
    place_weight, place_bias, reader_weight, reader_bias, hidden_weight, hidden_bias = first_maps
    out_weight, out_bias, shape_weight, shape_bias, again_weight, log_weight, again_bias = maps
    count, width, heads = len(points), len(place_bias), out_bias.shape[1]
    rounds, wide, total = len(out_bias), seen[3] + seen[5] > 0, seen[1] + seen[3] + seen[5]
    rows, who = np.empty(TILE, np.int32), np.empty((total, TILE), np.int32)
    at, frame, inverse = np.empty((3, TILE)), rows_of(9), np.empty(TILE)
    offsets, x, place = blocks_of(total, 3), blocks_of(total, 3), blocks_of(total, 9)
    known, edge, attention = blocks_of(total, width), blocks_of(total, width), blocks_of(total, heads)
    prior, deviation, inputs, reader = rows_of(total), rows_of(total), rows_of(scalars.shape[1]), rows_of(width)
    hidden, shape, weighed, scratch = rows_of(len(hidden_bias)), rows_of(6 + heads), rows_of(SUMS), rows_of(2)
    sums, logs, factor = rows_of(6), rows_of(6), rows_of(6)
    hidden_begin, reader_begin = bias_tile(hidden_bias), bias_tile(reader_bias + place_bias)
    for tile in range(begin, end):
        start = tile * TILE
        gather_seen(tile, count, 1, points, frames, radius, seen, rows, at, frame, inverse, who, offsets, scratch[0])
        turn_offsets(offsets, frame, x)
        _draw_in(x, wide, place, prior, scratch)
        squares(place)
        own_features(scalars, rows, inputs, 0)
        linear(hidden_weight, inputs, 0, hidden_begin, hidden, True)
        linear(reader_weight, inputs, 0, reader_begin, reader, False)
        gather_features(table, who, reader, known)
        linear(place_weight, place, 0, known, known, False)
        for r in range(rounds):
            if r > 0:
                _factor(sums, floor, factor, logs)
                _deviate(x, factor, deviation)
                linear(log_weight[r - 1], logs, 0, bias_tile(again_bias[r - 1]), reader, False)
            _ask(known, r, deviation, again_weight, reader, edge)
            linear(out_weight[r], edge, 0, bias_tile(out_bias[r]), attention, False)
            linear(shape_weight[r], hidden, 0, bias_tile(shape_bias[r]), shape, False)
            _positive(shape, heads, floor, scratch[0])
            _weigh(attention, prior, x, shape, sums, weighed, scratch)
        for p in range(min(TILE, count - start)):
            for m in range(6):
                moments[start + p, m] = sums[m, p]


@kernel(**FAST)
def _draw_in(x, wide, place, prior, scratch):
    """Compress offsets to lengths asinh(length) (channels 0 to 2 of `place`), and set the prior weights (1 + squared distance)^-1.

    Without wide neighbors, offsets are copied and the weights are one."""
    length, ratio = scratch[0], scratch[1]
    for j in range(len(x)):
        X, Y, Z, start = x[j, 0], x[j, 1], x[j, 2], prior[j]
        if wide:
            for p in range(TILE):
                start[p] = X[p] * X[p] + Y[p] * Y[p] + Z[p] * Z[p]
            for p in range(TILE):
                length[p] = np.sqrt(start[p]) + np.float32(1e-6)
            for p in range(TILE):
                ratio[p] = length[p] + np.sqrt(length[p] * length[p] + np.float32(1.0))
            logarithm(ratio)
            for p in range(TILE):
                ratio[p] /= length[p]
            for p in range(TILE):
                start[p] = np.float32(1.0) / (np.float32(1.0) + start[p])
        else:
            for p in range(TILE):
                start[p], ratio[p] = np.float32(1.0), np.float32(1.0)
        for a in range(3):
            row, drawn = x[j, a], place[j, a]
            for p in range(TILE):
                drawn[p] = ratio[p] * row[p]


@kernel(**FAST)
def _ask(known, r, deviation, weights, reader, edge):
    """Compute the hidden layer of a round.

    From the second round on, inputs include the neighbor's distance from the ellipsoid of the previous round, and its shape."""
    zero = np.float32(0.0)
    if r == 0:
        values, out = known.reshape(-1), edge.reshape(-1)
        for c in range(len(values)):
            out[c] = larger(values[c], zero)
        return
    for j in range(len(known)):
        far = deviation[j]
        for o in range(known.shape[1]):
            weight, row, strip, mine = weights[r - 1, o, 0], known[j, o], edge[j, o], reader[o]
            for p in range(TILE):
                strip[p] = larger(row[p] + weight * far[p] + mine[p], zero)


@kernel(**FAST)
def _positive(shape, heads, floor, scratch):
    """Map in place: the diagonal of B (rows 0, 2, 5) to half its softplus plus the floor, the heads' shares to their softplus."""
    for row in range(6 + heads):
        if row in (1, 3, 4):
            continue
        shift = np.float32(4.0) if row > 5 else np.float32(1.5)
        half, least = (np.float32(1.0), np.float32(0.0)) if row > 5 else (np.float32(0.5), floor)
        values = shape[row]
        for p in range(TILE):
            values[p] -= shift
            scratch[p] = -abs(values[p])
        exponential(scratch)
        for p in range(TILE):
            scratch[p] += np.float32(1.0)
        logarithm(scratch)
        for p in range(TILE):
            values[p] = half * (larger(values[p], np.float32(0.0)) + scratch[p]) + least


@kernel(**FAST)
def _weigh(attention, prior, x, shape, sums, weighed, scratch):
    """Compute the sum of two matrices, as xx, yx, yy, zx, zy, zz: B B' and the moments of the neighbors.

    The moments are the mean of (x - m / 2)(x - m / 2)', weighted by the softmax of each head's attention and by the prior."""
    a, b, c, d, e, f = shape[0], shape[1], shape[2], shape[3], shape[4], shape[5]
    xx, yx, yy, zx, zy, zz = sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]
    for p in range(TILE):
        xx[p], yx[p], yy[p] = a[p] * a[p], a[p] * b[p], b[p] * b[p] + c[p] * c[p]
        zx[p], zy[p], zz[p] = a[p] * d[p], b[p] * d[p] + c[p] * e[p], d[p] * d[p] + e[p] * e[p] + f[p] * f[p]
    count, heads = attention.shape[:2]
    scores, weights, places, into = attention.reshape(-1), prior.reshape(-1), x.reshape(-1), weighed.reshape(-1)
    share, of_mean = scratch[0], scratch[1]
    for h in range(heads):
        for p in range(0, TILE, LANES):
            weighted_sums(scores, h * TILE + p, heads * TILE, weights, places, p, count, TILE, into)
        total, of_head = weighed[0], shape[6 + h]
        for p in range(TILE):
            share[p] = of_head[p] / total[p]
        for p in range(TILE):
            of_mean[p] = np.float32(-0.75) / total[p]
        # One array is written at a time: LLVM does not vectorize loops in which too many arrays could overlap.
        m = 0
        for a in range(3):
            for b in range(a + 1):
                out, u, v, moment = sums[m], weighed[1 + a], weighed[1 + b], weighed[4 + m]
                for p in range(TILE):
                    out[p] += share[p] * (moment[p] + of_mean[p] * u[p] * v[p])
                m += 1


@kernel(**FAST)
def _factor(sums, floor, factor, logs):
    """Compute L^-1 of C = L L', and L with the logarithm of its diagonal (both xx, yx, yy, zx, zy, zz)."""
    for p in range(TILE):
        a = larger(np.sqrt(sums[0, p]), floor)
        b, d = sums[1, p] / a, sums[3, p] / a
        c = larger(np.sqrt(larger(sums[2, p] - b * b, np.float32(0.0))), floor)
        e = (sums[4, p] - d * b) / c
        f = larger(np.sqrt(larger(sums[5, p] - d * d - e * e, np.float32(0.0))), floor)
        logs[0, p], logs[1, p], logs[2, p], logs[3, p], logs[4, p], logs[5, p] = a, b, c, d, e, f
        factor[0, p], factor[2, p], factor[5, p] = np.float32(1.0) / a, np.float32(1.0) / c, np.float32(1.0) / f
        factor[1, p], factor[4, p], factor[3, p] = -b / (a * c), -e / (c * f), (b * e - c * d) / (a * c * f)
    for row in (0, 2, 5):
        logarithm(logs[row])


@kernel(**FAST)
def _deviate(x, factor, deviation):
    """Compute log(1 + |L^-1 x|^2), where |L^-1 x| is the distance in standard deviations."""
    for j in range(len(x)):
        X, Y, Z, out = x[j, 0], x[j, 1], x[j, 2], deviation[j]
        A, B, C, D, E, F = factor[0], factor[1], factor[2], factor[3], factor[4], factor[5]
        for p in range(TILE):
            u = A[p] * X[p]
            v = B[p] * X[p] + C[p] * Y[p]
            w = D[p] * X[p] + E[p] * Y[p] + F[p] * Z[p]
            out[p] = np.float32(1.0) + u * u + v * v + w * w
    logarithm(deviation.reshape(-1))
