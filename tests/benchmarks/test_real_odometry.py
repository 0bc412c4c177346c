"""Systems on real sequences: what they receive, the instants of their poses, and the comparison."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.data.drives import RealSequence, RecordedDrive, real_sequences
from benchmarks.data.rings import prepared, thin_rings
from benchmarks.experiments import odometry_real
from benchmarks.experiments.odometry_real import (
    Options,
    at_best,
    errors_report,
    run,
    summary_of,
    surface_residual,
    with_ratios,
)  # fmt: skip
from benchmarks.metrics.odometry import horizontal_rpe
from benchmarks.rivals import odometry_contestants
from benchmarks.rivals.evalio_systems import _after_begin
from benchmarks.rivals.odometry_contestants import MAP, Outcome
from benchmarks.rivals.tracks import Track, moved_to_stamp
from poli.io.datasets import correct_elevation, write_kitti
from poli.io.datasets.kitti import ELEVATION_ERROR
from poli.scan import Scan
from poli.se3 import exp, inverse, log

PERIOD = 0.1


def sweep(rings=64, steps=500):
    """A scan of KITTI's sensor in the order of its files: ring by ring from the top, counterclockwise from azimuth 0."""
    elevations, azimuths = np.radians(np.linspace(2.0, -24.8, rings)), np.linspace(0.0, 2.0 * np.pi, steps, endpoint=False)
    e, a = (grid.ravel() for grid in np.meshgrid(elevations, azimuths + 0.001, indexing="ij"))
    return 20.0 * np.stack([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)], axis=1)


def elevation(points):
    return np.degrees(np.arctan2(points[:, 2], np.hypot(points[:, 0], points[:, 1])))


# --- what systems receive


def test_raw_kitti_gets_rings_times_and_elevations():
    points = sweep().astype(np.float32)
    scan = prepared(Scan(points, stamp=7))
    np.testing.assert_array_equal(scan.fields["ring"], np.repeat(np.arange(64), 500))
    np.testing.assert_allclose(elevation(scan.points), elevation(points) + ELEVATION_ERROR, atol=1e-4)
    assert scan.stamp == 7
    times = scan.fields["time"].reshape(64, 500)[0]  # clockwise from behind, stamped in front
    assert times[0] == pytest.approx(0.0, abs=1e-4)
    assert times[125] == pytest.approx(-0.25 * PERIOD, abs=1e-4)  # to the left, seen before
    assert times[375] == pytest.approx(0.25 * PERIOD, abs=1e-4)
    thinned = prepared(Scan(points), beams=16)
    np.testing.assert_allclose(thinned.points, correct_elevation(thin_rings(points, "hdl64e", 16)))
    assert set(thinned.fields) == {"ring", "time"}


def test_elevations_are_corrected_as_in_kiss_icp(rng):
    pybind = pytest.importorskip("kiss_icp.pybind.kiss_icp_pybind")
    points = rng.normal(size=(200, 3)) * 10.0
    wanted = np.asarray(pybind._correct_kitti_scan(pybind._Vector3dVector(points)))
    np.testing.assert_allclose(correct_elevation(points), wanted, atol=1e-9)
    np.testing.assert_array_equal(correct_elevation(np.array([[0.0, 0.0, 3.0]])), [[0.0, 0.0, 3.0]])


def test_a_real_drive_has_what_is_known_of_it(tmp_path):
    write_kitti(tmp_path, "street", [Scan(sweep().astype(np.float32), stamp=number * 10**8) for number in range(3)], steady(3))
    raw = RealSequence("street", "hdl64e", 10.0, (0.5,), beams=16, raw_kitti=True)
    plain, other = replace(raw, raw_kitti=False), RealSequence("street", "unknown", 10.0, (0.5,))
    timed, untimed, bare = real_sequences(tmp_path, (raw, plain, other))
    assert timed.times is not None
    assert {*timed.recorded[1].fields} == {"time", "ring"}
    assert timed.recorded[1].stamp == 10**8
    assert {*untimed.recorded[0].fields} == {"ring"}
    assert untimed.recorded[0].fields["ring"].max() == 15
    assert not bare.recorded[0].fields
    shorter = timed.first(2)
    assert len(shorter) == len(shorter.recorded) == len(shorter.poses) == 2
    assert not timed.indoors
    assert replace(timed, scans=[0.1 * points for points in timed.scans]).indoors


# --- the instants of poses


def steady(count, turn=0.05, ahead=1.0):
    poses = [np.eye(4)]
    for _ in range(count - 1):
        poses.append(poses[-1] @ exp(np.array([0.0, 0.0, turn, ahead, 0.1, 0.0])))
    return np.stack(poses)


def test_poses_deskewed_to_the_end_are_moved_to_the_stamp():
    motion = np.array([0.0, 0.0, 0.08, 1.2, 0.1, 0.02])
    middle = np.stack([exp(number * motion) for number in range(6)])
    late = np.stack([T @ exp(0.5 * motion) for T in middle])
    late[:2] = middle[:2]  # not deskewed: they have no motion before them
    for row in range(2, 6):
        late[row] = middle[row] @ exp(0.5 * log(inverse(late[row - 2]) @ late[row - 1]))
    np.testing.assert_allclose(moved_to_stamp(late, np.full(6, 0.5)), middle, atol=1e-12)


def test_poses_at_the_start_are_moved_to_the_stamp_also_across_a_gap():
    elapsed = np.array([0.0, 0.1, 0.2, 0.3, 0.7, 0.8])  # three scans are missing
    motion = np.array([0.0, 0.0, 0.3, 8.0, 0.5, 0.0])  # per second
    begins, middles = (np.stack([exp((seconds + shift) * motion) for seconds in elapsed]) for shift in (0.0, 0.05))
    begins[1] = begins[0]  # the first two scans are rigid and at the origin
    scans = [Scan(np.ones((2, 3)), {"time": np.array([-0.05, 0.05])}, round(1e9 * seconds)) for seconds in elapsed]
    found = _after_begin(begins, scans)
    np.testing.assert_allclose(found[1:], middles[1:], atol=1e-9)
    np.testing.assert_allclose(found[0], begins[0], atol=1e-9)


# --- the systems of evalio


# --- the comparison


def record(sequence, method, setting="defaults", near=1.0, far=1.0):
    errors = {"rpe_1_m": near, "rpe_n_m": far, "rpe_1_settled_m": near, "rpe_n_horizontal_m": far, "drift_percent": far}
    return {"sequence": sequence, "method": method, "setting": setting, "scans": 200, "frames": 100, **errors}


def test_each_measure_of_a_rival_is_at_its_best_setting():
    records = [
        record("a", "KISS-ICP", "x", 0.02, 2.0), record("a", "KISS-ICP", "y", 0.03, 1.0), record("a", "LOAM", near=0.5, far=5.0),
        record("a", MAP, near=0.01, far=1.1), record("b", "LOAM", near=0.02, far=2.0), record("b", MAP, near=0.03, far=1.0),
    ]  # fmt: skip
    compared = with_ratios(at_best(records))
    ours = {r["sequence"]: r for r in compared if r["method"] == MAP}
    assert (ours["a"]["rpe_1_m_ratio"], ours["a"]["rpe_n_m_ratio"]) == pytest.approx((0.5, 1.1))
    assert (ours["b"]["rpe_1_m_ratio"], ours["b"]["rpe_n_m_ratio"]) == pytest.approx((1.5, 0.5))
    summary = summary_of(compared)
    assert (summary["mean"]["rpe_1_m"], summary["worst"]["rpe_n_m"]) == pytest.approx((1.0, 1.1))
    columns, rows = errors_report(records).cells
    assert columns[-2:] == ["ratio, 1 scan", "ratio, n scans"]
    assert [row[0] for row in rows] == ["a (200 scans, n = 100)", "b (200 scans, n = 100)", "mean", "worst"]
    assert [row[-2:] for row in rows] == [["0.50", "1.10"], ["1.50", "0.50"], ["1.00", "0.80"], ["1.50", "1.10"]]
    assert rows[0][1] == "2.00 / 100.0, 1.00 %"
    assert rows[1][1] == "-"  # no KISS-ICP there


def test_horizontal_errors_leave_out_the_height_of_the_world():
    truth = steady(10)
    tilted = exp(np.array([0.3, -0.2, 0.1, 5.0, 6.0, 7.0])) @ truth  # the estimate has a world of its own
    assert horizontal_rpe(tilted, truth, 3) == pytest.approx(0.0, abs=1e-12)
    climbing = truth.copy()
    climbing[:, 2, 3] += 0.2 * np.arange(10)
    assert horizontal_rpe(climbing, truth, 3) == pytest.approx(0.0, abs=1e-12)
    sliding = truth.copy()
    sliding[:, 1, 3] += 0.2 * np.arange(10)
    assert horizontal_rpe(sliding, truth, 3) == pytest.approx(0.6)


@pytest.fixture
def street(tmp_path):
    """A short sequence, and rivals that answer at once."""
    scans = [Scan(sweep(steps=60).astype(np.float32), stamp=number * 10**8) for number in range(4)]
    write_kitti(tmp_path / "real", "street", scans, steady(4))
    return tmp_path, RealSequence("street", "hdl64e", 10.0, (0.5,), raw_kitti=True)


def test_rivals_run_once_and_are_kept(street, monkeypatch):
    folder, real = street
    runs = []

    def answer(scans):
        runs.append("time" in scans[0].fields)
        return Track(steady(len(scans), ahead=1.01), np.ones(len(scans)))

    methods = {"KISS-ICP": replace(odometry_contestants.METHODS["KISS-ICP"], ways=lambda _: {"defaults": answer})}
    monkeypatch.setattr(odometry_contestants, "METHODS", {**odometry_contestants.METHODS, **methods})
    ours = odometry_contestants.our_contestant(MAP, 0.0, "lidar")
    still = replace(ours, run=lambda scans: Outcome(steady(len(scans), ahead=1.02), np.ones(len(scans))))
    monkeypatch.setattr(odometry_contestants, "our_contestant", lambda *_: still)
    options = Options(real=folder / "real", runs=folder / "runs", rivals=("KISS-ICP",), processes=1, known=(real,))
    report, surfaces = run(options)
    assert runs == [True, False]  # with point times, and without
    assert {r["setting"] for r in report.records if r["method"] == "KISS-ICP"} == {"defaults", "defaults, no times"}
    again, _ = run(options)
    assert len(runs) == 2
    assert again.cells == report.cells
    assert all(r["surfaces_m"] >= 0.0 for r in surfaces.records)


def test_scans_are_deskewed_by_the_poses_that_are_judged(rng):
    """A wall seen while driving at it: deskewed with the right speed it is flat, with another one it is not."""
    times = rng.uniform(-0.05, 0.05, 4000)
    poses = np.tile(np.eye(4), (8, 1, 1))
    poses[:, 0, 3] = np.arange(8)  # 10 m/s
    walls = []
    for row in range(8):
        yz = rng.uniform(-6.0, 6.0, (4000, 2))
        walls.append(np.column_stack([20.0 - row - 10.0 * times, yz]))
    stamps = [10**8 * row for row in range(8)]
    drive = RecordedDrive("d", "d", "s", walls, poses, 10.0, (0.5,), times=[times] * 8, stamps=stamps)
    slow = poses.copy()
    slow[:, 0, 3] *= 0.5
    assert surface_residual(drive, poses) < 0.01
    assert np.ptp(odometry_real._deskewed(drive, poses, 3)[:, 0]) < 0.01
    assert np.ptp(odometry_real._deskewed(drive, slow, 3)[:, 0]) > 0.4
