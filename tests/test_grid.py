"""The voxel grids of two scans, as an input of the sizes."""

import numpy as np
import pytest

import poli
from poli.data.simulate import SENSORS, scan_of
from poli.errors import InputError
from poli.estimation.architecture import Architecture
from poli.estimation.grid import grid_shifts, voxel_of
from poli.estimation.inference import known_of_motion, view_of
from poli.estimation.motion import MOTION_INPUTS
from poli.se3 import so3_exp


@pytest.fixture(scope="module")
def scan() -> np.ndarray:
    return scan_of("town", SENSORS["vlp16"], 2_000_003).points.astype(np.float64)


def moved(*t: float, omega=(0.0, 0.0, 0.0)) -> np.ndarray:
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = so3_exp(np.array(omega)), t
    return T


@pytest.mark.parametrize("size", [0.15, 0.2, 0.25, 0.5, 0.8, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("pick", ["mean", "first"])
def test_the_size_of_voxels_is_found(scan, size, pick):
    assert voxel_of(poli.voxel_downsample(scan, size, pick).points) == size
    assert voxel_of(poli.voxel_downsample(scan.astype(np.float32), size, pick).points) == size


def test_what_is_not_in_voxels_at_the_origin_has_no_size(scan):
    voxelized = poli.voxel_downsample(scan, 0.5).points
    assert voxel_of(scan) is None
    assert voxel_of(voxelized + 0.21) is None  # a grid that starts elsewhere
    assert voxel_of(voxelized @ so3_exp(np.array([0.0, 0.0, 0.3])).T) is None
    assert voxel_of(np.empty((0, 3))) is None
    assert voxel_of(np.full((20, 3), 1e12)) is None


def test_whole_voxels_do_not_shift_the_grids(scan):
    for voxel in (0.5, 1.0):
        for motion, shift in (((2, -1, 1), (0, 0, 0)), ((0.25, 1.5, 0), (0.25, 0.5, 0)), ((0.4, 0, 2.9), (0.4, 0, 0.1))):
            shifts = grid_shifts(voxel, moved(*(voxel * np.array(motion))), scan)
            np.testing.assert_allclose(np.abs(shifts), np.tile(shift, (len(scan), 1)), atol=1e-9)
    np.testing.assert_allclose(grid_shifts(0.5, moved(0.3, 0, 0), scan, np.array([-0.3, 0.0, 0.0])), 0.0, atol=1e-9)


def test_shifts_are_those_of_the_voxels_that_points_fall_into(scan, rng):
    T, voxel = moved(1.3, -0.2, 0.1, omega=(0.01, -0.02, 0.3)), 0.5
    shifts = grid_shifts(voxel, T, scan)
    ours = scan / voxel
    theirs = (scan - T[:3, 3]) @ T[:3, :3] / voxel
    np.testing.assert_allclose(np.cos(2 * np.pi * shifts), np.cos(2 * np.pi * (theirs - ours)), atol=1e-9)
    assert np.abs(shifts).max() <= 0.5
    assert np.abs(shifts[:, :2]).std() > 0.1  # a turn shifts every point differently


def test_only_a_pose_tells_about_the_grids(scan):
    points = poli.voxel_downsample(scan, 0.5).points
    view = view_of(None, np.array([0.0, 0.0, 1.0]), False, len(points))
    assert known_of_motion(None, points, view) is None
    by_distance, by_pose = (known_of_motion(motion, points, view) for motion in (1.0, moved(1.1, 0, 0)))
    np.testing.assert_array_equal(by_distance.inputs[MOTION_INPUTS:], 0.0)
    assert by_distance.shifts is None
    np.testing.assert_allclose(by_pose.inputs[MOTION_INPUTS:], [1.0, 0.0])
    np.testing.assert_allclose(np.abs(by_pose.shifts), np.tile([0.2, 0.0, 0.0], (len(points), 1)), atol=1e-9)
    assert known_of_motion(moved(1.1, 0, 0), scan, view).shifts is None


def test_sizes_of_known_poses_need_a_motion():
    with pytest.raises(InputError, match="pair"):
        Architecture(size=8, pair=8)
