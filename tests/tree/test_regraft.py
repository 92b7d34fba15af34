from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import BadObservation, BadOverlay, NothingBetter, NotObserved
from overlace.model import Classes, Network, Observation, Overlay
from overlace.testing import check_planner
from overlace.tree.cut import desk_for, weigh
from overlace.tree.descent import best_join, search_over, steepest
from overlace.tree.exact import Exact
from overlace.tree.gomory_hu import GomoryHu
from overlace.tree.hub_safe import HubSafe
from overlace.tree.mst import Mst
from overlace.tree.ocbr import Ocbr
from overlace.tree.problem import prices_of
from overlace.tree.regraft import Regraft, rules_of
from overlace.tree.setting import setting_of
from overlace.tree.star import Star
from overlace.tree.wiring import links_of, wire
from overlace.workloads.lottery import lottery
from overlace.workloads.square import square
from tests.oracles.tree import labelled_trees
from tests.strategies import observations
from tests.tree.test_exact import check_degrees

ALL = [Exact, GomoryHu, HubSafe, Mst, Ocbr, Regraft, Star]


@settings(max_examples=30)
@given(observations(2, 7), st.sampled_from([(1, 0), (0, 1), (1, 0.5)]), st.data())
def test_the_cost_of_joining_two_parts_is_equation_1(observation, weights, data):
    """cut.py: load x price + the reaches of the ends, against (1) of every rejoined tree."""
    planner = Regraft(alpha=weights[0], beta=weights[1])
    setting = setting_of(planner, observation)
    p = setting.problem
    slot = data.draw(st.integers(0, len(setting.start) - 1))
    w, d = wire(len(p.toll), setting.start, prices_of(p, setting.start)), desk_for(p)
    load, size, _ = weigh(p, w, d, slot)
    first, second = d.order[:size].tolist(), d.order[size:].tolist()
    a, b = setting.start[slot].tolist()
    price = {tuple(row): c for row, c in zip(observation.network.links.tolist(), p.price, strict=True)}
    others = [row for row in setting.start.tolist() if row != [a, b]]
    here = planner.cost(observation, observation.overlay)
    now = load * price[a, b] + d.reach[a] + d.reach[b]
    for x in first:
        for y in second:
            tree = replace(observation.overlay, tree=[*others, [x, y]])
            joined = load * price[min(x, y), max(x, y)] + d.reach[x] + d.reach[y]
            assert joined - now == pytest.approx(planner.cost(observation, tree) - here)


@settings(max_examples=20)
@given(observations(2, 7))
def test_what_a_descent_says_it_saved_it_saved_and_no_swap_is_left(observation):
    planner = Regraft()
    setting = setting_of(planner, observation)
    rules = rules_of(planner, setting)
    search = search_over(setting.problem, setting.start, rules)
    saved = steepest(setting.problem, search, rules, 1e-9)
    after = replace(observation.overlay, tree=links_of(search.wiring))
    assert planner.cost(observation, observation.overlay) - planner.cost(observation, after) == pytest.approx(saved)
    for slot in range(len(setting.start)):
        assert best_join(setting.problem, search, rules, slot, 1e-9)[2] == -1


@settings(max_examples=15)
@given(observations(1, 6), st.sampled_from([0.0, 0.5]))
def test_no_planner_is_below_the_optimum(observation, beta):
    best = Exact(beta=beta).solve(observation)
    least = best.planner.cost(observation, best.after)
    for kind in ALL:
        plan = kind(beta=beta).solve(observation)
        assert plan.planner.cost(observation, plan.after) >= least - 1e-9 * max(1, least)


@pytest.mark.parametrize("kind", [Regraft, HubSafe, Ocbr, Mst, Star, GomoryHu])
@settings(max_examples=12)
@given(observation=observations(1, 7), data=st.data())
def test_the_laws_hold_with_limits(kind, observation, data):
    cap = data.draw(st.integers(2, 4))
    brokers = observation.network.brokers
    keep = tuple(data.draw(st.sets(st.integers(0, brokers - 1))))
    most = data.draw(st.sampled_from([None, 1, 3]))
    planner = kind(max_degree=cap, keep=keep, max_swaps=most)
    try:
        plan = check_planner(planner, observation)
    except NothingBetter:
        return
    wired = observation.overlay.tree.tolist()
    kept = {(a, b) for a, b in wired if a in keep and b in keep}
    assert kept <= {tuple(row) for row in plan.after.tree.tolist()}
    check_degrees(plan, observation, cap)
    if most is not None:
        assert len(plan.changes) <= 2 * most


def test_a_broker_above_its_limit_is_relieved_or_it_is_said():
    base = square(12, 40, 60, seed=5)
    star = replace(base, overlay=replace(base.overlay, tree=[[0, v] for v in range(1, 12)]))
    plan = check_planner(Regraft(max_degree=3), star)
    assert np.bincount(plan.after.tree.ravel()).max() <= 3
    only = Network(links=star.overlay.tree)
    with pytest.raises(NothingBetter, match="b0 has 11 links and may have 3"):
        Regraft(max_degree=3).solve(replace(star, network=only))


@pytest.mark.parametrize("kind", [Regraft, HubSafe, Ocbr])
def test_only_candidate_links_are_wired(kind):
    observation = square(40, 100, 80, near=5, seed=3)
    assert len(observation.network.links) < 40 * 39 / 4
    plan = check_planner(kind(), observation)
    assert plan.gain > 0
    candidates = {tuple(row) for row in observation.network.links.tolist()}
    assert {tuple(row) for row in plan.after.tree.tolist()} <= candidates


@pytest.mark.parametrize("seed", range(4))
def test_regraft_reaches_the_optimum_of_small_networks(seed):
    observation = lottery(10, seed=seed)
    best, found = Exact(beta=1).solve(observation), Regraft(beta=1).solve(observation, seed)
    assert found.gain == pytest.approx(best.gain)


def test_min_gain_counts_in_the_search_itself():
    observation = square(40, 120, 150, seed=2)
    whole = Regraft(kicks=0).solve(observation)
    least = whole.gain / 100
    plan = check_planner(Regraft(kicks=0, min_gain=least), observation)
    assert 0 < len(plan.changes) < len(whole.changes)
    assert plan.gain - least * len(plan.changes) / 2 >= whole.gain - least * len(whole.changes) / 2
    with pytest.raises(NothingBetter, match="no replaced link saves"):
        Regraft(min_gain=1e15).solve(observation)


def test_with_few_swaps_regraft_takes_the_best_ones():
    observation = square(40, 120, 150, seed=2)
    one = Regraft(max_swaps=1, kicks=0).solve(observation)
    base = observation.overlay.tree.tolist()
    links = observation.network.links.tolist()
    best = 0.0
    here = one.planner.cost(observation, observation.overlay)
    for old in base:
        for new in links[::7]:
            try:
                tree = replace(observation.overlay, tree=[r for r in base if r != old] + [new])
                best = max(best, here - one.planner.cost(observation, tree))
            except BadOverlay:
                continue
    assert one.gain >= best


@settings(max_examples=15)
@given(observations(2, 6))
def test_the_gomory_hu_tree_is_optimal_where_all_costs_are_equal(observation):
    equal = replace(observation, network=Network(region=range(observation.network.brokers)))
    plan = check_planner(GomoryHu(), equal)
    best = Exact().solve(equal)
    assert plan.gain == pytest.approx(best.gain)
    brokers = Exact(beta=2).solve(equal)
    assert GomoryHu(beta=2).solve(equal).gain == pytest.approx(brokers.gain)


def test_the_gomory_hu_tree_needs_every_pair():
    with pytest.raises(BadObservation, match="missing"):
        GomoryHu().solve(square(20, 40, 30, near=3))


@given(observations(2, 7))
def test_the_star_is_the_best_of_all_stars(observation):
    n = observation.network.brokers
    plan = check_planner(Star(beta=0.5), observation)
    stars = [replace(observation.overlay, tree=[[h, v] for v in range(n) if v != h]) for h in range(n)]
    least = min(plan.planner.cost(observation, each) for each in stars)
    assert plan.planner.cost(observation, plan.after) == pytest.approx(least)


def test_hub_safe_takes_a_star_of_degree_128_apart():
    base = square(129, 300, 300, seed=1)
    star = replace(base, overlay=replace(base.overlay, tree=[[0, v] for v in range(1, 129)]))
    plan = HubSafe().solve(star)
    assert plan.planner.cost(star, plan.after) < 0.8 * plan.planner.cost(star, star.overlay)


@settings(max_examples=15)
@given(observations(1, 7), st.sampled_from(["paper", "relaxed"]), st.booleans())
def test_hub_safe_keeps_the_laws(observation, locks, finish):
    plan = check_planner(HubSafe(locks=locks, finish=finish, beta=0.5), observation)
    assert plan.gain >= 0


@given(observations(3, 5))
def test_in_a_star_of_up_to_nine_hub_safe_finds_the_optimum(observation):
    """One neighbourhood is the whole network."""
    n = observation.network.brokers
    star = replace(observation, overlay=replace(observation.overlay, tree=[[0, v] for v in range(1, n)]))
    assert HubSafe().solve(star).gain == pytest.approx(Exact().solve(star).gain)
    assert len(list(labelled_trees(n))) == n ** (n - 2)


@pytest.mark.parametrize("kind", ALL)
def test_what_cannot_be_planned_is_said(kind):
    with pytest.raises(NotObserved, match="brokers"):
        kind().solve(Observation())
    apart = Network(region=[0, 1, 2, 3], links=[[0, 1], [2, 3]])
    with pytest.raises(BadObservation, match="2 parts \\(at b0, b2\\)"):
        kind().solve(Observation(network=apart))
    base = lottery(4)
    with pytest.raises(BadOverlay, match="close a cycle"):
        kind().solve(replace(base, overlay=replace(base.overlay, tree=[[0, 1], [1, 2], [0, 2]])))
    with pytest.raises(BadOverlay, match="names c2, which has no home"):
        kind().solve(
            replace(
                base,
                overlay=Overlay(placement=[[0, 0], [1, 1]], tree=base.overlay.tree),
                classes=Classes.of([[0, 2]], [1]),
            )
        )
    with pytest.raises(BadOverlay, match="keep names broker 9"):
        kind(keep=(9,)).solve(base)


def test_progress_is_told_up_to_the_end():
    for kind in (Regraft, Ocbr, HubSafe):
        told = []
        kind().solve(square(9, 20, 30), progress=lambda share, what, told=told: told.append(share))
        assert told == sorted(told)
        assert told[-1] == 1.0
