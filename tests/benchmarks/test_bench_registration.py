"""The benchmark of global registration, on drives small enough for a test."""

import json

import numpy as np
import pytest

from benchmarks.data.place_pairs import place_pairs
from benchmarks.experiments.registration import Options, best_voxels, report_of, run
from benchmarks.report import publish
from benchmarks.rivals.registrars import KISS_MATCHER, OURS
from pictures import plot_colors
from poli.errors import InputError
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
    with pytest.raises(InputError, match="at most"):
        place_pairs(poses, 1, 0.1, seed=0)


def record(system=KISS_MATCHER, way="raw", voxel=0.3, scans="town", degrees=(1.0, 1.0)):
    about = {"scans": scans, "kind": "simulated places", "system": system, "way": way, "voxel": voxel, "beams": 16}
    return {**about, "rotations_deg": list(degrees), "translations_m": [0.1, 0.1], "seconds": [1.0, 1.0]}


def test_a_rival_has_the_voxel_size_that_is_best_over_all_pairs():
    records = [
        record(voxel=0.3, scans="town", degrees=(1.0, 1.0)), record(voxel=0.3, scans="campus", degrees=(90.0, 90.0)),
        record(voxel=1.0, scans="town", degrees=(1.0, 90.0)), record(voxel=1.0, scans="campus", degrees=(1.0, 1.0)),
        *(record(OURS, voxel=0.0, scans=place) for place in ("town", "campus")),
        *(record(way="+ POLI", voxel=0.3, scans=place) for place in ("town", "campus")),
    ]  # fmt: skip
    assert best_voxels(records) == {(KISS_MATCHER, "raw"): 1.0, (OURS, "raw"): 0.0, (KISS_MATCHER, "+ POLI"): 0.3}
    columns, rows = report_of(records, Options(places=("town", "campus"))).cells
    assert columns[3:6] == ["KISS-Matcher, raw", "KISS-Matcher, + interpolation", "KISS-Matcher, + POLI"]
    assert rows[0] == ["**simulated places**", "16", "4", "75 %", "-", "**100 %**", "-", "-", "-", "**100 %**"]


def test_a_whole_run_and_its_cache(tmp_path, monkeypatch):
    for package in ("kiss_matcher", "matplotlib"):
        pytest.importorskip(package)
    bench = Options(
        places=("town",), scans=3, pairs=1, voxels=False, drives=tmp_path / "drives", runs=tmp_path / "runs", processes=1
    )  # fmt: skip
    (report,) = run(bench)
    publish(report, tmp_path / "out")
    records = json.loads((tmp_path / "out" / "registration.json").read_text(), parse_constant=pytest.fail)["records"]
    assert {r["way"] for r in records if r["system"] == KISS_MATCHER} == {"raw", "+ interpolation", "+ POLI"}
    assert len(plot_colors(tmp_path / "out" / "registration.png")) >= 2  # interpolation and POLI; raw is gray
    monkeypatch.setattr("benchmarks.experiments.registration.register_pairs", lambda *_: pytest.fail("was kept"))
    assert [report.cells for report in run(bench)] == [report.cells]
