"""A measured pose inside the certified problem."""

import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import approx_fprime

from benchmarks.data.pose_problems import random_problem
from oracles import lift, lifted_pose, quadratic_form, random_pose, seeds
from poli import se3
from poli.certify import PosePrior, solve
from poli.certify.quadratic import Frame, chordal_form

PLAIN = Frame(np.zeros(3), np.zeros(3), 1.0)


def random_prior(rng, T, spread=0.1) -> PosePrior:
    factor = spread * rng.standard_normal((6, 6))
    return PosePrior(T, factor @ factor.T + 1e-4 * np.eye(6))


def exact_prior(T, prior) -> float:
    """xi' Gamma^-1 xi with xi = Log(T^-1 T~), as the paper writes it."""
    xi = se3.log(se3.inverse(T) @ prior.T_target_source)
    return xi @ np.linalg.solve(prior.covariance, xi)


@given(seed=seeds)
def test_the_chordal_prior_agrees_with_the_paper_to_second_order(seed):
    rng = np.random.default_rng(seed)
    prior = random_prior(rng, random_pose(rng))
    Q = chordal_form(prior.T_target_source, np.linalg.inv(prior.covariance), PLAIN)
    for size in (1e-2, 1e-3):
        T = prior.T_target_source @ se3.exp(size * rng.standard_normal(6))
        exact = exact_prior(T, prior)
        assert lifted_pose(T) @ Q @ lifted_pose(T) == pytest.approx(exact, rel=30 * size)


@given(seed=seeds)
def test_the_chordal_prior_is_minimal_at_the_measured_pose(seed):
    """For any covariance, correlated ones included, and any other pose."""
    rng = np.random.default_rng(seed)
    prior = random_prior(rng, random_pose(rng))
    Q = chordal_form(prior.T_target_source, np.linalg.inv(prior.covariance), PLAIN)
    x = lifted_pose(prior.T_target_source)
    scale = np.abs(Q).max()
    assert abs(x @ Q @ x) < 1e-9 * scale
    for _ in range(50):
        T = prior.T_target_source @ random_pose(rng, shift=rng.choice([0.0, 0.1, 3.0]))
        assert lifted_pose(T) @ Q @ lifted_pose(T) > -1e-9 * scale


def test_the_isotropic_prior_is_the_plain_chordal_distance(rng):
    T, prior = random_pose(rng), PosePrior.isotropic(random_pose(rng), rotation=0.1, translation=0.5)
    Q = chordal_form(prior.T_target_source, np.linalg.inv(prior.covariance), PLAIN)
    d = T - prior.T_target_source
    expected = (d[:3, :3] ** 2).sum() / (2 * 0.1**2) + (d[:3, 3] ** 2).sum() / 0.5**2
    assert lifted_pose(T) @ Q @ lifted_pose(T) == pytest.approx(expected)


def test_poses_with_a_prior_are_certified_and_optimal():
    """Newton descent on matches plus prior from 10 starts finds no lower cost."""
    rng = np.random.default_rng(2)
    from scipy.optimize import minimize

    for _ in range(10):
        p = random_problem(rng, 8, condition=1e3, noise=3.0)
        prior = random_prior(rng, p.T_target_source @ se3.exp(0.3 * rng.standard_normal(6)))
        pose = solve(p.source, p.target, p.information, prior)
        assert pose.certified
        Q = quadratic_form(p.source, p.target, p.information) + chordal_form(
            prior.T_target_source, np.linalg.inv(prior.covariance), PLAIN
        )

        def cost(xi, base, Q=Q):
            x = lifted_pose(base @ se3.exp(xi))
            return x @ Q @ x

        assert pose.cost == pytest.approx(cost(np.zeros(6), pose.T_target_source), rel=1e-6)
        for _ in range(10):
            start = pose.T_target_source @ random_pose(rng, shift=0.5)
            assert minimize(cost, np.zeros(6), args=(start,)).fun >= pose.cost * (1 - 1e-6)
        slope = approx_fprime(np.zeros(6), cost, 1e-7, pose.T_target_source)
        assert np.abs(slope).max() < 1e-3 * np.abs(Q).max()


def test_a_strong_prior_fixes_the_pose_and_a_weak_one_does_not(rng):
    p = random_problem(rng, 30)
    T_prior = p.T_target_source @ se3.exp(np.full(6, 0.2))
    strong = solve(p.source, p.target, p.information, PosePrior.isotropic(T_prior, 1e-6, 1e-6))
    weak = solve(p.source, p.target, p.information, PosePrior.isotropic(T_prior, 1e3, 1e3))
    np.testing.assert_allclose(strong.T_target_source, T_prior, atol=1e-4)
    np.testing.assert_allclose(weak.T_target_source, solve(p.source, p.target, p.information).T_target_source, atol=1e-6)


def test_the_information_with_a_prior(rng):
    """Gauss-Newton of the matches plus J' Gamma^-1 J of the paper's prior, by differences."""
    p = random_problem(rng, 30)
    prior = random_prior(rng, p.T_target_source @ se3.exp(0.2 * rng.standard_normal(6)))
    pose = solve(p.source, p.target, p.information, prior)
    T = pose.T_target_source
    J = [se3.log(se3.inverse(T @ se3.exp(1e-6 * e)) @ prior.T_target_source) for e in np.eye(6)]
    J = np.stack([(j - se3.log(se3.inverse(T) @ prior.T_target_source)) / 1e-6 for j in J], axis=1)
    R = T[:3, :3]
    Jd = np.stack([R @ np.hstack([se3.hat(x), -np.eye(3)]) for x in p.source])
    expected = np.einsum("nia,nij,njb->ab", Jd, p.information, Jd) + J.T @ np.linalg.solve(prior.covariance, J)
    np.testing.assert_allclose(pose.information, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@given(seed=seeds)
def test_the_chordal_form_in_centered_coordinates(seed):
    rng = np.random.default_rng(seed)
    prior, frame = random_prior(rng, random_pose(rng)), Frame(rng.standard_normal(3), rng.standard_normal(3), 2.5)
    information = np.linalg.inv(prior.covariance)
    G, Q = lift(frame), chordal_form(prior.T_target_source, information, PLAIN)
    centered = chordal_form(prior.T_target_source, information, frame)
    np.testing.assert_allclose(centered, G.T @ Q @ G, atol=1e-9 * np.abs(Q).max())
