"""What is evaluated by difference is what a recount gives."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overlace.model import Classes, Flows
from overlace.planners.joint.problem import JointLimits, problem_of
from overlace.planners.search.links import best_join, stand
from overlace.planners.search.problem import renumber
from overlace.planners.search.system import (
    group_prices,
    prices,
    reach_of,
    root_tree,
    seat,
    seat_all,
    shift,
    traffic_cost,
    try_settle,
    try_shift,
    undo,
)
from overlace.planners.search.walk import NO_LIMIT, Search, State, home_spans
from overlace.planners.search.wires import FULL, SPARSE, all_alike, nearest, price_of, wires_over
from tests.strategies import observations


def problem(observation, beta):
    return problem_of(observation, 1.0, beta, "messages", JointLimits(sent_cap=None, handled_cap=None))


def billed(p, home):
    return traffic_cost(p.demand, home, root_tree(p.links, p.wires), p.node, p.limits.area, len(p.node))


def some(observation):
    return len(observation.classes) > 0


@given(observations(least=1).filter(some), st.sampled_from([0.0, 0.5]))
def test_the_traffic_cost_is_the_planners_cost(observation, beta):
    from overlace.planners.joint.joint import Joint

    p = problem(observation, beta)
    cost, _ = billed(p, p.limits.first)
    assert np.isclose(cost, Joint(beta=beta).cost(observation, observation.overlay))


@given(observations(least=2).filter(some), st.sampled_from([0.0, 0.5]), st.data())
def test_what_a_client_would_cost_elsewhere_is_what_it_costs_there(observation, beta, data):
    p = problem(observation, beta)
    client = data.draw(st.integers(0, observation.clients - 1))
    n, home = len(p.node), p.limits.first
    out = np.empty(n)
    prices(Search(p).system, client, 0.0, out)
    costs = []
    for b in range(n):
        moved = home.copy()
        moved[client] = b
        costs.append(billed(p, moved)[0])
    assert np.allclose(np.array(costs) - costs[home[client]], out - out[home[client]])


@given(observations(least=2).filter(some), st.sampled_from([0.0, 0.5]), st.data())
def test_what_a_group_would_cost_elsewhere_is_what_it_costs_there(observation, beta, data):
    p = problem(observation, beta)
    n, home = len(p.node), p.limits.first
    members = np.array(sorted(data.draw(st.sets(st.integers(0, observation.clients - 1), min_size=1))))
    out = np.empty(n)
    system = Search(p).system
    system.scratch.who[: len(members)] = members
    now = group_prices(system, len(members), 0.0, out)
    before = billed(p, home)[0]
    for b in range(n):
        moved = home.copy()
        moved[members] = b
        assert np.isclose(billed(p, moved)[0] - before, out[b] - now)


@given(observations(least=2).filter(some), st.data())
def test_loads_stay_true_as_clients_settle_and_a_move_that_does_not_hold_leaves_all_as_it_was(observation, data):
    p = in_areas(problem(observation, 0.5), data.draw(st.integers(1, 3)))
    search = Search(p)
    system = search.system
    for _ in range(4):
        client, there = data.draw(st.integers(0, observation.clients - 1)), data.draw(st.integers(0, len(p.node) - 1))
        tight = system._replace(limits=system.limits._replace(handled_cap=system.loads.handled.copy()))
        chosen = data.draw(st.sampled_from([system, tight]))
        before = search.home.copy(), system.loads.sent.copy(), system.loads.handled.copy()
        if not try_settle(chosen, client, there):
            assert search.home.tolist() == before[0].tolist()
            assert np.allclose(system.loads.sent, before[1])
            assert np.allclose(system.loads.handled, before[2])
    sent, handled = loads_by_hand(p, search.home)
    assert np.allclose(sent, system.loads.sent)
    assert np.allclose(handled, system.loads.handled)
    recount = Search(p)
    recount.goto(State(search.home, search.links))
    assert np.allclose(recount.system.loads.sent, sent)
    assert np.allclose(recount.system.loads.handled, handled)


@given(observations(least=2).filter(some), st.data())
def test_a_shift_of_several_clients_and_its_undo_leave_everything_bit_by_bit_as_it_was(observation, data):
    p = in_areas(problem(observation, 0.5), data.draw(st.integers(1, 3)))
    search = Search(p)
    system, n = search.system, len(p.node)
    who = data.draw(st.lists(st.integers(0, observation.clients - 1), min_size=1, max_size=6, unique=True))
    to = data.draw(st.lists(st.integers(0, n - 1), min_size=len(who), max_size=len(who)))
    system.scratch.who[: len(who)], system.scratch.to[: len(who)] = who, to
    before = [each.copy() for each in (search.home, system.seats.many, system.loads.sent, system.loads.handled)]
    shift(system, len(who))
    assert search.home[who].tolist() == to
    sent, handled = loads_by_hand(p, search.home)
    assert np.allclose(system.loads.sent, sent)
    assert np.allclose(system.loads.handled, handled)
    undo(system, len(who))
    after = (search.home, system.seats.many, system.loads.sent, system.loads.handled)
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    system.scratch.to[: len(who)] = to
    shift(system, len(who))
    full = system._replace(limits=system.limits._replace(handled_cap=np.full(len(handled), -1.0)))
    there = search.home.copy()
    system.scratch.to[: len(who)] = before[0][who]
    assert not try_shift(full, len(who))
    assert search.home.tolist() == there.tolist()


def in_areas(p, areas):
    """The problem with brokers that share areas in turn, everything counted and nothing in the way."""
    n = len(p.node)
    none = np.full(n + areas, 1e9)
    limits = p.limits._replace(area=n + np.arange(n) % areas, sent_cap=none, handled_cap=none)
    return replace(p, capped=True, limits=limits, sent_goal=none, handled_goal=none)


def loads_by_hand(p, home):
    """(sent, handled) of brokers and areas, one class at a time."""
    import networkx as nx

    n, area = len(p.node), p.limits.area
    sent, handled = np.zeros(len(p.limits.sent_cap)), np.zeros(len(p.limits.sent_cap))
    tree = nx.Graph(p.links.tolist())
    tree.add_nodes_from(range(n))
    for client, broker in enumerate(home.tolist()):
        sent[[broker, area[broker]]] += p.limits.sent[client]
    for k, (a, b) in enumerate(pairwise(p.demand.start.tolist())):
        at = home[p.demand.member[a:b]].tolist()
        passed = {v for each in at for v in nx.shortest_path(tree, at[0], each)}
        handled[sorted(passed)] += p.demand.demand[k]
        handled[sorted({int(area[v]) for v in passed})] += p.demand.demand[k]
    return sent, handled


@given(observations(least=2).filter(some), st.data())
def test_an_area_that_is_full_takes_nobody_from_elsewhere(observation, data):
    p = in_areas(problem(observation, 0.0), 2)
    p = replace(p, limits=p.limits._replace(sent=np.ones(observation.clients)))
    sent, _ = loads_by_hand(p, p.limits.first)
    n = len(p.node)
    caps = np.where(np.arange(len(sent)) < n, 1e9, sent)
    p = replace(p, limits=p.limits._replace(sent_cap=caps), sent_goal=caps)
    search, area = Search(p), p.limits.area
    client, there = data.draw(st.integers(0, observation.clients - 1)), data.draw(st.integers(0, n - 1))
    here = int(search.home[client])
    assert try_settle(search.system, client, there) == bool(area[here] == area[there])


@given(observations(least=2).filter(some), st.randoms(use_true_random=False))
def test_whatever_clients_are_called_the_search_sees_the_same_system(observation, random):
    """Numbers that follow from the system alone: demand, homes and classes in the same places."""
    order = list(range(observation.clients))
    random.shuffle(order)
    order = np.array(order)
    seen = [renumber(problem(each, 0.5))[0] for each in (observation, shuffled(observation, order))]
    one, two = seen
    assert one.limits.first.tolist() == two.limits.first.tolist()
    assert one.limits.talk.tolist() == two.limits.talk.tolist()
    assert one.demand.demand.tolist() == two.demand.demand.tolist()
    assert np.diff(one.demand.start).tolist() == np.diff(two.demand.start).tolist()


def shuffled(observation, order):
    """The same system; client c is called order[c]."""
    classes = observation.classes
    lists = [sorted(order[classes.members[a:b]].tolist()) for a, b in pairwise(classes.start.tolist())]
    by = sorted(range(len(lists)), key=lambda k: lists[k])
    placement = observation.overlay.placement.copy()
    placement[:, 0] = order[placement[:, 0]]
    network = observation.network
    if len(network.client_region):
        network = replace(network, client_region=network.client_region[np.argsort(order)])
    return replace(
        observation, network=network, sent=observation.sent[np.argsort(order)],
        sent_bytes=observation.sent_bytes[np.argsort(order)],
        flows=Flows(order[observation.flows.sender], order[observation.flows.receiver], observation.flows.messages),
        classes=replace(Classes.of([lists[k] for k in by], classes.demand[by]), bytes=classes.bytes[by]),
        overlay=replace(observation.overlay, placement=placement[np.argsort(placement[:, 0])]),
    )  # fmt: skip


@given(observations(least=2).filter(some), st.data())
def test_seats_stay_true_as_clients_move(observation, data):
    p = problem(observation, 0.0)
    seats = seat_all(p.demand, p.limits.first.copy(), len(p.node))
    for _ in range(4):
        client = data.draw(st.integers(0, observation.clients - 1))
        seat(p.demand, seats, client, data.draw(st.integers(0, len(p.node) - 1)))
    fresh = seat_all(p.demand, seats.home, len(p.node))
    assert seats.many.tolist() == fresh.many.tolist()
    assert len(seats.many) == (np.diff(p.demand.start) > len(p.node)).sum()


@given(observations(least=2).filter(some), st.sampled_from([0.0, 0.5]))
def test_reach_is_the_longest_way_to_a_broker(observation, beta):
    import networkx as nx

    p = problem(observation, beta)
    graph = nx.Graph()
    graph.add_weighted_edges_from((a, b, price_of(p.wires, a, b)) for a, b in p.links.tolist())
    reach = reach_of(root_tree(p.links, p.wires), p.node)
    for x, ways in nx.all_pairs_dijkstra_path(graph):
        paid = [sum(price_of(p.wires, a, b) for a, b in zip(way, way[1:], strict=False)) for way in ways.values()]
        passed = [p.node[way].sum() - p.node[way[-1]] for way in ways.values()]
        assert np.isclose(reach[x], max(a + b for a, b in zip(paid, passed, strict=True)))


@given(observations(least=3).filter(some), st.sampled_from([0.0, 0.5]))
def test_the_best_replacement_of_every_link_is_found(observation, beta):
    p = replace(problem(observation, beta), max_degree=np.full(observation.network.brokers, NO_LIMIT))
    home, n = p.limits.first, len(p.node)
    rules = Search(p).rules(n, 0.0)
    spans, now = home_spans(p, home), billed(p, home)[0]
    standing = stand(spans, p.links, rules)
    for slot in range(len(p.links)):
        best = np.inf
        for x in range(n):
            for y in range(x):
                links = p.links.copy()
                links[slot] = y, x
                if [y, x] != p.links[slot].tolist() and is_tree(links, n):
                    best = min(best, billed(replace(p, links=links), home)[0] - now)
        gain, a, _ = best_join(spans, standing, rules, slot, -np.inf)
        assert a >= 0
        assert np.isclose(gain, max(0.0, -best))  # it may stay where it is


@given(st.integers(2, 7), st.data())
def test_prices_of_links_are_looked_up_and_the_nearest_come_first(n, data):
    pairs = [(a, b) for a in range(n) for b in range(a + 1, n)]
    chosen = sorted(data.draw(st.sets(st.sampled_from(pairs), min_size=1)))
    price = data.draw(st.lists(st.integers(1, 4), min_size=len(chosen), max_size=len(chosen)))
    wires = wires_over(n, np.array(chosen), np.array(price, dtype=float))
    assert wires.kind == (FULL if len(chosen) == len(pairs) else SPARSE)
    known = dict(zip(chosen, price, strict=True))
    for a, b in pairs:
        assert price_of(wires, a, b) == price_of(wires, b, a) == known.get((a, b), np.inf)
        assert price_of(all_alike(n, 2.5), a, b) == 2.5
    near = nearest(wires, 3)
    for x in range(n):
        others = [(known[min(x, y), max(x, y)], y) for y in range(n) if (min(x, y), max(x, y)) in known]
        wanted = [y for _, y in sorted(others)][:3]
        assert near[x].tolist() == wanted + [x] * (3 - len(wanted))


def is_tree(links, n):
    import networkx as nx

    graph = nx.Graph(links.tolist())
    return len(graph) == n and nx.is_tree(graph)


def test_sets_of_homes_are_merged_and_keep_their_demand():
    from overlace.testing import three_in_a_row

    observation = three_in_a_row()
    p = problem(observation, 0.0)
    spans = home_spans(p, p.limits.first)
    assert (spans.start.tolist(), spans.terminal.tolist(), spans.weight.tolist()) == ([0, 2], [0, 2], [14])
    assert len(Classes.of([[0, 1]], [14])) == 1
