"""The benchmark of global registration, on drives small enough for a test."""

import json

import numpy as np
import pytest

from benchmarks.data.drives import simulated_sequences
from benchmarks.data.place_pairs import ThinnedDrive, place_pairs, success
from benchmarks.experiments.registration import Job, Options, places_report, register_pairs, run
from benchmarks.report import publish
from benchmarks.rivals.registrars import KISS_MATCHER, OURS, TEASER
from pictures import plot_colors
from poli.se3 import exp, inverse


def test_pairs_are_close_distinct_and_reproducible():
    poses = np.stack([exp(np.array([0.0, 0.0, 0.1 * i, 2.0 * i, 0.0, 0.0])) for i in range(20)])
    pairs = place_pairs(poses, 30, 8.0, seed=1)
    assert len({(p.source, p.target) for p in pairs}) == 30
    for pair in pairs:
        assert pair.source != pair.target
        assert np.linalg.norm(poses[pair.source, :3, 3] - poses[pair.target, :3, 3]) <= 8.0
        T = pair.T_target_turned @ pair.T_turned_source
        np.testing.assert_allclose(T, inverse(poses[pair.target]) @ poses[pair.source], atol=1e-12)
    again = place_pairs(poses, 30, 8.0, seed=1)
    assert [(p.source, p.target) for p in again] == [(p.source, p.target) for p in pairs]


def test_success_limits_rotation_and_translation():
    assert success([1.0, 9.0, 1.0, 30.0], [0.1, 0.1, 5.0, 0.1], 5.0, 2.0) == 0.25
    assert success([1.0, 9.0, 1.0, 30.0], [0.1, 0.1, 5.0, 0.1], 10.0, np.inf) == 0.75


def test_thinned_drives_have_the_requested_number_of_rings(tmp_path):
    beams = tmp_path / "eight.txt"
    beams.write_text("# steps 200\n" + "\n".join(str(e) for e in np.linspace(-14.0, 14.0, 8)))
    list(simulated_sequences((str(beams),), ("town",), 2, keep=tmp_path / "drives"))
    whole, some = (ThinnedDrive(str(beams), "town", 2, tmp_path / "drives", count).open() for count in (8, 4))
    assert 0.3 * len(whole.scans[0]) < len(some.scans[0]) < 0.7 * len(whole.scans[0])
    assert some.name.endswith("4 beams")


def test_the_tables_show_the_results():
    about = {"scans": "simulated", "place": "town", "system": KISS_MATCHER, "voxel": 0.3, "beams": 16, "table": "places"}
    records = [
        {**about, "way": "raw", "rotations_deg": [1.0, 90.0], "translations_m": [0.1, 9.0], "seconds": [1.0, 1.0]},
        {**about, "way": "+ POLI", "rotations_deg": [1.0, 2.0], "translations_m": [0.1, 0.2], "seconds": [2.0, 2.0]},
    ]
    report = places_report(records, Options(places=("town",), other_voxels=()))
    columns, rows = report.cells
    assert columns == ["system", "voxel", "place", "within", "raw", "+ PCA", "+ interpolation", "+ POLI"]
    assert rows[0] == ["KISS-Matcher", "0.3 m", "**all places**", "10°", "50.0", "-", "-", "**100.0**"]
    assert [row[2:4] for row in rows[1:]] == [["**all places**", "5°, 2 m"], ["**all places**", "10°, 2 m"], ["town", "5°, 2 m"]]
    assert "KISS-Matcher + POLI 2.0" in report.notes[-1]


@pytest.mark.parametrize("system", [KISS_MATCHER, TEASER, OURS])
def test_every_system_returns_a_pose_or_reports_failure(system, tmp_path):
    if system == KISS_MATCHER:
        pytest.importorskip("kiss_matcher")
    from benchmarks.rivals.augmentations import raw

    drive = next(simulated_sequences(("vlp16",), ("town",), 3, keep=tmp_path))
    job = Job(ThinnedDrive("vlp16", "town", 3, tmp_path), system, "raw", 2, 0.5, "vlp16", "places", 16, False)
    errors = register_pairs(drive, raw(), job, 12.0)
    assert len(errors["rotations_deg"]) == 2
    assert np.median(errors["rotations_deg"]) < 10.0  # one meter apart: no system fails there


def test_a_whole_run_and_its_cache(tmp_path, monkeypatch):
    for package in ("kiss_matcher", "matplotlib"):
        pytest.importorskip(package)
    monkeypatch.setattr("benchmarks.experiments.registration.RESOLUTIONS", (16,))
    bench = Options(
        places=("town",),
        scans=3,
        pairs=1,
        fewer=1,
        other_voxels=(),
        drives=tmp_path / "drives",
        runs=tmp_path / "runs",
        processes=1,
    )
    for report in run(bench):
        publish(report, tmp_path / "out")
    records = json.loads((tmp_path / "out" / "registration.json").read_text(), parse_constant=pytest.fail)["records"]
    assert {r["way"] for r in records if r["system"] == KISS_MATCHER} == {"raw", "+ PCA", "+ interpolation", "+ POLI"}
    assert (tmp_path / "out" / "registration_beams.md").is_file()
    assert len(plot_colors(tmp_path / "out" / "registration.png")) >= 3  # PCA, interpolation and POLI; raw is gray
    kept = {path.name: path.read_bytes() for path in (tmp_path / "runs").iterdir()}
    monkeypatch.setattr("benchmarks.experiments.registration.register_pairs", lambda *_: pytest.fail("was kept"))
    assert [report.name for report in run(bench)] == ["registration", "registration_beams"]
    assert kept == {path.name: path.read_bytes() for path in (tmp_path / "runs").iterdir()}
