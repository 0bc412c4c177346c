"""Training on recorded scans, with their own poses and with those of odometry."""

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from poli.cli import app
from poli.errors import InputError
from poli.io.datasets import write_folder

torch = pytest.importorskip("torch")
from poli.train.config import DatasetConfig, ScanConfig  # noqa: E402
from poli.train.scan_pairs import recorded_scans  # noqa: E402
from tiny_training import ARCHITECTURES, SCANNED, town_drive  # noqa: E402

SMALL = ARCHITECTURES[2]
CONFIG = ScanConfig(
    worlds=0, validation_worlds=0, datasets=(DatasetConfig("drive"),), points=400, voxels=(0.5,), raw_share=0.0, clouds=2
)
TOML = (
    """
name = "tiny"
[scans]
worlds = 0
validation_worlds = 0
datasets = ["drive"]
points = 300
voxels = [0.5, 1.0]
[loss]
outliers = 0.1
tail = 0.5
[shapes]
steps = 2
[sizes]
steps = 2
"""
    + SCANNED
)


@pytest.fixture(scope="module")
def drive():
    return town_drive()


def test_a_dataset_with_its_own_poses(tmp_path, drive):
    write_folder(tmp_path / "drive", "drive", list(drive), drive.poses)
    source = recorded_scans(CONFIG, SMALL, 0, tmp_path, tmp_path, lambda *_: None)
    assert len(list(source.held_out(1))) == 3
    batch = source.draw(np.random.default_rng(0), stage="shapes")
    assert batch.coverage > 0.8
    np.testing.assert_array_equal(batch.matches.T_measured.numpy(), batch.T_true)  # measured poses are used unchanged
    near = recorded_scans(replace(CONFIG, min_range=5.0), SMALL, 0, tmp_path, tmp_path, lambda *_: None)
    assert min(np.linalg.norm(pair.q.points, axis=1).min() for pair in near._pairs) >= 5.0
    tracked = []

    def track(opened):
        tracked.append(opened.name)
        raise InputError("stop")

    with pytest.raises(InputError, match="stop"):
        recorded_scans(CONFIG, SMALL, 0, tmp_path, tmp_path, lambda *_: None, track)
    assert tracked == ["drive"]
    recorded_scans(replace(CONFIG, odometry=False), SMALL, 0, tmp_path, tmp_path, lambda *_: None, track)


def test_the_command_trains_on_a_recording_without_poses(tmp_path, drive):
    (tmp_path / "drive").mkdir()
    for number, scan in enumerate(drive):
        np.column_stack([scan.points, np.zeros(len(scan))]).astype("<f4").tofile(tmp_path / "drive" / f"{number:03d}.bin")
    (tmp_path / "tiny.toml").write_text(TOML)
    done = CliRunner().invoke(app, ["train", str(tmp_path / "tiny.toml"), "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, (done.output, done.exception)
    assert (tmp_path / "run" / "model.safetensors").is_file()
    (tmp_path / "other.toml").write_text(TOML.replace("worlds = 0\n", "worlds = 0\nodometry = false\n", 1))
    refused = CliRunner().invoke(app, ["train", str(tmp_path / "other.toml"), "--out", str(tmp_path / "other")])
    assert isinstance(refused.exception, InputError)
    assert "no poses" in str(refused.exception)
