from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from overlace.errors import BadObservation, BadParameter, NotObserved
from overlace.model import Observation, Overlay
from overlace.planners.placement.community import Community
from overlace.planners.placement.modularity import merges
from overlace.planners.placement.problem import problem_of
from overlace.testing import check_planner, three_in_a_row
from overlace.workloads.random_clients import RandomClients
from overlace.workloads.small_world import SmallWorld
from tests.placement.observed import placements


def moved(observation, plan):
    region = observation.network.region
    old, new = (each.homes(observation.clients) for each in (plan.before, plan.after))
    return int((region[old] != region[new]).sum())


@settings(max_examples=40)
@given(placements())
def test_the_laws_hold_and_nobody_moves_inside_a_region_or_to_the_backbone(observation):
    plan = check_planner(Community(), observation)
    old, new = (each.homes(observation.clients) for each in (plan.before, plan.after))
    region = observation.network.region
    assert ((old == new) | (region[old] != region[new])).all()
    assert (region[new] >= 0).all()


def test_it_saves_hops_on_a_small_world_and_redivision_only_spares_moves():
    observation = SmallWorld(messages=4000).observation()
    whole, cut = Community(redivide=False).solve(observation), Community().solve(observation)
    start = Community().cost(observation, observation.overlay)
    assert whole.gain > 0.4 * start
    assert moved(observation, cut) <= moved(observation, whole)


def test_each_kept_round_spares_relatively_more_moves_than_it_loses_hops():
    """R6."""
    observation = RandomClients(messages=4000, seed=1).observation()
    problem = problem_of(observation)
    made, _ = merges(problem.ties)
    kept = Community().rounds(observation, problem, made, lambda share, what: None)
    assert [r.communities for r in kept] == sorted({r.communities for r in kept})
    for a, b in zip(kept, kept[1:], strict=False):
        assert (b.hops - a.hops) / a.hops <= (a.moves - b.moves) / a.moves
    assert kept[-1].moves > 0


def test_access_costs_are_no_hops_and_change_no_round():
    """R6 weighs hops against moves."""
    observation = RandomClients(messages=4000, seed=1).observation()
    network = observation.network
    table = np.arange(network.brokers, dtype=np.float64).reshape(1, -1)
    far = replace(observation, network=replace(network, client_region=np.zeros(200, np.int64), access_cost=table))
    assert Community().solve(far).after == Community().solve(observation).after


def test_a_concentrated_start_uses_the_empty_regions():
    """R4."""
    observation = SmallWorld(messages=4000, start="concentrated").observation()
    region = observation.network.region
    assert len(set(region[observation.overlay.homes(200)].tolist())) == 3
    after = Community().solve(observation).after.homes(200)
    assert len(set(region[after].tolist())) > 3


def test_permuting_the_flows_changes_nothing():
    observation = RandomClients(messages=2000).observation()
    f, order = observation.flows, np.random.default_rng(0).permutation(len(observation.flows.sender))
    shuffled = replace(
        f, sender=f.sender[order], receiver=f.receiver[order], messages=f.messages[order], bytes=f.bytes[order]
    )
    other = Community().solve(replace(observation, flows=shuffled))
    assert other.after == Community().solve(observation).after


def test_what_cannot_be_placed_is_said():
    with pytest.raises(NotObserved, match="no flows"):
        Community().solve(Observation())
    with pytest.raises(NotObserved, match="sessions"):
        Community().solve(replace(three_in_a_row(), overlay=Overlay(tree=[[0, 1], [1, 2]])))
    bare = replace(three_in_a_row(), network=replace(three_in_a_row().network, region=[-1, -1, -1]))
    with pytest.raises(BadObservation, match="all 3 brokers are of the backbone"):
        Community().solve(bare)
    with pytest.raises(BadParameter, match="overload"):
        Community(overload=0)


def test_by_all_brokers_the_share_of_a_region_is_smaller_by_the_backbone():
    """R10: 1.2 times the share of all brokers is as much as a smaller multiple of the share of the regions' own."""
    observation = SmallWorld(messages=3000, clients=60).observation()
    region = observation.network.region
    printed = Community(brokers="all").solve(observation)
    same = Community(overload=1.2 * int((region >= 0).sum()) / len(region)).solve(observation)
    assert printed.after == same.after
    assert (region < 0).any()
