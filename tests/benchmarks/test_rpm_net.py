"""RPM-Net as reimplemented: its parts against slow readings of its paper, its training on tiny data, and its shipped weights."""

import json
import sys

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from benchmarks.__main__ import main
from benchmarks.experiments.objects import rotation_error
from benchmarks.rivals.rpm_net import RpmNet, load, neighborhoods, pose_by, procrustes, rpm_net_pose, sinkhorn, trained_steps
from poli.errors import FormatError
from poli.estimation import pca
from poli.se3 import exp
from poli.worlds.shapes import procedural_mesh


def cloud(count: int, seed: int, R: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    points = np.random.default_rng(seed).normal(size=(count, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return (points, points) if R is None else (points @ R.T, points @ R.T)


def test_neighbors_lie_within_the_radius_and_point_pair_features_do_not_turn():
    (points, normals), T = cloud(300, 0), exp(np.array([0.4, -0.3, 0.2, 0.1, 0.2, 0.3]))
    around = neighborhoods(torch.from_numpy(points)[None], torch.from_numpy(normals)[None])
    assert around.pairs[0, :, :, 3].max() <= 0.3
    for row in (0, 70):
        inside = np.flatnonzero(np.linalg.norm(points - points[row], axis=1) <= 0.3)
        np.testing.assert_allclose(around.offsets[0, row, : len(inside)], points[inside] - points[row])
        assert (around.offsets[0, row, len(inside) :] == 0.0).all()
        j = inside[inside != row][0]
        at = list(inside).index(j)
        d = points[j] - points[row]
        cosines = [normals[row] @ d / np.linalg.norm(d), normals[j] @ d / np.linalg.norm(d), normals[row] @ normals[j]]
        np.testing.assert_allclose(torch.cos(around.pairs[0, row, at, :3]), cosines, atol=1e-6)
    turned = [torch.from_numpy(a)[None] for a in (points @ T[:3, :3].T + T[:3, 3], normals @ T[:3, :3].T)]
    fresh, moved = neighborhoods(*turned), around.moved(torch.from_numpy(T[None, :3]))
    for name in ("points", "offsets", "pairs"):
        torch.testing.assert_close(getattr(moved, name), getattr(fresh, name), atol=1e-6, rtol=0.0)


def test_sinkhorn_with_slack_is_its_loop():
    logs = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for one, found in zip(logs, sinkhorn(logs).exp(), strict=True):
        m = np.ones((6, 8))
        m[:5, :7] = one.exp().numpy()
        for _ in range(5):
            m[:5] /= m[:5].sum(axis=1, keepdims=True)
            m[:, :7] /= m[:, :7].sum(axis=0, keepdims=True)
        np.testing.assert_allclose(found, m[:5, :7], rtol=1e-9)


def test_procrustes_ignores_points_without_weight_and_never_mirrors():
    rng = np.random.default_rng(2)
    p, T = rng.normal(size=(30, 3)), exp(np.array([2.0, 0.5, -1.0, 0.3, 0.2, 0.1]))
    q = p @ T[:3, :3].T + T[:3, 3]
    q[:10] += rng.normal(size=(10, 3))
    weights = np.repeat([0.0, 0.7], [10, 20])
    arrays = [torch.from_numpy(a)[None] for a in (p, q, weights)]
    np.testing.assert_allclose(procrustes(*arrays)[0], T[:3], atol=1e-4)  # its weights are regularized
    flat = torch.from_numpy(p * [1.0, 1.0, 0.0])[None]
    mirrored = flat * torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64)
    for target in (mirrored, -flat):
        assert torch.linalg.det(procrustes(flat, target, arrays[2])[0, :, :3]).item() == pytest.approx(1.0)


def test_a_short_training_writes_weights_that_are_read_back(tmp_path, monkeypatch):
    config = tmp_path / "small.toml"
    config.write_text(
        'name = "small"\n[data]\nprocedural = 2\nresolution = 32\nvalidation_procedural = 1\n[pairs]\npoints = [100]\n'
    )
    weights = tmp_path / "rpm_net.safetensors"
    words = ["rpm_net", str(config), "--steps", "2", "--shapes", "2", "--weights", str(weights), "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
    main()
    records = json.loads((tmp_path / "rpm_net.json").read_text())["records"]
    assert [(r["N"], r["iterations"]) for r in records] == [(100, 1), (100, 2), (100, 5)]
    source, target = cloud(80, 3), cloud(80, 4)
    network = load(weights)
    assert trained_steps(weights) == "2"
    assert isinstance(network, RpmNet)
    np.testing.assert_array_equal(pose_by(network, source, target), rpm_net_pose(source, target, weights))
    with pytest.raises(FormatError, match="rpm_net"):
        load(config)


def test_the_shipped_weights_register_dense_clouds_of_shapes_never_seen():
    errors = []
    for seed in range(3_000_000, 3_000_006):
        rng = np.random.default_rng(seed)
        mesh, R = procedural_mesh(seed, 48), exp(np.array([*rng.uniform(-0.4, 0.4, 3), 0.0, 0.0, 0.0]))[:3, :3]
        points = [mesh.sample(1000, rng)[0], mesh.sample(1000, rng)[0] @ R.T]
        normals = [pca(p, k=12).normals for p in points]
        outward = [n * np.sign(((p - p.mean(axis=0)) * n).sum(axis=1, keepdims=True)) for p, n in zip(points, normals, strict=True)]
        errors.append(rotation_error(rpm_net_pose((points[0], outward[0]), (points[1], outward[1]))[:3, :3], R))
    assert np.mean(np.array(errors) <= 10.0) > 0.8
