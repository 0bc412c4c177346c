"""Rigid motions.

A pose is a (4, 4) matrix `T_target_source`. A tangent vector is (rotation, translation), both of size 3, and perturbs from the
right: `T Exp(xi)`.
"""

import numpy as np

from poli.errors import InputError
from poli.options import real_array

_SMALL_ANGLE = 1e-4  # below it, series replace quotients that lose precision


def hat(v: np.ndarray) -> np.ndarray:  # (..., 3) -> (..., 3, 3)
    """Return the matrix of the cross product: `hat(a) @ b = a x b`."""
    v = np.asarray(v, dtype=float)
    m = np.zeros((*v.shape, 3))
    m[..., 2, 1], m[..., 0, 2], m[..., 1, 0] = v[..., 0], v[..., 1], v[..., 2]
    m[..., 1, 2], m[..., 2, 0], m[..., 0, 1] = -v[..., 0], -v[..., 1], -v[..., 2]
    return m


def vee(m: np.ndarray) -> np.ndarray:  # (..., 3, 3) -> (..., 3)
    """Return the vector of the antisymmetric part of `m`: `vee(hat(v)) = v`."""
    a = 0.5 * (m - np.swapaxes(m, -1, -2))
    return np.stack([a[..., 2, 1], a[..., 0, 2], a[..., 1, 0]], -1)


def so3_exp(omega: np.ndarray) -> np.ndarray:  # (3,) -> (3, 3)
    """Return the rotation of a rotation vector."""
    angle = float(np.linalg.norm(omega))
    k = hat(omega)
    if angle < _SMALL_ANGLE:
        a, b = 1 - angle**2 / 6, 0.5 - angle**2 / 24
    else:
        a, b = np.sin(angle) / angle, (1 - np.cos(angle)) / angle**2
    return np.eye(3) + a * k + b * (k @ k)


def so3_log(R: np.ndarray) -> np.ndarray:  # (3, 3) -> (3,)
    """Return the rotation vector of `R`, of length at most pi."""
    sine_axis = vee(R)
    sine = float(np.linalg.norm(sine_axis))
    cosine = 0.5 * (float(np.trace(R)) - 1.0)
    angle = float(np.arctan2(sine, cosine))
    if sine > 1e-6:
        return sine_axis * (angle / sine)
    if cosine > 0:
        return sine_axis
    # Near pi the antisymmetric part vanishes; the axis is the eigenvector of R + R' for its largest eigenvalue.
    axis = np.linalg.eigh(R + R.T)[1][:, -1]
    return axis * angle * (1.0 if axis @ sine_axis >= 0 else -1.0)


def so3_left_jacobian(omega: np.ndarray) -> np.ndarray:  # (3,) -> (3, 3)
    """Return the matrix that maps the translation of a tangent vector to that of its motion."""
    angle = float(np.linalg.norm(omega))
    k = hat(omega)
    if angle < _SMALL_ANGLE:
        a, b = 0.5 - angle**2 / 24, 1 / 6 - angle**2 / 120
    else:
        a, b = (1 - np.cos(angle)) / angle**2, (angle - np.sin(angle)) / angle**3
    return np.eye(3) + a * k + b * (k @ k)


def exp(xi: np.ndarray) -> np.ndarray:  # (6,) -> (4, 4)
    """Return the motion of the tangent vector `xi` = (rotation, translation)."""
    T = np.eye(4)
    T[:3, :3] = so3_exp(xi[:3])
    T[:3, 3] = so3_left_jacobian(xi[:3]) @ xi[3:]
    return T


def log(T: np.ndarray) -> np.ndarray:  # (4, 4) -> (6,)
    """Return the tangent vector of the motion `T`; inverse of `exp` for rotations of less than pi."""
    omega = so3_log(T[:3, :3])
    return np.concatenate([omega, np.linalg.solve(so3_left_jacobian(omega), T[:3, 3])])


def inverse(T: np.ndarray) -> np.ndarray:  # (4, 4) -> (4, 4)
    """Return the inverse of a pose."""
    R_t = T[:3, :3].T
    out = np.eye(4)
    out[:3, :3] = R_t
    out[:3, 3] = -R_t @ T[:3, 3]
    return out


def nearest_rotation(T: np.ndarray) -> np.ndarray:  # (4, 4) -> (4, 4)
    """Return `T` with its rotation made orthonormal again. Products of many poses need it: `inverse` assumes an orthonormal
    rotation, and rounding errors otherwise double with every pose that is predicted from the previous two."""
    u, _, vt = np.linalg.svd(T[:3, :3])
    out = T.copy()
    out[:3, :3] = u @ vt
    return out


def quaternion(R: np.ndarray) -> np.ndarray:  # (3, 3) -> (4,)
    """Return the quaternion x y z w of a rotation, or of the rotation nearest to a matrix that is not quite one.

    Of the two quaternions of a rotation, the one with positive w is returned; if w is zero, the one whose first nonzero entry is
    positive. Equal rotations therefore give equal numbers.
    """
    if np.abs(R @ R.T - np.eye(3)).max() > 1e-12:
        u, _, vt = np.linalg.svd(R)
        R = u @ vt
    # Shepperd's method: all products of two entries of q are sums of entries of R. Those with the largest entry lose no precision.
    trace = R[0, 0] + R[1, 1] + R[2, 2]
    i = int(np.argmax((R[0, 0], R[1, 1], R[2, 2], trace)))
    q = np.empty(4)
    if i == 3:
        q[:] = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1], 1.0 + trace
    else:
        j, k = (i + 1) % 3, (i + 2) % 3
        q[i], q[j], q[k], q[3] = 1.0 - trace + 2.0 * R[i, i], R[j, i] + R[i, j], R[k, i] + R[i, k], R[k, j] - R[j, k]
    q /= np.linalg.norm(q)
    leading = next(value for value in (q[3], q[0], q[1], q[2]) if value != 0.0)
    return q if leading > 0.0 else -q


def measured(
    T: np.ndarray, rotation_noise: float, translation_noise: float, rng: np.random.Generator
) -> np.ndarray:  # (4, 4) -> (4, 4)
    """Add measurement noise to a pose: `rotation_noise` in degrees and `translation_noise` in meters, one sigma per axis."""
    out = T.copy()
    out[:3, :3] = T[:3, :3] @ so3_exp(np.deg2rad(rotation_noise) * rng.standard_normal(3))
    out[:3, 3] += translation_noise * rng.standard_normal(3)
    return out


def adjoint(T: np.ndarray) -> np.ndarray:  # (4, 4) -> (6, 6)
    """Return the matrix that moves a tangent vector through `T`: `T Exp(xi) T^-1 = Exp(adjoint(T) xi)`."""
    R = T[:3, :3]
    out = np.zeros((6, 6))
    out[:3, :3] = out[3:, 3:] = R
    out[3:, :3] = hat(T[:3, 3]) @ R
    return out


def right_jacobian_inverse(xi: np.ndarray) -> np.ndarray:  # (6,) -> (6, 6)
    """Return the matrix with `Log(Exp(xi) Exp(d)) = xi + right_jacobian_inverse(xi) d` to first order in `d`.

    It is f(ad(xi)) with f(x) = x / (1 - exp(-x)). Since ad (ad^2 + w)^2 = 0 with w = |rotation|^2, f reduces to
    1 + x/2 + a x^2 + b x^4, where a and b fit the even part (omega/2) cot(omega/2) and its slope at x = i omega.
    """
    ad = np.zeros((6, 6))
    ad[:3, :3] = ad[3:, 3:] = hat(xi[:3])
    ad[3:, :3] = hat(xi[3:])
    w = float(xi[:3] @ xi[:3])
    if w < 0.09:  # the fit cancels for small angles; use its series in Bernoulli numbers
        a = 1 / 12 - w**2 / 30240 - 2 * w**3 / 1209600 - 3 * w**4 / 47900160
        b = -1 / 720 - 2 * w / 30240 - 3 * w**2 / 1209600 - 4 * w**3 / 47900160
    else:
        half = 0.5 * np.sqrt(w)
        even = half / np.tan(half)
        slope = (1 / np.tan(half) - half / np.sin(half) ** 2) / (8 * half)  # derivative of `even` by w
        b = (1 - even + slope * w) / w**2
        a = (1 - even + b * w**2) / w
    ad2 = ad @ ad
    return np.eye(6) + 0.5 * ad + a * ad2 + b * (ad2 @ ad2)


def check_pose(T: np.ndarray, name: str = "T") -> np.ndarray:
    """Return `T` as a float64 (4, 4) rigid motion, or raise an InputError that says what is wrong."""
    T = real_array(T, name)
    if T.shape != (4, 4):
        raise InputError(f"{name} has shape {T.shape}; expected a (4, 4) pose")
    if not np.isfinite(T).all():
        raise InputError(f"{name} has a non-finite entry")
    R = T[:3, :3]
    # float32 rotations are orthonormal to 1e-7, which leaves a margin of 1,000. The last row is exact in any type.
    if np.abs(R.T @ R - np.eye(3)).max() > 1e-4 or np.linalg.det(R) < 0 or np.abs(T[3] - [0, 0, 0, 1]).max() > 1e-6:
        raise InputError(
            f"{name} is not a rigid motion: the rotation must be orthonormal with determinant +1, and the last row 0 0 0 1"
        )
    return T
