"""GICP on ellipsoids: the kernel and its formulas, its poses, and its reports of undetermined directions."""

import numpy as np
import pytest
from hypothesis import given

from oracles import random_covariances, random_field, seeds
from poli import se3
from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.estimation import pca
from poli.lidar_odometry.deskewing import Sweep
from poli.lidar_odometry.gicp import GicpConfig, align, gicp, normal_equations
from poli.lidar_odometry.matching import Matching, Metric, Target, WeightedPoints


def room(rng: np.random.Generator, count: int = 4000, noise: float = 0.005) -> np.ndarray:  # (count, 3)
    """Floor, two walls and a slanted roof: every direction is constrained."""
    u, v = rng.uniform(-5, 5, (2, count))
    kind = rng.integers(4, size=count)
    planes = [
        np.stack([u, v, np.full(count, -1.0)], 1),
        np.stack([u, np.full(count, 4.0), 0.4 * v], 1),
        np.stack([np.full(count, 6.0), u, 0.4 * v], 1),
        np.stack([u, v, 3.0 + 0.5 * v], 1),
    ]
    return np.choose(kind[:, None], planes) + noise * rng.standard_normal((count, 3))


def corridor(rng: np.random.Generator, count: int = 4000) -> np.ndarray:
    x, u = rng.uniform(-20, 20, count), rng.uniform(-1, 1, count)
    kind = rng.integers(4, size=count)
    walls = [np.stack([x, np.full(count, s * 1.5), 1.2 * u], 1) for s in (-1, 1)]
    walls += [np.stack([x, 1.5 * u, np.full(count, s * 1.2)], 1) for s in (-1, 1)]
    return np.choose(kind[:, None], walls) + 0.01 * rng.standard_normal((count, 3))


def motion(rotation: float = 2.0, shift: float = 0.3) -> np.ndarray:
    return se3.exp(np.concatenate([np.deg2rad(rotation) * np.array([0.2, -0.3, 0.9]), shift * np.array([0.8, 0.5, -0.1])]))


def taken(points: WeightedPoints, rows: np.ndarray) -> WeightedPoints:  # (k,)
    return WeightedPoints(points.means[rows], points.shapes[rows], points.normals[rows], points.flatness[rows])


@pytest.mark.parametrize("kind", ["surfaces", "raw"])
@given(seeds)
def test_the_kernel_adds_up_the_formulas(kind, seed):
    rng = np.random.default_rng(seed)
    metric = Metric(kind, thickness=0.05)
    source, target = metric(random_field(rng, 300)), Target(random_field(rng, 60), metric)
    T, scale = se3.exp(0.1 * rng.standard_normal(6)), rng.uniform(0.5, 20.0)
    # All points at rest, but following the pose more or less: a sweep of times whose motion is none.
    sweep = Sweep(source.means, rng.uniform(-0.05, 0.05, 300), T, 0.1)
    matching = Matching(source, target, 3.0, sweep)
    found, rows = matching.linearize(T, scale), matching.rows
    matched = np.flatnonzero(rows >= 0)
    expected = normal_equations(taken(source, matched), taken(target.weighed, rows[matched]), T, scale, sweep.follow[matched])
    assert found.matched == expected.matched
    np.testing.assert_allclose(found.H, expected.H, rtol=1e-9, atol=1e-9 * np.abs(expected.H).max())
    np.testing.assert_allclose(found.g, expected.g, rtol=1e-9, atol=1e-9 * np.abs(expected.g).max())
    np.testing.assert_allclose((found.cost, found.weight), (expected.cost, expected.weight))


@given(seeds)
def test_the_gradient_is_that_of_the_cost(seed):
    """With the covariances of T, which GICP keeps fixed within a step."""
    rng = np.random.default_rng(seed)
    metric = Metric("raw", thickness=0.05)
    source, target = metric(random_field(rng, 40)), metric(random_field(rng, 40))
    T = se3.exp(0.1 * rng.standard_normal(6))
    W = np.linalg.inv(target.covariances + T[:3, :3] @ source.covariances @ T[:3, :3].T)

    def cost(xi):
        U = T @ se3.exp(xi)
        d = target.means - (source.means @ U[:3, :3].T + U[:3, 3])
        return 4.0 * np.log1p(np.einsum("ni,nij,nj->n", d, W, d) / 4.0).sum()

    found, step = normal_equations(source, target, T, 2.0), 1e-6
    assert found.cost == pytest.approx(cost(np.zeros(6)))
    slope = np.array([(cost(step * e) - cost(-step * e)) / (2 * step) for e in np.eye(6)])
    np.testing.assert_allclose(2.0 * found.g, slope, rtol=1e-4, atol=1e-4 * np.abs(slope).max())


@given(seeds)
def test_matches_are_the_nearest_within_the_gate(seed):
    rng = np.random.default_rng(seed)
    source, target = random_field(rng, 30), random_field(rng, 50)
    T = se3.exp(0.3 * rng.standard_normal(6))
    matching = Matching(Metric()(source), Target(target), 2.0)
    # From poses near and far, so that some matches are kept and others are searched again.
    for U in (T @ se3.exp(0.5 * rng.standard_normal(6)), T @ se3.exp(0.03 * rng.standard_normal(6)), T):
        matching.linearize(U, 1.0, same=0.0)
    distance = np.linalg.norm(target.means[None] - (source.means @ T[:3, :3].T + T[:3, 3])[:, None], axis=2)
    expected = np.where(distance.min(axis=1) < 2.0, distance.argmin(axis=1), -1)
    np.testing.assert_array_equal(matching.rows, expected)


def test_finds_the_motion_between_two_samples_of_a_room(rng):
    T = motion()
    target, source = pca(room(rng), k=16), pca(room(rng) @ T[:3, :3] - T[:3, 3] @ T[:3, :3], k=16)
    found = gicp(source, target)
    error = se3.log(se3.inverse(T) @ found.T_target_source)
    assert np.linalg.norm(error[3:]) < 2e-3
    assert np.degrees(np.linalg.norm(error[:3])) < 0.02
    assert found.converged
    assert not found.degeneracy.any
    assert found.fit > 0.95
    assert found.overlap > 0.99
    assert found.residual < 0.02


def test_the_order_of_points_and_the_threads_do_not_matter(rng, monkeypatch):
    target, source = pca(room(rng), k=16), pca(room(rng) @ motion()[:3, :3], k=16)
    rows = rng.permutation(len(source))
    once = gicp(source, target).T_target_source
    np.testing.assert_allclose(gicp(source.select(rows), target).T_target_source, once, atol=1e-7)
    monkeypatch.setenv("POLI_NUM_THREADS", "1")
    np.testing.assert_array_equal(gicp(source, target).T_target_source, once)


def test_the_pose_follows_the_frame_of_the_target(rng):
    """Equivariance: moving the target moves the pose with it."""
    target, source, T = pca(room(rng), k=16), pca(room(rng), k=16), se3.exp(np.array([0.3, -0.2, 1.0, 4.0, -2.0, 1.0]))
    still = gicp(source, target, motion(1.0, 0.1))
    moved = gicp(source, target.transform(T), T @ motion(1.0, 0.1))
    np.testing.assert_allclose(moved.T_target_source, T @ still.T_target_source, atol=2e-5)


def test_outliers_do_not_bias_the_pose(rng):
    T = motion(1.0, 0.2)
    clean = room(rng) @ T[:3, :3] - T[:3, 3] @ T[:3, :3]
    clean[:1200] += rng.uniform(0.1, 0.8, (1200, 1)) * np.array([0.0, 0.0, 1.0])  # three in ten are off, all to one side
    error = se3.log(se3.inverse(T) @ gicp(pca(clean, k=16), pca(room(rng), k=16)).T_target_source)
    assert np.linalg.norm(error[3:]) < 0.01


def test_information_matches_the_errors(rng):
    """Over many draws, pose errors agree with the information within a factor: it is meant for weighting, not for proofs."""
    T, nees = motion(1.0, 0.1), []
    for _ in range(12):
        target, source = pca(room(rng), k=16), pca(room(rng) @ T[:3, :3] - T[:3, 3] @ T[:3, :3], k=16)
        found = gicp(source, target)
        xi = se3.log(se3.inverse(T) @ found.T_target_source)
        nees.append(xi @ found.information @ xi)
    assert 0.02 * 6 < np.mean(nees) < 5 * 6
    np.testing.assert_allclose(found.covariance @ found.information, np.eye(6), atol=1e-5)


def test_a_corridor_constrains_nothing_along_its_axis(rng):
    guess = se3.exp(np.array([0, 0, 0, 0.4, 0.02, 0.01]))
    found = gicp(pca(corridor(rng), k=16), pca(corridor(rng), k=16), guess)
    weak = found.degeneracy.directions[found.degeneracy.weak]
    assert len(weak) == 1
    assert abs(weak[0, 3]) > 0.99 * np.linalg.norm(weak[0, 3:])
    assert "moving along (+1.00" in str(found.degeneracy)
    # Along the axis the pose keeps its initial guess; across it, the pose is found.
    assert found.T_target_source[0, 3] == pytest.approx(0.4, abs=1e-3)
    np.testing.assert_allclose(found.T_target_source[1:3, 3], 0.0, atol=3e-3)


def test_distant_points_are_not_matched(rng):
    source, target = pca(room(rng), k=16), pca(room(rng) + [100.0, 0.0, 0.0], k=16)
    found = gicp(source, target)
    assert found.matched == 0
    assert found.fit == 0.0
    assert not found.converged
    np.testing.assert_array_equal(found.T_target_source, np.eye(4))


def test_metric_keeps_directions_and_trusts_thin_ellipsoids(rng):
    field = Ellipsoids(rng.standard_normal((50, 3)), random_covariances(rng, 50))
    weighed = Metric(thickness=0.02, trust=0.1)(field)
    values = np.linalg.eigvalsh(weighed.covariances)
    np.testing.assert_allclose(values, np.tile([0.02**2, 1.0, 1.0], (50, 1)), atol=1e-12)
    across = np.einsum("ni,nij,nj->n", weighed.normals, field.covariances, weighed.normals)
    np.testing.assert_allclose(weighed.weights, 0.01 / (0.01 + across))
    raw = Metric("raw", thickness=0.02)(field)
    np.testing.assert_allclose(raw.covariances, field.covariances + 4e-4 * np.eye(3))


@pytest.mark.parametrize(
    ("bad", "name"),
    [
        (lambda: Metric("flat"), "kind"),
        (lambda: Metric(thickness=0.0), "thickness"),
        (lambda: GicpConfig(max_distance=-1.0), "max_distance"),
        (lambda: GicpConfig(iterations=0), "iterations"),
        (lambda: gicp(random_field(np.random.default_rng(0)), random_field(np.random.default_rng(0), 0)), "target"),
        (lambda: gicp(random_field(np.random.default_rng(0), 0), random_field(np.random.default_rng(0))), "source"),
        (lambda: gicp(*[random_field(np.random.default_rng(0))] * 2, guess=np.ones((4, 4))), "guess"),
    ],
)
def test_bad_input_is_refused(bad, name):
    with pytest.raises(InputError, match=name):
        bad()


def test_identical_and_tiny_fields_do_not_fail(rng):
    for points in (np.zeros((5, 3)), np.tile([[1.0, 2.0, 3.0]], (20, 1)), rng.standard_normal((3, 3))):
        field = Ellipsoids(points, np.tile(np.eye(3), (len(points), 1, 1)))
        found = align(Metric()(field), Target(field), np.eye(4), GicpConfig())
        assert np.isfinite(found.T_target_source).all()
