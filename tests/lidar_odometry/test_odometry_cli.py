"""`poli odometry`: the files it writes, however it ends."""

import json
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest

import poli
from odometry_runs import COUNT, VOXEL, Scans, in_memory, run
from poli.io.datasets import write_folder, write_kitti
from poli.io.trajectory_files import read_kitti, read_tum
from poli.lidar_odometry import OdometryConfig
from poli.lidar_odometry.run_folder import evaluate, read_steps
from poli.lidar_odometry.step import STAGES
from poli.lidar_odometry.trajectory_errors import relative_errors
from poli.scan import Scan
from poli.worlds import Ride, World
from poli.worlds.drive import Drive
from poli.worlds.places import make_place

# --- the files


@pytest.mark.parametrize("layout", ["poli", "kitti"])
def test_files_exist_and_equal_what_the_library_returns(tmp_path, monkeypatch, drive, sweeps, layout):
    if layout == "kitti":
        write_kitti(tmp_path / "data", "00", sweeps, drive.poses)
    else:
        write_folder(tmp_path / "data", "a town", sweeps, drive.poses)
    monkeypatch.chdir(tmp_path)
    result = run("data", "--voxel", VOXEL, "--map", "map.ply")
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
        parts = sum(float(row[f"{stage}_seconds"]) for stage in STAGES)  # a stage missing from STAGES would change the sum
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
    points = poli.read("map.ply")
    assert len(points) == summary["map"]["count"] > 3000
    assert summary["map"]["path"] == str(tmp_path / "map.ply")
    assert "intensity" in points.fields or "intensity" not in data[0].fields
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


def test_a_part_of_the_data(tmp_path, drive, sweeps, open_as_memory):
    open_as_memory(Scans(sweeps, drive.poses))
    _, summary = in_memory(tmp_path, "--first", 2, "--scans", 4, "--against", "scan")
    assert summary["scans_done"] == 4
    expected = poli.odometry(sweeps[2:6], OdometryConfig(voxel=VOXEL, against="scan"))
    np.testing.assert_allclose(read_kitti(tmp_path / "run" / "poses_kitti.txt"), expected, atol=1e-9)
    assert [row["scan"] for row in read_steps(tmp_path / "run")] == ["2", "3", "4", "5"]
    truth = np.linalg.inv(drive.poses[2]) @ drive.poses[2:6]
    assert summary["evaluation"]["rpe_1_scan"]["rmse"] == pytest.approx(evaluate(expected, truth)["rpe_1_scan"]["rmse"])


def test_scans_without_stamps_are_a_tenth_of_a_second_apart(tmp_path, sweeps, open_as_memory):
    open_as_memory(Scans([replace(scan, stamp=None) for scan in sweeps[:4]]))
    _, summary = in_memory(tmp_path)
    assert summary["without_stamp"] == 4
    assert summary["evaluation"] is None
    np.testing.assert_array_equal(read_tum(tmp_path / "run" / "poses_tum.txt")[0], np.arange(4) * 10**8)
    assert [row["stamp"] for row in read_steps(tmp_path / "run")] == [""] * 4
    assert "0.1 s" in json.loads((tmp_path / "run" / "config.json").read_text())["stamps"]
    assert not (tmp_path / "run" / "truth_kitti.txt").exists()


@pytest.mark.parametrize("kind", ["ros1", "sqlite3", "mcap"])
def test_a_bag_is_deskewed_and_tracked(tmp_path, kind):
    pytest.importorskip("rosbags", reason="rosbags is not installed: pip install 'poli[ros]'")
    from tiny_bags import SENSOR, STAMP, message, write_clouds

    drive = Drive(World(make_place("town", 1_000_123)), SENSOR, Ride(start=20.0, speed=12.0), 6, deskewed=False)
    bag = tmp_path / ("drive.bag" if kind == "ros1" else "drive")
    write_clouds(bag, kind, [message(kind, scan, i) for i, scan in enumerate(drive)])
    assert "6 of 6 scans" in run(bag, "--voxel", VOXEL, "--out", tmp_path / "out").output
    stamps, poses = read_tum(tmp_path / "out" / "poses_tum.txt")
    np.testing.assert_array_equal(stamps, STAMP + 100_000_000 * np.arange(6))
    assert relative_errors(poses, drive.poses).rmse.translation < 0.03


# --- interruptions and errors


def test_every_scan_is_on_disk_before_the_next_is_read(tmp_path, sweeps, open_as_memory):
    """So that no kill loses a scan, not even one that cannot be caught."""
    folder = tmp_path / "run"
    counts = []

    def look(number):
        if not number:
            assert not folder.exists()  # a run that fails at its first scan leaves nothing
            return
        counts.append(
            (len(read_tum(folder / "poses_tum.txt")[0]), len(read_kitti(folder / "poses_kitti.txt")), len(read_steps(folder)))
        )

    open_as_memory(Scans(sweeps[:4], before=look))
    in_memory(tmp_path, "--model", "pca")
    assert counts == [(n, n, n) for n in range(1, 4)]


@pytest.mark.parametrize(("how", "code"), [("ctrl-c", 130), ("kill", 143), ("twice", 130)])
def test_an_interrupt_keeps_the_results_so_far(tmp_path, drive, sweeps, open_as_memory, how, code):
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


def test_a_lost_scan_stops_the_run_and_keeps_the_earlier_poses(tmp_path, rng, drive, sweeps, open_as_memory):
    scans = list(sweeps)
    scans[5] = Scan(rng.uniform(-100.0, 100.0, (4000, 3)), stamp=sweeps[5].stamp)
    open_as_memory(Scans(scans, drive.poses))
    result, summary = in_memory(tmp_path, code=1)
    assert "tracking lost: scan 5" in str(result.exception)
    assert "on_loss='restart'" in str(result.exception)
    assert "scan 5" in summary["reason"]
    assert summary["interrupted"] is False
    expected = poli.odometry(sweeps[:5], OdometryConfig(voxel=VOXEL))
    np.testing.assert_allclose(read_kitti(tmp_path / "run" / "poses_kitti.txt"), expected, atol=1e-9)

    shutil.rmtree(tmp_path / "run")
    result, summary = in_memory(tmp_path, "--on-loss", "restart")
    assert summary["statuses"]["restarted"] >= 1
    assert summary["scans_done"] == COUNT
    assert "warning: scan 5 restarted" in result.output
