"""Eigenvalues and eigenvectors of eight symmetric 3x3 matrices at once, written in LLVM IR."""

from llvmlite import ir
from numba import types

from poli.estimation.runtime.arithmetic import TILE
from poli.kernel import intrinsic, kernel
from poli.simd import LANES, Vector, data_of, load, offset, spread, store

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
