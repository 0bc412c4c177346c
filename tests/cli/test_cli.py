"""The real commands, as a user runs them."""

import numpy as np
import pytest

import poli
from commands import run


@pytest.mark.parametrize(("out", "options"), [("f.npz", []), ("f.ply", ["--model", "pca", "--radius", "1"])])
def test_estimate(tmp_path, out, options):
    points = np.random.default_rng(0).standard_normal((100, 3))
    points[3] = 0.0
    poli.write(points, tmp_path / "scan.xyz")
    text = run("estimate", str(tmp_path / "scan.xyz"), str(tmp_path / out), *options)
    assert "99 ellipsoids" in text
    assert "dropped 1 zero return\n" in text
    assert len(poli.Ellipsoids.load(tmp_path / out)) == 99


@pytest.mark.parametrize("layout", ["poli", "kitti"])
def test_simulate_writes_a_dataset_that_reads_back(tmp_path, layout):
    out = tmp_path / "drive"
    options = ["--place", "tunnel", "--seed", "5", "--scans", "3", "--layout", layout]
    assert "3 scans" in run("simulate", str(out), *options)
    drive = poli.dataset("auto", out)
    assert len(drive) == 3
    assert drive.poses.shape == (3, 4, 4)
    first = drive[0]
    assert len(first) > 5_000
    assert ("normal" in first.fields) == (layout == "poli")
    step = np.linalg.norm(drive.poses[1, :3, 3] - drive.poses[0, :3, 3])
    assert step == pytest.approx(0.8, abs=0.1)
