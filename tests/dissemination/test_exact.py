"""The exact optimum against all choices of parents."""

import numpy as np
import pytest
from hypothesis import given, settings

from overlace.errors import BadParameter
from overlace.planners.dissemination.exact import find_optimum
from overlace.planners.dissemination.problem import make_problem, measure
from tests.dissemination.common import problems
from tests.oracles import dissemination as oracle


@settings(max_examples=60)
@given(problems(most=5))
def test_the_optimum_is_the_most_of_all_trees(problem):
    found = measure(problem, find_optimum(problem))
    assert found.over_degree == 0
    assert found.met == oracle.most_met(
        problem.delay.tolist(), problem.bound.tolist(), problem.degree.tolist(), problem.root
    )


def test_more_than_seven_subscribers_are_refused():
    with pytest.raises(BadParameter, match="up to 7 subscribers, found 8. Use arrange"):
        find_optimum(make_problem(np.ones((9, 9)), 5, 2))
