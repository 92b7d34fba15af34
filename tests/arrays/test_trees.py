import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.arrays.trees import (
    common_ancestor,
    from_root,
    hops_between,
    lengths_between,
    root_at,
    subtree_costs,
    subtree_links,
)
from tests.strategies import trees


def as_networkx(n, links, cost=None):
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    costs = [1] * len(links) if cost is None else cost
    graph.add_weighted_edges_from((a, b, c) for (a, b), c in zip(links.tolist(), costs, strict=True))
    return graph


@given(trees(), st.data())
def test_a_rooted_tree_knows_parents_depths_and_a_preorder(tree, data):
    n, links = tree
    root = data.draw(st.integers(0, n - 1))
    rooted = root_at(n, links, root)
    graph = as_networkx(n, links)
    expected = dict(nx.single_source_shortest_path_length(graph, root))
    assert rooted.depth.tolist() == [expected[v] for v in range(n)]
    for child, parent in nx.predecessor(graph, root).items():
        assert rooted.parent[child] == (parent[0] if parent else -1)
        if parent:
            assert sorted(links[rooted.link[child]].tolist()) == sorted([child, parent[0]])
    down = nx.bfs_tree(graph, root)
    for v in range(n):
        below = sorted(int(rooted.position[w]) for w in nx.descendants(down, v) | {v})
        assert below == list(range(below[0], below[0] + len(below)))  # a subtree is one run
        assert below[0] == rooted.position[v]
    assert np.array_equal(rooted.order[rooted.position], np.arange(n))


@given(trees())
def test_paths_and_common_ancestors_are_networkx_s(tree):
    n, links = tree
    rooted = root_at(n, links, 0)
    cost = np.arange(len(links)) % 7 + 1.0
    graph = as_networkx(n, links, cost)
    length = np.zeros(n)
    length[rooted.link >= 0] = cost[rooted.link[rooted.link >= 0]]
    left, right = (np.array(side) for side in zip(*itertools.product(range(n), repeat=2), strict=True))
    hops = dict(nx.all_pairs_shortest_path_length(graph))
    lengths = dict(nx.all_pairs_dijkstra_path_length(graph))
    down = nx.bfs_tree(graph, 0)
    above = {v: nx.ancestors(down, v) | {v} for v in range(n)}
    found = [common_ancestor(rooted, a, b) for a, b in zip(left.tolist(), right.tolist(), strict=True)]
    for a, b, top in zip(left.tolist(), right.tolist(), found, strict=True):
        assert top == max(above[a] & above[b], key=lambda v: rooted.depth[v])
    assert hops_between(rooted, left, right).tolist() == [hops[a][b] for a, b in zip(left, right, strict=True)]
    expected = [lengths[a][b] for a, b in zip(left.tolist(), right.tolist(), strict=True)]
    assert lengths_between(rooted, length, left, right).tolist() == pytest.approx(expected)
    assert from_root(rooted, length).tolist() == pytest.approx([lengths[0][v] for v in range(n)])


def steiner(graph, terminals):
    """The minimal subtree by brute force: what is left when leaves that are no terminal are cut off."""
    left = graph.copy()
    while True:
        bare = [v for v in left if left.degree(v) <= 1 and v not in terminals]
        if not bare:
            return left
        left.remove_nodes_from(bare)


@given(trees(), st.data())
def test_a_minimal_subtree_is_what_pruning_leaves(tree, data):
    n, links = tree
    groups = data.draw(st.lists(st.lists(st.integers(0, n - 1), max_size=6), max_size=6))
    start = np.cumsum([0, *map(len, groups)])
    terminals = np.array([t for g in groups for t in g], np.int64)
    rooted = root_at(n, links, data.draw(st.integers(0, n - 1)))
    cost = np.arange(len(links)) % 5 + 1.0
    node_cost = np.arange(n) % 3 * 1.0
    link_cost = np.zeros(n)
    link_cost[rooted.link >= 0] = cost[rooted.link[rooted.link >= 0]]
    costs = subtree_costs(rooted, link_cost, node_cost, start, terminals)
    bounds, nodes = subtree_links(rooted, start, terminals)
    graph = as_networkx(n, links, cost)
    for k, group in enumerate(groups):
        least = steiner(graph, set(group))
        expected = least.size(weight="weight") + sum(node_cost[v] for v in least)
        assert costs[k] == pytest.approx(expected)
        found = {tuple(sorted(links[rooted.link[v]].tolist())) for v in nodes[bounds[k] : bounds[k + 1]]}
        assert found == {tuple(sorted(edge)) for edge in least.edges}


def test_a_path_of_a_hundred_thousand_nodes_is_no_trouble():
    n = 100_000 if not plain() else 2_000
    links = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    rooted = root_at(n, links, n // 2)
    assert hops_between(rooted, np.array([0]), np.array([n - 1])).tolist() == [n - 1]


def plain():
    import numba

    return bool(numba.config.DISABLE_JIT)
