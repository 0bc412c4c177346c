"""Softmax over neighbors and the weighted moments, for eight points at once: every sum stays in a register."""

from llvmlite import ir
from numba import types

from poli.kernel import intrinsic
from poli.simd import LANES, Vector, data_of, load, loop, offset, store

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
