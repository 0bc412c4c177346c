"""Training pairs of scans: from simulated worlds, voxelized, gated, with a measured pose."""

from dataclasses import replace

import numpy as np
import pytest

from poli.scan import Scan
from poli.voxels import voxel_downsample
from poli.worlds.scan_pairs import load_pairs, save_pairs, simulated_pairs
from poli.worlds.sweep import true_normals

torch = pytest.importorskip("torch")
from poli.train.config import ScanConfig, TrainConfig, read_config  # noqa: E402
from poli.train.losses import LossConfig, MatchBatch, pair_loss  # noqa: E402
from poli.train.network import TrainingModel  # noqa: E402
from poli.train.scan_pairs import draw_scans, sector  # noqa: E402
from poli.train.trainer import train  # noqa: E402
from tiny_training import ARCHITECTURES, SCANNED  # noqa: E402

SMALL = ARCHITECTURES[2]
CONFIG = ScanConfig(worlds=1, stations=1, sensors_each=1, sensors=("vlp16",), places=("tunnel",), validation_worlds=1, points=600)


@pytest.fixture(scope="module")
def pair():
    return next(simulated_pairs("tunnel", 3, 1, ("vlp16",), 1))


def moved(source, T):
    return source @ T[:, :3, :3].transpose(1, 2) + T[:, None, :3, 3]


def test_scans_of_a_spot_agree_with_each_other_and_with_the_survey(pair):
    p = pair.p.transform(pair.T_q_p)
    survey = pair.survey @ pair.T_q_survey[:3, :3].T + pair.T_q_survey[:3, 3]
    from scipy.spatial import cKDTree

    still = pair.q.select((pair.q.fields["moving"] == 0) & (np.linalg.norm(pair.q.points, axis=1) < 15))
    assert np.median(cKDTree(p.points).query(still.points)[0]) < 0.3
    assert np.median(cKDTree(survey).query(still.points)[0]) < 0.15


@pytest.mark.parametrize("stage", ["shapes", "sizes"])
def test_a_batch_has_matches_within_the_gate_at_a_noisy_pose_or_for_sizes_at_the_true_one(pair, stage):
    config = replace(CONFIG, clouds=2)
    batch = draw_scans([pair, pair], config, SMALL, np.random.default_rng(0), stage)
    assert batch.matches.source.shape == (2, 600, 3)
    T_true = torch.from_numpy(batch.T_true)
    d = (batch.matches.target - moved(batch.matches.source, T_true)).norm(dim=2)
    believed = batch.matches.weights > 0
    assert d[believed].median() < 1.0
    assert d[believed].max() < 2.2 * 2.0
    off = (batch.matches.T_measured - T_true)[:, :3, 3].abs()
    assert 0.0 < off.max() < 0.1 if stage == "shapes" else off.max() == 0.0
    assert batch.coverage > 0.8
    again = draw_scans([pair, pair], config, SMALL, np.random.default_rng(0), stage)
    assert torch.equal(again.matches.target, batch.matches.target)


def test_while_shapes_are_learned_voxels_are_matched_at_the_true_surface(pair):
    """Voxel means are off a curved surface, and returns are noisy."""
    config = replace(CONFIG, voxels=(1.0,), raw_share=0.0)
    shaping = draw_scans([pair], config, SMALL, np.random.default_rng(1), stage="shapes").matches.target[0].numpy()
    exact = {tuple(p) for p in pair.q.fields["exact"].astype(np.float64).tolist()}
    assert all(tuple(p) in exact for p in shaping.tolist())
    settling = draw_scans([pair], config, SMALL, np.random.default_rng(1), stage="sizes").matches.target[0].numpy()
    assert np.mean([tuple(p) in exact for p in settling.tolist()]) < 0.1


def test_pairs_have_the_faults_of_real_sensors(pair):
    rays, true = pair.q.points, pair.q.fields["exact"]
    assert np.median(np.linalg.norm(rays - true, axis=1)) > 0.002
    sine = np.linalg.norm(np.cross(rays, true), axis=1) / (np.linalg.norm(rays, axis=1) * np.linalg.norm(true, axis=1))
    assert np.quantile(sine, 0.99) < 2e-3  # errors are along the rays


def test_sectors_are_contiguous_in_azimuth(rng):
    around = rng.uniform(-np.pi, np.pi, 2000)
    scan = Scan(np.stack([np.cos(around), np.sin(around), np.zeros(2000)], axis=1))
    part = sector(scan, 500, rng)
    assert len(part) == 500
    kept = np.sort(np.arctan2(part.points[:, 1], part.points[:, 0]))
    gaps = np.sort(np.diff(np.concatenate([kept, [kept[0] + 2 * np.pi]])))
    assert gaps[-1] > 3.0
    assert gaps[-2] < 0.05
    assert sector(scan, 5000, rng) is scan


def test_true_normals_of_voxels_come_from_their_returns(pair):
    normals = true_normals(pair.q, 0.5)
    assert len(normals) == len(voxel_downsample(pair.q, 0.5))
    known = np.isfinite(normals[:, 0])
    assert known.mean() > 0.5
    np.testing.assert_allclose(np.linalg.norm(normals[known], axis=1), 1.0, atol=1e-9)
    flat = Scan(
        np.array([[1.0, 0, 0], [1.1, 0, 0], [5.0, 0, 0]]),
        {"normal": np.array([[0, 0, 1.0], [0, 1.0, 0], [0, 0, 1.0]]), "label": np.zeros(3, np.uint8), "mixed": np.array([0, 0, 1])},
    )
    found = true_normals(flat, 1.0)
    np.testing.assert_allclose(found[0], [0, 0.5**0.5, 0.5**0.5])
    assert np.isnan(found[1]).all()


def test_recorded_pairs_are_reused_and_others_are_not(tmp_path, pair):
    save_pairs(tmp_path / "w.npz", [pair, pair], "two of a tunnel")
    again = load_pairs(tmp_path / "w.npz", "two of a tunnel")
    assert again is not None
    np.testing.assert_array_equal(again[1].q.points, pair.q.points)
    np.testing.assert_array_equal(again[1].q.fields["normal"], pair.q.fields["normal"])
    np.testing.assert_array_equal(again[0].survey, pair.survey)
    assert load_pairs(tmp_path / "w.npz", "something else") is None
    assert load_pairs(tmp_path / "none.npz", "") is None


def test_a_run_on_scans_trains_keeps_its_worlds_and_resumes(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(
        """
name = "tiny"
[scans]
worlds = 1
stations = 1
sensors_each = 1
sensors = ["vlp16"]
places = ["tunnel"]
validation_worlds = 1
points = 400
[loss]
outliers = 0.1
visibility = 0.3
[shapes]
steps = 2
[sizes]
steps = 2
[schedule]
validate_every = 4
checkpoint_every = 2
"""
        + SCANNED
    )
    config = read_config(path)
    model = train(config, tmp_path / "run")
    assert model.is_file()
    kept = sorted(p.name for p in (tmp_path / "run" / "worlds").iterdir())
    assert kept == ["tunnel_0.npz", "tunnel_1000000.npz"]
    assert TrainConfig.from_json(config.to_json()) == config


def test_outliers_do_not_count_and_inliers_do(rng):
    """A tenth of the matches is far off: with the mixture, the pose and the sizes are those of the others."""
    N = 400
    q = rng.standard_normal((1, N, 3)) * 5
    d = 0.1 * rng.standard_normal((1, N, 3))
    d[0, :40] += 2.0
    matches = MatchBatch(*(torch.from_numpy(a) for a in (q - d, q, np.ones((1, N)), np.eye(4)[None])))
    L = 0.1 / 2**0.5 * torch.eye(3, dtype=torch.float64).expand(1, N, 3, 3)
    frames = torch.eye(3, dtype=torch.float64).expand(1, N, 3, 3)
    robust, plain = LossConfig(outliers=0.1), LossConfig()
    assert pair_loss(robust, matches, L, frames).nees == pytest.approx(3.0, abs=0.4)
    assert pair_loss(plain, matches, L, frames).nees > 30.0
    tqc = LossConfig(kind="tqc", outliers=0.1)
    squares = (d**2).sum(2)[0] / 0.01
    normal = np.log(0.9) - 0.5 * (squares + 3 * np.log(0.01))
    wide = np.log(0.1) - 0.5 * (d**2).sum(2)[0]
    expected = -np.logaddexp(normal, wide).mean()
    assert pair_loss(tqc, matches, L, frames).correspondence == pytest.approx(expected, abs=1e-9)


def test_a_heavy_tail_follows_most_matches_and_not_the_outliers(rng):
    """Residuals in the plane of a plate, except for a fifth far from it: a t distribution keeps it thin, a Gaussian does not."""
    N = 500
    d = rng.standard_normal((1, N, 3)) * [0.1, 0.1, 0.005]
    d[0, :100, 2] += 0.5 * rng.standard_normal(100)
    q = rng.standard_normal((1, N, 3))
    matches = MatchBatch(*(torch.from_numpy(a) for a in (q - d, q, np.ones((1, N)), np.eye(4)[None])))
    frames = torch.eye(3, dtype=torch.float64).expand(1, N, 3, 3)

    def losses(**options):
        config = LossConfig(kind="tqc", **options)
        plates = (torch.diag(torch.tensor([0.07, 0.07, z], dtype=torch.float64)).expand(1, N, 3, 3) for z in (0.005, 0.2))
        return [float(pair_loss(config, matches, L, frames).total) for L in plates]

    thin, thick = losses(tail=0.5)
    assert thin < thick
    thin, thick = losses()
    assert thick < thin
    squares = (d**2 / (2 * np.array([0.07, 0.07, 0.005]) ** 2)).sum(2)[0]
    log_2c = 3 * np.log(2) + 2 * np.log([0.07, 0.07, 0.005]).sum()
    expected = 0.5 * (log_2c + 3.5 * np.log1p(squares / 0.5)).mean()
    assert losses(tail=0.5)[0] == pytest.approx(expected, abs=1e-9)


def test_visibility_and_the_tail_are_for_shapes_alone(pair):
    batch = draw_scans([pair], CONFIG, SMALL, np.random.default_rng(0), stage="sizes")
    loss = LossConfig(kind="tqc", outliers=0.1, tail=0.5, visibility=0.4)
    model = TrainingModel(SMALL, loss)
    L, frames = (t[None] for t in model.network.sized(batch.groups))
    expected = pair_loss(replace(loss, visibility=0.0, tail=0.0), batch.matches, L, frames)
    assert model(batch, stage="sizes").total.item() == pytest.approx(expected.total.item(), abs=1e-6)


def test_what_is_known_of_the_motion_varies(pair):
    moving = replace(SMALL, size=10, motion=True)
    drawn = [draw_scans([pair], CONFIG, moving, np.random.default_rng(seed), "sizes").groups.motion[0] for seed in range(12)]
    assert {motion[0].item() for motion in drawn} == {0.0, 1.0}


def test_the_visibility_prior_prefers_normals_along_the_ray():
    q = torch.tensor([[[10.0, 0.0, 0.0]]], dtype=torch.float64).expand(1, 8, 3)
    matches = MatchBatch(q, q, torch.ones(1, 8, dtype=torch.float64), torch.eye(4, dtype=torch.float64)[None])
    config = LossConfig(kind="tqc", visibility=1.0)
    losses = []
    for thin in range(3):
        scales = torch.full((3,), 0.2, dtype=torch.float64)
        scales[thin] = 0.01
        L = torch.diag(scales).expand(1, 8, 3, 3)
        losses.append(float(pair_loss(config, matches, L, torch.eye(3, dtype=torch.float64).expand(1, 8, 3, 3)).total))
    assert losses[0] < losses[1] - 0.5
    assert losses[1] == pytest.approx(losses[2])
