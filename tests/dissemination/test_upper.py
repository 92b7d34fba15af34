"""The upper bound: no tree meets more, whatever the delays; and it counts degrees."""

import numpy as np
import pytest
from hypothesis import given, settings

from overlace.planners.dissemination import upper
from overlace.planners.dissemination.arrange import arrange_problem
from overlace.planners.dissemination.exact import find_optimum
from overlace.planners.dissemination.problem import make_problem, measure
from overlace.planners.dissemination.upper import bound_met
from tests.dissemination.common import plane, problems
from tests.oracles import dissemination as oracle


@settings(max_examples=80)
@given(problems(most=5))
def test_no_tree_meets_more(problem):
    best = oracle.most_met(problem.delay.tolist(), problem.bound.tolist(), problem.degree.tolist(), problem.root)
    assert all(best <= each for each in bound_met(problem))


@pytest.mark.parametrize("seed", range(12))
def test_no_tree_over_seven_subscribers_meets_more(seed):
    rng = np.random.default_rng(seed)
    problem = plane(7, rng.integers(1, 4, 8), seed, (0.9, 2.0))
    best = measure(problem, find_optimum(problem)).met
    assert all(best <= each for each in bound_met(problem))


@pytest.mark.parametrize("looks", [0, 1, 5])
def test_a_bound_whose_steps_ran_out_is_still_one(monkeypatch, looks):
    """All of it is looked at, and nearly nothing: the second is never below the first."""
    for seed in range(6):
        problem = plane(40, 2, seed, (1.0, 1.4))
        whole = upper.bound_cover(problem)
        with monkeypatch.context() as patch:
            patch.setattr(upper, "WORK", looks * 41 * 41 * 3)
            assert upper.bound_cover(problem) >= whole >= measure(problem, arrange_problem(problem, draws=20_000)).met


def test_degrees_count_by_level():
    """Ten peers, each in time only as a child of the root, which may have three."""
    delay = np.full((11, 11), 10.0)
    assert bound_met(make_problem(delay, 10, 3)) == (10, 3, 3)
    assert bound_met(make_problem(delay, 20, 3)).by_level == 10  # 3 children and 9 places below them
    assert bound_met(make_problem(delay, 20, 2)).by_level == 6


def test_degrees_count_by_cover():
    """Two valleys, a link of 10 ms to each, and every other link between them is longer: with one child of the root
    one valley is in time."""
    delay = np.full((7, 7), 30.0)
    delay[0] = 10
    delay[1:4, 1:4] = delay[4:7, 4:7] = 0
    assert bound_met(make_problem(delay, 10, 1)).by_cover == 3
    assert bound_met(make_problem(delay, 10, [2, 1, 1, 1, 1, 1, 1])).most == 6


def test_nobody_with_a_bound_and_bounds_that_nobody_meets():
    assert bound_met(make_problem(np.ones((4, 4)), np.inf, 2)).most == 0
    assert bound_met(make_problem(np.ones((4, 4)), 0.5, 2)).most == 0
