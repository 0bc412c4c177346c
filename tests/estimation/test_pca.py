import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import cKDTree

import poli
from oracles import random_pose, seeds
from poli.errors import InputError
from poli.worlds import SENSORS, scan_of


def oracle(points: np.ndarray, neighbors: list[list[int]]) -> np.ndarray:
    return np.stack([np.cov(points[n].T, bias=True) for n in neighbors])


@given(seed=seeds, k=st.integers(3, 40))
def test_covariances_of_the_k_nearest(seed, k):
    points = np.random.default_rng(seed).standard_normal((60, 3))
    field = poli.pca(points, k=k)
    np.testing.assert_allclose(field.covariances, oracle(points, cKDTree(points).query(points, k)[1]), atol=1e-12)
    np.testing.assert_array_equal(field.means, points)


@given(seed=seeds)
def test_covariances_within_a_radius(seed):
    points = np.random.default_rng(seed).standard_normal((80, 3))
    neighbors = cKDTree(points).query_ball_point(points, 1.0)
    field = poli.pca(points, radius=1.0)
    for i, n in enumerate(neighbors):
        if len(n) >= 3:
            np.testing.assert_allclose(field.covariances[i], np.cov(points[n].T, bias=True), atol=1e-12)
        else:
            other = [j for j in n if j != i]
            spacing = np.linalg.norm(points[other[0]] - points[i]) if other else 1.0
            np.testing.assert_allclose(field.covariances[i], spacing**2 * np.eye(3), atol=1e-12)


@given(seed=seeds, radius=st.sampled_from([None, 0.8]))
def test_equivariance(seed, radius):
    """Under motion, permutation and scale, ellipsoids move with their points."""
    rng = np.random.default_rng(seed)
    points, T, order = rng.standard_normal((100, 3)), random_pose(rng), rng.permutation(100)
    viewpoint = 5.0 * rng.standard_normal(3)
    field = poli.pca(points, k=9, radius=radius, viewpoint=viewpoint)
    R, t = T[:3, :3], T[:3, 3]
    moved = poli.pca(points @ R.T + t, k=9, radius=radius, viewpoint=R @ viewpoint + t)
    np.testing.assert_allclose(moved.covariances, field.transform(T).covariances, atol=1e-10)
    np.testing.assert_allclose(moved.normals, field.transform(T).normals, atol=1e-5)
    np.testing.assert_allclose(poli.pca(points[order], k=9, radius=radius).covariances, field.covariances[order], atol=1e-12)
    scaled = poli.pca(10.0 * points, k=9, radius=None if radius is None else 10.0 * radius)
    np.testing.assert_allclose(scaled.covariances, 100.0 * field.covariances, rtol=1e-9, atol=1e-9)


def test_plane_regularization(rng):
    planes = poli.pca(rng.standard_normal((200, 3)), regularize="plane")
    np.testing.assert_allclose(planes.eigenvalues, np.tile([1e-3, 1, 1], (200, 1)), atol=1e-12)


def test_degenerate_neighborhoods():
    assert poli.pca(np.array([[1.0, 2, 3]])).covariances.tolist() == [np.zeros((3, 3)).tolist()]  # a single point: a dot
    pair = poli.pca(np.array([[0.0, 0, 0], [2.0, 0, 0]]))
    np.testing.assert_allclose(pair.covariances, np.tile(4.0 * np.eye(3), (2, 1, 1)))  # only the spacing is known
    same = poli.pca(np.ones((10, 3)), k=5)
    np.testing.assert_array_equal(same.covariances, 0.0)
    assert np.isfinite(same.normals).all()
    line = np.zeros((20, 3))
    line[:, 0] = np.arange(20)
    needles = poli.pca(line, k=5, viewpoint=np.array([0.0, 0.0, 7.0]))
    np.testing.assert_allclose(needles.linearity, 1.0)
    np.testing.assert_allclose(np.abs(needles.normals[:, 0]), 0.0, atol=1e-12)
    isolated = poli.pca(np.array([[0.0, 0, 0], [50.0, 0, 0], [100.0, 0, 0]]), radius=2.0)
    np.testing.assert_allclose(isolated.covariances, np.tile(4.0 * np.eye(3), (3, 1, 1)))


@given(seed=seeds, radius=st.sampled_from([None, 0.5]))
def test_covariances_are_positive_semidefinite_even_for_hard_clouds(seed, radius):
    """Duplicates, lines and planes far from the origin pass the validation of `Ellipsoids`."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((200, 3)) * np.array([1.0, 1e-3, 0.0]) + 1e5
    points[::3] = points[0]
    field = poli.pca(points, k=6, radius=radius)
    poli.Ellipsoids(field.means, field.covariances)


def test_normals_of_a_simulated_wall_are_right():
    """On the dense part of a scan, PCA finds the true normals, facing the sensor."""
    scan = scan_of("town", SENSORS["hdl64e"])
    field = poli.pca(scan, k=24)
    cosine = np.einsum("ij,ij->i", field.normals, scan.fields["normal"])
    assert np.median(np.degrees(np.arccos(np.clip(cosine, -1, 1)))) < 5.0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"k": 2}, "k is 2; expected a whole number of at least 3"),
        ({"k": 2.5}, "k is 2.5"),
        ({"radius": -1.0}, "radius"),
        ({"regularize": "x"}, "regularize"),
        ({"floor": -1}, "floor"),
    ],
)
def test_bad_arguments_are_named(arguments, says):
    with pytest.raises(InputError, match=says):
        poli.pca(np.eye(3), **arguments)


def test_a_field_is_independent_of_the_callers_arrays(rng):
    points = rng.standard_normal((20, 3))
    field = poli.pca(points)
    before = field.means.copy()
    points[:] = np.nan
    np.testing.assert_array_equal(field.means, before)


def test_bad_points_are_named():
    with pytest.raises(InputError, match="holds 0 points"):
        poli.pca(np.zeros((0, 3)))
    with pytest.raises(InputError, match="not finite"):
        poli.pca(np.array([[np.nan, 0, 0]]))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_works_in_a_forked_child(rng):
    """Data loaders fork; the child must not wait for the parent's thread pool."""
    points = rng.standard_normal((4000, 3))
    expected = poli.pca(points).covariances
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(poli.pca(points).covariances, expected) else 1)
    assert os.waitpid(child, 0)[1] == 0
