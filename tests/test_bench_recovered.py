"""The benchmark of recovered beams: its measures, and its tables on two tiny drives."""

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.data.place_pairs import place_pairs
from benchmarks.experiments import recovered, recovered_registration
from benchmarks.experiments.recovered import FULL, Job, Options
from benchmarks.rivals.augmentations import INTERPOLATION, POLI, RAW
from benchmarks.rivals.denser_scans import interpolated, raw
from benchmarks.rivals.odometry_contestants import Outcome
from benchmarks.rivals.range_interpolation import RangeInterpolation
from poli.errors import InputError
from poli.scan import Scan
from spinning_scans import yard

ROWS = np.linspace(-24.8, 2.0, 64)


@pytest.fixture(scope="module")
def full():
    return yard(noise=0.005, elevations=ROWS, step=0.8)


@pytest.fixture(scope="module")
def thin(full):
    return full.select(full.fields["ring"] % 4 == 0)


def test_the_share_is_of_the_missing_beams():
    assert recovered._measures(0.10, 0.07, 0.04)["recovered"] == pytest.approx(0.5)
    assert recovered._measures(0.10, 0.07, 0.04)["change"] == pytest.approx(-30.0)
    assert math.isnan(recovered._measures(0.1, 0.2, 0.1)["recovered"])
    assert recovered._share({"few": 0.1, "full": 0.0999, "recovered": 3.0}) == "-"  # few beams are as good as all
    assert recovered._share({"few": 0.1, "full": 0.04, "recovered": 0.5}) == "50 %"


def test_samples_are_compared_with_the_dropped_returns(full, thin):
    truth = recovered.Truth.of(full.points, thin.points)
    assert len(truth.dropped) == len(full) - len(thin)
    every = recovered._of_scan(replace(raw(), apply=lambda _: Scan(np.concatenate([thin.points, full.points]))), thin, truth)
    assert every["distance"] == pytest.approx(0.0, abs=1e-6)
    assert every["covered"] == 1.0
    none = recovered._of_scan(raw(), thin, truth)
    assert none["covered"] == none["samples"] == 0.0
    ways = recovered._settings(Options(), "hdl64e", 16)
    (_, _, ours) = next(way for way in ways if way[:2] == (POLI, "max_error 0.05 m"))
    found = recovered._of_scan(ours, thin, truth)
    assert found["covered"] > 0.4
    assert found["across"] < 0.02
    assert found["across"] < found["distance"] < 0.3


def test_ways_are_compared_at_equal_coverage():
    records = [{"way": POLI, "covered": c, "distance": d} for c, d in ((0.5, 3.0), (0.3, 1.0))]
    records += [{"way": INTERPOLATION, "covered": c, "distance": 9.0} for c in (0.4, 0.6)]
    recovered._add_equals(records, "distance")
    np.testing.assert_allclose([r["equal_distance"] for r in records], [3.0, 1.0, 2.0, np.nan])


def test_interpolated_rows_have_times(thin):
    dense = interpolated("hdl64e", 16, RangeInterpolation()).apply(thin)
    assert len(dense) > len(thin)
    assert len(dense.fields["time"]) == len(dense)


def test_every_way_is_run_on_every_drive(monkeypatch, tmp_path):
    errors = {RAW: 0.3, POLI: 0.2, INTERPOLATION: 0.25, FULL: 0.1}

    def run_job(_options: Options, job: Job) -> dict[str, float]:
        return {"1": errors.get(job.way, 0.3), "20": 2.0 * errors.get(job.way, 0.3)}

    monkeypatch.setattr(recovered, "run_job", run_job)
    options = Options(real=tmp_path, sequences=("a", "b"), rivals=True, processes=1)
    columns, rows = recovered._recovered_report(options).cells
    assert len(rows) == 2 * 2 * 2 * 4 * 3  # frames, systems, beams, ways, two sequences and their mean
    row = dict(zip(columns, next(r for r in rows if r[3:5] == ["**mean**", POLI]), strict=True))
    assert row["recovered"] == "50 %"
    assert row["change"] == "-33.3 %"
    with pytest.raises(InputError, match="--real is missing"):
        next(recovered.run(Options()))
    with pytest.raises(InputError, match="systems: LOAM"):
        Options(systems=("LOAM",))


def test_a_system_runs_on_the_denser_scans(thin):
    counts = []

    def way(scans):
        counts.extend(len(scan) for scan in scans)
        return Outcome(np.tile(np.eye(4), (len(counts), 1, 1)), np.zeros(len(counts)))

    denser = interpolated("hdl64e", 16, RangeInterpolation())
    recovered._run_denser([thin, thin], denser, way)
    assert min(counts) > len(thin)


def test_registration_recovers_a_share_of_the_way(monkeypatch, tmp_path):
    shares = {(RAW, 16): 0.2, (recovered_registration.FEATURES, 16): 0.65, (POLI, 16): 0.3, (RAW, 64): 0.8}
    monkeypatch.setattr(recovered_registration, "run_job", lambda _options, job: shares[job.way, job.beams])
    options = recovered_registration.Options(real=tmp_path, sequences=("a", "b"), beams=(16,), processes=1)
    (report,) = recovered_registration.run(options)
    columns, rows = report.cells
    assert len(rows) == 2 * 2 * 3  # systems, ways, two sequences and their mean
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    row = next(r for r in found if (r["sequence"], r["way"]) == ("**mean**", recovered_registration.FEATURES))
    assert row["recovered"] == "75 %"
    assert recovered_registration.recovered_share({"few": 0.8, "dense": 0.9, "full": 0.8}) == "-"
    with pytest.raises(InputError, match="--real is missing"):
        next(recovered_registration.run(recovered_registration.Options()))
    with pytest.raises(InputError, match="ways: more"):
        recovered_registration.Options(ways=("more",))
    names = [recovered_registration._way(options, Job("a", 16, "", way)).name for way in (RAW, *recovered_registration.WAYS)]
    assert names == [RAW, *recovered_registration.WAYS]


def test_pairs_may_have_a_least_distance():
    poses = np.tile(np.eye(4), (10, 1, 1))
    poses[:, 0, 3] = np.arange(10.0)
    pairs = place_pairs(poses, 100, most=7.0, seed=0, least=5.0)
    assert {abs(pair.source - pair.target) for pair in pairs} == {5, 6, 7}
    with pytest.raises(InputError, match="are 20 to 30 m apart"):
        place_pairs(poses, 1, most=30.0, seed=0, least=20.0)
