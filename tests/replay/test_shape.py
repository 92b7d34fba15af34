import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import BadOverlay
from overlace.model import Observation, Overlay
from overlace.planners.mesh.cost import topic_components
from overlace.replay.shape import longest_way, shape
from tests.strategies import links, rows, trees


def cycle(n):
    return [(v, (v + 1) % n) for v in range(n)]


def everyone(n, mesh):
    """n clients, all of one topic."""
    return Observation(interests=[(v, 0) for v in range(n)], overlay=Overlay(mesh=mesh), clients=n)


@given(rows(7), links(8))
def test_topics_are_what_networkx_sees_in_their_subgraphs(interests, mesh):
    observation = Observation(interests=interests, overlay=Overlay(mesh=mesh), clients=8)
    metrics = shape(observation, observation.overlay)
    graph = nx.Graph(observation.overlay.mesh.tolist())
    graph.add_nodes_from(range(8))
    diameters, floods, too_many, served = {}, [], 0, 0
    for topic in {t for _, t in interests}:
        own = graph.subgraph({c for c, t in interests if t == topic})
        parts = [own.subgraph(part) for part in nx.connected_components(own)]
        too_many += len(parts) - 1
        served += own.number_of_edges()
        if len(own) < 2:
            continue
        floods.append(sum(len(p) * (2 * p.number_of_edges() - len(p) + 1) for p in parts) / len(own))
        assert metrics.of("flood_messages", "topic", topic) == pytest.approx(floods[-1])
        if len(parts) == 1:
            diameters[topic] = nx.diameter(own)
            assert metrics.of("diameter", "topic", topic) == diameters[topic]
        else:
            assert metrics.of("components_too_many", "topic", topic) == len(parts) - 1
    assert metrics.of("max_diameter") == max(diameters.values(), default=0)
    assert metrics.of("mean_diameter") == pytest.approx(np.mean(list(diameters.values())) if diameters else 0)
    assert metrics.of("components_too_many") == too_many
    assert metrics.of("topic_connected") == (too_many == 0)
    assert metrics.of("shared_topics") == pytest.approx(served / max(len(observation.overlay.mesh), 1))
    assert metrics.of("flood_messages") == pytest.approx(np.mean(floods) if floods else 0)
    assert metrics.of("diameter_sampled") == 0


@given(rows(7), links(8))
def test_components_too_many_are_the_mesh_facet_s(interests, mesh):
    observation = Observation(interests=interests, overlay=Overlay(mesh=mesh), clients=8)
    apart = np.maximum(topic_components(observation, observation.overlay) - 1, 0)
    assert shape(observation, observation.overlay).of("components_too_many") == apart.sum()


@given(links(8))
def test_degrees_are_counted_over_all_clients(mesh):
    observation = everyone(8, mesh)
    metrics = shape(observation, observation.overlay)
    graph = nx.Graph(observation.overlay.mesh.tolist())
    graph.add_nodes_from(range(8))
    histogram = nx.degree_histogram(graph)
    assert metrics.of("links") == graph.number_of_edges()
    assert metrics.of("average_degree") == 2 * graph.number_of_edges() / 8
    assert metrics.of("max_degree") == len(histogram) - 1
    for degree, clients in enumerate(histogram):
        if clients:
            assert metrics.of("degree", "bin", degree) == clients


@pytest.mark.parametrize(("n", "diameter"), [(5, 2), (6, 3)])
def test_a_5_cycle_has_diameter_2_and_a_6_cycle_3(n, diameter):
    observation = everyone(n, cycle(n))
    assert shape(observation, observation.overlay).of("max_diameter") == diameter


@given(trees(2, 24), st.data())
def test_diameters_of_larger_graphs_are_networkx_s(tree, data):
    n, mesh = tree
    mesh = np.concatenate([mesh, np.array(data.draw(links(n)), np.int64).reshape(-1, 2)])
    observation = everyone(n, mesh)
    expected = nx.diameter(nx.Graph(observation.overlay.mesh.tolist()))
    assert shape(observation, observation.overlay).of("diameter", "topic", 0) == expected


@given(trees(2, 24), st.integers(1, 4))
def test_a_sampled_diameter_is_at_most_the_true_one_and_says_so(tree, sources):
    n, mesh = tree
    observation = everyone(n, mesh)
    metrics = shape(observation, observation.overlay, most_exact=1, sources=sources)
    found, true = metrics.of("max_diameter"), nx.diameter(nx.Graph(mesh.tolist()))
    assert found <= true
    if metrics.of("diameter_sampled"):
        assert metrics.of("diameter_sampled", "topic", 0) == sources
        assert 2 * found >= true
    else:
        assert found == true


def test_a_large_star_is_exact_after_two_searches():
    n = 5000
    at = np.concatenate([[0], np.arange(n - 1, 2 * n - 1)])
    near = np.concatenate([np.arange(1, n), np.zeros(n - 1, np.int64)])
    assert longest_way(at, near, 64) == (2, 2, True)


def test_flooding_a_tree_costs_what_is_needed_and_a_cycle_one_more():
    """n - 1 copies reach everybody; on a cycle two neighbours also tell each other."""
    path, ring = everyone(5, cycle(5)[:-1]), everyone(5, cycle(5))
    assert shape(path, path.overlay).of("flood_messages") == 4
    assert shape(ring, ring.overlay).of("flood_messages") == 6


def test_no_mesh_and_no_clients_are_no_error():
    assert shape(Observation(), Overlay()).of("topic_connected") == 1
    alone = Observation(interests=[[0, 3]])
    assert shape(alone, Overlay()).of("max_diameter") == 0


def test_a_link_to_a_client_that_does_not_exist_is_refused():
    with pytest.raises(BadOverlay, match="c9, but there are 2"):
        shape(Observation(clients=2), Overlay(mesh=[[0, 9]]))
