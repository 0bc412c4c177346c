"""The tree that grows with the map, against a search of all points."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oracles import seeds
from poli.kdtree.growing import ROOM, GrowingTree
from poli.lidar_odometry.matching import Matching, Target, WeightedPoints
from poli.se3 import exp


def weighted(points: np.ndarray) -> WeightedPoints:  # (N, 3)
    balls = np.tile([1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0], (len(points), 1))
    return WeightedPoints(points, balls, np.zeros_like(points), np.zeros(len(points)))


def nearest(target: Target, queries: np.ndarray, reach: float) -> np.ndarray:  # (M, 3) -> (M,)
    matching = Matching(weighted(queries), target, reach)
    matching.linearize(np.eye(4), 1.0)
    return matching.rows


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
    target = Target(weighted(points))
    for step in range(4):
        # Some points move a little; others are new, ahead of all others as on a drive, or anywhere.
        moving = np.flatnonzero(rng.random(len(points)) < 0.3)
        points = points.copy()
        points[moving] += 0.1 * rng.standard_normal((len(moving), 3))
        new = rng.uniform(-5, 5, (rng.integers(200), 3)) + [3.0 * step, 0.0, 0.0]
        changed = np.concatenate([moving, len(points) + np.arange(len(new))])
        points = np.concatenate([points, new])
        target.update(weighted(points), changed)
        check_slots(target.tree)
        queries = rng.uniform(-7, 15, (50, 3))
        np.testing.assert_array_equal(nearest(target, queries, 2.0), expected(points, queries, 2.0))


def test_points_in_a_row_do_not_make_the_tree_too_deep(rng):
    """The worst order: each point beyond all others, so that always the last leaf is halved."""
    points = np.stack([np.arange(5000.0), rng.standard_normal(5000), np.zeros(5000)], axis=1)
    target = Target(weighted(points[:10]))
    for end in range(100, 5001, 100):
        target.update(weighted(points[:end]), np.arange(end - 100 if end > 100 else 10, end))
    check_slots(target.tree)
    queries = rng.uniform(0, 5000, (50, 3)) * [1.0, 0.0, 0.0]
    np.testing.assert_array_equal(nearest(target, queries, 20.0), expected(points, queries, 20.0))


@given(seeds)
def test_kept_matches_and_bounds_of_earlier_searches_do_not_change_the_result(seed):
    rng = np.random.default_rng(seed)
    points, queries = rng.uniform(-3, 3, (400, 3)), rng.uniform(-4, 4, (80, 3))
    matching = Matching(weighted(queries), Target(weighted(points)), 1.0)
    for size in (1.0, 0.3, 0.1, 0.02, 0.001):
        T = exp(size * rng.standard_normal(6))
        matching.linearize(T, 1.0, same=0.0)
        np.testing.assert_array_equal(matching.rows, expected(points, queries @ T[:3, :3].T + T[:3, 3], 1.0))
