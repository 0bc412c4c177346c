"""Curvature: fit a quadric to the neighbors of every point (`train.curvature` has the equations)."""

import numpy as np

from poli.estimation.architecture import QUADRIC_EXPONENT, QUADRIC_REACH, QUADRIC_TERMS
from poli.estimation.runtime.arithmetic import FAST, TILE, bias_tile, blocks_of, exponential, linear, logarithm, rows_of
from poli.estimation.runtime.gather import gather_seen, own_features, turn_offsets
from poli.estimation.runtime.quadrics import FACTOR, HALF, PACKED, RIGHT, SUMS, WHICH, add_neighbors, chords, factor, turn_axes
from poli.estimation.runtime.scale import diagonalize
from poli.kdtree.neighborhoods import CELL
from poli.kernel import kernel
from poli.simd import larger, smaller
from poli.turns import take

_UNKNOWN = 0.9  # share of the prior variance: if more is left, the neighbors say nothing about the curvature
COLUMNS = 18  # of the result, see `bend`


@kernel(**FAST)
def bend(points, frames, radius, seen, moments, scalars, context, pooled, maps, defaults, floor, unit, order, turns, result):
    """Fit the quadrics to the neighbors `seen` (as in `gather_seen`). `pooled` has the result of `quadrics.pool`, or no column. The
    result has, in units of the cloud (`unit` is that of `points` and `radius`):

    normal (0 to 2), larger and smaller curvature along it (3, 4), direction of the larger (5 to 7), standard deviations of both
    (8, 9), height of the surface over the point (10), the variances of the height (11), the slope (12) and the curvature (13) at
    the point, the scale of what a quadric leaves out (14), and the slope, as a vector in the tangent plane (15 to 17)."""
    hidden_weight, hidden_bias, out_weight, out_bias = maps
    count, total, known = len(points), seen[1] + seen[3] + seen[5], scalars.shape[1] + context.shape[1]
    rows, leads, who = np.empty(TILE, np.int32), np.empty(TILE, np.int32), np.empty((total, TILE), np.int32)
    at, frame, inverse = np.empty((3, TILE)), rows_of(9), np.empty(TILE)
    offsets, local = blocks_of(total, 3), blocks_of(total, 3)
    matrix, axes, world = rows_of(6), rows_of(9), rows_of(9)
    inputs, hidden, predicted = rows_of(hidden_weight.shape[1]), rows_of(len(hidden_bias)), rows_of(len(out_bias))
    weights, sums, A, form = rows_of(total), rows_of(SUMS), rows_of(PACKED), rows_of(6)
    prior, b, beta = rows_of(QUADRIC_TERMS), rows_of(QUADRIC_TERMS), rows_of(QUADRIC_TERMS)
    turn, bent, left = rows_of(2), rows_of(4), np.empty(TILE, np.float32)
    least, hidden_begin, out_begin = np.float32(floor**4), bias_tile(hidden_bias), bias_tile(out_bias)
    tile = take(turns)
    while tile < turns[1]:
        start = tile * TILE
        gather_seen(tile, count, 1, points, frames, radius, seen, rows, at, frame, inverse, who, offsets, left)
        own_features(moments, rows, matrix, 0)
        diagonalize(matrix, axes)
        turn_axes(frame, axes, world)
        turn_offsets(offsets, world, local)
        own_features(scalars, rows, inputs, 0)
        own_features(context, rows, inputs, scalars.shape[1])
        for a in range(3):
            row, variance = inputs[known + a], matrix[a]
            for p in range(TILE):
                row[p] = larger(variance[p], least)
            logarithm(row)
        if pooled.shape[1]:
            chords(local, left)
            for p in range(TILE):
                leads[p] = rows[p] // CELL
            own_features(pooled, leads, inputs, known + 3)
        linear(hidden_weight, inputs, 0, hidden_begin, hidden, True)
        linear(out_weight, hidden, 0, out_begin, predicted, False)
        _positive(predicted, defaults)
        for j in range(total):
            _weigh(local[j], predicted, weights[j])
        sums[:] = 0.0
        add_neighbors(local, weights, 0, total, sums)
        _normal_equations(sums, predicted, prior, A, b)
        _solve(A, b, prior, beta, left)
        _principal(beta, form, turn, bent)
        _deviations(A, turn, bent)
        for p in range(min(TILE, count - start)):
            _write(p, world, A, beta, turn, bent, left, predicted, radius[start + p] * unit, result[order[start + p]])
        tile = take(turns)


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
def _normal_equations(sums, predicted, prior, A, b):
    """Compute A = I + D (sum w phi phi') D and b = D sum w h phi, where D D is the prior covariance."""
    for i in range(QUADRIC_TERMS):
        row, deviation = prior[i], predicted[2 if i == 0 else 3 if i < 3 else 4]
        scale = np.float32(np.sqrt(0.5)) if i == 4 else np.float32(1.0)
        for p in range(TILE):
            row[p] = scale * deviation[p]
    n = 0
    for i in range(QUADRIC_TERMS):
        mine, out, height, half = prior[i], b[i], sums[RIGHT + i], HALF[i]
        for p in range(TILE):
            out[p] = half * mine[p] * height[p]
        for j in range(i + 1):
            entry, moment, other, scale = A[n], sums[WHICH[n]], prior[j], FACTOR[n]
            one = np.float32(1.0 if i == j else 0.0)
            for p in range(TILE):
                entry[p] = one + scale * mine[p] * other[p] * moment[p]
            n += 1


@kernel(**FAST)
def _solve(A, b, prior, beta, left):
    """Replace A by the covariance of the coefficients, and compute these; b and A are relative to the prior.

    `left` becomes the share of the prior variance of the curvature that is left."""
    factor(A)
    _invert(A)
    uu, vv = A[9], A[20]
    for p in range(TILE):
        left[p] = np.float32(0.5) * (uu[p] + vv[p])
    for i in range(QUADRIC_TERMS):
        out, mine = beta[i], prior[i]
        for p in range(TILE):
            out[p] = np.float32(0.0)
        for j in range(QUADRIC_TERMS):
            low, high, other = min(i, j), max(i, j), b[j]
            entry = A[high * (high + 1) // 2 + low]
            for p in range(TILE):
                out[p] += entry[p] * other[p]
        for p in range(TILE):
            out[p] *= mine[p]
    for i in range(QUADRIC_TERMS):
        for j in range(i + 1):
            entry, mine, other = A[i * (i + 1) // 2 + j], prior[i], prior[j]
            for p in range(TILE):
                entry[p] *= mine[p] * other[p]


@kernel(**FAST)
def _invert(A):
    """Replace Cholesky factors, as `factor` leaves them, by the inverses of the matrices."""
    for j in range(QUADRIC_TERMS):  # L^-1 in place of L
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
            entry, own = A[i * (i + 1) // 2 + j], A[i * (i + 1) // 2 + i]
            for p in range(TILE):
                entry[p] *= own[p]
            for m in range(i + 1, QUADRIC_TERMS):
                left, below = A[m * (m + 1) // 2 + i], A[m * (m + 1) // 2 + j]
                for p in range(TILE):
                    entry[p] += left[p] * below[p]


@kernel(**FAST)
def _principal(beta, form, turn, bent):
    """Compute the larger and the smaller curvature, and cosine and sine of the direction of the larger.

    The form in an orthonormal basis of the tilted plane is G II G / W, G = (first fundamental form)^(-1/2)."""
    one, half, nothing = np.float32(1.0), np.float32(0.5), np.float32(1e-30)
    fu, fv, a, b, c = beta[1], beta[2], beta[3], beta[4], beta[5]
    W, g, A, B, C = form[0], form[1], form[2], form[3], form[4]
    for p in range(TILE):
        W[p] = np.sqrt(one + fu[p] * fu[p] + fv[p] * fv[p])
    for p in range(TILE):
        g[p] = one / (W[p] * (W[p] + one))
    for p in range(TILE):
        x, y = one - g[p] * fu[p] * fu[p], -g[p] * fu[p] * fv[p]
        A[p] = (x * (a[p] * x + b[p] * y) + y * (b[p] * x + c[p] * y)) / W[p]
    for p in range(TILE):
        x, y, z = one - g[p] * fu[p] * fu[p], -g[p] * fu[p] * fv[p], one - g[p] * fv[p] * fv[p]
        B[p] = (x * (a[p] * y + b[p] * z) + y * (b[p] * y + c[p] * z)) / W[p]
    for p in range(TILE):
        y, z = -g[p] * fu[p] * fv[p], one - g[p] * fv[p] * fv[p]
        C[p] = (y * (a[p] * y + b[p] * z) + z * (b[p] * y + c[p] * z)) / W[p]
    spread, large, small, cosine, sine = form[0], form[1], form[5], turn[0], turn[1]
    for p in range(TILE):
        d = half * (A[p] - C[p])
        spread[p] = np.sqrt(d * d + B[p] * B[p])
    for p in range(TILE):  # of half the angle of (d, B): the one of cosine and sine that is not small
        ratio = half * abs(A[p] - C[p]) / larger(spread[p], nothing)
        large[p] = np.sqrt(half + half * (ratio if spread[p] > nothing else one))
    for p in range(TILE):
        small[p] = half * B[p] / (larger(spread[p], nothing) * large[p])
    for p in range(TILE):
        cosine[p] = large[p] if A[p] >= C[p] else small[p]
    for p in range(TILE):
        sine[p] = small[p] if A[p] >= C[p] else large[p]
    for p in range(TILE):
        bent[0, p] = half * (A[p] + C[p]) + spread[p]
    for p in range(TILE):
        bent[1, p] = half * (A[p] + C[p]) - spread[p]


@kernel(**FAST)
def _deviations(S, turn, bent):
    """Compute the standard deviations of both curvatures from the covariance of (uu, uv, vv): rows 3 to 5 of the matrix."""
    s33, s43, s44, s53, s54, s55 = S[9], S[13], S[14], S[18], S[19], S[20]
    two, nothing = np.float32(2.0), np.float32(0.0)
    for n in range(2):
        x, y, sign, out = turn[n], turn[1 - n], np.float32(1.0 - 2.0 * n), bent[2 + n]
        for p in range(TILE):
            i, j, m = x[p] * x[p], two * sign * x[p] * y[p], y[p] * y[p]
            variance = i * i * s33[p] + j * j * s44[p] + m * m * s55[p]
            variance += two * (i * j * s43[p] + i * m * s53[p] + j * m * s54[p])
            out[p] = np.sqrt(larger(variance, nothing))


@kernel
def _write(p, world, S, beta, turn, bent, left, predicted, radius, out):
    """Write a row of the result, in units of the cloud."""
    over, fu, fv, rest = 1.0 / radius, beta[1, p], beta[2, p], predicted[6, p]
    cosine, sine = turn[0, p], turn[1, p]
    for axis in range(3):
        out[axis] = world[3 * axis, p]
        out[15 + axis] = fu * world[3 * axis + 1, p] + fv * world[3 * axis + 2, p]
        out[5 + axis] = cosine * world[3 * axis + 1, p] + sine * world[3 * axis + 2, p]
    for n in range(2):
        out[3 + n], out[8 + n] = bent[n, p] * over, bent[2 + n, p] * over
    if left[p] > _UNKNOWN:
        out[3:8], out[8:10] = np.nan, np.inf
    out[10] = beta[0, p] * radius
    out[11] = (S[0, p] + rest * rest) * radius * radius
    out[12] = 0.5 * (S[2, p] + S[5, p])
    out[13] = (0.375 * (S[9, p] + S[20, p]) + 0.25 * S[18, p] + 0.5 * S[14, p]) * over * over  # the mean over directions
    out[14] = np.sqrt(predicted[1, p]) * over * over
