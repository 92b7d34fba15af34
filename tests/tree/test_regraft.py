from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.arrays.wiring import links_of, wire
from overlace.errors import BadOverlay, NothingBetter
from overlace.planners.search.cut import new_workspace, weigh
from overlace.planners.search.links import best_join, descend, stand, steepest
from overlace.planners.search.walk import Search
from overlace.planners.search.wires import prices_of
from overlace.planners.tree.exact import ExactTree
from overlace.planners.tree.regraft import Regraft
from overlace.planners.tree.setting import search_problem, setting_of
from overlace.testing import check_planner
from overlace.workloads.square import square
from reproductions.workloads.lottery import lottery
from tests.strategies import observations


@settings(max_examples=30)
@given(observations(2, 7), st.sampled_from([(1, 0), (0, 1), (1, 0.5)]), st.data())
def test_the_cost_of_joining_two_parts_is_equation_1(observation, weights, data):
    """cut.py: load x price + the reaches of the ends, against (1) of every rejoined tree."""
    planner = Regraft(alpha=weights[0], beta=weights[1])
    setting = setting_of(planner, observation)
    p = setting.problem
    slot = data.draw(st.integers(0, len(setting.start) - 1))
    w, d = wire(len(p.toll), setting.start, prices_of(p.wires, setting.start)), new_workspace(p)
    load, size, _ = weigh(p, w, d, slot)
    first, second = d.order[:size].tolist(), d.order[size:].tolist()
    a, b = setting.start[slot].tolist()
    price = {tuple(row): c for row, c in zip(observation.network.links.tolist(), p.wires.price, strict=True)}
    others = [row for row in setting.start.tolist() if row != [a, b]]
    here = planner.cost(observation, observation.overlay)
    now = load * price[a, b] + d.reach[a] + d.reach[b]
    for x in first:
        for y in second:
            tree = replace(observation.overlay, tree=[*others, [x, y]])
            joined = load * price[min(x, y), max(x, y)] + d.reach[x] + d.reach[y]
            assert joined - now == pytest.approx(planner.cost(observation, tree) - here)


@settings(max_examples=20)
@given(observations(2, 7), st.sampled_from(["best first", "lazily", "link by link"]))
def test_what_a_descent_says_it_saved_it_saved_and_no_swap_is_left(observation, way):
    planner = Regraft()
    setting = setting_of(planner, observation)
    p = setting.problem
    rules = Search(search_problem(planner, observation, setting)).rules(len(setting.start), 0.0)
    standing = stand(p, setting.start, rules)
    if way == "link by link":
        saved = descend(p, standing, rules, 1e-9, True)
    else:
        saved = steepest(p, standing, rules, 1e-9, way == "best first")
    after = replace(observation.overlay, tree=links_of(standing.wiring))
    assert planner.cost(observation, observation.overlay) - planner.cost(observation, after) == pytest.approx(saved)
    for slot in range(len(setting.start)):
        assert best_join(p, standing, rules, slot, 1e-9)[1] == -1


@pytest.mark.parametrize("seed", range(4))
def test_regraft_reaches_the_optimum_of_small_networks(seed):
    observation = lottery(10, seed=seed)
    best, found = ExactTree(beta=1).solve(observation), Regraft(beta=1).solve(observation, seed)
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
