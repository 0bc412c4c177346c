"""Registration without an initial guess: matches, robust poses, verification, and the whole pipeline."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import random_pose, seeds
from poli import se3
from poli.errors import DegenerateError, InputError
from poli.estimation import pca
from poli.kdtree.tree import KDTree
from poli.registration import register, register_by_normals
from poli.registration.consistency import consistency_graph
from poli.registration.fpfh import fpfh
from poli.registration.gnc import gnc
from poli.registration.search import mutual_matches, tilt
from poli.registration.verdict import CloudPair, closeness, distinct, fit, refine
from poli.scan import Scan


def statue(rng, count):
    """Points on an asymmetric blob with three horns, and its outward normals: no symmetry, no flat side."""
    direction = rng.standard_normal((count, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    points = _blob(direction)
    step = 1e-5
    a = np.cross(direction, np.where(np.abs(direction[:, :1]) < 0.9, [[1.0, 0, 0]], [[0, 1.0, 0]]))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    b = np.cross(direction, a)
    slopes = [_blob((d := direction + step * side) / np.linalg.norm(d, axis=1, keepdims=True)) - points for side in (a, b)]
    normals = np.cross(*slopes)
    return points, normals / np.linalg.norm(normals, axis=1, keepdims=True)


def _blob(direction):
    horns = np.array([[1.0, 0.0, 0.0], [0.0, 0.8, 0.6], [-0.5, -0.5, 0.7071]])
    heights, widths = np.array([0.9, 0.6, 0.4]), np.array([8.0, 14.0, 20.0])
    radius = 0.4 + (heights * np.exp(widths * (direction @ horns.T - 1.0))).sum(axis=1) + 0.08 * np.sin(4.0 * direction[:, 2])
    return direction * radius[:, None]


def pair(rng, count=400):
    """Two independent samples of the statue, the second moved by the pose that is returned last."""
    (P, n_P), (Q, n_Q), T = statue(rng, count), statue(rng, count), random_pose(rng, shift=2.0)
    return P, n_P, Q @ T[:3, :3].T + T[:3, 3], n_Q @ T[:3, :3].T, T


def degrees_off(T, T_true):
    return np.degrees(np.linalg.norm(se3.so3_log(T[:3, :3].T @ T_true[:3, :3])))


# --- matches ----------------------------------------------------------------------------------------------------------


@given(seed=seeds, k=st.sampled_from([1, 2, 5]), sizes=st.sampled_from([(1, 1), (30, 20), (5, 200)]))
def test_mutual_matches_by_definition(seed, k, sizes):
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((n, 7)) for n in sizes)
    distance = np.linalg.norm(a[:, None] - b[None], axis=2)
    forth, back = distance.argsort(axis=1)[:, :k], distance.argsort(axis=0)[:k].T
    expected = [(i, j) for i in range(len(a)) for j in range(len(b)) if j in forth[i] and i in back[j]]
    assert [tuple(pair) for pair in mutual_matches(a, b, k).tolist()] == expected


# --- robust poses -----------------------------------------------------------------------------------------------------


@given(seed=seeds, wrong=st.sampled_from([0, 5, 40, 60]))
def test_gnc_rejects_wrong_matches(seed, wrong):
    rng = np.random.default_rng(seed)
    p, T = rng.standard_normal((100, 3)), random_pose(rng)
    q = p @ T[:3, :3].T + T[:3, 3] + 0.002 * rng.standard_normal((100, 3))
    q[:wrong] = q.mean(axis=0) + 3.0 * rng.standard_normal((wrong, 3))
    result = gnc(p, q, noise_bound=0.02)
    assert result.certified
    assert degrees_off(result.T_target_source, T) < 0.2
    assert result.inliers[wrong:].all()
    d = np.linalg.norm(q - (p @ result.T_target_source[:3, :3].T + result.T_target_source[:3, 3]), axis=1)
    np.testing.assert_array_equal(result.inliers, d <= 0.02)


def test_gnc_uses_the_information_of_matches(rng):
    """Points known only across their planes: along them they may be anywhere."""
    p, T = rng.standard_normal((200, 3)), random_pose(rng)
    n = rng.standard_normal((200, 3))
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    slide = rng.standard_normal((200, 3))
    slide = 0.1 * (slide - np.einsum("ni,ni->n", slide, n)[:, None] * n)
    q = p @ T[:3, :3].T + T[:3, 3] + slide
    q[:50] += rng.standard_normal((50, 3))
    information = n[:, :, None] * n[:, None, :] + 1e-4 * np.eye(3)
    result = gnc(p, q, 0.02, information)
    assert degrees_off(result.T_target_source, T) < 0.2
    assert result.inliers[50:].all()


def test_gnc_reports_when_no_matches_agree(rng):
    with pytest.raises(DegenerateError, match="matches agree"):
        gnc(rng.standard_normal((20, 3)), rng.standard_normal((20, 3)), 1e-6)


# --- verification -----------------------------------------------------------------------------------------------------


@pytest.fixture
def surfaces(rng):
    (P, n_P), (Q, n_Q) = statue(rng, 400), statue(rng, 400)
    return CloudPair(P, n_P, Q, n_Q, KDTree(Q))


def test_the_true_pose_scores_best(surfaces, rng):
    poses = np.array([np.eye(4), *(random_pose(rng, shift=0.0) for _ in range(50))])
    assert closeness(surfaces, poses, reach=0.1).argmax() == 0
    assert np.argmax([fit(surfaces, T, reach=0.1, across=0.02) for T in poses]) == 0
    assert closeness(surfaces.thinned(100), poses, reach=0.1).argmax() == 0


def test_refinement_reduces_the_error(surfaces):
    T = se3.exp(np.array([0.1, -0.15, 0.1, 0.05, 0.02, -0.04]))
    assert degrees_off(refine(surfaces, T, reach=0.4), np.eye(4)) < 0.1 * degrees_off(T, np.eye(4))


def test_refining_distant_surfaces_changes_nothing(surfaces):
    far = se3.exp(np.array([0.0, 0.0, 0.0, 100.0, 0.0, 0.0]))
    np.testing.assert_array_equal(refine(surfaces, far, reach=0.4), far)


def test_distinct_poses_by_definition(surfaces, rng):
    poses = np.array([se3.exp(0.2 * rng.standard_normal(6)) for _ in range(60)])
    scores = rng.random(60)
    moved = np.einsum("hij,nj->hni", poses[:, :3, :3], surfaces.source) + poses[:, None, :3, 3]
    expected: list[int] = []
    for h in np.argsort(-scores):
        if all(np.sqrt(((moved[h] - moved[k]) ** 2).sum(axis=1).mean()) >= 0.25 for k in expected):
            expected.append(h)
    assert len(expected) > 3
    np.testing.assert_array_equal(distinct(poses, scores, surfaces.source, 0.25, max_poses=100), expected)
    np.testing.assert_array_equal(distinct(poses, scores, surfaces.source, 0.25, max_poses=3), expected[:3])


# --- the whole pipeline -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("count", [250, 500])
def test_independent_samples_of_one_surface(seed, count):
    P, n_P, Q, n_Q, T = pair(np.random.default_rng([seed, count]), count)
    result = register_by_normals(P, n_P, Q, n_Q)
    assert degrees_off(result.T_target_source, T) < 5.0
    assert result.certified
    assert result.overlap > 0.8


def test_register_accepts_any_estimator_and_any_field(rng):
    P, _, Q, _, T = pair(rng, 500)
    result = register(Scan(P), Q, estimator=lambda points: pca(points, k=12))
    assert degrees_off(result.T_target_source, T) < 5.0
    again = register(P, Q, source_field=pca(P, k=12), target_field=pca(Q, k=12))
    np.testing.assert_array_equal(again.T_target_source, result.T_target_source)  # and the same input gives the same answer
    np.testing.assert_array_equal(again.inliers, result.inliers)


def test_the_reported_result_is_consistent(rng):
    P, n_P, Q, n_Q, _ = pair(rng)
    result = register_by_normals(P, n_P, Q, n_Q)
    size = np.linalg.norm(Q - Q.mean(axis=0), axis=1).max()
    moved = P @ result.T_target_source[:3, :3].T + result.T_target_source[:3, 3]
    assert (np.linalg.norm(moved[result.inliers[:, 0]] - Q[result.inliers[:, 1]], axis=1) < 0.3 * size).all()
    p, q = P[result.matches[result.clique, 0]], Q[result.matches[result.clique, 1]]
    lengths = [np.linalg.norm(x[:, None] - x[None], axis=2) for x in (p, q)]
    assert np.abs(lengths[0] - lengths[1]).max() <= 2 * 0.05 * size + 1e-9


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_units_and_the_origin_do_not_matter(rng, scale):
    P, n_P, Q, n_Q, T = pair(rng)
    result = register_by_normals(scale * (P + [100.0, 200.0, 300.0]), n_P, scale * (Q - [50.0, 0.0, 0.0]), n_Q)
    assert degrees_off(result.T_target_source, T) < 5.0


def test_partial_overlap_and_clutter(rng):
    """A quarter of the source is missing and a tenth of the target is noise."""
    P, n_P, Q, n_Q, T = pair(rng, 800)
    seen = P[:, 1] > np.quantile(P[:, 1], 0.25)
    Q[::10] = Q.mean(axis=0) + 0.5 * rng.standard_normal(Q[::10].shape)
    result = register_by_normals(P[seen], n_P[seen], Q, n_Q)
    assert degrees_off(result.T_target_source, T) < 5.0


def test_poses_that_tip_the_vertical_are_no_candidates(rng):
    P, n_P, Q, n_Q, T = pair(rng)
    R = (
        se3.exp(np.array([np.deg2rad(100.0), 0.0, 0.0, 0.0, 0.0, 0.0]))[:3, :3] @ T[:3, :3].T
    )  # the right pose tips z by 100 degrees
    Q, n_Q = Q @ R.T, n_Q @ R.T
    assert tilt(register_by_normals(P, n_P, Q, n_Q).T_target_source) == pytest.approx(100.0, abs=5.0)
    for max_tilt in (5.0, 60.0):
        try:
            result = register_by_normals(P, n_P, Q, n_Q, max_tilt=max_tilt)
        except DegenerateError as error:
            assert f"more than {max_tilt:g} degrees" in str(error)  # noqa: PT017
            assert "upright=False" in str(error)  # noqa: PT017
        else:
            assert tilt(result.T_target_source) <= max_tilt
    assert 0.0 <= register_by_normals(P, n_P, Q, n_Q, max_tilt=120.0).margin <= 1.0


def test_too_few_points_and_coincident_points(rng):
    up = np.tile([0.0, 0.0, 1.0], (50, 1))
    with pytest.raises(InputError, match="source_points"):
        register_by_normals(np.zeros((2, 3)), up[:2], rng.standard_normal((50, 3)), up)
    with pytest.raises(DegenerateError, match="target_points"):
        register_by_normals(rng.standard_normal((50, 3)), up, np.zeros((50, 3)), up)
    with pytest.raises(DegenerateError):
        register_by_normals(np.zeros((50, 3)), up, rng.standard_normal((50, 3)), up)
    line = np.outer(np.linspace(0.0, 1.0, 50), [1.0, 0.0, 0.0])
    with pytest.raises(DegenerateError):
        register_by_normals(line, up, line, up)


CLOUD = np.random.default_rng(0).standard_normal((30, 3))
UP = np.tile([0.0, 0.0, 1.0], (30, 1))


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: fpfh(np.zeros((5, 2)), UP, 1.0), "points"),
        (lambda: fpfh(CLOUD, 0.0 * UP, 1.0), "normals"),
        (lambda: fpfh(CLOUD, UP, 0.0), "radius"),
        (lambda: fpfh(CLOUD, UP, 1.0, max_neighbors=1), "max_neighbors"),
        (lambda: consistency_graph(CLOUD, np.nan * CLOUD, 1.0), "target"),
        (lambda: consistency_graph(CLOUD, CLOUD, -1.0), "noise_bound"),
        (lambda: mutual_matches(np.zeros((2, 3)), np.zeros((2, 4))), "have shapes"),
        (lambda: mutual_matches(np.zeros((2, 3)), np.full((2, 3), np.nan)), "not finite"),
        (lambda: mutual_matches(CLOUD, CLOUD, 0), "k is 0"),
        (lambda: gnc(CLOUD, CLOUD[:3], 0.1), "target"),
        (lambda: gnc(CLOUD, CLOUD, 0.0), "noise_bound"),
        (lambda: gnc(CLOUD, CLOUD, 0.1, np.eye(3)), "information"),
        (lambda: register_by_normals(CLOUD, 0.0 * UP, CLOUD, UP), "source_normals"),
        (lambda: register_by_normals(CLOUD, UP, CLOUD, UP[:29]), "target_normals"),
        (lambda: register_by_normals(CLOUD, UP, np.inf * UP, UP), "target_points"),
        (lambda: register_by_normals(CLOUD, UP, CLOUD, UP, feature_radius=-1.0), "feature_radius"),
        (lambda: register_by_normals(CLOUD, UP, CLOUD, UP, noise_bound=0.0), "noise_bound"),
        (
            lambda: register(CLOUD, CLOUD, source_field=pca(CLOUD), target_field=pca(CLOUD[:29])),
            "30 points .*29 ellipsoids",
        ),
    ],
)
def test_bad_inputs_are_named(call, named):
    with np.errstate(invalid="ignore"), pytest.raises(InputError, match=named):
        call()
