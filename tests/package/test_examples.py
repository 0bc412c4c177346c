"""The scripts in examples/ run unchanged. (The ONNX example is tested in test_export.py.)"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import poli
from pictures import drawn_share, read_picture

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, out: Path) -> str:
    done = subprocess.run([sys.executable, EXAMPLES / f"{name}.py", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_first_scan(tmp_path):
    text = run("first_scan", tmp_path / "out")
    errors = {line.split(":")[0]: float(line.split()[4]) for line in text.splitlines() if "normal error" in line}
    assert errors["POLI"] < errors["PCA"]
    pictures = {name: read_picture(tmp_path / "out" / f"first_scan_{name}.png") for name in ("points", "poli", "pca", "dense")}
    assert min(map(drawn_share, pictures.values())) > 0.01
    assert len({image.tobytes() for image in pictures.values()}) == 4
    assert drawn_share(pictures["poli"]) > drawn_share(pictures["points"])  # ellipsoids cover the space between points
    field, dense = poli.Ellipsoids.load(tmp_path / "out" / "field.npz"), poli.read(tmp_path / "out" / "dense.pcd")
    assert len(poli.read(tmp_path / "out" / "splats.ply")) == len(field)
    assert len(dense) > 2 * len(field)
    assert set(dense.fields) == {"ring", "time", "intensity"}


def test_odometry_on_a_drive(tmp_path):
    text = run("odometry_on_a_drive", tmp_path / "out")
    errors = [float(line.partition(": ")[2].split()[0]) for line in text.splitlines() if "cm and" in line]
    assert len(errors) == 3
    assert max(errors) < 2.0  # centimeters per scan
    assert np.load(tmp_path / "out" / "poses.npy").shape == (40, 4, 4)
    assert len(poli.Ellipsoids.load(tmp_path / "out" / "map.ply")) > 1000


def test_train_on_your_own_scans(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed: pip install 'poli[train]'")
    text = run("train_on_your_own_scans", tmp_path / "out")
    assert "step 20 of 20" in text
    assert (tmp_path / "out" / "my_sensor" / "model.md").is_file()
    assert len(poli.estimate(np.random.default_rng(0).normal(size=(100, 3)), tmp_path / "out" / "my_sensor" / "model.safetensors"))


def test_every_example_has_a_test():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")} | {"onnx_inference"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} <= tested
