import numpy as np
import pytest

from overlace.errors import BadObservation, NotObserved
from overlace.model import Observation, Offers, Overlay, Requests
from overlace.planners.channels.anneal import Anneal
from overlace.planners.channels.book import MOST_CHANNEL
from overlace.planners.channels.cost import cost
from overlace.planners.channels.strategies import Strategy1
from overlace.planners.channels.strategy4 import Strategy4
from reproductions.part10.bounds.least import bound
from tests.channels.common import LIMITED, ONLINE, partition


@pytest.mark.parametrize("planner", [*ONLINE, Anneal(sweeps=5)], ids=repr)
class TestBadInput:
    def test_no_offers(self, planner):
        with pytest.raises(NotObserved, match="advertisements"):
            planner.solve(Observation())

    def test_a_limit_of_0_names_the_publisher_and_the_number(self, planner):
        with pytest.raises(BadObservation, match=r"limit of c7 \(row 1\) is 0"):
            planner.solve(Observation(offers=Offers([3, 7], [1, 2], [1, 0])))

    def test_an_empty_advertisement(self, planner):
        with pytest.raises(BadObservation, match=r"c7 \(row 1\) holds mask 0"):
            planner.solve(Observation(offers=Offers([3, 7], [1, 0])))

    def test_more_than_63_attributes(self, planner):
        with pytest.raises(BadObservation, match=r"c7 \(row 0\) holds mask -\d+; expected 1 to 22 of at most 63"):
            planner.solve(Observation(offers=Offers([7], [-(1 << 63) + 5])))

    def test_an_advertisement_too_large_to_list(self, planner):
        with pytest.raises(BadObservation, match=r"c7 \(row 0\) holds 40 attributes"):
            planner.solve(Observation(offers=Offers([7], [(1 << 40) - 1])))

    def test_a_negative_number_of_messages(self, planner):
        with pytest.raises(BadObservation, match=r"messages of c7 \(row 1\) is -2"):
            planner.solve(Observation(offers=Offers([3, 7], [1, 2], messages=[1, -2])))

    def test_messages_too_many_to_count(self, planner):
        offers = Offers([3, 7, 8], [7, 14, 11], [2, 3, 2], [2**60, 2**61, 2**59])
        with pytest.raises(BadObservation, match=r"c7 \(row 1\) publishes most, 2,305,843,009,213,693,952"):
            planner.solve(Observation(offers=offers))

    @pytest.mark.parametrize("mask", [0, -5])
    def test_a_request_for_no_attribute(self, planner, mask):
        seen = Observation(offers=Offers([3, 7], [1, 2]), requests=Requests([9, 5], [1, mask]))
        with pytest.raises(BadObservation, match=rf"c5 \(row 1\) asks for mask {mask}; expected at least one"):
            planner.solve(seen)

    @pytest.mark.parametrize(
        ("channels", "says"),
        [
            ([[1, 0], [1, 1], [3, 0]], "combination a0 is in two channels, 0 and 1"),
            ([[1, -1], [3, 0]], "combination 1 is in channel -1"),
            ([[0, 2], [3, 0]], "combination 0 is in channel 2"),
            ([[1, 2**63 - 1]], "combination 1 is in channel 9223372036854775807"),
        ],
    )
    def test_channels_that_cannot_be(self, planner, channels, says):
        observation = Observation(offers=Offers([0, 1], [3, 6], [2, 2]), overlay=Overlay(channels=channels))
        with pytest.raises(BadObservation, match=says):
            planner.solve(observation)


@pytest.mark.parametrize("use", [Strategy1().solve, bound, lambda seen: cost(seen, Overlay())])
def test_advertisements_that_are_too_large_together_are_refused_before_they_are_listed(use):
    masks = [((1 << 20) - 1) << shift for shift in range(9)]
    with pytest.raises(BadObservation, match=r"9,437,175 combinations .* that of c5 \(row 0\) with 20 attributes"):
        use(Observation(offers=Offers(np.arange(9) + 5, masks)))


def test_a_row_of_the_channels_that_is_given_twice_is_one_row():
    offers = Offers([0, 1], [3, 6], [2, 2])
    once = [[1, 0], [2, 1], [3, 0], [4, 1], [6, 1]]
    seen = [Observation(offers=offers, overlay=Overlay(channels=rows)) for rows in (once, once + once[:2])]
    plans = [Strategy4().solve(each) for each in seen]
    assert plans[0].changes == plans[1].changes
    assert plans[0].after == plans[1].after


@pytest.mark.parametrize("least", [0, 2**61])
def test_the_largest_id_that_an_observed_channel_may_have_leaves_room_for_new_ones(least):
    """The observed ids are kept, and what is split off is numbered after the largest."""
    offers = Offers([0, 1, 2], [0b011, 0b101, 0b110])
    seen = Observation(offers=offers, overlay=Overlay(channels=[[1, least], [2, MOST_CHANNEL], [3, MOST_CHANNEL]]))
    ids = Strategy1().solve(seen).after.channels[:, 1]
    assert {least, MOST_CHANNEL} <= set(ids.tolist())
    assert sorted(set(ids[ids > MOST_CHANNEL].tolist())) == [MOST_CHANNEL + 1 + i for i in range(4)]


def test_a_search_where_nothing_is_received_ends_at_once():
    offers = Offers([0, 1], [0b011, 0b110], messages=[0, 5])
    seen = Observation(offers=offers, requests=Requests([5], [1]))
    assert cost(seen, Anneal().solve(seen).after) == 0


@pytest.mark.parametrize("planner", LIMITED, ids=repr)
def test_a_client_with_two_advertisements_plans_as_two_clients(planner):
    """R11: c0 advertises AB and CD with one connection each, so it may hold two channels, but not three."""
    rows = ([0b0011, 0b1100, 0b0110], [1, 1, 2])
    one, two = (planner.solve(Observation(offers=Offers(who, *rows))).after for who in ([0, 0, 1], [0, 2, 1]))
    assert one == two
    for mask, limit in zip(*rows, strict=True):
        assert len({channel for a, channel in one.channels.tolist() if a & mask == a}) <= limit
    alone = planner.solve(Observation(offers=Offers([0, 0], [0b0011, 0b1100], [1, 1]))).after
    assert partition(alone.channels) == {frozenset({1, 2, 3}), frozenset({4, 8, 12})}
