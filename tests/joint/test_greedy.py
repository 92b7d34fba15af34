"""The greedy way to compare with: every move is the one that saves most, and limits hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.planners.joint.joint import Joint
from tests.strategies import observations


def some(observation):
    return len(observation.classes) > 0


def best_single_move(planner, observation, overlay):
    """By brute force: the least cost that moving one more client reaches, and who moves."""
    homes, best = overlay.homes(observation.clients), (planner.cost(observation, overlay), -1, -1)
    for c in range(observation.clients):
        for b in range(observation.network.brokers):
            if observation.network.region[b] < 0:  # the backbone holds no client
                continue
            if homes[c] >= 0 and b != homes[c] and homes[c] == observation.overlay.homes(observation.clients)[c]:
                placed = overlay.placement.copy()
                placed[placed[:, 0] == c, 1] = b
                cost = planner.cost(observation, type(overlay)(placement=placed, tree=overlay.tree))
                best = min(best, (cost, c, b))
    return best


@given(observations(least=1).filter(some), st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_without_limits_each_move_is_the_best_that_one_client_can_do(observation, moves):
    planner = Joint(sent_cap=None, handled_cap=None)
    tree, costs = observation.overlay.tree, []
    for k in range(moves + 1):
        after = planner.greedy(observation, tree, k)
        before = observation.overlay.homes(observation.clients)
        assert (after.homes(observation.clients) != before).sum() <= k
        assert (after.tree == tree).all()
        costs.append(planner.cost(observation, after))
    for k in range(moves):
        reached, _, _ = best_single_move(planner, observation, planner.greedy(observation, tree, k))
        assert costs[k + 1] == pytest.approx(min(reached, costs[k]))


@given(observations(least=1).filter(some))
@settings(max_examples=40, deadline=None)
def test_limits_hold_that_held_before(observation):
    planner = Joint()
    after = planner.greedy(observation, observation.overlay.tree, 99)
    placed = observation.overlay.homes(observation.clients) >= 0
    weights, brokers = observation.sent[placed], observation.network.brokers
    sent = [
        np.bincount(each.homes(observation.clients)[placed], weights=weights, minlength=brokers)
        for each in (observation.overlay, after)
    ]
    limits = planner.problem(observation)
    assert (sent[1] <= np.maximum(limits.sent_goal[: len(sent[1])], sent[0]) + 1e-6).all()
    assert planner.cost(observation, after) <= planner.cost(observation, observation.overlay) + 1e-9
