"""Simulated scans lie on the surfaces of the world."""

import itertools

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.ndimage import gaussian_filter1d
from scipy.spatial import cKDTree

from oracles import random_pose
from poli.errors import FormatError, InputError
from poli.se3 import inverse
from poli.worlds import SENSORS, Ride, Sensor, Trajectory, World, find_sensor, simulate_scan, sweep, usual_ride
from poli.worlds.drive import Drive
from poli.worlds.places import Label, Mover, Place, make_place
from poli.worlds.sensors import Raster
from poli.worlds.trajectory import Spline, gaussian_smoothed
from poli.worlds.triangles import TriangleIndex

EXACT = Sensor(tuple(np.linspace(-30, 30, 40)), steps=90, max_range=100.0, noise=0.0, divergence=0.0, dropout=0.0)
ROUTE = np.stack([np.arange(60.0), np.zeros(60), np.zeros(60)], axis=1)


def square(center, u, v):
    """Two triangles: center +- u +- v."""
    c, u, v = (np.array(a, float) for a in (center, u, v))
    a, b, d, e = c - u - v, c + u - v, c + u + v, c - u + v
    return np.array([[a, b, d], [a, d, e]], np.float32)


def world_of(*patches, movers=(), labels=None) -> World:
    triangles = np.concatenate(patches)
    kinds = np.full(len(triangles), Label.GROUND) if labels is None else np.repeat(labels, 2)
    return World(Place("test", 0, triangles, kinds.astype(np.uint8), ROUTE, tuple(movers)))


FLOOR = square((0, 0, 0), (150, 0, 0), (0, 150, 0))


def lifted(height: float) -> np.ndarray:
    T = np.eye(4)
    T[2, 3] = height
    return T


def test_rays_and_nearest_surfaces_agree_with_a_brute_force_search(rng):
    triangles = (rng.uniform(-5, 5, (300, 1, 3)) + rng.normal(0, 0.5, (300, 3, 3))).astype(np.float32)
    index = TriangleIndex(triangles)
    origins, directions = rng.uniform(-6, 6, (200, 3)), rng.standard_normal((200, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    distance, hit = index.cast(origins, directions, 50.0)
    a = triangles[:, 0].astype(float)
    u, v = (triangles[:, corner].astype(float) - a for corner in (1, 2))
    for o, d, far, which in zip(origins, directions, distance, hit, strict=True):
        p, t = np.cross(d, v), o - a
        det = (u * p).sum(1)
        s, q = (t * p).sum(1) / det, np.cross(t, u)
        r, along = (q @ d) / det, (v * q).sum(1) / det
        met = (s >= 0) & (r >= 0) & (s + r <= 1) & (along > 0)
        expected = along[met].min() if met.any() else np.inf
        assert far == pytest.approx(expected, abs=1e-3)
        assert (which >= 0) == np.isfinite(expected)
    points = rng.uniform(-6, 6, (40, 3))
    near, _ = index.nearest(points)
    grid = [(s, t) for s in np.linspace(0, 1, 25) for t in np.linspace(0, 1, 25) if s + t <= 1]
    brute = np.min([np.linalg.norm(a + s * u + t * v - points[:, None], axis=2).min(axis=1) for s, t in grid], axis=0)
    assert (near <= brute + 1e-5).all()
    np.testing.assert_allclose(near, brute, atol=0.05)


def test_a_floor_and_a_wall_are_in_the_right_place():
    scan = simulate_scan(world_of(FLOOR), EXACT, lifted(2.0))
    np.testing.assert_allclose(scan.points[:, 2], -2.0, atol=1e-4)
    np.testing.assert_allclose(scan.fields["normal"], np.tile([0, 0, 1.0], (len(scan), 1)), atol=1e-6)
    near, far = square((5, 0, 0), (0, 40, 0), (0, 0, 40)), square((10, 0, 0), (0, 40, 0), (0, 0, 40))
    hidden = simulate_scan(world_of(far, near), EXACT, np.eye(4))
    np.testing.assert_allclose(hidden.points[:, 0], 5.0, atol=1e-4)
    np.testing.assert_allclose(hidden.fields["normal"], np.tile([-1.0, 0, 0], (len(hidden), 1)), atol=1e-6)


def test_scans_are_in_the_sensors_frame(rng):
    T = random_pose(rng, 0.0)
    T[2, 3] = 2.0
    world = world_of(FLOOR)
    scan = simulate_scan(world, EXACT, T)
    assert world.distance(scan.transform(T).points.astype(float)).max() < 1e-4
    np.testing.assert_allclose(scan.fields["normal"] @ T[:3, :3].T, np.tile([0, 0, 1.0], (len(scan), 1)), atol=1e-5)


def test_noise_and_dropouts_are_as_configured():
    wall = world_of(*(square(c, u, (0, 0, 30)) for c, u in (((9, 0, 0), (0, 30, 0)), ((-9, 0, 0), (0, 30, 0)))))
    noisy = Sensor((0.0,), 3600, max_range=100.0, noise=0.05, divergence=0.0, dropout=0.2)
    scan = simulate_scan(wall, noisy, np.eye(4))
    along = np.abs(scan.points[:, 0]) - 9.0
    cosine = np.abs(scan.points[:, 0]) / np.linalg.norm(scan.points, axis=1)
    assert np.std(along / cosine) == pytest.approx(0.05, rel=0.1)
    exact = simulate_scan(wall, Sensor((0.0,), 3600, max_range=100.0, noise=0.0, divergence=0.0, dropout=0.0), np.eye(4))
    assert len(scan) / len(exact) == pytest.approx(0.8, abs=0.03)


def test_far_and_slanted_surfaces_return_less():
    near, far = (simulate_scan(world_of(square((x, 0, 0), (0, 60, 0), (0, 0, 60))), EXACT, np.eye(4)) for x in (10.0, 80.0))
    assert len(far) < 0.8 * len(near)
    floor = simulate_scan(world_of(FLOOR), SENSORS["os2_128"], lifted(1.8))
    assert np.linalg.norm(floor.points, axis=1).max() < 80.0  # at one degree of incidence few returns come back


def test_wide_beams_mix_two_surfaces_at_an_edge_and_nowhere_else():
    front, back = square((10, 0, 0), (0, 1, 0), (0, 0, 5)), square((11, 0, 0), (0, 30, 0), (0, 0, 30))
    wide = Sensor(tuple(np.linspace(-5, 5, 50)), 3600, max_range=100.0, noise=0.0, divergence=0.02, dropout=0.0)
    scan = simulate_scan(world_of(front, back), wide, np.eye(4))
    between = (scan.points[:, 0] > 10.1) & (scan.points[:, 0] < 10.9) & (np.abs(scan.points[:, 1]) < 3)
    assert between.sum() > 50
    assert np.mean(np.abs(scan.points[between, 1] - np.sign(scan.points[between, 1])) < 0.4) > 0.99
    assert scan.fields["mixed"][between].mean() > 0.95
    plain = simulate_scan(world_of(back), wide, np.eye(4))
    assert plain.fields["mixed"].sum() == 0


def test_a_sweep_of_a_moving_sensor_is_skewed_unless_it_is_deskewed():
    world = world_of(FLOOR, square((30, 0, 0), (0, 60, 0), (0, 0, 30)))
    ride = Ride(speed=15.0, sway=0.0, heave=0.0)
    trajectory = Trajectory(ROUTE, ride)
    for deskewed in (True, False):
        scan = sweep(world, EXACT, trajectory.poses, 0.5, deskewed=deskewed)
        T = trajectory.poses(np.array([0.5]))[0]
        off = world.distance(scan.transform(T).points.astype(float))
        assert (off.max() < 1e-3) == deskewed
        own = trajectory.poses(0.5 + scan.fields["time"].astype(float))
        if not deskewed:
            home = np.einsum("mij,mj->mi", own[:, :3, :3], scan.points.astype(float)) + own[:, :3, 3]
            assert world.distance(home).max() < 1e-3
    assert scan.stamp == 500_000_000


def test_moving_cars_are_seen_at_their_positions():
    car = np.concatenate([square((0, 0, 1), (2, 0, 0), (0, 0, 1)), square((2, 0, 1), (0, 1, 0), (0, 0, 1))])
    lane = ROUTE + [0.0, 6.0, 0.0]
    world = world_of(FLOOR, movers=[Mover(car.astype(np.float32), lane, 10.0, 5.0)])
    here = lambda times: np.tile(lifted(1.5), (len(times), 1, 1))  # noqa: E731
    where = []
    for start in (0.0, 1.0):
        scan = sweep(world, EXACT, here, start)
        moving = scan.fields["moving"] > 0
        where.append(scan.points[moving, 0].mean())
        assert (scan.fields["label"][moving] == Label.VEHICLE).all()
    assert where[1] - where[0] == pytest.approx(10.0, abs=1.5)
    assert sweep(world, EXACT, here, movers=False).fields["moving"].sum() == 0


def test_rides_are_smooth_and_follow_the_ground():
    hill = ROUTE.copy()
    hill[:, 2] = 0.1 * hill[:, 0]
    trajectory = Trajectory(hill, Ride(speed=10.0, height=2.0, sway=1.0), seed=3)
    times = np.linspace(0.0, trajectory.duration, 2000)
    T = trajectory.poses(times)
    assert np.abs(np.linalg.det(T[:, :3, :3]) - 1.0).max() < 1e-9
    np.testing.assert_allclose(T[:, 2, 3] - 0.1 * T[:, 0, 3], 2.0, atol=0.4)
    nose = T[500:1500, 2, 0].mean()  # the x axis points uphill
    assert nose == pytest.approx(0.1 / np.hypot(1, 0.1), abs=0.02)
    steps = [np.linalg.norm(inverse(a)[:3, :3] @ b[:3, :3] - np.eye(3)) for a, b in itertools.pairwise(T)]
    assert max(steps) < 0.01
    speeds = np.linalg.norm(np.diff(T[:, :2, 3], axis=0), axis=1) / np.diff(times)
    np.testing.assert_allclose(speeds * np.hypot(1, 0.1), 10.0, rtol=0.02)  # at the ends, too
    with pytest.raises(InputError, match="lasts"):
        trajectory.poses(np.array([1e3]))


def test_drives_are_reproducible_and_measured_poses_have_the_requested_noise():
    world = world_of(FLOOR, square((40, 0, 0), (0, 60, 0), (0, 0, 30)))
    drive = Drive(world, EXACT, Ride(speed=2.0), 200, seed=4, rotation_noise=0.5, translation_noise=0.1)
    assert np.std((drive.measured - drive.poses)[:, :3, 3]) == pytest.approx(0.1, rel=0.15)
    first = [next(iter(drive)).points for _ in range(2)]
    np.testing.assert_array_equal(*first)
    with pytest.raises(InputError, match="count is"):
        Drive(world, EXACT, Ride(speed=2.0), 100_000)


@pytest.mark.parametrize("kind", ["town", "rooms"])
def test_every_sensor_sees_a_place(kind):
    world = World(make_place(kind, 3))
    T = Trajectory(world.place.route, usual_ride(kind)).poses(np.array([5.0]))[0]
    for name, sensor in SENSORS.items():
        if (kind, name) == ("town", "depth_camera"):  # everything is too far away
            continue
        scan, rays = simulate_scan(world, sensor, T), sensor.rays(0.0, 0.0)
        assert len(scan) > 0.3 * len(rays.directions), name
        near = world.distance(scan.transform(T).points.astype(float))
        assert np.quantile(near[scan.fields["mixed"] == 0], 0.99) < 0.2, name
        assert set(np.unique(scan.fields["ring"])) <= set(np.unique(rays.rings)), name


@pytest.mark.parametrize("name", SENSORS)
def test_rays_are_unit_vectors_that_fire_within_the_scan(name):
    sensor = SENSORS[name]
    rays = sensor.rays(0.0, 0.0)
    np.testing.assert_allclose(np.linalg.norm(rays.directions, axis=1), 1.0, atol=1e-12)
    assert rays.columns.max() == len(rays.times) - 1
    assert (np.diff(rays.times) >= 0.0).all()
    assert 0.0 <= rays.times[0] <= rays.times[-1] < 1.0 / sensor.rate
    aside = np.abs(sensor.rays(0.0, 0.5).directions - rays.directions).max()
    assert aside == 0.0 if isinstance(sensor, Raster) else aside > 1e-4  # a raster has no phase


@pytest.mark.parametrize("name", ["avia", "mid360"])
def test_patterns_of_prisms_do_not_repeat(name):
    first, second = (SENSORS[name].rays(start, 0.0).directions for start in (0.0, 0.1))
    aside = np.degrees(cKDTree(first).query(second)[0])
    assert np.median(aside) > 0.05  # a repeated pattern would hit the same spots


def test_a_hand_turns_the_sensor_about_and_takes_sharper_corners():
    corner = np.array([[0.0, 0.0, 0.0], [10.0, 0.0, 0.0], [10.0, 10.0, 0.0]])
    times = np.linspace(0.0, 15.0, 400)
    rides = (Ride(1.0, sway=0.0, heave=0.0, turning=turning, smoothing=s) for turning, s in ((0.0, 3.0), (20.0, 0.5)))
    steady, held = (Trajectory(corner, ride, 3).poses(times) for ride in rides)
    gap = [np.abs(poses[:, :3, 3] - [10.0, 0.0, 1.8]).sum(axis=1).min() for poses in (steady, held)]
    assert gap[1] < 0.4 * gap[0]
    yaw = np.arctan2(held[:150, 1, 0], held[:150, 0, 0])  # on the straight part
    assert 5.0 < np.degrees(np.ptp(yaw)) < 150.0


def test_sensors_by_name_and_from_a_file(tmp_path):
    assert find_sensor("vlp16") is SENSORS["vlp16"]
    table = tmp_path / "mine.txt"
    table.write_text("# steps 500\n# noise 0.01\n# a comment of several words\n5.0\n-10\n\n0\n")
    mine = find_sensor(str(table))
    assert (mine.elevations, mine.steps, mine.noise) == ((-10.0, 0.0, 5.0), 500, 0.01)
    table.write_text("up\n")
    with pytest.raises(FormatError, match="line 1"):
        find_sensor(str(table))


@pytest.mark.parametrize(("count", "spacing"), [(4, 1.0), (5, 0.5), (300, 0.5), (77, 0.3)])
def test_splines_agree_with_scipy(rng, count, spacing):
    points = np.cumsum(rng.standard_normal((count, 3)), axis=0)
    theirs = CubicSpline(spacing * np.arange(count), points)
    at = spacing * np.r_[np.arange(count), rng.uniform(-1.0, count, 500)]  # at the points, between them, and beyond the ends
    place, slope = Spline(points, spacing)(at)
    np.testing.assert_allclose(place, theirs(at), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(slope, theirs(at, 1), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("count", "sigma"), [(1, 6.0), (10, 6.0), (200, 6.0), (50, 0.7)])
def test_smoothing_agrees_with_scipy(rng, count, sigma):
    points = np.cumsum(rng.standard_normal((count, 3)), axis=0)
    theirs = gaussian_filter1d(points, sigma, axis=0, mode="nearest")
    np.testing.assert_allclose(gaussian_smoothed(points, sigma), theirs, rtol=1e-14, atol=1e-14)
