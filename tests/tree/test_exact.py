from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from overlace.errors import BadObservation, NothingBetter
from overlace.model import Network
from overlace.planners.tree.exact import ExactTree
from overlace.testing import check_planner
from overlace.workloads.square import square
from tests.oracles.tree import best_of_all
from tests.strategies import observations


@settings(max_examples=25)
@given(observations(1, 6), st.sampled_from([(1, 0), (0, 1), (1, 0.5)]))
def test_no_labelled_tree_is_cheaper(observation, weights):
    alpha, beta = weights
    plan = check_planner(ExactTree(alpha=alpha, beta=beta), observation)
    best = best_of_all(observation, alpha=alpha, beta=beta)
    assert plan.planner.cost(observation, plan.after) == pytest.approx(best)


def test_no_labelled_tree_over_7_brokers_is_cheaper():
    observation = square(7, 14, 12, seed=1)
    plan = ExactTree(beta=3).solve(observation)
    assert plan.planner.cost(observation, plan.after) == pytest.approx(best_of_all(observation, beta=3))


@settings(max_examples=25)
@given(observations(2, 6), st.data())
def test_limits_sparse_links_and_links_that_stay_are_kept(observation, data):
    links = observation.network.links.tolist()
    wired = observation.overlay.tree.tolist()
    left = [row for row in links if row in wired or data.draw(st.booleans())]
    cost = [c for row, c in zip(links, observation.network.link_cost, strict=True) if row in left]
    brokers = observation.network.brokers
    network = Network(broker_cost=observation.network.broker_cost, links=left, link_cost=cost)
    observation = replace(observation, network=network)
    cap = data.draw(st.integers(1, 4))
    keep = tuple(data.draw(st.sets(st.integers(0, brokers - 1))))
    kept = {(a, b) for a, b in wired if a in keep and b in keep}
    planner = ExactTree(max_degree=cap, keep=keep, beta=0.5)
    best = best_of_all(observation, cap, kept, beta=0.5)
    if best is None:
        with pytest.raises(NothingBetter, match="no tree"):
            planner.solve(observation)
        return
    plan = check_planner(planner, observation)
    assert planner.cost(observation, plan.after) == pytest.approx(best)
    assert kept <= {tuple(row) for row in plan.after.tree.tolist()}
    check_degrees(plan, observation, cap)


def check_degrees(plan, observation, cap):
    """After every step nobody is above the cap, nor further above it than before the step."""
    most = np.minimum(observation.network.max_degree, cap)
    brokers = observation.network.brokers
    before = np.bincount(plan.before.tree.ravel(), minlength=brokers)
    for k in range(1, len(plan.steps) + 1):
        now = np.bincount(plan.first(k).after.tree.ravel(), minlength=brokers)
        assert (now <= np.maximum(most, before)).all()
        before = now


def test_a_tree_that_is_cheapest_already_is_left_alone():
    observation = square(9, 20, 30, seed=1)
    there = replace(observation, overlay=ExactTree().solve(observation).after)
    assert len(ExactTree().solve(there).steps) == 0


@given(observations(3, 6), st.integers(0, 3))
def test_max_swaps_cuts_the_plan_where_it_pays_most_to_begin(observation, most):
    whole, part = ExactTree().solve(observation), ExactTree(max_swaps=most).solve(observation)
    assume(len(whole.steps) == len(whole.changes) // 2)
    assert part.changes == whole.first(min(most, len(whole.steps))).changes


def test_min_gain_takes_only_what_is_worth_it():
    observation = square(9, 20, 30, seed=1)
    gains = ExactTree().solve(observation).steps.gain
    least = float(np.sort(gains)[len(gains) // 2])
    plan = check_planner(ExactTree(min_gain=least), observation)
    assert 0 < len(plan.steps) < len(gains)
    assert plan.gain >= least * len(plan.steps)
    with pytest.raises(NothingBetter, match="best steps found save"):
        ExactTree(min_gain=1e12).solve(observation)


def test_more_brokers_than_it_takes_are_refused():
    with pytest.raises(BadObservation, match="up to 14 brokers, found 15"):
        ExactTree().solve(square(15, 20, 30))
