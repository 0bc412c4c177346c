"""The way down: groups through the shared MLP, pooled, and what their centres knew."""

import numpy as np

from poli.estimation.runtime.arithmetic import FAST, TILE, fill, larger, multiply, rectify
from poli.estimation.runtime.places import (
    gather_features,
    gather_offsets,
    gather_vectors,
    load_points,
    own_features,
    own_vectors,
    squares,
    turn_offsets,
)
from poli.kernel import kernel


@kernel(fastmath=FAST)
def encode_points(points, near, k, frames, radius, context, weights, next_map, begin, end, scalars, vectors, mapped):
    """Level 0. `begin` and `end` count tiles. `scalars`, `vectors` and `mapped`, the scalars through `next_map`, are written."""
    place_weight, place_bias, context_weight, context_bias, edge_weight, edge_bias, node_weight, node_bias = weights
    count, width, told, columns = len(points), len(edge_bias), context.shape[1], k * TILE
    rows, at, frame = np.empty(TILE, np.int32), np.empty((3, TILE)), np.empty((9, TILE), np.float32)
    inverse, offsets, place = np.empty(TILE, np.float32), np.empty((3, columns), np.float32), np.empty((9, columns), np.float32)
    first, second = np.empty((width, columns), np.float32), np.empty((width, columns), np.float32)
    heard, pooled = np.empty((width, TILE), np.float32), np.empty((2 * width + told, TILE), np.float32)
    node, following = np.empty((len(node_bias), TILE), np.float32), np.empty((len(next_map[1]), TILE), np.float32)
    for tile in range(begin, end):
        load_points(tile, count, 1, points, frames, radius, rows, at, frame, inverse)
        gather_offsets(points, near, rows, at, k, offsets)
        turn_offsets(offsets, frame, inverse, k, place)
        squares(place, columns)
        own_features(context, rows, pooled, 2 * width)
        fill(heard, context_bias, TILE)
        multiply(context_weight, pooled[2 * width :], heard, TILE)
        _spread(heard, place_bias, k, first)
        multiply(place_weight, place, first, columns)
        rectify(first, width, columns)
        fill(second, edge_bias, columns)
        multiply(edge_weight, first, second, columns)
        _pool(second, width, k, pooled)
        finish(pooled, node_weight, node_bias, next_map, tile, count, frames, node, following, scalars, vectors, mapped)


@kernel(fastmath=FAST)
def encode_level(
    below, near, k, step, frames, radius, known, gathered, heard_vectors, weights, next_map, begin, end, scalars, vectors, mapped
):
    """A coarser level, whose points are every `step`-th of those below. Of these, `known` are the scalars and `gathered` the same
    mapped, `heard_vectors` the vectors."""
    place_weight, place_bias, edge_weight, edge_bias, node_weight, node_bias = weights
    count, width, own = len(frames), len(edge_bias), known.shape[1]
    columns, turned = k * TILE, 3 * heard_vectors.shape[1]
    rows, at, frame = np.empty(TILE, np.int32), np.empty((3, TILE)), np.empty((9, TILE), np.float32)
    inverse, offsets = np.empty(TILE, np.float32), np.empty((3, columns), np.float32)
    place, bias = np.empty((3 + turned, columns), np.float32), np.empty((width, TILE), np.float32)
    first, second = np.empty((width, columns), np.float32), np.empty((width, columns), np.float32)
    pooled = np.empty((2 * width + own + turned, TILE), np.float32)
    node, following = np.empty((len(node_bias), TILE), np.float32), np.empty((len(next_map[1]), TILE), np.float32)
    fill(bias, place_bias, TILE)
    for tile in range(begin, end):
        load_points(tile, count, step, below, frames, radius, rows, at, frame, inverse)
        gather_offsets(below, near, rows, at, k, offsets)
        turn_offsets(offsets, frame, inverse, k, place)
        gather_vectors(heard_vectors, near, rows, k, frame, place, 3)
        gather_features(gathered, 0, near, rows, k, bias, first)
        multiply(place_weight, place, first, columns)
        rectify(first, width, columns)
        fill(second, edge_bias, columns)
        multiply(edge_weight, first, second, columns)
        _pool(second, width, k, pooled)
        own_features(known, rows, pooled, 2 * width)
        own_vectors(heard_vectors, rows, frame, pooled, 2 * width + own)
        finish(pooled, node_weight, node_bias, next_map, tile, count, frames, node, following, scalars, vectors, mapped)


@kernel(fastmath=FAST)
def _spread(values, bias, k, out):
    """The same for all neighbours of a point, and a bias."""
    for o in range(len(bias)):
        row, value = values[o], bias[o]
        for j in range(k):
            strip = out[o, j * TILE : (j + 1) * TILE]
            for p in range(TILE):
                strip[p] = row[p] + value


@kernel(fastmath=FAST)
def _pool(values, width, k, pooled):
    """Maximum and mean over the neighbours, of the rectified values."""
    zero, share = np.float32(0.0), np.float32(1.0) / np.float32(k)
    for o in range(width):
        most, mean = pooled[o], pooled[width + o]
        for p in range(TILE):
            most[p], mean[p] = zero, zero
        for j in range(k):
            strip = values[o, j * TILE : (j + 1) * TILE]
            for p in range(TILE):
                value = larger(strip[p], zero)
                most[p] = larger(most[p], value)
                mean[p] += share * value


@kernel(fastmath=FAST)
def finish(inputs, weight, bias, next_map, tile, count, frames, node, following, scalars, vectors, mapped):
    """A tile's features from its inputs: scalars, rectified; vectors, into the common frame; scalars through the next map."""
    next_weight, next_bias = next_map
    start, width = tile * TILE, scalars.shape[1]
    fill(node, bias, TILE)
    multiply(weight, inputs, node, TILE)
    rectify(node, width, TILE)
    fill(following, next_bias, TILE)
    multiply(next_weight, node[:width], following, TILE)
    for p in range(min(TILE, count - start)):
        i = start + p
        for c in range(width):
            scalars[i, c] = node[c, p]
        for c in range(len(next_bias)):
            mapped[i, c] = following[c, p]
        for v in range(vectors.shape[1]):
            x, y, z = node[width + 3 * v, p], node[width + 3 * v + 1, p], node[width + 3 * v + 2, p]
            for a in range(3):
                vectors[i, v, a] = frames[i, a, 0] * x + frames[i, a, 1] * y + frames[i, a, 2] * z
