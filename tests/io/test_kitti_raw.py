"""KITTI raw: a tiny drive written by the test, with a known trajectory."""

import numpy as np
import pytest

import poli
from poli.beams.corrections import Spin
from poli.errors import FormatError, InputError
from poli.io.datasets import SkippedWarning, correct_elevation, guess
from poli.se3 import exp, inverse, so3_log
from tiny_sequences import POINTS, floats

DATE, DRIVE = "2011_09_26", "2011_09_26_drive_0009_sync"
FRAMES = (0, 1, 2, 5, 6, 7)  # scans 3 and 4 are missing
ALL = 8
FIRST = 1_317_042_145_951_199_337  # 2011-09-26 13:02:25.951199337
STEP = 103_329_001  # nanoseconds
LATE = 4_000_000  # nanoseconds that packets are later than scans
EARTH, LATITUDE, LONGITUDE = 6_378_137.0, 49.011, 8.423
T_VELO_IMU = exp(np.array([0.01, -0.02, 0.03, -0.81, 0.32, -0.8]))


def T_world_imu(nanoseconds):
    """A curve at constant speeds, for which interpolation is exact."""
    start = exp(np.array([0.02, -0.03, 0.7, 0.0, 0.0, 115.0]))
    return start @ exp(np.array([0.002, 0.01, 0.3, 9.0, 0.2, 0.1]) * nanoseconds * 1e-9)


def packet(T):
    """Latitude, longitude, altitude and angles of a pose; the inverse of the Mercator projection."""
    scale = EARTH * np.cos(np.radians(LATITUDE))
    longitude = LONGITUDE + np.degrees(T[0, 3] / scale)
    north = np.arctanh(np.sin(np.radians(LATITUDE))) + T[1, 3] / scale
    latitude = np.degrees(2.0 * np.arctan(np.exp(north)) - np.pi / 2.0)
    R = T[:3, :3]
    roll, pitch, yaw = np.arctan2(R[2, 1], R[2, 2]), -np.arcsin(R[2, 0]), np.arctan2(R[1, 0], R[0, 0])
    return " ".join(f"{v:.14g}" for v in (latitude, longitude, T[2, 3], roll, pitch, yaw)) + " 0" * 24


def clock(stamp):
    whole, part = divmod(stamp, 10**9)
    return f"{str(np.datetime64(whole, 's')).replace('T', ' ')}.{part:09d}"


def make(root, calibration=True, packets=range(ALL), scans=FRAMES):
    drive = root / DATE / DRIVE
    for folder in ("velodyne_points/data", "oxts/data"):
        (drive / folder).mkdir(parents=True)
    for frame in scans:
        (drive / "velodyne_points/data" / f"{frame:010d}.bin").write_bytes(floats(POINTS))
    for frame in packets:
        (drive / "oxts/data" / f"{frame:010d}.txt").write_text(packet(T_world_imu(frame * STEP + LATE)))
    stamps = [FIRST + frame * STEP for frame in range(ALL)]
    (drive / "velodyne_points/timestamps.txt").write_text("".join(clock(s) + "\n" for s in stamps))
    (drive / "oxts/timestamps.txt").write_text("".join(clock(s + LATE) + "\n" for s in stamps))
    if calibration:
        R, t = T_VELO_IMU[:3, :3], T_VELO_IMU[:3, 3]
        rows = {"R": R.ravel(), "T": t}
        text = "".join(f"{key}: {' '.join(f'{v:.15g}' for v in values)}\n" for key, values in rows.items())
        (root / DATE / "calib_imu_to_velo.txt").write_text("calib_time: 25-May-2012 16:47:16\n" + text)
    return drive


def true_poses(frames):
    poses = np.stack([T_world_imu(frame * STEP) @ inverse(T_VELO_IMU) for frame in frames])
    poses[:, :3, 3] -= poses[0, :3, 3]
    return poses


def check_poses(found, expected, meters=1e-4):
    assert found.shape == expected.shape
    for T, S in zip(found, expected, strict=True):
        np.testing.assert_allclose(T[:3, 3], S[:3, 3], atol=meters)
        assert np.linalg.norm(so3_log(T[:3, :3].T @ S[:3, :3])) < 1e-6


def test_poses_stamps_and_times_of_a_drive_with_missing_scans(tmp_path):
    make(tmp_path)
    scans = poli.dataset("kitti_raw", tmp_path, sequence="9")
    assert len(scans) == len(FRAMES)
    assert scans.skipped == ()
    assert [scan.stamp for scan in scans] == [FIRST + frame * STEP for frame in FRAMES]
    check_poses(scans.poses, true_poses(FRAMES))
    points = np.float32([p[:3] for p in POINTS])
    np.testing.assert_allclose(scans[3].points, correct_elevation(points), atol=1e-6)
    np.testing.assert_allclose(scans[3].fields["time"], Spin().times(points, STEP * 1e-9), atol=1e-6)
    np.testing.assert_array_equal(scans[3].fields["intensity"], [7, 8, 9])
    plain = poli.dataset("kitti_raw", tmp_path, correct_elevation=False, deskewed=True, min_range=1.0)
    np.testing.assert_array_equal(plain[0].points, points[:2])
    assert "time" not in plain[0].fields


def test_a_drive_is_found_by_path_and_name(tmp_path):
    drive = make(tmp_path)
    for path in (tmp_path, tmp_path / DATE, drive):
        assert guess(path) == "kitti_raw"
        assert len(poli.dataset("auto", path)) == len(FRAMES)
    assert poli.dataset("kitti_raw", tmp_path, sequence=DRIVE).name == f"kitti_raw {DRIVE}"
    with pytest.raises(InputError, match=f"0 drives are named 10.*{DRIVE}"):
        poli.dataset("kitti_raw", tmp_path, sequence=10)
    with pytest.raises(InputError, match="omit the sequence"):
        poli.dataset("kitti_raw", drive, sequence="0010")
    with pytest.raises(FormatError, match="velodyne_points"):
        poli.dataset("kitti_raw", drive / "oxts")


def test_scans_without_a_packet_are_skipped(tmp_path):
    drive = make(tmp_path, packets=(0, 1, 2, 5))
    (drive / "oxts" / "timestamps.txt").unlink()  # matched by number
    with pytest.warns(SkippedWarning, match=r"2 \(no GPS/IMU pose; the first is 0000000006\.bin\)"):
        scans = poli.dataset("kitti_raw", tmp_path)
    assert [scan.stamp for scan in scans] == [FIRST + frame * STEP for frame in (0, 1, 2, 5)]
    expected = np.stack([T_world_imu(frame * STEP + LATE) @ inverse(T_VELO_IMU) for frame in (0, 1, 2, 5)])
    expected[:, :3, 3] -= expected[0, :3, 3]
    check_poses(scans.poses, expected)


def test_poses_are_not_interpolated_over_a_gap(tmp_path):
    drive = make(tmp_path, packets=(0, 1, 7), scans=range(ALL))
    with pytest.warns(SkippedWarning):
        scans = poli.dataset("kitti_raw", tmp_path)
    assert [skip.what for skip in scans.skipped] == [f"{frame:010d}.bin" for frame in range(2, ALL)]
    assert len(poli.dataset("kitti_raw", drive, poses=False)) == ALL


def test_without_calibration_or_stamps(tmp_path):
    drive = make(tmp_path, calibration=False)
    assert poli.dataset("kitti_raw", tmp_path).poses is None
    (drive / "velodyne_points" / "timestamps.txt").unlink()
    scan = poli.dataset("kitti_raw", tmp_path)[0]
    assert scan.stamp is None
    points = np.float32([p[:3] for p in POINTS])
    np.testing.assert_allclose(scan.fields["time"], Spin().times(points, 0.1), atol=1e-6)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("velodyne_points/timestamps.txt", "2011-09-26 13:02:25.9\n", "1 times for 6 scans"),
        ("velodyne_points/timestamps.txt", "yesterday\n" * ALL, r"line 1 \(yesterday\).*2011"),
        ("velodyne_points/timestamps.txt", "2011-09-26 13:02:25.9\n" * ALL, "line 2 .*not later"),
        ("oxts/data/0000000001.txt", "49 8 115", "3 values, expected 30"),
        ("oxts/data/0000000001.txt", "nan 8 115 0 0 0", "finite"),
        ("oxts/data/0000000001.txt", "90 8 115 0 0 0", "latitude is 90"),
        ("../calib_imu_to_velo.txt", "R: 1 0 0 0 1 0 0 0 1\n", "no line 'T:'"),
        ("../calib_imu_to_velo.txt", "R: 1 0 0 0 1 0 0 0 2\nT: 0 0 0\n", "rigid motion"),
        ("velodyne_points/data/last.bin", "", "named by its number"),
        ("velodyne_points/data/00.bin", "", "same number"),
    ],
)
def test_damaged_files_are_named(tmp_path, file, text, message):
    drive = make(tmp_path)
    (drive / file).write_text(text)
    with pytest.raises(FormatError, match=message):
        poli.dataset("kitti_raw", tmp_path)
