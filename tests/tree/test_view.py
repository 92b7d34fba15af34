from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.model import Classes, Network, Observation, Overlay
from overlace.planners.tree.cost import cost
from overlace.planners.tree.exact import price_matrix, tree_total
from overlace.planners.tree.problem import problem_of
from overlace.planners.tree.view import BITS
from reproductions.ocbr07.figure_2 import local_view
from tests.strategies import observations, trees


def seen(view):
    """The classes of a view as sets of nodes with their weights."""
    found = {}
    for mask, weight in zip(view.masks, view.weight, strict=True):
        bits = [i for i in range(len(view.nodes)) if mask[i // BITS] >> (i % BITS) & 1]
        found[frozenset(view.nodes[bits].tolist())] = weight
    return found


def by_the_two_rules(observation, master):
    """§3.1 read off the page: who is behind which neighbour, class by class."""
    graph = nx.Graph(observation.overlay.tree.tolist())
    graph.add_node(master)
    homes = dict(observation.overlay.placement.tolist())
    behind = {master: master}
    for near in graph.adj[master]:
        cut = graph.copy()
        cut.remove_node(master)
        behind |= dict.fromkeys(nx.node_connected_component(cut, near), near)
    found = {}
    classes = observation.classes
    for k in range(len(classes)):
        members = classes.members[classes.start[k] : classes.start[k + 1]].tolist()
        ends = frozenset(behind[homes[c]] for c in members)
        if len(ends) > 1:
            found[ends] = found.get(ends, 0) + classes.demand[k]
    return found


@given(observations(2), st.data())
def test_a_master_sees_what_the_two_rules_say(observation, data):
    master = data.draw(st.integers(0, observation.network.brokers - 1))
    p = problem_of(observation, observation.overlay)
    assert seen(local_view(p, observation.overlay.tree, master)) == by_the_two_rules(observation, master)


@settings(max_examples=60)
@given(observations(3), st.data(), st.sampled_from([(1, 0), (0, 1), (2, 0.5)]))
def test_a_master_sees_exactly_the_gain_the_whole_network_gets(observation, data, weights):
    """OCBR07 §3.1: the local improvement equals the global one, for any other tree over the neighbourhood."""
    alpha, beta = weights
    master = data.draw(st.integers(0, observation.network.brokers - 1))
    p = problem_of(observation, observation.overlay, alpha=alpha, beta=beta)
    view = local_view(p, observation.overlay.tree, master)
    k = len(view.nodes)
    _, local = data.draw(trees(k, k))
    before, after = np.zeros(k, np.int64), np.full(k, -1)
    before[0] = -1
    graph = nx.Graph(local.tolist())
    graph.add_node(0)
    for child, parent in nx.bfs_predecessors(graph, 0):
        after[child] = parent
    price = price_matrix(p, view.nodes)
    toll = p.toll[view.nodes]
    totals = [tree_total(price, toll, view.masks[:, 0].copy(), view.weight, tree) for tree in (before, after)]
    others = [row for row in observation.overlay.tree.tolist() if master not in row]
    rearranged = Overlay(
        placement=observation.overlay.placement,
        tree=[*others, *([int(view.nodes[i]), int(view.nodes[after[i]])] for i in range(1, k))],
    )
    both = [cost(observation, each, alpha=alpha, beta=beta) for each in (observation.overlay, rearranged)]
    assert totals[0] - totals[1] == pytest.approx(both[0] - both[1])


def test_hubs_with_more_neighbours_than_a_word_has_bits():
    leaves = 200
    star = Overlay(placement=[[c, c + 1] for c in range(leaves)], tree=[[0, v] for v in range(1, leaves + 1)])
    observation = Observation(
        overlay=star,
        network=Network(region=range(leaves + 1)),
        classes=Classes.of([[0, 199], [1, 61, 62, 63], [199, 0]], [3, 4, 5]),
    )
    view = local_view(problem_of(observation, star), star.tree, 0)
    assert view.masks.shape == (2, 4)
    assert seen(view) == {frozenset({1, 200}): 8, frozenset({2, 62, 63, 64}): 4}


@given(observations(2))
def test_with_clients_as_nodes_a_master_sees_its_own_clients_apart(observation):
    from overlace.planners.tree.problem import nodes_tree

    brokers, clients = observation.network.brokers, observation.clients
    p = problem_of(observation, observation.overlay, clients=True)
    wired = nodes_tree(observation.overlay, brokers, clients)
    homes = observation.overlay.homes(clients)
    for master in range(brokers):
        view = local_view(p, wired, master)
        own = {int(v) - brokers for v in view.nodes if v >= brokers}
        assert own == set(np.flatnonzero(homes == master).tolist())
        merged = {}
        for ends, weight in seen(view).items():
            joined = frozenset(v if v < brokers else master for v in ends)
            if len(joined) > 1:
                merged[joined] = merged.get(joined, 0) + weight
        assert merged == by_the_two_rules(observation, master)
        assert replace(observation) == observation
