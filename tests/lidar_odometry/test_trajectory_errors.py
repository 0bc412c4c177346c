"""Trajectory errors: against evo, against plain loops, and for known answers."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import random_pose, seeds
from poli import se3
from poli.errors import DegenerateError, InputError
from poli.lidar_odometry.trajectory_errors import absolute_errors, relative_errors, segment_errors, umeyama


def smooth_trajectory(rng, count=60, speed=1.0):  # (M, 4, 4)
    """A drive that begins anywhere, bends, and stops now and then."""
    poses, turn = [random_pose(rng)], 0.1 * rng.standard_normal(3)
    for _ in range(count - 1):
        turn = 0.8 * turn + 0.03 * rng.standard_normal(3)
        moves = rng.random() > 0.1
        poses.append(poses[-1] @ se3.exp(np.concatenate([turn, [speed * rng.uniform(0.5, 1.5), 0.0, 0.0]]) * moves))
    return np.array(poses)


def drifting(rng, truth, rotation=0.01, translation=0.05):  # (M, 4, 4) -> (M, 4, 4)
    """Every motion of `truth` with noise, from another start."""
    poses = [random_pose(rng)]
    for before, after in pairwise(truth):
        noise = np.concatenate([rotation * rng.standard_normal(3), translation * rng.standard_normal(3)])
        poses.append(poses[-1] @ se3.inverse(before) @ after @ se3.exp(noise))
    return np.array(poses)


def straight(count, step=1.0):  # (M, 4, 4)
    poses = np.tile(np.eye(4), (count, 1, 1))
    poses[:, 0, 3] = step * np.arange(count)
    return poses


def evo_path(poses):
    trajectory = pytest.importorskip("evo.core.trajectory")
    return trajectory.PosePath3D(poses_se3=[T.copy() for T in poses])


def check_statistics(ours, part, evo_metric, atol=1e-9):
    np.testing.assert_allclose(getattr(ours, part), evo_metric.error, rtol=0, atol=atol)
    statistics = evo_metric.get_all_statistics()
    for name in ("rmse", "mean", "median", "std", "max"):
        assert getattr(getattr(ours, name), part) == pytest.approx(statistics[name], abs=atol)


# --- relative errors


@pytest.mark.parametrize(
    ("delta", "unit", "pairs"),
    [(delta, "frames", pairs) for delta in (1, 7, 59) for pairs in ("consecutive", "all")]
    + [(delta, "meters", "consecutive") for delta in (0.3, 5.0, 20.0)],
)
@given(seed=seeds)
def test_relative_errors_agree_with_evo(delta, unit, pairs, seed):
    metrics = pytest.importorskip("evo.core.metrics")
    filters = pytest.importorskip("evo.core.filters")
    rng = np.random.default_rng(seed)
    truth = smooth_trajectory(rng)
    estimated = drifting(rng, truth)
    ours = relative_errors(estimated, truth, delta, unit, pairs)
    evo_unit = metrics.Unit.frames if unit == "frames" else metrics.Unit.meters
    try:
        rows = metrics.id_pairs_from_delta(list(estimated), delta, evo_unit, 0.1, pairs == "all")
    except filters.FilterException:  # evo's error if there is no pair at all
        assert ours.count == 0
        return
    np.testing.assert_array_equal(ours.rows, rows)
    assert ours.count == len(rows)
    for part, relation in [("translation", "translation_part"), ("rotation", "rotation_angle_deg")]:
        metric = metrics.RPE(metrics.PoseRelation[relation], delta, evo_unit, all_pairs=pairs == "all")
        metric.process_data((evo_path(truth), evo_path(estimated)))
        check_statistics(ours, part, metric)


@pytest.mark.parametrize(("step", "delta"), [(0.1, 1.0), (0.1, 0.25), (1.0, 3.0), (0.3, 0.9)])
def test_pairs_agree_with_evo_where_rounding_decides(step, delta):
    metrics = pytest.importorskip("evo.core.metrics")
    poses = np.repeat(straight(60, step), 2, axis=0)  # stops at every place
    rows = metrics.id_pairs_from_delta(list(poses), delta, metrics.Unit.meters, all_pairs=False)
    np.testing.assert_array_equal(relative_errors(poses, poses, delta, "meters").rows, rows)


@given(seeds, st.sampled_from([0.0, 1e6]))
def test_relative_errors_do_not_depend_on_the_world_frame(seed, far):
    rng = np.random.default_rng(seed)
    truth = smooth_trajectory(rng, 20)
    estimated = drifting(rng, truth)
    moved = random_pose(rng)
    moved[:3, 3] += far
    before, after = relative_errors(estimated, truth), relative_errors(moved @ estimated, truth)
    np.testing.assert_allclose(after.translation, before.translation, atol=1e-8)
    np.testing.assert_allclose(after.rotation, before.rotation, atol=1e-9)


@pytest.mark.parametrize("arguments", [(10,), (99,), (20.0, "meters"), (10, "frames", "all")])
def test_without_pairs_errors_are_nan(arguments):
    errors = relative_errors(straight(10), straight(10), *arguments)
    assert errors.count == 0
    assert errors.rows.shape == (0, 2)
    assert errors.translation.shape == errors.rotation.shape == (0,)
    for name in ("rmse", "mean", "median", "std", "max"):
        assert np.isnan(getattr(errors, name)).all()


# --- absolute errors


@given(seeds)
def test_absolute_errors_agree_with_evo(seed):
    metrics = pytest.importorskip("evo.core.metrics")
    rng = np.random.default_rng(seed)
    truth = smooth_trajectory(rng)
    estimated = drifting(rng, truth)
    for align in ("none", "origin", "umeyama"):
        ours = absolute_errors(estimated, truth, align)
        reference, path = evo_path(truth), evo_path(estimated)
        if align == "origin":
            path.align_origin(reference)
        elif align == "umeyama":
            path.align(reference)
        for part, relation in [("translation", "translation_part"), ("rotation", "rotation_angle_deg")]:
            metric = metrics.APE(metrics.PoseRelation[relation])
            metric.process_data((reference, path))
            check_statistics(ours, part, metric)


def test_umeyama_gives_a_rotation_for_a_mirror_image(rng):
    points = rng.standard_normal((30, 3)) * [3.0, 2.0, 0.3]
    T = umeyama(points, points * [1, 1, -1])
    assert np.linalg.det(T[:3, :3]) == pytest.approx(1.0)
    cost = np.sum((points @ T[:3, :3].T + T[:3, 3] - points * [1, 1, -1]) ** 2)
    for _ in range(50):  # no other motion near it does better
        other = T @ se3.exp(0.1 * rng.standard_normal(6))
        assert np.sum((points @ other[:3, :3].T + other[:3, 3] - points * [1, 1, -1]) ** 2) >= cost


@pytest.mark.parametrize("points", [straight(5)[:, :3, 3], np.ones((5, 3)), np.zeros((1, 3)), 1e6 + straight(2)[:, :3, 3]])
def test_a_line_cannot_be_aligned(points):
    with pytest.raises(DegenerateError, match="origin"):
        umeyama(points, points)


# --- KITTI's segments


def slow_segments(estimated, truth, lengths, step):
    """The metric exactly as defined."""
    found = []
    for first in range(0, len(truth), step):
        for length in lengths:
            traveled = 0.0
            for last in range(first + 1, len(truth)):
                traveled += np.linalg.norm(truth[last, :3, 3] - truth[last - 1, :3, 3])
                if traveled > length:
                    motion = np.linalg.inv(truth[first]) @ truth[last]
                    error = np.linalg.inv(np.linalg.inv(estimated[first]) @ estimated[last]) @ motion
                    angle = np.arccos(np.clip(0.5 * (np.trace(error[:3, :3]) - 1.0), -1.0, 1.0))
                    share = np.linalg.norm(error[:3, 3]) / length
                    found.append((first, last, length, 100.0 * share, 100.0 * np.rad2deg(angle) / length))
                    break
    return np.array(found)


@given(seeds, st.sampled_from([1, 7, 10]))
def test_segment_errors_agree_with_the_definition(seed, step):
    rng = np.random.default_rng(seed)
    truth = smooth_trajectory(rng)
    estimated = drifting(rng, truth)
    lengths = (5.0, 12.5, 30.0, 800.0)
    errors, slow = segment_errors(estimated, truth, lengths, step), slow_segments(estimated, truth, lengths, step)
    np.testing.assert_array_equal(errors.rows, slow[:, :2])
    np.testing.assert_allclose(errors.translation, slow[:, 3], atol=1e-9)
    np.testing.assert_allclose(errors.rotation, slow[:, 4], atol=1e-5)  # the arccosine has no more digits
    assert errors.mean == pytest.approx((slow[:, 3].mean(), slow[:, 4].mean()), abs=1e-5)


# --- bad input

NAN, MIRRORED, HUGE, SHEARED = (straight(5) for _ in range(4))
NAN[3, 0, 3], MIRRORED[2, 2, 2], HUGE[1, 0, 0], SHEARED[4, 3, 0] = np.nan, -1.0, 1e200, 1.0


@pytest.mark.parametrize("measure", [relative_errors, absolute_errors, segment_errors])
@pytest.mark.parametrize(
    ("estimated", "truth", "says"),
    [
        (straight(5), straight(6), "estimated has 5 poses and truth has 6"),
        (straight(1), straight(1), r"estimated has shape \(1, 4, 4\).*at least 2"),
        (straight(5), np.eye(4), r"truth has shape \(4, 4\)"),
        (straight(5), NAN, r"truth\[3\] has a non-finite entry"),
        (MIRRORED, straight(5), r"estimated\[2\] is not a rigid motion"),
        (HUGE, straight(5), r"estimated\[1\] is not a rigid motion"),
        (straight(5), SHEARED, r"truth\[4\] is not a rigid motion"),
        ("poses", straight(5), "estimated: expected an array"),
    ],
)
def test_bad_trajectories_are_named(measure, estimated, truth, says):
    with pytest.raises(InputError, match=says):
        measure(estimated, truth)


@pytest.mark.parametrize(
    ("measure", "options", "says"),
    [
        (relative_errors, {"delta": 0}, "delta is 0"),
        (relative_errors, {"delta": np.nan, "unit": "meters"}, "delta is nan"),
        (relative_errors, {"unit": "feet"}, "unit is 'feet'; expected \"frames\""),
        (relative_errors, {"pairs": "some"}, "pairs is 'some'"),
        (absolute_errors, {"align": "best"}, "align is 'best'"),
        (segment_errors, {"lengths": (100.0, -1.0)}, "lengths is"),
        (segment_errors, {"step": 0}, "step is 0"),
    ],
)
def test_bad_options_are_named(measure, options, says):
    with pytest.raises(InputError, match=says):
        measure(straight(5), straight(5), **options)


@pytest.mark.parametrize(
    ("target", "says"), [(np.zeros((5, 3)), "has 4 points and target_points has 5"), (np.full((4, 3), np.nan), "not finite")]
)
def test_bad_points_are_named(target, says):
    with pytest.raises(InputError, match=says):
        umeyama(np.zeros((4, 3)), target)
