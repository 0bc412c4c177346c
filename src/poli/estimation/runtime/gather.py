"""Gather the neighbors of a tile's points: offsets in the points' frames, divided by their radii, and features."""

from __future__ import annotations

import math
import threading

import numpy as np
from llvmlite import ir
from numba import types

from poli.estimation.architecture import HORIZON
from poli.estimation.runtime.arithmetic import FAST, TILE
from poli.kdtree.build import LEAF
from poli.kdtree.neighborhoods import CELL
from poli.kernel import intrinsic, kernel
from poli.simd import (
    LANES,
    Vector,
    data_of,
    gather_differences,
    gather_eight,
    gather_shared_differences,
    load,
    loop,
    offset,
    store,
    transpose_eight,
    widest_lanes,
    widest_vector,
)

_BEYOND = 1e15  # radii: larger squares overflow in float32


@kernel
def load_points(tile, count, step, points, frames, radius, rows, at, frame, inverse):
    """Load the rows of a tile's points in the level below, their positions, their frames and one over their radii.

    Beyond the last point, the last is repeated."""
    for p in range(TILE):
        i = min(tile * TILE + p, count - 1)
        rows[p] = i * step
        inverse[p] = 1.0 / radius[i]
        for a in range(3):
            at[a, p] = points[i * step, a]
            for b in range(3):
                frame[3 * a + b, p] = frames[i, a, b]


@kernel
def list_near(near, rows, k, who):
    """List the first k neighbors of each point."""
    for p in range(TILE):
        row = near[rows[p]]
        for j in range(k):
            who[j, p] = row[j]


@kernel
def list_shared(near, wide, share, step, start, first, who):
    """List the first `wide` neighbors of the points' leads, as points of level 0.

    `share` consecutive points have the same lead, and a lead's level keeps every `step`-th point."""
    for p in range(0, TILE, share):
        row = near[min((start + p) // share, len(near) - 1)]
        for j in range(wide):
            name, names = row[j] * step, who[first + j]
            for s in range(p, p + share):
                names[s] = name


@kernel(**FAST)
def gather_offsets(below, who, at, inverse, offsets):
    """Compute neighbors minus points, in the common frame and in radii.

    Differences and scaling are in float64: clouds may be far from the origin, and spacing may vary widely within one cloud."""
    table, here = below.reshape(-1), at.reshape(-1)
    for j in range(len(who)):
        into, names = offsets[j].reshape(-1), who[j]
        for p in range(0, TILE, LANES):
            gather_differences(table, names, p, here, inverse, into, TILE)


@kernel(**FAST)
def _gather_shared(below, who, at, inverse, offsets):
    """Do the same for neighbors that CELL consecutive points share."""
    table, here = below.reshape(-1), at.reshape(-1)
    for j in range(len(who)):
        into, names = offsets[j].reshape(-1), who[j]
        for p in range(0, TILE, LANES):
            gather_shared_differences(table, names, p, here, inverse, into, TILE)


@kernel(**FAST)
def draw_near(offsets, squared):
    """Clip offsets beyond the horizon to it."""
    farthest, beyond = np.float32(HORIZON * HORIZON), np.float32(_BEYOND)
    for j in range(len(offsets)):
        X, Y, Z = offsets[j, 0], offsets[j, 1], offsets[j, 2]
        outside = 0
        for p in range(TILE):
            squared[p] = X[p] * X[p] + Y[p] * Y[p] + Z[p] * Z[p]
        for p in range(TILE):
            outside += squared[p] > farthest
        if outside:
            for p in range(TILE):
                if squared[p] > farthest:
                    x = max(min(X[p], beyond), -beyond)
                    y = max(min(Y[p], beyond), -beyond)
                    z = max(min(Z[p], beyond), -beyond)
                    near = np.float32(HORIZON) / np.sqrt(x * x + y * y + z * z)
                    X[p], Y[p], Z[p] = near * x, near * y, near * z


@kernel
def gather_seen(tile, count, step, points, frames, radius, seen, rows, at, frame, inverse, who, offsets, squared):
    """Load a tile's points, and gather the offsets of all that they see: their own neighbors, and those of their leads on levels 1
    and 2. The points are every `step`-th of level 0. `seen` has the neighbors on the three levels and how many of them are seen."""
    near, group, near1, wide1, near2, wide2 = seen
    load_points(tile, count, step, points, frames, radius, rows, at, frame, inverse)
    list_near(near, rows, group, who)
    list_shared(near1, wide1, CELL // step, CELL, tile * TILE, group, who)
    list_shared(near2, wide2, LEAF // step, LEAF, tile * TILE, group + wide1, who)
    if step == 1:
        gather_offsets(points, who[:group], at, inverse, offsets[:group])
        _gather_shared(points, who[group:], at, inverse, offsets[group:])
    else:
        gather_offsets(points, who, at, inverse, offsets)
    draw_near(offsets, squared)


@kernel(**FAST)
def turn_offsets(offsets, frame, place):
    """Rotate offsets into the points' frames: F' d, in channels 0 to 2."""
    for j in range(len(offsets)):
        X, Y, Z = offsets[j, 0], offsets[j, 1], offsets[j, 2]
        for a in range(3):
            out, f, g, h = place[j, a], frame[a], frame[3 + a], frame[6 + a]
            for p in range(TILE):
                out[p] = f[p] * X[p] + g[p] * Y[p] + h[p] * Z[p]


@intrinsic
def _look(_context, offsets, frame, place, count, stride, described):
    """Turn offsets into the points' frames, x = F' d, and describe them by x, its squares and its products (nine channels). Pooled,
    these are the moments of the group.

    Processes a vector of points from `place` on. Arrays are flat and rows are `stride` apart."""

    def generate(context, builder, signature, arguments):
        offsets, frame, described = (data_of(context, builder, signature.args[n], arguments[n]) for n in (0, 1, 5))
        place, count, stride = arguments[2:5]
        lanes = widest_vector()

        def at(j, rows, row):
            apart = builder.mul(stride, ir.Constant(stride.type, rows))
            return offset(builder, builder.add(place, builder.mul(j, apart)), stride, row)

        turn = [Vector(builder, load(builder, frame, offset(builder, place, stride, n), lanes)) for n in range(9)]

        def see(j, _):
            d = [Vector(builder, load(builder, offsets, at(j, 3, a), lanes)) for a in range(3)]
            x = [turn[a] * d[0] + turn[3 + a] * d[1] + turn[6 + a] * d[2] for a in range(3)]
            for row, value in enumerate([*x, *(a * a for a in x), *(x[a] * x[(a + 2) % 3] for a in range(3))]):
                store(builder, value.value, described, at(j, 9, row))
            return []

        loop(builder, count, [], see)
        return context.get_dummy_value()

    number = types.intp
    return types.void(offsets, frame, number, number, number, described), generate


@kernel
def look_around(offsets, frame, described):
    """Turn offsets into the points' frames and describe them (`_look`)."""
    for p in range(0, TILE, widest_lanes()):
        _look(offsets.reshape(-1), frame.reshape(-1), p, len(offsets), TILE, described.reshape(-1))


@kernel
def own_features(table, rows, tile, first):
    """Copy the points' rows of a table into the tile, transposed, in the rows from `first` on."""
    width = table.shape[1]
    flat, into, nothing, starts = table.reshape(-1), tile.reshape(-1), np.zeros(LANES * LANES, np.float32), np.empty(TILE, np.int64)
    whole = width - width % LANES
    for p in range(TILE):
        starts[p] = rows[p] * width
    for p in range(0, TILE, LANES):
        for c in range(0, whole, LANES):
            gather_eight(flat, starts, p, c, nothing, 0, 0, into, (first + c) * TILE + p, TILE)
    for c in range(whole, width):
        for p in range(TILE):
            tile[first + c, p] = flat[starts[p] + c]


@kernel
def gather_features(table, who, own, out):
    """Compute the neighbors' features plus those of the points themselves."""
    width = len(own)
    flat, mine, into, starts = table.reshape(-1), own.reshape(-1), out.reshape(-1), np.empty(TILE, np.int64)
    whole = width - width % LANES
    for j in range(len(who)):
        names, target = who[j], j * width * TILE
        for p in range(TILE):
            starts[p] = names[p] * width
        for p in range(0, TILE, LANES):
            for o in range(0, whole, LANES):
                gather_eight(flat, starts, p, o, mine, o * TILE + p, TILE, into, target + o * TILE + p, TILE)
        for o in range(whole, width):
            for p in range(TILE):
                out[j, o, p] = flat[starts[p] + o] + own[o, p]


@kernel
def keep_features(tile, count, table, first):
    """Copy the first `count` points of a tile into the rows of a table from `first` on, transposed."""
    width = table.shape[1]
    whole, values, into = (width - width % LANES if count == TILE else 0), tile.reshape(-1), table.reshape(-1)
    for p in range(0, TILE, LANES):
        for c in range(0, whole, LANES):
            transpose_eight(values, c * TILE + p, TILE, into, (first + p) * width + c, width)
    for p in range(count):
        for c in range(whole, width):
            table[first + p, c] = tile[c, p]


# --- Memory reused between calls: fresh memory is faulted in page by page, which takes a fifth of the time of an estimate.


_LARGEST = 8 << 20  # bytes: larger arrays are not kept, so a map of millions of points does not occupy memory afterwards


_workspace = threading.local()  # one per thread, so that concurrent callers do not share memory


def scratch(name: str, shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    """Return an uninitialized array, valid until this thread requests the same name again. Never return it to a user."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    kept = _workspace.__dict__.get(name)
    if kept is None or len(kept) < size:
        kept = np.empty(size, np.uint8)
        if size <= _LARGEST:
            _workspace.__dict__[name] = kept
    return kept[:size].view(dtype).reshape(shape)
