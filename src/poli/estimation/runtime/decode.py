"""The decoder: interpolate the features of the coarser level and combine them with those of this level."""

import numpy as np

from poli.estimation.interpolation import interpolation_weights
from poli.estimation.runtime.arithmetic import FAST, TILE, bias_tile, linear
from poli.estimation.runtime.encode import finish
from poli.estimation.runtime.gather import (
    draw_near,
    gather_features,
    gather_offsets,
    gather_vectors,
    load_points,
    own_features,
    own_vectors,
    turn_offsets,
)
from poli.kdtree.neighborhoods import CELL
from poli.kernel import kernel


@kernel(**FAST)
def read_level(
    points, coarse, near, read, frames, radius, known, own, gathered, heard_vectors, weights, next_map, begin, end,
    scalars, vectors, mapped,
):  # fmt: skip
    """Decode one level.

    `known` and `own` are the scalars and vectors of this level, `gathered` the mapped scalars of the coarser one and
    `heard_vectors` its vectors. Each point interpolates the `read` nearest among the lead of its cell and the lead's neighbors."""
    place_weight, place_bias, node_weight, node_bias = weights
    count, width, turned = len(points), known.shape[1], 3 * heard_vectors.shape[1]
    rows, at, frame = np.empty(TILE, np.int32), np.empty((3, TILE)), np.empty((9, TILE), np.float32)
    inverse, offsets = np.empty(TILE), np.empty((read, 3, TILE), np.float32)
    place, hidden = np.empty((read, 3 + turned, TILE), np.float32), np.empty((read, width, TILE), np.float32)
    squared = np.empty(TILE, np.float32)
    chosen, who = np.empty(read, np.int32), np.empty((read, TILE), np.int32)
    distances, shares = np.empty(read), np.empty((read, TILE), np.float32)
    inputs = np.empty((2 * width + 3 * own.shape[1], TILE), np.float32)
    node, following = np.empty((len(node_bias), TILE), np.float32), np.empty((len(next_map[1]), TILE), np.float32)
    place_begin, node_begin, next_begin = bias_tile(place_bias), bias_tile(node_bias), bias_tile(next_map[1])
    for tile in range(begin, end):
        load_points(tile, count, 1, points, frames, radius, rows, at, frame, inverse)
        for p in range(TILE):
            i = rows[p]
            interpolation_weights(points, i, i // CELL, coarse, near, radius[i], chosen, distances)
            for j in range(read):
                who[j, p], shares[j, p] = chosen[j], distances[j]
        gather_offsets(coarse, who, at, inverse, offsets)
        draw_near(offsets, squared)
        turn_offsets(offsets, frame, place)
        gather_vectors(heard_vectors, who, frame, place, 3)
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
        own_vectors(own, rows, frame, inputs, 2 * width)
        finish(
            inputs, node_weight, node_begin, next_map[0], next_begin, tile, count, frames, node, following, scalars, vectors, mapped
        )
