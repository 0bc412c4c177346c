"""A measured pose as a quadratic form, which can be added to the certified problem: equation 13, which the paper relaxed away.

The paper's prior is xi' Gamma^-1 xi with xi = Log(T^-1 T~). Its logarithm is not polynomial in T. The chordal form replaces it by
one that agrees to second order at T~ and has its minimum over all poses there, for any positive definite Gamma. With
Gamma^-1 = [[A, B], [B', C]] in blocks of rotation and translation, K = tr(A) I / 2 - A, s = -vee(R~'R) and u = R~'(t~ - t):

    2 tr(K (I - R~'R)) + 2 s' B u + u' C u.

For a rotation by theta about a unit axis e the rotational part is 4 sin^2(theta/2) e'A e, and s = -sin(theta) e. Minimized over u,
the form is at least 4 sin^2(theta/2) e'(A - cos^2(theta/2) B C^-1 B') e >= 0. With Gamma = diag(s_r^2 I, s_t^2 I) it is
|R - R~|^2 / (2 s_r^2) + |t - t~|^2 / s_t^2.
"""

import numpy as np

from poli.certify.quadratic import PLAIN, Frame, lifted, tangent_map
from poli.se3 import inverse, log, right_jacobian_inverse, so3_log


def chordal_form(T_prior: np.ndarray, information: np.ndarray, frame: Frame = PLAIN) -> np.ndarray:  # (4, 4), (6, 6) -> (13, 13)
    """Return Q of the prior in the coordinates of `frame`; `information` is Gamma^-1, rotation first."""
    R, t = T_prior[:3, :3], T_prior[:3, 3]
    A, B, C = information[:3, :3], information[:3, 3:], information[3:, 3:]
    K = 0.5 * np.trace(A) * np.eye(3) - A
    sine = np.zeros((3, 13))  # s, linear in vec(R)
    sine[:, 1:10] = -0.5 * tangent_map(lifted(R))[1:].T  # vee(M)_i = <hat(e_i), M> / 2
    shift = np.zeros((3, 13))  # u, linear in h, vec(R) and t'; offsets are subtracted first, so a far target costs no precision
    shift[:, 0] = R.T @ (t - frame.target)
    shift[:, 1:10] = np.kron(frame.source, R.T)
    shift[:, 10:] = -frame.size * R.T
    cross = sine.T @ B @ shift
    Q = cross + cross.T + shift.T @ C @ shift
    Q[0, 0] += 2.0 * np.trace(K)
    pull = -(R @ K).T.reshape(9)
    Q[0, 1:10] += pull
    Q[1:10, 0] += pull
    return Q


def chordal_cost(T: np.ndarray, T_prior: np.ndarray, information: np.ndarray) -> float:
    """Return the chordal cost of a pose from angle and axis, without cancellation."""
    A, B, C = information[:3, :3], information[:3, 3:], information[3:, 3:]
    omega = so3_log(T_prior[:3, :3].T @ T[:3, :3])
    angle = float(np.linalg.norm(omega))
    half = np.sin(0.5 * angle) / (0.5 * angle) if angle > 0 else 1.0
    sine = -omega * (np.sin(angle) / angle if angle > 0 else 1.0)
    shift = T_prior[:3, :3].T @ (T_prior[:3, 3] - T[:3, 3])
    return float(half**2 * (omega @ A @ omega) + 2.0 * (sine @ B @ shift) + shift @ C @ shift)


def prior_gauss_newton(T: np.ndarray, T_prior: np.ndarray, information: np.ndarray) -> np.ndarray:  # -> (6, 6)
    """Return J' Gamma^-1 J with J the derivative of xi = Log(T^-1 T~) by a right perturbation of T: the prior's share of H."""
    J = -right_jacobian_inverse(-log(inverse(T) @ T_prior))  # Log(Exp(-d) Exp(xi)) = xi - J_l^-1(xi) d, J_l(xi) = J_r(-xi)
    return J.T @ information @ J
