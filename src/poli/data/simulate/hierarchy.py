"""A bounding volume hierarchy over boxes, built with the surface area heuristic."""

from __future__ import annotations

import numpy as np

from poli.kernel import kernel

LEAF = 4  # boxes per leaf
_BINS = 12  # candidate splits per axis
STACK = 96


@kernel
def build_hierarchy(lows, highs, order, boxes, links):
    """Build the tree with the binned surface area heuristic and return the number of nodes. Siblings are stored next to each
    other."""
    begins, ends, nodes = np.empty(STACK, np.int32), np.empty(STACK, np.int32), np.empty(STACK, np.int32)
    counts = np.empty(_BINS, np.int64)
    bin_boxes = np.empty((_BINS, 6), np.float32)
    right_cost = np.empty(_BINS)
    begins[0], ends[0], nodes[0] = 0, len(order), 0
    top, used = 1, 1
    box, middle = np.empty(6, np.float32), np.empty(6, np.float32)
    while top > 0:
        top -= 1
        begin, end, node = begins[top], ends[top], nodes[top]
        _empty(box)
        _empty(middle)
        for s in range(begin, end):
            f = order[s]
            for a in range(3):
                box[a], box[3 + a] = min(box[a], lows[f, a]), max(box[3 + a], highs[f, a])
                center = 0.5 * (lows[f, a] + highs[f, a])
                middle[a], middle[3 + a] = min(middle[a], center), max(middle[3 + a], center)
        boxes[node] = box
        size = end - begin
        best, best_axis, best_bin = np.inf, -1, 0
        if size > LEAF:
            for a in range(3):
                width = middle[3 + a] - middle[a]
                if width <= 0.0:
                    continue
                scale = _BINS / width
                counts[:] = 0
                for b in range(_BINS):
                    _empty(bin_boxes[b])
                for s in range(begin, end):
                    f = order[s]
                    b = min(int((0.5 * (lows[f, a] + highs[f, a]) - middle[a]) * scale), _BINS - 1)
                    counts[b] += 1
                    for c in range(3):
                        bin_boxes[b, c] = min(bin_boxes[b, c], lows[f, c])
                        bin_boxes[b, 3 + c] = max(bin_boxes[b, 3 + c], highs[f, c])
                _empty(box)
                number = 0
                for b in range(_BINS - 1, 0, -1):
                    _join(box, bin_boxes[b])
                    number += counts[b]
                    right_cost[b] = number * _half_area(box) if number > 0 else 0.0
                _empty(box)
                number = 0
                for b in range(_BINS - 1):
                    _join(box, bin_boxes[b])
                    number += counts[b]
                    if number == 0 or number == size:
                        continue
                    cost = number * _half_area(box) + right_cost[b + 1]
                    if cost < best:
                        best, best_axis, best_bin = cost, a, b
        if (best_axis < 0 and size <= 4 * LEAF) or top + 2 > STACK:
            links[node, 0], links[node, 1] = begin, size
            continue
        if best_axis < 0:  # all centers coincide: split in halves
            mid = (begin + end) >> 1
        else:
            scale = _BINS / (middle[3 + best_axis] - middle[best_axis])
            mid, last = begin, end - 1
            while mid <= last:
                f = order[mid]
                b = min(int((0.5 * (lows[f, best_axis] + highs[f, best_axis]) - middle[best_axis]) * scale), _BINS - 1)
                if b <= best_bin:
                    mid += 1
                else:
                    order[mid], order[last] = order[last], order[mid]
                    last -= 1
        links[node, 0], links[node, 1] = used, -1
        begins[top], ends[top], nodes[top] = begin, mid, used
        begins[top + 1], ends[top + 1], nodes[top + 1] = mid, end, used + 1
        top += 2
        used += 2
    return used


@kernel(inline="always")
def _empty(box):
    for a in range(3):
        box[a], box[3 + a] = np.inf, -np.inf


@kernel(inline="always")
def _join(box, other):
    for a in range(3):
        box[a], box[3 + a] = min(box[a], other[a]), max(box[3 + a], other[3 + a])


@kernel(inline="always")
def _half_area(box):
    x, y, z = box[3] - box[0], box[4] - box[1], box[5] - box[2]
    return x * y + y * z + z * x
