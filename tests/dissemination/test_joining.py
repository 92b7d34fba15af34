"""Joins and leaves: limits hold all the time, few others are moved, and the tree stays about as good as a fresh one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.joining import ABSENT, join, leave
from overlace.errors import BadParameter
from overlace.planners.dissemination.arrange import arrange_problem
from overlace.planners.dissemination.baselines import grow_by_bound
from overlace.planners.dissemination.problem import TreeProblem, make_problem, measure
from tests.dissemination.common import plane, problems


def present(problem, parent):
    """The problem and the tree of those who are there."""
    inside = np.flatnonzero(parent != ABSENT)
    place = np.full(len(parent), -1)
    place[inside] = np.arange(len(inside))
    part = TreeProblem(
        np.ascontiguousarray(problem.delay[np.ix_(inside, inside)]),
        problem.bound[inside],
        problem.degree[inside],
        int(place[problem.root]),
    )
    return part, np.where(parent[inside] >= 0, place[parent[inside]], -1)


@given(problems(least=2, most=8), st.data())
def test_after_any_joins_and_leaves_all_who_are_there_are_connected_within_the_limits(problem, data):
    parent = grow_by_bound(problem)
    for i in range(6):
        v = data.draw(st.integers(0, len(parent) - 1).filter(lambda v: v != problem.root))
        here = parent != ABSENT
        change = leave if here[v] else join
        here[v] = ~here[v]
        if problem.degree[here].sum() < here.sum() - 1:
            with pytest.raises(BadParameter):
                change(problem, parent, v, i)
            continue
        parent = change(problem, parent, v, i)
        assert ((parent != ABSENT) == here).all()
        assert measure(*present(problem, parent)).over_degree == 0


def lose_after_changes(problem, changes):
    """How many points fewer are met after joins and leaves than in a fresh tree, and peers moved by each change."""
    rng, half = np.random.default_rng(0), len(problem.bound) // 2
    parent, moved = np.full(len(problem.bound), ABSENT), 0
    parent[0] = -1
    for v in range(1, half + 1):
        parent = join(problem, parent, v, v)
    for i in range(changes):
        v = int(rng.choice(np.flatnonzero(parent == ABSENT if i % 2 else parent >= 0)))
        after = (join if i % 2 else leave)(problem, parent, v, i)
        moved += int(((after != parent) & (np.arange(len(parent)) != v)).sum())
        parent = after
    part, tree = present(problem, parent)
    fresh = measure(part, arrange_problem(part)).share
    return 100 * (fresh - measure(part, tree).share), moved / changes


@pytest.mark.parametrize("degree", [2, 3])
def test_a_hundred_joins_and_leaves_end_within_two_points_of_a_fresh_tree(degree):
    """Over three planes: with 50 subscribers a single bound is 2 points."""
    lost, moved = np.mean([lose_after_changes(plane(100, degree, seed), 100) for seed in range(3)], axis=0)
    assert lost <= 2
    assert moved < 10  # of 50


def test_what_is_there_cannot_join_and_what_is_not_cannot_leave():
    problem = make_problem(np.ones((3, 3)), 5, 1)
    parent = np.array([-1, 0, ABSENT])
    with pytest.raises(BadParameter, match="in the tree already"):
        join(problem, parent, 1)
    with pytest.raises(BadParameter, match="it cannot leave"):
        leave(problem, parent, 2)
    for change in (join, leave):
        with pytest.raises(BadParameter, match="but the root"):
            change(problem, parent, 0)


def test_a_leaf_finds_no_place_where_all_are_taken():
    problem = make_problem(np.ones((3, 3)), 5, [2, 0, 0])._replace(degree=np.array([1, 0, 0]))
    with pytest.raises(BadParameter, match="no peer has a free place"):
        join(problem, np.array([-1, 0, ABSENT]), 2)


def test_one_that_all_hang_below_cannot_leave():
    problem = make_problem(np.ones((4, 4)), 5, [1, 2, 0, 0])
    with pytest.raises(BadParameter, match="too few peers can have children"):
        leave(problem, np.array([-1, 0, 1, 1]), 1)
