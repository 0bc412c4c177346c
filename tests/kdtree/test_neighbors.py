"""The neighbor index against scipy's k-d tree."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import cKDTree

from oracles import seeds
from poli.errors import InputError
from poli.kdtree.tree import KDTree


@st.composite
def clouds(draw):
    """Clouds of many sizes: in a volume, on a plane, along the rings of a scan, on a grid with ties, with duplicates."""
    rng = np.random.default_rng(draw(seeds))
    count = draw(st.sampled_from([1, 2, 3, 15, 16, 17, 33, 200, 3000]))
    kind = draw(st.sampled_from(["volume", "plane", "rings", "grid", "duplicates", "line"]))
    points = rng.standard_normal((count, 3))
    if kind == "plane":
        points[:, 2] *= 1e-3
    if kind == "rings":
        angle, ring = rng.uniform(0, 2 * np.pi, count), rng.integers(1, 8, count)
        points = np.stack([5.0 * ring * np.cos(angle), 5.0 * ring * np.sin(angle), 0.1 * ring], axis=1)
    if kind == "grid":
        points = rng.integers(0, 6, (count, 3)).astype(float)
    if kind == "duplicates":
        points = points[rng.integers(0, max(1, count // 5), count)]
    if kind == "line":
        points[:, 1:] = 0.0
    return points


@given(points=clouds(), k=st.sampled_from([1, 2, 5, 24, 60]))
def test_nearest_of_the_points_themselves(points, k):
    k = min(k, len(points))
    distances, indices = KDTree(points).nearest(k)
    expected = cKDTree(points).query(points, list(range(1, k + 1)))[0]
    np.testing.assert_allclose(distances, expected, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(points[indices] - points[:, None], axis=2), distances, atol=1e-12)
    assert all(len(set(row)) == k for row in indices.tolist())  # no duplicates


@given(points=clouds(), k=st.sampled_from([1, 3, 10]), seed=seeds)
def test_nearest_of_other_points(points, k, seed):
    k = min(k, len(points))
    queries = 3.0 * np.random.default_rng(seed).standard_normal((50, 3))
    distances, indices = KDTree(points).nearest(k, queries)
    np.testing.assert_allclose(distances, cKDTree(points).query(queries, list(range(1, k + 1)))[0], atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(points[indices] - queries[:, None], axis=2), distances, atol=1e-12)


@given(points=clouds(), radius=st.sampled_from([0.01, 0.5, 2.0, 100.0]))
def test_within(points, radius):
    points = points[:500]
    for queries in (None, points[::3] + 0.1):
        starts, indices = KDTree(points).within(radius, queries)
        expected = cKDTree(points).query_ball_point(points if queries is None else queries, radius)
        for i, neighbors in enumerate(expected):
            assert sorted(indices[starts[i] : starts[i + 1]].tolist()) == sorted(neighbors)


def test_no_precision_is_lost_far_from_the_origin(rng):
    """UTM coordinates: the same neighbors as near the origin, up to their millimeter grid."""
    points = np.round(rng.uniform(-50, 50, (2000, 3)), 3)
    near, far = KDTree(points).nearest(8), KDTree(points + [500_000.0, 4_000_000.0, 100.0]).nearest(8)
    np.testing.assert_allclose(far[0], near[0], atol=1e-8)


def test_many_threads_share_one_index(rng):
    index = KDTree(rng.standard_normal((4000, 3)))
    expected = index.nearest(9)[1]
    with ThreadPoolExecutor(4) as pool:
        for _, indices in pool.map(lambda _: index.nearest(9), range(12)):
            np.testing.assert_array_equal(indices, expected)


@pytest.mark.parametrize(("k", "says"), [(0, "at least 1"), (4, "1 to 3"), (2.5, "whole")])
def test_an_invalid_k_is_refused(k, says):
    with pytest.raises(InputError, match=f"k is .*{says}"):
        KDTree(np.eye(3)).nearest(k)


def test_many_duplicates_are_not_searched_quadratically():
    """Twenty thousand zero returns among other points: correct, and not quadratic in their number."""
    points = np.concatenate([np.zeros((20_000, 3)), np.random.default_rng(0).standard_normal((5000, 3))])
    distances, indices = KDTree(points).nearest(8)
    assert distances[:20_000].max() == 0.0
    assert (points[indices[:20_000]] == 0.0).all()


@pytest.mark.parametrize("radius", [0.0, np.nan])
def test_an_invalid_radius_is_refused(radius):
    with pytest.raises(InputError, match="radius"):
        KDTree(np.eye(3)).within(radius)


def test_an_invalid_thread_count_is_named(monkeypatch):
    monkeypatch.setenv("POLI_NUM_THREADS", "many")
    with pytest.raises(InputError, match="POLI_NUM_THREADS is 'many'"):
        KDTree(np.random.default_rng(0).standard_normal((3000, 3))).nearest(3)


@given(points=clouds(), k=st.sampled_from([1, 2, 5, 16, 36]), thinning=st.sampled_from([0, 1, 2]))
def test_neighborhoods_of_all_points_at_once(points, k, thinning):
    """In leaf order, of the cloud and its downsampled versions; far from the origin and near it."""
    index = KDTree(points + np.array([4e5, -5e6, 100.0]))
    kept = points[index.leaf_order][:: 4**thinning]
    k = min(k, len(kept) - 1)
    found = index.neighborhoods(*[(0, False)] * thinning, (k, True))[-1]
    unordered = np.linalg.norm(kept[index.neighborhoods(*[(0, False)] * thinning, (k, False))[-1]] - kept[:, None], axis=2)
    assert found.shape == (len(kept), k)
    assert (found != np.arange(len(kept))[:, None]).all()  # no point is its own neighbor
    assert all(len(set(row)) == k for row in found.tolist())
    distances = np.linalg.norm(kept[found] - kept[:, None], axis=2)
    np.testing.assert_allclose(np.sort(unordered, axis=1), np.sort(distances, axis=1), atol=1e-6 * (1.0 + np.ptp(points)))
    if k:
        expected = np.sort(np.linalg.norm(kept[:, None] - kept, axis=2), axis=1)[:, 1 : k + 1]
        np.testing.assert_allclose(distances, expected, atol=1e-6 * (1.0 + np.ptp(points, axis=0).max()))
