"""Adapting a model to a log without ground truth: pairs from odometry, only sizes learn, and a model is kept only if better."""

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from poli import se3
from poli.errors import FormatError, InputError
from poli.estimation import estimate
from poli.scan import Scan
from poli.voxels import voxel_downsample

torch = pytest.importorskip("torch")

from poli.cli import app  # noqa: E402
from poli.train import adapt as adapting  # noqa: E402
from poli.train.adapt import AdaptConfig, Judged, adapt  # noqa: E402
from poli.train.tracked_log import TrackedLog, relative_pose  # noqa: E402
from tiny_training import COUNT, town_drive, town_log  # noqa: E402

FEW = AdaptConfig(steps=6, points=512, voxels=(0.5, 1.0))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(adapting, "_DRAWS", 1)
    monkeypatch.setattr(adapting, "_CALIBRATING", 2)


@pytest.fixture(scope="module")
def drive():
    return town_drive()


@pytest.fixture(scope="module")
def log():
    return town_log()


def test_only_sizes_learn_and_model_and_card_are_written(tmp_path, log):
    steps = []

    class Recorder(adapting.Listener):
        def step(self, report, total):
            steps.append(report.step)

    result = adapt(log, tmp_path / "out", config=FEW, listener=Recorder(), force=True)
    assert steps == list(range(1, 7))
    assert result.model == tmp_path / "out" / "model.safetensors"
    points = voxel_downsample(log.scans[3], 0.5)
    before, after = estimate(points, "lidar"), estimate(points, result.model)
    np.testing.assert_allclose(np.abs(np.einsum("nij,nij->nj", before.axes, after.axes))[:, 0], 1.0, atol=1e-5)
    assert not np.allclose(before.eigenvalues, after.eigenvalues, rtol=1e-3)
    card = (tmp_path / "out" / "model.md").read_text()
    for words in ("a town: 14 scans", f"{result.learned_pairs} pairs", f"{result.before.nll:.3f}", f"{result.after.nees:.2f}"):
        assert words in card
    assert ("No better" in card) == (not result.kept)
    with pytest.raises(FormatError, match="--fresh"):
        adapt(log, tmp_path / "out", config=FEW)
    again = adapt(log, tmp_path / "out", config=FEW, fresh=True, force=True)
    assert again.after == result.after


@pytest.mark.parametrize("better", [True, False])
def test_it_is_kept_if_and_only_if_it_is_better(tmp_path, log, monkeypatch, better):
    figures = [Judged(-1.0, 2.0), Judged(-1.5 if better else -0.5, 2.8)]
    monkeypatch.setattr(adapting, "judge", lambda *_: figures.pop(0))
    result = adapt(log, tmp_path, config=replace(FEW, steps=1))
    assert result.kept is better
    assert (result.model is not None) is better
    assert (tmp_path / "model.safetensors").exists() is better
    assert (tmp_path / "model.md").exists() is better


def test_better_is_more_probable_and_no_worse_calibrated():
    base = Judged(-1.0, 2.0)
    assert Judged(-1.1, 2.5).better_than(base)
    assert Judged(-1.1, 4.0).better_than(base)
    assert not Judged(-1.1, 1.5).better_than(base)
    assert not Judged(-1.1, 5.0).better_than(base)
    assert not Judged(-0.9, 3.0).better_than(base)
    assert Judged(-1.1, 3.2).better_than(Judged(-1.0, 3.0))  # both are well calibrated
    assert not Judged(float("nan"), float("nan")).better_than(base)


def test_it_resumes_but_not_with_other_pairs(tmp_path, log):
    whole = adapt(log, tmp_path / "whole", config=FEW, force=True)

    class Killed(adapting.Listener):
        def step(self, report, total):
            if report.step == 4:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        adapt(log, tmp_path / "killed", config=FEW, listener=Killed())
    assert not (tmp_path / "killed" / "model.safetensors").exists()
    assert adapt(log, tmp_path / "killed", config=FEW, force=True).after == whole.after
    shorter = TrackedLog(log.name, log.scans[:-1], log.poses[:-1], log.covariances[:-1], log.trusted[:-1])
    (tmp_path / "whole" / "model.safetensors").unlink()
    with pytest.raises(InputError, match="another configuration"):
        adapt(shorter, tmp_path / "whole", config=FEW)


def test_pairs_hold_out_the_end_and_skip_untrusted_poses(log):
    learned, held_out = log.pairs(200, reach=0.0)
    assert len(held_out) == 3
    assert len(learned) == 2 * (COUNT - 1 - 3 - 1)  # in both directions; one pair less, because no scan is in both parts
    assert not {id(p.q) for p in learned} & {id(s) for pair in held_out for s in (pair.q, pair.p)}
    np.testing.assert_allclose(learned[0].T_q_p @ learned[1].T_q_p, np.eye(4), atol=1e-12)
    farther, _ = log.pairs(200, reach=1.3)  # 0.6 m per scan: the next two
    assert len(farther) == 2 * (9 + 8)
    fewer, _ = log.pairs(10, reach=0.0)
    assert len(fewer) < len(learned)
    trusted = np.ones(COUNT, bool)
    trusted[4] = False
    cut, _ = replace(log, trusted=trusted).pairs(200, reach=100.0)
    moves = [np.linalg.norm(pair.T_q_p[:3, 3]) for pair in cut]
    assert max(moves) < 0.65 * 5
    assert len(cut) < len(log.pairs(200, reach=100.0)[0])


def test_gamma_of_a_pair_combines_both_scans(rng):
    T_q, T_p = (se3.exp(rng.normal(size=6) * [0.3, 0.3, 0.3, 2, 2, 2]) for _ in range(2))
    roots = rng.normal(size=(2, 6, 6)) * 1e-3
    T, gamma = relative_pose(T_q, T_p, *(root @ root.T for root in roots))
    np.testing.assert_allclose(T_q @ T, T_p, atol=1e-12)
    draws = np.array(
        [
            se3.log(
                se3.inverse(T)
                @ se3.inverse(T_q @ se3.exp(roots[0] @ rng.normal(size=6)))
                @ (T_p @ se3.exp(roots[1] @ rng.normal(size=6)))
            )
            for _ in range(4000)
        ]
    )
    floor = np.diag([np.radians(0.02) ** 2] * 3 + [0.003**2] * 3)
    np.testing.assert_allclose(gamma, np.cov(draws.T) + floor, atol=0.08 * np.abs(gamma).max())
    np.testing.assert_allclose(relative_pose(T_q, T_p, *np.zeros((2, 6, 6)))[1], floor, atol=1e-18)


def test_unsuitable_logs_are_refused(tmp_path, log):
    few = TrackedLog("short", log.scans[:8], log.poses[:8], log.covariances[:8], log.trusted[:8])
    with pytest.raises(InputError, match=r"short: odometry trusts 7 pairs.*10 are needed.*--min-range"):
        adapt(few, tmp_path, config=FEW)
    with pytest.raises(InputError, match="trusts 0 pairs"):
        adapt(replace(log, poses=np.tile(np.eye(4), (COUNT, 1, 1))), tmp_path, config=FEW)
    with pytest.raises(InputError, match="64 points"):
        adapt(replace(log, scans=[Scan(np.ones((5, 3)))] * COUNT), tmp_path, config=FEW)
    assert not list(tmp_path.iterdir())


def test_the_command_adapts_a_log_without_poses(tmp_path, drive, monkeypatch):
    (tmp_path / "log").mkdir()
    for number, scan in enumerate(drive):
        np.column_stack([scan.points, np.zeros(len(scan))]).astype("<f4").tofile(tmp_path / "log" / f"{number:03d}.bin")
    figures = [Judged(-1.0, 2.0), Judged(-1.5, 2.8), Judged(-1.0, 2.0), Judged(-0.5, 2.8)]
    monkeypatch.setattr(adapting, "judge", lambda *_: figures.pop(0))
    options = ["--voxel", "0.5", "--min-range", "2", "--steps", "1"]
    arguments = ["adapt", str(tmp_path / "log"), "--out", str(tmp_path / "out"), *options]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "model.md").exists()
    assert len(estimate(voxel_downsample(next(iter(drive)), 1.0), tmp_path / "out" / "model.safetensors"))
    rejected = CliRunner().invoke(app, [*arguments, "--fresh"])
    assert rejected.exit_code == 0, rejected.output
    assert "no model was written" in rejected.output
    assert not (tmp_path / "out" / "model.safetensors").exists()
