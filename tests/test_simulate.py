"""Simulated scans lie on the surfaces that the scene says."""

import numpy as np

from oracles import random_pose
from poli.data.simulate import SENSORS, Scene, Sensor, simulate_scan, small_street
from poli.data.simulate.scene import Box, Ground, Quadric

EXACT = Sensor(tuple(np.linspace(-30, 30, 40)), steps=90, farthest=100.0, noise=0.0)


def lifted(height: float) -> np.ndarray:
    T = np.eye(4)
    T[2, 3] = height
    return T


def test_ground_box_sphere_and_cylinder_are_where_they_should_be():
    scan = simulate_scan(Scene((Ground(),)), EXACT, lifted(2.0))
    np.testing.assert_allclose(scan.points[:, 2], -2.0, atol=1e-5)
    np.testing.assert_allclose(scan.fields["normal"], np.tile([0, 0, 1.0], (len(scan), 1)), atol=1e-6)
    box = Box((8.0, 1.0, 0.0), (2.0, 4.0, 6.0), yaw=0.4)
    scan = simulate_scan(Scene((box,)), EXACT, np.eye(4))
    turn = np.array([[np.cos(0.4), -np.sin(0.4), 0], [np.sin(0.4), np.cos(0.4), 0], [0, 0, 1]])
    local = np.abs((scan.points - [8.0, 1.0, 0.0]) @ turn) - [1.0, 2.0, 3.0]
    np.testing.assert_allclose(local.max(axis=1), 0.0, atol=1e-5)
    ball = simulate_scan(Scene((Quadric((0.0, 6.0, 1.0), (1.0, 1.0, 1.0)),)), EXACT, np.eye(4))
    away = ball.points - [0.0, 6.0, 1.0]
    np.testing.assert_allclose(np.linalg.norm(away, axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(ball.fields["normal"], away, atol=1e-5)
    post = simulate_scan(Scene((Quadric((5.0, 0.0, 0.0), (0.5, 0.5, np.inf), height=2.0),)), EXACT, np.eye(4))
    np.testing.assert_allclose(np.hypot(post.points[:, 0] - 5.0, post.points[:, 1]), 0.5, atol=1e-5)
    assert np.abs(post.points[:, 2]).max() <= 1.0


def test_the_nearest_surface_hides_the_others():
    scan = simulate_scan(Scene((Box((10.0, 0, 0), (1, 50, 50)), Box((5.0, 0, 0), (1, 50, 50)))), EXACT, np.eye(4))
    assert scan.points[:, 0].max() < 4.6


def test_scans_are_in_the_sensors_frame(rng):
    """A turned sensor sees the same world: its points, moved back, lie on the same plane."""
    T = random_pose(rng, 0.0)
    T[2, 3] = 2.0
    scan = simulate_scan(Scene((Ground(),)), EXACT, T)
    np.testing.assert_allclose(scan.transform(T).points[:, 2], 0.0, atol=1e-4)
    np.testing.assert_allclose(scan.fields["normal"] @ T[:3, :3].T, np.tile([0, 0, 1.0], (len(scan), 1)), atol=1e-5)


def test_streets_repeat_by_seed_and_differ_between_seeds():
    a, b, c = (simulate_scan(small_street(seed), SENSORS["vlp16"], lifted(1.8)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(a.points, b.points)
    assert len(a) != len(c)
    assert set(np.unique(a.fields["ring"])) <= set(range(16))
    assert len(a) > 20_000
