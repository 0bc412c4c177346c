"""Triangles in a bounding volume hierarchy: the first surface along a ray, and the nearest surface to a point."""

from __future__ import annotations

import numpy as np

from poli.errors import InputError
from poli.kernel import kernel
from poli.threads import run_chunks

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


class TriangleIndex:
    """An index over triangles. Built once; safe to query from several threads."""

    def __init__(self, triangles: np.ndarray) -> None:  # (F, 3, 3)
        triangles = np.ascontiguousarray(triangles, dtype=np.float32)
        if triangles.ndim != 3 or triangles.shape[1:] != (3, 3) or not len(triangles):
            raise InputError(f"triangles have shape {triangles.shape}; expected (F, 3, 3) with F >= 1")
        if not np.isfinite(triangles).all():
            raise InputError("triangles have a corner that is not finite; drop that triangle")
        lows, highs = triangles.min(axis=1), triangles.max(axis=1)
        self._order = np.arange(len(triangles), dtype=np.int32)
        most = 2 * len(triangles) + 1
        self._boxes = np.empty((most, 6), np.float32)
        # Inner nodes: the left child (the right is the next) and -1. Leaves: the first triangle and their number.
        self._links = np.empty((most, 2), np.int32)
        nodes = build_hierarchy(lows, highs, self._order, self._boxes, self._links)
        self._boxes, self._links = self._boxes[:nodes].copy(), self._links[:nodes].copy()
        self._corners = np.ascontiguousarray(triangles[self._order])  # in the order of the leaves
        self.triangles = triangles
        edges = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]).astype(np.float64)
        self.normals = edges / np.maximum(np.linalg.norm(edges, axis=1), 1e-30)[:, None]  # (F, 3)

    def cast(self, origins: np.ndarray, directions: np.ndarray, max_range: float) -> tuple[np.ndarray, np.ndarray]:  # (M,), (M,)
        """Return the distance along each unit ray to the first triangle, infinite beyond `max_range`, and the triangle's index (-1:
        none)."""
        origins = np.ascontiguousarray(origins, dtype=np.float32)
        directions = np.ascontiguousarray(directions, dtype=np.float32)
        distance, hit = np.empty(len(origins), np.float32), np.empty(len(origins), np.int32)
        tree = (self._boxes, self._links, self._corners, self._order)
        run_chunks(lambda b, e: _cast(*tree, origins, directions, max_range, b, e, distance, hit), len(origins))
        return distance, hit

    def nearest(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (M, 3) -> (M,), (M,)
        """Return the distance to the nearest surface and the triangle's index."""
        points = np.ascontiguousarray(points, dtype=np.float64)
        distance, which = np.empty(len(points)), np.empty(len(points), np.int32)
        tree = (self._boxes, self._links, self._corners, self._order)
        run_chunks(lambda b, e: _closest(*tree, points, b, e, distance, which), len(points))
        return distance, which


@kernel(inline="always")
def _enter(boxes, node, ox, oy, oz, ix, iy, iz, limit):
    """Distance at which a ray enters a box, or infinity if it does not before `limit`."""
    x1, x2 = (boxes[node, 0] - ox) * ix, (boxes[node, 3] - ox) * ix
    y1, y2 = (boxes[node, 1] - oy) * iy, (boxes[node, 4] - oy) * iy
    z1, z2 = (boxes[node, 2] - oz) * iz, (boxes[node, 5] - oz) * iz
    near = max(max(min(x1, x2), min(y1, y2)), max(min(z1, z2), np.float32(0.0)))
    far = min(min(max(x1, x2), max(y1, y2)), min(max(z1, z2), limit))
    return near if near <= far * np.float32(1.000001) else np.float32(np.inf)


@kernel
def _cast(boxes, links, corners, order, origins, directions, max_range, begin, end, distance, hit):
    waiting, waiting_distance = np.empty(STACK, np.int32), np.empty(STACK, np.float32)
    tiny = np.float32(1e-12)
    for r in range(begin, end):
        ox, oy, oz = origins[r, 0], origins[r, 1], origins[r, 2]
        dx, dy, dz = directions[r, 0], directions[r, 1], directions[r, 2]
        one = np.float32(1.0)
        ix = one / (dx if abs(dx) > tiny else tiny)
        iy = one / (dy if abs(dy) > tiny else tiny)
        iz = one / (dz if abs(dz) > tiny else tiny)
        best, found = np.float32(max_range), -1
        waiting[0], waiting_distance[0], top = 0, np.float32(0.0), 1
        while top > 0:
            top -= 1
            node = waiting[top]
            if waiting_distance[top] > best:
                continue
            while links[node, 1] < 0:
                left = links[node, 0]
                near = _enter(boxes, left, ox, oy, oz, ix, iy, iz, best)
                far = _enter(boxes, left + 1, ox, oy, oz, ix, iy, iz, best)
                node, other = left, left + 1
                if far < near:
                    near, far = far, near
                    node, other = other, node
                if far < np.inf:
                    waiting[top], waiting_distance[top] = other, far
                    top += 1
                if near == np.inf:
                    node = -1
                    break
            if node < 0:
                continue
            first = links[node, 0]
            for s in range(first, first + links[node, 1]):
                ax, ay, az = corners[s, 0, 0], corners[s, 0, 1], corners[s, 0, 2]
                ux, uy, uz = corners[s, 1, 0] - ax, corners[s, 1, 1] - ay, corners[s, 1, 2] - az
                vx, vy, vz = corners[s, 2, 0] - ax, corners[s, 2, 1] - ay, corners[s, 2, 2] - az
                px, py, pz = dy * vz - dz * vy, dz * vx - dx * vz, dx * vy - dy * vx
                determinant = ux * px + uy * py + uz * pz
                if abs(determinant) < tiny:
                    continue
                inverse = one / determinant
                tx, ty, tz = ox - ax, oy - ay, oz - az
                u = (tx * px + ty * py + tz * pz) * inverse
                if u < 0.0 or u > 1.0:
                    continue
                qx, qy, qz = ty * uz - tz * uy, tz * ux - tx * uz, tx * uy - ty * ux
                v = (dx * qx + dy * qy + dz * qz) * inverse
                if v < 0.0 or u + v > 1.0:
                    continue
                t = (vx * qx + vy * qy + vz * qz) * inverse
                if 0.0 < t < best:
                    best, found = t, s
        distance[r] = best if found >= 0 else np.inf
        hit[r] = order[found] if found >= 0 else -1


@kernel(inline="always")
def _box_distance(boxes, node, x, y, z):
    dx = max(max(boxes[node, 0] - x, x - boxes[node, 3]), 0.0)
    dy = max(max(boxes[node, 1] - y, y - boxes[node, 4]), 0.0)
    dz = max(max(boxes[node, 2] - z, z - boxes[node, 5]), 0.0)
    return dx * dx + dy * dy + dz * dz


@kernel
def _closest(boxes, links, corners, order, points, begin, end, distance, which):
    waiting, waiting_distance = np.empty(STACK, np.int32), np.empty(STACK)
    for r in range(begin, end):
        x, y, z = points[r, 0], points[r, 1], points[r, 2]
        best, found = np.inf, 0
        waiting[0], waiting_distance[0], top = 0, 0.0, 1
        while top > 0:
            top -= 1
            node = waiting[top]
            if waiting_distance[top] >= best:
                continue
            while links[node, 1] < 0:
                left = links[node, 0]
                near = _box_distance(boxes, left, x, y, z)
                far = _box_distance(boxes, left + 1, x, y, z)
                node, other = left, left + 1
                if far < near:
                    near, far = far, near
                    node, other = other, node
                if far < best:
                    waiting[top], waiting_distance[top] = other, far
                    top += 1
                if near >= best:
                    node = -1
                    break
            if node < 0:
                continue
            first = links[node, 0]
            for s in range(first, first + links[node, 1]):
                squared = _to_triangle(corners[s], x, y, z)
                if squared < best:
                    best, found = squared, s
        distance[r] = np.sqrt(best)
        which[r] = order[found]


@kernel
def _to_triangle(corners, x, y, z):
    """Squared distance from a point to a triangle, by the region of the plane that contains the projection."""
    ax, ay, az = corners[0, 0] - x, corners[0, 1] - y, corners[0, 2] - z
    ux, uy, uz = float(corners[1, 0] - corners[0, 0]), float(corners[1, 1] - corners[0, 1]), float(corners[1, 2] - corners[0, 2])
    vx, vy, vz = float(corners[2, 0] - corners[0, 0]), float(corners[2, 1] - corners[0, 1]), float(corners[2, 2] - corners[0, 2])
    uu, uv, vv = ux * ux + uy * uy + uz * uz, ux * vx + uy * vy + uz * vz, vx * vx + vy * vy + vz * vz
    ua, va = ux * ax + uy * ay + uz * az, vx * ax + vy * ay + vz * az
    determinant = max(uu * vv - uv * uv, 0.0)
    s, t = uv * va - vv * ua, uv * ua - uu * va
    if s >= 0.0 and t >= 0.0 and s + t <= determinant and determinant > 0.0:
        s, t = s / determinant, t / determinant
    else:  # the nearest of the three edges
        s1, t1 = min(max(-ua / max(uu, 1e-30), 0.0), 1.0), 0.0
        s2, t2 = 0.0, min(max(-va / max(vv, 1e-30), 0.0), 1.0)
        ww = max(uu - 2.0 * uv + vv, 1e-30)
        w = min(max((uu - uv + ua - va) / ww, 0.0), 1.0)
        s3, t3 = 1.0 - w, w
        s, t = s1, t1
        d = uu * s * s + 2.0 * uv * s * t + vv * t * t + 2.0 * (ua * s + va * t)
        d2 = vv * t2 * t2 + 2.0 * va * t2
        if d2 < d:
            s, t, d = s2, t2, d2
        d3 = uu * s3 * s3 + 2.0 * uv * s3 * t3 + vv * t3 * t3 + 2.0 * (ua * s3 + va * t3)
        if d3 < d:
            s, t = s3, t3
    dx, dy, dz = ax + s * ux + t * vx, ay + s * uy + t * vy, az + s * uz + t * vz
    return dx * dx + dy * dy + dz * dz
