"""Rigid motions in kernels, for loops in which numpy's time per call would count. See `se3` for the conventions."""

import numpy as np

from poli.kernel import kernel

_SMALL_ANGLE = 1e-4  # below it, series replace quotients that lose precision


@kernel
def log_kernel(R, t):  # (3, 3), (3,) -> (6,)
    """Return the tangent vector of a motion. Rotations by pi, whose axis would need an eigenvector, count as none."""
    x, y, z = 0.5 * (R[2, 1] - R[1, 2]), 0.5 * (R[0, 2] - R[2, 0]), 0.5 * (R[1, 0] - R[0, 1])
    sine = np.sqrt(x * x + y * y + z * z)
    angle = np.arctan2(sine, 0.5 * (R[0, 0] + R[1, 1] + R[2, 2] - 1.0))
    if sine > 1e-6:
        x, y, z = x * angle / sine, y * angle / sine, z * angle / sine
    else:
        angle = sine
    # The inverse of the left Jacobian is 1 - hat / 2 + c hat^2.
    c = 1.0 / 12.0 + angle * angle / 720.0
    if angle > _SMALL_ANGLE:
        c = 1.0 / (angle * angle) - 0.5 / (angle * np.tan(0.5 * angle))
    ux, uy, uz = y * t[2] - z * t[1], z * t[0] - x * t[2], x * t[1] - y * t[0]
    out = np.empty(6)
    out[0], out[1], out[2] = x, y, z
    out[3] = t[0] - 0.5 * ux + c * (y * uz - z * uy)
    out[4] = t[1] - 0.5 * uy + c * (z * ux - x * uz)
    out[5] = t[2] - 0.5 * uz + c * (x * uy - y * ux)
    return out


@kernel
def advanced(T, xi):  # (4, 4), (6,) -> (4, 4)
    """Return T Exp(xi), its rotation made orthonormal again."""
    x, y, z = xi[0], xi[1], xi[2]
    angle = np.sqrt(x * x + y * y + z * z)
    if angle < _SMALL_ANGLE:
        a, b, c = 1.0 - angle * angle / 6.0, 0.5 - angle * angle / 24.0, 1.0 / 6.0 - angle * angle / 120.0
    else:
        a, b = np.sin(angle) / angle, (1.0 - np.cos(angle)) / (angle * angle)
        c = (angle - np.sin(angle)) / (angle * angle * angle)
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    R, V = np.empty((3, 3)), np.empty((3, 3))
    for i in range(3):
        for j in range(3):
            square = K[i, 0] * K[0, j] + K[i, 1] * K[1, j] + K[i, 2] * K[2, j]
            one = 1.0 if i == j else 0.0
            R[i, j], V[i, j] = one + a * K[i, j] + b * square, one + b * K[i, j] + c * square
    out, S = np.zeros((4, 4)), np.empty((3, 3))
    out[3, 3] = 1.0
    for i in range(3):
        out[i, 3] = T[i, 3]
        for j in range(3):
            out[i, 3] += T[i, j] * (V[j, 0] * xi[3] + V[j, 1] * xi[4] + V[j, 2] * xi[5])
            S[i, j] = T[i, 0] * R[0, j] + T[i, 1] * R[1, j] + T[i, 2] * R[2, j]
    # S (3 - S'S) / 2 squares the distance of S to the nearest rotation, which is rounding.
    for i in range(3):
        for j in range(3):
            total = 0.0
            for k in range(3):
                gram = S[0, k] * S[0, j] + S[1, k] * S[1, j] + S[2, k] * S[2, j]
                total += S[i, k] * ((3.0 if k == j else 0.0) - gram)
            out[i, j] = 0.5 * total
    return out
