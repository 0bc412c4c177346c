"""Samples between the rings of a scan: on the surface, within its edges, with the ring and time of their place."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import poli
from poli.cli import app
from poli.densification import DensifyConfig, densify_records
from poli.densification.densify import why_little
from poli.densification.samples import Samples
from poli.densification.sampling import LocalPlanes, angles_of, find_gaps, in_free_space
from poli.errors import DensityWarning, InputError
from poli.scan import Scan
from spinning_scans import ELEVATIONS, PERIOD, ball, distance_to_yard, spinning_scan, yard
from tiny_scans import room


@pytest.fixture(scope="module")
def scan():
    return yard()


@pytest.fixture(scope="module")
def dense(scan):
    return poli.densify(scan)


def added(dense, scan):
    return dense.select(np.arange(len(scan), len(dense)))


def test_samples_lie_on_the_surface_between_the_rings(scan, dense):
    np.testing.assert_array_equal(dense.points[: len(scan)], scan.points)
    new = added(dense, scan)
    assert len(new) > 1.5 * len(scan)
    assert np.quantile(distance_to_yard(new.points.astype(np.float64)), 0.9) < 0.02
    _, elevations = angles_of(new.points.astype(np.float64))
    between = (elevations - ELEVATIONS[0]) % 2.0
    assert min(between.min(), 2.0 - between.max()) > 0.2  # none on a ring that was measured


def test_samples_on_a_sphere_are_off_by_the_sagitta_only():
    scan = ball()
    new = added(poli.densify(scan), scan).points.astype(np.float64)
    off = np.abs(np.linalg.norm(new + [0.0, 0.0, 3.0], axis=1) - 25.0)
    assert len(new) > len(scan)
    assert off.max() < 0.02  # 0.9 m from ring to ring: a sagitta of 4 mm


def test_samples_end_where_the_surface_ends():
    scan = yard(box=True)
    new = added(poli.densify(scan), scan).points.astype(np.float64)
    ahead = (new[:, 0] > 0.0) & (np.abs(new[:, 1]) < 0.2 * new[:, 0])
    on_box = np.abs(new[:, 0] - 4.0) < 0.1
    assert (ahead & on_box).any()
    loose = ahead & ~on_box & (distance_to_yard(new) > 0.3)
    assert loose.sum() <= 0.002 * ahead.sum()


def test_a_gap_where_a_beam_had_no_return_stays_open(scan):
    ring, (azimuth, _) = scan.fields["ring"], angles_of(scan.points.astype(np.float64))
    lost = (ring == 4) & (np.abs(azimuth) < 20.0)
    thin = scan.select(~lost)
    new = added(poli.densify(thin), thin)
    azimuth, elevation = angles_of(new.points.astype(np.float64))
    hole = (np.abs(azimuth) < 19.5) & (elevation > ELEVATIONS[3] + 0.1) & (elevation < ELEVATIONS[5] - 0.1)
    assert not hole.any()


def test_samples_do_not_form_rings_that_move_with_the_sensor(scan, dense):
    """Elevations between two rings are spread evenly, and differ from seed to seed; with numbered rings, they are those rings'."""
    elevations = angles_of(added(dense, scan).points.astype(np.float64))[1]
    share, _ = np.histogram((elevations - ELEVATIONS[0]) % 2.0, np.linspace(0.25, 1.75, 13))
    assert share.min() > 0.8 * share.mean()
    assert not np.array_equal(poli.densify(scan, seed=1).points, dense.points)
    np.testing.assert_array_equal(poli.densify(scan, seed=1, rings=64).points, poli.densify(scan, rings=64).points)


def test_a_larger_accepted_error_gives_more_samples():
    scan = yard(noise=0.03)
    counts = [len(poli.densify(scan, max_error=error)) for error in (0.03, 0.06, 0.12, 1.0)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


@pytest.mark.parametrize("rings", [None, 32])
def test_rings_are_found_without_their_numbers(scan, rings):
    with_numbers = poli.densify(scan, rings=rings)
    np.testing.assert_array_equal(poli.densify(scan.points, rings=rings).points, with_numbers.points)


def test_samples_have_the_ring_of_their_elevation_and_the_time_of_their_azimuth(scan, dense):
    new = added(dense, scan)
    azimuths, elevations = angles_of(new.points.astype(np.float64))
    off = np.abs(elevations - ELEVATIONS[new.fields["ring"]])
    assert off.max() <= 1.0 + 1e-3
    np.testing.assert_allclose(new.fields["time"], PERIOD * (azimuths + 180.0) / 360.0, atol=1e-6)
    nearest = scan.points[new.fields["intensity"].astype(int)]  # which row the other fields come from
    assert np.abs(angles_of(nearest.astype(np.float64))[1] - elevations).max() <= 1.0 + 1e-3


def test_times_of_any_driver():
    """Unsigned nanoseconds; and two returns of a gap whose times are those of the start and the end of the scan."""
    scan = yard()
    nanoseconds = np.round(1e9 * scan.fields["time"]).astype(np.uint32)
    nanoseconds[scan.fields["ring"] % 2 == 1] += 1000
    wrapped = nanoseconds.copy()
    wrapped[scan.fields["ring"] == 3] = np.uint32(1e8) - wrapped[scan.fields["ring"] == 3]
    for values in (nanoseconds, wrapped):
        dense = poli.densify(Scan(scan.points, {"t": values, "ring": scan.fields["ring"]}))
        new = added(dense, scan).fields["t"]
        assert new.dtype == np.uint32
        if values is nanoseconds:
            azimuths = angles_of(added(dense, scan).points.astype(np.float64))[0]
            late = new.astype(np.int64) - np.round(1e9 * PERIOD * (azimuths + 180.0) / 360.0)
            assert late.min() >= -500
            assert late.max() <= 1500
        assert new.max() <= values.max()


def test_new_rings_get_numbers_of_their_own(scan):
    dense = poli.densify(scan, rings=64)
    np.testing.assert_array_equal(dense.fields["ring"][: len(scan)], 4 * scan.fields["ring"])
    new = added(dense, scan)
    assert set(new.fields["ring"] % 4) == {1, 2, 3}
    assert new.fields["ring"].max() < 61
    _, elevations = angles_of(new.points.astype(np.float64))
    np.testing.assert_allclose(elevations, ELEVATIONS[0] + 0.5 * new.fields["ring"], atol=0.05)
    upside_down = Scan(scan.points, {"ring": (15 - scan.fields["ring"]).astype(np.uint8)})
    flipped = added(poli.densify(upside_down, rings=64), scan)
    np.testing.assert_array_equal(flipped.fields["ring"], 60 - new.fields["ring"])
    with pytest.raises(InputError, match="ring numbers would reach 860, and the field holds at most 255"):
        poli.densify(Scan(scan.points, {"ring": (200 + scan.fields["ring"]).astype(np.uint8)}), rings=64)


def test_numbers_with_room_between_them_are_kept(scan):
    """Every fourth beam of 64, with the numbers of the 64: the missing ones get theirs back."""
    thinned = Scan(scan.points, {"ring": (4 * scan.fields["ring"]).astype(np.uint8)})
    dense = poli.densify(thinned, rings=64)
    np.testing.assert_array_equal(dense.fields["ring"][: len(scan)], thinned.fields["ring"])
    assert set(dense.fields["ring"][len(scan) :] % 4) == {1, 2, 3}


def test_order_by_time_and_ring(scan):
    ordered = poli.densify(scan, order="time", rings=64)
    time, ring = ordered.fields["time"], ordered.fields["ring"].astype(int)
    assert (np.diff(time) >= 0.0).all()
    assert ((np.diff(ring) >= 0) | (np.diff(time) > 0.0)).all()
    unordered = poli.densify(scan, rings=64)
    assert {row.tobytes() for row in ordered.points} == {row.tobytes() for row in unordered.points}
    plain = poli.densify(Scan(scan.points, {"row": np.arange(len(scan))}), order="time")
    assert (np.diff(plain.fields["row"]) >= 0).all()  # without times, samples follow their parents
    with pytest.raises(InputError, match="order is 'ring'; expected one of originals, time"):
        poli.densify(scan, order="ring")


@pytest.mark.parametrize("order", ["originals", "time"])
def test_records_get_the_same_samples(scan, order):
    layout = [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("pad", "u1"), ("ring", ">u2"), ("time", "<f8")]
    records = np.zeros(len(scan), layout)
    for column, axis in enumerate("xyz"):
        records[axis] = scan.points[:, column]
    records["ring"], records["time"], records["pad"] = scan.fields["ring"], scan.fields["time"], 7
    found, why = densify_records(records, DensifyConfig(rings=64, order=order), "here")
    wanted = poli.densify(scan, rings=64, order=order)
    assert not why
    assert (found["pad"] == 7).all()
    np.testing.assert_array_equal(np.stack([found[a] for a in "xyz"], axis=1), wanted.points)
    np.testing.assert_array_equal(found["ring"], wanted.fields["ring"])
    np.testing.assert_array_equal(found["time"], wanted.fields["time"])


def test_scattered_points_and_dense_rings_have_no_gaps():
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(20_000, 3)) * [1.0, 1.0, 0.3]
    assert find_gaps(10.0 * directions / np.linalg.norm(directions, axis=1)[:, None]) is None
    narrow = yard(elevations=np.linspace(-20.0, 2.0, 56))
    assert find_gaps(narrow.points.astype(np.float64)) is None
    found = find_gaps(yard().points.astype(np.float64))
    assert (found.missing == 3).all()  # 2 degrees are four steps of about 0.45


def test_other_scans_get_samples_of_ellipsoids_by_their_error():
    scan = room(3000)
    small, large = (poli.densify(scan, max_error=error) for error in (0.05, 0.2))
    assert len(scan) < len(small) <= len(large)
    with pytest.warns(DensityWarning, match=r"sampled within the limits \(max_range 120, max_error 0.001\)"):
        assert len(poli.densify(scan, max_error=0.001)) == len(scan)


def test_the_reach_ends_where_the_error_is_reached():
    covariances = np.diag([0.01**2, 0.1**2, 0.2**2])[None]
    surfaces = LocalPlanes(poli.Ellipsoids(np.array([[5.0, 0.0, 0.0]]), covariances))
    np.testing.assert_allclose(surfaces.normals, [[-1.0, 0.0, 0.0]])
    reach = [float(surfaces.reach_in_sigmas(error)[0]) for error in (0.01, 0.02, 0.03, 0.05, 10.0)]
    assert reach[:2] == [0.0, 0.0]
    assert 0.0 < reach[2] < reach[3] < reach[4] == 24.0
    np.testing.assert_allclose(0.01 * np.sqrt(4.0 + (0.35 * reach[3]) ** 2), 0.05)


def test_samples_in_front_of_measured_returns_are_in_free_space():
    """A wall at 10 m that ends at y = 0; beyond, the beams reach 20 m."""
    directions = yard(noise=0.0).points.astype(np.float64)
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    directions = directions[directions[:, 0] > 0.5]
    returns = directions * (np.where(directions[:, 1] < 0.0, 10.0, 20.0) / directions[:, 0])[:, None]
    surfaces = LocalPlanes(poli.Ellipsoids(np.array([[10.0, -0.3, 0.0]]), np.diag([1e-4, 0.01, 0.01])[None]))
    places = np.array([[10.0, -1.0, 0.1], [10.0, -0.5, 0.3], [10.0, 0.6, 0.1], [10.0, 1.0, 0.3]])
    samples = Samples(places, np.zeros(4, int), np.zeros(4, int))
    np.testing.assert_array_equal(in_free_space(samples, returns, surfaces, 0.05), [False, False, True, True])


def test_samples_of_ellipsoids_get_the_ring_and_time_of_their_place(scan):
    new = added(poli.densify(scan, per_point=2, max_sigma=12.0), scan)
    azimuths, elevations = angles_of(new.points.astype(np.float64))
    middle = np.abs(elevations[:, None] - ELEVATIONS).argmin(axis=1)
    apart = np.abs(np.abs(elevations - ELEVATIONS[middle]) - 1.0) > 0.01  # not halfway between two
    np.testing.assert_array_equal(new.fields["ring"][apart], middle[apart])
    late = new.fields["time"] - PERIOD * (azimuths + 180.0) / 360.0
    late -= PERIOD * np.round(late / PERIOD)
    assert np.abs(late).max() <= 0.51 * PERIOD * 0.4 / 360.0


def test_one_azimuth_only():
    """A single column of returns: too few gaps for rings, and no error."""
    directions = np.stack([np.cos(np.radians(ELEVATIONS)), np.zeros(16), np.sin(np.radians(ELEVATIONS))], axis=1)
    scan = spinning_scan(directions, np.full(16, 10.0), np.arange(16), np.zeros(16), 0.0)
    assert find_gaps(scan.points.astype(np.float64)) is None
    assert find_gaps(np.zeros((0, 3))) is None


def test_features_get_samples_between_the_rings_and_beyond_them(scan, dense):
    for_features = poli.densify(scan, purpose="features")
    filled, beyond = poli.densify(scan, max_error=2.0), poli.densify(scan, per_point=5, max_thickness=None)
    assert len(for_features) == len(filled) + len(beyond) - len(scan)
    np.testing.assert_array_equal(for_features.points[: len(filled)], filled.points)
    new = added(for_features, scan)
    _, elevations = angles_of(new.points.astype(np.float64))
    assert (elevations > ELEVATIONS[-1] + 0.5).any()
    nearest = np.abs(elevations[:, None] - ELEVATIONS).argmin(axis=1)
    assert np.mean(new.fields["ring"] == nearest) > 0.99
    few = poli.densify(scan, purpose="features", max_points=len(filled))
    np.testing.assert_array_equal(few.points, filled.points)  # those between the rings are the last to be dropped


def test_scans_without_rings_get_samples_of_ellipsoids_for_features():
    points = room(3000)
    np.testing.assert_array_equal(
        poli.densify(points, purpose="features").points, poli.densify(points, per_point=5, max_thickness=None).points
    )


# --- where denser scans do not pay: with many beams, or near surfaces


def circle(distance, count=640, beams=None):
    angle = np.linspace(0.0, 2.0 * np.pi, count, endpoint=False)
    points = distance * np.column_stack([np.cos(angle), np.sin(angle), np.zeros(count)])
    return Scan(points, {} if beams is None else {"ring": np.arange(count) % beams})


@pytest.mark.parametrize(
    ("scan", "words"),
    [
        (circle(20.0, beams=16), ""),
        (circle(20.0, beams=32), ""),
        (circle(20.0, beams=64), "64 beams"),
        (circle(20.0, beams=128), "128 beams"),
        (circle(20.0, 30_000), ""),
        (circle(20.0, 120_000), "120000 returns"),
        (circle(20.0, 120_000, beams=16), ""),  # rings count if there are any
        (circle(3.0, beams=64), "64 beams and half of the returns are nearer than 3.0 m"),
        (circle(20.0, count=3, beams=64), ""),
        (Scan(np.full((70_000, 3), np.nan)), ""),
        (Scan(np.zeros((0, 3))), ""),
    ],
)
def test_the_rule(scan, words):
    said = why_little(scan)
    assert words in said
    assert bool(said) == bool(words)


@pytest.mark.parametrize(("near", "folder"), [(True, True), (True, False), (False, False)])
def test_the_command_gives_the_hint(tmp_path, near, folder):
    scan = room(600)
    scan = Scan(scan.points * (0.5 if near else 2.0), scan.fields)
    (tmp_path / "scans").mkdir()
    poli.write(scan, tmp_path / "scans" / "a.pcd")
    source, out = (tmp_path / "scans", "dense") if folder else (tmp_path / "scans" / "a.pcd", "dense.pcd")
    words = ["densify", str(source), str(tmp_path / out), "--model", "pca", "--voxel", "0", "--max-thickness", "0"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert ("hint: half of the returns are nearer than" in result.output) == near
    result = CliRunner().invoke(app, [*words, "--overwrite", "--json"])
    assert bool(json.loads(result.stdout)["hint"]) == near


def test_auto_leaves_dense_scans_as_they_are(tmp_path, scan):
    full = yard(elevations=np.linspace(-24.8, 2.0, 64), step=1.0)
    with pytest.warns(DensityWarning, match="left as it is: the scan has 64 beams"):
        assert len(poli.densify(full, auto=True)) == len(full)
    assert len(poli.densify(scan, auto=True)) > len(scan)
    poli.write(full, tmp_path / "full.pcd")
    poli.write(scan, tmp_path / "thin.pcd")
    for name, source, grows in (("full", full, False), ("thin", scan, True)):
        words = ["densify", str(tmp_path / f"{name}.pcd"), str(tmp_path / f"{name}_dense.pcd"), "--auto", "--order", "time"]
        result = CliRunner().invoke(app, [*words, "--json"])
        assert result.exit_code == 0, result.output
        assert (json.loads(result.stdout)["points_out"] > len(source)) == grows
