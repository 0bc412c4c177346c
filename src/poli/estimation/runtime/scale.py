"""The last step: axes of the ellipsoids, their sizes, and covariances in the units and the order of the cloud."""

import numpy as np
from llvmlite import ir
from numba import types

from poli.estimation.architecture import FLATTEST, THINNEST
from poli.estimation.runtime.arithmetic import FAST, TILE, bias_tile, exponential, linear, logarithm, rows_of
from poli.estimation.runtime.gather import own_features
from poli.kernel import intrinsic, kernel
from poli.simd import LANES, Vector, data_of, larger, load, offset, smaller, spread, store

# --- Eigenvalues and eigenvectors of eight symmetric 3x3 matrices at once, written in LLVM IR.


_SWEEPS = 4  # of Jacobi rotations, which converge quadratically: a fifth changes nothing in float32


@kernel
def diagonalize(matrices, axes):  # (6, TILE), (9, TILE) float32
    """Diagonalize matrices given as xx, yx, yy, zx, zy, zz, in place.

    Rows 0 to 2 of `matrices` become the eigenvalues, ascending, and rows 3 i to 3 i + 2 of `axes` the i-th eigenvectors."""
    flat, into = matrices.reshape(-1), axes.reshape(-1)
    for p in range(0, TILE, LANES):
        _diagonalize_eight(flat, into, p, TILE)


@intrinsic
def _diagonalize_eight(_context, matrices, axes, first, stride):
    def generate(context, builder, signature, arguments):
        data, into = (data_of(context, builder, signature.args[n], arguments[n]) for n in (0, 1))
        first, stride = arguments[2:]

        def number(value):
            return Vector(builder, spread(builder, ir.Constant(ir.FloatType(), value)))

        entries = [Vector(builder, load(builder, data, offset(builder, first, stride, m))) for m in range(6)]
        diagonal, off = [entries[0], entries[2], entries[5]], {(0, 1): entries[1], (0, 2): entries[3], (1, 2): entries[4]}
        vectors = [[number(1.0 if i == j else 0.0) for j in range(3)] for i in range(3)]
        for _ in range(_SWEEPS):
            for i, j, other in ((0, 1, 2), (0, 2, 1), (1, 2, 0)):
                between = off[i, j]
                gap, twice = diagonal[j] - diagonal[i], between + between
                root = (gap * gap + twice * twice).root() + 1e-30  # never zero
                tangent = twice / (gap - root).where(gap < 0.0, gap + root)
                cosine = number(1.0) / (tangent * tangent + 1.0).root()
                sine = tangent * cosine
                diagonal[i], diagonal[j] = diagonal[i] - tangent * between, diagonal[j] + tangent * between
                off[i, j] = number(0.0)
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
def size(moments, frames, lengths, most, scalars, context, weights, own_width, floor, order, begin, end, covariances):
    """Compute covariances: axes from the moments, variances stretched by the size map, in units of `lengths`.

    If `own_width`, the inputs of the map are all features of a point, else its scalars alone. Variances are at most `most` and at
    least FLATTEST times the largest."""
    hidden_weight, hidden_bias, out_weight, out_bias = weights
    count, known, extra = len(moments), scalars.shape[1], context.shape[1]
    inputs, hidden = rows_of(hidden_weight.shape[1]), rows_of(len(hidden_bias))
    stretch, matrix, axes = rows_of(3), rows_of(6), rows_of(9)
    rows, least = np.empty(TILE, np.int32), np.float32(floor**4)
    hidden_begin, out_begin = bias_tile(hidden_bias), bias_tile(out_bias)
    for tile in range(begin, end):
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
        for p in range(filled):
            i = start + p
            scale = lengths[i] * lengths[i]
            u, v, w = (
                scale * matrix[0, p] * stretch[0, p],
                scale * matrix[1, p] * stretch[1, p],
                scale * matrix[2, p] * stretch[2, p],
            )
            # An ellipsoid is never larger than the point's neighborhood, whatever the network predicts, and never flat.
            largest = min(max(v, w), most[i])
            v, w = max(min(v, largest), 2.0 * FLATTEST * largest), max(min(w, largest), 2.0 * FLATTEST * largest)
            u = max(min(u, THINNEST * min(v, w)), FLATTEST * largest)
            C = covariances[order[i]]
            C[:] = 0.0
            for axis in range(3):
                variance = u if axis == 0 else v if axis == 1 else w
                x, y, z = axes[3 * axis, p], axes[3 * axis + 1, p], axes[3 * axis + 2, p]
                a = frames[i, 0, 0] * x + frames[i, 0, 1] * y + frames[i, 0, 2] * z
                b = frames[i, 1, 0] * x + frames[i, 1, 1] * y + frames[i, 1, 2] * z
                c = frames[i, 2, 0] * x + frames[i, 2, 1] * y + frames[i, 2, 2] * z
                C[0, 0] += variance * a * a
                C[1, 1] += variance * b * b
                C[2, 2] += variance * c * c
                C[1, 0] += variance * b * a
                C[2, 0] += variance * c * a
                C[2, 1] += variance * c * b
            C[0, 1], C[0, 2], C[1, 2] = C[1, 0], C[2, 0], C[2, 1]
