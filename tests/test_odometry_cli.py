"""`poli odometry`: what it writes, whatever ends it, and what it says."""

import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import poli
from poli.cli import app
from poli.data.datasets import Skipped, registry, write_folder, write_kitti
from poli.data.simulate import Ride, Sensor, World
from poli.data.simulate.drive import Drive
from poli.data.simulate.places import make_place
from poli.data.trajectory_files import read_kitti, read_tum
from poli.errors import FormatError, InputError, MissingExtra
from poli.scan import Scan
from poli.tasks.odometry import OdometryConfig
from poli.tasks.odometry.recording import link_latest, read_steps
from poli.tasks.odometry.summary import STAGES, evaluate

COUNT = 8
VOXEL = 0.5
SENSOR = Sensor(tuple(np.linspace(-15.0, 15.0, 16)), 360, farthest=80.0, noise=0.02)


class Scans:
    """A dataset in memory. `before` is called with the number of a scan that is about to be read."""

    def __init__(self, scans, poses=None, before=None, skipped=()):
        self.name, self.scans, self.poses, self.before, self.skipped = "memory", list(scans), poses, before, skipped

    def __len__(self):
        return len(self.scans)

    def __getitem__(self, index):
        if self.before:
            self.before(index)
        return self.scans[index]

    def __iter__(self):
        return (self[i] for i in range(len(self)))


@pytest.fixture(scope="module")
def drive():
    return Drive(World(make_place("town", 2_000_003)), SENSOR, Ride(), COUNT, movers=False)


@pytest.fixture(scope="module")
def sweeps(drive):
    return [scan.keep("intensity") if "intensity" in scan.fields else scan.keep() for scan in drive]


@pytest.fixture
def open_as_memory(monkeypatch):
    """Make a dataset what `--dataset memory` opens."""

    def provide(dataset):
        monkeypatch.setitem(registry._FACTORIES, "memory", lambda path: dataset)

    return provide


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["odometry", *map(str, arguments)])
    if code is not None and result.exit_code != code:
        raise AssertionError(f"exit code {result.exit_code}: {result.output}") from result.exception
    return result


def in_memory(tmp_path, *arguments, code=0):
    result = run(tmp_path, "--dataset", "memory", "--out", tmp_path / "run", "--voxel", VOXEL, *arguments, code=code)
    return result, json.loads((tmp_path / "run" / "summary.json").read_text())


# --- what is written


@pytest.mark.parametrize("layout", ["poli", "kitti"])
def test_files_are_there_and_equal_what_the_library_returns(tmp_path, monkeypatch, drive, sweeps, layout):
    if layout == "kitti":
        write_kitti(tmp_path / "data", "00", sweeps, drive.poses)
    else:
        write_folder(tmp_path / "data", "a town", sweeps, drive.poses)
    monkeypatch.chdir(tmp_path)
    result = run("data", "--voxel", VOXEL, "--save-map")
    folder = tmp_path / "results" / "odometry" / ("kitti_00" if layout == "kitti" else "a_town") / "latest"
    data = poli.dataset(layout, "data")
    expected = poli.odometry(data, OdometryConfig(voxel=VOXEL))
    stamps, poses = read_tum(folder / "poses_tum.txt")
    np.testing.assert_array_equal(stamps, [scan.stamp for scan in data])
    np.testing.assert_allclose(poses, expected, atol=1e-9)
    np.testing.assert_allclose(read_kitti(folder / "poses_kitti.txt"), expected, atol=1e-9)
    np.testing.assert_allclose(read_kitti(folder / "truth_kitti.txt"), np.linalg.inv(data.poses[0]) @ data.poses, atol=1e-9)

    steps = read_steps(folder)
    assert [row["status"] for row in steps] == ["first"] + ["tracked"] * (COUNT - 1)
    for row in steps[1:]:
        assert row["converged"] == "true"
        assert 0.5 < float(row["fit"]) <= float(row["overlap"]) <= 1.0
        parts = sum(float(row[f"{stage}_seconds"]) for stage in STAGES)  # a stage that is not among them would be missing here
        assert float(row["total_seconds"]) == pytest.approx(parts, abs=1e-5)

    config = json.loads((folder / "config.json").read_text())
    assert config["poli"] == poli.__version__
    assert config["data"]["scans"] == COUNT
    assert config["model"] == {"name": "lidar"}
    assert config["odometry"]["voxel"] == VOXEL

    summary = json.loads((folder / "summary.json").read_text())
    assert summary["statuses"] == {"first": 1, "tracked": COUNT - 1}
    assert (summary["scans_asked"], summary["scans_done"], summary["interrupted"], summary["reason"]) == (COUNT, COUNT, False, None)
    assert set(summary["seconds"]) == {*STAGES, "total"}
    assert summary["path_length"] == pytest.approx(0.8 * (COUNT - 1), abs=0.5)
    assert summary["evaluation"]["rpe_1_scan"]["count"] == COUNT - 1
    assert summary["evaluation"]["rpe_1_scan"]["rmse"]["translation"] < 0.2
    assert summary["evaluation"]["kitti_segments"]["none_because"] == "the path is shorter than 100 m"
    assert len(poli.Ellipsoids.load(folder / "map.ply")) > 500
    for said in ("scans/s", f"{COUNT - 1} tracked", "RPE scan to scan", "KITTI segments: none", "poses_tum.txt"):
        assert said in result.output


def test_the_link_names_the_newest_run(tmp_path, monkeypatch, sweeps, open_as_memory):
    open_as_memory(Scans(sweeps[:2]))
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / "results" / "odometry" / "memory"
    seen = []
    for _ in range(2):
        run(".", "--dataset", "memory", "--model", "pca")
        seen.append((runs / "latest").resolve())
    assert (runs / "latest").is_symlink()
    assert seen[0] != seen[1]
    assert sorted(p.name for p in runs.iterdir()) == sorted([seen[0].name, seen[1].name, "latest"])


def test_what_is_called_latest_and_is_no_link_stays(tmp_path):
    (tmp_path / "latest").mkdir()
    (tmp_path / "a").mkdir()
    link_latest(tmp_path / "a")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "latest"]
    assert not (tmp_path / "latest").is_symlink()


def test_a_part_of_the_data(tmp_path, drive, sweeps, open_as_memory):
    open_as_memory(Scans(sweeps, drive.poses))
    _, summary = in_memory(tmp_path, "--first", 2, "--scans", 4, "--against", "scan")
    assert summary["scans_done"] == 4
    expected = poli.odometry(sweeps[2:6], OdometryConfig(voxel=VOXEL, against="scan"))
    np.testing.assert_allclose(read_kitti(tmp_path / "run" / "poses_kitti.txt"), expected, atol=1e-9)
    assert [row["scan"] for row in read_steps(tmp_path / "run")] == ["2", "3", "4", "5"]
    truth = np.linalg.inv(drive.poses[2]) @ drive.poses[2:6]
    assert summary["evaluation"]["rpe_1_scan"]["rmse"] == pytest.approx(evaluate(expected, truth)["rpe_1_scan"].rmse)


def test_scans_without_stamps_are_a_tenth_of_a_second_apart(tmp_path, sweeps, open_as_memory):
    open_as_memory(Scans([replace(scan, stamp=None) for scan in sweeps[:4]]))
    _, summary = in_memory(tmp_path)
    assert summary["without_stamp"] == 4
    assert summary["evaluation"] is None
    np.testing.assert_array_equal(read_tum(tmp_path / "run" / "poses_tum.txt")[0], np.arange(4) * 10**8)
    assert [row["stamp"] for row in read_steps(tmp_path / "run")] == [""] * 4
    assert "0.1 s" in json.loads((tmp_path / "run" / "config.json").read_text())["stamps"]
    assert not (tmp_path / "run" / "truth_kitti.txt").exists()


# --- whatever ends it


def test_every_scan_is_on_disk_before_the_next_is_read(tmp_path, sweeps, open_as_memory):
    """So that a kill loses none, not even one that cannot be caught."""
    folder = tmp_path / "run"
    counts = []

    def look(_):
        counts.append(
            (len(read_tum(folder / "poses_tum.txt")[0]), len(read_kitti(folder / "poses_kitti.txt")), len(read_steps(folder)))
        )

    open_as_memory(Scans(sweeps[:4], before=look))
    in_memory(tmp_path, "--model", "pca")
    assert counts == [(n, n, n) for n in range(4)]


@pytest.mark.parametrize(("how", "code"), [("ctrl-c", 130), ("kill", 143), ("twice", 130)])
def test_an_interrupt_keeps_what_there_is(tmp_path, drive, sweeps, open_as_memory, how, code):
    def interrupt(number):
        if how == "ctrl-c" and number == 2:
            signal.raise_signal(signal.SIGINT)
        if how == "kill" and number == 2:
            signal.raise_signal(signal.SIGTERM)
        if how == "twice" and number == 3:  # the second one does not wait for the scan
            raise KeyboardInterrupt

    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    open_as_memory(Scans(sweeps, drive.poses, interrupt))
    result, summary = in_memory(tmp_path, code=code)
    assert summary["interrupted"] is True
    assert summary["scans_done"] == 3
    assert summary["evaluation"]["rpe_1_scan"]["count"] == 2
    assert len(read_tum(tmp_path / "run" / "poses_tum.txt")[0]) == 3
    assert len(read_kitti(tmp_path / "run" / "poses_kitti.txt")) == 3
    assert len(read_kitti(tmp_path / "run" / "truth_kitti.txt")) == 3
    assert f"interrupted after 3 of {COUNT} scans" in result.stderr
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_lost_scan_stops_the_run_and_the_poses_before_it_stand(tmp_path, rng, drive, sweeps, open_as_memory):
    scans = list(sweeps)
    scans[5] = Scan(rng.uniform(-100.0, 100.0, (4000, 3)), stamp=sweeps[5].stamp)
    open_as_memory(Scans(scans, drive.poses))
    result, summary = in_memory(tmp_path, code=1)
    assert "scan 5" in result.stderr
    assert "--on-loss restart" in result.stderr
    assert "scan 5" in summary["reason"]
    assert summary["interrupted"] is False
    expected = poli.odometry(sweeps[:5], OdometryConfig(voxel=VOXEL))
    np.testing.assert_allclose(read_kitti(tmp_path / "run" / "poses_kitti.txt"), expected, atol=1e-9)

    shutil.rmtree(tmp_path / "run")
    result, summary = in_memory(tmp_path, "--on-loss", "restart")
    assert summary["statuses"]["restarted"] >= 1
    assert summary["scans_done"] == COUNT
    assert "warning: scan 5 restarted" in result.output


def test_a_damaged_scan_ends_the_run_with_its_own_error(tmp_path, sweeps, open_as_memory):
    def damaged(number):
        if number == 2:
            raise FormatError("000002.bin: 7 bytes are not a multiple of 16")

    open_as_memory(Scans(sweeps, before=damaged))
    result, summary = in_memory(tmp_path, "--model", "pca", code=1)
    assert isinstance(result.exception, FormatError)
    assert summary["reason"] == "000002.bin: 7 bytes are not a multiple of 16"
    assert summary["scans_done"] == 2


# --- what it says


def test_an_empty_scan_is_predicted_and_reported(tmp_path, drive, sweeps, open_as_memory):
    scans = list(sweeps)
    scans[4] = Scan(np.zeros((0, 3)), stamp=sweeps[4].stamp)
    open_as_memory(Scans(scans, drive.poses, skipped=[Skipped(f"{n}.bin", "no pose within 0.001 s") for n in range(7)]))
    result, summary = in_memory(tmp_path)
    (odd,) = summary["not_tracked"]
    assert (odd["index"], odd["scan"], odd["status"]) == (4, 4, "predicted")
    assert "warning: scan 4 predicted: only 0 points are left of 0 returns" in result.output
    assert read_steps(tmp_path / "run")[4]["fit"] == ""
    assert summary["evaluation"]["ape_origin"]["count"] == COUNT
    assert "left out of the data: 0.bin: no pose within 0.001 s" in result.output
    assert "and 2 more (7 in all" in result.output
    assert len(json.loads((tmp_path / "run" / "config.json").read_text())["data"]["skipped"]) == 7


def test_wrong_options_name_the_remedy_and_write_nothing(tmp_path, monkeypatch, drive, sweeps):
    write_kitti(tmp_path / "data", "00", sweeps[:2], drive.poses[:2])
    write_kitti(tmp_path / "data", "01", sweeps[:2], drive.poses[:2])
    monkeypatch.chdir(tmp_path)
    for arguments, kind, said in [
        (["--option", "topic"], InputError, "expected KEY=VALUE"),
        (["--sequence", "00", "--option", "beams=3"], InputError, "no option 'beams'; it has sequence, poses, near"),
        (["--sequence", "00", "--option", "sequence=1"], InputError, "given twice"),
        ([], InputError, "There are: 00, 01; pass --sequence"),
        (["--dataset", "moon"], InputError, "known are kitti"),
        (["--sequence", "00", "--first", 2], InputError, "has 2 scans, the last is number 1"),
        (["--sequence", "00", "--model", "no"], InputError, "expected one of lidar"),
        (["--sequence", "00", "--model", "no.safetensors"], FormatError, "no such model file"),
        (["--sequence", "00", "--against", "scan", "--save-map"], InputError, "leave one of the two out"),
        (["--sequence", "00", "--nearest", 130], InputError, "no return lies between"),
    ]:
        result = run("data", *arguments, code=1)
        assert isinstance(result.exception, kind), result.output
        assert said in str(result.exception)
    assert not Path("results").exists()
    assert "no such file or folder" in str(run("nowhere", code=1).exception)
    assert "'--against'" in run("data", "--against", "moon", code=2).output
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("")
    result = run("data", "--sequence", "00", "--out", "taken", code=1)
    assert "taken: exists already; give another folder" in str(result.exception)


def test_options_reach_the_dataset(tmp_path, sweeps, monkeypatch):
    seen = {}

    def factory(path, **options):
        seen.update(options)
        return Scans(sweeps[:1])

    monkeypatch.setitem(registry._FACTORIES, "memory", factory)
    options = [
        "--option",
        "topic=/a=b",
        "--option",
        "near=2.5",
        "--option",
        "poses=False",
        "--option",
        "beams=16",
        "--sequence",
        "07",
    ]
    run(tmp_path, "--dataset", "memory", "--out", tmp_path / "run", "--model", "pca", *options)
    assert seen == {"topic": "/a=b", "near": 2.5, "poses": False, "beams": 16, "sequence": "07"}


def test_help_has_examples():
    assert "poli odometry kitti --sequence 07" in run("--help").output


# --- the picture


def test_the_picture_marks_what_was_not_tracked(tmp_path, drive, sweeps, open_as_memory):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    scans = list(sweeps)
    scans[4] = Scan(np.zeros((0, 3)), stamp=sweeps[4].stamp)
    open_as_memory(Scans(scans, drive.poses))
    in_memory(tmp_path, "--model", "pca")
    picture = pyplot.imread(tmp_path / "run" / "trajectory.png")
    predicted = np.array([0xD5, 0x5E, 0x00]) / 255.0
    assert (np.abs(picture[..., :3] - predicted) < 0.01).all(axis=2).sum() > 50
    assert picture.shape[0] > 500


@pytest.mark.parametrize("count", [1, 2])
def test_the_picture_of_a_short_run(tmp_path, drive, sweeps, open_as_memory, count):
    pytest.importorskip("matplotlib")
    open_as_memory(Scans(sweeps[:count], drive.poses[:count]))
    result, _ = in_memory(tmp_path, "--model", "pca")
    assert (tmp_path / "run" / "trajectory.png").stat().st_size > 1000
    assert "trajectory.png" in result.output


def test_without_matplotlib_the_run_is_whole_and_the_extra_is_named(tmp_path, sweeps, open_as_memory, monkeypatch):
    def missing():
        raise MissingExtra("plotting", "bench")

    monkeypatch.setattr("poli.show.trajectory.pyplot", missing)
    open_as_memory(Scans(sweeps[:2]))
    result, summary = in_memory(tmp_path, "--model", "pca")
    assert "poli[bench]" in result.output
    assert summary["scans_done"] == 2
