"""Odometry: it tracks a drive, and reports where it cannot."""

from dataclasses import replace

import numpy as np
import pytest

import poli
from poli import se3
from poli.ellipsoids import Ellipsoids
from poli.errors import InputError
from poli.estimation import pca
from poli.lidar_odometry import EllipsoidMap, Odometer, OdometryConfig, Status, TrackingLost, deskew
from poli.lidar_odometry.deskewing import Sweep
from poli.lidar_odometry.trajectory_errors import relative_errors
from poli.scan import Scan
from poli.worlds import Ride, Sensor, World
from poli.worlds.drive import Drive
from poli.worlds.places import make_place

SENSOR = Sensor(tuple(np.linspace(-20.0, 15.0, 24)), steps=360, max_range=80.0, noise=0.01)
COARSE = OdometryConfig(voxel=0.5)


@pytest.fixture(scope="module")
def world() -> World:
    return World(make_place("town", 1_000_123))


@pytest.fixture(scope="module")
def drive(world) -> Drive:
    return Drive(world, SENSOR, Ride(start=20.0), 24)


@pytest.fixture(scope="module")
def scans(drive) -> list[Scan]:
    return [replace(scan, stamp=10**9 + i * 10**8) for i, scan in enumerate(drive)]


def without_stamps(scans):
    return [replace(scan, stamp=None) for scan in scans]


@pytest.mark.parametrize("against", ["map", "scan"])
def test_tracks_a_drive(drive, scans, against):
    odometer = Odometer(replace(COARSE, against=against))
    for scan in scans:
        step = odometer.add(scan)
        assert step.trusted
    errors = relative_errors(odometer.poses, drive.poses)
    assert errors.rmse.translation < 0.015  # at 0.8 m per scan
    assert errors.rmse.rotation < 0.1
    assert set(odometer.steps[-1].seconds) == {"prepare", "estimate", "align", "map"}
    assert odometer.steps[0].status is Status.FIRST
    np.testing.assert_array_equal(odometer.poses[0], np.eye(4))


@pytest.mark.parametrize("against", ["map", "scan"])
def test_an_update_in_the_background_does_not_change_the_result(scans, against, monkeypatch):
    found = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("POLI_NUM_THREADS", threads)
        odometer = Odometer(replace(COARSE, against=against))
        for scan in scans[:8]:  # far enough that the map is indexed again
            odometer.add(scan)
        found.append((odometer.poses, odometer.map.field.means if odometer.map else 0))
    for poses, cells in found[1:]:
        np.testing.assert_array_equal(poses, found[0][0])
        np.testing.assert_array_equal(cells, found[0][1])


def test_the_function_returns_the_poses(scans):
    poses = poli.odometry(without_stamps(scans[:4]), COARSE)
    assert poses.shape == (4, 4, 4)
    arrays = poli.odometry([scan.points for scan in scans[:4]], COARSE)
    np.testing.assert_allclose(arrays, poses, atol=1e-9)
    assert poli.odometry([]).shape == (0, 4, 4)


def test_pca_and_tilted_sensors_run_too(drive, scans):
    for config in (replace(COARSE, model="pca"), replace(COARSE, upright=False)):
        errors = relative_errors(poli.odometry(scans[:6], config), drive.poses[:6])
        assert errors.rmse.translation < 0.05


def test_an_empty_scan_is_predicted_and_reported(drive, scans):
    for hole in (np.empty((0, 3)), np.full((50, 3), np.nan)):
        with_hole = [*scans[:5], Scan(hole, stamp=scans[5].stamp), *scans[6:9]]
        odometer = Odometer(COARSE)
        steps = [odometer.add(scan) for scan in with_hole]
        assert [step.status for step in steps[4:7]] == [Status.TRACKED, Status.PREDICTED, Status.TRACKED]
        assert "0 points" in steps[5].note
        assert not steps[5].trusted
        assert steps[5].alignment is None
        assert relative_errors(odometer.poses, drive.poses[:9]).max.translation < 0.1


def test_tracking_is_lost_after_too_many_predictions(scans):
    odometer = Odometer(replace(COARSE, patience=2))
    for scan in scans[:3]:
        odometer.add(scan)
    empty = [Scan(np.empty((0, 3)), stamp=scan.stamp) for scan in scans[3:6]]
    odometer.add(empty[0])
    odometer.add(empty[1])
    with pytest.raises(TrackingLost, match="scan 5") as lost:
        odometer.add(empty[2])
    assert lost.value.poses.shape == (5, 4, 4)


def test_a_gap_with_stamps_is_bridged_and_reported(drive, scans):
    odometer = Odometer(COARSE)
    kept = [*range(6), *range(16, 20)]
    steps = [odometer.add(scans[i]) for i in kept]
    assert steps[6].status is Status.BRIDGED
    assert "10 scans seem to be missing" in steps[6].note
    truth = se3.inverse(drive.poses[0]) @ drive.poses[16]
    assert np.linalg.norm(steps[6].T_world_scan[:3, 3] - truth[:3, 3]) < 0.2
    assert all(step.status is Status.TRACKED for step in steps[7:])


def test_a_gap_that_cannot_be_bridged_stops(world):
    long = Drive(world, SENSOR, Ride(start=20.0), 92)  # 73 m
    scans = [scan.points for i, scan in enumerate(long) if i in (0, 1, 91)]
    for against in ("map", "scan"):
        odometer = Odometer(replace(COARSE, against=against))
        odometer.add(scans[0])
        odometer.add(scans[1])
        with pytest.raises(TrackingLost, match=r"scan 2: only .* lie on surfaces") as lost:
            odometer.add(scans[-1])
        assert lost.value.index == len(lost.value.poses) == 2


def test_garbage_is_refused_or_restarts_the_map(rng, scans):
    garbage = Scan(rng.uniform(-100, 100, (5000, 3)), stamp=scans[5].stamp)
    odometer = Odometer(COARSE)
    for scan in scans[:5]:
        odometer.add(scan)
    with pytest.raises(TrackingLost, match="scan 5"):
        odometer.add(garbage)
    assert len(odometer.poses) == 5
    step = odometer.add(scans[6])  # after catching the error, tracking can continue: no garbage was kept
    assert step.status in (Status.TRACKED, Status.BRIDGED)
    restarting = Odometer(replace(COARSE, on_loss="restart"))
    steps = [restarting.add(scan) for scan in [*scans[:5], garbage]]
    assert steps[5].status is Status.RESTARTED
    assert not steps[5].trusted


def test_poses_stay_rotations_over_many_predictions(scans):
    odometer = Odometer(replace(COARSE, patience=10_000))
    for scan in scans[:3]:
        odometer.add(scan)
    for i in range(300):
        odometer.add(Scan(np.empty((0, 3)), stamp=scans[3].stamp + i * 10**8))
    R = odometer.poses[-1][:3, :3]
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-12)


def test_bad_initial_poses_and_stamps(scans):
    with pytest.raises(InputError, match="at least 64 points"):
        Odometer(COARSE).add(np.zeros((0, 3)))
    odometer = Odometer(COARSE)
    odometer.add(scans[1])
    with pytest.raises(InputError, match="sort the scans"):
        odometer.add(scans[0])
    with pytest.raises(InputError, match="no times"):
        Odometer(OdometryConfig(deskew=True)).add(scans[0].points)


# --- deskewing -------------------------------------------------------------------------------------------------------------------


def test_deskewing_undoes_a_constant_velocity(rng):
    velocity = np.array([0.1, -0.2, 0.8, 9.0, 0.5, -0.3])
    times, still = rng.uniform(-0.05, 0.1, 200), 20.0 * rng.standard_normal((200, 3))
    seen = np.stack([(se3.inverse(se3.exp(s * velocity)) @ [*p, 1.0])[:3] for s, p in zip(times, still, strict=True)])
    np.testing.assert_allclose(deskew(Scan(seen, {"time": times}), velocity).points, still, atol=1e-9)
    straight = np.array([0, 0, 0, 9.0, 0.5, -0.3])
    np.testing.assert_allclose(deskew(Scan(seen, {"time": times}), straight).points, seen + times[:, None] * straight[3:])
    with pytest.raises(InputError, match="time"):
        deskew(Scan(seen), velocity)


@pytest.fixture(scope="module")
def skewed(world) -> tuple[list[Scan], np.ndarray]:
    """Scans of a simulated sensor, which turns clockwise from x, and their poses."""
    drive = Drive(world, SENSOR, Ride(start=20.0, speed=15.0), 10, deskewed=False)
    return [replace(scan, stamp=10**9 + i * 10**8).keep("time") for i, scan in enumerate(drive)], drive.poses


def test_a_step_has_the_velocity_that_deskewed_its_scan(skewed):
    odometer = Odometer(COARSE)
    steps = [odometer.add(scan) for scan in skewed[0][:4]]
    assert steps[0].velocity is None  # not known then
    for step in steps[1:]:
        moved = se3.log(se3.inverse(odometer.poses[step.index - 1]) @ step.T_world_scan)
        np.testing.assert_allclose(step.velocity, moved / 0.1, atol=1e-9)
    assert all(step.velocity is None for step in map(Odometer(replace(COARSE, deskew="off")).add, skewed[0][:3]))


def end_error(scans, truth, config) -> tuple[float, str]:
    odometer = Odometer(config)
    for scan in scans:
        odometer.add(scan)
    return relative_errors(odometer.poses, truth, delta=len(truth) - 1).rmse.translation, odometer.deskewing


def test_times_that_make_no_sense_are_ignored_and_reported(skewed):
    scans, truth = skewed
    plain = end_error([scan.without("time") for scan in scans], truth, COARSE)
    assert "no times" in plain[1]
    for change, said in (
        (lambda times: 0.0 * times, "same time"),
        (lambda times: 1000.0 * times, "s from the stamp"),  # milliseconds taken for seconds
        (lambda times: 5.0 * times, "span"),
        (lambda times: np.where(times > 0.05, np.nan, times), "finite"),
    ):
        odd = [replace(scan, fields={"time": change(scan.fields["time"])}) for scan in scans]
        assert end_error(odd, truth, COARSE)[0] == plain[0]
        assert said in end_error(odd, truth, COARSE)[1]
        with pytest.raises(InputError, match=said):
            end_error(odd, truth, replace(COARSE, deskew="on"))
    timed = end_error(scans, truth, COARSE)
    assert "times of the points" in timed[1]
    assert timed[0] < 0.6 * plain[0]


def test_deskewing_by_azimuth_equals_deskewing_by_times(skewed):
    scans, truth = skewed
    bare = [scan.without("time") for scan in scans]
    spin = poli.Spin(start=0.5, stamp=0.0)  # half a step before x, where rounding would decide
    np.testing.assert_allclose(spin.times(scans[0].points, 0.1), scans[0].fields["time"], atol=1e-3)
    timed, _ = end_error(scans, truth, COARSE)
    found, said = end_error(bare, truth, replace(COARSE, deskew="azimuth", spin=spin))
    assert found == pytest.approx(timed, abs=0.005)
    assert "azimuth" in said
    wrong, _ = end_error(bare, truth, replace(COARSE, deskew="azimuth", spin=replace(spin, clockwise=False)))
    assert wrong > 2.0 * found
    # Without stamps, the period is an option, or 0.1 s.
    unstamped = [replace(scan, stamp=None) for scan in bare]
    again, _ = end_error(unstamped, truth, replace(COARSE, deskew="azimuth", spin=spin))
    assert again == pytest.approx(found, abs=1e-9)
    longer, _ = end_error(unstamped, truth, replace(COARSE, deskew="azimuth", spin=spin, period=0.3))
    assert longer == pytest.approx(found, abs=1e-6)  # times and velocity have the same unit


def test_kitti_spins_clockwise_from_behind():
    front, left, behind, right = np.array([[1.0, 0, 0], [0, 1.0, 0], [-1.0, 1e-9, 0], [0, -1.0, 0]])
    times = poli.Spin().times(np.stack([front, left, behind, right]), period=0.1)
    np.testing.assert_allclose(times, [0.0, -0.025, -0.05, 0.025], atol=1e-9)
    for wrong in ({"start": 400.0}, {"stamp": 1.5}, {"start": np.nan}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            poli.Spin(**wrong)


def test_points_get_the_motion_of_their_pose(rng):
    """The derivative of a sweep's points in the target is `follow` times that of the pose, for small rotations."""
    velocity = np.array([0.02, -0.03, 0.1, 8.0, 0.5, -0.1])
    sweep = Sweep(10.0 * rng.standard_normal((50, 3)), rng.uniform(-0.05, 0.05, 50), np.eye(4), 0.1)
    T, step = se3.exp(0.1 * velocity), 1e-4 * rng.standard_normal(6)

    def placed(U):
        return sweep.means(U) @ U[:3, :3].T + U[:3, 3]

    moved = placed(T @ se3.exp(step)) - placed(T)
    means = sweep.means(T)
    wanted = sweep.follow[:, None] * (np.cross(step[:3], means) + step[3:]) @ T[:3, :3].T
    np.testing.assert_allclose(moved, wanted, atol=0.03 * np.abs(wanted).max())


# --- the map ---------------------------------------------------------------------------------------------------------------------


def test_the_map_fuses_points_of_a_cell():
    means = np.array([[0.1, 0.1, 0.1], [0.3, 0.1, 0.1], [5.0, 5.0, 5.0]])
    covariances = np.stack([np.eye(3), 3.0 * np.eye(3), np.diag([1.0, 2.0, 3.0])])
    field = EllipsoidMap(1.0, 100.0)
    field.add(Ellipsoids(means, covariances), np.eye(4))
    assert len(field) == 2
    # Weighted by the inverse size: three parts of the first, one of the second.
    np.testing.assert_allclose(field.field.means[0], [0.15, 0.1, 0.1])
    np.testing.assert_allclose(field.field.covariances[0], 1.5 * np.eye(3))
    np.testing.assert_allclose(field.field.means[1], means[2])
    np.testing.assert_array_equal(field.refresh(), [0, 1])
    np.testing.assert_allclose(field.weighed.weights, 0.15**2 / (0.15**2 + np.array([1.5, 1.0])))
    assert not len(field.refresh())


def test_the_map_grows_forgets_and_stays_consistent(rng):
    field, T = EllipsoidMap(0.5, 30.0), np.eye(4)
    for step in range(8):
        T[0, 3] = 10.0 * step
        cloud = rng.uniform(-20, 20, (9000, 3))
        field.add(pca(cloud, k=8), T)
        assert (np.linalg.norm(field.field.means - T[:3, 3], axis=1) <= 30.0 + 40.0).all()
    cells = np.floor(field.field.means / 0.5).astype(int)
    assert len(np.unique(cells, axis=0)) == len(field)  # never two ellipsoids per cell, while growing and forgetting
    again = len(field)
    field.add(pca(cloud, k=8), T)
    assert len(field) == again
    assert len(field.weighed) == again


def test_the_map_is_bounded():
    with pytest.raises(InputError, match="km"):
        EllipsoidMap(0.01, 10.0).add(Ellipsoids(np.full((1, 3), 1e5), np.eye(3)[None]), np.eye(4))
