"""`poli models import`: from a checkpoint of the paper's authors to ellipsoids, as a user does it."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import poli
from commands import run
from poli.cli import app

pytest.importorskip("torch")
from tiny_pointnet2 import checkpoint
from tiny_training import cloud


def test_a_checkpoint_becomes_a_model_that_commands_take(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = checkpoint(tmp_path, "scans", "vlp_helipr_0.5m.pth")
    told = json.loads(CliRunner().invoke(app, ["models", "import", path.name, "--json"]).stdout)
    assert (told["kind"], told["calibration"]) == ("scans", 1.0)
    model, card = tmp_path / "vlp_helipr_0.5m.safetensors", (tmp_path / "vlp_helipr_0.5m.md").read_text()
    assert "vlp_helipr_0.5m.pth" in card
    assert "epoch 4, step 99" in card
    assert "100 times too large" in card
    poli.write(30.0 * cloud(3, 60), tmp_path / "scan.xyz")
    run("estimate", "scan.xyz", "field.npz", "--model", model.name)
    run("estimate", "scan.xyz", "on_device.npz", "--model", model.name, "--device", "cpu")
    found = [poli.Ellipsoids.load(name).covariances for name in ("field.npz", "on_device.npz")]
    np.testing.assert_array_equal(*found)
    assert "curvature" in run("estimate", "scan.xyz", "f.npz", "--model", model.name, "--curvature", fails=True)
    assert "pointnet2" in run("export", "out.onnx", "--model", model.name, fails=True)


def test_the_name_and_the_factor_can_be_chosen(tmp_path):
    path, out = checkpoint(tmp_path, "objects"), tmp_path / "paper.safetensors"
    text = run("models", "import", str(path), "--out", str(out), "--calibration", "0.1")
    assert "for objects, 437,510 weights" in text
    assert "multiplied by 0.01" in text
    assert out.exists()
    assert "L is multiplied by 0.1." in (tmp_path / "paper.md").read_text()


def test_a_wrong_file_is_an_error(tmp_path):
    (tmp_path / "a.pth").write_text("text")
    assert "not a checkpoint of torch" in run("models", "import", str(tmp_path / "a.pth"), fails=True)


def test_show_can_be_left_out():
    every, one = (CliRunner().invoke(app, ["models", *words]).stdout for words in ([], ["objects"]))
    assert every == CliRunner().invoke(app, ["models", "show"]).stdout
    assert one == CliRunner().invoke(app, ["models", "show", "objects"]).stdout
    assert "lidar" in every
    assert one.startswith("# ")
