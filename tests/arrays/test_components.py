import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overlace.arrays.components import components, components_per_group, spanning_forest
from overlace.arrays.pairs import as_pairs, undirected
from tests.strategies import links, rows


def graph(n, pairs):
    made = nx.Graph()
    made.add_nodes_from(range(n))
    made.add_edges_from(pairs.tolist())
    return made


@given(links(12))
def test_components_are_networkx_s_named_by_their_lowest_node(given_links):
    pairs = as_pairs(given_links)
    expected = {v: min(part) for part in nx.connected_components(graph(12, pairs)) for v in part}
    assert components(12, pairs).tolist() == [expected[v] for v in range(12)]


@given(links(10, 40), st.randoms(use_true_random=False))
def test_the_forest_of_a_cheapest_first_order_is_a_minimum_spanning_forest(given_links, random):
    pairs = undirected(as_pairs(given_links))
    cost = np.array([random.randint(0, 5) for _ in pairs], np.int64)
    kept = spanning_forest(10, pairs, np.argsort(cost, kind="stable"))
    weighted = nx.Graph()
    weighted.add_nodes_from(range(10))
    weighted.add_weighted_edges_from((a, b, int(c)) for (a, b), c in zip(pairs.tolist(), cost, strict=True))
    best = nx.minimum_spanning_tree(weighted)
    assert kept.sum() == best.number_of_edges()
    assert cost[kept].sum() == best.size(weight="weight")


@given(rows(7), links(8))
def test_components_per_group_are_those_of_the_induced_graphs(belongs, given_links):
    pairs = as_pairs(given_links)
    member = as_pairs([(v, g) for v, g in belongs if v < 8])
    start = np.searchsorted(member[:, 0], np.arange(9))
    counts = components_per_group(8, start, np.ascontiguousarray(member[:, 1]), pairs)
    for topic in range(8):
        members = member[member[:, 1] == topic, 0].tolist()
        assert counts[topic] == nx.number_connected_components(graph(8, pairs).subgraph(members))
