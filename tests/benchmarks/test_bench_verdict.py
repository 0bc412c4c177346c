"""The benchmark of the verdict on registrations, with a few simulated pairs."""

import json

import numpy as np
import pytest

from benchmarks.data import verdict_pairs
from benchmarks.data.verdict_pairs import FIT, REPORT, PairGroup, SimulatedScans, pair_groups
from benchmarks.data.verdict_searches import AFTER, BEFORE, Searches, searches
from benchmarks.experiments.verdict import judged, record, report
from benchmarks.metrics.reliability import brier, calibration_error, fit_logistic, reliability
from benchmarks.report import publish


def test_no_sequence_or_world_is_in_both_halves(tmp_path):
    places = {
        half: {s.place for g in pair_groups(tmp_path) if g.half == half for s in (*g.scans, *g.strangers)} for half in (FIT, REPORT)
    }
    assert not places[FIT] & places[REPORT]
    assert {"kitti_raw_0005", "rooms 2000500"} <= places[FIT]


def test_the_fit_recovers_coefficients_and_keeps_their_signs(rng):
    X = rng.normal(size=(4_000, 3))
    y = rng.random(4_000) < 1.0 / (1.0 + np.exp(-(0.5 + 2.0 * X[:, 0] - X[:, 1] + 0.5 * X[:, 2])))
    np.testing.assert_allclose(fit_logistic(X, y, (1, -1, 1), penalty=0.0), [0.5, 2.0, -1.0, 0.5], atol=0.25)
    assert fit_logistic(X, y, (1, 1, 1))[2] == 0.0


def test_measures_of_probabilities():
    p, right = np.array([0.9, 0.9, 0.1, 0.1]), np.array([1.0, 1.0, 0.0, 1.0])
    assert brier(p, right) == pytest.approx((0.01 + 0.01 + 0.01 + 0.81) / 4)
    assert [(round(m, 3), share, n) for m, share, n in reliability(p, right)] == [(0.1, 0.5, 2), (0.9, 1.0, 2)]
    assert calibration_error(p, right) == pytest.approx(0.25)


def test_a_run_and_its_report(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    groups = [
        PairGroup("rooms", half, "indoor", tuple(SimulatedScans("rooms", seed, "mid360", 1) for seed in seeds), real=False)
        for half, seeds in ((FIT, (2_000_501, 2_000_502)), (REPORT, (2_000_601, 2_000_602)))
    ]
    kept = Searches(tmp_path / "runs")
    records = [record(group, pair, result, kept) for group, pair, result in searches(groups, kept, 8, 3)]
    assert {r["half"] for r in records} == {FIT, REPORT}
    coefficients = {AFTER: [0.0, 5.0, -20.0, 5.0, 3.0], BEFORE: [0.0, 5.0, -20.0, 5.0, 3.0]}
    records = [judged(r, coefficients) for r in records]
    assert all(0.0 <= r[AFTER]["probability"] <= 1.0 for r in records)
    verdicts = report(records, coefficients)
    publish(verdicts, tmp_path / "out")
    assert (tmp_path / "out" / "verdict.png").is_file()
    written = json.loads((tmp_path / "out" / "verdict.json").read_text(), parse_constant=pytest.fail)
    assert len(written["records"]) == len(records)
    columns, rows = verdicts.cells
    assert columns[:2] == ["scans", "verdict"]
    assert len(rows) == 6  # all that were not fitted to, their only group, and those fitted to; before and now
    monkeypatch.setattr("benchmarks.data.verdict_searches.find_hypotheses", lambda *_: pytest.fail("was kept"))
    verdict_pairs._world.cache_clear()
    assert len(list(searches(groups, kept, 8, 3))) == len(records)
