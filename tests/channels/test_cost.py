from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import BadObservation
from overlace.model import Observation, Offers, Overlay, Requests
from overlace.planners.channels.cost import cost
from overlace.testing import three_publishers


def sub(mask):
    return {s for s in range(1, mask + 1) if s & mask == s}


def by_hand(observation, channels):
    """Publish every message, deliver it to everybody in every channel it goes to, and count."""
    offers = list(zip(observation.offers.attributes.tolist(), observation.offers.messages.tolist(), strict=True))
    offered = set().union(*(sub(mask) for mask, _ in offers)) if offers else set()
    wanted = observation.requests.attributes.tolist() or sorted(offered)
    received = 0
    for mask, messages in offers:
        reached = {channels.get(combination, "rest") for combination in sub(mask)}
        received += messages * sum(channels.get(combination, "rest") in reached for combination in wanted)
    return received


@given(
    st.lists(st.tuples(st.integers(1, 31), st.integers(1, 5)), max_size=6),
    st.dictionaries(st.integers(1, 31), st.integers(0, 4)),
    st.lists(st.integers(1, 31), max_size=6),
)
def test_the_cost_is_what_subscribers_receive(offers, channels, wanted):
    masks, messages = (list(each) for each in zip(*offers, strict=True)) if offers else ([], [])
    observation = Observation(
        offers=Offers(range(len(masks)), masks, messages=messages),
        requests=Requests(range(len(wanted)), wanted),
    )
    overlay = Overlay(channels=sorted(channels.items()))
    assert cost(observation, overlay) == by_hand(observation, channels)


def test_without_channels_everybody_receives_everything():
    observation = three_publishers()
    assert cost(observation, Overlay()) == 3 * 7  # A B AB C AC D BD, three messages


def test_a_channel_for_each_combination_brings_only_what_is_wanted():
    combinations = [1, 2, 3, 4, 5, 8, 10]
    overlay = Overlay(channels=[(c, i) for i, c in enumerate(combinations)])
    assert cost(three_publishers(), overlay) == 9  # each publisher reaches its own three


@given(st.lists(st.integers(1, 2**62), max_size=4))
def test_equal_advertisements_count_as_often_as_they_are_made(masks):
    few = [m & 0b111_0000_0000_0001 or 1 for m in masks]
    once = Observation(offers=Offers(range(len(few)), few, messages=np.full(len(few), 2)))
    twice = Observation(offers=Offers(range(2 * len(few)), few + few))
    assert cost(once, Overlay()) == cost(twice, Overlay())


@pytest.mark.parametrize(("mask", "says"), [(0, "c7 \\(row 0\\) holds mask 0"), ((1 << 40) - 1, "holds 40 attributes")])
def test_an_advertisement_that_cannot_be_listed_is_refused(mask, says):
    with pytest.raises(BadObservation, match=says):
        cost(Observation(offers=Offers([7], [mask])), Overlay())


def test_requests_replace_the_one_subscriber_per_combination():
    observation = replace(three_publishers(), requests=Requests([0, 1], [8, 8]))
    assert cost(observation, Overlay(channels=[[8, 0]])) == 2
