from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from overlace.errors import BadObservation, BadOverlay, BadParameter, NotObserved
from overlace.model import Network, Observation, Overlay
from overlace.planners.tree.baselines import Mst
from overlace.testing import check_planner, three_in_a_row
from overlace.workloads.square import square
from tests.strategies import observations


@given(observations())
def test_the_laws_hold_and_the_tree_is_a_minimum_spanning_tree(observation):
    plan = check_planner(Mst(beta=0.5), observation)
    graph = nx.Graph()
    graph.add_nodes_from(range(observation.network.brokers))
    rows = zip(observation.network.links.tolist(), observation.network.link_cost, strict=True)
    graph.add_weighted_edges_from((a, b, c) for (a, b), c in rows)
    best = nx.minimum_spanning_tree(graph).size(weight="weight")
    assert observation.network.costs_of(plan.after.tree).sum() == best


@given(observations(2))
def test_the_links_total_cost_never_grows_on_the_way(observation):
    plan = Mst().solve(observation)
    totals = [observation.network.costs_of(plan.first(k).after.tree).sum() for k in range(len(plan.steps) + 1)]
    assert np.all(np.diff(totals) <= 0)


def test_more_brokers_keep_the_same_laws():
    observation = square(150, 300, 200, seed=3)
    plan = check_planner(Mst(beta=0.5), observation)
    totals = [observation.network.costs_of(plan.first(k).after.tree).sum() for k in range(len(plan.steps) + 1)]
    assert np.all(np.diff(totals) <= 0)
    assert "and joins what" in plan.why(0)


@pytest.mark.parametrize("weights", [{"alpha": -3}, {"beta": float("nan")}, {"alpha": float("inf")}])
def test_weights_are_numbers_of_0_or_more(weights):
    with pytest.raises(BadParameter, match="expected a number of 0 or more"):
        Mst(**weights)


@given(observations(2))
def test_a_tree_that_is_minimal_already_is_left_alone(observation):
    there = replace(observation, overlay=Mst().solve(observation).after)
    assert len(Mst().solve(there).steps) == 0


def test_progress_is_told_up_to_the_end():
    told = []
    Mst().solve(square(9, 20, 30), progress=lambda share, what: told.append(share))
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_what_cannot_be_spanned_is_said():
    with pytest.raises(NotObserved, match="Ingest the tables brokers and links"):
        Mst().solve(Observation())
    with pytest.raises(BadObservation, match="2 parts \\(at b0, b2\\)"):
        Mst().solve(Observation(network=Network(region=[0, 1, 2, 3], links=[[0, 1], [2, 3]])))
    cyclic = replace(three_in_a_row(), overlay=Overlay(tree=[[0, 1], [1, 2], [0, 2]]))
    with pytest.raises(BadOverlay, match="b1-b2 close a cycle"):
        Mst().solve(cyclic)
