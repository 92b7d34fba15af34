"""What is evaluated by difference is what a recount gives."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overlace.joint.problem import Caps, problem_of
from overlace.joint.regraft import best_swaps, crossings
from overlace.joint.search import NO_LIMIT, home_sets, replaced
from overlace.joint.state import bill, prices, reach_of, rooted, seat, seated
from overlace.model import Classes
from tests.strategies import observations


def problem(observation, beta):
    return problem_of(observation, 1.0, beta, "messages", Caps())


def some(observation):
    return len(observation.classes) > 0


@given(observations(least=1).filter(some), st.sampled_from([0.0, 0.5]))
def test_the_bill_is_the_planners_cost(observation, beta):
    from overlace.joint.joint import Joint

    p = problem(observation, beta)
    cost, _ = bill(p.demand, p.limits.first, rooted(p.links, p.wire), p.node)
    assert np.isclose(cost, Joint(beta=beta).cost(observation, observation.overlay))


@given(observations(least=2).filter(some), st.sampled_from([0.0, 0.5]), st.data())
def test_what_a_client_would_cost_elsewhere_is_what_it_costs_there(observation, beta, data):
    p = problem(observation, beta)
    client = data.draw(st.integers(0, observation.clients - 1))
    n, home = len(p.node), p.limits.first
    tree = rooted(p.links, p.wire)
    out = np.empty(n)
    seats = seated(p.demand, home.copy(), n)
    prices(p.demand, seats, tree, p.node, client, np.zeros((5, n), int), np.zeros((2, n)), out)
    costs = []
    for b in range(n):
        moved = home.copy()
        moved[client] = b
        costs.append(bill(p.demand, moved, tree, p.node)[0])
    assert np.allclose(np.array(costs) - costs[home[client]], out - out[home[client]])


@given(observations(least=2).filter(some), st.data())
def test_seats_stay_true_as_clients_move(observation, data):
    p = problem(observation, 0.0)
    seats = seated(p.demand, p.limits.first.copy(), len(p.node))
    for _ in range(4):
        client = data.draw(st.integers(0, observation.clients - 1))
        seat(p.demand, seats, client, data.draw(st.integers(0, len(p.node) - 1)))
    fresh = seated(p.demand, seats.home, len(p.node))
    assert seats.many.tolist() == fresh.many.tolist()
    assert len(seats.many) == (np.diff(p.demand.start) > len(p.node)).sum()


@given(observations(least=2).filter(some), st.sampled_from([0.0, 0.5]))
def test_reach_is_the_longest_way_to_a_broker(observation, beta):
    import networkx as nx

    p = problem(observation, beta)
    graph = nx.Graph()
    graph.add_weighted_edges_from((a, b, p.wire[a, b]) for a, b in p.links.tolist())
    reach = reach_of(rooted(p.links, p.wire), p.node)
    for x, ways in nx.all_pairs_dijkstra_path(graph):
        paid = [sum(p.wire[a, b] for a, b in zip(way, way[1:], strict=False)) for way in ways.values()]
        passed = [p.node[way].sum() - p.node[way[-1]] for way in ways.values()]
        assert np.isclose(reach[x], max(a + b for a, b in zip(paid, passed, strict=True)))


@given(observations(least=3).filter(some), st.sampled_from([0.0, 0.5]))
def test_the_best_replacement_of_every_link_is_found(observation, beta):
    p = problem(observation, beta)
    tree, home = rooted(p.links, p.wire), p.limits.first
    both, straight = crossings(tree, *home_sets(p.demand, home))
    unlimited = np.full(len(p.node), NO_LIMIT)
    score, _, _ = best_swaps(tree, p.node, p.wire, both, straight, p.first, p.fixed, unlimited, 0.0, NO_LIMIT)
    now = bill(p.demand, home, tree, p.node)[0]
    for e in range(1, len(p.node)):
        up, best = int(tree.parent[e]), np.inf
        for x in range(len(p.node)):
            for y in range(x):
                links = replaced(p.links, e, up, x, y)
                if {x, y} != {e, up} and is_tree(links, len(p.node)):
                    best = min(best, bill(p.demand, home, rooted(links, p.wire), p.node)[0] - now)
        assert np.isclose(score[e], best) or score[e] == best == np.inf


def is_tree(links, n):
    import networkx as nx

    graph = nx.Graph(links.tolist())
    return len(graph) == n and nx.is_tree(graph)


def test_sets_of_homes_are_merged_and_keep_their_demand():
    from overlace.testing import three_in_a_row

    observation = three_in_a_row()
    p = problem(observation, 0.0)
    start, homes, weight = home_sets(p.demand, p.limits.first)
    assert (start.tolist(), homes.tolist(), weight.tolist()) == ([0, 2], [0, 2], [14])
    assert len(Classes.of([[0, 1]], [14])) == 1
