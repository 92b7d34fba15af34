from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from overlace.planners.tree.baselines import Star
from overlace.testing import check_planner
from overlace.workloads.square import square
from tests.strategies import observations


@given(observations(2, 7))
def test_the_star_is_the_best_of_all_stars(observation):
    n = observation.network.brokers
    plan = check_planner(Star(beta=0.5), observation)
    stars = [replace(observation.overlay, tree=[[h, v] for v in range(n) if v != h]) for h in range(n)]
    least = min(plan.planner.cost(observation, each) for each in stars)
    assert plan.planner.cost(observation, plan.after) == pytest.approx(least)


def test_where_links_are_few_all_reach_the_hub_in_the_fewest_hops():
    observation = square(40, 100, 80, near=4, seed=6)
    plan = check_planner(Star(), observation)
    hub = int(np.argmax(np.bincount(observation.network.links.ravel())))
    could, tree = nx.Graph(observation.network.links.tolist()), nx.Graph(plan.after.tree.tolist())
    assert nx.single_source_shortest_path_length(tree, hub) == nx.single_source_shortest_path_length(could, hub)
