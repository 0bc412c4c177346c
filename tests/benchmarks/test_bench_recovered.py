"""The benchmark of recovered beams: its measures, and its table on made-up errors."""

import math

import numpy as np
import pytest

from benchmarks.experiments import recovered
from benchmarks.experiments.recovered import FULL, NO_TIMES, TIMES, Job, Options
from benchmarks.rivals.denser_scans import INTERPOLATION, POLI, RAW
from spinning_scans import yard


@pytest.fixture(scope="module")
def thin():
    full = yard(noise=0.005, elevations=np.linspace(-24.8, 2.0, 64), step=0.8)
    return full.select(full.fields["ring"] % 4 == 0)


def test_the_share_is_of_the_missing_beams():
    assert recovered._measures(0.10, 0.07, 0.04)["recovered"] == pytest.approx(0.5)
    assert recovered._measures(0.10, 0.07, 0.04)["change"] == pytest.approx(-30.0)
    assert math.isnan(recovered._measures(0.1, 0.2, 0.1)["recovered"])
    assert recovered._share({"few": 0.1, "full": 0.0999, "recovered": 3.0}) == "-"  # few beams are as good as all
    assert recovered._share({"few": 0.1, "full": 0.04, "recovered": 0.5}) == "50 %"


def test_the_better_setting_of_the_times_counts(monkeypatch, tmp_path):
    errors = {RAW: (0.35, 0.3), POLI: (0.2, 0.4), INTERPOLATION: (0.25, 0.25), FULL: (0.1, 0.2)}

    def run_job(_options: Options, job: Job) -> dict[str, dict[str, float]]:
        both = errors.get(job.way, (0.3, 0.3))
        return {s: {"1": error, "20": 2.0 * error} for s, error in zip((TIMES, NO_TIMES), both, strict=True)}

    monkeypatch.setattr(recovered, "run_job", run_job)
    (report,) = recovered.run(Options(real=tmp_path, sequences=("a", "b"), processes=1))
    columns, rows = report.cells
    assert len(rows) == 2 * 2 * 3 * 3  # frames, systems, ways, two sequences and their mean
    first = dict(zip(columns, next(r for r in rows if r[2:4] == ["a", POLI]), strict=True))
    assert (first["few beams"], first["densified"]) == ("30.0 (no times)", "20.0 (times)")
    row = dict(zip(columns, next(r for r in rows if r[2:4] == ["**mean**", POLI]), strict=True))
    assert row["recovered"] == "50 %"
    assert row["change"] == "-33.3 %"
