"""Curvature: fit a quadric to the neighbors of every point (`learn.curvature` has the equations)."""

import numpy as np

from poli.estimation.architecture import QUADRIC_EXPONENT, QUADRIC_REACH, QUADRIC_TERMS
from poli.estimation.runtime.arithmetic import FAST, TILE, bias_tile, exponential, linear, logarithm
from poli.estimation.runtime.attention import list_shared
from poli.estimation.runtime.axes import diagonalize
from poli.estimation.runtime.gather import draw_near, gather_offsets, list_near, load_points, own_features, turn_offsets
from poli.kdtree.build import LEAF
from poli.kdtree.neighborhoods import CELL
from poli.kernel import kernel
from poli.simd import larger, smaller

_PACKED = QUADRIC_TERMS * (QUADRIC_TERMS + 1) // 2
_MOMENTS, _RIGHT = 15, 6  # sums of w u^a v^b with a + b <= 4, and of w h u^a v^b with a + b <= 2
_UNKNOWN = 0.9  # share of the prior variance: if more is left, the neighbors say nothing about the curvature
COLUMNS = 18  # of the result, see `bend`


@kernel(**FAST)
def bend(
    points, frames, radius, near, near1, wide1, near2, wide2, moments, scalars, context, maps, defaults, floor, unit, order,
    begin, end, result,
):  # fmt: skip
    """Fit the quadrics. The result has, in units of the cloud (`unit` is that of `points` and `radius`):

    normal (0 to 2), larger and smaller curvature along it (3, 4), direction of the larger (5 to 7), standard deviations of both
    (8, 9), height of the surface over the point (10), the variances of the height (11), the slope (12) and the curvature (13) at
    the point, the scale of what a quadric leaves out (14), and the slope, as a vector in the tangent plane (15 to 17)."""
    hidden_weight, hidden_bias, out_weight, out_bias = maps
    count, k = len(points), near.shape[1]
    total, known, extra = k + wide1 + wide2, scalars.shape[1], context.shape[1]
    rows, who = np.empty(TILE, np.int32), np.empty((total, TILE), np.int32)
    at, frame, inverse = np.empty((3, TILE)), np.empty((9, TILE), np.float32), np.empty(TILE)
    offsets, local = np.empty((total, 3, TILE), np.float32), np.empty((total, 3, TILE), np.float32)
    matrix, axes, world = np.empty((6, TILE), np.float32), np.empty((9, TILE), np.float32), np.empty((9, TILE), np.float32)
    inputs, hidden = np.empty((hidden_weight.shape[1], TILE), np.float32), np.empty((len(hidden_bias), TILE), np.float32)
    predicted, weights = np.empty((len(out_bias), TILE), np.float32), np.empty(TILE, np.float32)
    sums, right = np.empty((_MOMENTS, TILE), np.float32), np.empty((_RIGHT, TILE), np.float32)
    A, b = np.empty((_PACKED, TILE), np.float32), np.empty((QUADRIC_TERMS, TILE), np.float32)
    prior, scratch = np.empty((QUADRIC_TERMS, TILE), np.float32), np.empty((4, TILE), np.float32)
    least, hidden_begin, out_begin = np.float32(floor**4), bias_tile(hidden_bias), bias_tile(out_bias)
    for tile in range(begin, end):
        start = tile * TILE
        load_points(tile, count, 1, points, frames, radius, rows, at, frame, inverse)
        list_near(near, rows, k, who)
        list_shared(near1, wide1, CELL, start, k, who)
        list_shared(near2, wide2, LEAF, start, k + wide1, who)
        gather_offsets(points, who, at, inverse, offsets)
        draw_near(offsets, scratch[0])
        own_features(moments, rows, matrix, 0)
        diagonalize(matrix, axes)
        _turn_axes(frame, axes, world)
        turn_offsets(offsets, world, local)
        own_features(scalars, rows, inputs, 0)
        own_features(context, rows, inputs, known)
        for a in range(3):
            row, variance = inputs[known + extra + a], matrix[a]
            for p in range(TILE):
                row[p] = larger(variance[p], least)
            logarithm(row)
        linear(hidden_weight, inputs, 0, hidden_begin, hidden, True)
        linear(out_weight, hidden, 0, out_begin, predicted, False)
        _positive(predicted, defaults)
        sums[:], right[:] = 0.0, 0.0
        for j in range(total):
            _weigh(local[j], predicted, weights)
            _add(local[j], weights, sums, right, scratch)
        _normal_equations(sums, right, predicted, prior, A, b)
        _solve(A, b)
        for p in range(min(TILE, count - start)):
            _write(p, world, A, b, prior, predicted, radius[start + p] * unit, result[order[start + p]])


@kernel(**FAST)
def _turn_axes(frame, axes, world):
    """Compute the axes in the common frame, as columns of a matrix."""
    for r in range(3):
        for i in range(3):
            out, a, b, c = world[3 * r + i], axes[3 * i], axes[3 * i + 1], axes[3 * i + 2]
            f, g, h = frame[3 * r], frame[3 * r + 1], frame[3 * r + 2]
            for p in range(TILE):
                out[p] = f[p] * a[p] + g[p] * b[p] + h[p] * c[p]


@kernel(**FAST)
def _positive(predicted, defaults):
    """Map outputs of the network in place: noise^2, higher^2, offset, tilt, bend, tail and rest."""
    for n in range(len(predicted)):
        row, default = predicted[n], defaults[n]
        for p in range(TILE):
            row[p] = smaller(larger(row[p], np.float32(-QUADRIC_EXPONENT)), np.float32(QUADRIC_EXPONENT))
        exponential(row)
        for p in range(TILE):
            row[p] *= default
        if n < 2:
            for p in range(TILE):
                row[p] *= row[p]


@kernel(**FAST)
def _weigh(local, predicted, weights):
    """Compute the weight of a neighbor: one over its variance, and less where it does not fit the prior."""
    h, u, v = local[0], local[1], local[2]
    noise, higher, offset, tilt, curved, tail = predicted[0], predicted[1], predicted[2], predicted[3], predicted[4], predicted[5]
    one, quarter, farthest = np.float32(1.0), np.float32(0.25), np.float32(QUADRIC_REACH * QUADRIC_REACH)
    for p in range(TILE):
        r2 = u[p] * u[p] + v[p] * v[p]
        s2 = noise[p] + higher[p] * r2 * r2 * r2
        expected = s2 + offset[p] * offset[p] + tilt[p] * tilt[p] * r2 + quarter * curved[p] * curved[p] * r2 * r2
        weight = one / (s2 * (one + h[p] * h[p] / (tail[p] * expected)))
        weights[p] = weight if r2 < farthest else np.float32(0.0)


@kernel(**FAST)
def _add(local, weights, sums, right, scratch):
    """Add w u^a v^b and w h u^a v^b of a neighbor to the sums, in the order 1, u, v, uu, uv, vv, uuu, uuv, ..., vvvv."""
    h, u, v = local[0], local[1], local[2]
    up, mid, low = scratch[0], scratch[1], scratch[2]
    for p in range(TILE):
        up[p] = weights[p]
    _accumulate(up, h, sums[0], right[0])
    for p in range(TILE):
        mid[p] = weights[p] * u[p]
    for p in range(TILE):
        low[p] = weights[p] * v[p]
    _accumulate(mid, h, sums[1], right[1])
    _accumulate(low, h, sums[2], right[2])
    for p in range(TILE):
        up[p] = mid[p] * u[p]
    for p in range(TILE):
        mid[p] = mid[p] * v[p]
    for p in range(TILE):
        low[p] = low[p] * v[p]
    _accumulate(up, h, sums[3], right[3])
    _accumulate(mid, h, sums[4], right[4])
    _accumulate(low, h, sums[5], right[5])
    _gather(up, u, sums[6])
    _gather(up, v, sums[7])
    _gather(low, u, sums[8])
    _gather(low, v, sums[9])
    _gather_twice(up, u, u, sums[10])
    _gather_twice(up, u, v, sums[11])
    _gather_twice(up, v, v, sums[12])
    _gather_twice(low, u, v, sums[13])
    _gather_twice(low, v, v, sums[14])


@kernel(**FAST)
def _gather(term, x, total):
    for p in range(TILE):
        total[p] += term[p] * x[p]


@kernel(**FAST)
def _gather_twice(term, x, y, total):
    for p in range(TILE):
        total[p] += term[p] * x[p] * y[p]


@kernel(**FAST)
def _accumulate(term, h, total, with_height):
    for p in range(TILE):
        total[p] += term[p]
    _gather(term, h, with_height)


# Entry (i, j) of sum w phi phi', packed by rows of the lower triangle: which moment, and its factor.
_WHICH = np.array([0, 1, 3, 2, 4, 5, 3, 6, 7, 10, 4, 7, 8, 11, 12, 5, 8, 9, 12, 13, 14])
_HALF = np.array([1, 1, 1, 0.5, 1, 0.5], np.float32)
_FACTOR = np.array([_HALF[i] * _HALF[j] for i in range(QUADRIC_TERMS) for j in range(i + 1)], np.float32)


@kernel(**FAST)
def _normal_equations(sums, right, predicted, prior, A, b):
    """Compute A = I + D (sum w phi phi') D and b = D sum w h phi, where D D is the prior covariance."""
    for i in range(QUADRIC_TERMS):
        row, deviation = prior[i], predicted[2 if i == 0 else 3 if i < 3 else 4]
        factor = np.float32(np.sqrt(0.5)) if i == 4 else np.float32(1.0)
        for p in range(TILE):
            row[p] = factor * deviation[p]
    n = 0
    for i in range(QUADRIC_TERMS):
        mine, out, height, half = prior[i], b[i], right[i], _HALF[i]
        for p in range(TILE):
            out[p] = half * mine[p] * height[p]
        for j in range(i + 1):
            entry, moment, other, factor = A[n], sums[_WHICH[n]], prior[j], _FACTOR[n]
            one = np.float32(1.0 if i == j else 0.0)
            for p in range(TILE):
                entry[p] = one + factor * mine[p] * other[p] * moment[p]
            n += 1


@kernel(**FAST)
def _solve(A, b):
    """Replace A by its inverse, packed, and b by A^-1 b; by Cholesky, for all points at once. A is at least the identity."""
    for i in range(QUADRIC_TERMS):
        for j in range(i + 1):
            entry = A[i * (i + 1) // 2 + j]
            for m in range(j):
                left, above = A[i * (i + 1) // 2 + m], A[j * (j + 1) // 2 + m]
                for p in range(TILE):
                    entry[p] -= left[p] * above[p]
            if i == j:
                for p in range(TILE):
                    entry[p] = np.float32(1.0) / np.sqrt(larger(entry[p], np.float32(1e-6)))
            else:
                pivot = A[j * (j + 1) // 2 + j]
                for p in range(TILE):
                    entry[p] *= pivot[p]
    for j in range(QUADRIC_TERMS):  # L^-1 in place of L; the diagonal already has the reciprocals
        for i in range(j + 1, QUADRIC_TERMS):
            entry, above, pivot = A[i * (i + 1) // 2 + j], A[j * (j + 1) // 2 + j], A[i * (i + 1) // 2 + i]
            for p in range(TILE):
                entry[p] *= above[p]
            for m in range(j + 1, i):
                left, below = A[i * (i + 1) // 2 + m], A[m * (m + 1) // 2 + j]
                for p in range(TILE):
                    entry[p] += left[p] * below[p]
            for p in range(TILE):
                entry[p] *= -pivot[p]
    for i in range(QUADRIC_TERMS):  # L'^-1 L^-1, which needs only the rows from i on
        for j in range(i + 1):
            entry = A[i * (i + 1) // 2 + j]
            own = A[i * (i + 1) // 2 + i]
            for p in range(TILE):
                entry[p] *= own[p]
            for m in range(i + 1, QUADRIC_TERMS):
                left, below = A[m * (m + 1) // 2 + i], A[m * (m + 1) // 2 + j]
                for p in range(TILE):
                    entry[p] += left[p] * below[p]
    _multiply(A, b)


@kernel
def _multiply(A, b):
    x = np.empty(QUADRIC_TERMS, np.float32)
    for p in range(TILE):
        for i in range(QUADRIC_TERMS):
            x[i] = np.float32(0.0)
            for j in range(QUADRIC_TERMS):
                low, high = min(i, j), max(i, j)
                x[i] += A[high * (high + 1) // 2 + low, p] * b[j, p]
        for i in range(QUADRIC_TERMS):
            b[i, p] = x[i]


@kernel
def _write(p, world, S, beta, prior, predicted, radius, out):
    """Write a row of the result. S and beta are relative to the prior's standard deviations."""
    height, fu, fv = beta[0, p] * prior[0, p], beta[1, p] * prior[1, p], beta[2, p] * prior[2, p]
    a, b, c = beta[3, p] * prior[3, p], beta[4, p] * prior[4, p], beta[5, p] * prior[5, p]
    # The form in an orthonormal basis of the tilted plane: G II G / W, G = (first fundamental form)^(-1/2).
    W = np.sqrt(1.0 + fu * fu + fv * fv)
    g = 1.0 / (W * (W + 1.0))
    g00, g01, g11 = 1.0 - g * fu * fu, -g * fu * fv, 1.0 - g * fv * fv
    p00, p01, p10, p11 = a * g00 + b * g01, a * g01 + b * g11, b * g00 + c * g01, b * g01 + c * g11
    a, b, c = (g00 * p00 + g01 * p10) / W, (g00 * p01 + g01 * p11) / W, (g01 * p01 + g11 * p11) / W
    middle, half = 0.5 * (a + c), 0.5 * (a - c)
    spread = np.sqrt(half * half + b * b)
    cosine, sine = 1.0, 0.0  # of half the angle of (half, b)
    if half > 0.0:
        cosine = np.sqrt(0.5 + 0.5 * half / spread)
        sine = 0.5 * b / (spread * cosine)
    elif spread > 0.0:
        sine = np.sqrt(0.5 - 0.5 * half / spread)
        cosine = 0.5 * b / (spread * sine)
    for axis in range(3):
        out[axis] = world[3 * axis, p]
        out[15 + axis] = fu * world[3 * axis + 1, p] + fv * world[3 * axis + 2, p]
        out[5 + axis] = cosine * world[3 * axis + 1, p] + sine * world[3 * axis + 2, p]
    out[3], out[4] = (middle + spread) / radius, (middle - spread) / radius
    unknown = 0.5 * (S[9, p] + S[20, p]) > _UNKNOWN
    # Covariance of (uu, uv, vv): rows 3 to 5 of the packed matrix.
    s33, s43, s44 = S[9, p] * prior[3, p] ** 2, S[13, p] * prior[3, p] * prior[4, p], S[14, p] * prior[4, p] ** 2
    s53, s54, s55 = S[18, p] * prior[3, p] * prior[5, p], S[19, p] * prior[4, p] * prior[5, p], S[20, p] * prior[5, p] ** 2
    for n in range(2):
        x, y = (cosine, sine) if n == 0 else (-sine, cosine)
        i, j, m = x * x, 2.0 * x * y, y * y
        variance = i * i * s33 + j * j * s44 + m * m * s55 + 2.0 * (i * j * s43 + i * m * s53 + j * m * s54)
        out[8 + n] = np.sqrt(max(variance, 0.0)) / radius
    if unknown:
        out[3:8], out[8:10] = np.nan, np.inf
    rest = predicted[6, p]
    out[10] = height * radius
    out[11] = (S[0, p] * prior[0, p] ** 2 + rest * rest) * radius * radius
    out[12] = 0.5 * (S[2, p] * prior[1, p] ** 2 + S[5, p] * prior[2, p] ** 2)
    out[13] = (0.375 * (s33 + s55) + 0.25 * s53 + 0.5 * s44) / (radius * radius)  # the mean over directions
    out[14] = np.sqrt(predicted[1, p]) / (radius * radius)
