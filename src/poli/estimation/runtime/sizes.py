"""The last step: axes of the ellipsoids, their sizes, and covariances in the units and the order of the cloud."""

import numpy as np

from poli.estimation.architecture import THINNEST
from poli.estimation.runtime.arithmetic import FAST, TILE, bias_tile, exponential, linear, logarithm
from poli.kernel import kernel

_SWEEPS = 5  # of Jacobi rotations: the last changes nothing that float32 moments could tell


@kernel(fastmath=FAST)
def size(moments, frames, lengths, scalars, context, weights, own_width, floor, order, begin, end, covariances):
    """Axes from the moments; their variances stretched by what the size map says, in units of `lengths`. If `own_width`, the map
    hangs on all that is known of a point, else on its scalars alone."""
    hidden_weight, hidden_bias, out_weight, out_bias = weights
    count, known, told = len(moments), scalars.shape[1], context.shape[1]
    inputs, hidden = np.empty((hidden_weight.shape[1], TILE), np.float32), np.empty((len(hidden_bias), TILE), np.float32)
    stretch = np.empty((3, TILE), np.float32)
    matrix, axes = np.empty((6, TILE)), np.empty((9, TILE))
    hidden_begin, out_begin = bias_tile(hidden_bias), bias_tile(out_bias)
    for tile in range(begin, end):
        start = tile * TILE
        filled = min(TILE, count - start)
        for p in range(TILE):
            i = min(start + p, count - 1)
            for m in range(6):
                matrix[m, p] = moments[i, m]
            for c in range(known):
                inputs[c, p] = scalars[i, c]
        _diagonalise(matrix, axes)
        for p in range(TILE):
            for a in range(3):
                matrix[a, p] = max(matrix[a, p], floor**4)  # rounding may take away what is far smaller than the rest
        if own_width:
            for p in range(TILE):
                i = min(start + p, count - 1)
                for c in range(told):
                    inputs[known + c, p] = context[i, c]
            for a in range(3):
                row = inputs[known + told + a]
                for p in range(TILE):
                    row[p] = matrix[a, p]
                logarithm(row)
        linear(hidden_weight, inputs, 0, hidden_begin, hidden, True)
        linear(out_weight, hidden, 0, out_begin, stretch, False)
        for a in range(3):
            exponential(stretch[a])
        for p in range(filled):
            i = start + p
            scale = lengths[i] * lengths[i]
            u, v, w = matrix[0, p] * stretch[0, p] * scale, matrix[1, p] * stretch[1, p] * scale, matrix[2, p] * stretch[2, p] * scale
            u = min(u, THINNEST * min(v, w))
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


@kernel(fastmath=FAST)
def _diagonalise(matrix, axes):
    """Jacobi rotations of TILE matrices side by side, given as xx, yx, yy, zx, zy, zz. Rows 0 to 2 become their eigenvalues, ascending,
    and rows 3 i to 3 i + 2 of `axes` the i-th eigenvectors."""
    for p in range(TILE):
        for r in range(9):
            axes[r, p] = 1.0 if r % 4 == 0 else 0.0
    xx, yx, yy, zx, zy, zz = matrix[0], matrix[1], matrix[2], matrix[3], matrix[4], matrix[5]
    for _ in range(_SWEEPS):
        _rotate(xx, yy, yx, zx, zy, axes, 0, 1)
        _rotate(xx, zz, zx, yx, zy, axes, 0, 2)
        _rotate(yy, zz, zy, yx, zx, axes, 1, 2)
    for p in range(TILE):
        yx[p], yy[p] = yy[p], zz[p]  # the diagonal to rows 0 to 2
    for low, high in ((0, 1), (1, 2), (0, 1)):
        small, large = matrix[low], matrix[high]
        for p in range(TILE):
            u, v = small[p], large[p]
            small[p], large[p] = min(u, v), max(u, v)
            for r in range(3):
                x, y = axes[3 * low + r, p], axes[3 * high + r, p]
                axes[3 * low + r, p], axes[3 * high + r, p] = (x, y) if u <= v else (y, x)


@kernel(fastmath=FAST)
def _rotate(first, second, off, other_first, other_second, axes, i, j):
    """Make `off` zero, the entry between the diagonal entries `first` and `second`; the third row's entries with them turn along."""
    x0, x1, x2, y0, y1, y2 = axes[3 * i], axes[3 * i + 1], axes[3 * i + 2], axes[3 * j], axes[3 * j + 1], axes[3 * j + 2]
    for p in range(TILE):
        gap, twice = second[p] - first[p], 2.0 * off[p]
        root = np.sqrt(gap * gap + twice * twice) + 1e-300
        t = twice / (gap + root if gap >= 0.0 else gap - root)
        c = 1.0 / np.sqrt(1.0 + t * t)
        s = t * c
        first[p] -= t * off[p]
        second[p] += t * off[p]
        off[p] = 0.0
        u, v = other_first[p], other_second[p]
        other_first[p], other_second[p] = c * u - s * v, s * u + c * v
        u, v = x0[p], y0[p]
        x0[p], y0[p] = c * u - s * v, s * u + c * v
        u, v = x1[p], y1[p]
        x1[p], y1[p] = c * u - s * v, s * u + c * v
        u, v = x2[p], y2[p]
        x2[p], y2[p] = c * u - s * v, s * u + c * v
