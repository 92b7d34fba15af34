from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given

from overlace.errors import BadOverlay, NotObserved
from overlace.model import Network, Observation, Overlay
from overlace.planners.placement.baselines import Stay
from overlace.planners.placement.cost import cost
from overlace.testing import check_planner, three_in_a_row
from tests.strategies import observations


@given(observations())
def test_the_cost_is_messages_times_the_way_between_homes(observation):
    network, overlay, flows = observation.network, observation.overlay, observation.flows
    graph = nx.Graph()
    graph.add_nodes_from(range(network.brokers))
    price = {tuple(link): c for link, c in zip(network.links.tolist(), network.link_cost, strict=True)}
    graph.add_weighted_edges_from((a, b, price[a, b]) for a, b in overlay.tree.tolist())
    home = dict(overlay.placement.tolist())
    expected = {"hops": 0.0, "cost": 0.0}
    for sender, receiver, messages in zip(flows.sender.tolist(), flows.receiver.tolist(), flows.messages, strict=True):
        way = nx.shortest_path(graph, home[sender], home[receiver])
        expected["hops"] += messages * (len(way) - 1)
        expected["cost"] += messages * nx.path_weight(graph, way, "weight")
    for distance, value in expected.items():
        assert cost(observation, overlay, distance=distance) == pytest.approx(value)


@given(observations())
def test_staying_keeps_the_laws(observation):
    if len(observation.flows.sender):
        assert len(check_planner(Stay(), observation).steps) == 0
    else:
        with pytest.raises(NotObserved, match="no flows"):
            Stay().solve(observation)


def test_latency_and_bytes_count_when_asked_for():
    observation = three_in_a_row()
    slow = replace(observation.network, latency_us=[100, 1, 10])  # links 0-1, 0-2, 1-2
    observation = replace(observation, network=slow)
    assert cost(observation, observation.overlay, distance="latency") == 14 * 110
    assert cost(observation, observation.overlay, weight="bytes") == 140 * 2


def test_a_client_far_from_its_home_pays_for_all_it_sends_and_receives():
    observation = three_in_a_row()
    network = replace(
        observation.network, client_region=[0, -1], access_cost=[[0.5, 0, 0]], access_latency_us=[[7, 0, 0]]
    )
    observation = replace(observation, network=network)
    assert cost(observation, observation.overlay) == 28 + 14 * 0.5
    assert cost(observation, observation.overlay, distance="latency") == 14 * 7
    nearer = replace(observation.overlay, placement=[[0, 1], [1, 2]])
    assert cost(observation, nearer) == 14


def test_what_cannot_be_costed_is_said():
    observation = three_in_a_row()
    with pytest.raises(NotObserved, match="brokers"):
        cost(Observation(), Overlay())
    with pytest.raises(BadOverlay, match="1 clients with traffic have no broker \\(first: c1\\)"):
        cost(observation, replace(observation.overlay, placement=[[0, 0]]))
    with pytest.raises(BadOverlay, match="c1 is at b8, but there are 3 brokers"):
        cost(observation, replace(observation.overlay, placement=[[0, 0], [1, 8]]))
    with pytest.raises(NotObserved, match="no tree"):
        cost(observation, replace(observation.overlay, tree=[]))
    sparse = replace(observation, network=Network(links=[[0, 1], [0, 2]]))
    with pytest.raises(BadOverlay, match="not among the network's"):
        cost(sparse, observation.overlay, distance="cost")
