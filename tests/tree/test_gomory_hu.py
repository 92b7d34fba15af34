from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from overlace.errors import BadObservation
from overlace.model import Classes, Network, Observation, Overlay
from overlace.planners.tree.exact import ExactTree
from overlace.planners.tree.gomory_hu import GomoryHu
from overlace.planners.tree.regraft import Regraft
from overlace.testing import check_planner
from overlace.workloads.square import square
from tests.strategies import observations


@settings(max_examples=15)
@given(observations(2, 6))
def test_the_gomory_hu_tree_is_optimal_where_all_costs_are_equal(observation):
    equal = replace(observation, network=Network(region=range(observation.network.brokers)))
    plan = check_planner(GomoryHu(), equal)
    best = ExactTree().solve(equal)
    assert plan.gain == pytest.approx(best.gain)
    brokers = ExactTree(beta=2).solve(equal)
    assert GomoryHu(beta=2).solve(equal).gain == pytest.approx(brokers.gain)


@pytest.mark.parametrize("seed", range(3))
def test_for_classes_of_two_the_gomory_hu_tree_costs_what_networkx_says(seed):
    """The sum of the least cuts; nobody finds a cheaper tree."""
    brokers, rng = 25, np.random.default_rng(seed)
    pairs = [sorted(rng.choice(brokers, 2, replace=False).tolist()) for _ in range(80)]
    pairs += [[k, k + 1] for k in range(brokers - 1)]  # joined, as networkx wants it
    demand = rng.integers(1, 100, len(pairs))
    observation = Observation(
        overlay=Overlay(placement=[[v, v] for v in range(brokers)], tree=[[0, v] for v in range(1, brokers)]),
        network=Network(region=range(brokers)),
        classes=Classes.of(pairs, demand),
    )
    graph = nx.Graph()
    for (a, b), messages in zip(pairs, demand.tolist(), strict=True):
        graph.add_edge(a, b, capacity=messages + graph.get_edge_data(a, b, {"capacity": 0})["capacity"])
    least = sum(cut for _, _, cut in nx.gomory_hu_tree(graph).edges(data="weight"))
    plan = GomoryHu().solve(observation)
    assert plan.planner.cost(observation, plan.after) == least
    assert Regraft().cost(observation, Regraft().solve(observation, seed).after) >= least


def test_the_gomory_hu_tree_needs_every_pair():
    with pytest.raises(BadObservation, match="missing"):
        GomoryHu().solve(square(20, 40, 30, near=3))
