"""The cost as a quadratic form, its derivatives, and the constraints of rotations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.data.pose_problems import random_problem
from oracles import lift, lifted_pose, pose_cost, quadratic_form, random_pose, seeds
from poli import se3
from poli.certify.quadratic import FORMS, derivatives
from poli.certify.quadratic import quadratic_form as fast_quadratic_form


@given(seed=seeds, count=st.sampled_from([1, 3, 40]))
def test_the_quadratic_form_is_the_cost(seed, count):
    """x' Q x = sum d' W d for any pose, in the plain and in the centered coordinates."""
    rng = np.random.default_rng(seed)
    p, T = random_problem(rng, count), random_pose(rng)
    cost = pose_cost(T, p.source, p.target, p.information)
    x = lifted_pose(T)
    assert x @ quadratic_form(p.source, p.target, p.information) @ x == pytest.approx(cost, rel=1e-9)
    Q, frame, _ = fast_quadratic_form(p.source, p.target, p.information, p.source.mean(0), p.target.mean(0))
    centered = np.linalg.solve(lift(frame), x)
    assert centered @ Q @ centered == pytest.approx(cost, rel=1e-7)


def test_blocks_of_matches_add_up(rng):
    """More matches than one block, a last block that is not full, and some matches without weight."""
    p = random_problem(rng, 5000)
    p.information[::7] = 0.0
    centers = p.source.mean(0), p.target.mean(0)
    Q, frame, _ = fast_quadratic_form(p.source, p.target, p.information, *centers)
    G = lift(frame)
    np.testing.assert_allclose(
        Q, G.T @ quadratic_form(p.source, p.target, p.information) @ G, rtol=1e-8, atol=1e-6 * np.abs(Q).max()
    )


def test_the_constraints_hold_on_rotations_and_are_independent(rng):
    for _ in range(20):
        y = lifted_pose(random_pose(rng))[:10]
        np.testing.assert_allclose(np.einsum("i,lij,j->l", y, FORMS, y), [1.0] + [0.0] * 20, atol=1e-12)
    assert np.linalg.matrix_rank(FORMS.reshape(21, 100)) == 21
    reflection = np.concatenate([[1.0], -np.eye(3).reshape(9)])
    assert np.abs(np.einsum("i,lij,j->l", reflection, FORMS, reflection)[1:]).max() > 0.1  # handedness distinguishes it


@given(seed=seeds)
def test_derivatives_against_differences(seed):
    rng = np.random.default_rng(seed)
    p, T = random_problem(rng, 6, condition=10.0), random_pose(rng, shift=1.0)
    Q = quadratic_form(p.source, p.target, p.information)
    gradient, gauss_newton, hessian = derivatives(Q, lifted_pose(T))

    def half_cost(delta):
        moved = T.copy()
        moved[:3, :3] = T[:3, :3] @ se3.so3_exp(delta[:3])
        moved[:3, 3] += T[:3, :3] @ delta[3:]
        return 0.5 * pose_cost(moved, p.source, p.target, p.information)

    steps = 1e-4 * np.eye(6)
    numeric = [(half_cost(s) - half_cost(-s)) / 2e-4 for s in steps]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-4 * np.abs(gradient).max())
    second = [[(half_cost(a + b) - half_cost(a - b) - half_cost(b - a) + half_cost(-a - b)) / 4e-8 for a in steps] for b in steps]
    np.testing.assert_allclose(hessian, second, atol=1e-4 * np.abs(hessian).max())
    J = np.stack([T[:3, :3] @ np.hstack([se3.hat(x), -np.eye(3)]) for x in p.source])
    np.testing.assert_allclose(gauss_newton, np.einsum("nia,nij,njb->ab", J, p.information, J), rtol=1e-8, atol=1e-6)
