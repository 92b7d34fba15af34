from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.planners.tree.exact import ExactTree
from overlace.planners.tree.hub_safe import HubSafe
from overlace.planners.tree.setting import setting_of
from overlace.testing import check_planner
from overlace.workloads.square import square
from tests.oracles.tree import labelled_trees
from tests.strategies import observations


@pytest.mark.parametrize("degree", [128, 1150])
def test_hub_safe_takes_a_large_star_apart(degree):
    base = square(degree + 1, 300, 300, seed=1)
    star = replace(base, overlay=replace(base.overlay, tree=[[0, v] for v in range(1, degree + 1)]))
    plan = HubSafe().solve(star)
    assert plan.planner.cost(star, plan.after) < 0.8 * plan.planner.cost(star, star.overlay)
    assert plan.gain == pytest.approx(plan.planner.cost(star, star.overlay) - plan.planner.cost(star, plan.after))


@settings(max_examples=15)
@given(observations(1, 7), st.sampled_from(["paper", "relaxed"]), st.booleans())
def test_hub_safe_keeps_the_laws(observation, locks, finish):
    plan = check_planner(HubSafe(locks=locks, finish=finish, beta=0.5), observation)
    assert plan.gain >= 0


@pytest.mark.parametrize("cap", [None, 2, 4])
@pytest.mark.parametrize("locks", ["paper", "relaxed"])
def test_hub_safe_ends_where_no_master_finds_anything(cap, locks):
    """Asked again all together, with nobody left out, none of them acts."""
    for seed in range(5):
        observation = square(30, 90, 100, seed=seed)
        planner = HubSafe(max_degree=cap, locks=locks)
        links = planner.run(setting_of(planner, observation), seed).links
        there = replace(observation, overlay=replace(observation.overlay, tree=links))
        (only,) = planner.run(setting_of(planner, there), seed).rounds
        assert only.asked > 0
        assert only.acted == 0


@given(observations(3, 5))
def test_in_a_star_of_up_to_nine_hub_safe_finds_the_optimum(observation):
    """One neighbourhood is the whole network."""
    n = observation.network.brokers
    star = replace(observation, overlay=replace(observation.overlay, tree=[[0, v] for v in range(1, n)]))
    assert HubSafe().solve(star).gain == pytest.approx(ExactTree().solve(star).gain)
    assert len(list(labelled_trees(n))) == n ** (n - 2)
