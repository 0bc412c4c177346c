"""The last step: axes of the ellipsoids, their sizes, and covariances in the units and the order of the cloud."""

import numpy as np
from llvmlite import ir
from numba import types

from poli.estimation.architecture import FLATTEST, THINNEST
from poli.estimation.runtime.arithmetic import FAST, TILE, bias_tile, exponential, linear, logarithm, rows_of
from poli.estimation.runtime.gather import own_features
from poli.kernel import intrinsic, kernel
from poli.simd import Vector, data_of, larger, load, offset, smaller, spread, store, widest_lanes, widest_vector
from poli.turns import take

# --- Eigenvalues and eigenvectors of a vector of symmetric 3x3 matrices at once, written in LLVM IR.


_SWEEPS = 4  # of Jacobi rotations, which converge quadratically: a fifth changes nothing in float32
# Of the trace: smaller entries off the diagonal count as zero. Their squares would be denormal, which takes ten times as long.
_NEGLIGIBLE = 1e-12


@kernel
def diagonalize(matrices, axes):  # (6, TILE), (9, TILE) float32
    """Diagonalize matrices given as xx, yx, yy, zx, zy, zz, in place.

    Rows 0 to 2 of `matrices` become the eigenvalues, ascending, and rows 3 i to 3 i + 2 of `axes` the i-th eigenvectors."""
    flat, into = matrices.reshape(-1), axes.reshape(-1)
    for p in range(0, TILE, widest_lanes()):
        _diagonalize(flat, into, p, TILE)


@intrinsic
def _diagonalize(_context, matrices, axes, first, stride):
    def generate(context, builder, signature, arguments):
        data, into = (data_of(context, builder, signature.args[n], arguments[n]) for n in (0, 1))
        first, stride = arguments[2:]
        lanes = widest_vector()

        def number(value):
            return Vector(builder, spread(builder, ir.Constant(ir.FloatType(), value), lanes))

        entries = [Vector(builder, load(builder, data, offset(builder, first, stride, m), lanes)) for m in range(6)]
        diagonal, off = [entries[0], entries[2], entries[5]], {(0, 1): entries[1], (0, 2): entries[3], (1, 2): entries[4]}
        vectors = [[number(1.0 if i == j else 0.0) for j in range(3)] for i in range(3)]
        nothing, least = number(0.0), (diagonal[0] + diagonal[1] + diagonal[2]) * _NEGLIGIBLE
        for _ in range(_SWEEPS):
            for i, j, other in ((0, 1, 2), (0, 2, 1), (1, 2, 0)):
                between = nothing.where(off[i, j].magnitude() < least, off[i, j])
                gap, twice = diagonal[j] - diagonal[i], between + between
                root = (gap * gap + twice * twice).root() + 1e-30  # never zero
                tangent = twice / (gap - root).where(gap < 0.0, gap + root)
                cosine = number(1.0) / (tangent * tangent + 1.0).root()
                sine = tangent * cosine
                diagonal[i], diagonal[j] = diagonal[i] - tangent * between, diagonal[j] + tangent * between
                off[i, j] = nothing
                first_key, second_key = (min(i, other), max(i, other)), (min(j, other), max(j, other))
                u, v = off[first_key], off[second_key]
                off[first_key], off[second_key] = cosine * u - sine * v, sine * u + cosine * v
                for a in range(3):
                    u, v = vectors[i][a], vectors[j][a]
                    vectors[i][a], vectors[j][a] = cosine * u - sine * v, sine * u + cosine * v
        for i, j in ((0, 1), (1, 2), (0, 1)):  # ascending, by exchanges
            wrong = diagonal[j] < diagonal[i]
            diagonal[i], diagonal[j] = diagonal[j].where(wrong, diagonal[i]), diagonal[i].where(wrong, diagonal[j])
            for a in range(3):
                u, v = vectors[i][a], vectors[j][a]
                vectors[i][a], vectors[j][a] = v.where(wrong, u), u.where(wrong, v)
        for i in range(3):
            store(builder, diagonal[i].value, data, offset(builder, first, stride, i))
            for a in range(3):
                store(builder, vectors[i][a].value, into, offset(builder, first, stride, 3 * i + a))
        return context.get_dummy_value()

    return types.void(matrices, axes, types.intp, types.intp), generate


_MOST_STRETCHED = np.float32(80.0)  # logarithm: float32 overflows at 88, and no ellipsoid is stretched this far


@kernel(**FAST)
def size(moments, frames, lengths, most, scalars, context, weights, own_width, floor, order, turns, covariances):
    """Compute covariances: axes from the moments, variances stretched by the size map, in units of `lengths`.

    If `own_width`, the inputs of the map are all features of a point, else its scalars alone. Variances are at most `most` and at
    least FLATTEST times the largest."""
    hidden_weight, hidden_bias, out_weight, out_bias = weights
    count, known, extra = len(moments), scalars.shape[1], context.shape[1]
    inputs, hidden = rows_of(hidden_weight.shape[1]), rows_of(len(hidden_bias))
    stretch, matrix, axes = rows_of(3), rows_of(6), rows_of(9)
    rows, least = np.empty(TILE, np.int32), np.float32(floor**4)
    frame, direction, variances, entries = rows_of(9), rows_of(3), np.empty((3, TILE)), np.empty((6, TILE))
    hidden_begin, out_begin = bias_tile(hidden_bias), bias_tile(out_bias)
    tile = take(turns)
    while tile < turns[1]:
        start = tile * TILE
        filled = min(TILE, count - start)
        for p in range(TILE):
            rows[p] = min(start + p, count - 1)
        own_features(moments, rows, matrix, 0)
        own_features(scalars, rows, inputs, 0)
        diagonalize(matrix, axes)
        for a in range(3):
            row = matrix[a]
            for p in range(TILE):
                row[p] = larger(row[p], least)  # rounding may cancel a variance far smaller than the others
        if own_width:
            own_features(context, rows, inputs, known)
            for a in range(3):
                row, variance = inputs[known + extra + a], matrix[a]
                for p in range(TILE):
                    row[p] = variance[p] * np.float32(1.0)
                logarithm(row)
        linear(hidden_weight, inputs, 0, hidden_begin, hidden, True)
        linear(out_weight, hidden, 0, out_begin, stretch, False)
        for a in range(3):
            row = stretch[a]
            for p in range(TILE):
                row[p] = smaller(row[p], _MOST_STRETCHED)
            exponential(row)
        _limit(start, filled, lengths, most, matrix, stretch, variances)
        for p in range(filled):
            for a in range(3):
                for b in range(3):
                    frame[3 * a + b, p] = frames[start + p, a, b]
        _compose(filled, frame, axes, variances, direction, entries)
        for p in range(filled):
            C = covariances[order[start + p]]
            C[0, 0], C[1, 1], C[2, 2] = entries[0, p], entries[2, p], entries[5, p]
            C[0, 1], C[0, 2], C[1, 2] = entries[1, p], entries[3, p], entries[4, p]
            C[1, 0], C[2, 0], C[2, 1] = entries[1, p], entries[3, p], entries[4, p]
        tile = take(turns)


@kernel(**FAST)
def _limit(start, filled, lengths, most, values, stretch, variances):
    """Compute the variances along the axes. An ellipsoid is never larger than the point's neighborhood, whatever the network
    predicts, and never flat."""
    thin, middle, long = variances[0], variances[1], variances[2]
    for a in range(3):
        row = variances[a]
        for p in range(filled):
            row[p] = lengths[start + p] * lengths[start + p] * values[a, p] * stretch[a, p]
    for p in range(filled):
        largest = smaller(larger(middle[p], long[p]), most[start + p])
        v = larger(smaller(middle[p], largest), 2.0 * FLATTEST * largest)
        w = larger(smaller(long[p], largest), 2.0 * FLATTEST * largest)
        thin[p] = larger(smaller(thin[p], THINNEST * smaller(v, w)), FLATTEST * largest)
        middle[p], long[p] = v, w


@kernel(**FAST)
def _compose(filled, frame, axes, variances, direction, entries):
    """Compute the sum of variance a a' over the axes a, turned into the common frame, as xx, yx, yy, zx, zy, zz."""
    for axis in range(3):
        x, y, z, along = axes[3 * axis], axes[3 * axis + 1], axes[3 * axis + 2], variances[axis]
        for a in range(3):
            out, f, g, h = direction[a], frame[3 * a], frame[3 * a + 1], frame[3 * a + 2]
            for p in range(filled):
                out[p] = f[p] * x[p] + g[p] * y[p] + h[p] * z[p]
        m = 0
        for a in range(3):
            for b in range(a + 1):
                out, first, second = entries[m], direction[a], direction[b]
                m += 1
                if axis == 0:
                    for p in range(filled):
                        out[p] = along[p] * first[p] * second[p]
                else:
                    for p in range(filled):
                        out[p] += along[p] * first[p] * second[p]
