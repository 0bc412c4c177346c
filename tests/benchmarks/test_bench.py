"""The arithmetic of the benchmarks, on problems small enough for a test."""

import numpy as np
import pytest

import poli
from poli.se3 import so3_exp
from poli.worlds.shapes import procedural_mesh

pytest.importorskip("torch")
from benchmarks.experiments.objects import (
    CAREFUL,
    DEEPFIT,
    PCA,
    PCA_NEIGHBORS,
    POLI,
    STEEP,
    WEIGHTED,
    NormalErrors,
    Options,
    draw_pair,
    normal_errors,
    rotation_error,
    with_normals,
)
from benchmarks.experiments.relaxation import SCENARIOS, trajectory
from benchmarks.rivals.pca import POWERS, weighted_pca
from benchmarks.rivals.registrars import CONTESTANTS

MESH = procedural_mesh(3_000_009, 64)  # not trained on


def test_a_rival_has_the_best_setting_for_each_measure(monkeypatch):
    monkeypatch.setattr("benchmarks.experiments.objects._CLOUDS", 6)
    result = normal_errors(MESH, 300, Options())
    rng = np.random.default_rng([0, 300])
    clouds = [MESH.sample(300, rng) for _ in range(6)]
    truth = [normals for _, normals in clouds]
    plain = [NormalErrors.of([poli.pca(points, k=k).normals for points, _ in clouds], truth) for k in PCA_NEIGHBORS]
    assert result[PCA].rmse == pytest.approx(min(e.rmse for e in plain))
    assert result[PCA].median == pytest.approx(min(e.median for e in plain))
    for rival, powers in ((WEIGHTED, CAREFUL), (STEEP, POWERS)):
        k, power = (int(word) for word in result[rival].rmse_setting.replace("k ", "").split(", power "))
        assert power in powers
        fields = [next(iter(weighted_pca(points, [k], [power])))[1] for points, _ in clouds]
        assert result[rival].rmse == pytest.approx(NormalErrors.of([field.normals for field in fields], truth).rmse)
    assert result[STEEP].rmse <= result[WEIGHTED].rmse < result[PCA].rmse
    assert 0.0 < result[DEEPFIT].median < result[DEEPFIT].rmse < 90.0
    assert result[POLI].rmse < result[PCA].rmse
    assert result[POLI].median < result[PCA].median


def test_pairs_rotate_the_target_by_the_true_rotation():
    source, target, R = draw_pair(MESH, 200, Options(), 0)
    assert rotation_error(np.eye(3), R) <= 60.0
    assert rotation_error(R @ so3_exp(np.array([0.0, 0.0, np.deg2rad(7.0)])), R) == pytest.approx(7.0)
    # Both lie on one surface: rotated back, the target's normals match the source's.
    assert (target.points @ R).mean(axis=0) == pytest.approx(source.points.mean(axis=0), abs=0.15)
    np.testing.assert_allclose(np.linalg.norm(target.normals["true"], axis=1), 1.0)


@pytest.mark.parametrize("method", CONTESTANTS)
def test_every_contestant_registers_an_easy_pair_with_some_setting(method):
    if "KISS" in method:
        pytest.importorskip("kiss_matcher")

    def best(pair):
        source, target, R_true = draw_pair(MESH, 1000, Options(max_rotation=20.0), pair)
        clouds = [with_normals(cloud, Options()) for cloud in (source, target)]
        answers = [way(clouds[0], clouds[1]) for way in CONTESTANTS[method].ways]
        return min((rotation_error(R, R_true) for R in answers if R is not None), default=180.0)

    assert any(best(pair) < 10.0 for pair in range(3))


def test_relaxation_is_harmless_in_scenario_b_and_not_in_a():
    a, b = SCENARIOS
    exact, relaxed = trajectory(a, relaxed=False)[-1], trajectory(a, relaxed=True)[-1]
    assert exact == pytest.approx([5 / 11, 5 / 11], abs=1e-6)  # (z - 5) + 10 z = 0 at x = z
    assert relaxed == pytest.approx([5.0, 5.0], abs=1e-6)
    assert trajectory(b, relaxed=False)[-1] == pytest.approx([0.0, 0.0], abs=1e-3)
    assert trajectory(b, relaxed=True)[-1] == pytest.approx([0.0, 0.0], abs=1e-3)
