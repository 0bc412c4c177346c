"""How the pose answers to its data, by the implicit function theorem.

At the optimum the gradient of half the cost by the pose vanishes: F = sum J' W d + (prior) = 0 with d = q - (R p + t) and
J = R [hat(p), -I] for a right perturbation. Hence A dT = -dF with the exact 6x6 Hessian A. For a loss with gradient g by the
pose, u = -A^-1 g, and the loss's gradient by any input is that of u' F with the pose held fixed. This equals the KKT system of
supplement SB (the tests' oracle) at a fraction of its size and with none of its bad conditioning.
"""

import numpy as np

from poli.certify.quadratic import Frame
from poli.certify.small import eigh, matvec, transposed_matvec
from poli.kernel import kernel
from poli.threads import run_chunks


def adjoint(T: np.ndarray, frame: Frame, hessian: np.ndarray, grad_pose: np.ndarray) -> np.ndarray:  # (4, 4) ... -> (6,)
    """u = -A^-1 g in the centred frame, where A is well conditioned, for the loss's gradient by the entries of T."""
    return _adjoint(T, frame.source, frame.size, hessian, grad_pose)


def match_gradients(
    source: np.ndarray,  # (N, 3)
    target: np.ndarray,  # (N, 3)
    weights: np.ndarray,  # (N, 3, 3)
    T: np.ndarray,  # (4, 4)
    frame: Frame,
    u: np.ndarray,  # (6,) of the centred frame
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (N, 3), (N, 3), (N, 3, 3)
    """Gradients of u' F by p, q and W. The last is symmetric: the cost sees only the symmetric part of W."""
    grads = np.empty(source.shape), np.empty(source.shape), np.empty(weights.shape)
    R = np.ascontiguousarray(T[:3, :3])
    moved_centre = T[:3, 3] + R @ frame.source
    args = (source, target, weights, R, frame.source, moved_centre, u[:3].copy(), u[3:] * frame.size)
    run_chunks(lambda begin, end: _gradients(*args, begin, end, *grads), len(source), smallest=2048)
    return grads


@kernel
def _adjoint(T, centre, size, hessian, grad_pose):
    # A centred perturbation (w, v) moves T by dR = R hat(w) and dt = size R v - dR centre.
    by_R, pull, g = np.empty((3, 3)), np.zeros((3, 3)), np.zeros(6)
    for i in range(3):
        for j in range(3):
            by_R[i, j] = grad_pose[i, j] - grad_pose[i, 3] * centre[j]
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
    u = transposed_matvec(vectors, g)
    for i in range(6):
        u[i] /= -values[i]
    return matvec(vectors, u) / scale


@kernel
def _gradients(source, target, weights, R, centre, moved_centre, turn, shift, begin, end, by_p, by_q, by_W):
    p, d, Ju, Wd = np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    for i in range(begin, end):
        for a in range(3):
            p[a] = source[i, a] - centre[a]
        # J u = -R (turn x p + shift)
        x = turn[1] * p[2] - turn[2] * p[1] + shift[0]
        y = turn[2] * p[0] - turn[0] * p[2] + shift[1]
        z = turn[0] * p[1] - turn[1] * p[0] + shift[2]
        for a in range(3):
            Ju[a] = -(R[a, 0] * x + R[a, 1] * y + R[a, 2] * z)
            d[a] = target[i, a] - moved_centre[a] - (R[a, 0] * p[0] + R[a, 1] * p[1] + R[a, 2] * p[2])
        for a in range(3):
            Wd[a] = 0.0
            by_q[i, a] = 0.0
            for b in range(3):
                w = 0.5 * (weights[i, a, b] + weights[i, b, a])
                Wd[a] += w * d[b]
                by_q[i, a] += w * Ju[b]
                by_W[i, a, b] = 0.5 * (Ju[a] * d[b] + d[a] * Ju[b])
        # turn x (R' W d) - R' W J u
        x = R[0, 0] * Wd[0] + R[1, 0] * Wd[1] + R[2, 0] * Wd[2]
        y = R[0, 1] * Wd[0] + R[1, 1] * Wd[1] + R[2, 1] * Wd[2]
        z = R[0, 2] * Wd[0] + R[1, 2] * Wd[1] + R[2, 2] * Wd[2]
        by_p[i, 0] = turn[1] * z - turn[2] * y - (R[0, 0] * by_q[i, 0] + R[1, 0] * by_q[i, 1] + R[2, 0] * by_q[i, 2])
        by_p[i, 1] = turn[2] * x - turn[0] * z - (R[0, 1] * by_q[i, 0] + R[1, 1] * by_q[i, 1] + R[2, 1] * by_q[i, 2])
        by_p[i, 2] = turn[0] * y - turn[1] * x - (R[0, 2] * by_q[i, 0] + R[1, 2] * by_q[i, 1] + R[2, 2] * by_q[i, 2])
