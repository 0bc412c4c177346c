"""Fast Point Feature Histograms against a plain transcription of their definition, and against Open3D if installed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import random_pose, seeds
from poli.registration.fpfh import fpfh, fpfh_of_scales


def oriented_cloud(rng, count=120):
    """Points on a bumpy sphere, with random normals: every bin is used."""
    outward = rng.standard_normal((count, 3))
    outward /= np.linalg.norm(outward, axis=1, keepdims=True)
    points = outward * (1.0 + 0.2 * np.sin(3.0 * outward[:, :1]))
    normals = rng.standard_normal((count, 3))
    return points, normals / np.linalg.norm(normals, axis=1, keepdims=True)


def pair_angles(p, a, q, b):
    """The three angles of two oriented points, in the frame of the point whose normal is closer to the line between them."""
    d = q - p
    length = np.linalg.norm(d)
    if length == 0:
        return 0.0, 0.0, 0.0
    d = d / length
    if np.arccos(min(abs(a @ d), 1.0)) > np.arccos(min(abs(b @ d), 1.0)):
        a, b, d = b, a, -d
    v = np.cross(d, a)
    if np.linalg.norm(v) == 0:
        return 0.0, 0.0, 0.0
    v = v / np.linalg.norm(v)
    w = np.cross(a, v)
    return np.arctan2(w @ b, a @ b), v @ b, a @ d


def slow_fpfh(points, normals, radius, max_neighbors):
    count = len(points)
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    neighbors = []
    for i in range(count):
        order = [j for j in np.argsort(distance[i], kind="stable")[:max_neighbors] if distance[i, j] < radius]
        neighbors.append([j for j in order if j != i])
    simple = np.zeros((count, 33))
    for i in range(count):
        for j in neighbors[i]:
            turn, tilt, slope = pair_angles(points[i], normals[i], points[j], normals[j])
            for block, share in enumerate(((turn + np.pi) / (2 * np.pi), (tilt + 1) / 2, (slope + 1) / 2)):
                simple[i, 11 * block + min(int(11 * share), 10)] += 100.0 / len(neighbors[i])
    fast = simple.copy()
    for i in range(count):
        apart = [j for j in neighbors[i] if distance[i, j] > 0]
        if apart:
            weights = 1.0 / distance[i, apart] ** 2
            fast[i] += weights @ simple[apart] / weights.sum()
    return fast


def share_off(a, b):
    """The share of points whose features differ: an angle within rounding of a bin's edge may fall on either side."""
    return (np.abs(a - b).max(axis=1) > 1e-6).mean()


@given(seed=seeds, radius=st.sampled_from([0.1, 0.4, 3.0]), most=st.sampled_from([2, 10, 500]))
def test_the_definition(seed, radius, most):
    points, normals = oriented_cloud(np.random.default_rng(seed), 60)
    np.testing.assert_allclose(fpfh(points, normals, radius, most), slow_fpfh(points, normals, radius, most), atol=1e-9)


def test_open3d(rng):
    o3d = pytest.importorskip("open3d")
    points, normals = oriented_cloud(rng, 400)
    cloud = o3d.geometry.PointCloud(o3d.utility.Vector3dVector(points))
    cloud.normals = o3d.utility.Vector3dVector(normals)
    for radius, most in ((0.1, 90), (0.3, 20), (0.5, 100)):
        its = o3d.pipelines.registration.compute_fpfh_feature(cloud, o3d.geometry.KDTreeSearchParamHybrid(radius, most)).data.T
        np.testing.assert_allclose(fpfh(points, normals, radius, most), its, atol=1e-9)


def test_duplicates_and_isolated_points(rng):
    points, normals = oriented_cloud(rng, 40)
    points = np.concatenate([points, points[:5], [[50.0, 0.0, 0.0]]])
    normals = np.concatenate([normals, normals[5:10], [[0.0, 0.0, 1.0]]])
    ours = fpfh(points, normals, 0.6)
    np.testing.assert_allclose(ours, slow_fpfh(points, normals, 0.6, 100), atol=1e-9)
    assert not ours[-1].any()


@given(seed=seeds)
def test_rigid_motions_change_nothing(seed):
    rng = np.random.default_rng(seed)
    points, normals = oriented_cloud(rng)
    T = random_pose(rng)
    moved = fpfh(points @ T[:3, :3].T + T[:3, 3], normals @ T[:3, :3].T, 0.5)
    assert share_off(moved, fpfh(points, normals, 0.5)) < 0.05


def test_several_scales_are_concatenated_single_scales(rng):
    points, normals = oriented_cloud(rng)
    radii = np.array([0.2, 0.5, 5.0])
    together = fpfh_of_scales(points, normals, radii, 50)
    np.testing.assert_allclose(together, np.hstack([fpfh(points, normals, r, 50) for r in radii]), atol=1e-9)
