"""The benchmark of memory: the street it drives along, and what it reports."""

import numpy as np

from benchmarks.data.long_street import long_street
from benchmarks.experiments.odometry_memory import Options, run


def test_the_street_is_free_and_never_meets_itself():
    place = long_street(400.0)
    steps = np.linalg.norm(np.diff(place.route, axis=0), axis=1)
    assert steps.sum() >= 400.0
    assert (np.diff(place.route[:, 0]) > 0.0).all()
    corners = place.triangles[place.labels > 1].reshape(-1, 3)  # all but the ground
    apart = np.linalg.norm(corners[:, None, :2] - place.route[None, :, :2], axis=2).min(axis=1)
    assert apart.min() > 2.0
    assert len(long_street(800.0).triangles) < 2.2 * len(place.triangles)


def test_memory_is_reported_after_each_number_of_scans():
    (report,) = run(Options(scans=(2, 4), maps=("points",), model="pca"))
    assert [(record["map"], record["scans"]) for record in report.records] == [("points", 2), ("points", 4)]
    last = report.records[-1]
    assert 0.0 < last["memory"] <= last["peak"]
    assert last["error"] < 0.2
    assert last["written"] > 10_000
    assert last["file_mb"] * 1e6 > 12 * last["written"]
