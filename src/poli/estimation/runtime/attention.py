"""The head: attention weights for the neighbors, and their weighted moments."""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from poli.estimation.runtime.arithmetic import FAST, TILE, bias_tile, blocks_of, exponential, linear, logarithm, rows_of
from poli.estimation.runtime.gather import gather_features, gather_seen, own_features
from poli.kernel import intrinsic, kernel
from poli.simd import Vector, data_of, larger, load, loop, offset, spread, store, widest_lanes, widest_vector
from poli.turns import take

# --- Softmax over neighbors and the weighted moments, for a vector of points at once: every sum stays in a register.


_LEAST = -60.0  # exp of less is negligible compared with one, and its product with a square would be a slow denormal number
SUMS = 10  # the weights, x, y, z, and xx, yx, yy, zx, zy, zz


@intrinsic
def weighted_sums(_context, attention, first, step, prior, x, place, count, stride, out):
    """Sum w, w x and the lower triangle of w x x' over `count` neighbors, where w = exp(attention - its largest) prior.

    Processes a vector of points from `place` on and writes the ten rows of `out`. Arrays are flat and rows are `stride` apart;
    attention starts at `first` and advances by `step` from one neighbor to the next."""

    def generate(context, builder, signature, arguments):
        lanes = widest_vector()
        scores, weights, places, sums = (data_of(context, builder, signature.args[n], arguments[n]) for n in (0, 3, 4, 8))
        first, step, place, count, stride = (arguments[n] for n in (1, 2, 5, 6, 7))

        def at(data, index):
            return Vector(builder, load(builder, data, index, lanes))

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

        floats = ir.VectorType(ir.FloatType(), lanes)
        most = Vector(builder, loop(builder, count, [ir.Constant(floats, [-1e30] * lanes)], larger)[0])
        totals = loop(builder, count, [ir.Constant(floats, [0.0] * lanes)] * SUMS, add)
        for n, total in enumerate(totals):
            store(builder, total, sums, offset(builder, place, stride, n))
        return context.get_dummy_value()

    number = types.intp
    return types.void(attention, number, number, prior, x, number, number, number, out), generate


def _number(value):
    return ir.Constant(ir.IntType(64), value)


# --- The weights of a round: a small network per neighbor, whose values stay in registers, too.


def _turn(compressed: bool):
    """Return an intrinsic that turns offsets x into the points' frames, F' x, in place, for a vector of points from `place` on.

    If `compressed`, `ratio` becomes asinh(length) / length and `prior` (1 + squared length)^-1, else both are one."""

    @intrinsic
    def turn(_context, x, frame, place, count, stride, ratio, prior):
        number = types.intp
        return types.void(x, frame, number, number, number, ratio, prior), generate

    def generate(context, builder, signature, arguments):
        x, frame, ratio, prior = (data_of(context, builder, signature.args[n], arguments[n]) for n in (0, 1, 5, 6))
        place, count, stride = arguments[2:5]
        turn = [Vector(builder, load(builder, frame, offset(builder, place, stride, n), widest_vector())) for n in range(9)]

        def see(j, _):
            row = builder.add(place, builder.mul(j, stride))
            rows = [builder.add(place, builder.mul(builder.add(builder.mul(j, _number(3)), _number(a)), stride)) for a in range(3)]
            d = [Vector(builder, load(builder, x, at, widest_vector())) for at in rows]
            turned = [turn[a] * d[0] + turn[3 + a] * d[1] + turn[6 + a] * d[2] for a in range(3)]
            kept = [(value, x, at) for value, at in zip(turned, rows, strict=True)]
            one = turned[0].constant(1.0)
            if compressed:
                farther = turned[0] * turned[0] + turned[1] * turned[1] + turned[2] * turned[2] + 1.0
                length = (farther - 1.0).root() + 1e-6
                kept += [((length + farther.root()).logarithm() / length, ratio, row), (one / farther, prior, row)]
            else:
                kept += [(one, ratio, row), (one, prior, row)]
            for value, data, at in kept:
                store(builder, value.value, data, at)
            return []

        loop(builder, count, [], see)
        return context.get_dummy_value()

    return turn


_turn_near, _turn_wide = _turn(compressed=False), _turn(compressed=True)


def _ask(again: bool):
    """Return an intrinsic that computes the attention of a round for a vector of points, from `place` on.

    In the first round, each neighbor is described by its compressed offset, the squares and the products: these nine numbers are
    multiplied by `weights` and added to `known`. In later rounds, the number is log(1 + |L^-1 x|^2), where |L^-1 x| is the
    distance from the last round's ellipsoid in standard deviations, and `mine` is added for the point itself; `known` does not
    change. `outs` has the weights of each head by round, `bias` the biases of this round.

    Arrays are flat and rows are `stride` apart."""

    def generate(context, builder, signature, arguments):
        names = (0, 1, 2, 3, 4, 6, 10, 11)
        data = (data_of(context, builder, signature.args[n], arguments[n]) for n in names)
        known, x, ratio, weights, mine, bias, given, attention = data
        place, count, width = arguments[7:10]
        stride, round_ = arguments[12:14]
        heads = [data_of(context, builder, signature.args[5].dtype, array) for array in cgutils.unpack_tuple(builder, arguments[5])]
        outs = [builder.gep(head, [builder.mul(round_, width)]) for head in heads]
        lanes = widest_vector()

        def rows(j, number):  # where the rows of neighbor j start, if it has this many
            return builder.add(place, builder.mul(builder.mul(j, number), stride))

        def at(data, start, row=0):
            return Vector(builder, load(builder, data, offset(builder, start, stride, row), lanes))

        def keep(value, data, start, row=0):
            store(builder, value.value, data, offset(builder, start, stride, row))

        def one(data, index):
            return Vector(builder, spread(builder, builder.load(builder.gep(data, [index])), lanes))

        factor = [at(given, place, n) for n in range(6)] if again else []  # L^-1
        begin = [one(bias, _number(h)) for h in range(len(outs))]

        def ask(j, _):
            row = rows(j, _number(3))
            if again:
                X, Y, Z = (at(x, row, a) for a in range(3))
                u, v, w = factor[0] * X, factor[1] * X + factor[2] * Y, factor[3] * X + factor[4] * Y + factor[5] * Z
                facts = [(u * u + v * v + w * w + 1.0).logarithm()]
            else:
                near = at(ratio, rows(j, _number(1)))
                u = [near * at(x, row, a) for a in range(3)]
                facts = [*u, *(value * value for value in u), *(u[a] * u[(a + 2) % 3] for a in range(3))]
            first = rows(j, width)

            def answer(o, scores):
                row = builder.add(first, builder.mul(o, stride))
                value = at(known, row)
                for n, fact in enumerate(facts):
                    value = value + one(weights, builder.add(builder.mul(o, _number(len(facts))), _number(n))) * fact
                if again:
                    value = value + at(mine, builder.add(place, builder.mul(o, stride)))
                else:
                    keep(value, known, row)
                value = value.larger(0.0)
                return [(Vector(builder, score) + one(out, o) * value).value for score, out in zip(scores, outs, strict=True)]

            scores = loop(builder, width, [value.value for value in begin], answer)
            for h, score in enumerate(scores):
                store(builder, score, attention, offset(builder, rows(j, _number(len(outs))), stride, h))
            return []

        loop(builder, count, [], ask)
        return context.get_dummy_value()

    @intrinsic
    def ask(_context, known, x, ratio, weights, mine, outs, bias, place, count, width, given, attention, stride, round_):
        size = types.intp
        return types.void(known, x, ratio, weights, mine, outs, bias, size, size, size, given, attention, size, size), generate

    return ask


_ask_first, _ask_again = _ask(again=False), _ask(again=True)


@kernel(**FAST)
def attend(points, frames, radius, seen, scalars, table, first_maps, maps, out_weights, floor, turns, moments):
    """Compute the covariance of each point from the attention-weighted moments of its neighbors.

    `seen` are its neighbors, as in `gather_seen`. `table` has the mapped scalars of all points; `maps` are those of every round,
    stacked, and `out_weights` those of the heads, which are so few that they are unrolled. The covariance, in the point's frame
    and in local spacings, is written to `moments` as xx, yx, yy, zx, zy, zz. A turn is a tile."""
    place_weight, place_bias, reader_weight, reader_bias, hidden_weight, hidden_bias = first_maps
    out_bias, shape_weight, shape_bias, again_weight, log_weight, again_bias = maps
    count, width, heads = len(points), len(place_bias), len(out_weights)
    rounds, wide, total = len(out_bias), seen[3] + seen[5] > 0, seen[1] + seen[3] + seen[5]
    rows, who = np.empty(TILE, np.int32), np.empty((total, TILE), np.int32)
    at, frame, inverse = np.empty((3, TILE)), rows_of(9), np.empty(TILE)
    x, known, attention = blocks_of(total, 3), blocks_of(total, width), blocks_of(total, heads)
    prior, inputs, reader = rows_of(total), rows_of(scalars.shape[1]), rows_of(width)
    hidden, shape, weighed, scratch = rows_of(len(hidden_bias)), rows_of(6 + heads), rows_of(SUMS), rows_of(2)
    sums, logs, factor = rows_of(6), rows_of(6), rows_of(6)
    hidden_begin, reader_begin = bias_tile(hidden_bias), bias_tile(reader_bias + place_bias)
    ratio = rows_of(total)
    flat = known.reshape(-1), x.reshape(-1), ratio.reshape(-1)
    first, mine, scores = place_weight.reshape(-1), reader.reshape(-1), attention.reshape(-1)
    tile = take(turns)
    while tile < turns[1]:
        start = tile * TILE
        gather_seen(tile, count, 1, points, frames, radius, seen, rows, at, frame, inverse, who, x, scratch[0])
        own_features(scalars, rows, inputs, 0)
        linear(hidden_weight, inputs, 0, hidden_begin, hidden, True)
        linear(reader_weight, inputs, 0, reader_begin, reader, False)
        gather_features(table, who, reader, known)
        for p in range(0, TILE, widest_lanes()):
            if wide:
                _turn_wide(x.reshape(-1), frame.reshape(-1), p, total, TILE, ratio.reshape(-1), prior.reshape(-1))
            else:
                _turn_near(x.reshape(-1), frame.reshape(-1), p, total, TILE, ratio.reshape(-1), prior.reshape(-1))
        for r in range(rounds):
            if r > 0:
                _factor(sums, floor, factor, logs)
                linear(log_weight[r - 1], logs, 0, bias_tile(again_bias[r - 1]), reader, False)
            for p in range(0, TILE, widest_lanes()):
                if r > 0:
                    again, bias = again_weight[r - 1].reshape(-1), out_bias[r]
                    _ask_again(*flat, again, mine, out_weights, bias, p, total, width, factor.reshape(-1), scores, TILE, r)
                else:
                    _ask_first(*flat, first, mine, out_weights, out_bias[0], p, total, width, first, scores, TILE, 0)
            linear(shape_weight[r], hidden, 0, bias_tile(shape_bias[r]), shape, False)
            _positive(shape, heads, floor, scratch[0])
            _weigh(attention, prior, x, shape, sums, weighed, scratch)
        for p in range(min(TILE, count - start)):
            for m in range(6):
                moments[start + p, m] = sums[m, p]
        tile = take(turns)


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
        for p in range(0, TILE, widest_lanes()):
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
