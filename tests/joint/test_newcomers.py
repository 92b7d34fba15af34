"""Where a rule sends newcomers: to the broker it names, else the nearest with room, never where nobody may go."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.model import Classes, Flows, Network, Observation, Overlay
from overlace.planners.newcomers import RULES, NewClients, NewcomerRule, Room, rules_of, settle

ROW = Overlay(tree=[[0, 1], [1, 2], [2, 3]])
COST = np.array([1.0, 1.0, 5.0])


def room(sent=(0, 0, 0, 0), cap=np.inf, may=(True,) * 4, area=(0,) * 4, clients=10):
    free, none = np.full(4, np.inf), np.zeros(4)
    return Room(
        np.array(sent, float), np.full(4, float(cap)), none, free, 1.0, 1.0, clients, np.array(may), np.array(area)
    )


def contact_rule(homes):
    return NewcomerRule("first-contact", np.arange(len(homes)), np.array(homes))


def settled(rule, room, contact, home, client=None, region=None):
    n = len(home)
    client = np.arange(100, 100 + n) if client is None else np.array(client)
    region = np.full(n, -1) if region is None else np.array(region)
    return settle(rule, room, ROW, COST, NewClients(np.array(contact), np.array(home), region, client)).tolist()


def test_it_goes_to_whom_it_met_first_and_is_the_contact_of_later_ones():
    rule = contact_rule([2, 3])
    assert settled(rule, room(), [0, 1, -1, 100], [0, 0, 1, 0]) == [2, 3, 1, 2]
    assert settled(rule, room(), [0], [-1]) == [-1]  # the log does not show it: it is not counted


def test_a_full_broker_sends_it_to_the_nearest_with_room_and_limits_grow_with_the_clients():
    rule = contact_rule([2])
    assert settled(rule, room(sent=(0, 0, 9.5, 0), cap=9), [0], [0]) == [1]  # 1 away, where 3 is 5 away
    assert settled(rule, room(sent=(0, 9.5, 9.5, 0), cap=9), [0], [3]) == [0]
    # of a hundred clients, the limit of 9 is 9.09 with one more, then 9.18: ten are too many, as they are not of ten
    assert settled(rule, room(sent=(0, 0, 8.0, 0), cap=9, clients=100), [0, 0, 0], [0, 0, 0]) == [2, 1, 1]
    assert settled(rule, room(sent=(0, 0, 8.0, 0), cap=9, clients=10), [0, 0, 0], [0, 0, 0]) == [2, 2, 2]


def test_nobody_leaves_its_area_or_a_broker_that_keeps_its_clients_or_goes_to_one():
    rule = contact_rule([3])
    assert settled(rule, room(area=(0, 0, 1, 1)), [0, 0], [0, 2]) == [1, 3]
    assert settled(rule, room(may=(True, True, True, False)), [0], [0]) == [2]
    assert settled(rule, room(may=(False, True, True, True)), [0], [0]) == [0]


def observation(client_region=()):
    """Two groups that talk among themselves: 0, 1, 2 at broker 0 and 1, and 3, 4, 5 at 2 and 3."""
    talk = {(0, 1): 9, (1, 2): 8, (3, 4): 7, (4, 5): 6}
    pairs = np.array(sorted(talk))
    said = np.array([talk[tuple(p)] for p in pairs.tolist()])
    return Observation(
        flows=Flows(*pairs.T, said), classes=Classes.of(sorted(talk), said.tolist()), clients=6,
        network=Network(region=[0, 0, 1, 1], client_region=client_region),
        overlay=Overlay(placement=[[0, 0], [1, 0], [2, 1], [3, 2], [4, 3], [5, 3]], tree=ROW.tree),
    )  # fmt: skip


def test_a_community_and_a_region_are_where_most_of_their_traffic_is():
    found = {rule.name: rule for rule in rules_of(observation(), observation().overlay)}
    assert list(found) == list(RULES)
    community = found["community"]
    assert community.broker[community.group].tolist() == [0, 0, 0, 3, 3, 3]
    assert settled(community, room(), [2, 3, 100], [3, 0, 3]) == [
        0,
        3,
        0,
    ]  # one it met is of its community from then on
    assert found["region"].broker.tolist() == [0, 3]
    assert settled(found["region"], room(), [-1, -1], [1, 2], region=[0, 1]) == [0, 3]
    told = rules_of(observation([1, 1, 1, 0, 0, 0]), observation().overlay, ["region"])[0]
    assert told.broker.tolist() == [3, 0]


def test_a_rule_that_says_nothing_is_none():
    alone = observation()
    apart = Observation(network=Network(region=range(4)), overlay=alone.overlay, clients=6)
    assert [rule.name for rule in rules_of(apart, apart.overlay)] == ["first-contact"]


@given(
    st.lists(st.tuples(st.integers(-1, 9), st.integers(-1, 3)), max_size=12),
    st.lists(st.integers(0, 3), min_size=10, max_size=10), st.floats(0, 3), st.sampled_from([RULES[0], RULES[1]]),
)  # fmt: skip
def test_where_there_is_no_room_nobody_comes_and_who_is_not_shown_is_nowhere(newcomers, homes, cap, name):
    rule = NewcomerRule(name, np.arange(10), np.array(homes))
    contact, home = ([each[i] for each in newcomers] for i in (0, 1))
    found = settled(rule, room(cap=cap), contact, home) if newcomers else []
    load = np.zeros(4)
    for i, (there, here) in enumerate(zip(found, home, strict=True)):
        assert (there == -1) == (here == -1)
        if there >= 0:
            load[there] += 1
            if there != here:
                assert load[there] <= cap * (10 + i + 1) / 10 + 1e-9
    again = settled(rule, room(cap=cap), contact, home) if newcomers else []
    assert again == found


@pytest.mark.parametrize("name", RULES)
def test_each_rule_is_known_by_its_name(name):
    assert [rule.name for rule in rules_of(observation(), observation().overlay, [name])] == [name]
