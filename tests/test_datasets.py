"""Datasets: tiny sequences written byte by byte, whole and damaged. Damage is an error or a counted skip, never a wrong pose."""

import json
import struct
import sys
import types
import warnings
from dataclasses import replace

import numpy as np
import pytest

import poli
from poli import Scan, se3
from poli.data.datasets import (
    Dataset,
    FileDataset,
    Skipped,
    SkippedWarning,
    dataset_names,
    guess,
    occupied,
    register_dataset,
    write_folder,
    write_kitti,
)
from poli.data.datasets.mulran import T_BASE_OUSTER
from poli.data.datasets.trajectory import Trajectory, read_trajectory
from poli.errors import FormatError, InputError, MissingExtra

POINTS = [(1.5, -2.0, 0.25, 7.0), (4.0, 5.0, -6.0, 8.0), (0.5, 0.5, 0.5, 9.0)]
EARLY_AEVA = 1691936557946849179
T_CAMERA_VELO = np.array([[0, -1, 0, 0.1], [0, 0, -1, -0.2], [1, 0, 0, -0.3], [0, 0, 0, 1.0]])


def floats(rows) -> bytes:
    return b"".join(struct.pack("<4f", *row) for row in rows)


def line(T) -> str:
    return " ".join(f"{v:.17g}" for v in T[:3].ravel())


def random_poses(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([se3.exp(rng.normal(size=6) * [0.3, 0.3, 0.3, 9, 9, 9]) for _ in range(count)])


def make_kitti(root, poses, name="07", scans=None, tr=T_CAMERA_VELO):
    """Scans of POINTS, poses of the camera such that the sensor's are `poses`."""
    folder = root / "sequences" / name
    (folder / "velodyne").mkdir(parents=True)
    (root / "poses").mkdir(exist_ok=True)
    count = len(poses) if scans is None else scans
    for i in range(count):
        (folder / "velodyne" / f"{i:06d}.bin").write_bytes(floats(POINTS))
    camera = tr @ poses @ se3.inverse(tr)
    (root / "poses" / f"{name}.txt").write_text("".join(line(T) + "\n" for T in camera))
    (folder / "calib.txt").write_text(f"P0: {line(np.eye(4))}\nTr: {line(tr)}\n")
    (folder / "times.txt").write_text("".join(f"{0.1 * i:e}\n" for i in range(count)))
    return folder


# --- KITTI


def test_kitti_gives_scans_stamps_and_sensor_poses(tmp_path):
    poses = random_poses(12)
    make_kitti(tmp_path, poses)
    scans = poli.dataset("kitti", tmp_path, sequence="07")
    assert isinstance(scans, Dataset)
    assert len(scans) == 12
    assert scans.skipped == ()
    np.testing.assert_allclose(scans.poses, poses, atol=1e-12)
    assert [scan.stamp for scan in scans] == [i * 100_000_000 for i in range(12)]
    np.testing.assert_array_equal(scans[3].points, np.float32([p[:3] for p in POINTS]))
    np.testing.assert_array_equal(scans[-1].fields["intensity"], [7, 8, 9])
    with pytest.raises(IndexError, match="scan 12"):
        scans[12]


def test_kitti_is_found_by_number_and_by_folder(tmp_path):
    folder = make_kitti(tmp_path, random_poses(2))
    assert len(poli.dataset("kitti", tmp_path, sequence=7)) == 2
    assert poli.dataset(None, folder).poses.shape == (2, 4, 4)
    assert len(poli.dataset("auto", tmp_path)) == 2  # the only sequence
    with pytest.raises(InputError, match=r"08.*There are: 07"):
        poli.dataset("kitti", tmp_path, sequence="08")


def test_kitti_near_drops_the_vehicle(tmp_path):
    make_kitti(tmp_path, random_poses(1))
    assert len(poli.dataset("kitti", tmp_path, near=1.0)[0]) == 2
    with pytest.raises(InputError, match="near"):
        poli.dataset("kitti", tmp_path, near=-1.0)


def test_kitti_with_fewer_poses_than_scans_names_both_counts(tmp_path):
    make_kitti(tmp_path, random_poses(3), scans=5)
    with pytest.raises(FormatError, match=r"3 poses for 5 scans.*poses=False"):
        poli.dataset("kitti", tmp_path)
    scans = poli.dataset("kitti", tmp_path, poses=False)
    assert len(scans) == 5
    assert scans.poses is None


def test_kitti_without_a_file_of_poses_has_none(tmp_path):
    make_kitti(tmp_path, random_poses(3))
    (tmp_path / "poses" / "07.txt").unlink()
    assert poli.dataset("kitti", tmp_path).poses is None


def test_kitti_with_a_scan_missing_in_the_middle_is_refused(tmp_path):
    """Also if a row of poses is missing, so that the counts agree."""
    folder = make_kitti(tmp_path, random_poses(3), scans=4)
    (folder / "velodyne" / "000001.bin").unlink()
    (folder / "times.txt").unlink()
    with pytest.raises(FormatError, match=r"expected scan number 1, found 000002\.bin"):
        poli.dataset("kitti", tmp_path)


def test_a_truncated_scan_names_file_size_and_record(tmp_path):
    folder = make_kitti(tmp_path, random_poses(2))
    (folder / "velodyne" / "000001.bin").write_bytes(floats(POINTS)[:-3])
    scans = poli.dataset("kitti", tmp_path)
    assert len(scans[0]) == 3
    with pytest.raises(FormatError, match=r"000001\.bin: 45 bytes are not a multiple of 16"):
        scans[1]


def test_an_empty_scan_is_empty_and_occupied_counts_it(tmp_path):
    folder = make_kitti(tmp_path, random_poses(3))
    (folder / "velodyne" / "000001.bin").write_bytes(b"")
    scans = poli.dataset("kitti", tmp_path)
    assert len(scans[1]) == 0
    assert scans[1].stamp == 100_000_000
    with pytest.warns(SkippedWarning, match=r"1 \(empty; the first is scan 1\)"):
        assert [index for index, _ in occupied(scans)] == [0, 2]
    with pytest.warns(SkippedWarning, match=r"3 \(fewer than 4 points; the first is scan 0\)"):
        assert list(occupied(scans, least=4)) == []


def test_kitti_times_must_ascend_and_be_complete(tmp_path):
    folder = make_kitti(tmp_path, random_poses(3))
    for text, message in [
        ("0.0\n0.2\n0.1\n", "line 3"),
        ("0\n0.1\n", "2 times for 3 scans"),
        ("0\nnan\n1\n", "number of seconds"),
    ]:
        (folder / "times.txt").write_text(text)
        with pytest.raises(FormatError, match=message):
            poli.dataset("kitti", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (line(np.eye(4)) + "\n1 0 0 0 0 1", "line 2 has 6 numbers"),
        (line(np.diag([1.0, 1.0, -1.0, 1.0])), "no rigid motion"),
        (line(np.diag([1.1, 1.0, 1.0, 1.0])), "no rigid motion"),
        (line(np.eye(4)).replace("1", "one", 1), "no finite number"),
        ("nan" + line(np.eye(4))[1:], "no finite number"),
    ],
)
def test_damaged_pose_rows_name_the_line(tmp_path, text, message):
    make_kitti(tmp_path, random_poses(2))
    (tmp_path / "poses" / "07.txt").write_text(text)
    with pytest.raises(FormatError, match=message):
        poli.dataset("kitti", tmp_path)


def test_poses_without_the_calibration_are_refused(tmp_path):
    folder = make_kitti(tmp_path, random_poses(2))
    for text in ("P0: 1 2 3\n", "Tr: 1 0 0\n"):
        (folder / "calib.txt").write_text(text)
        with pytest.raises(FormatError, match=r"calib\.txt.*(no line 'Tr:'|12 numbers)"):
            poli.dataset("kitti", tmp_path)
    assert len(poli.dataset("kitti", tmp_path, poses=False)) == 2


def test_rotations_of_few_digits_are_made_orthonormal(tmp_path):
    make_kitti(tmp_path, random_poses(1), tr=np.eye(4))
    T = random_poses(1)[0]
    (tmp_path / "poses" / "07.txt").write_text(" ".join(f"{v:.4f}" for v in T[:3].ravel()))
    R = poli.dataset("kitti", tmp_path).poses[0, :3, :3]
    np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(R, T[:3, :3], atol=1e-4)


def test_write_kitti_comes_back(tmp_path, rng):
    poses = random_poses(3)
    fields = {"intensity": np.arange(9.0), "ring": np.zeros(9, np.uint16)}
    scans = [Scan(rng.normal(size=(9, 3)).astype(np.float32), fields, stamp=10**18 + i * 50_000_001) for i in range(3)]
    write_kitti(tmp_path / "out", 3, iter(scans), poses)
    again = poli.dataset("kitti", tmp_path / "out", sequence="03")
    np.testing.assert_array_equal(again.poses, poses)
    for i, scan in enumerate(again):
        np.testing.assert_array_equal(scan.points, scans[i].points)
        assert list(scan.fields) == ["intensity"]
        assert scan.stamp == i * 50_000_001
    with pytest.raises(FormatError, match="exists already"):
        write_kitti(tmp_path / "out", 3, iter(scans), poses)
    with pytest.raises(InputError, match="2 poses for 3 scans"):
        write_kitti(tmp_path / "out", 4, iter(scans), poses[:2])
    assert sorted(p.name for p in (tmp_path / "out" / "sequences").iterdir()) == ["03"]


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
    assert len(scans[0]) == 2  # the last point too
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
    """Stamps a few nanoseconds apart are the same double; names of different length do not sort by letters."""
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
    with pytest.raises(FormatError, match="no scan has a pose within"):
        poli.dataset("helipr", tmp_path / "far")


def test_damaged_helipr(tmp_path):
    folder = make_helipr(tmp_path, "ouster", [10, 20])
    (folder / "10.bin").write_bytes(bytes(26 + 25))
    with pytest.raises(FormatError, match=r"10\.bin: 51 bytes are not a multiple of 26"):
        poli.dataset("helipr", tmp_path, sensor="ouster")[0]
    (folder / "10.bin").write_bytes(b"")
    assert len(poli.dataset("helipr", tmp_path, sensor="ouster")[0]) == 0
    (folder / "10.bin").write_bytes(struct.pack("<3f", 1e30, 0, 1) + bytes(14))
    with pytest.raises(FormatError, match="beyond"):
        poli.dataset("helipr", tmp_path, sensor="ouster")[0]
    (folder / "010.bin").write_bytes(b"")
    with pytest.raises(FormatError, match="the same stamp"):
        poli.dataset("helipr", tmp_path, sensor="ouster")
    (folder / "010.bin").rename(folder / "scan.bin")
    with pytest.raises(FormatError, match="called by its stamp"):
        poli.dataset("helipr", tmp_path, sensor="ouster")
    with pytest.raises(InputError, match=r"'radar'.*velodyne, ouster, aeva, avia"):
        poli.dataset("helipr", tmp_path, sensor="radar")
    with pytest.raises(FormatError, match="no such folder"):
        poli.dataset("helipr", tmp_path, sensor="avia")


# --- trajectories


def test_trajectories_refuse_contradictions_and_rounded_stamps(tmp_path):
    file = tmp_path / "gt.txt"
    file.write_text("20 1 0 0 0 0 0 1\n10 0 0 0 0 0 0 1\n\n# again, the same\n20 1 0 0 0 0 0 1\n")
    np.testing.assert_array_equal(read_trajectory(file, 7).stamps, [10, 20])
    for text, message in [
        ("20 1 0 0 0 0 0 1\n20 2 0 0 0 0 0 1\n", "1 stamps have two different poses, the first is 20"),
        ("1.69e18 1 0 0 0 0 0 1\n", "line 1: '1.69e18' is no stamp in whole nanoseconds"),
        ("20 1 0 0 0 0 0 0.5\n", "quaternion has length 0.5"),
        ("20 1 0 0 0 0 0\n", "line 1 has 6 numbers"),
    ]:
        file.write_text(text)
        with pytest.raises(FormatError, match=message):
            read_trajectory(file, 7)


def test_nearest_is_the_nearest(rng):
    known = np.unique(rng.integers(0, 1000, 50))
    asked = rng.integers(-50, 1050, 200)
    rows = Trajectory(known, np.tile(np.eye(4), (len(known), 1, 1))).nearest(asked, 12)
    distance = np.abs(known - asked[:, None]).min(axis=1)
    np.testing.assert_array_equal(rows >= 0, distance <= 12)
    np.testing.assert_array_equal(np.abs(known[rows] - asked)[rows >= 0], distance[rows >= 0])
    assert (Trajectory(known[:0], np.zeros((0, 4, 4))).nearest(asked, 12) == -1).all()


# --- MulRan


def test_mulran_takes_the_nearest_pose_of_the_base(tmp_path):
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


# --- our own folders


def stamped_scans(rng, count=4):
    for i in range(count):
        n = 5 * (i != 2)  # one of them is empty
        fields = {"normal": rng.normal(size=(n, 3)), "label": np.arange(n, dtype=np.uint8), "time": np.zeros(n, np.float32)}
        yield Scan(rng.normal(size=(n, 3)).astype(np.float32), fields, stamp=10**18 + 3 * i)


def test_a_folder_comes_back_exactly(tmp_path, rng):
    poses, measured = random_poses(4), random_poses(4, seed=1)
    scans = list(stamped_scans(rng))
    write_folder(tmp_path / "out", "street 1", iter(scans), poses, measured, {"sensor": "vlp16", "seed": 3})
    again = poli.dataset(None, tmp_path / "out")
    assert (again.name, again.about) == ("street 1", {"sensor": "vlp16", "seed": 3})
    np.testing.assert_array_equal(again.poses, poses)
    np.testing.assert_array_equal(again.measured, measured)
    for mine, its in zip(again, scans, strict=True):
        assert mine.stamp == its.stamp
        np.testing.assert_array_equal(mine.points, its.points)
        assert list(mine.fields) == list(its.fields)
        for name, values in its.fields.items():
            np.testing.assert_array_equal(mine.fields[name], values)
            assert mine.fields[name].dtype == values.dtype


def test_a_folder_that_fails_leaves_nothing(tmp_path, rng):
    scans = list(stamped_scans(rng))
    cases = [
        (scans, random_poses(3), {}, "3 poses for 4 scans"),
        ([scans[0], scans[0]], random_poses(2), {}, "a stamp that an earlier one has"),
        ([replace(scans[0], stamp=None)], random_poses(1), {}, "each needs one"),
        (scans, np.zeros((4, 4, 4)), {}, r"poses\[0\] is not a rigid motion"),
        (scans, random_poses(4), {"made": object()}, "JSON cannot hold it"),
    ]
    for given, poses, about, message in cases:
        with pytest.raises(InputError, match=message):
            write_folder(tmp_path / "out", "x", given, poses, about=about)
        assert list(tmp_path.iterdir()) == []
    (tmp_path / "out").mkdir()
    write_folder(tmp_path / "out", "x", scans, random_poses(4))
    with pytest.raises(FormatError, match="exists already"):
        write_folder(tmp_path / "out", "x", scans, random_poses(4))


def test_an_incomplete_folder_is_refused(tmp_path, rng):
    out = tmp_path / "out"
    write_folder(out, "x", stamped_scans(rng), random_poses(4))
    rows = (out / "poses.txt").read_text().splitlines()
    (out / "poses.txt").write_text("\n".join(rows[:3]))
    with pytest.raises(FormatError, match="3 poses for 4 scans"):
        poli.dataset("poli", out)
    (out / "poses.txt").write_text("\n".join([*rows[:3], "7 " + rows[3].split(" ", 1)[1]]))
    with pytest.raises(FormatError, match="no pose with the stamp"):
        poli.dataset("poli", out)
    (out / "scans" / f"{10**18}.npz").unlink()
    with pytest.raises(FormatError, match="promises 4 scans, there are 3"):
        poli.dataset("poli", out)
    manifest = json.loads((out / "dataset.json").read_text())
    for changed in ({**manifest, "version": 2}, {**manifest, "format": "?"}, {**manifest, "scans": "4"}, [1]):
        (out / "dataset.json").write_text(json.dumps(changed))
        with pytest.raises(FormatError, match=r"dataset\.json"):
            poli.dataset("poli", out)
    (out / "dataset.json").write_text("{")
    with pytest.raises(FormatError, match="JSON"):
        poli.dataset("poli", out)


# --- folders of files


def test_a_plain_folder_sorts_naturally(tmp_path):
    for n in (10, 2, 1):
        (tmp_path / f"scan{n}.bin").write_bytes(floats([(n, 0, 0, 0)]))
    (tmp_path / "scan11.bin").write_bytes(b"")
    (tmp_path / "times.txt").write_text("0 1 2")
    scans = poli.dataset("auto", tmp_path)
    assert [len(scan) and int(scan.points[0, 0]) for scan in scans] == [1, 2, 10, 0]
    assert scans.poses is None
    (tmp_path / "a.ply").write_text("ply")
    with pytest.raises(FormatError, match=r"4 \.bin, 1 \.ply.*ending="):
        poli.dataset("folder", tmp_path)
    assert len(poli.dataset("folder", tmp_path, ending=".bin")) == 4
    with pytest.raises(InputError, match="ending"):
        poli.dataset("folder", tmp_path, ending=".png")


# --- the registry


def test_names_and_options_are_checked(tmp_path):
    with pytest.raises(InputError, match=r"unknown dataset 'kity'; known are kitti, helipr, mulran"):
        poli.dataset("kity", tmp_path)
    with pytest.raises(InputError, match=r"'mulran' has no option 'sensor'; it has sequence, poses"):
        poli.dataset("mulran", tmp_path, sensor="ouster")
    with pytest.raises(InputError, match=r"'nclt' has no option 'topics'; it has sequence, meta"):
        poli.dataset("nclt", tmp_path, topics=1)
    with pytest.raises(FormatError, match="cannot tell which dataset"):
        poli.dataset("auto", tmp_path)
    with pytest.raises(FormatError, match="no such file"):
        guess(tmp_path / "nothing")
    (tmp_path / "a.bin").write_bytes(b"")
    with pytest.raises(FormatError, match=r"poli\.read"):
        guess(tmp_path / "a.bin")


@pytest.mark.parametrize("name", ["kitti", "helipr", "mulran", "poli", "bag", "folder"])
def test_an_empty_folder_is_a_clear_error(tmp_path, name):
    if name == "bag":
        pytest.importorskip("rosbags")
    with pytest.raises(FormatError, match=str(tmp_path)):
        poli.dataset(name, tmp_path)


def test_a_dataset_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.setattr("poli.data.datasets.registry._FACTORIES", {"kitti": None})
    register_dataset("mine", lambda path, **options: FileDataset(str(options["colour"]), (), Scan))
    assert poli.dataset("mine", tmp_path, colour="red").name == "red"
    assert dataset_names() == ("kitti", "mine")
    with pytest.raises(InputError, match="taken"):
        register_dataset("kitti", FileDataset)


# --- kiss-icp's loaders


class FakeLoader:
    gt_poses = random_poses(2).astype(np.float32)

    def __init__(self, data_dir, sequence=None, **_):
        if sequence == "leaves":
            print("pip install something")
            sys.exit(1)
        if sequence == "short":
            self.gt_poses = self.gt_poses[:1]

    def __len__(self):
        return 2

    def __getitem__(self, index):
        if index == 1:
            return np.ones((3, 3)), np.array([])
        return np.array([[1.0, 2, 3], [0, 0, 0], [4, 5, 6]]), np.array([0.0, 0.5, 1.0])


@pytest.fixture
def fake_kiss(monkeypatch):
    module = types.ModuleType("kiss_icp.datasets")
    module.dataset_factory = lambda dataloader, data_dir, **options: FakeLoader(data_dir, **options)
    monkeypatch.setitem(sys.modules, "kiss_icp", types.ModuleType("kiss_icp"))
    monkeypatch.setitem(sys.modules, "kiss_icp.datasets", module)


@pytest.mark.usefixtures("fake_kiss")
def test_kiss_loaders_become_datasets(tmp_path):
    scans = poli.dataset("ncd", tmp_path)
    assert isinstance(scans, Dataset)
    first, second = scans
    np.testing.assert_allclose(first.fields["time"], [0.0, 0.1])
    assert first.dropped.zero == 1
    assert (len(second), list(second.fields)) == (3, [])
    np.testing.assert_allclose(scans.poses, FakeLoader.gt_poses, atol=1e-6)
    assert poli.dataset("ncd", tmp_path, poses=False).poses is None
    np.testing.assert_allclose(poli.dataset("ncd", tmp_path, period=0.05)[0].fields["time"], [0.0, 0.05])


@pytest.mark.usefixtures("fake_kiss")
def test_kiss_loaders_that_give_up_are_errors(tmp_path):
    with pytest.raises(FormatError, match=r"kiss-icp's loader gave up: pip install something"):
        poli.dataset("tum", tmp_path, sequence="leaves")
    with pytest.raises(FormatError, match="1 poses for 2 scans"):
        poli.dataset("tum", tmp_path, sequence="short")


def test_without_kiss_icp_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "kiss_icp", None)
    monkeypatch.setitem(sys.modules, "kiss_icp.datasets", None)
    with pytest.raises(MissingExtra, match=r"poli\[bench\]"):
        poli.dataset("ncd", tmp_path)


def test_kiss_icp_itself(tmp_path):
    pytest.importorskip("kiss_icp", reason="kiss-icp is not installed: pip install 'poli[bench]'")
    folder = tmp_path / "2012-01-08"
    (folder / "velodyne_sync").mkdir(parents=True)
    (tmp_path / "ground_truth").mkdir()
    for stamp in (2_000, 3_000):
        (folder / "velodyne_sync" / f"{stamp}.bin").write_bytes(struct.pack("<8h", 20200, 20400, 20600, 0, 20200, 20000, 20000, 0))
    rows = [f"{t},{t / 1000},0,0,0,0,0" for t in (1_000, 2_000, 3_000, 4_000)]
    (tmp_path / "ground_truth" / "groundtruth_2012-01-08.csv").write_text("\n".join(rows))
    scans = poli.dataset("nclt", folder)
    np.testing.assert_allclose(scans[0].points, [[1, -2, -3], [1, 0, 0]], atol=1e-5)
    assert scans.poses.shape == (2, 4, 4)
    (folder / "velodyne_sync" / "2000.bin").write_bytes(b"\0" * 7)
    with pytest.raises(FormatError, match=r"2000\.bin: 7 bytes are not a multiple of 8"):
        scans[0]
