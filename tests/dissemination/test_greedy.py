"""Trees grown from the root: all within the limits; where nothing limits, as networkx has them."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from overlace.planners.dissemination.baselines import (
    grow_by_bound,
    grow_compact,
    grow_shortest,
    grow_spanning,
    make_star,
)
from overlace.planners.dissemination.problem import count_children, find_arrivals, measure
from tests.dissemination.common import plane, problems

GROWN = [grow_by_bound, grow_compact, grow_shortest, grow_spanning]


@given(problems(most=8))
def test_everybody_is_in_every_tree_and_no_limit_is_broken(problem):
    for grow in GROWN:
        parent = grow(problem)
        assert np.isfinite(find_arrivals(problem, parent)).all()
        assert (count_children(parent) <= problem.degree).all()


def test_without_limits_the_trees_are_those_of_networkx():
    problem = plane(25, 25, 0)
    graph = nx.Graph((u, v, {"weight": problem.delay[u, v]}) for u in range(26) for v in range(u))
    spanning = grow_spanning(problem)
    total = sum(problem.delay[p, v] for v, p in enumerate(spanning) if p >= 0)
    assert total == pytest.approx(nx.minimum_spanning_tree(graph).size(weight="weight"))
    shortest = nx.single_source_dijkstra_path_length(graph, 0)
    assert find_arrivals(problem, grow_shortest(problem)).tolist() == pytest.approx([shortest[v] for v in range(26)])


def test_a_star_is_a_control_that_says_what_it_breaks():
    problem = plane(10, 3, 0, (1.0, 1.0))
    found = measure(problem, make_star(problem))
    assert (found.share, found.max_degree, found.over_degree) == (1.0, 10, 1)
