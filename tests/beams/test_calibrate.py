"""Calibration of beams: files, corrections, the normal equations, and finding known errors in a simulated drive."""

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import poli
from poli.beams.adjustment import Linear, Planes, derivatives, equations, prior
from poli.beams.calibrate import Calibrated, HeldOut, choose_stretches
from poli.beams.corrections import Beam, BeamCalibration, corrected, elevations_of
from poli.beams.returns import Returns, find_beams
from poli.cli import app
from poli.densification.densify import densify_records
from poli.errors import FormatError, InputError
from poli.io.datasets import CalibratedDataset, write_folder
from poli.worlds import Ride, Sensor, World
from poli.worlds.drive import Drive
from poli.worlds.places import make_place

RINGS = BeamCalibration((Beam(-10.0, 0.2, 0.05, ring=3), Beam(5.0, -0.1, ring=7)), "field", 'made "here"\nby a test')


def cloud(elevations, reach=10.0, **fields):
    """Points at these elevations (degrees), at random azimuths."""
    up, around = np.radians(elevations), np.random.default_rng(0).uniform(-np.pi, np.pi, len(elevations))
    points = reach * np.stack([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)], axis=1)
    return poli.Scan(points, fields)


# --- corrections and files


def test_corrections_by_ring_turn_points_up_and_move_them_away():
    scan = cloud([-10.0, 5.0, 5.0], ring=np.array([3, 7, 9], np.uint16))
    fixed = RINGS.apply(scan)
    np.testing.assert_allclose(elevations_of(fixed.points), [-9.8, 4.9, 5.0], atol=1e-9)  # ring 9 is unknown and stays
    np.testing.assert_allclose(np.linalg.norm(fixed.points, axis=1), [10.05, 10.0, 10.0])
    azimuths = [np.arctan2(p[:, 1], p[:, 0]) for p in (scan.points, fixed.points)]
    np.testing.assert_allclose(*azimuths)
    assert fixed.fields.keys() == scan.fields.keys()


def test_corrections_by_elevation():
    beams = (Beam(-10.0, 0.2), Beam(0.0, 0.4, 0.1))
    scan = cloud([-20.0, -7.5, -4.0, 3.0])
    assert np.isnan(BeamCalibration(beams, "between").apply(poli.Scan(np.full((1, 3), np.nan))).points).all()
    nearest = BeamCalibration(beams, "nearest").apply(scan)
    np.testing.assert_allclose(elevations_of(nearest.points) - elevations_of(scan.points), [0.2, 0.2, 0.4, 0.4], atol=1e-9)
    between = BeamCalibration(beams, "between").apply(scan)
    np.testing.assert_allclose(elevations_of(between.points) - elevations_of(scan.points), [0.2, 0.25, 0.32, 0.4], atol=1e-9)


def test_corrections_invert_and_leave_what_is_no_return():
    points = np.array([[3.0, 4.0, -1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 2.0], [np.nan, 1.0, 1.0], [np.inf, 1.0, 1.0]])
    change = np.tile([0.3, 0.02], (5, 1))
    there = corrected(points, change)
    np.testing.assert_array_equal(there[1:], points[1:])
    np.testing.assert_allclose(corrected(there, -change)[0], points[0])


def test_a_calibration_by_ring_needs_rings():
    with pytest.raises(InputError, match="no field 'ring'"):
        RINGS.apply(cloud([1.0]))


def test_files_round_trip(tmp_path):
    RINGS.save(tmp_path / "beams.toml")
    read = BeamCalibration.load(tmp_path / "beams.toml")
    assert read.beams == RINGS.beams
    assert read.rings == "field"
    assert "made 'here'" in read.about


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("poli-beams", "other"), "not a calibration of beams"),
        (lambda text: text.replace("version = 1", "version = 2"), "version = 1"),
        (lambda text: text.replace("add_range", "add_rage", 3), "beam 1: .*add_rage"),
        (lambda text: text.replace("ring = 3", "ring = 8"), "ascending order"),
        (lambda text: text.replace("add_elevation = 0.2", "add_elevation = 20"), "beam 1: add_elevation is 20"),
        (lambda text: text.replace("add_elevation = 0.20000", 'add_elevation = "a"'), "expected a number"),
        (lambda text: text.replace('rings = "field"', 'rings = "guess"'), "rings is 'guess'"),
        (lambda text: text.partition("[[beam]]")[0], "at least one .*beam"),
        (lambda text: "= 3", "not a TOML file"),
    ],
)
def test_damaged_files_are_refused(tmp_path, change, message):
    path = tmp_path / "beams.toml"
    RINGS.save(path)
    path.write_text(change(path.read_text()))
    with pytest.raises(FormatError, match=message):
        BeamCalibration.load(path)


def test_densified_records_are_corrected_with_their_other_bytes_kept():
    scan = cloud(np.linspace(-12.0, 8.0, 40), ring=np.repeat([3, 7], 20))
    formats = {"names": ["x", "y", "z", "ring"], "formats": ["<f4", "<f4", "<f4", "<u2"], "offsets": [0, 4, 8, 14], "itemsize": 16}
    layout = np.dtype(formats)  # type: ignore[call-overload]
    records = np.zeros(40, layout)
    records.view(np.uint8)[12::16] = 77  # between the fields
    for column, axis in enumerate("xyz"):
        records[axis] = scan.points[:, column]
    records["ring"] = scan.fields["ring"]
    config = poli.DensifyConfig(per_point=1, model="pca", voxel=0.0, max_thickness=None, calibration=RINGS)
    dense, _ = densify_records(records, config, "here")
    written = np.stack([dense[axis] for axis in "xyz"], axis=1)[:40]
    np.testing.assert_allclose(written, RINGS.apply(scan).points, atol=1e-5)
    assert (dense.view(np.uint8)[12::16] == 77).all()
    assert len(dense) == 80
    assert records["x"][0] == np.float32(scan.points[0, 0])  # the input is unchanged
    np.testing.assert_allclose(poli.densify(scan, config).points[:40], RINGS.apply(scan).points)


# --- beams


def test_beams_from_the_field_from_peaks_and_where_they_overlap():
    rng = np.random.default_rng(0)
    nominal = np.linspace(-15.0, 15.0, 16)
    rings = rng.integers(0, 16, 20_000)
    numbered = cloud(nominal[rings], ring=rings.astype(np.uint16))
    by_field = find_beams([numbered])
    assert by_field.rings == "field"
    np.testing.assert_allclose(by_field.elevations, nominal, atol=1e-6)
    by_peak = find_beams([poli.Scan(cloud(nominal[rings] + 0.05 * rng.standard_normal(20_000)).points)])
    assert by_peak.rings == "nearest"
    np.testing.assert_allclose(by_peak.elevations, nominal, atol=0.05)
    overlapping = find_beams([poli.Scan(cloud(nominal[rings] + 0.8 * rng.standard_normal(20_000)).points)])
    assert overlapping.rings == "between"
    low, high, share = overlapping.of_returns(cloud([overlapping.elevations[2]]))
    assert (low[0] + share[0] * (high[0] - low[0])) == pytest.approx(2.0)


def test_stretches_cover_a_short_log_and_spread_over_a_long_one():
    learned, held_out = choose_stretches(100, 240)
    assert [n for stretch in (*learned, *held_out) for n in stretch] == list(range(100))
    assert sum(map(len, held_out)) == 25
    learned, held_out = choose_stretches(5000, 240)
    assert sum(map(len, learned)) == 180
    assert sum(map(len, held_out)) == 60
    assert (learned[0][0], held_out[-1][-1]) == (0, 4999)
    assert max(map(len, learned)) <= 120


# --- equations


def test_equations_equal_dense_least_squares_with_the_planes_as_unknowns():
    rng = np.random.default_rng(1)
    beams, scans, planes, each = 3, 4, 5, 12
    count = planes * each
    low, high, share = rng.integers(0, beams - 1, count), rng.integers(0, beams, count), rng.random(count)
    nodes, parts = rng.integers(0, scans - 2, count), rng.normal(size=(count, 3))
    returns = Returns(np.zeros((count, 3)), np.zeros(count), low, high, share, nodes, parts, True)
    by_beam, by_pose, beside = rng.normal(size=(count, 2)), rng.normal(size=(count, 6)), rng.normal(size=(count, 2))
    columns, values = derivatives(returns, np.arange(count), by_beam, by_pose, beams)
    residuals, weights = rng.normal(size=count), rng.uniform(0.5, 2.0, count)
    groups = Planes(np.arange(count), np.repeat(np.arange(planes), each), np.zeros((planes, 3)))
    on_plane = np.column_stack([np.ones(count), beside])
    linear = Linear(groups, residuals, np.ones(count), weights, columns, values, on_plane)
    size = 2 * beams + 6 * scans
    J = np.zeros((count, size + 3 * planes))
    for k in range(count):
        for beam, part in ((low[k], 1.0 - share[k]), (high[k], share[k])):
            J[k, [beam, beams + beam]] += part * by_beam[k]
        for node in range(3):
            first = 2 * beams + 6 * (nodes[k] + node)
            J[k, first : first + 6] += parts[k, node] * by_pose[k]
        J[k, size + 3 * (k // each) + np.arange(3)] = on_plane[k]
    H, g = J.T @ (weights[:, None] * J), J.T @ (weights * residuals)
    inner = np.linalg.inv(H[size:, size:])
    matrix, gradient = equations(linear, size)
    np.testing.assert_allclose(matrix, H[:size, :size] - H[:size, size:] @ inner @ H[size:, :size], atol=1e-6)
    np.testing.assert_allclose(gradient, g[:size] - H[:size, size:] @ inner @ g[size:], atol=1e-6)


def test_the_prior_prefers_a_common_error_to_many():
    information = prior(32, "field")
    common, own = np.zeros(64), np.zeros(64)
    common[:32], own[:32:2], own[1:32:2] = 0.2, 0.2, -0.2
    assert common @ information @ common < 1.0
    assert own @ information @ own > 100.0


def test_the_verdict_needs_more_than_chance():
    assert Calibrated(RINGS, HeldOut(0.30, 0.28, 0.005, 100), 40, 30.0).kept
    assert not Calibrated(RINGS, HeldOut(0.30, 0.295, 0.005, 100), 40, 30.0).kept


# --- a drive with known errors

SENSOR = Sensor(tuple(float(e) for e in np.linspace(-20.0, 4.0, 16)), steps=360, max_range=80.0, noise=0.01, divergence=0.0)


@pytest.fixture(scope="module")
def wrong_drive():
    """A drive whose beams are off: all by 0.25 degrees, each by 0.05 more or less and some centimeters."""
    drive = Drive(World(make_place("town", 2_000_001)), SENSOR, Ride(start=20.0, sway=0.2), 36, 1, movers=False)
    rng = np.random.default_rng(3)
    errors = np.stack([0.25 + 0.05 * rng.standard_normal(16), 0.02 * rng.standard_normal(16)], axis=1)
    scans = []
    for scan in drive:
        points = corrected(scan.points.astype(np.float64), -errors[scan.fields["ring"].astype(int)])
        scans.append(replace(scan, points=points.astype(np.float32)).keep("ring"))
    return scans, drive.poses, errors


def test_known_errors_are_found_and_kept_and_the_file_is_used(wrong_drive, tmp_path):
    scans, poses, errors = wrong_drive
    write_folder(tmp_path / "drive", "wrong", scans, poses)
    out = tmp_path / "beams.toml"
    words = ["calibrate", str(tmp_path / "drive"), "--out", str(out), "--deskew", "off"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "16 beams from the field `ring`" in done.output
    found = BeamCalibration.load(out)
    wrong = found.corrections - errors
    low = np.array([beam.elevation < -2.0 for beam in found.beams])
    assert np.sqrt((wrong[low, 0] ** 2).mean()) < 0.4 * np.sqrt((errors[low, 0] ** 2).mean())
    assert np.sqrt((wrong[:, 1] ** 2).mean()) < 0.8 * np.sqrt((errors[:, 1] ** 2).mean())
    opened = CalibratedDataset(poli.dataset("poli", tmp_path / "drive"), found)
    np.testing.assert_array_equal(opened[1].points, found.apply(scans[1]).points)
    np.testing.assert_array_equal(next(iter(opened)).points, opened[0].points)
    assert len(opened) == len(scans)
    options = [str(tmp_path / "drive"), "--scans", "3", "--calibration", str(out), "--out", str(tmp_path / "run")]
    assert CliRunner().invoke(app, ["odometry", *options]).exit_code == 0
    poli.write(scans[0], tmp_path / "scan.pcd")
    fields = {}
    for name, more in (("raw", []), ("fixed", ["--calibration", str(out)])):
        words = ["estimate", str(tmp_path / "scan.pcd"), str(tmp_path / f"{name}.npz"), "--model", "pca", *more]
        assert CliRunner().invoke(app, words).exit_code == 0
        fields[name] = poli.Ellipsoids.load(tmp_path / f"{name}.npz")
    np.testing.assert_allclose(fields["fixed"].means, found.apply(scans[0]).points, atol=1e-5)
    assert np.abs(fields["fixed"].means - fields["raw"].means).max() > 0.01


def test_short_logs_and_missing_times_are_refused(wrong_drive):
    scans = wrong_drive[0]
    with pytest.raises(InputError, match=r"has 10 scans.*at least 30"):
        poli.calibrate(scans[:10])
    with pytest.raises(InputError, match="no times"):
        poli.calibrate(scans, deskew="on")
