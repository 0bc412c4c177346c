"""A k-d tree to which points can be added, and whose points may move a little.

Building a tree over the map of a drive takes longer than aligning a scan to it, and from scan to scan only a part of the map
changes. Leaves therefore have room: a new point is appended to the leaf on its side of all splitting planes, and a full leaf is
halved. Boxes grow with their points. Searches are exact whatever the shape of the tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from poli.kdtree.build import LEAF
from poli.kdtree.tree import STACK, KDTree, box_distance
from poli.kernel import kernel

ROOM = LEAF  # points per leaf at most
_HALF = ROOM // 2
_DEEPEST = STACK - 8  # levels; a deeper tree is rebuilt


class TreeArrays(NamedTuple):
    """A tree for kernels. Node 0 is the root."""

    children: np.ndarray  # (nodes,) int32: the left child, followed by the right one; -1: a leaf
    spans: np.ndarray  # (nodes, 2) int32: first slot of a leaf, and the one after its last point
    boxes: np.ndarray  # (nodes, 6)
    xyz: np.ndarray  # (3, slots)
    rows: np.ndarray  # (slots,) int32: which point is in a slot


class GrowingTree:
    """The tree. Its arrays may be longer than what is used."""

    _count: int

    def __init__(self, points: np.ndarray) -> None:  # (N, 3)
        self._build(points)

    def __len__(self) -> int:
        return self._count

    @property
    def arrays(self) -> TreeArrays:
        """The tree for kernels."""
        return TreeArrays(self._children, self._spans, self._boxes, self._xyz, self._rows)

    def update(self, points: np.ndarray, changed: np.ndarray) -> None:  # (N, 3), (k,)
        """Take the new positions of the points in the rows `changed`, which contain all rows that the tree does not have yet."""
        self._reserve(len(points))
        depth = _update(
            *self.arrays, self._parents, self._planes, self._owners, self._slots, self._used, self._count, points, changed
        )
        self._count = len(points)
        if depth > _DEEPEST:
            self._build(points)

    def _build(self, points: np.ndarray) -> None:
        tree = KDTree(points)
        ranges, boxes, xyz, depth = tree.tree
        nodes, leaves, first = len(ranges), 1 << depth, (1 << depth) - 1
        self._children, self._spans = np.empty(nodes, np.int32), np.zeros((nodes, 2), np.int32)
        self._parents = np.empty(nodes, np.int32)  # -1: the root
        self._planes, self._boxes = np.zeros((nodes, 2)), boxes  # axis that a node is split along, and where
        self._xyz, self._rows = np.empty((3, ROOM * leaves)), np.empty(ROOM * leaves, np.int32)
        self._owners = np.empty(leaves, np.int32)  # node of each block of ROOM slots
        self._slots = np.empty(len(points), np.int32)  # slot of each point
        self._used = np.array([nodes, leaves])
        self._count = len(points)
        self._built = nodes, leaves, len(points)
        _spread(ranges, xyz, tree.leaf_order, first, *self.arrays, self._parents, self._planes, self._owners, self._slots)

    def _reserve(self, points: int) -> None:
        """Make room for so many points. A leaf of the built tree is halved when it gets one more, its halves after _HALF more."""
        nodes, leaves, built = self._built
        halved = min(points - built, leaves + (points - built) // _HALF + 1)
        if points > len(self._slots):
            self._slots = _longer(self._slots, points)
        if leaves + halved > len(self._owners):
            self._owners = _longer(self._owners, leaves + halved)
            longest = nodes + 2 * (len(self._owners) - leaves), ROOM * len(self._owners)
            self._children, self._parents, self._planes, self._spans, self._boxes = (
                _longer(a, longest[0], 1.0) for a in (self._children, self._parents, self._planes, self._spans, self._boxes)
            )
            self._rows, old = _longer(self._rows, longest[1], 1.0), self._xyz
            self._xyz = np.empty((3, longest[1]))
            self._xyz[:, : old.shape[1]] = old


def _longer(array: np.ndarray, length: int, spare: float = 1.5) -> np.ndarray:
    grown = np.empty((int(spare * length), *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


@kernel
def _spread(ranges, old, order, first_leaf, children, spans, boxes, xyz, rows, parents, planes, owners, slots):
    """Copy the leaves of a balanced tree into ones with room."""
    parents[0] = -1
    for node in range(len(children)):
        if node < first_leaf:
            children[node] = 2 * node + 1
            parents[2 * node + 1], parents[2 * node + 2] = node, node
            _set_plane(node, 2 * node + 1, boxes, planes)
            continue
        leaf = node - first_leaf
        slot = leaf * ROOM
        children[node], owners[leaf], spans[node, 0] = -1, node, slot
        for j in range(ranges[node, 0], ranges[node, 1]):
            xyz[0, slot], xyz[1, slot], xyz[2, slot] = old[0, j], old[1, j], old[2, j]
            rows[slot], slots[order[j]] = order[j], slot
            slot += 1
        spans[node, 1] = slot


@kernel
def _update(children, spans, boxes, xyz, rows, parents, planes, owners, slots, used, count, points, changed):
    """Move and add points. `used` are the numbers of nodes and of leaves. Returns the depth reached."""
    deepest = 0
    for i in range(len(changed)):
        row = changed[i]
        x, y, z = points[row, 0], points[row, 1], points[row, 2]
        if row < count:
            slot = slots[row]
            node = owners[slot // ROOM]
        else:
            node, depth = 0, 0
            while children[node] >= 0:
                node = children[node] + _side(planes[node], x, y, z)
                depth += 1
            deepest = max(deepest, depth)
            if spans[node, 1] - spans[node, 0] == ROOM:
                _halve(node, children, spans, boxes, xyz, rows, parents, planes, owners, slots, used)
                node = children[node] + _side(planes[node], x, y, z)
            slot = spans[node, 1]
            spans[node, 1] += 1
            rows[slot], slots[row] = row, slot
        xyz[0, slot], xyz[1, slot], xyz[2, slot] = x, y, z
        while node >= 0 and box_distance(boxes, node, x, y, z) > 0.0:
            boxes[node, 0], boxes[node, 3] = min(boxes[node, 0], x), max(boxes[node, 3], x)
            boxes[node, 1], boxes[node, 4] = min(boxes[node, 1], y), max(boxes[node, 4], y)
            boxes[node, 2], boxes[node, 5] = min(boxes[node, 2], z), max(boxes[node, 5], z)
            node = parents[node]
    return deepest


@kernel(inline="always")
def _longest(box):
    axis = 0
    for a in range(1, 3):
        if box[3 + a] - box[a] > box[3 + axis] - box[axis]:
            axis = a
    return axis


@kernel(inline="always")
def _set_plane(node, left, boxes, planes):
    """Split between the boxes of the children; without a right one, everything is left."""
    axis = _longest(boxes[node])
    planes[node, 0], planes[node, 1] = axis, 0.5 * (boxes[left, 3 + axis] + boxes[left + 1, axis])


@kernel(inline="always")
def _side(plane, x, y, z):
    """Return 0 left of the plane, and 1 right of it."""
    value = x if plane[0] == 0.0 else y if plane[0] == 1.0 else z
    return np.int32(0) if value <= plane[1] else np.int32(1)


@kernel
def _halve(node, children, spans, boxes, xyz, rows, parents, planes, owners, slots, used):
    """Split a full leaf at the median of its longest axis. The left half stays in its slots, the right half moves to new ones."""
    start, axis = spans[node, 0], _longest(boxes[node])
    order = np.argsort(xyz[axis, start : start + ROOM], kind="mergesort")
    kept, kept_rows = xyz[:, start : start + ROOM].copy(), rows[start : start + ROOM].copy()
    left, leaf = np.int32(used[0]), used[1]
    used[0] += 2
    used[1] += 1
    children[node] = left
    for side in range(2):
        child = left + side
        slot = start if side == 0 else leaf * ROOM
        children[child], parents[child], owners[slot // ROOM], spans[child, 0] = -1, node, child, slot
        for a in range(3):
            boxes[child, a], boxes[child, 3 + a] = np.inf, -np.inf
        for j in order[side * _HALF : (side + 1) * _HALF]:
            for a in range(3):
                xyz[a, slot] = kept[a, j]
                boxes[child, a], boxes[child, 3 + a] = min(boxes[child, a], kept[a, j]), max(boxes[child, 3 + a], kept[a, j])
            rows[slot], slots[kept_rows[j]] = kept_rows[j], slot
            slot += 1
        spans[child, 1] = slot
    _set_plane(node, left, boxes, planes)
