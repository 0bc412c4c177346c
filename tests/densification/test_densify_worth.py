"""`poli densify` says where denser scans do not pay: with many beams, or near surfaces."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import poli
from poli.cli import app
from poli.densification.densify import why_little
from poli.scan import Scan
from tiny_scans import room


def circle(distance, count=640, beams=None):
    angle = np.linspace(0.0, 2.0 * np.pi, count, endpoint=False)
    points = distance * np.column_stack([np.cos(angle), np.sin(angle), np.zeros(count)])
    return Scan(points, {} if beams is None else {"ring": np.arange(count) % beams})


@pytest.mark.parametrize(
    ("scan", "words"),
    [
        (circle(20.0, beams=16), ""),
        (circle(20.0, beams=32), ""),
        (circle(20.0, beams=64), "64 beams"),
        (circle(20.0, beams=128), "128 beams"),
        (circle(20.0, 30_000), ""),
        (circle(20.0, 120_000), "120000 returns"),
        (circle(20.0, 120_000, beams=16), ""),  # rings count if there are any
        (circle(3.0, beams=64), "64 beams and half of the returns are nearer than 3.0 m"),
        (circle(20.0, count=3, beams=64), ""),
        (Scan(np.full((70_000, 3), np.nan)), ""),
        (Scan(np.zeros((0, 3))), ""),
    ],
)
def test_the_rule(scan, words):
    said = why_little(scan)
    assert words in said
    assert bool(said) == bool(words)


@pytest.mark.parametrize(("near", "folder"), [(True, True), (True, False), (False, False)])
def test_the_command_gives_the_hint(tmp_path, near, folder):
    scan = room(600)
    scan = Scan(scan.points * (0.5 if near else 2.0), scan.fields)
    (tmp_path / "scans").mkdir()
    poli.write(scan, tmp_path / "scans" / "a.pcd")
    source, out = (tmp_path / "scans", "dense") if folder else (tmp_path / "scans" / "a.pcd", "dense.pcd")
    words = ["densify", str(source), str(tmp_path / out), "--model", "pca", "--voxel", "0", "--max-thickness", "0"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert ("hint: half of the returns are nearer than" in result.output) == near
    result = CliRunner().invoke(app, [*words, "--overwrite", "--json"])
    assert bool(json.loads(result.stdout)["hint"]) == near
