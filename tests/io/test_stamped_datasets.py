"""HeLiPR and MulRan, whose poses are matched by stamps: tiny sequences written byte by byte, valid and damaged."""

import struct
import warnings

import numpy as np
import pytest

import poli
from poli import se3
from poli.errors import FormatError, InputError
from poli.io.datasets import Skipped, SkippedWarning
from poli.io.datasets.stamped import T_BASE_OUSTER, _nearest
from poli.io.trajectory_files import read_stamped_poses
from tiny_sequences import POINTS, floats, line, random_poses

EARLY_AEVA = 1691936557946849179


# --- HeLiPR

HELIPR = {
    "velodyne": ("<4fHf", (1.0, 2.0, 3.0, 4.0, 15, 0.05), {"intensity": 4.0, "ring": 15, "time": np.float32(0.05)}),
    "ouster": (
        "<4fI3H",
        (1.0, 2.0, 3.0, 4.0, 50_000_000, 11, 127, 13),
        {"intensity": 4.0, "time": 0.05, "reflectivity": 11, "ring": 127, "ambient": 13},
    ),
    "aeva": (
        "<5fiBf",
        (1.0, 2.0, 3.0, 4.0, -5.0, -20_000_000, 63, 0.5),
        {"reflectivity": 4.0, "velocity": -5.0, "time": -0.02, "ring": 63, "intensity": 0.5},
    ),
    "avia": ("<3f3BI", (1.0, 2.0, 3.0, 200, 16, 5, 99_000_000), {"reflectivity": 200, "tag": 16, "ring": 5, "time": 0.099}),
}


def make_helipr(root, sensor, stamps, gt_stamps=None):
    folder = root / "LiDAR" / sensor.capitalize()
    folder.mkdir(parents=True)
    (root / "LiDAR_GT").mkdir()
    layout, values, _ = HELIPR[sensor]
    for stamp in stamps:
        (folder / f"{stamp}.bin").write_bytes(struct.pack(layout, *values) * 2)
    gt = root / "LiDAR_GT" / f"global_{sensor.capitalize()}_gt.txt"
    gt.write_text("".join(f"{t} {k} 0 0 0 0 0.6 0.8\n" for k, t in enumerate(gt_stamps if gt_stamps is not None else stamps)))
    return folder


@pytest.mark.parametrize("sensor", HELIPR)
def test_helipr_reads_every_sensor(tmp_path, sensor):
    stamps = [EARLY_AEVA + 1, EARLY_AEVA + 100_000_000]
    make_helipr(tmp_path, sensor, stamps)
    scans = poli.dataset("helipr", tmp_path, sensor=sensor)
    assert [scan.stamp for scan in scans] == stamps
    assert len(scans[0]) == 2  # including the last point
    np.testing.assert_array_equal(scans[0].points, np.float32([[1, 2, 3]] * 2))
    expected = HELIPR[sensor][2]
    assert set(scans[0].fields) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(scans[0].fields[name], [value] * 2, rtol=1e-12)
    np.testing.assert_allclose(scans.poses[1, :3, :3], [[0.28, -0.96, 0], [0.96, 0.28, 0], [0, 0, 1]], atol=1e-12)
    np.testing.assert_array_equal(scans.poses[:, 0, 3], [0, 1])


def test_early_aeva_scans_have_no_intensity(tmp_path):
    folder = make_helipr(tmp_path, "aeva", [EARLY_AEVA + 1], [EARLY_AEVA, EARLY_AEVA + 1])
    (folder / f"{EARLY_AEVA}.bin").write_bytes(struct.pack("<5fiB", 1, 2, 3, 4, 5, 6, 7) * 3)
    early, late = poli.dataset("helipr", tmp_path, sensor="aeva")
    assert len(early) == 3
    assert "intensity" not in early.fields
    assert "intensity" in late.fields


def test_scans_sort_as_integers_and_poses_match_to_the_nanosecond(tmp_path):
    """Stamps a few nanoseconds apart are the same double; names of different lengths do not sort as text."""
    stamps = [999_999_999_999_999_999, 10**18 + 3, 10**18 + 4]
    make_helipr(tmp_path, "velodyne", stamps, stamps[::-1])  # poses unsorted: row k is 2 - k
    scans = poli.dataset("helipr", tmp_path, tolerance=0.0)
    assert [scan.stamp for scan in scans] == stamps
    np.testing.assert_array_equal(scans.poses[:, 0, 3], [2, 1, 0])


def test_scans_without_a_pose_are_left_out_counted_and_reported(tmp_path):
    stamps = [10**18 + i * 100_000_000 for i in range(5)]
    make_helipr(tmp_path, "velodyne", stamps, [stamps[1], stamps[2] + 900_000, stamps[3] + 1_100_000])
    with pytest.warns(SkippedWarning, match=rf"3 \(no pose within 0\.001 s; the first is {stamps[0]}\.bin\)"):
        scans = poli.dataset("helipr", tmp_path)
    assert [scan.stamp for scan in scans] == stamps[1:3]
    assert len(scans.poses) == 2
    assert scans.skipped == tuple(Skipped(f"{stamps[i]}.bin", "no pose within 0.001 s") for i in (0, 3, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(poli.dataset("helipr", tmp_path, poses=False)) == 5
    make_helipr(tmp_path / "far", "velodyne", [1_000_000_000], [9_000_000_000])
    with pytest.raises(FormatError, match="no scan has a pose: no pose within"):
        poli.dataset("helipr", tmp_path / "far")


def test_damaged_helipr(tmp_path):
    folder = make_helipr(tmp_path, "ouster", [10, 20])
    (folder / "10.bin").write_bytes(bytes(26 + 25))
    with pytest.raises(FormatError, match=r"10\.bin: 51 bytes are not a multiple of 26"):
        poli.dataset("helipr", tmp_path, sensor="ouster")[0]
    (folder / "10.bin").write_bytes(b"")
    assert len(poli.dataset("helipr", tmp_path, sensor="ouster")[0]) == 0
    (folder / "10.bin").write_bytes(struct.pack("<3f", 1e30, 0, 1) + bytes(14))
    with pytest.raises(FormatError, match=r"1e\+07 m"):
        poli.dataset("helipr", tmp_path, sensor="ouster")[0]
    (folder / "010.bin").write_bytes(b"")
    with pytest.raises(FormatError, match="same number"):
        poli.dataset("helipr", tmp_path, sensor="ouster")
    (folder / "010.bin").rename(folder / "scan.bin")
    with pytest.raises(FormatError, match="stamp in nanoseconds"):
        poli.dataset("helipr", tmp_path, sensor="ouster")
    with pytest.raises(InputError, match=r"'radar'.*velodyne, ouster, aeva, avia"):
        poli.dataset("helipr", tmp_path, sensor="radar")
    with pytest.raises(FormatError, match="no such folder"):
        poli.dataset("helipr", tmp_path, sensor="avia")


# --- trajectories


def test_trajectories_refuse_contradictions_and_rounded_stamps(tmp_path):
    file = tmp_path / "gt.txt"
    file.write_text("20 1 0 0 0 0 0 1\n10 0 0 0 0 0 0 1\n\n# again, the same\n20 1 0 0 0 0 0 1\n")
    np.testing.assert_array_equal(read_stamped_poses(file, 7)[0], [10, 20])
    for text, message in [
        ("20 1 0 0 0 0 0 1\n20 2 0 0 0 0 0 1\n", "1 stamps .*two different poses.* 20"),
        ("1.69e18 1 0 0 0 0 0 1\n", "line 1: '1.69e18' .*nanoseconds"),
        ("20 1 0 0 0 0 0 0.5\n", "quaternion has length 0.5"),
        ("20 1 0 0 0 0 0\n", "line 1 has 6 .* expected 7"),
    ]:
        file.write_text(text)
        with pytest.raises(FormatError, match=message):
            read_stamped_poses(file, 7)


def test_nearest_finds_the_nearest_pose(rng):
    known = np.unique(rng.integers(0, 1000, 50))
    asked = rng.integers(-50, 1050, 200)
    rows = _nearest(asked, known, 12)
    distance = np.abs(known - asked[:, None]).min(axis=1)
    np.testing.assert_array_equal(rows >= 0, distance <= 12)
    np.testing.assert_array_equal(np.abs(known[rows] - asked)[rows >= 0], distance[rows >= 0])
    assert (_nearest(asked, known[:0], 12) == -1).all()


# --- MulRan


def test_mulran_uses_the_nearest_pose_of_the_base(tmp_path):
    stamp = 1561000444390857630
    (tmp_path / "Ouster").mkdir()
    whole = np.zeros((65536, 4), "<f4")
    whole[:, 0] = 1 + np.arange(65536)
    (tmp_path / "Ouster" / f"{stamp}.bin").write_bytes(whole.tobytes())
    (tmp_path / "Ouster" / f"{stamp + 100_000_000}.bin").write_bytes(floats(POINTS))
    base = random_poses(3)
    base[:, :3, 3] += [350_000.0, 4_020_000.0, 20.0]  # UTM
    rows = zip([stamp - 4_000_000, stamp + 5_000_000, stamp + 103_000_000], base, strict=True)
    (tmp_path / "global_pose.csv").write_text("".join(f"{t},{line(T).replace(' ', ',')}\n" for t, T in rows))
    scans = poli.dataset("auto", tmp_path)
    assert scans.name.startswith("mulran")
    np.testing.assert_allclose(scans.poses, base[[0, 2]] @ T_BASE_OUSTER, atol=1e-9)
    assert set(scans[0].fields) == {"intensity", "ring", "time"}
    index = scans[0].points[:, 0].astype(int) - 1
    np.testing.assert_array_equal(scans[0].fields["ring"], index % 64)
    np.testing.assert_allclose(scans[0].fields["time"], index // 64 / 10240)
    assert set(scans[1].fields) == {"intensity"}


def test_the_mulran_extrinsic_is_a_half_turn_and_rigid():
    se3.check_pose(T_BASE_OUSTER)
    np.testing.assert_allclose(T_BASE_OUSTER[:2, :2], [[-0.99998295, -0.00583984], [0.00583984, -0.99998295]], atol=1e-7)
    np.testing.assert_array_equal(T_BASE_OUSTER[:3, 3], [1.7042, -0.021, 1.8047])
