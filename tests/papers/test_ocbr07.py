"""OCBR07's worked example and its statements, in the paper's own names."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from networkx.algorithms.approximation import steiner_tree

from overlace.model import Classes, Network, Observation, Overlay
from overlace.planners.tree.exact import ExactTree
from overlace.planners.tree.hub_safe import HubSafe
from overlace.planners.tree.ocbr import Ocbr
from overlace.planners.tree.regraft import Regraft
from reproductions.ocbr07.figure_2 import figure_2_observation, seen_by
from reproductions.ocbr07.traps import ring
from reproductions.result import expected


def test_figure_2_bm_sees_two_classes_for_four():
    observation, printed = figure_2_observation(), expected("ocbr07")
    assert len(observation.classes) == printed["figure-2", "traffic classes", "in the network"]
    seen = seen_by(observation, 0)
    assert len(seen) == printed["figure-2", "traffic classes", "seen by bm"]
    assert seen == {frozenset({"b1", "c4"}): 3, frozenset({"b1", "b3"}): 6}


def test_figure_2_the_five_messages_between_c1_and_c2_do_not_matter_to_bm():
    observation = figure_2_observation()
    assert observation.classes.demand[0] == expected("ocbr07")["figure-2", "{c1 c2}", "messages"]
    without = replace(observation, classes=Classes.of([[0, 1, 3], [0, 1, 2], [1, 2, 4]], [3, 4, 2]))
    assert seen_by(without, 0) == seen_by(observation, 0)


@pytest.mark.parametrize("seed", range(6))
def test_section_2_one_class_is_the_steiner_tree_problem(seed):
    """One class, alpha 1, beta 0, free client links: the least (1) is the Steiner tree's cost."""
    rng = np.random.default_rng(seed)
    n = 7
    left, right = np.triu_indices(n, 1)
    links, cost = np.column_stack([left, right]), rng.integers(1, 30, len(left))
    ends = rng.choice(n, 4, replace=False)
    observation = Observation(
        overlay=Overlay(placement=[[c, int(b)] for c, b in enumerate(ends)], tree=[[0, v] for v in range(1, n)]),
        network=Network(links=links, link_cost=cost),
        classes=Classes.of([range(4)], [1]),
    )
    plan = ExactTree().solve(observation)
    least = plan.planner.cost(observation, plan.after)
    graph = nx.Graph()
    graph.add_weighted_edges_from((int(a), int(b), int(c)) for (a, b), c in zip(links, cost, strict=True))
    assert least == min_steiner(graph, set(ends.tolist()))
    assert least <= steiner_tree(graph, ends.tolist()).size(weight="weight")


def min_steiner(graph, ends):
    """Over all sets of brokers that hold the ends, the least spanning tree."""
    others = [v for v in graph if v not in ends]
    found = []
    for mask in range(1 << len(others)):
        nodes = ends | {v for i, v in enumerate(others) if mask >> i & 1}
        found.append(nx.minimum_spanning_tree(graph.subgraph(nodes)).size(weight="weight"))
    return min(found)


def test_a_ring_traps_every_local_rearrangement():
    observation = ring(8, 80.0)
    assert len(Ocbr(samples=50, iterations=50).solve(observation).steps) == 0
    assert len(HubSafe().solve(observation).steps) == 0
    assert Regraft().solve(observation).gain == ExactTree().solve(observation).gain > 0
