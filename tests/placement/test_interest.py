from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import BadParameter
from overlace.planners.placement.baselines import Interest, interests_of, k_means, k_medoids, unlike
from overlace.planners.placement.leiden import Leiden
from overlace.planners.placement.problem import problem_of
from overlace.testing import check_planner
from overlace.workloads.small_world import SmallWorld
from tests.placement.newcomer import home_for
from tests.placement.observed import placements


@settings(max_examples=25)
@given(placements(), st.sampled_from(["k-means", "k-medoids"]))
def test_the_laws_hold(observation, method):
    check_planner(Interest(method=method), observation, 3)


@given(st.lists(st.sets(st.integers(0, 6), max_size=5), min_size=2, max_size=2))
def test_equation_6_is_the_shared_part_of_the_union(sets):
    a, b = map(sorted, sets)
    start, topic = np.array([0, len(a), len(a) + len(b)]), np.array([*a, *b], dtype=np.int64)
    union = set(a) | set(b)
    expected = 1 - len(set(a) & set(b)) / len(union) if union else 0.0
    assert unlike(start, topic, 0, 1) == pytest.approx(expected)


@pytest.mark.parametrize("method", ["k-means", "k-medoids"])
def test_three_kinds_of_interests_come_back_as_three_groups(method):
    topics = np.repeat(np.arange(3) * 4, 10)[:, None] + np.array([0, 1, 2])
    start, topic, who = np.arange(0, 91, 3), topics.reshape(-1), np.arange(30)
    begin = np.array([0, 10, 20])
    if method == "k-means":
        groups, spread = k_means(start, topic, 12, who, begin, 20)
    else:
        groups, spread = k_medoids(start, topic, who, begin, np.arange(30), 20, 100)
    assert groups.tolist() == np.repeat([0, 1, 2], 10).tolist()
    assert spread == pytest.approx(0)


def test_without_subscriptions_the_senders_one_hears_are_the_interests():
    observation = SmallWorld(messages=500, clients=40).observation()
    without = replace(observation, interests=np.empty((0, 2), np.int64), topics=0)
    start, sender, topics = interests_of(without)
    assert topics == 40
    heard = {(int(r), int(s)) for s, r in zip(observation.flows.sender, observation.flows.receiver, strict=True)}
    assert {(c, int(s)) for c in range(40) for s in sender[start[c] : start[c + 1]]} == heard


def test_parameters_out_of_range_are_refused():
    with pytest.raises(BadParameter, match="rounds"):
        Interest(rounds=0)


def test_a_newcomer_goes_near_those_it_will_hear():
    observation = SmallWorld(messages=4000, clients=120, m=0).observation()
    home = observation.overlay.homes(120)
    chosen = home_for([50], observation, most=100.0)  # hears what the subscribers of client 50 hear
    near = {int(home[c]) for c in range(44, 57)}
    region = observation.network.region
    assert region[chosen] in {region[b] for b in near}
    idle = np.argsort(np.bincount(home, weights=observation.sent, minlength=len(region)) + 1e9 * (region < 0))[0]
    assert home_for([], observation) == idle
    with pytest.raises(BadParameter, match="most"):
        home_for([1], observation, most=0)


def test_newcomers_are_nearer_to_their_senders_than_at_a_random_broker():
    workload = SmallWorld(messages=8000, clients=200)
    observation = workload.observation()
    planned = replace(observation, overlay=Leiden(effort=0).solve(observation).after)
    problem = problem_of(planned)
    flows, ours, anywhere = observation.flows, 0.0, 0.0
    for c in range(0, 200, 10):
        topics = observation.interests[observation.interests[:, 0] == c, 1]
        known = (flows.sender != c) & (flows.receiver != c)
        unseen = replace(planned, flows=type(flows)(flows.sender[known], flows.receiver[known], flows.messages[known]))
        unseen = replace(unseen, interests=observation.interests[observation.interests[:, 0] != c])
        mine = flows.receiver == c
        way = problem.apart[:, problem.origin[flows.sender[mine]]] @ flows.messages[mine]
        ours += way[home_for(topics, unseen)]
        anywhere += way[problem.may].mean()
    assert ours < 0.8 * anywhere
