"""`python -m benchmarks geometry` on one held-out spot: the metrics agree with its known geometry."""

import numpy as np
import pytest

from benchmarks.data.held_out import held_out_pairs
from benchmarks.experiments.geometry import judge, normal_angles
from benchmarks.metrics.likelihood import NEIGHBORS
from benchmarks.rivals.pca import weighted_pca
from poli.ellipsoids import Ellipsoids
from poli.estimation import estimate, pca


@pytest.fixture(scope="module")
def spot():
    return next(held_out_pairs(["vlp16"], spots=1, places=("tunnel",)))


def test_scans_lie_on_the_surface_and_the_survey_is_part_of_it(spot):
    off = spot.distance(spot.q.points.astype(float))
    assert np.median(off) < 0.03
    assert spot.distance(spot.surface).max() < 1e-3


def test_true_normals_have_no_error(spot):
    cloud, normals = spot.cloud(0.5), spot.normals(0.5)
    filled = np.where(np.isfinite(normals), normals, [0.0, 0.0, 1.0])
    flat = np.eye(3) - 0.99 * filled[:, :, None] * filled[:, None, :]
    degrees, ranges = normal_angles([(cloud, normals)], [Ellipsoids(cloud.points.astype(float), flat)])
    assert degrees.max() < 0.01
    assert len(ranges) == np.isfinite(normals[:, 0]).sum()


def test_a_configuration_is_evaluated_completely(spot):
    result = judge([spot], 1.0, "objects")
    cloud, truth = spot.cloud(1.0), spot.normals(1.0)
    known = np.isfinite(truth[:, 0])

    def rmse(field):
        cosine = np.abs(np.einsum("ni,ni->n", field.normals[known], truth[known]))
        return np.degrees(np.sqrt((np.arccos(np.clip(cosine, 0.0, 1.0)) ** 2).mean()))

    by_neighbors = {k: rmse(pca(cloud, k=k)) for k in NEIGHBORS}
    assert result["pca_k"] == min(by_neighbors, key=by_neighbors.get)
    assert result["pca"]["all"]["rmse"] == pytest.approx(min(by_neighbors.values()), rel=1e-6)
    assert result["poli"]["all"]["rmse"] == pytest.approx(rmse(estimate(cloud, "objects")), rel=1e-6)
    k, power = result["weighted_setting"]
    ((_, weighted),) = weighted_pca(cloud, [k], [power])
    assert result["weighted"]["all"]["rmse"] == pytest.approx(rmse(weighted), rel=1e-6)
    assert result["weighted_best_median"] <= result["weighted"]["all"]["median"]
    for method in ("poli", "pca"):
        assert 0.0 < result[method]["sample_distance"]["0.5"] <= result[method]["sample_distance"]["1"]
        assert 0.0 < result[method]["covered"]["0.5"] <= 1.0
        assert result[method]["believed_mean"] <= result[method]["mean"] + 1e-9
