"""Datasets: tiny sequences written byte by byte, valid and damaged. Damage is an error or a counted skip, never a wrong pose."""

import struct
import sys
import types

import numpy as np
import pytest

import poli
from poli import Scan, se3
from poli.errors import FormatError, InputError, MissingExtra
from poli.io.datasets import Dataset, FileDataset, dataset_names, guess, register_dataset, write_kitti
from tiny_sequences import POINTS, floats, line, random_poses

T_CAMERA_VELO = np.array([[0, -1, 0, 0.1], [0, 0, -1, -0.2], [1, 0, 0, -0.3], [0, 0, 0, 1.0]])


def make_kitti(root, poses, name="07", scans=None, tr=T_CAMERA_VELO):
    """Scans of POINTS, and camera poses for which the sensor poses are `poses`."""
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
    with pytest.raises(InputError, match=r"08.*07"):
        poli.dataset("kitti", tmp_path, sequence="08")


def test_kitti_near_drops_the_vehicle(tmp_path):
    make_kitti(tmp_path, random_poses(1))
    assert len(poli.dataset("kitti", tmp_path, min_range=1.0)[0]) == 2
    with pytest.raises(InputError, match="min_range"):
        poli.dataset("kitti", tmp_path, min_range=-1.0)


def test_kitti_with_fewer_poses_than_scans_reports_both_counts(tmp_path):
    make_kitti(tmp_path, random_poses(3), scans=5)
    with pytest.raises(FormatError, match=r"3 poses for 5 scans.*poses=False"):
        poli.dataset("kitti", tmp_path)
    scans = poli.dataset("kitti", tmp_path, poses=False)
    assert len(scans) == 5
    assert scans.poses is None


def test_kitti_without_a_pose_file_has_no_poses(tmp_path):
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


def test_a_truncated_scan_reports_file_size_and_record(tmp_path):
    folder = make_kitti(tmp_path, random_poses(2))
    (folder / "velodyne" / "000001.bin").write_bytes(floats(POINTS)[:-3])
    scans = poli.dataset("kitti", tmp_path)
    assert len(scans[0]) == 3
    with pytest.raises(FormatError, match=r"000001\.bin: 45 bytes are not a multiple of 16"):
        scans[1]


def test_an_empty_scan_is_empty(tmp_path):
    folder = make_kitti(tmp_path, random_poses(3))
    (folder / "velodyne" / "000001.bin").write_bytes(b"")
    scans = poli.dataset("kitti", tmp_path)
    assert len(scans[1]) == 0
    assert scans[1].stamp == 100_000_000


def test_kitti_times_must_increase_and_be_complete(tmp_path):
    folder = make_kitti(tmp_path, random_poses(3))
    for text, message in [
        ("0.0\n0.2\n0.1\n", "line 3"),
        ("0\n0.1\n", "2 times for 3 scans"),
        ("0\nnan\n1\n", r"times\.txt: .*seconds"),
    ]:
        (folder / "times.txt").write_text(text)
        with pytest.raises(FormatError, match=message):
            poli.dataset("kitti", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (line(np.eye(4)) + "\n1 0 0 0 0 1", "line 2 has 6 .* expected 12"),
        (line(np.diag([1.0, 1.0, -1.0, 1.0])), "line 1 .*rigid motion"),
        (line(np.diag([1.1, 1.0, 1.0, 1.0])), "line 1 .*rigid motion"),
        (line(np.eye(4)).replace("1", "one", 1), "line 1 .*finite number"),
        ("nan" + line(np.eye(4))[1:], "line 1 .*finite number"),
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
        with pytest.raises(FormatError, match=r"calib\.txt.*(without a line 'Tr:'|expected 12)"):
            poli.dataset("kitti", tmp_path)
    assert len(poli.dataset("kitti", tmp_path, poses=False)) == 2


def test_rotations_with_few_digits_are_orthonormalized(tmp_path):
    make_kitti(tmp_path, random_poses(1), tr=np.eye(4))
    T = random_poses(1)[0]
    (tmp_path / "poses" / "07.txt").write_text(" ".join(f"{v:.4f}" for v in T[:3].ravel()))
    R = poli.dataset("kitti", tmp_path).poses[0, :3, :3]
    np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(R, T[:3, :3], atol=1e-4)


def test_write_kitti_round_trips(tmp_path, rng):
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
    with pytest.raises(FormatError, match="already exists"):
        write_kitti(tmp_path / "out", 3, iter(scans), poses)
    with pytest.raises(InputError, match="2 poses for 3 scans"):
        write_kitti(tmp_path / "out", 4, iter(scans), poses[:2])
    assert sorted(p.name for p in (tmp_path / "out" / "sequences").iterdir()) == ["03"]


# --- the registry


def test_names_and_options_are_checked(tmp_path):
    with pytest.raises(InputError, match=r"unknown dataset 'kity'; .*kitti, kitti_raw, helipr, mulran"):
        poli.dataset("kity", tmp_path)
    with pytest.raises(InputError, match=r"'mulran' has no option 'sensor'; it has sequence, poses"):
        poli.dataset("mulran", tmp_path, sensor="ouster")
    with pytest.raises(InputError, match=r"'nclt' has no option 'topics'; it has sequence, meta"):
        poli.dataset("nclt", tmp_path, topics=1)
    with pytest.raises(FormatError, match="folder is empty"):
        poli.dataset("auto", tmp_path)
    (tmp_path / "notes.md").write_text("none")
    with pytest.raises(FormatError, match=r"dataset type .*kitti, kitti_raw"):
        poli.dataset("auto", tmp_path)
    with pytest.raises(FormatError, match="no such file"):
        guess(tmp_path / "nothing")
    (tmp_path / "a.bin").write_bytes(b"")
    with pytest.raises(FormatError, match=r"poli\.read"):
        guess(tmp_path / "a.bin")


@pytest.mark.parametrize("name", ["kitti", "kitti_raw", "helipr", "mulran", "poli", "bag", "folder"])
def test_an_empty_folder_is_a_clear_error(tmp_path, name):
    if name == "bag":
        pytest.importorskip("rosbags")
    with pytest.raises(FormatError, match=str(tmp_path)):
        poli.dataset(name, tmp_path)


def test_a_custom_dataset(tmp_path, monkeypatch):
    monkeypatch.setattr("poli.io.datasets._FACTORIES", {"kitti": None})
    register_dataset("mine", lambda path, **options: FileDataset(str(options["color"]), (), Scan))
    assert poli.dataset("mine", tmp_path, color="red").name == "red"
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
def test_kiss_loaders_that_exit_are_errors(tmp_path):
    with pytest.raises(FormatError, match=r"kiss-icp loader.*: pip install something"):
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
