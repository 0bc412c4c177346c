"""A short version of `make kills`: commands that are killed and restarted."""

import os
import random

import pytest

from kills import job_of, measure, trial, warm_up

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.mark.parametrize("kind", ["folder", "ros1", "sqlite3", "mcap", "odometry"])
def test_nothing_is_lost_and_nothing_left_behind(tmp_path, kind):
    if kind in ("ros1", "sqlite3", "mcap"):
        pytest.importorskip("rosbags", reason="rosbags is not installed")
    job = job_of(kind, tmp_path, scans=4)
    warm_up(job, tmp_path / "warm")
    measure(job, tmp_path / "measured")
    draw = random.Random(kind)
    for number in (2, 3):  # those at file operations, which do not depend on a clock
        killed, wrong = trial(job, tmp_path / f"trial{number}", draw, number)
        assert (killed > 0, wrong) == (True, "")
