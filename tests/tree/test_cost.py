from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from overlace.errors import BadOverlay, NotObserved
from overlace.model import Classes, Network, Observation, Overlay
from overlace.planners.tree.cost import class_costs, cost
from overlace.testing import three_in_a_row
from tests.arrays.test_trees import steiner
from tests.strategies import observations


def by_hand(observation, overlay, alpha, beta, demand):
    """OCBR07 (1), read off the page."""
    graph = nx.Graph()
    graph.add_nodes_from(range(observation.network.brokers))
    price = {
        tuple(link): c
        for link, c in zip(observation.network.links.tolist(), observation.network.link_cost, strict=True)
    }
    graph.add_weighted_edges_from((a, b, price[a, b]) for a, b in overlay.tree.tolist())
    homes = dict(overlay.placement.tolist())
    total = 0.0
    for k in range(len(observation.classes)):
        members = observation.classes.members[observation.classes.start[k] : observation.classes.start[k + 1]]
        if len(members) < 2:
            continue
        least = steiner(graph, {homes[c] for c in members.tolist()})
        links, brokers = least.size(weight="weight"), sum(observation.network.broker_cost[b] for b in least)
        total += demand[k] * (alpha * links + beta * brokers)
    return total


@given(observations())
def test_the_cost_is_equation_1(observation):
    for alpha, beta in ((1, 0), (0, 1), (2, 0.5)):
        expected = by_hand(observation, observation.overlay, alpha, beta, observation.classes.demand)
        assert cost(observation, observation.overlay, alpha=alpha, beta=beta) == pytest.approx(expected)


@given(observations())
def test_one_class_of_demand_2_is_that_class_twice(observation):
    classes = observation.classes
    groups = [classes.members[classes.start[k] : classes.start[k + 1]].tolist() for k in range(len(classes))]
    doubled = replace(observation, classes=Classes.of(groups, classes.demand * 2))
    twice = replace(observation, classes=Classes.of(groups + groups, [*classes.demand, *classes.demand]))
    assert cost(doubled, observation.overlay) == cost(twice, observation.overlay)


def test_a_class_with_one_client_costs_nothing():
    """R8, also where brokers cost something."""
    observation = replace(three_in_a_row(), classes=Classes.of([[0], [0, 1], [0, 0]], [100, 1, 9]))
    assert class_costs(observation, observation.overlay, beta=1.0).tolist() == [0.0, 13.0, 0.0]


def test_two_clients_at_one_broker_pay_for_that_broker_only():
    observation = replace(three_in_a_row(), classes=Classes.of([[0, 1]], [10]))
    together = replace(observation.overlay, placement=[[0, 1], [1, 1]])
    assert cost(observation, together) == 0
    assert cost(observation, together, beta=1.0) == 10


def test_bytes_weigh_instead_of_messages():
    observation = replace(three_in_a_row(), classes=Classes([0, 2], [0, 1], [2], [500]))
    assert cost(observation, observation.overlay, weight="bytes") == 5000


def test_where_no_links_are_named_each_costs_one():
    observation = replace(three_in_a_row(), network=Network(region=[0, 1, 2]))
    assert cost(observation, observation.overlay) == 28


def test_what_cannot_be_costed_is_said():
    observation = three_in_a_row()
    with pytest.raises(NotObserved, match="brokers"):
        cost(Observation(), Overlay())
    with pytest.raises(BadOverlay, match="names c1, whose broker is none of"):
        cost(observation, replace(observation.overlay, placement=[[0, 0]]))
    with pytest.raises(BadOverlay, match="2 parts"):
        cost(observation, replace(observation.overlay, tree=[[0, 1]]))
    sparse = replace(observation, network=Network(links=[[0, 1], [1, 2]]))
    with pytest.raises(BadOverlay, match="b0-b2 is not among"):
        cost(sparse, replace(observation.overlay, tree=[[0, 1], [0, 2]]))
    assert np.all(class_costs(observation, replace(observation.overlay, tree=[])) == 0)
