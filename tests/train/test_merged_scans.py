"""Surveys merged from recorded scans: what is in them, their pose error and density, and training on them."""

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from poli.cli import app
from poli.errors import InputError
from poli.io.datasets import write_folder
from poli.kdtree.tree import KDTree

torch = pytest.importorskip("torch")
from poli.train.config import ScanConfig  # noqa: E402
from poli.train.scan_pairs import ScanSource, recorded_scans  # noqa: E402
from poli.train.tracked_log import _Surveys, density_ratio, lasting, merged_pairs  # noqa: E402
from tiny_training import ARCHITECTURES, COUNT, SCANNED, town_drive, town_log  # noqa: E402

SMALL = ARCHITECTURES[2]
CONFIG = ScanConfig(worlds=0, validation_worlds=0, datasets=("drive",), points=400, voxels=(0.5,), raw_share=0.0, clouds=2)
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
[schedule]
steps = 4
settle = 0.5
"""
    + SCANNED
)


@pytest.fixture(scope="module")
def drive():
    return town_drive()


@pytest.fixture(scope="module")
def log():
    return town_log()


@pytest.fixture(scope="module")
def pairs(log):
    return merged_pairs(log, 200, 0.0, ScanConfig())[0]


def test_a_survey_is_denser_than_the_next_scan_and_on_the_same_surfaces(pairs):
    surveyed = [pair for pair in pairs if pair.survey is not None]
    assert 2 * len(surveyed) == len(pairs)  # only forward
    pair = surveyed[len(surveyed) // 2]
    np.testing.assert_array_equal(pair.T_q_survey, np.eye(4))
    near = pair.q.points[np.linalg.norm(pair.q.points, axis=1) < 20.0].astype(float)
    to_survey, to_next = (
        np.median(KDTree(points.astype(float)).nearest(1, near)[0]) for points in (pair.survey, pair.p.transform(pair.T_q_p).points)
    )
    assert to_survey < 0.7 * to_next
    assert len(pair.survey) > 2 * len(pair.p)


def test_surveys_leave_out_the_scan_itself_and_held_out_scans(log):
    def rows(end=COUNT, trusted=log.trusted, **options):
        return _Surveys(replace(log, trusted=trusted), ScanConfig(**options), end)._rows(5)

    assert rows(survey_reach=3.1) == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]  # 0.6 m per scan
    assert rows(end=8, survey_reach=3.1) == [0, 1, 2, 3, 4, 6, 7]
    assert len(rows(survey_reach=100.0, survey_scans=5)) == 5
    trusted = np.ones(COUNT, bool)
    trusted[[3, 8]] = False  # later scans may be in another world frame
    assert rows(trusted=trusted, survey_reach=100.0) == [4, 6, 7]


def test_what_moves_is_left_out():
    rng = np.random.default_rng(0)
    wall = [np.column_stack([np.full(200, 5.0), rng.uniform(-5, 5, 200), rng.uniform(0, 2, 200)]) for _ in range(12)]
    car = [rng.uniform(0, 0.3, (50, 3)) + [0.0, 2.0 * number, 10.0] for number in range(12)]  # two meters per scan
    points = np.concatenate([np.concatenate(both) for both in zip(wall, car, strict=True)])
    found = lasting(points, np.repeat(np.arange(12), 250), 12, 0.4).reshape(12, 250)
    assert found[:, :200].mean() > 0.95
    assert not found[:, 200:].any()


def test_the_density_ratio_is_that_of_the_points():
    rng = np.random.default_rng(0)
    targets, sparse, dense = (np.column_stack([rng.uniform(0, 10, (count, 2)), np.zeros(count)]) for count in (500, 1000, 16_000))
    far, near = (KDTree(points).nearest(1, targets)[0][:, 0] for points in (sparse, dense))
    assert density_ratio(near, far, 2.0) == pytest.approx(4.0, rel=0.2)
    assert density_ratio(far, near, 2.0) == 1.0
    assert density_ratio(near + 50.0, far, 2.0) == 1.0


def test_shapes_learn_from_surveys_and_sizes_from_the_next_scan(pairs):
    source = ScanSource(CONFIG, SMALL, pairs)
    shaping, settling = (source.draw(np.random.default_rng(2), phase) for phase in ("shapes", "sizes"))
    assert (shaping.shrink > 1.2).all()
    np.testing.assert_array_equal(settling.shrink, 1.0)
    np.testing.assert_array_equal(shaping.T_true, np.tile(np.eye(4), (2, 1, 1)))
    assert not np.allclose(settling.T_true[:, :3, 3], 0.0)
    for batch in (shaping, settling):
        np.testing.assert_array_equal(batch.matches.T_measured.numpy(), batch.T_true)  # measured poses are used unchanged
        assert batch.coverage > 0.8
    gamma = shaping.matches.gamma.numpy()
    floor = np.diag([np.radians(0.02) ** 2] * 3 + [0.003**2] * 3)
    np.testing.assert_allclose(gamma[0], floor + np.diag([1e-7] * 3 + [1e-5] * 3) * (1 + 1 / 10), rtol=0.05, atol=1e-12)


def test_a_dataset_with_its_own_poses(tmp_path, drive):
    write_folder(tmp_path / "drive", "drive", list(drive), drive.poses)
    source = recorded_scans(CONFIG, SMALL, 0, tmp_path, tmp_path, lambda *_: None)
    assert len(list(source.held_out(1))) == 3
    assert (source.draw(np.random.default_rng(0), phase="shapes").shrink > 1.0).all()
    near = recorded_scans(replace(CONFIG, min_range=5.0), SMALL, 0, tmp_path, tmp_path, lambda *_: None)
    assert min(np.linalg.norm(pair.q.points, axis=1).min() for pair in near._pairs) >= 5.0
    tracked = []

    def track(path):
        tracked.append(path)
        raise InputError("stop")

    with pytest.raises(InputError, match="stop"):
        recorded_scans(CONFIG, SMALL, 0, tmp_path, tmp_path, lambda *_: None, track)
    assert tracked == [str(tmp_path / "drive")]
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


def test_a_log_that_cannot_be_merged_is_refused(log):
    far = np.tile(np.eye(4), (COUNT, 1, 1))
    far[:, 0, 3] = 20.0 * np.arange(COUNT)
    with pytest.raises(InputError, match=r"a town: no scan has 4 trusted scans within 8 m.*survey_reach"):
        merged_pairs(replace(log, poses=far), 200, 0.0, ScanConfig())


def test_the_pose_error_of_a_survey_is_mostly_that_of_the_scan(log, pairs):
    worse = np.array(log.covariances)
    worse[5] *= 100.0
    found = merged_pairs(replace(log, covariances=worse), 200, 0.0, ScanConfig())[0]
    changed = [
        np.trace(a.survey_covariance) / np.trace(b.survey_covariance)
        for a, b in zip(found, pairs, strict=True)
        if a.survey is not None
    ]
    assert max(changed) > 30.0
    assert np.median(changed) < 3.0
