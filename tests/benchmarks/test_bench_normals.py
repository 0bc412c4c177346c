"""The rivals that estimate normals: PCA with weights, and DeepFit."""

import json
import sys
from functools import partial

import numpy as np
import pytest

import poli
from benchmarks.metrics.surface import normal_errors
from benchmarks.rivals.pca import POWERS, weighted_pca
from poli.kdtree import KDTree

pytest.importorskip("torch")
import torch

from benchmarks.__main__ import main
from benchmarks.rivals.deepfit import ORDERS, PointWeights, deepfit_normals, fit, load, normals_by, patches_of, trained_steps


def bowl(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points of z = x^2 - y^2 / 2, and their unit normals."""
    x, y = rng.uniform(-1.0, 1.0, (2, count))
    normals = np.stack([-2.0 * x, y, np.ones(count)], axis=1)
    return np.stack([x, y, x * x - 0.5 * y * y], axis=1), normals / np.linalg.norm(normals, axis=1, keepdims=True)


def test_weighted_pca_is_the_covariance_with_inverse_distances():
    points, _ = bowl(60, np.random.default_rng(1))
    found = dict(weighted_pca(points, (8, 20)))
    assert set(found) == {(k, power) for k in (8, 20) for power in POWERS}
    for (k, power), field in found.items():
        distances, neighbors = KDTree(points).nearest(k)
        for row in (0, 17):
            d = distances[row].copy()
            d[0] = d[1]  # the point itself counts like its nearest neighbor
            weights = (d / d[-1]) ** -power
            expected = np.cov(points[neighbors[row]].T, aweights=weights, ddof=0)
            np.testing.assert_allclose(field.covariances[row], expected, atol=1e-14)


def test_a_quadric_with_equal_weights_fits_a_quadric_and_a_plane_does_not():
    points, truth = bowl(400, np.random.default_rng(2))
    inside = np.abs(points[:, :2]).max(axis=1) < 0.7  # away from the rim, where neighbors are on one side
    patches, axes = patches_of(points, 24)
    errors = {}
    for order in ORDERS:
        normal = fit(patches, torch.ones(patches.shape[:2]), order)
        errors[order] = normal_errors((axes @ normal[..., None])[..., 0].double().numpy()[inside], truth[inside]).rmse
    assert errors[2] < 0.5 * errors[1]
    np.testing.assert_allclose(errors[1], normal_errors(poli.pca(points, k=24).normals[inside], truth[inside]).rmse, rtol=1e-3)


def test_a_short_training_writes_weights_that_are_read_back(tmp_path, monkeypatch):
    config = tmp_path / "small.toml"
    config.write_text(
        'name = "small"\n[data]\nprocedural = 2\nresolution = 32\nvalidation_procedural = 1\n[pairs]\npoints = [150]\n'
    )
    weights = tmp_path / "deepfit.safetensors"
    words = ["deepfit", str(config), "--steps", "2", "--shapes", "2", "--weights", str(weights), "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
    main()
    methods = {record["method"] for record in json.loads((tmp_path / "deepfit.json").read_text())["records"]}
    assert methods == {"PCA", *(f"DeepFit, order {order}" for order in ORDERS)}
    points, _ = bowl(100, np.random.default_rng(5))
    network = load(weights)
    assert trained_steps(weights) == "2"
    assert isinstance(network, PointWeights)
    np.testing.assert_array_equal(normals_by(network, points, 12, 1), deepfit_normals(points, 12, 1, weights))


def test_the_frontier_trains_and_times_its_variants_and_resumes(tmp_path, monkeypatch):
    config = tmp_path / "small.toml"
    config.write_text(
        'name = "small"\n[data]\nprocedural = 2\nresolution = 32\nvalidation_procedural = 1\n[pairs]\npoints = [150]\n'
    )
    options = ["--shapes", "2", "--sizes", "1", "--variants", "3", "--processes", "1", "--repeats", "1"]
    words = ["frontier", str(config), *options, "--runs", str(tmp_path / "runs"), "--out", str(tmp_path)]
    minutes = []
    # The rivals are optional, and not what is tested here.
    monkeypatch.setattr("benchmarks.experiments.frontier.pca_rivals", lambda cloud: {"open3d": partial(np.cov, cloud.T)})
    for _ in range(2):
        monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
        main()
        [record] = json.loads((tmp_path / "frontier_objects.json").read_text())["records"]
        minutes.append(record["minutes"])
        assert 0.0 < record["normal_rmse"] < 90.0
        assert record["ms"] > 0.0
        assert record["multiply_adds"] < 30_000
    assert minutes[0] == minutes[1]  # judged once
    assert (tmp_path / "frontier_objects.png").is_file()
