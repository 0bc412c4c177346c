"""Compiled code of `gicp`, which has the formulas."""

import numpy as np

from poli.ellipsoids.symmetric3 import thinnest
from poli.kdtree.tree import STACK, box_distance
from poli.kernel import kernel
from poli.lidar_odometry.deskewing import moved

SHAPE = 7  # numbers: the upper triangle of a covariance and a weight, side by side, so that a match costs one access to memory
WEIGHT = 6  # column
BLOCK = 256  # points per partial sum; fixed, so that the result does not depend on the number of threads
# Sums: 21 distinct entries of H, 6 of g, then the cost, the weight and the number of matches.
GRADIENT, COST, TOTAL, MATCHED, SUMS = 21, 27, 28, 29, 30
_MARGIN = 1.0 + 1e-9  # of bounds of distances, for rounding


@kernel
def weigh(covariances, rows, raw, thickness2, trust2, begin, end, shapes, normals, flatness):
    """Planes I - (1 - thickness^2) n n', or covariances plus thickness^2; weights; and how well each normal is determined."""
    for k in range(begin, end):
        i = rows[k]
        C, shape = covariances[i], shapes[i]
        thin, middle, x, y, z = thinnest(C[0, 0], C[0, 1], C[0, 2], C[1, 1], C[1, 2], C[2, 2])
        thin = max(thin, 0.0)
        normals[i, 0], normals[i, 1], normals[i, 2] = x, y, z
        flatness[i] = 1.0 - thin / max(middle, 1e-12)
        if raw:
            shape[0], shape[3], shape[5] = C[0, 0] + thickness2, C[1, 1] + thickness2, C[2, 2] + thickness2
            shape[1], shape[2], shape[4], shape[6] = C[0, 1], C[0, 2], C[1, 2], 1.0
        else:
            s = 1.0 - thickness2
            shape[0], shape[3], shape[5] = 1.0 - s * x * x, 1.0 - s * y * y, 1.0 - s * z * z
            shape[1], shape[2], shape[4], shape[6] = -s * x * y, -s * x * z, -s * y * z, trust2 / (trust2 + thin)


@kernel(inline="always")
def _two_nearest(tree, x, y, z, known, first, second, waiting, waiting_distance):
    """Return the slot of the nearest point, its squared distance, and that of the second nearest. `first` and `second` are upper
    bounds of them: `first` is the distance of the slot `known`, or equal to `second` if that is -1. Points that are not nearer
    than the bounds are not found."""
    children, spans, boxes, xyz = tree.children, tree.spans, tree.boxes, tree.xyz
    waiting[0], waiting_distance[0], top = 0, 0.0, 1
    best = known
    while top > 0:
        top -= 1
        if waiting_distance[top] >= second:
            continue
        node = waiting[top]
        child = children[node]
        while child >= 0:
            left, right = box_distance(boxes, child, x, y, z), box_distance(boxes, child + 1, x, y, z)
            if left <= right:
                node, near, other, far = child, left, child + 1, right
            else:
                node, near, other, far = child + 1, right, child, left
            if near >= second:
                node = -1
                break
            if far < second:
                waiting[top], waiting_distance[top] = other, far
                top += 1
            child = children[node]
        if node < 0:
            continue
        for j in range(spans[node, 0], spans[node, 1]):
            squared = (xyz[0, j] - x) ** 2 + (xyz[1, j] - y) ** 2 + (xyz[2, j] - z) ** 2
            if squared < second and j != best:
                if squared < first:
                    best, first, second = j, squared, first
                else:
                    second = squared
    return best, first, second


@kernel
def linearize(tree, target, points, times, source, follow, T, motion, gate2, scale2, same, match, near, searched, begin, end, sums):
    """Match the points and add up `gicp.normal_equations`, block by block, in one pass and without matrices.

    A point is matched again only if it has moved so far that another target point may be the nearest: if the second nearest is
    farther than the nearest by 2 s, the nearest stays the same within s. The distances at the last search also bound those of the
    next one, which makes it faster."""
    waiting, waiting_distance = np.empty(STACK, np.int32), np.empty(STACK)
    swept = len(times) > 0
    R00, R01, R02, R10, R11, R12, R20, R21, R22 = T[0, 0], T[0, 1], T[0, 2], T[1, 0], T[1, 1], T[1, 2], T[2, 0], T[2, 1], T[2, 2]
    for block in range(begin, end):
        out = sums[block]
        for i in range(block * BLOCK, min(len(points), (block + 1) * BLOCK)):
            px, py, pz, follows = points[i, 0], points[i, 1], points[i, 2], 1.0
            if swept:
                px, py, pz = moved(px, py, pz, times[i], motion)
                follows = follow[i]
            x = R00 * px + R01 * py + R02 * pz + T[0, 3]
            y = R10 * px + R11 * py + R12 * pz + T[1, 3]
            z = R20 * px + R21 * py + R22 * pz + T[2, 3]
            q, last = near[i], searched[i]
            shift = np.sqrt((x - last[0]) ** 2 + (y - last[1]) ** 2 + (z - last[2]) ** 2)
            if last[3] < 0.0 or shift > max(same, 0.5 * (last[4] - last[3])):
                first, second, slot = gate2, gate2, np.int64(-1)
                if match[i] >= 0:
                    first = (q[0] - x) ** 2 + (q[1] - y) ** 2 + (q[2] - z) ** 2
                    if first < gate2:
                        second, slot = min(gate2, ((last[4] + shift) * _MARGIN) ** 2), np.int64(match[i])
                    else:
                        first = gate2
                slot, first, second = _two_nearest(tree, x, y, z, slot, first, second, waiting, waiting_distance)
                if slot >= 0 and slot != match[i]:
                    q[0], q[1], q[2] = tree.xyz[0, slot], tree.xyz[1, slot], tree.xyz[2, slot]
                    for a in range(SHAPE):
                        q[3 + a] = target[tree.rows[slot], a]
                match[i] = slot
                last[0], last[1], last[2], last[3], last[4] = x, y, z, np.sqrt(first), np.sqrt(second)
            if match[i] < 0:
                continue
            # W, the inverse of C_p + R' C_q R.
            c00, c01, c02, c11, c12, c22 = q[3], q[4], q[5], q[6], q[7], q[8]
            a00, a01, a02 = c00 * R00 + c01 * R10 + c02 * R20, c00 * R01 + c01 * R11 + c02 * R21, c00 * R02 + c01 * R12 + c02 * R22
            a10, a11, a12 = c01 * R00 + c11 * R10 + c12 * R20, c01 * R01 + c11 * R11 + c12 * R21, c01 * R02 + c11 * R12 + c12 * R22
            a20, a21, a22 = c02 * R00 + c12 * R10 + c22 * R20, c02 * R01 + c12 * R11 + c22 * R21, c02 * R02 + c12 * R12 + c22 * R22
            s00 = source[i, 0] + R00 * a00 + R10 * a10 + R20 * a20
            s01 = source[i, 1] + R00 * a01 + R10 * a11 + R20 * a21
            s02 = source[i, 2] + R00 * a02 + R10 * a12 + R20 * a22
            s11 = source[i, 3] + R01 * a01 + R11 * a11 + R21 * a21
            s12 = source[i, 4] + R01 * a02 + R11 * a12 + R21 * a22
            s22 = source[i, 5] + R02 * a02 + R12 * a12 + R22 * a22
            w00, w01, w02 = s11 * s22 - s12 * s12, s02 * s12 - s01 * s22, s01 * s12 - s02 * s11
            inverse = 1.0 / (s00 * w00 + s01 * w01 + s02 * w02)
            w11, w12, w22 = (s00 * s22 - s02 * s02) * inverse, (s01 * s02 - s00 * s12) * inverse, (s00 * s11 - s01 * s01) * inverse
            w00, w01, w02 = w00 * inverse, w01 * inverse, w02 * inverse
            # The residual d = R'(q - t) - p, and W d.
            ox, oy, oz = q[0] - x, q[1] - y, q[2] - z
            dx, dy, dz = R00 * ox + R10 * oy + R20 * oz, R01 * ox + R11 * oy + R21 * oz, R02 * ox + R12 * oy + R22 * oz
            gx, gy, gz = w00 * dx + w01 * dy + w02 * dz, w01 * dx + w11 * dy + w12 * dz, w02 * dx + w12 * dy + w22 * dz
            squared = dx * gx + dy * gy + dz * gz
            both = source[i, 6] * q[9]
            g = follows * both / (1.0 + squared / scale2)  # of the gradient
            h = follows * g  # of the Hessian
            w00, w01, w02, w11, w12, w22 = h * w00, h * w01, h * w02, h * w11, h * w12, h * w22
            # A = W hat(p). The blocks of J'WJ are hat(p)'A, -A' and W.
            a00, a01, a02 = w01 * pz - w02 * py, w02 * px - w00 * pz, w00 * py - w01 * px
            a10, a11, a12 = w11 * pz - w12 * py, w12 * px - w01 * pz, w01 * py - w11 * px
            a20, a21, a22 = w12 * pz - w22 * py, w22 * px - w02 * pz, w02 * py - w12 * px
            out[0] += pz * a10 - py * a20
            out[1] += pz * a11 - py * a21
            out[2] += pz * a12 - py * a22
            out[3] -= a00
            out[4] -= a10
            out[5] -= a20
            out[6] += px * a21 - pz * a01
            out[7] += px * a22 - pz * a02
            out[8] -= a01
            out[9] -= a11
            out[10] -= a21
            out[11] += py * a02 - px * a12
            out[12] -= a02
            out[13] -= a12
            out[14] -= a22
            out[15] += w00
            out[16] += w01
            out[17] += w02
            out[18] += w11
            out[19] += w12
            out[20] += w22
            out[21] += g * (pz * gy - py * gz)
            out[22] += g * (px * gz - pz * gx)
            out[23] += g * (py * gx - px * gy)
            out[24] -= g * gx
            out[25] -= g * gy
            out[26] -= g * gz
            out[COST] += both * scale2 * np.log(1.0 + squared / scale2)
            out[TOTAL] += both
            out[MATCHED] += 1.0


@kernel
def solve(H, g, damping):  # (k, k), (k,) -> (k,)
    """Solve H x = -g with a damped diagonal, by Cholesky's method."""
    k = len(g)
    L, x = np.empty((k, k)), np.empty(k)
    trace = 0.0
    for a in range(k):
        trace += H[a, a]
    for a in range(k):
        for b in range(a + 1):
            total = H[a, b] + (damping * H[a, a] + 1e-12 * trace + 1e-300 if a == b else 0.0)
            for c in range(b):
                total -= L[a, c] * L[b, c]
            L[a, b] = np.sqrt(max(total, 1e-300)) if a == b else total / L[b, b]
    for a in range(k):
        total = -g[a]
        for c in range(a):
            total -= L[a, c] * x[c]
        x[a] = total / L[a, a]
    for a in range(k - 1, -1, -1):
        total = x[a]
        for c in range(a + 1, k):
            total -= L[c, a] * x[c]
        x[a] = total / L[a, a]
    return x


@kernel
def match_surfaces(points, shapes, flatness, rows, near, normals, flatness_there, hits, T, scale, across, weights, sure, turned):
    """Of each match: the distance across the target's surface, the weight with the robust kernel and with the flatness of both
    surfaces, and the target's normal in the frame of the source."""
    for k in range(len(rows)):
        i, hit = rows[k], hits[k]
        p, q, n = points[i], near[i], normals[hit]
        distance = 0.0
        for a in range(3):
            distance += n[a] * (q[a] - T[a, 0] * p[0] - T[a, 1] * p[1] - T[a, 2] * p[2] - T[a, 3])
            turned[k, a] = T[0, a] * n[0] + T[1, a] * n[1] + T[2, a] * n[2]
        across[k] = abs(distance)
        weights[k] = shapes[i, WEIGHT] * q[3 + WEIGHT] / (1.0 + (distance / scale) ** 2)
        sure[k] = weights[k] * flatness[i] * flatness_there[hit]
