"""The certified pose: right, proven, equivariant, and honest about degenerate input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from oracles import lift, lifted_pose, local_minima, pose_cost, printed_quadratic_form, quadratic_form, random_pose, seeds
from poli import se3
from poli.bench.problems import hostile_problem, random_problem
from poli.certify import PosePrior, solve
from poli.certify.constraints import FORMS
from poli.certify.prior import chordal_form
from poli.certify.quadratic import Frame, derivatives
from poli.certify.quadratic import quadratic_form as fast_quadratic_form
from poli.errors import DegenerateError, InputError

# --- the quadratic form and its constraints


@given(seed=seeds, count=st.sampled_from([1, 3, 40]))
def test_the_quadratic_form_is_the_cost(seed, count):
    """x' Q x = sum d' W d for any pose, in the plain and in the centred coordinates."""
    rng = np.random.default_rng(seed)
    p, T = random_problem(rng, count), random_pose(rng)
    cost = pose_cost(T, p.source, p.target, p.information)
    x = lifted_pose(T)
    assert x @ quadratic_form(p.source, p.target, p.information) @ x == pytest.approx(cost, rel=1e-9)
    Q, frame, _ = fast_quadratic_form(p.source, p.target, p.information, p.source.mean(0), p.target.mean(0))
    centred = np.linalg.solve(lift(frame), x)
    assert centred @ Q @ centred == pytest.approx(cost, rel=1e-7)


def test_blocks_of_matches_add_up(rng):
    """More matches than one block, the last block not full, and some without weight."""
    p = random_problem(rng, 5000)
    p.information[::7] = 0.0
    centres = p.source.mean(0), p.target.mean(0)
    Q, frame, _ = fast_quadratic_form(p.source, p.target, p.information, *centres)
    G = lift(frame)
    np.testing.assert_allclose(
        Q, G.T @ quadratic_form(p.source, p.target, p.information) @ G, rtol=1e-8, atol=1e-6 * np.abs(Q).max()
    )


def test_the_sign_of_the_translation():
    """Targets shifted by +1 along x from the source give t = +1: T maps the source onto the target."""
    source = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    pose = solve(source, source + [1.0, 0, 0], np.tile(np.eye(3), (4, 1, 1)))
    np.testing.assert_allclose(pose.T_target_source, [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], atol=1e-12)


def test_the_form_that_the_paper_prints_is_wrong(rng):
    """Its blocks +(Wq)' and -p (x) W belong to d = q - R p + t: it gives the cost of the pose with -t."""
    p = random_problem(rng, 20)
    T = p.T_target_source
    mirrored = T.copy()
    mirrored[:3, 3] *= -1.0
    Q = printed_quadratic_form(p.source, p.target, p.information)
    cost, wrong = (pose_cost(pose, p.source, p.target, p.information) for pose in (T, mirrored))
    x = lifted_pose(T)
    assert x @ Q @ x == pytest.approx(wrong, rel=1e-9)
    assert x @ Q @ x > 1000 * cost  # at the very pose that made the matches


def test_the_constraints_hold_on_rotations_and_are_independent(rng):
    for _ in range(20):
        y = lifted_pose(random_pose(rng))[:10]
        np.testing.assert_allclose(np.einsum("i,lij,j->l", y, FORMS, y), [1.0] + [0.0] * 20, atol=1e-12)
    assert np.linalg.matrix_rank(FORMS.reshape(21, 100)) == 21
    reflection = np.concatenate([[1.0], -np.eye(3).reshape(9)])
    assert np.abs(np.einsum("i,lij,j->l", reflection, FORMS, reflection)[1:]).max() > 0.1  # handedness tells it apart


def test_the_papers_own_constraints_have_rank_17():
    """Supplement SB: 6 of orthonormality, 9 that balance the lengths of rows and columns, 9 of handedness."""
    R = [[1 + 3 * c + r for c in range(3)] for r in range(3)]  # index of entry (r, c)

    def form(terms):
        A = np.zeros((10, 10))
        for i, j, v in terms:
            A[i, j] += v / 2
            A[j, i] += v / 2
        return A.reshape(100)

    orthonormal = [
        form([(R[r][i], R[r][j], 1) for r in range(3)] + ([(0, 0, -1)] if i == j else [])) for i in range(3) for j in range(i, 3)
    ]
    balance = [
        form([(R[r][j], R[r][j], 1) for r in range(3)] + [(R[i][c], R[i][c], -1) for c in range(3)])
        for i in range(3)
        for j in range(3)
    ]
    handed = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        for r in range(3):
            s, t = (r + 1) % 3, (r + 2) % 3
            handed.append(form([(R[s][j], R[t][k], 1), (R[t][j], R[s][k], -1), (0, R[r][i], -1)]))
    listed = np.array(orthonormal + balance + handed)
    assert len(listed) == 24
    assert np.linalg.matrix_rank(listed) == 17


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


# --- optimality


def test_no_local_solver_beats_a_certified_pose():
    """200 hostile problems, 50 random starts each, by a solver that shares no code with ours."""
    rng = np.random.default_rng(11)
    certified = 0
    for _ in range(200):
        p = hostile_problem(rng)
        p = random_problem(rng, min(len(p.source), 60), condition=1e4, noise=10 ** rng.uniform(-1, 1))
        pose = solve(p.source, p.target, p.information)
        cost = pose_cost(pose.T_target_source, p.source, p.target, p.information)
        assert pose.cost == pytest.approx(cost, rel=1e-5, abs=1e-9)
        starts = np.stack([random_pose(rng, shift=10.0) for _ in range(50)])
        starts[:, :3, 3] = p.target.mean(0) - np.einsum("sij,j->si", starts[:, :3, :3], p.source.mean(0))
        found = local_minima(p.source, p.target, p.information, starts).min()
        if pose.certified:
            certified += 1
            assert found >= cost * (1 - 1e-6)
    assert certified >= 198


def test_the_shortcut_and_the_relaxation_agree():
    rng = np.random.default_rng(5)
    ratios = []
    for _ in range(60):
        p = hostile_problem(rng)
        quick, full = (solve(p.source, p.target, p.information, shortcut=s) for s in (True, False))
        assert quick.certified
        assert full.certified
        np.testing.assert_allclose(quick.T_target_source, full.T_target_source, atol=1e-6)
        assert full.certificate.minimum_eigenvalue > -1e-9
        ratios.append(full.certificate.eigenvalue_ratio)
    assert min(ratios) > 1e3  # X is of rank one: the relaxation is tight


def test_hard_problems_go_through_the_relaxation():
    """Where the quick proof fails, the semidefinite program decides; the certificate says which it was."""
    rng = np.random.default_rng(0)
    through = 0
    for _ in range(400):
        p = random_problem(rng, 4, condition=1e4, noise=10.0)
        pose = solve(p.source, p.target, p.information)
        assert pose.certified
        through += np.isfinite(pose.certificate.eigenvalue_ratio)
    assert through > 0


def test_an_ambiguous_problem_is_still_proven_but_said_to_be_so():
    """All targets in one place: four rotations by half turns are equally good. The cost is proven, and the eigenvalue ratio shows
    that the pose is not the only one."""
    source = np.array([[1.0, 0, 0], [-1.0, 0, 0], [0, 2.0, 0], [0, -2.0, 0], [0, 0, 3.0], [0, 0, -3.0]])
    target, weights = np.zeros((6, 3)), np.tile(np.diag([1.0, 2.0, 3.0]), (6, 1, 1))
    pose = solve(source, target, weights)
    starts = np.stack([random_pose(np.random.default_rng(i), 0.0) for i in range(50)])
    found = local_minima(source, target, weights, starts)
    assert found.min() == pytest.approx(pose.cost, rel=1e-9)
    assert pose.certified
    assert pose.certificate.eigenvalue_ratio < 100


def test_a_continuum_of_optima_is_refused():
    """A mirror image of an octahedron: turning about one axis changes nothing."""
    source = np.concatenate([np.eye(3), -np.eye(3)])
    with pytest.raises(DegenerateError, match="rotation about"):
        solve(source, source * [-1.0, 1, 1], np.tile(np.eye(3), (6, 1, 1)))


def test_exact_matches_give_the_exact_pose(rng):
    for count in (3, 4, 50):
        p = random_problem(rng, count, noise=0.0)
        pose = solve(p.source, p.target, p.information)
        assert pose.certified
        np.testing.assert_allclose(pose.T_target_source, p.T_target_source, atol=1e-9)


def test_isotropic_weights_give_the_closed_form(rng):
    """Umeyama's solution by singular values."""
    p = random_problem(rng, 30, condition=1.0, noise=5.0)
    pose = solve(p.source, p.target, np.tile(np.eye(3), (30, 1, 1)))
    A = (p.target - p.target.mean(0)).T @ (p.source - p.source.mean(0))
    U, _, Vt = np.linalg.svd(A)
    R = U @ np.diag([1, 1, np.linalg.det(U @ Vt)]) @ Vt
    np.testing.assert_allclose(pose.T_target_source[:3, :3], R, atol=1e-10)
    np.testing.assert_allclose(pose.T_target_source[:3, 3], p.target.mean(0) - R @ p.source.mean(0), atol=1e-9)


def test_point_to_plane_weights(rng):
    """Weights of rank one are fine as long as together they hold the pose."""
    T, source = random_pose(rng), rng.standard_normal((40, 3))
    normals = rng.standard_normal((40, 3))
    pose = solve(source, source @ T[:3, :3].T + T[:3, 3], np.einsum("ni,nj->nij", normals, normals))
    assert pose.certified
    np.testing.assert_allclose(pose.T_target_source, T, atol=1e-7)


def test_six_planes_that_do_not_meet_still_hold_the_pose():
    """Six equations, six unknowns, no exact solution: the Gauss-Newton matrix is singular there, but the optimum is sharp."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        source, target, normals = rng.standard_normal((3, 6, 3))
        pose = solve(source, target, np.einsum("ni,nj->nij", normals, normals))
        if pose.cost > 1e-3:
            assert np.linalg.eigvalsh(pose.gauss_newton)[0] < 1e-8
            assert np.linalg.eigvalsh(pose.hessian)[0] > 1e-6


def test_far_origins_cost_no_digits(rng):
    p = random_problem(rng, 50)
    far = np.array([5e5, 4e6, 100.0])
    near, moved = solve(p.source, p.target, p.information), solve(p.source + far, p.target + far, p.information)
    shifted = near.T_target_source.copy()
    shifted[:3, 3] += far - near.T_target_source[:3, :3] @ far
    np.testing.assert_allclose(moved.T_target_source[:3, :3], near.T_target_source[:3, :3], atol=1e-9)
    np.testing.assert_allclose(moved.T_target_source[:3, 3], shifted[:3, 3], atol=1e-2)
    residual = p.target + far - (p.source + far) @ moved.T_target_source[:3, :3].T - moved.T_target_source[:3, 3]
    np.testing.assert_allclose(np.einsum("ni,nij,nj->", residual, p.information, residual), near.cost, rtol=1e-3)


def test_a_far_target_with_a_prior_costs_no_digits(rng):
    """Scans in the sensor's frame against a map in UTM."""
    p = random_problem(rng, 50)
    far = np.array([5e5, 4e6, 100.0])
    T_prior = p.T_target_source @ se3.exp(0.01 * rng.standard_normal(6))
    near = solve(p.source, p.target, p.information, PosePrior.isotropic(T_prior, 2e-3, 0.02))
    T_prior = T_prior.copy()
    T_prior[:3, 3] += far
    moved = solve(p.source, p.target + far, p.information, PosePrior.isotropic(T_prior, 2e-3, 0.02))
    assert moved.cost == pytest.approx(near.cost, rel=1e-6)
    np.testing.assert_allclose(moved.T_target_source[:3, :3], near.T_target_source[:3, :3], atol=1e-9)
    np.testing.assert_allclose(moved.T_target_source[:3, 3] - far, near.T_target_source[:3, 3], atol=1e-8)
    np.testing.assert_allclose(moved.information, near.information, rtol=1e-5, atol=1e-3)


@given(seed=seeds)
def test_the_chordal_form_in_centred_coordinates(seed):
    rng = np.random.default_rng(seed)
    prior, frame = random_prior(rng, random_pose(rng)), Frame(rng.standard_normal(3), rng.standard_normal(3), 2.5)
    information = np.linalg.inv(prior.covariance)
    G, Q = lift(frame), chordal_form(prior.T_target_source, information)
    centred = chordal_form(prior.T_target_source, information, frame)
    np.testing.assert_allclose(centred, G.T @ Q @ G, atol=1e-9 * np.abs(Q).max())


@given(seed=seeds)
def test_equivariance(seed):
    """Moving source or target moves the pose; permuting changes nothing; changing units scales the translation."""
    rng = np.random.default_rng(seed)
    p = random_problem(rng, 12, condition=1e3, noise=2.0)
    pose = solve(p.source, p.target, p.information)
    T, A, B = pose.T_target_source, random_pose(rng), random_pose(rng)
    source = p.source @ A[:3, :3].T + A[:3, 3]
    target = p.target @ B[:3, :3].T + B[:3, 3]
    weights = B[:3, :3] @ p.information @ B[:3, :3].T
    moved = solve(source, target, weights)
    np.testing.assert_allclose(moved.T_target_source, B @ T @ se3.inverse(A), atol=1e-7)
    assert moved.cost == pytest.approx(pose.cost, rel=1e-7)
    carry = se3.adjoint(se3.inverse(A))  # T Exp(d) A^-1 = (T A^-1) Exp(Ad(A) d)
    np.testing.assert_allclose(
        moved.information, carry.T @ pose.information @ carry, rtol=1e-5, atol=1e-6 * np.abs(moved.information).max()
    )
    order = rng.permutation(12)
    np.testing.assert_allclose(solve(p.source[order], p.target[order], p.information[order]).T_target_source, T, atol=1e-8)
    scaled = solve(10 * p.source, 10 * p.target, p.information)
    np.testing.assert_allclose(scaled.T_target_source[:3, :3], T[:3, :3], atol=1e-8)
    np.testing.assert_allclose(scaled.T_target_source[:3, 3], 10 * T[:3, 3], atol=1e-6)
    np.testing.assert_allclose(solve(p.source, p.target, 7 * p.information).T_target_source, T, atol=1e-8)


def test_the_information_is_the_inverse_covariance_of_the_pose():
    """Over many draws of the noise, the error of the pose is as large as the information says: its mean NEES is 6."""
    rng = np.random.default_rng(3)
    squares = []
    for _ in range(400):
        p = random_problem(rng, 40, condition=100.0)
        pose = solve(p.source, p.target, p.information)
        error = se3.log(se3.inverse(p.T_target_source) @ pose.T_target_source)
        squares.append(error @ pose.information @ error)
    assert np.mean(squares) == pytest.approx(6.0, rel=0.12)


def test_matches_without_weight_do_not_count(rng):
    p = random_problem(rng, 20)
    information = p.information.copy()
    information[::2] = 0.0
    some = solve(p.source[1::2], p.target[1::2], p.information[1::2])
    np.testing.assert_allclose(solve(p.source, p.target, information).T_target_source, some.T_target_source, atol=1e-10)


# --- the prior


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
    Q = chordal_form(prior.T_target_source, np.linalg.inv(prior.covariance))
    for size in (1e-2, 1e-3):
        T = prior.T_target_source @ se3.exp(size * rng.standard_normal(6))
        exact = exact_prior(T, prior)
        assert lifted_pose(T) @ Q @ lifted_pose(T) == pytest.approx(exact, rel=30 * size)


@given(seed=seeds)
def test_the_chordal_prior_is_smallest_at_the_measured_pose(seed):
    """For any covariance, correlated ones included, and any other pose."""
    rng = np.random.default_rng(seed)
    prior = random_prior(rng, random_pose(rng))
    Q = chordal_form(prior.T_target_source, np.linalg.inv(prior.covariance))
    x = lifted_pose(prior.T_target_source)
    scale = np.abs(Q).max()
    assert abs(x @ Q @ x) < 1e-9 * scale
    for _ in range(50):
        T = prior.T_target_source @ random_pose(rng, shift=rng.choice([0.0, 0.1, 3.0]))
        assert lifted_pose(T) @ Q @ lifted_pose(T) > -1e-9 * scale


def test_the_isotropic_prior_is_the_plain_chordal_distance(rng):
    T, prior = random_pose(rng), PosePrior.isotropic(random_pose(rng), rotation=0.1, translation=0.5)
    Q = chordal_form(prior.T_target_source, np.linalg.inv(prior.covariance))
    d = T - prior.T_target_source
    expected = (d[:3, :3] ** 2).sum() / (2 * 0.1**2) + (d[:3, 3] ** 2).sum() / 0.5**2
    assert lifted_pose(T) @ Q @ lifted_pose(T) == pytest.approx(expected)


def test_poses_with_a_prior_are_certified_and_optimal():
    """No Newton descent of matches plus prior from 30 starts finds less."""
    rng = np.random.default_rng(2)
    from scipy.optimize import minimize

    for _ in range(25):
        p = random_problem(rng, 8, condition=1e3, noise=3.0)
        prior = random_prior(rng, p.T_target_source @ se3.exp(0.3 * rng.standard_normal(6)))
        pose = solve(p.source, p.target, p.information, prior)
        assert pose.certified
        Q = quadratic_form(p.source, p.target, p.information) + chordal_form(prior.T_target_source, np.linalg.inv(prior.covariance))

        def cost(xi, base, Q=Q):
            x = lifted_pose(base @ se3.exp(xi))
            return x @ Q @ x

        assert pose.cost == pytest.approx(cost(np.zeros(6), pose.T_target_source), rel=1e-6)
        for _ in range(10):
            start = pose.T_target_source @ random_pose(rng, shift=0.5)
            assert minimize(cost, np.zeros(6), args=(start,)).fun >= pose.cost * (1 - 1e-6)
        slope = approx_fprime(np.zeros(6), cost, 1e-7, pose.T_target_source)
        assert np.abs(slope).max() < 1e-3 * np.abs(Q).max()


def test_a_strong_prior_holds_the_pose_and_a_weak_one_does_not(rng):
    p = random_problem(rng, 30)
    T_prior = p.T_target_source @ se3.exp(np.full(6, 0.2))
    strong = solve(p.source, p.target, p.information, PosePrior.isotropic(T_prior, 1e-6, 1e-6))
    weak = solve(p.source, p.target, p.information, PosePrior.isotropic(T_prior, 1e3, 1e3))
    np.testing.assert_allclose(strong.T_target_source, T_prior, atol=1e-4)
    np.testing.assert_allclose(weak.T_target_source, solve(p.source, p.target, p.information).T_target_source, atol=1e-6)


def test_a_prior_makes_degenerate_matches_solvable(rng):
    T = random_pose(rng)
    prior = PosePrior.isotropic(T, 0.1, 0.1)
    for count in (0, 1, 2):
        source = rng.standard_normal((count, 3))
        pose = solve(source, source @ T[:3, :3].T + T[:3, 3], np.tile(100 * np.eye(3), (count, 1, 1)), prior)
        assert pose.certified
        np.testing.assert_allclose(pose.T_target_source, T, atol=1e-7)


def test_the_information_with_a_prior(rng):
    """Gauss-Newton of the matches plus J' Gamma^-1 J of the paper's own prior, by differences."""
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


# --- what is refused


def line(count: int) -> np.ndarray:
    return np.outer(np.arange(count), [1.0, 2.0, 3.0])


EYES = np.tile(np.eye(3), (5, 1, 1))
CLOUD = np.random.default_rng(0).standard_normal((5, 3))


@pytest.mark.parametrize(
    ("source", "target", "information", "kind", "says"),
    [
        (CLOUD[:2], CLOUD[:2], EYES[:2], DegenerateError, "2 matches with weight; at least 3"),
        (CLOUD[:0], CLOUD[:0], EYES[:0], DegenerateError, "0 matches"),
        (line(5), CLOUD, EYES, DegenerateError, "5 source points are collinear"),
        (np.ones((5, 3)), CLOUD, EYES, DegenerateError, "5 source points coincide"),
        (CLOUD, CLOUD, 0 * EYES, DegenerateError, "0 matches with weight"),
        (CLOUD, CLOUD, EYES * np.diag([1.0, 1, 0]), DegenerateError, r"sum of the weights is singular.*\(.*1.00\)"),
        (CLOUD, np.where(np.eye(5, 3) > 0, np.nan, CLOUD), EYES, InputError, "target: row 0 is not finite"),
        (np.where(np.eye(5, 3) > 0, np.inf, CLOUD), CLOUD, EYES, InputError, "source: row 0 is not finite"),
        (CLOUD, CLOUD, EYES * np.array([[1, 9, 1], [1, 1, 1], [1, 1, 1.0]]) + np.eye(3, k=1), InputError, "row 0 is not symmetric"),
        (CLOUD, CLOUD, EYES * np.diag([1.0, 1, -1]), InputError, "row 0 is not positive semidefinite"),
        (CLOUD[:4], CLOUD, EYES, InputError, "do not fit"),
    ],
)
def test_degenerate_and_bad_input_is_named(source, target, information, kind, says):
    with pytest.raises(kind, match=says):
        solve(source, target, information)


def test_parallel_planes_leave_a_rotation_open(rng):
    """Point-to-plane weights on one sphere about the origin: any rotation fits."""
    directions = rng.standard_normal((30, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    with pytest.raises(DegenerateError, match="rotation about"):
        solve(directions, directions, np.einsum("ni,nj->nij", directions, directions))


@pytest.mark.parametrize("covariance", [np.eye(5), np.zeros((6, 6)), -np.eye(6), np.full((6, 6), np.nan), np.triu(np.ones((6, 6)))])
def test_bad_priors_are_named(covariance):
    with pytest.raises(InputError, match="prior's covariance"):
        solve(CLOUD, CLOUD, EYES, PosePrior(np.eye(4), covariance))
    with pytest.raises(InputError, match="prior's T_target_source"):
        solve(CLOUD, CLOUD, EYES, PosePrior(2 * np.eye(4), np.eye(6)))
    with pytest.raises(InputError, match="positive"):
        PosePrior.isotropic(np.eye(4), 0.0, 1.0)
