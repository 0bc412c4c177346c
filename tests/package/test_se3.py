import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

from oracles import random_pose, seeds
from poli import se3
from poli.errors import InputError
from poli.se3_kernels import advanced, log_kernel


def twist(xi: np.ndarray) -> np.ndarray:
    m = np.zeros((4, 4))
    m[:3, :3], m[:3, 3] = se3.hat(xi[:3]), xi[3:]
    return m


@given(seeds, st.sampled_from([0.0, 1e-12, 1e-6, 1e-3, 0.1, 1.0, 3.0]))
def test_exp_is_the_matrix_exponential_and_log_its_inverse(seed, angle):
    rng = np.random.default_rng(seed)
    axis = rng.standard_normal(3)
    xi = np.concatenate([angle * axis / np.linalg.norm(axis), rng.standard_normal(3)])
    np.testing.assert_allclose(se3.exp(xi), expm(twist(xi)), atol=1e-12)
    np.testing.assert_allclose(se3.log(se3.exp(xi)), xi, atol=1e-9)


@given(seeds, st.sampled_from([0.0, 1e-12, 1e-6, 1e-3, 0.1, 1.0, 3.0]))
def test_kernels_equal_the_functions(seed, angle):
    rng = np.random.default_rng(seed)
    axis = rng.standard_normal(3)
    xi, T = np.concatenate([angle * axis / np.linalg.norm(axis), rng.standard_normal(3)]), random_pose(rng)
    U = se3.exp(xi)
    np.testing.assert_allclose(log_kernel(U[:3, :3], U[:3, 3]), se3.log(U), atol=1e-9)
    np.testing.assert_allclose(advanced(T, xi), T @ U, atol=1e-12)
    drifted = T.copy()
    drifted[:3, :3] += 1e-9 * rng.standard_normal((3, 3))
    R = advanced(drifted, xi)[:3, :3]
    np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-15)


def test_log_at_half_a_turn(rng):
    for axis in [np.eye(3)[0], np.eye(3)[2], np.array([1.0, -2.0, 3.0]) / np.sqrt(14)]:
        R = 2 * np.outer(axis, axis) - np.eye(3)
        omega = se3.so3_log(R)
        assert np.linalg.norm(omega) == pytest.approx(np.pi)
        np.testing.assert_allclose(se3.so3_exp(omega), R, atol=1e-9)


@given(seeds, st.sampled_from([1e-9, 1e-3, 0.25, 0.299, 0.301, 1.0, 3.0]))
def test_right_jacobian_inverse_against_differences(seed, angle):
    rng = np.random.default_rng(seed)
    axis = rng.standard_normal(3)
    xi = np.concatenate([angle * axis / np.linalg.norm(axis), rng.standard_normal(3)])
    step = 1e-6
    numeric = [
        (se3.log(se3.exp(xi) @ se3.exp(step * e)) - se3.log(se3.exp(xi) @ se3.exp(-step * e))) / (2 * step) for e in np.eye(6)
    ]
    np.testing.assert_allclose(se3.right_jacobian_inverse(xi), np.array(numeric).T, atol=1e-7)


@given(seeds)
def test_adjoint_and_inverse(seed):
    rng = np.random.default_rng(seed)
    T, xi = random_pose(rng), 0.1 * rng.standard_normal(6)
    np.testing.assert_allclose(se3.inverse(T) @ T, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(T @ se3.exp(xi) @ se3.inverse(T), se3.exp(se3.adjoint(T) @ xi), atol=1e-10)


@pytest.mark.parametrize(
    ("bad", "says"),
    [(np.eye(3), "shape"), (np.diag([1.0, 1, -1, 1]), "rigid"), (np.full((4, 4), np.nan), "finite"), (2 * np.eye(4), "rigid")],
)
def test_a_bad_pose_is_named(bad, says):
    with pytest.raises(InputError, match=f"T_world.*{says}"):
        se3.check_pose(bad, "T_world")


@given(seeds)
def test_quaternions_equal_scipys(seed):
    rng = np.random.default_rng(seed)
    turns = [random_pose(rng)[:3, :3], se3.so3_exp(1e-9 * rng.standard_normal(3))]
    turns += [R @ np.diag(half) for R in turns for half in ((1.0, -1, -1), (-1, 1, -1), (-1, -1, 1))]
    turns += [R.astype(np.float32).astype(float) for R in turns]  # not quite orthonormal
    turns += [np.diag(half) for half in ((1.0, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))]
    for R in turns:
        np.testing.assert_allclose(se3.quaternion(R), Rotation.from_matrix(R).as_quat(canonical=True), rtol=0, atol=1e-15)
