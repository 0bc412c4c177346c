"""The tree that grows with the map, against a search of all points."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oracles import seeds
from poli.kdtree.growing import ROOM, GrowingTree
from poli.lidar_odometry.gicp_kernel import NearestPoints, Source, WeightedPoints, linearize
from poli.se3 import exp


def nearest(tree: GrowingTree, queries: np.ndarray, reach: float) -> np.ndarray:  # (M, 3) -> (M,)
    source, target, matches = WeightedPoints.empty(len(queries)), WeightedPoints.empty(len(tree)), NearestPoints.none(len(queries))
    for points in (source, target):
        points.shapes[:] = [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0]
    linearize(tree.arrays, target.shapes, Source(queries, source.shapes), np.eye(4), reach, 1.0, matches)
    return np.where(matches.slots >= 0, tree.arrays.rows[matches.slots], -1)


def expected(points: np.ndarray, queries: np.ndarray, reach: float) -> np.ndarray:
    distances = np.linalg.norm(points[None] - queries[:, None], axis=2)
    return np.where(distances.min(axis=1) < reach, distances.argmin(axis=1), -1)


def check_slots(tree: GrowingTree) -> None:
    """Every point has exactly one slot, and lies in the boxes of its leaf and of all nodes above."""
    children, spans, boxes, xyz, rows = tree.arrays
    seen, waiting = [], [(0, np.array([-np.inf] * 3 + [np.inf] * 3))]
    while waiting:
        node, outer = waiting.pop()
        if children[node] >= 0:
            waiting += [(children[node] + side, boxes[node]) for side in range(2)]
            continue
        begin, end = spans[node]
        assert end - begin <= ROOM
        inside = xyz[:, begin:end].T
        for box in (outer, boxes[node]):
            assert ((inside >= box[:3]) & (inside <= box[3:])).all()
        seen += rows[begin:end].tolist()
    assert sorted(seen) == list(range(len(tree)))


@given(seeds, st.sampled_from([1, 5, 16, 17, 100, 700]))
def test_searches_are_exact_while_the_tree_grows(seed, count):
    rng = np.random.default_rng(seed)
    points = rng.uniform(-5, 5, (count, 3))
    tree = GrowingTree(points)
    for step in range(4):
        # Some points move a little; others are new, ahead of all others as on a drive, or anywhere.
        moving = np.flatnonzero(rng.random(len(points)) < 0.3)
        points = points.copy()
        points[moving] += 0.1 * rng.standard_normal((len(moving), 3))
        new = rng.uniform(-5, 5, (rng.integers(200), 3)) + [3.0 * step, 0.0, 0.0]
        changed = np.concatenate([moving, len(points) + np.arange(len(new))])
        points = np.concatenate([points, new])
        tree.update(points, changed)
        check_slots(tree)
        queries = rng.uniform(-7, 15, (50, 3))
        np.testing.assert_array_equal(nearest(tree, queries, 2.0), expected(points, queries, 2.0))


def test_points_in_a_row_do_not_make_the_tree_too_deep(rng):
    """The worst order: each point beyond all others, so that always the last leaf is halved."""
    points = np.stack([np.arange(5000.0), rng.standard_normal(5000), np.zeros(5000)], axis=1)
    tree = GrowingTree(points[:10])
    for end in range(100, 5001, 100):
        tree.update(points[:end], np.arange(end - 100 if end > 100 else 10, end))
    check_slots(tree)
    queries = rng.uniform(0, 5000, (50, 3)) * [1.0, 0.0, 0.0]
    np.testing.assert_array_equal(nearest(tree, queries, 20.0), expected(points, queries, 20.0))


@given(seeds)
def test_kept_matches_and_bounds_of_earlier_searches_do_not_change_the_result(seed):
    rng = np.random.default_rng(seed)
    points, queries = rng.uniform(-3, 3, (400, 3)), rng.uniform(-4, 4, (80, 3))
    tree, matches, shapes = GrowingTree(points), NearestPoints.none(80), np.tile([1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0], (400, 1))
    for size in (1.0, 0.3, 0.1, 0.02, 0.001):
        T = exp(size * rng.standard_normal(6))
        linearize(tree.arrays, shapes, Source(queries, shapes[:80]), T, 1.0, 1.0, matches, same=0.0)
        rows = np.where(matches.slots >= 0, tree.arrays.rows[matches.slots], -1)
        np.testing.assert_array_equal(rows, expected(points, queries @ T[:3, :3].T + T[:3, 3], 1.0))
