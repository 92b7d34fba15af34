from dataclasses import fields, replace

import networkit
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.catalog import PLANNERS
from overlace.errors import BadParameter, NothingBetter, NotObserved
from overlace.limits import range_of
from overlace.model import Flows, Observation, Overlay
from overlace.planners.placement.cost import cost
from overlace.planners.placement.exact import ExactPlacement
from overlace.planners.placement.leiden import Leiden, handled_at_start, loads_of
from overlace.planners.placement.problem import search_problem, total_cost
from overlace.planners.placement.ties import ties_between
from overlace.planners.search.system import prices, seat
from overlace.planners.search.walk import Search
from overlace.testing import check_planner, three_in_a_row
from overlace.workloads.backbone import layout
from overlace.workloads.random_clients import RandomClients
from overlace.workloads.small_world import SmallWorld
from reproductions.cc12.frontier import frontier
from tests.oracles.placement import best_cost, handled_loads, placed, sent_loads
from tests.placement.observed import leiden_communities, placements

FREE = {"region_sent": None, "broker_sent": None, "broker_handled": None}
QUICK = Leiden(effort=0)


@settings(max_examples=30)
@given(placements(access=True), st.sampled_from([0.0, 3.0]), st.sampled_from(["hops", "latency", "cost"]))
def test_the_laws_hold(observation, move_cost, distance):
    check_planner(Leiden(move_cost=move_cost, distance=distance), observation, 2)
    check_planner(Leiden(weight="bytes", effort=0), observation)


@settings(max_examples=40)
@given(placements(access=True), st.sampled_from([0.0, 3.0]), st.data())
def test_what_a_move_or_a_trade_is_said_to_save_is_what_it_saves(observation, move_cost, data):
    planner = Leiden(move_cost=move_cost, **FREE)
    problem = planner.problem(observation)
    home = problem.origin
    assert total_cost(problem, home) == pytest.approx(cost(observation, observation.overlay))
    c = data.draw(st.integers(0, observation.clients - 1))
    b = data.draw(st.sampled_from(np.flatnonzero(problem.may).tolist()))
    x = data.draw(st.integers(0, observation.clients - 1).filter(lambda x: x != c))
    system = Search(search_problem(problem)).system
    out = np.zeros(len(problem.may))

    def saved(client, there):
        prices(system, client, 0.0, out)
        gain = out[system.seats.home[client]] - out[there]
        seat(system.demand, system.seats, client, there)
        return gain

    def real(after):
        return planner.cost(observation, observation.overlay) - planner.cost(observation, placed(observation, after))

    after = home.copy()
    after[c] = b
    assert saved(c, b) == pytest.approx(real(after))
    seat(system.demand, system.seats, c, home[c])
    after[c], after[x] = home[x], home[c]
    assert saved(c, home[x]) + saved(x, home[c]) == pytest.approx(real(after))
    assert total_cost(problem, after) == pytest.approx(planner.cost(observation, placed(observation, after)))


@settings(max_examples=40)
@given(placements())
def test_handled_loads_are_those_of_the_minimal_subtrees(observation):
    by_broker, _ = handled_at_start(observation)
    assert by_broker.tolist() == handled_loads(observation, observation.overlay.homes(observation.clients)).tolist()


@settings(max_examples=30)
@given(placements(), st.sampled_from([1.0, 1.3, 2.0]), st.sampled_from([0.8, 1.0]))
def test_no_load_is_worse_than_its_cap_and_the_start_after_any_step(observation, share, handled):
    planner = Leiden(region_sent=share, broker_sent=share, broker_handled=handled)
    plan = planner.solve(observation)
    problem = planner.problem(observation)
    start = observation.overlay.homes(observation.clients)
    begin, begin_regions = sent_loads(observation, start)
    begin_handled = handled_loads(observation, start)
    names = sorted(set(observation.network.region.tolist()) - {-1})
    for k in range(1, len(plan.steps) + 1):
        homes = plan.first(k).after.homes(observation.clients)
        sent, regions = sent_loads(observation, homes)
        assert (sent <= np.maximum(problem.broker_sent, begin) + 1e-6).all()
        for i, r in enumerate(names):
            assert regions[r] <= max(problem.region_sent[i], begin_regions[r]) + 1e-6
        assert (handled_loads(observation, homes) <= np.maximum(problem.broker_handled, begin_handled) + 1e-6).all()


@settings(max_examples=15)
@given(placements(clients=5, most_regions=2), st.sampled_from([0.0, 2.0]))
def test_brute_force_is_never_beaten_and_the_exact_planner_meets_it(observation, move_cost):
    exact = ExactPlacement(move_cost=move_cost, broker_sent=1.5)
    limit = exact._searching().problem(observation).broker_sent
    best = best_cost(observation, exact, lambda h: (sent_loads(observation, list(h))[0] <= limit + 1e-9).all())
    if best is None:
        with pytest.raises(NothingBetter):
            exact.solve(observation)
        return
    plan = exact.solve(observation)
    assert exact.cost(observation, plan.after) == pytest.approx(best)
    ours = Leiden(move_cost=move_cost, broker_sent=1.5, region_sent=None, broker_handled=None)
    found = ours.solve(observation)
    if (sent_loads(observation, found.after.homes(observation.clients))[0] <= limit + 1e-9).all():
        assert ours.cost(observation, found.after) >= best - 1e-6


def test_the_exact_planner_moves_whoever_only_takes_room():
    """c2 talks with nobody that was observed, but its broker is the one where c0 and c1 could be together."""
    observation = replace(three_in_a_row(), clients=3, sent=[2, 2, 5], sent_bytes=[0, 0, 0])
    overlay = Overlay(placement=[[0, 0], [1, 2], [2, 1]], tree=observation.overlay.tree)
    dear = replace(
        observation,
        overlay=overlay,
        network=replace(observation.network, client_region=[0, 0, 0], access_cost=[[100, 0, 100]]),
    )
    exact = ExactPlacement(broker_sent=2.0)
    plan = check_planner(exact, dear)
    limit = exact._searching().problem(dear).broker_sent
    best = best_cost(dear, exact, lambda h: (sent_loads(dear, list(h))[0] <= limit + 1e-9).all())
    assert exact.cost(dear, plan.after) == pytest.approx(best)
    assert plan.after.homes(3)[2] != 1


def test_on_tiny_cases_the_search_meets_brute_force_most_of_the_time():
    met = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        spots = layout(np.array([2, 2]))
        pairs = np.array([(a, b) for a in range(7) for b in range(7) if a != b and rng.random() < 0.4])
        observation = Observation(
            overlay=Overlay(placement=list(enumerate(rng.integers(0, 4, 7).tolist())), tree=spots.tree),
            network=spots.network(),
            flows=Flows(pairs[:, 0], pairs[:, 1], rng.integers(1, 9, len(pairs))),
            sent=rng.integers(1, 4, 7),
        )
        exact = ExactPlacement(broker_sent=1.5)
        try:
            best = exact.cost(observation, exact.solve(observation).after)
        except NothingBetter:
            met += 1
            continue
        found = Leiden(region_sent=None, broker_handled=None).solve(observation)
        met += Leiden().cost(observation, found.after) <= best + 1e-9
    assert met >= 10


@settings(max_examples=20)
@given(placements())
def test_a_price_without_end_moves_nobody_across_regions_and_moves_inside_are_free(observation):
    dear = Leiden(move_cost=1e12, **FREE)
    plan = dear.solve(observation)
    region = observation.network.region
    old, new = (each.homes(observation.clients) for each in (plan.before, plan.after))
    assert (region[old] == region[new]).all()
    within = Leiden(within_region=True, **FREE).solve(observation)
    new = within.after.homes(observation.clients)
    assert (region[old] == region[new]).all()
    assert dear.cost(observation, plan.after) == pytest.approx(cost(observation, plan.after))


@pytest.mark.parametrize("across", [True, False])
def test_moves_never_exceed_what_is_allowed_and_more_moves_never_cost_more(across):
    observation = SmallWorld(messages=3000, clients=60).observation()
    region = observation.network.region if across else np.arange(observation.network.brokers)
    last = np.inf
    for most in (0, 5, 20, 60):
        planner = Leiden(max_moves=most, across=across, effort=0)
        after = planner.solve(observation).after
        old, new = observation.overlay.homes(60), after.homes(60)
        assert (region[old] != region[new]).sum() <= most
        assert planner.cost(observation, after) <= last * 1.02
        last = planner.cost(observation, after)


@pytest.mark.parametrize("across", [True, False])
def test_few_moves_are_made_even_where_broken_caps_take_more_to_mend(across):
    observation = RandomClients(messages=3000, clients=60).observation()
    region = observation.network.region if across else np.arange(observation.network.brokers)
    planner = replace(QUICK, max_moves=1, across=across)
    assert excess_of(planner, observation, observation.overlay) > 0
    after = planner.solve(observation).after
    assert (region[observation.overlay.homes(60)] != region[after.homes(60)]).sum() == 1
    assert excess_of(planner, observation, after) <= excess_of(planner, observation, observation.overlay)


def excess_of(planner, observation, overlay):
    """By how much loads are above their caps, as shares of the caps, all together."""
    problem = planner.problem(observation)
    caps = (problem.broker_sent, problem.region_sent, problem.broker_handled, problem.region_handled)
    loads = loads_of(problem, overlay.homes(observation.clients))
    return sum((np.maximum(0, load - cap) / np.maximum(cap, 1)).sum() for load, cap in zip(loads, caps, strict=True))


@settings(max_examples=40)
@given(placements(), st.data())
def test_every_limit_on_who_moves_holds_together_with_the_others(observation, data):
    clients = st.sets(st.integers(0, observation.clients - 1), max_size=4).map(lambda some: tuple(sorted(some)))
    keep, only, most = data.draw(clients), data.draw(clients), data.draw(st.integers(0, 4))
    within = data.draw(st.booleans())
    planner = Leiden(keep=keep, only=only, max_moves=most, within_region=within, effort=0, broker_handled=None)
    plan = check_planner(planner, observation, 1)
    old, new = observation.overlay.homes(observation.clients), plan.after.homes(observation.clients)
    moved = set(np.flatnonzero(old != new).tolist())
    assert not moved & set(keep)
    assert moved <= set(only or range(observation.clients))
    assert len(moved) <= most
    if within:
        assert (observation.network.region[old] == observation.network.region[new]).all()


def test_who_is_kept_stays_and_only_the_chosen_move():
    observation = RandomClients(messages=2000, clients=50).observation()
    free = QUICK.solve(observation)
    old, new = observation.overlay.homes(50), free.after.homes(50)
    gone = np.flatnonzero(old != new)
    kept = tuple(gone[:5].tolist())
    assert (replace(QUICK, keep=kept).solve(observation).after.homes(50)[list(kept)] == old[list(kept)]).all()
    only = replace(QUICK, only=kept).solve(observation).after.homes(50)
    assert set(np.flatnonzero(only != old).tolist()) <= set(kept)
    with pytest.raises(BadParameter, match="keep names client 99; there are 50"):
        replace(QUICK, keep=(99,)).solve(observation)


def test_planted_communities_come_back_and_end_up_together():
    rng = np.random.default_rng(1)
    kind = rng.permutation(np.repeat(np.arange(4), 10))
    left, right = np.triu_indices(40, 1)
    some = rng.random(len(left)) < np.where(kind[left] == kind[right], 0.6, 0.02)
    left, right = left[some], right[some]
    ties = ties_between(40, left, right, np.ones(len(left)))
    found = leiden_communities(ties, 0)
    assert len({*zip(found.tolist(), kind.tolist(), strict=True)}) == 4
    spots = layout(np.array([2, 2, 2, 2]))
    observation = Observation(
        overlay=Overlay(placement=list(enumerate(rng.integers(0, 8, 40).tolist())), tree=spots.tree),
        network=spots.network(),
        flows=Flows(left, right, np.ones(len(left))),
        sent=np.ones(40, np.int64),
    )
    after = Leiden(broker_handled=None).solve(observation).after.homes(40)
    assert len({*zip(spots.region[after].tolist(), kind.tolist(), strict=True)}) == 4


def test_leiden_leaves_the_number_of_threads_alone_and_repeats_itself():
    ties = ties_between(30, *np.random.default_rng(0).integers(0, 30, (2, 90)), np.ones(90))
    before = networkit.getMaxNumberOfThreads()
    assert np.array_equal(leiden_communities(ties, 3), leiden_communities(ties, 3))
    assert networkit.getMaxNumberOfThreads() == before


def test_the_frontier_trades_hops_for_moves():
    observation = RandomClients(messages=3000, clients=60).observation()
    points = frontier(observation, QUICK, points=8)
    moves, costs = [p.moves for p in points], [p.cost for p in points]
    assert moves == sorted(set(moves))
    assert costs == sorted(set(costs), reverse=True)
    assert len(points) >= 3
    for point in points:
        assert point.cost == cost(observation, point.plan.after)


@settings(max_examples=15)
@given(placements(access=True))
def test_from_a_start_within_its_caps_the_frontier_begins_with_nobody_moved(observation):
    assert frontier(observation, Leiden(effort=0, **FREE), points=3)[0].moves == 0


def test_a_concentrated_start_uses_the_empty_regions_and_ends_within_the_caps():
    observation = SmallWorld(messages=4000, start="concentrated").observation()
    planner = Leiden(effort=0, strict=True, broker_handled=None)
    plan = check_planner(planner, observation)
    after = plan.after.homes(200)
    assert len(set(observation.network.region[after].tolist())) >= 7  # fewer would be above 1.2 times their share
    assert excess_of(planner, observation, plan.after) == 0


@pytest.mark.parametrize("network", [SmallWorld, RandomClients])
def test_a_cap_on_what_is_handled_that_is_broken_at_the_start_is_mended_though_moves_are_dear(network):
    observation = network(messages=3000, clients=80, seed=1).observation()
    planner = Leiden(region_sent=None, broker_sent=2.0, broker_handled=0.6, move_cost=60.0)
    before = excess_of(planner, observation, observation.overlay)
    assert before > 5
    assert excess_of(planner, observation, planner.solve(observation).after) < 0.01 * before


def test_caps_that_nothing_meets_are_come_nearer_to_all_the_same():
    observation = RandomClients(messages=3000, clients=80).observation()
    planner = Leiden(region_sent=None, broker_sent=2.0, broker_handled=0.4, move_cost=60.0)
    after = check_planner(planner, observation).after
    assert 0 < excess_of(planner, observation, after) < excess_of(planner, observation, observation.overlay)


def test_caps_that_cannot_be_met_are_said_when_strict():
    heavy = replace(three_in_a_row(), sent=[100, 1])
    assert len(QUICK.solve(heavy).steps) <= 2
    with pytest.raises(NothingBetter, match="c0 alone sends 100"):
        replace(QUICK, strict=True).solve(heavy)


@pytest.mark.parametrize(
    "bad", [{"move_cost": -1}, {"move_cost": np.inf}, {"effort": -1}, {"max_moves": -1}, {"broker_sent": 0}]
)
def test_parameters_out_of_range_are_refused(bad):
    with pytest.raises(BadParameter, match=next(iter(bad))):
        Leiden(**bad)


@pytest.mark.parametrize("kind", [Leiden, PLANNERS["placement.exact"]])
def test_every_cap_says_its_range_and_what_it_is(kind):
    caps = [each for each in fields(kind) if each.name.endswith(("_sent", "_handled"))]
    assert caps
    for each in caps:
        assert (range_of(each.metadata), each.metadata["help"][:7]) == ("above 0", "cap on ")
        for wrong in (0, -1, float("nan")):
            with pytest.raises(BadParameter, match=f"{each.name} is {wrong}; expected a number above 0"):
                kind(**{each.name: wrong})


def test_what_was_not_observed_is_named():
    with pytest.raises(NotObserved, match="no flows"):
        Leiden().solve(Observation())


def test_why_says_whom_the_client_talks_with():
    plan = Leiden(**FREE).solve(three_in_a_row())
    assert "most with c0 (100%)" in plan.why(0) or "most with c1 (100%)" in plan.why(0)


@pytest.mark.parametrize(("distance", "unit"), [("hops", "hops"), ("cost", "in cost of links"), ("latency", "µs")])
@pytest.mark.parametrize(("regions", "whose"), [([0, 1, 2], "there"), ([0, 1, 1], "of the region")])
def test_why_speaks_of_regions_where_they_are_given_and_says_what_distances_are(distance, unit, regions, whose):
    observation = three_in_a_row()
    network = replace(observation.network, region=regions, latency_us=np.ones(len(observation.network.links)))
    why = Leiden(**FREE, distance=distance).solve(replace(observation, network=network)).why(0)
    assert f"100% of its traffic is with clients {whose} (0% " in why
    assert f"the mean distance to those it talks with is 0 {unit} (was " in why


def test_permuting_the_flows_changes_nothing():
    observation = RandomClients(messages=2000, clients=60).observation()
    f, order = observation.flows, np.random.default_rng(0).permutation(len(observation.flows.sender))
    shuffled = Flows(f.sender[order], f.receiver[order], f.messages[order], f.bytes[order])
    assert QUICK.solve(replace(observation, flows=shuffled)).after == QUICK.solve(observation).after


@settings(max_examples=25)
@given(placements(), st.floats(0.3, 3.0), st.sampled_from(["broker", "region"]), st.sampled_from(["sent", "handled"]))
def test_an_absolute_cap_is_the_share_that_comes_to_as_much_and_the_tighter_of_both_holds(observation, share, at, what):
    """A cap of so many messages is that of so many fair shares, or times the largest load at the start."""
    free = Leiden(region_sent=None, broker_sent=None, region_handled=None, broker_handled=None)
    named, field = f"{at}_{what}", f"max_{at}_{what}"
    of_share = getattr(replace(free, **{named: share}).problem(observation), named)
    one = float(of_share.max())
    if not one > 0:
        return
    absolute = getattr(replace(free, **{field: one}).problem(observation), named)
    assert absolute.tolist() == [one] * len(of_share)
    both = getattr(replace(free, **{named: share, field: one / 2}).problem(observation), named)
    assert both.tolist() == np.minimum(of_share, one / 2).tolist()
