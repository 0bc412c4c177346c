"""Consistency graphs and maximum cliques, against definitions and networkx."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import seeds
from poli.registration.consistency import cliques_through, consistency_graph, from_dense, maximum_clique, to_dense

UNBOUNDED = 10**12


def random_graph(rng, count, density):
    upper = np.triu(rng.random((count, count)) < density, 1)
    return upper | upper.T


def is_clique(graph, members):
    return (graph[np.ix_(members, members)] | np.eye(len(members), dtype=bool)).all()


@st.composite
def graphs(draw):
    """Graphs of many sizes (around the width of a word) and densities, some with a planted clique."""
    rng = np.random.default_rng(draw(seeds))
    count = draw(st.sampled_from([1, 2, 5, 20, 63, 64, 65, 100]))
    graph = random_graph(rng, count, draw(st.sampled_from([0.0, 0.05, 0.2, 0.5, 0.7] if count > 20 else [0.0, 0.3, 0.6, 0.9, 1.0])))
    if draw(st.booleans()):
        planted = rng.permutation(count)[: count // 4]
        graph[np.ix_(planted, planted)] = True
    np.fill_diagonal(graph, False)
    return graph


@given(graph=graphs())
def test_maximum_clique_agrees_with_networkx(graph):
    networkx = pytest.importorskip("networkx")
    members, exact = maximum_clique(from_dense(graph), UNBOUNDED)
    assert exact
    assert is_clique(graph, members)
    assert len(members) == max(len(c) for c in networkx.find_cliques(networkx.from_numpy_array(graph)))
    assert (np.diff(members) > 0).all()


@given(graph=graphs(), budget=st.sampled_from([0, 1, 10]))
def test_an_exhausted_budget_still_gives_a_clique(graph, budget):
    members, exact = maximum_clique(from_dense(graph), budget)
    assert is_clique(graph, members)
    assert len(members) >= 1
    best = len(maximum_clique(from_dense(graph), UNBOUNDED)[0])
    assert len(members) == best if exact else len(members) <= best


def test_the_budget_is_kept_where_the_search_would_take_forever(rng):
    """500 vertices at density 0.9 are beyond any search; a small budget returns at once, a larger one finds no smaller clique."""
    adjacency = from_dense(random_graph(rng, 500, 0.9))
    sizes = []
    for budget in (0, 100, 2000):
        members, exact = maximum_clique(adjacency, budget)
        assert not exact
        sizes.append(len(members))
    assert sizes == sorted(sizes)


@given(graph=graphs())
def test_cliques_through_every_vertex(graph):
    members = cliques_through(from_dense(graph), max_cliques=len(graph))
    assert members.any(axis=0).all()
    assert all(is_clique(graph, np.flatnonzero(row)) for row in members)
    assert len(np.unique(members, axis=0)) == len(members)
    assert (np.diff(members.sum(axis=1)) <= 0).all()
    np.testing.assert_array_equal(cliques_through(from_dense(graph), max_cliques=2), members[:2])


def test_empty_graphs():
    members, exact = maximum_clique(from_dense(np.zeros((0, 0), bool)))
    assert (len(members), exact) == (0, True)
    assert cliques_through(from_dense(np.zeros((0, 0), bool)), max_cliques=5).shape == (0, 0)


@given(seed=seeds, count=st.sampled_from([1, 3, 64, 150]), bound=st.sampled_from([0.0, 0.1, 1.0]))
def test_consistency_compares_lengths(seed, count, bound):
    rng = np.random.default_rng(seed)
    p, q = rng.standard_normal((2, count, 3))
    lengths = [np.linalg.norm(x[:, None] - x[None], axis=2) for x in (p, q)]
    expected = np.abs(lengths[0] - lengths[1]) <= 2.0 * bound
    np.fill_diagonal(expected, False)
    np.testing.assert_array_equal(to_dense(consistency_graph(p, q, bound)), expected)


def test_matches_that_share_a_point_exclude_each_other(rng):
    p = rng.standard_normal((2, 3))
    graph = to_dense(consistency_graph(p[[0, 0, 1]], rng.standard_normal((3, 3)), 100.0))
    assert graph.tolist() == [[False, False, True], [False, False, True], [True, True, False]]
