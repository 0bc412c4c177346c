"""One real run of `poli demo`."""

import json
import shlex
import subprocess
import sys

import numpy as np
import pytest

import poli
from page_files import data_of
from pictures import drawn_share, read_picture
from poli.cli.simulate import next_commands


def run(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "poli", *arguments], capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """What it says, its folder, and its results."""
    out = tmp_path_factory.mktemp("demo") / "some where" / "out"
    said, results = run("demo", "--out", str(out)), run("demo", "--out", str(out), "--json")
    assert said.returncode == results.returncode == 0, said.stderr
    return said.stdout, out, json.loads(results.stdout)


def test_it_names_its_files_in_eighty_columns(demo):
    text, out, _ = demo
    for path in out.iterdir():
        assert path.name in text
    table = text[: text.index("Open in a browser")]
    assert max(map(len, table.splitlines())) <= 80


def test_every_picture_shows_something(demo):
    for name in ("ellipsoids.png", "trajectory.png"):
        image = read_picture(demo[1] / name)
        assert image.shape[1] >= 1200, name
        assert drawn_share(image) > 0.05, name


def test_metrics_are_as_promised(demo):
    results = demo[2]
    normals, density, pair, drive = (results[step] for step in ("normals", "density", "pair", "drive"))
    assert normals["median"] < 0.8 * normals["pca_median"]
    assert density["samples"] > 0.3 * density["returns"]
    assert 0.003 < density["median_distance"]["returns"] < density["median_distance"]["samples"] < 0.03
    assert pair["apart"] == pytest.approx(10.0, abs=1.0)
    assert pair["certified"]
    assert pair["rotation"] < 1.0
    assert pair["translation"] < 0.3
    assert drive["path"] == pytest.approx(31.0, abs=1.0)
    assert drive["end"] < 0.01 * drive["path"]


def test_clouds_and_the_page_read_back(demo):
    _, out, results = demo
    scan, dense = poli.read(out / "scan.ply"), poli.read(out / "densified.ply")
    np.testing.assert_array_equal(dense.points[: len(scan)], scan.points)
    assert len(dense) == results["density"]["returns"] + results["density"]["samples"]
    panels = data_of(out / "index.html")["panels"]
    assert [panel["name"] for panel in panels] == ["Scan", "PCA", "POLI", "Truth"]
    assert panels[1]["sigmaScale"] < 0.5  # and the note says so


def test_the_suggested_commands_work(demo, tmp_path):
    text, out, _ = demo
    commands = next_commands(out)
    assert all(command in text for command in commands)
    view, register = (shlex.split(command)[1:] for command in commands[:2])
    view.remove("--open")
    done = run(*view, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [panel["name"] for panel in data_of(tmp_path / "scan.html")["panels"]] == ["Scan", "PCA", "POLI"]
    done = run(*register, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    T = np.array([line.split() for line in done.stdout.splitlines()[:4]], float)
    assert np.linalg.norm(T[:2, 3]) == pytest.approx(10.0, abs=1.0)
