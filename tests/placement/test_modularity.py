import igraph
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.planners.placement.modularity import communities_after, merges
from overlace.planners.placement.ties import ties_between
from reproductions.cc12.modularity import modularity


@st.composite
def graphs(draw):
    n = draw(st.integers(2, 14))
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    pairs = draw(st.lists(pair, min_size=1, max_size=40))
    weight = [draw(st.integers(1, 50)) for _ in pairs]
    left, right = np.array(pairs, dtype=np.int64).T
    return n, ties_between(n, left, right, np.array(weight, dtype=np.float64))


def as_networkx(n, ties):
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    left = np.repeat(np.arange(n), np.diff(ties.start))
    graph.add_weighted_edges_from(zip(left.tolist(), ties.other.tolist(), ties.weight.tolist(), strict=True))
    return graph


@given(graphs())
def test_the_gains_add_up_to_the_modularity_that_networkx_measures(drawn):
    n, ties = drawn
    made, q = merges(ties)
    community = communities_after(n, made, len(made))
    parts = [set(np.flatnonzero(community == i).tolist()) for i in range(community.max() + 1)]
    if len(ties.other):
        expected = nx.community.modularity(as_networkx(n, ties), parts)
        assert modularity(ties, community) == pytest.approx(expected, abs=1e-12)
        if len(q):
            assert q[-1] == pytest.approx(expected, abs=1e-9)
    assert (np.diff(q) > 0).all()


@given(graphs())
def test_each_merge_is_the_best_there_is(drawn):
    n, ties = drawn
    made, _ = merges(ties)
    for count in range(len(made)):
        here = communities_after(n, made, count)
        best = modularity(ties, communities_after(n, made, count + 1))
        for a in range(here.max() + 1):
            for b in range(a):
                other = np.unique(np.where(here == a, b, here), return_inverse=True)[1]
                assert modularity(ties, other) <= best + 1e-9


@settings(max_examples=30)
@given(graphs())
def test_at_the_end_no_merge_raises_q(drawn):
    n, ties = drawn
    made, _ = merges(ties)
    here = communities_after(n, made, len(made))
    for a in range(here.max() + 1):
        for b in range(a):
            other = np.unique(np.where(here == a, b, here), return_inverse=True)[1]
            assert modularity(ties, other) <= modularity(ties, here) + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_without_ties_between_merges_igraph_and_networkx_find_the_same_communities(seed):
    rng = np.random.default_rng(seed)
    left, right = np.triu_indices(60, 1)
    some = rng.random(len(left)) < np.where(left // 15 == right // 15, 0.5, 0.05)
    left, right, weight = left[some], right[some], rng.random(int(some.sum()))
    ties = ties_between(60, left, right, weight)
    made, q = merges(ties)
    ours = communities_after(60, made, len(made))
    graph = igraph.Graph(n=60, edges=np.column_stack([left, right]).tolist())
    theirs = graph.community_fastgreedy(weights=weight.tolist()).as_clustering()
    assert q[-1] == pytest.approx(graph.modularity(theirs.membership, weights=weight.tolist()))
    assert len({*zip(ours.tolist(), theirs.membership, strict=True)}) == ours.max() + 1 == len(theirs)
    parts = nx.community.greedy_modularity_communities(as_networkx(60, ties), weight="weight")
    assert {frozenset(p) for p in parts} == {frozenset(np.flatnonzero(ours == i).tolist()) for i in range(len(parts))}


def ring(n, seed):
    """Clients that talk with ten others, most of them near on a ring; weights that no two pairs share."""
    rng = np.random.default_rng(seed)
    left = np.repeat(np.arange(n), 5)
    near = (left + rng.integers(1, 20, len(left))) % n
    right = np.where(rng.random(len(left)) < 0.8, near, rng.integers(0, n, len(left)))
    return ties_between(n, left, right, rng.uniform(1, 20, len(left)))


def literal_merges(n, ties):
    """Newman's greedy by looking at every pair before every merge."""
    e = np.zeros((n, n))
    e[np.repeat(np.arange(n), np.diff(ties.start)), ties.other] = ties.weight
    e /= e.sum()
    made = []
    while True:
        a = e.sum(axis=1)
        gain = np.triu(np.where(e > 0, e - np.outer(a, a), 0), 1)
        i, j = np.unravel_index(gain.argmax(), gain.shape)
        if gain[i, j] <= 0:
            return made
        made.append((int(i), int(j)))
        e[i] += e[j]
        e[:, i] += e[:, j]
        e[j] = e[:, j] = 0.0


@pytest.mark.parametrize("seed", range(3))
def test_on_a_ring_every_merge_is_the_literal_greedys_and_q_is_that_of_networkx(seed):
    ties = ring(240, seed)
    made, q = merges(ties)
    assert [tuple(pair) for pair in made.tolist()] == literal_merges(240, ties)
    graph = as_networkx(240, ties)
    parts = nx.community.greedy_modularity_communities(graph, weight="weight")
    assert q[-1] == pytest.approx(nx.community.modularity(graph, parts))
    ours = communities_after(240, made, len(made))
    assert {frozenset(p) for p in parts} == {frozenset(np.flatnonzero(ours == i).tolist()) for i in range(len(parts))}


def test_taking_back_merges_makes_more_communities_one_by_one():
    ties = ties_between(6, np.array([0, 1, 0, 3, 4, 3, 2]), np.array([1, 2, 2, 4, 5, 5, 3]), np.ones(7))
    made, _ = merges(ties)
    assert communities_after(6, made, len(made)).tolist() == [0, 0, 0, 1, 1, 1]
    assert [communities_after(6, made, k).max() + 1 for k in range(len(made) + 1)] == [6, 5, 4, 3, 2]


def test_what_a_client_says_to_itself_is_no_tie_and_directions_are_added():
    ties = ties_between(3, np.array([0, 1, 2, 0]), np.array([1, 0, 2, 1]), np.array([3.0, 4.0, 9.0, 1.0]))
    assert ties.start.tolist() == [0, 1, 2, 2]
    assert ties.other.tolist() == [1, 0]
    assert ties.weight.tolist() == [8.0, 8.0]
