"""The encoder: groups pass through the shared MLP, are pooled, and are combined with the features of their centers."""

import numpy as np

from poli.estimation.architecture import CANDIDATES
from poli.estimation.runtime.arithmetic import FAST, TILE, bias_tile, blocks_of, linear, rows_of
from poli.estimation.runtime.gather import (
    draw_near,
    gather_features,
    gather_offsets,
    keep_features,
    list_near,
    load_points,
    look_around,
    own_features,
    turn_offsets,
)
from poli.kdtree.neighborhoods import CELL
from poli.kernel import kernel
from poli.simd import insert, larger, widest_lanes
from poli.turns import take


@kernel(**FAST)
def encode_points(points, near, k, frames, radius, context, weights, next_map, turns, scalars, mapped):
    """Encode level 0. Writes `scalars`, and `mapped`, the scalars after `next_map`. A turn is a tile."""
    place_weight, place_bias, context_weight, context_bias, edge_weight, edge_bias, node_weight, node_bias = weights
    count, width, extra = len(points), len(edge_bias), context.shape[1]
    rows, who = np.empty(TILE, np.int32), np.empty((k, TILE), np.int32)
    at, frame, inverse = np.empty((3, TILE)), rows_of(9), np.empty(TILE)
    offsets, place, first, second = blocks_of(k, 3), blocks_of(k, 9), blocks_of(k, width), blocks_of(k, width)
    place_begin, edge_begin, node_begin = bias_tile(place_bias + context_bias), bias_tile(edge_bias), bias_tile(node_bias)
    heard, next_begin = bias_tile(place_bias), bias_tile(next_map[1])
    pooled, node, ahead = rows_of(2 * width + extra), rows_of(len(node_bias)), rows_of(len(next_map[1]))
    tile = take(turns)
    while tile < turns[1]:
        load_points(tile, count, 1, points, frames, radius, rows, at, frame, inverse)
        list_near(near, rows, k, who)
        gather_offsets(points, who, at, inverse, offsets)
        look_around(offsets, frame, place)
        own_features(context, rows, pooled, 2 * width)
        if extra:
            linear(context_weight, pooled, 2 * width, place_begin, heard, False)
        linear(place_weight, place, 0, heard, first, True)
        linear(edge_weight, first, 0, edge_begin, second, False)
        _pool(second, width, k, pooled)
        finish(pooled, node_weight, node_begin, next_map, next_begin, tile, count, node, ahead, scalars, mapped)
        tile = take(turns)


@kernel(**FAST)
def encode_level(below, near, k, step, frames, radius, known, gathered, weights, next_map, turns, scalars, mapped):
    """Encode a coarser level, whose points are every `step`-th of the level below.

    `known` and `gathered` are the scalars and mapped scalars of the level below."""
    place_weight, place_bias, edge_weight, edge_bias, node_weight, node_bias = weights
    count, width, own = len(frames), len(edge_bias), known.shape[1]
    rows, who = np.empty(TILE, np.int32), np.empty((k, TILE), np.int32)
    at, frame, inverse = np.empty((3, TILE)), rows_of(9), np.empty(TILE)
    offsets, place, first, second = blocks_of(k, 3), blocks_of(k, 3), blocks_of(k, width), blocks_of(k, width)
    pooled, node, ahead = rows_of(2 * width + own), rows_of(len(node_bias)), rows_of(len(next_map[1]))
    place_begin, edge_begin = bias_tile(place_bias), bias_tile(edge_bias)
    node_begin, next_begin = bias_tile(node_bias), bias_tile(next_map[1])
    tile = take(turns)
    while tile < turns[1]:
        load_points(tile, count, step, below, frames, radius, rows, at, frame, inverse)
        list_near(near, rows, k, who)
        gather_offsets(below, who, at, inverse, offsets)
        turn_offsets(offsets, frame, place)
        gather_features(gathered, who, place_begin, first)
        linear(place_weight, place, 0, first, first, True)
        linear(edge_weight, first, 0, edge_begin, second, False)
        _pool(second, width, k, pooled)
        own_features(known, rows, pooled, 2 * width)
        finish(pooled, node_weight, node_begin, next_map, next_begin, tile, count, node, ahead, scalars, mapped)
        tile = take(turns)


@kernel(**FAST)
def _pool(values, width, k, pooled):
    """Compute the maximum and mean of the rectified values over the neighbors."""
    zero, share = np.float32(0.0), np.float32(1.0) / np.float32(k)
    for o in range(width):
        most, mean = pooled[o], pooled[width + o]
        for p in range(TILE):
            most[p], mean[p] = zero, zero
        for j in range(k):
            strip = values[j, o]
            for p in range(TILE):
                value = larger(strip[p], zero)
                most[p] = larger(most[p], value)
                mean[p] += share * value


@kernel(**FAST)
def finish(inputs, weight, begin, next_map, next_begin, tile, count, node, ahead, scalars, mapped):
    """Write a tile's features from its inputs: rectified scalars, and scalars after the next map."""
    start = tile * TILE
    filled = min(TILE, count - start)
    linear(weight, inputs, 0, begin, node, True)
    linear(next_map[0], node, 0, next_begin, ahead, False)
    keep_features(node, filled, scalars, start)
    keep_features(ahead, filled, mapped, start)


_SOFTENED = 0.1  # radii, added to distances: a lead, at distance zero, also uses the others

# --- The decoder: interpolate the features of the coarser level and combine them with those of this level.


@kernel
def interpolation_weights(fine, i, lead, coarse, near, radius, chosen, weights):
    """Write the nearest coarse points of fine point i, among its lead and the lead's neighbors, to `chosen`, and their normalized
    inverse-distance weights to `weights`."""
    count, filled = len(chosen), 0
    for j in range(-1, min(near.shape[1], CANDIDATES)):
        n = lead if j < 0 else near[lead, j]
        d = (coarse[n, 0] - fine[i, 0]) ** 2 + (coarse[n, 1] - fine[i, 1]) ** 2 + (coarse[n, 2] - fine[i, 2]) ** 2
        if filled < count or d < weights[count - 1]:
            p = min(filled, count - 1)
            while p > 0 and weights[p - 1] > d:
                weights[p], chosen[p] = weights[p - 1], chosen[p - 1]
                p -= 1
            weights[p], chosen[p] = d, n
            filled = min(filled + 1, count)
    total = 0.0
    for j in range(count):
        weights[j] = 1.0 / (np.sqrt(weights[j]) + _SOFTENED * radius)
        total += weights[j]
    for j in range(count):
        weights[j] /= total


@kernel(**FAST)
def _choose(start, at, inverse, coarse, near, who, shares, scratch, name):
    """Do the same for a tile of points, of which CELL consecutive ones have the same lead, with distances in radii."""
    distance, nearest, chosen = scratch[0], shares.reshape(-1), who.reshape(-1)
    nearest[:] = np.float32(np.inf)
    for j in range(-1, min(near.shape[1], CANDIDATES)):
        for q in range(0, TILE, CELL):
            lead = min((start + q) // CELL, len(coarse) - 1)
            n = lead if j < 0 else near[lead, j]
            x, y, z = coarse[n, 0], coarse[n, 1], coarse[n, 2]
            for p in range(q, q + CELL):
                u, v, w = x - at[0, p], y - at[1, p], z - at[2, p]
                distance[p] = (u * u + v * v + w * w) * (inverse[p] * inverse[p])  # equal distances stay equal
            for p in range(q, q + CELL):
                name[p] = n
        for p in range(0, TILE, widest_lanes()):  # insert it among the nearest so far
            insert(distance, name, p, nearest, chosen, len(who), TILE)
    total = scratch[1]
    total[:] = np.float32(0.0)
    for r in range(len(who)):
        share = shares[r]
        for p in range(TILE):
            share[p] = np.float32(1.0) / (np.sqrt(share[p]) + np.float32(_SOFTENED))
        for p in range(TILE):
            total[p] += share[p]
    for r in range(len(who)):
        share = shares[r]
        for p in range(TILE):
            share[p] /= total[p]


@kernel(**FAST)
def read_level(points, coarse, near, read, frames, radius, known, gathered, weights, next_map, turns, scalars, mapped):
    """Decode one level.

    `known` are the scalars of this level, `gathered` the mapped scalars of the coarser one. Each point interpolates the `read`
    nearest among the lead of its cell and the lead's neighbors."""
    place_weight, place_bias, node_weight, node_bias = weights
    count, width = len(points), known.shape[1]
    rows, at, frame, inverse = np.empty(TILE, np.int32), np.empty((3, TILE)), rows_of(9), np.empty(TILE)
    offsets, place, hidden = blocks_of(read, 3), blocks_of(read, 3), blocks_of(read, width)
    who, name, shares, scratch = np.empty((read, TILE), np.int32), np.empty(TILE, np.int32), rows_of(read), rows_of(2)
    inputs, node, ahead = rows_of(2 * width), rows_of(len(node_bias)), rows_of(len(next_map[1]))
    place_begin, node_begin, next_begin = bias_tile(place_bias), bias_tile(node_bias), bias_tile(next_map[1])
    tile = take(turns)
    while tile < turns[1]:
        load_points(tile, count, 1, points, frames, radius, rows, at, frame, inverse)
        _choose(tile * TILE, at, inverse, coarse, near, who, shares, scratch, name)
        gather_offsets(coarse, who, at, inverse, offsets)
        draw_near(offsets, scratch[0])
        turn_offsets(offsets, frame, place)
        gather_features(gathered, who, place_begin, hidden)
        linear(place_weight, place, 0, hidden, hidden, True)
        for o in range(width):
            out = inputs[o]
            for p in range(TILE):
                out[p] = np.float32(0.0)
            for j in range(read):
                strip, share = hidden[j, o], shares[j]
                for p in range(TILE):
                    out[p] += share[p] * strip[p]
        own_features(known, rows, inputs, width)
        finish(inputs, node_weight, node_begin, next_map, next_begin, tile, count, node, ahead, scalars, mapped)
        tile = take(turns)
