import networkx as nx
import pytest
from hypothesis import given

from overlace.errors import BadOverlay
from overlace.model import Observation, Overlay
from overlace.planners.mesh.cost import cost
from overlace.testing import linked_clients
from tests.strategies import links, rows


@given(rows(7), links(8))
def test_the_cost_counts_components_first_and_links_second(interests, mesh):
    observation = Observation(interests=interests, overlay=Overlay(mesh=mesh), clients=8)
    graph = nx.Graph(observation.overlay.mesh.tolist())
    graph.add_nodes_from(range(8))
    apart = 0
    for topic in {t for _, t in interests}:
        members = {c for c, t in interests if t == topic}
        apart += nx.number_connected_components(graph.subgraph(members)) - 1
    assert cost(observation, observation.overlay) == 8 * apart + len(observation.overlay.mesh)


def test_a_component_too_many_weighs_more_than_all_links_of_a_star():
    observation = linked_clients()
    split, joined = Overlay(mesh=[[0, 1], [1, 2]]), Overlay(mesh=[[0, 1], [0, 2], [0, 3]])
    assert cost(observation, joined) < cost(observation, split)


@pytest.mark.parametrize("link", [[0, 10**6], [-1, 1]])
def test_a_link_to_nobody_is_refused(link):
    with pytest.raises(BadOverlay, match="does not exist; there are 4"):
        cost(linked_clients(), Overlay(mesh=[link]))


@pytest.mark.parametrize("interests", [[], [[0, 5]]])
def test_topics_with_one_subscriber_or_none_need_no_link(interests):
    assert cost(Observation(interests=interests, topics=9), Overlay()) == 0
