"""`python -m benchmarks paper`: its odometry names, on tiny sequences in the real layouts of KITTI and HeLiPR."""

import json
import math
import sys
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.experiments.paper import NAMES, Options, models_of, run
from benchmarks.experiments.paper.contest import Found, written_by
from benchmarks.experiments.paper.numbers import TABLE1, TABLE4
from benchmarks.experiments.paper.sequences import Source, sources
from benchmarks.experiments.paper.table1 import METHODS, SAMPLES, around_points, upsampled, why_no_tulip
from benchmarks.experiments.paper.table_s1 import models_by_name
from benchmarks.provenance import source_digest
from benchmarks.status import why_stale
from paper_data import COUNT, STAMP, T_CAMERA_LIDAR, write_helipr, write_kitti_odometry
from pictures import plot_colors
from poli.errors import InputError
from poli.io.trajectory_files import TrajectoryWriter
from poli.lidar_odometry.trajectory_errors import relative_errors
from poli.scan import Scan
from poli.se3 import exp, inverse


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Folder of both datasets, of the trajectories of others, and of kept outcomes."""
    folder = tmp_path_factory.mktemp("paper")
    write_kitti_odometry(folder / "kitti")
    poses = write_helipr(folder / "helipr")
    write_helipr(folder / "helipr", "KAIST04", imu=False)
    (folder / "others" / "A-LOAM").mkdir(parents=True)
    with TrajectoryWriter(folder / "others" / "A-LOAM" / "DCC04.txt", "tum") as file:
        for row, T in enumerate(poses):
            file.append(T @ exp(np.array([0.0, 0.0, 0.0, 0.1 * row, 0.0, 0.0])), STAMP + row * 10**8)
    return folder


@pytest.fixture
def options(data, monkeypatch):
    monkeypatch.setenv("POLI_NUM_THREADS", "1")
    return Options(
        kitti=data / "kitti", helipr=data / "helipr", trajectories=data / "others", frames=(2,), voxels=(1.0,), runs=data / "runs"
    )


def only(name, options):
    (report,) = run(replace(options, name=name))
    assert report.name == f"paper_{name}"
    return report


def refuse(*_args, **_kwargs):
    raise AssertionError("it was to be read, not run")


# --- the sequences


def test_sequences_are_those_of_the_papers_tables(options):
    found = sources(options, beams=16)
    assert [(s.name, s.column, s.sensor) for s in found] == [
        ("DCC04", "DCC", "velodyne"), ("KAIST04", "KAIST", "velodyne"), ("04", "04", "hdl64e")
    ]  # fmt: skip
    chosen = replace(options, sequences=("KAIST04",))
    assert [s.label for s in sources(chosen, sensors=("velodyne", "ouster"))] == ["KAIST04, VLP-16", "KAIST04, OS2-128"]
    with pytest.raises(InputError, match=r"sequence '07' is not there: .*DIR/poses/00\.txt"):
        sources(replace(options, sequences=("07",)))
    with pytest.raises(InputError, match=r"no such folder; it should hold KITTI odometry \(cvlibs"):
        sources(replace(options, kitti=options.runs / "nowhere", helipr=None))


def test_kitti_is_read_scan_by_scan_every_fourth_ring_with_poses_of_the_lidar(options, data):
    full = Source("kitti", data / "kitti", "04", "hdl64e").open()
    thin = Source("kitti", data / "kitti", "04", "hdl64e", beams=16, scans=4).open()
    assert (len(full), len(thin), len(thin.poses)) == (COUNT, 4, 4)
    elevation = np.degrees(np.arctan2(thin[0].points[:, 2], np.hypot(*thin[0].points[:, :2].T)))
    rows = np.round((elevation + 24.8) * 63 / 26.8).astype(int)
    assert set(rows) <= set(range(0, 64, 4))
    assert len(thin[0]) < 0.35 * len(full[0])
    assert thin[-1].stamp == 300_000_000
    with pytest.raises(IndexError):
        thin[4]
    assert full.identity != thin.identity
    camera = np.loadtxt(data / "kitti" / "poses" / "04.txt").reshape(-1, 3, 4)
    moved = inverse(T_CAMERA_LIDAR) @ np.vstack([camera[3], [0, 0, 0, 1]]) @ T_CAMERA_LIDAR
    np.testing.assert_allclose(inverse(full.poses[0]) @ full.poses[3], moved, atol=1e-6)


# --- names


def test_a_missing_folder_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "paper", "table1"])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    for part in ("table1 needs --helipr DIR: ", "DIR/KAIST04/LiDAR/Velodyne", "--kitti DIR: ", "DIR/sequences/00/velodyne"):
        assert part in said
    with pytest.raises(InputError, match="did you mean table1"):
        Options("tabel1")


def test_all_passes_over_names_without_their_folders(monkeypatch, capsys):
    needing = {name: one for name, one in NAMES.items() if one.folders}
    monkeypatch.setattr("benchmarks.experiments.paper.NAMES", needing)
    assert list(run(Options())) == []
    assert len(capsys.readouterr().out.splitlines()) == len(needing)


def test_weights_are_those_of_the_task_or_of_the_given_model():
    assert models_of(Options("table1")) == ["lidar"]
    assert models_of(Options("objects")) == ["objects"]
    assert models_of(Options("all")) == ["objects", "lidar"]
    assert models_of(Options("all", model="mine.safetensors")) == ["mine.safetensors"]


def test_table1(options, tmp_path, monkeypatch):
    pytest.importorskip("kiss_icp")
    monkeypatch.setattr("benchmarks.experiments.paper.table1.why_no_tulip", lambda _: "it rests")
    report = only("table1", replace(options, frames=(2, 100)))
    names = [name for name in METHODS if name != "+ TULIP"]
    found = {(r["sequence"], r["method"], r["frames"], r["pairs"]): r for r in report.records}
    assert {r["method"] for r in report.records} == set(names)
    assert {r["sequence"] for r in report.records} == {"DCC04", "KAIST04", "04"}
    for sequence in ("DCC04", "04"):
        assert [found[sequence, "KISS-ICP", 2, pairs]["count"] for pairs in ("consecutive", "all")] == [2, 4]
        for name in names:
            assert 0.0 < found[sequence, name, 2, "all"]["rpe_m"] < 2.0  # meters, of 1.6: KISS-ICP starts at rest
    far = found["DCC04", "+ POLI, the paper's sampling", 100, "all"]
    assert (far["count"], math.isnan(far["rpe_m"]), far["paper_m"]) == (0, True, TABLE1["POLI"]["DCC"])
    columns, rows = report.cells
    cells = {(row[0], row[1], row[2]): dict(zip(columns, row, strict=True)) for row in rows}
    assert cells["100", "all", "DCC04"]["+ TULIP"] == "- (6.60)"
    assert cells["100", "all", "04"]["KISS-ICP"] == "- (2.49)"
    assert cells["2", "all", "DCC04"]["+ TULIP"] == "-"
    assert report.notes[-1] == "+ TULIP: not run, it rests."
    monkeypatch.setattr("benchmarks.experiments.paper.table1.run_kiss", refuse)
    assert only("table1", replace(options, frames=(2, 100))).cells == report.cells


def test_the_papers_rival_draws_around_every_point(rng):
    points = rng.normal(size=(60, 3)) * [5.0, 5.0, 0.01]
    scan = Scan(points, {"time": np.linspace(0.0, 0.1, 60), "ring": np.arange(60) % 16})
    near, far = (around_points(radius, seed=0).apply(scan) for radius in (0.05, 0.5))
    assert len(near) == 60 * (1 + SAMPLES)
    np.testing.assert_array_equal(near.points[:60], points)
    np.testing.assert_array_equal(near.fields["time"][60:], np.repeat(scan.fields["time"], SAMPLES))
    away = [np.linalg.norm(dense.points[60:] - np.repeat(points, SAMPLES, axis=0), axis=1) for dense in (near, far)]
    np.testing.assert_allclose(away[1], 10.0 * away[0], rtol=1e-6, atol=1e-9)
    assert 0.0 < away[0].max() < 0.05 * 15.0


def test_rows_of_tulip_have_the_times_of_their_azimuth(options):
    pytest.importorskip("torch")
    assert why_no_tulip(options) == ""
    assert why_no_tulip(replace(options, beams=32)) == "it upsamples 16 beams"
    source = sources(options, ("DCC",))[0]
    scan = source.open()[1]
    dense = upsampled(source).apply(scan)
    new = dense.points[len(scan) :]
    assert len(new) > 0.5 * len(scan)
    np.testing.assert_array_equal(dense.points[: len(scan)], scan.points)
    wanted = scan.fields["time"][np.argmin(_turned(new[::50], scan.points), axis=1)]
    np.testing.assert_allclose(dense.fields["time"][len(scan) :][::50], wanted, atol=1e-3)


def _turned(a, b):
    """Differences of azimuths."""
    return np.abs(np.arctan2(a[:, 1], a[:, 0])[:, None] - np.arctan2(b[:, 1], b[:, 0])[None])


def test_odometry_and_trajectories(options, tmp_path):
    for package in ("small_gicp", "kiss_icp", "genz_icp", "evalio", "matplotlib"):
        pytest.importorskip(package)
    here = replace(options, sequences=("DCC04",))
    report = only("odometry", here)
    found = {(r["case"], r["method"]): r for r in report.records if r["pairs"] == "all"}
    scan_to_scan = {"ICP", "Plane ICP", "GICP", "VGICP", "POLI+GICP"}
    assert {m for case, m in found if case == "DCC04, OS2-128"} == scan_to_scan | {"KISS-ICP", "GenZ-ICP"}
    assert {m for case, m in found if case == "DCC04, VLP-16"} == scan_to_scan | {"KISS-ICP", "GenZ-ICP", "LOAM", "A-LOAM"}
    assert found["DCC04, VLP-16", "A-LOAM"]["rpe_m"] == pytest.approx(0.2, rel=1e-3)  # 0.1 m more at each scan, over two scans
    assert found["DCC04, VLP-16", "POLI+GICP"]["rpe_m"] < 0.2
    assert "F-LOAM: no F-LOAM/DCC04.txt in the folder of --trajectories" in report.notes
    for name, plot in report.plots.items():
        plot(tmp_path / f"{name}.png")
        assert len(plot_colors(tmp_path / f"{name}.png")) >= 3
    with pytest.MonkeyPatch.context() as patch:  # the same runs serve both
        patch.setattr("benchmarks.experiments.paper.odometry.track_of", refuse)
        drawn = only("trajectories", here)
    assert {r["case"] for r in drawn.records} == {"DCC04, VLP-16"}
    assert next(r for r in drawn.records if r["method"] == "A-LOAM")["end_m"] == pytest.approx(0.1 * (COUNT - 1))
    drawn.plots["paper_trajectories"](tmp_path / "trajectories.png")
    assert len(plot_colors(tmp_path / "trajectories.png")) >= 4


def test_the_grid_runs_all_settings_and_shows_the_best(options):
    pytest.importorskip("small_gicp")
    from benchmarks.experiments.paper.odometry import at_best, contestants

    source = sources(options, ("DCC",))[0]
    one, all_of_them = contestants(options, source), contestants(replace(options, grid=True), source)
    assert [c.setting for c in one if c.method == "GICP"] == ["gate 1 m, k 20"]
    assert len([c for c in all_of_them if c.method == "GICP"]) == 6
    truth = source.open().poses
    worse = np.stack([T @ exp(np.array([0.0, 0.0, 0.0, 0.5 * row, 0.0, 0.0])) for row, T in enumerate(truth)])
    found = [Found(source, "GICP", label, 1.0, poses, truth) for label, poses in (("bad", worse), ("good", truth))]
    assert [f.setting for f in at_best(found)] == ["good"]


def test_table_s1_has_a_row_for_each_model_that_is_given(options, data):
    pytest.importorskip("small_gicp")
    from importlib.resources import files

    model = data / "mine.safetensors"
    shipped = next(path for path in files("poli").rglob("lidar*.safetensors"))  # type: ignore[attr-defined]
    model.write_bytes(shipped.read_bytes())
    report, likelihoods = run(replace(options, name="table_s1", sequences=("KAIST04",), ttqc=(model,), frames=(1, 100)))
    columns, rows = report.cells
    near = dict(zip(columns, rows[0], strict=True))
    assert columns[4:] == ["GICP", "+ T-T-Q-C", "+ T-Q-C"]
    assert near["+ T-Q-C"] == "- (0.0385)"
    assert "(0.0186)" in near["+ T-T-Q-C"]
    assert "T-Q-C: no model; train one with the loss kind 'tqc'" in " ".join(report.notes)
    ours = next(r["nll"] for r in likelihoods.records if r["method"] == "T-T-Q-C")
    tuned = next(r["nll"] for r in likelihoods.records if r["method"].startswith("PCA"))
    assert math.isfinite(tuned)
    assert ours < tuned + 2.0


def test_table_s1_names_several_models_of_a_kind_by_their_files(options, data):
    chosen = replace(
        options, tqc=(data / "a_tqc.safetensors",), ttqc=(data / "a.safetensors", data / "b.safetensors"), model="lidar"
    )
    assert list(models_by_name(chosen)) == ["a_tqc", "a", "b", "lidar"]


def test_table4_writes_bags_and_judges_what_others_write(options, data):
    rosbags = pytest.importorskip("rosbags.highlevel")
    report = only("table4", replace(options, sequences=("DCC04",)))
    assert {r["paper"] for r in report.records if r["method"] == "GLIM"} >= {TABLE4["GLIM", "raw"]["ape_m"]}
    assert all(math.isnan(r["ours"]) for r in report.records)
    assert "GLIM-POLI: no GLIM-POLI/DCC04.txt in the folder of --trajectories" in report.notes
    counts, stamps = {}, {}
    for name in ("raw", "dense"):
        with rosbags.AnyReader([options.runs / "bags" / "DCC04" / f"{name}.bag"]) as reader:
            messages = [(c.topic, t, reader.deserialize(raw, c.msgtype)) for c, t, raw in reader.messages()]
        assert [t for _, t, _ in messages] == sorted(t for _, t, _ in messages)
        clouds = [m for topic, _, m in messages if topic == "/velodyne_points"]
        imu = [m for topic, _, m in messages if topic == "/imu/data"]
        assert (len(clouds), len(imu)) == (COUNT, 10 * (COUNT - 1) + 1)
        assert imu[0].angular_velocity.y == 0.02
        assert imu[0].linear_acceleration.z == 9.81
        counts[name] = sum(m.width for m in clouds)
        stamps[name] = [m.header.stamp.sec * 10**9 + m.header.stamp.nanosec for m in clouds]
    assert stamps["raw"] == stamps["dense"] == [STAMP + row * 10**8 for row in range(COUNT)]
    assert counts["dense"] > 1.5 * counts["raw"]
    (data / "others" / "GLIM").mkdir()
    (data / "others" / "GLIM" / "DCC04.txt").write_text((data / "others" / "A-LOAM" / "DCC04.txt").read_text())
    again = only("table4", replace(options, sequences=("DCC04",)))
    ours = {r["measure"]: r["ours"] for r in again.records if r["method"] == "GLIM"}
    assert ours["RPE over 2 scans, all pairs, 4, m"] == pytest.approx(0.2, rel=1e-3)
    assert 0.0 < ours["APE, aligned, m"] < ours["APE from the first pose, m"]
    without = only("table4", replace(options, sequences=("KAIST04",)))
    assert any("KAIST04: Inertial_data/xsens_imu.csv is missing" in note for note in without.notes)


def test_trajectories_of_others_are_matched_by_stamp_and_moved_to_the_lidar(options, data):
    source = sources(options, ("DCC",))[0]
    truth = source.open().poses
    folder = data / "others" / "Other"
    folder.mkdir()
    body = exp(np.array([0.1, 0.2, 0.3, 1.0, 2.0, 3.0]))  # T_lidar_body
    with TrajectoryWriter(folder / "DCC04.txt", "tum") as file:
        for row in (1, 2, 3, 5):
            file.append(truth[row] @ body, STAMP + row * 10**8 + 2_000_000)
    found = written_by(options, source, "Other")
    assert relative_errors(found.poses, found.truth).max.translation > 0.01
    (folder / "extrinsic.txt").write_text(" ".join(map(repr, inverse(body)[:3].ravel().tolist())) + "\n")
    found = written_by(options, source, "Other")
    assert len(found.poses) == 4
    assert relative_errors(found.poses, found.truth).max.translation < 1e-6
    (folder / "DCC04.txt").write_text("7.0 0 0 0 0 0 0 1\n8.0 0 0 0 0 0 0 1\n")
    with pytest.raises(InputError, match="0 of 6 scans have a pose within 10 ms"):
        written_by(options, source, "Other")


# --- provenance


def test_status_knows_the_command_and_only_the_files_of_its_name(data, tmp_path, monkeypatch):
    pytest.importorskip("kiss_icp")
    words = ["paper", "table1", "--kitti", str(data / "kitti"), "--scans", "3", "--frames", "1", "--runs", str(tmp_path / "runs")]
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words, "--out", str(tmp_path)])
    main()
    about = json.loads((tmp_path / "paper_table1.json").read_text())
    assert about["command"].startswith("python -m benchmarks paper table1 --kitti kitti")
    assert (list(about["data"]), list(about["weights"])) == (["04"], ["lidar"])
    assert about["source"] == source_digest("paper", "table1") != source_digest("paper", "table4")
    assert why_stale(about) == []
    assert why_stale({**about, "source": "0"}) == ["paper has changed since"]
