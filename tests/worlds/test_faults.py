"""Faults of real LiDARs: simulated scans have what is asked for."""

from dataclasses import fields, replace

import numpy as np
import pytest

from poli.errors import InputError
from poli.scan import Scan
from poli.worlds.faults import FAMILIES, INCIDENCES, RANGES, Faults, apply_faults, draw_faults

NONE = Faults(0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0)
RINGS, COLUMNS = 32, 1000


def tunnel(radius=10.0, tilt=0.0, rings=RINGS, columns=COLUMNS) -> Scan:
    """Returns at one range in the order of a sweep, with normals at one angle to the rays."""
    column, ring = (a.ravel() for a in np.indices((columns, rings)))
    azimuth, elevation = -2.0 * np.pi * column / columns, np.radians(-20.0 + ring)
    rays = np.stack([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)], axis=1)
    aside = np.stack([-np.sin(azimuth), np.cos(azimuth), np.zeros(len(azimuth))], axis=1)
    normals = -np.cos(tilt) * rays + np.sin(tilt) * aside
    return Scan(radius * rays, {"ring": ring.astype(np.uint16), "normal": normals, "mixed": np.zeros(len(ring), np.uint8)})


def lengths(scan: Scan) -> np.ndarray:
    return np.linalg.norm(scan.points, axis=1)


def test_no_faults_change_nothing(rng):
    scan = tunnel()
    same = apply_faults(scan, NONE, rng)
    np.testing.assert_allclose(same.points, scan.points, rtol=1e-12)
    assert not same.fields["mixed"].any()


def test_noise_and_its_tail_are_as_wide_as_asked(rng):
    faults = replace(NONE, noise=0.02, tail_share=0.1, tail_width=5.0)
    error = lengths(apply_faults(tunnel(), faults, rng)) - 10.0
    assert np.std(error) == pytest.approx(0.02 * np.sqrt(0.9 + 0.1 * 25.0), rel=0.05)
    assert (np.abs(error) > 0.1).mean() == pytest.approx(0.1 * 0.317, rel=0.1)


def test_noise_depends_on_range_and_incidence(rng):
    faults = replace(NONE, noise=0.01, noise_by_range=(1.0, 2.0, 3.0, 4.0, 5.0), noise_by_incidence=(1.0, 1.0, 1.0, 1.0, 2.0))
    for at, factor in ((0, 1.0), (3, 4.0)):
        for angle, more in ((0, 1.0), (4, 2.0)):
            scan = tunnel(RANGES[at], np.radians(INCIDENCES[angle]))
            assert np.std(lengths(apply_faults(scan, faults, rng)) - RANGES[at]) == pytest.approx(0.01 * factor * more, rel=0.05)


def test_slow_noise_is_alike_for_neighbors_and_has_its_sigma(rng):
    error = (lengths(apply_faults(tunnel(columns=3600), replace(NONE, slow_noise=0.03), rng)) - 10.0).reshape(-1, RINGS)
    assert np.std(error) == pytest.approx(0.03, rel=0.1)
    assert np.corrcoef(error[:-1].ravel(), error[1:].ravel())[0, 1] > 0.95  # a step is 0.1 degrees
    assert abs(np.corrcoef(error[:-60].ravel(), error[60:].ravel())[0, 1]) < 0.1
    assert abs(np.corrcoef(error[:, :-1].ravel(), error[:, 1:].ravel())[0, 1]) < 0.1


def test_both_scans_of_a_pair_have_the_same_beams(rng):
    faults = replace(NONE, beam_offset=0.03, beam_seed=9)
    q, p = (lengths(apply_faults(tunnel(r), faults, rng)).reshape(-1, RINGS) - r for r in (5.0, 20.0))
    np.testing.assert_allclose(q, p, atol=1e-12)
    assert np.std(q, axis=0) == pytest.approx(0.0, abs=1e-12)
    assert np.std(faults.offsets(5_000)) == pytest.approx(0.03, rel=0.05)
    assert not np.allclose(faults.offsets(RINGS), replace(faults, beam_seed=10).offsets(RINGS))
    np.testing.assert_array_equal(faults.offsets(8), faults.offsets(RINGS)[:8])


@pytest.mark.parametrize("run_length", [1.0, 3.0])
def test_returns_are_lost_as_often_and_in_runs_as_long_as_asked(rng, run_length):
    scan = tunnel(columns=4000)
    scan = replace(scan, fields={**scan.fields, "column": np.arange(len(scan)) // RINGS})
    kept = apply_faults(scan, replace(NONE, dropout=0.02, run_length=run_length), rng)
    assert 1.0 - len(kept) / len(scan) == pytest.approx(0.02, rel=0.1)
    order = np.argsort(kept.fields["ring"], kind="stable")
    steps = np.diff(kept.fields["column"][order].astype(int))[np.diff(kept.fields["ring"][order].astype(int)) == 0]
    assert (steps[steps > 1] - 1).mean() == pytest.approx(run_length, rel=0.1)
    assert set(kept.fields) == set(scan.fields)


def test_returns_are_lost_by_range_and_incidence(rng):
    faults = replace(NONE, dropout=0.02, dropout_by_range=(1.0, 1.0, 1.0, 1.0, 5.0), dropout_by_incidence=(1.0, 1.0, 1.0, 1.0, 4.0))
    for at, angle, share in ((0, 0, 0.02), (4, 0, 0.1), (4, 4, 0.4)):
        scan = tunnel(RANGES[at], np.radians(INCIDENCES[angle]))
        assert 1.0 - len(apply_faults(scan, faults, rng)) / len(scan) == pytest.approx(share, rel=0.1)
    everything = replace(NONE, dropout=1.0, dropout_by_range=(9.0,) * 5)
    assert len(apply_faults(tunnel(), everything, rng)) > 0


def test_returns_at_edges_are_mixed_and_slanted_surfaces_are_not(rng):
    scan = tunnel()
    far = (np.arange(len(scan)) // RINGS // 10) % 2 == 1  # ten columns near, ten columns far
    steps = replace(scan, points=np.where(far[:, None], 1.1, 1.0) * scan.points)
    mixed = apply_faults(steps, replace(NONE, mixed=0.4), rng)
    between = (lengths(mixed) > 10.0 + 1e-9) & (lengths(mixed) < 11.0 - 1e-9)
    edges = RINGS * (COLUMNS // 10 - 1)
    assert between.sum() / edges == pytest.approx(0.4, rel=0.1)
    np.testing.assert_array_equal(between, mixed.fields["mixed"] == 1)
    # A wall seen at a grazing angle: neighbors on it are up to a meter apart in depth.
    azimuth = np.radians(np.linspace(1.0, 8.0, 200))
    rays = np.stack([np.cos(azimuth), np.sin(azimuth), np.zeros(200)], axis=1)
    wall = Scan(rays / rays[:, 1:2], {"ring": np.zeros(200, int), "normal": np.tile([0.0, -1.0, 0.0], (200, 1))})
    assert np.abs(np.diff(lengths(wall))).max() > 0.5
    np.testing.assert_allclose(apply_faults(wall, replace(NONE, mixed=1.0), rng).points, wall.points)


def test_drawn_faults_span_the_measured_sensors_and_go_a_little_beyond():
    rng = np.random.default_rng(8)
    drawn = [draw_faults(rng) for _ in range(400)]
    assert len({faults.beam_seed for faults in drawn}) > 390
    for one in fields(Faults):
        if one.name == "beam_seed":
            continue
        measured = np.array([getattr(family, one.name) for family in FAMILIES.values()])
        found = np.array([getattr(faults, one.name) for faults in drawn])
        assert (np.median(found, axis=0) >= 0.9 * measured.min(axis=0)).all()
        assert (np.median(found, axis=0) <= 1.1 * measured.max(axis=0)).all()
        assert (found > measured.min(axis=0) / 3.0).all()
        assert (found < 3.0 * measured.max(axis=0) + 1e-9).all()
    assert draw_faults(np.random.default_rng(3)) == draw_faults(np.random.default_rng(3))


def test_wrong_faults_and_scans_are_refused(rng):
    with pytest.raises(InputError, match="normal"):
        apply_faults(tunnel().without("normal"), NONE, rng)
    with pytest.raises(InputError, match="noise"):
        replace(NONE, noise=-0.1)
    empty = tunnel().select(np.zeros(0, int))
    assert len(apply_faults(empty, FAMILIES["e1r"], rng)) == 0
