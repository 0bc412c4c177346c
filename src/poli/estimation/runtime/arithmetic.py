"""Arithmetic on tiles of TILE points, in float32, small enough to fit the cache.

Values per neighbor have shape (neighbors, channels, TILE): points are contiguous, so frames, attention, and sums and maxima over
neighbors all run over points in vector registers. Values per point have shape (channels, TILE). Inner loops run over a whole row of
an array from its first element on: these are the loops that LLVM vectorizes."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from poli.kernel import intrinsic, kernel
from poli.simd import call, data_of, larger, load, loop, offset, spread, store, widest_vector

# --- The inner loop of every linear map, written in LLVM IR.
#
# In plain loops the compiler stores and loads every partial sum instead of keeping it in a register across the loop over inputs.
# Here a panel of four outputs by a few vectors of points stays in registers during the whole loop: two vectors of eight floats, or,
# on a CPU with AVX-512, which has twice as many registers, four of sixteen: eight loads for sixteen fused multiply-adds.


OUTPUTS = 4


def _parts() -> int:
    """Return the number of vectors of points in a panel."""
    return widest_vector() // 4


@intrinsic
def _width(_context):
    """Return the number of points in a panel."""
    return types.intp(), lambda context, builder, signature, arguments: ir.Constant(ir.IntType(64), _parts() * widest_vector())


def _panel(outputs: int):
    """Return an intrinsic that computes out = before + weight x on one panel, and at least `least`.

    Arrays are flat float32, each with its start index; the weights of an output are contiguous, and `stride` is the distance
    between rows of x, of before and of out."""

    @intrinsic
    def panel(_context, weight, weight_start, inputs, x, x_start, before, before_start, out, out_start, stride, least):
        number = types.intp
        return types.void(weight, number, number, x, number, before, number, out, number, number, types.float32), generate

    def generate(context, builder, signature, arguments):
        weights, points, begun, sums = (data_of(context, builder, signature.args[n], arguments[n]) for n in (0, 3, 5, 7))
        weight_start, inputs, x_start, before_start, out_start, stride, least = (arguments[n] for n in (1, 2, 4, 6, 8, 9, 10))
        lanes, parts = widest_vector(), _parts()
        places = [(row, part * lanes) for row in range(outputs) for part in range(parts)]

        def at(start, row, lane):
            return builder.add(offset(builder, start, stride, row), ir.Constant(start.type, lane))

        def add_input(i, running):
            row_start = builder.add(x_start, builder.mul(i, stride))
            values = [load(builder, points, at(row_start, 0, part * lanes), lanes) for part in range(parts)]
            following = []
            for row in range(outputs):
                place = builder.add(offset(builder, weight_start, inputs, row), i)
                weight = spread(builder, builder.load(builder.gep(weights, [place]), align=4), lanes)
                following += [call(builder, "fma", weight, values[part], running[parts * row + part]) for part in range(parts)]
            return following

        before = [load(builder, begun, at(before_start, *place), lanes) for place in places]
        for place, value in zip(places, loop(builder, inputs, before, add_input), strict=True):
            bounded = call(builder, "maxnum", value, spread(builder, least, lanes), fastmath=("nnan", "nsz"))
            store(builder, bounded, sums, at(out_start, *place))
        return context.get_dummy_value()

    return panel


_four, _two, _one = _panel(OUTPUTS), _panel(2), _panel(1)


TILE = 64
# Only flags that change no rounding. Contracted or reassociated sums are rounded differently in vectors and in the single numbers
# that a loop falls back to if its arrays happen to be close in memory: answers would change from call to call.
FAST: dict[str, Any] = {"fastmath": {"nsz", "nnan"}, "error_model": "numpy"}


@kernel
def rows_of(count):
    """Return an uninitialized tile of this many rows."""
    return np.empty((count, TILE), np.float32)


@kernel
def blocks_of(neighbors, count):
    """Return an uninitialized tile of this many rows per neighbor."""
    return np.empty((neighbors, count, TILE), np.float32)


@kernel
def bias_tile(bias):  # (channels,) -> (channels, TILE)
    """Return a tile with the bias of every point: the initial value of a sum."""
    tile = rows_of(len(bias))
    for o in range(len(bias)):
        row, value = tile[o], bias[o]
        for p in range(TILE):
            row[p] = value
    return tile


@kernel
def linear(weight, x, first, before, out, rectified):
    """Compute out = before + weight x, for every point or for every neighbor of every point; with a ReLU if `rectified`.

    x are the channels from `first` on; `before` has the shape of out, or is the same for all neighbors."""
    outputs, inputs = weight.shape
    weights, xs, starts, ys = weight.reshape(-1), x.reshape(-1), before.reshape(-1), out.reshape(-1)
    whole, into, channels = outputs - outputs % OUTPUTS, out.shape[-2], x.shape[-2]
    step, least = into * TILE if len(starts) == len(ys) else 0, np.float32(0.0 if rectified else -np.inf)
    for j in range(len(ys) // (into * TILE)):
        for p in range(0, TILE, _width()):
            at, begin, end = (j * channels + first) * TILE + p, j * step + p, j * into * TILE + p
            for o in range(0, whole, OUTPUTS):
                _four(weights, o * inputs, inputs, xs, at, starts, begin + o * TILE, ys, end + o * TILE, TILE, least)
            o = whole
            if outputs - o > 1:
                _two(weights, o * inputs, inputs, xs, at, starts, begin + o * TILE, ys, end + o * TILE, TILE, least)
                o += 2
            if o < outputs:
                _one(weights, o * inputs, inputs, xs, at, starts, begin + o * TILE, ys, end + o * TILE, TILE, least)


@kernel(**FAST)
def exponential(row):
    """Compute exp in place, to two units in the last place. Arguments must be below 88; those below -87 are clipped to it."""
    for c in range(len(row)):
        x = larger(row[c], np.float32(-87.0))
        n = np.float32(np.floor(x * np.float32(1.4426950408889634) + np.float32(0.5)))
        r = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)  # ln 2 in two parts
        y = np.float32(1.9875691500e-4) * r + np.float32(1.3981999507e-3)
        y = y * r + np.float32(8.3334519073e-3)
        y = y * r + np.float32(4.1665795894e-2)
        y = y * r + np.float32(1.6666665459e-1)
        y = y * r + np.float32(5.0000001201e-1)
        power = np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)
        row[c] = (y * r * r + r + np.float32(1.0)) * power


@kernel(**FAST)
def logarithm(row):
    """Compute log in place, to two units in the last place, for positive normal numbers."""
    for c in range(len(row)):
        bits = np.float32(row[c]).view(np.int32)
        # x = 2^n m with m between 0.7 and 1.4, for which the series in m - 1 converges fast.
        n = np.int32((bits - np.int32(0x3F3504F3)) >> np.int32(23))
        m = np.int32(bits - np.int32(n << np.int32(23))).view(np.float32) - np.float32(1.0)
        y = np.float32(7.0376836292e-2) * m - np.float32(1.1514610310e-1)
        y = y * m + np.float32(1.1676998740e-1)
        y = y * m - np.float32(1.2420140846e-1)
        y = y * m + np.float32(1.4249322787e-1)
        y = y * m - np.float32(1.6668057665e-1)
        y = y * m + np.float32(2.0000714765e-1)
        y = y * m - np.float32(2.4999993993e-1)
        y = y * m + np.float32(3.3333331174e-1)
        square = m * m
        y = y * m * square - np.float32(0.5) * square
        e = np.float32(n)
        row[c] = m + (y - e * np.float32(2.12194440e-4)) + e * np.float32(0.693359375)
