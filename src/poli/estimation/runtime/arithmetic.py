"""Arithmetic on tiles. A tile is (channels, columns) in float32 and lies in the cache; columns are what runs in vector registers.

Columns are neighbours by points, TILE points abreast: column j * TILE + p is the j-th neighbour of the p-th point, and the columns of
one j are a strip. So frames, attention, and sums and maxima over neighbours all run over points side by side. Loops over a strip or
over all columns are the only inner loops: those are what LLVM turns into vector instructions.
"""

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from poli.kernel import kernel

TILE = 64
FAST = {"contract", "reassoc", "nsz", "nnan", "arcp"}
_BLOCK = 128  # columns that a product works on at a time: what it reads and writes of them fits the first-level cache


@intrinsic
def larger(_context, a, b):
    """The larger of two numbers in one instruction. A condition becomes, where it is stored, a masked store, slow on some CPUs."""

    def generate(_context, builder, signature, arguments):
        kind = arguments[0].type
        function = builder.module.declare_intrinsic("llvm.maxnum", [kind], ir.FunctionType(kind, [kind, kind]))
        return builder.call(function, arguments, fastmath=("nnan", "nsz"))

    return (a(a, a), generate) if a == b else None


@kernel(fastmath=FAST)
def fill(out, bias, columns):
    for o in range(len(bias)):
        row, value = out[o], bias[o]
        for c in range(columns):
            row[c] = value


@kernel(fastmath=FAST)
def multiply(weight, x, out, columns):
    """out += weight x. Two outputs and four inputs at a time: eight multiply-adds for six loads and two stores."""
    outputs, inputs = weight.shape
    whole = inputs - inputs % 4
    for begin in range(0, columns, _BLOCK):
        end = min(begin + _BLOCK, columns)
        for o in range(0, outputs - 1, 2):
            y, z = out[o, begin:end], out[o + 1, begin:end]
            for i in range(0, whole, 4):
                a0, a1, a2, a3 = weight[o, i], weight[o, i + 1], weight[o, i + 2], weight[o, i + 3]
                b0, b1, b2, b3 = weight[o + 1, i], weight[o + 1, i + 1], weight[o + 1, i + 2], weight[o + 1, i + 3]
                x0, x1, x2, x3 = x[i, begin:end], x[i + 1, begin:end], x[i + 2, begin:end], x[i + 3, begin:end]
                for c in range(end - begin):
                    p, q, r, s = x0[c], x1[c], x2[c], x3[c]
                    y[c] += a0 * p + a1 * q + a2 * r + a3 * s
                    z[c] += b0 * p + b1 * q + b2 * r + b3 * s
            for i in range(whole, inputs):
                a0, b0, x0 = weight[o, i], weight[o + 1, i], x[i, begin:end]
                for c in range(end - begin):
                    y[c] += a0 * x0[c]
                    z[c] += b0 * x0[c]
        if outputs % 2:
            y = out[outputs - 1, begin:end]
            for i in range(inputs):
                a0, x0 = weight[outputs - 1, i], x[i, begin:end]
                for c in range(end - begin):
                    y[c] += a0 * x0[c]


@kernel(fastmath=FAST)
def rectify(out, rows, columns):
    zero = np.float32(0.0)
    for o in range(rows):
        row = out[o]
        for c in range(columns):
            row[c] = larger(row[c], zero)


@kernel(fastmath=FAST)
def exponential(row, columns):
    """exp in place, to two units in the last place, of numbers above -87 (which stands for all below) and below 88."""
    for c in range(columns):
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


@kernel(fastmath=FAST)
def logarithm(row, columns):
    """log in place, to two units in the last place, of positive normal numbers."""
    for c in range(columns):
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
