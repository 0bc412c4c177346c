"""Which motions a place leaves undetermined: bare places with a known answer, and the odometry in them."""

import numpy as np
import pytest

from bare_places import measure, motion_name, recorded, scenarios
from poli.lidar_odometry.degeneracy import UNITS, degeneracy

PLACES = {f"{s.name}, {'handheld' if s.handheld else 'driven'}": s for s in scenarios()}
SCANS = 8


@pytest.mark.parametrize(
    "name",
    [
        "corridor, handheld",
        "corridor, end 20 m ahead, handheld",
        "corridor with door frames, handheld",
        "stairwell, handheld",
        "square tunnel, driven",
        "open field, driven",
        "parking deck, driven",
    ],
)
def test_exactly_the_undetermined_motions_are_reported(name):
    place = PLACES[name]
    scans, poses = recorded(place, SCANS, seed=3)
    found = measure(place, scans, poses, 0.3)
    assert found["right"] == found["scans"] == SCANS - 1, found["reported"]
    assert found["error_cm"] < 3.0
    assert found["error_deg"] < 0.5
    if not place.undetermined:
        assert found["wall_mm"] < 1.2 * found["true_wall_mm"]


def test_in_a_round_tunnel_the_motion_along_it_is_reported_always_and_the_turn_about_it_mostly():
    place = PLACES["round tunnel, driven"]  # wrong normals, of points on rings far away, resist the turn
    scans, poses = recorded(place, SCANS, seed=3)
    found = measure(place, scans, poses, 0.3)
    reported = dict(part.split() for part in found["reported"].split(", "))
    assert reported.keys() == {"x", "roll"}
    assert int(reported["x"]) == SCANS - 1
    assert int(reported["roll"]) >= 4
    assert found["error_cm"] < 3.0
    assert found["error_deg"] < 0.5


def test_walls_within_15_degrees_of_the_horizon_determine_the_roll():
    """The levers of a corridor's walls about its axis are short and far from parallel to the motion, but thousands."""
    place = PLACES["corridor, handheld"]
    scans, poses = recorded(place, 25, seed=3)  # a second of walking: the sensor rolls by 3 degrees to both sides
    found = measure(place, scans, poses, 0.5)
    assert "roll" not in found["reported"]
    assert found["error_deg"] < 0.3


def corridor(rng, count=4000):
    """Points and normals of two walls, a floor and a ceiling along x."""
    x, u = rng.uniform(-20, 20, count), rng.uniform(-1, 1, count)
    side = rng.integers(4, size=count)
    normals = np.array([[0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1.0]])[side]
    points = np.where((side < 2)[:, None], np.stack([x, 0 * x, 1.2 * u], 1), np.stack([x, u, 0 * x], 1))
    return points - np.where((side < 2)[:, None], 1.0, 1.2) * normals, normals


def tilted(rng, normals, degrees):
    turned = normals + np.deg2rad(degrees) * rng.standard_normal(normals.shape)
    return turned / np.linalg.norm(turned, axis=1, keepdims=True)


@pytest.mark.parametrize("degrees", [0.0, 3.0, 5.0])
def test_noise_in_thousands_of_normals_is_no_information(rng, degrees):
    points, normals = corridor(rng, 20_000)
    found = degeneracy(points, tilted(rng, normals, degrees), tilted(rng, normals, degrees), np.ones(20_000), 0.03)
    assert found.weak.sum() == 1
    assert motion_name(found.directions[found.weak][0], np.eye(4)) == "x"
    assert found.strengths[found.weak][0] < 0.5


def test_a_few_wrong_surfaces_are_no_information_and_an_end_is(rng):
    points, normals = corridor(rng)
    for share, weak in ((0.003, 1), (0.03, 0)):
        rows = rng.random(len(points)) < share
        facing = np.where(rows[:, None], [1.0, 0.0, 0.0], normals)
        assert degeneracy(points, facing, facing, np.ones(len(points)), 0.03).weak.sum() == weak


def test_a_mixed_motion_is_found(rng):
    """In a round tunnel, the sensor can turn about the axis of the tunnel, which is not its own."""
    angle, x = rng.uniform(0, 2 * np.pi, 5000), rng.uniform(-30, 30, 5000)
    normals = np.stack([0 * x, np.cos(angle), np.sin(angle)], 1)
    points = 4.0 * normals + np.stack([x, 0 * x, 0 * x], 1) + [0.0, 0.0, 2.0]
    found = degeneracy(points, normals, normals, np.ones(5000), 0.05)
    assert found.weak.sum() == 2
    about_axis = np.array([1.0, 0, 0, 0, 2.0, 0]) / UNITS  # the axis is 2 m above the sensor: w x (p - c) = w x p - w x c
    span = (found.directions / UNITS)[found.weak]
    np.testing.assert_allclose(span.T @ (span @ about_axis), about_axis, atol=0.02 * np.linalg.norm(about_axis))


def test_strengths_are_information(rng):
    """Of a cube around the sensor: a shift is known to deviation / sqrt(number of points that face it)."""
    side = rng.integers(3, size=6000)
    points = rng.uniform(-5, 5, (6000, 3))
    normals = np.eye(3)[side]
    points[np.arange(6000), side] = 5.0
    strong = degeneracy(points, normals, normals, np.ones(6000), 0.2)
    assert not strong.any
    shifts = np.linalg.norm((strong.directions / UNITS)[:, 3:], axis=1) > 0.9
    np.testing.assert_allclose(np.sqrt(strong.strengths[shifts]), UNITS[3] / 0.2 * np.sqrt(2000), rtol=0.15)
    assert degeneracy(points, normals, normals, np.ones(6000), 200.0).weak.all()


def test_without_matches_everything_is_undetermined():
    none = np.zeros((0, 3))
    found = degeneracy(none, none, none, np.zeros(0), 0.05)
    assert found.weak.all()
    assert found.free.shape == (6, 0)
