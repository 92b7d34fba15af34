"""Drift: what is promised is what holds on the first measurement, what is kept on the second."""

import numpy as np
import pytest

from overlace.errors import BadParameter
from overlace.planners.dissemination.comparison import judge_drift, judge_later, measure_again
from overlace.planners.dissemination.problem import make_problem
from tests.dissemination.common import plane


def test_without_noise_every_promise_holds():
    found = judge_drift(plane(20, 2, 0), 0.0, 0)
    for each in found:
        assert each.promised == each.kept
        assert each.held == 1.0


def test_the_plan_breaks_more_promises_than_the_star():
    """It chose links that looked fast, some by luck; the star chose nothing."""
    problem = plane(40, 3, 1, (1.2, 2.0))
    runs = [judge_drift(problem, 0.3, seed) for seed in range(4)]
    arranged, star = (np.mean([tree.held for tree in trees]) for trees in zip(*runs, strict=True))
    assert arranged < star


def test_a_promise_is_counted_on_the_delays_it_was_made_on():
    problem = make_problem([[0, 1, 1], [1, 0, 1], [1, 1, 0]], [0, 1, 2], 2)
    parent = np.array([-1, 0, 0])
    later = np.array([[0, 3, 1], [1, 0, 1], [1, 1, 0.0]])
    assert judge_later(problem, parent, later) == (1.0, 0.5, 0.5)


def test_noise_is_lognormal_around_the_delay_and_follows_its_seed():
    delay = np.full((200, 200), 10.0)
    noise = np.log(measure_again(delay, 0.3, 1) / delay)
    assert abs(np.median(noise)) < 0.01
    assert noise.std() == pytest.approx(0.3, rel=0.02)
    assert (measure_again(delay, 0.3, 1) == measure_again(delay, 0.3, 1)).all()
    assert (measure_again(delay, 0.3, 1) != measure_again(delay, 0.3, 2)).any()


def test_a_negative_sigma_is_refused():
    with pytest.raises(BadParameter, match="sigma is -1"):
        measure_again(np.ones((2, 2)), -1, 0)
