"""The workloads of the tree facet: square, lottery, days."""

from collections import Counter

import numpy as np
import pytest

from overlace.errors import BadParameter
from overlace.testing import check_overlay
from overlace.workloads.square import Talk, square
from reproductions.workloads.days import Days
from reproductions.workloads.lottery import lottery, uniform_tree


@pytest.mark.parametrize("changed", [{}, {"metric": False}, {"talk": Talk(locality=0.0)}, {"near": 5}])
def test_a_square_is_valid_and_the_same_for_the_same_seed(changed):
    observation = square(30, 80, 60, seed=3, **changed)
    assert observation == square(30, 80, 60, seed=3, **changed)
    assert observation != square(30, 80, 60, seed=4, **changed)
    check_overlay(observation.overlay, observation)
    observation.network.costs_of(observation.overlay.tree)
    sizes = np.diff(observation.classes.start)
    assert sizes.min() >= 2
    assert sizes.max() <= 6


def broken_triangles(observation):
    n = observation.network.brokers
    cost = np.zeros((n, n))
    left, right = observation.network.links.T
    cost[left, right] = cost[right, left] = observation.network.link_cost
    return np.mean([cost[a, b] > cost[a, c] + cost[c, b] + 1 for a in range(n) for b in range(a) for c in range(b)])


def test_only_metric_squares_keep_the_triangle_inequality():
    assert broken_triangles(square(15, 20, 5)) == 0
    assert broken_triangles(square(15, 20, 5, metric=False)) > 0.1


def test_with_near_few_links_could_be_wired():
    observation = square(200, 200, 50, near=6)
    assert len(observation.network.links) < 200 * 10
    assert np.median(observation.network.link_cost) < 20 < np.median(square(200, 200, 50).network.link_cost)


def test_every_labelled_tree_is_as_likely_as_another():
    rng = np.random.default_rng(0)
    found = Counter(tuple(map(tuple, sorted(uniform_tree(4, rng).tolist()))) for _ in range(8000))
    assert len(found) == 16
    assert min(found.values()) > 400
    assert max(found.values()) < 600


@pytest.mark.parametrize("brokers", [1, 2, 3, 9])
def test_lotteries_are_valid(brokers):
    observation = lottery(brokers, seed=2)
    check_overlay(observation.overlay, observation)
    assert observation == lottery(brokers, seed=2)
    if brokers > 1:
        assert observation.network.link_cost.min() >= 1
        assert observation.network.link_cost.max() <= 50


def test_days_come_back_and_drift():
    still = Days(brokers=20, clients=60, classes=40, windows=24, turnover=0.0, top=50_000)
    loud = [int(window.demand.max()) for window in still.traffic()]
    again = np.array(loud[8:]) / np.array(loud[:16])
    assert np.all((again > 0.9) & (again < 1.1))
    assert max(loud) > 1.5 * min(loud)
    moving = Days(brokers=20, clients=60, classes=40, windows=24, turnover=0.2, top=50_000)

    def known(window):
        return {tuple(window.members[a:b].tolist()) for a, b in zip(window.start[:-1], window.start[1:], strict=True)}

    assert known(still.traffic()[0]) == known(still.traffic()[-1])
    first, last = (known(moving.traffic()[t]) for t in (0, -1))
    assert len(first & last) < len(first) / 2
    for bad in ({"turnover": 2}, {"period": 0}, {"brokers": 0}, {"swing": float("nan")}, {"seed": -1}):
        with pytest.raises(BadParameter, match=next(iter(bad))):
            Days(**bad)
