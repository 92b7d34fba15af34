"""Ours beside the others: never above the bound that is proven, never below a rival within the limits."""

from hypothesis import given, settings

from overlace.planners.dissemination.comparison import ARRANGED, OPTIMUM, STAR, add_optimum, compare
from tests.dissemination.common import problems


@settings(max_examples=40)
@given(problems(most=6))
def test_ours_lies_between_every_rival_and_the_upper_bound(problem):
    found = add_optimum(problem, compare(problem))
    ours = found.measures[ARRANGED]
    assert ours.met <= found.measures[OPTIMUM].met <= found.ceiling.most
    assert ours.share <= found.upper <= 1.0
    for name, each in found.measures.items():
        if name != STAR:
            assert each.over_degree == 0
    assert ours.met >= found.measures["greedy by bound"].met
