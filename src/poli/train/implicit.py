"""Derivatives of the pose by its data, by the implicit function theorem.

At the optimum the gradient of half the cost by the pose vanishes: F = sum J' W d + (prior) = 0 with d = q - (R p + t) and
J = R [hat(p), -I] for a right perturbation. Therefore A dT = -dF with the exact 6x6 Hessian A. For a loss with gradient g by the
pose, u = -A^-1 g, and the loss's gradient by any input is that of u' F with the pose held fixed. This equals the KKT system of
supplement SB (the oracle in the tests) at a fraction of its size and without its poor conditioning.
"""

import numpy as np

from poli.certify.quadratic import Frame
from poli.certify.small import eigh, matvec
from poli.kernel import kernel, over_range
from poli.threads import run_chunks


def adjoint(T: np.ndarray, frame: Frame, hessian: np.ndarray, grad_pose: np.ndarray) -> np.ndarray:  # (4, 4) ... -> (6,)
    """Return u = -A^-1 g in the centered frame, where A is well conditioned, for the loss's gradient by the entries of T."""
    return _adjoint(T, frame.source, frame.size, hessian, np.ascontiguousarray(grad_pose))


def match_gradients(
    source: np.ndarray,  # (N, 3)
    target: np.ndarray,  # (N, 3)
    weights: np.ndarray,  # (N, 3, 3)
    T: np.ndarray,  # (4, 4)
    frame: Frame,
    u: np.ndarray,  # (6,) in the centered frame
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (N, 3), (N, 3), (N, 3, 3)
    """Return the gradients of u' F by p, q and W. The last is symmetric: the cost depends only on the symmetric part of W."""
    grads = np.empty(source.shape), np.empty(source.shape), np.empty(weights.shape)
    R = np.ascontiguousarray(T[:3, :3])
    moved_center = T[:3, 3] + R @ frame.source
    args = (source, target, weights, R, frame.source, moved_center, u[:3].copy(), u[3:] * frame.size)
    run_chunks(over_range(_gradients, *args, *grads), len(source), smallest=2048)
    return grads


@kernel
def _adjoint(T, center, size, hessian, grad_pose):
    # A centered perturbation (w, v) moves T by dR = R hat(w) and dt = size R v - dR center.
    by_R, pull, g = np.empty((3, 3)), np.zeros((3, 3)), np.zeros(6)
    for i in range(3):
        for j in range(3):
            by_R[i, j] = grad_pose[i, j] - grad_pose[i, 3] * center[j]
            g[3 + j] += size * T[i, j] * grad_pose[i, 3]
    for i in range(3):
        for j in range(3):
            for k in range(3):
                pull[i, j] += T[k, i] * by_R[k, j]
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        g[i] = pull[k, j] - pull[j, k]
    # Rotation and translation have different units: solve with a unit diagonal.
    scale, scaled = np.empty(6), np.empty((6, 6))
    for i in range(6):
        scale[i] = np.sqrt(hessian[i, i])
    for i in range(6):
        g[i] /= scale[i]
        for j in range(6):
            scaled[i, j] = hessian[i, j] / (scale[i] * scale[j])
    values, vectors = eigh(scaled)
    u = matvec(vectors.T, g)
    for i in range(6):
        u[i] /= -values[i]
    return matvec(vectors, u) / scale


@kernel
def _gradients(source, target, weights, R, center, moved_center, turn, shift, begin, end, by_p, by_q, by_W):
    r00, r01, r02, r10, r11, r12 = R[0, 0], R[0, 1], R[0, 2], R[1, 0], R[1, 1], R[1, 2]
    r20, r21, r22 = R[2, 0], R[2, 1], R[2, 2]
    tx, ty, tz = turn[0], turn[1], turn[2]
    for i in range(begin, end):
        px, py, pz = source[i, 0] - center[0], source[i, 1] - center[1], source[i, 2] - center[2]
        dx = target[i, 0] - moved_center[0] - (r00 * px + r01 * py + r02 * pz)
        dy = target[i, 1] - moved_center[1] - (r10 * px + r11 * py + r12 * pz)
        dz = target[i, 2] - moved_center[2] - (r20 * px + r21 * py + r22 * pz)
        # j = J u = -R (turn x p + shift)
        x, y, z = ty * pz - tz * py + shift[0], tz * px - tx * pz + shift[1], tx * py - ty * px + shift[2]
        jx, jy, jz = -(r00 * x + r01 * y + r02 * z), -(r10 * x + r11 * y + r12 * z), -(r20 * x + r21 * y + r22 * z)
        by_W[i, 0, 0], by_W[i, 1, 1], by_W[i, 2, 2] = jx * dx, jy * dy, jz * dz
        by_W[i, 0, 1] = by_W[i, 1, 0] = 0.5 * (jx * dy + jy * dx)
        by_W[i, 0, 2] = by_W[i, 2, 0] = 0.5 * (jx * dz + jz * dx)
        by_W[i, 1, 2] = by_W[i, 2, 1] = 0.5 * (jy * dz + jz * dy)
        xx, yy, zz = weights[i, 0, 0], weights[i, 1, 1], weights[i, 2, 2]
        xy = 0.5 * (weights[i, 0, 1] + weights[i, 1, 0])
        xz = 0.5 * (weights[i, 0, 2] + weights[i, 2, 0])
        yz = 0.5 * (weights[i, 1, 2] + weights[i, 2, 1])
        qx, qy, qz = xx * jx + xy * jy + xz * jz, xy * jx + yy * jy + yz * jz, xz * jx + yz * jy + zz * jz  # W j
        by_q[i, 0], by_q[i, 1], by_q[i, 2] = qx, qy, qz
        wx, wy, wz = xx * dx + xy * dy + xz * dz, xy * dx + yy * dy + yz * dz, xz * dx + yz * dy + zz * dz  # W d
        # turn x (R' W d) - R' W j
        x, y, z = r00 * wx + r10 * wy + r20 * wz, r01 * wx + r11 * wy + r21 * wz, r02 * wx + r12 * wy + r22 * wz
        by_p[i, 0] = ty * z - tz * y - (r00 * qx + r10 * qy + r20 * qz)
        by_p[i, 1] = tz * x - tx * z - (r01 * qx + r11 * qy + r21 * qz)
        by_p[i, 2] = tx * y - ty * x - (r02 * qx + r12 * qy + r22 * qz)
