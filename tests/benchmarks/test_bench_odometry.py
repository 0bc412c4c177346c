"""The odometry benchmark, on drives small enough for a test."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import cache
from benchmarks.cache import Cache
from benchmarks.data.drives import SimulatedDrive
from benchmarks.experiments.odometry import Options, run
from benchmarks.metrics.odometry import Judged, Rpe, at_best_settings, judge, mean_rpe
from benchmarks.report import publish
from benchmarks.rivals.odometry import PairwiseSettings
from benchmarks.rivals.odometry_contestants import CHOSEN, MAP, OURS, SCAN, contestants, our_contestant
from pictures import plot_colors

COUNT = 4
PLACES = ("town", "campus")


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Options:
    folder = tmp_path_factory.mktemp("odometry")
    beams = folder / "small.txt"
    beams.write_text("# steps 300\n" + "\n".join(str(e) for e in np.linspace(-15.0, 15.0, 16)))
    return Options(
        sensors=(str(beams),), places=PLACES, scans=COUNT, drives=folder / "drives", rivals=("GICP", "KISS-ICP", "GenZ-ICP"),
        runs=folder / "runs", processes=1,
    )  # fmt: skip


@pytest.fixture(scope="module")
def town(bench):
    return SimulatedDrive(bench.sensors[0], "town", COUNT, bench.drives).open()


def made(drive="town a", group="a", method="GICP", setting="x", voxel=0.5, error=0.1) -> Judged:
    """A trajectory with an error of this many meters between consecutive scans, and twice as much farther apart."""
    rpe = {frames: Rpe(error * scale, 0.1, 0.5 * error, 3) for frames, scale in ((1, 1), (50, 2), (100, 2))}
    poses = np.tile(np.eye(4), (4, 1, 1))
    return Judged(drive, drive, group, method, setting, voxel, rpe, 1.0, 3, math.nan, 10.0, 0, 0, poses)


def test_the_report_has_its_metrics_and_a_second_run_reads_the_cache(bench, tmp_path, monkeypatch):
    for package in ("small_gicp", "kiss_icp", "genz_icp", "yaml", "matplotlib"):
        pytest.importorskip(package)
    monkeypatch.setenv("POLI_NUM_THREADS", "1")  # threads that wait for each other on a busy machine are slow
    monkeypatch.setattr("benchmarks.rivals.odometry.settings_grid", lambda method, voxel: (PairwiseSettings(method, 2.0 * voxel),))
    reports = list(run(bench))
    for number, report in enumerate(reports):
        publish(report, tmp_path / "first", None if number else tmp_path / "all.json")
    names = ["odometry", "odometry_systems"]
    assert [report.name for report in reports] == names
    written = {
        name: json.loads((tmp_path / "first" / f"{name}.json").read_text(), parse_constant=pytest.fail) for name in names
    }  # NaN is not JSON
    figures = json.loads((tmp_path / "all.json").read_text())
    assert figures == written["odometry"]
    for name in ("odometry", "odometry_trajectories"):
        assert len(plot_colors(tmp_path / "first" / f"{name}.png")) >= 4
    records = {(r["case"], r["frames"], r["method"]): r for r in figures["records"]}
    by_method = {method: r["rpe_m"] for (case, frames, method), r in records.items() if (case, frames) == ("small, 0.5 m", 1)}
    assert set(by_method) == {"GICP", *OURS}
    assert 0.0 < by_method[SCAN] < 0.2  # meters, at 0.8 m per scan
    assert records["small, 0.5 m", 50, SCAN]["rpe_m"] is None  # the drives are too short
    columns, rows = reports[0].cells
    row = dict(zip(columns, next(row for row in rows if row[:2] == ["small, 0.5 m", "1"]), strict=True))
    assert row["lower"] == f"{100 * (1 - by_method[SCAN] / by_method['GICP']):.1f} %"
    # GICP and ours at two voxel sizes, KISS-ICP, GenZ-ICP twice, and ours with an automatic voxel.
    assert len(figures["grid"]) == len(PLACES) * (2 * (1 + len(OURS)) + 4)
    systems = {(r["drive"], r["method"]): r for r in written["odometry_systems"]["records"]}
    assert {drive for drive, _ in systems} == {"town small", "campus small"}
    assert systems["town small", "KISS-ICP"]["times_kiss_icp"] == pytest.approx(1.0)

    def refuse(*_args, **_kwargs):
        raise AssertionError("it was to be read, not run")

    for name in ("run_ours", "_run_rival"):
        monkeypatch.setattr(f"benchmarks.rivals.odometry_contestants.{name}", refuse)
    assert [report.cells for report in run(bench)] == [report.cells for report in reports]


def test_runs_are_cached_separately_and_only_ours_are_invalidated(bench, town, tmp_path):
    pytest.importorskip("small_gicp")
    kept = Cache(tmp_path)
    mine, theirs = our_contestant(SCAN, 1.0, "lidar"), contestants((1.0,), "lidar", ("GICP",))[0]
    first = kept.outcome(town, mine)
    kept.outcome(town, theirs)
    kept.outcome(town, our_contestant(SCAN, 0.5, "lidar"))
    assert len(list(tmp_path.rglob("*.json"))) == 3
    again = kept.outcome(town, mine)
    np.testing.assert_array_equal(again.poses, first.poses)
    np.testing.assert_array_equal(again.seconds, first.seconds)
    kept.forget("times")
    assert len(list(tmp_path.rglob("*.json"))) == 3
    kept.forget("poli")
    assert [path.parent.name for path in tmp_path.rglob("*.json")] == ["GICP"]


def test_one_setting_serves_all_drives_of_a_sensor():
    # "x" is the best on one drive, "y" on average.
    x = [made("one", setting="x", error=0.01), made("two", setting="x", error=0.50)]
    y = [made("one", setting="y", error=0.10), made("two", setting="y", error=0.12)]
    other = [made("three", group="b", setting="x", error=0.02), made("three", group="b", setting="y", error=0.05)]
    best = at_best_settings([*x, *y, *other])
    assert {(j.drive, j.setting) for j in best} == {("one", "y"), ("two", "y"), ("three", "x")}
    assert mean_rpe([j for j in best if j.group == "a"]) == pytest.approx(0.11)


def test_metrics_of_a_perfect_and_of_a_stretched_trajectory(town):
    contestant = our_contestant(MAP, CHOSEN, "lidar")
    outcome = cache.Outcome(town.poses, np.full(COUNT, 0.02), restarts=1)
    perfect = judge(town, contestant, outcome)
    assert perfect.rpe[1].meters == pytest.approx(0.0, abs=1e-9)
    assert perfect.milliseconds == pytest.approx(20.0)
    assert (perfect.restarts, perfect.rpe[1].count, perfect.rpe[50].count, perfect.drift_frames) == (1, COUNT - 1, 0, COUNT - 1)
    assert math.isnan(perfect.flat()["rpe_50_m"])
    stretched = town.poses.copy()
    stretched[:, :3, 3] *= 1.1
    off = judge(town, contestant, replace(outcome, poses=stretched))
    assert off.drift == pytest.approx(10.0, rel=0.01)
