"""Shared degrees: nobody has more children over all channels than its degree, and roots have at least one each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import BadParameter
from overlace.planners.dissemination.sharing import share_degrees, split_degree


@st.composite
def memberships(draw):
    """(degree, start, members, rates, roots)"""
    peers = draw(st.integers(1, 6))
    groups = draw(st.lists(st.sets(st.integers(0, peers - 1), min_size=1), min_size=1, max_size=5))
    members = [sorted(group) for group in groups]
    roots = [draw(st.sampled_from(group)) for group in members]
    degree = [draw(st.integers(0, 6)) + roots.count(v) for v in range(peers)]
    rates = [draw(st.sampled_from([0.0, 1.0, 2.0, 10.0])) for _ in members]
    return degree, np.cumsum([0, *map(len, members)]), np.concatenate(members), rates, roots


@given(memberships())
def test_shares_add_up_to_the_degree_and_roots_get_one(given):
    degree, start, members, rates, roots = given
    shares = share_degrees(degree, (start, members), rates, roots)
    assert (shares >= 0).all()
    used = np.bincount(members, weights=shares, minlength=len(degree))
    present = np.isin(np.arange(len(degree)), members)
    assert (used == np.where(present, degree, 0)).all()
    for k, root in enumerate(roots):
        assert shares[start[k] : start[k + 1]][members[start[k] : start[k + 1]] == root] >= 1


def test_a_degree_is_split_by_rates_and_the_largest_remainders_get_what_is_left():
    none = np.zeros(3, dtype=bool)
    assert split_degree(10, np.array([5.0, 3.0, 2.0]), none).tolist() == [5, 3, 2]
    assert split_degree(4, np.array([5.0, 3.0, 2.0]), none).tolist() == [2, 1, 1]
    assert split_degree(2, np.zeros(3), none).tolist() == [1, 1, 0]
    assert split_degree(3, np.array([9.0, 0.5, 0.5]), np.array([False, False, True])).tolist() == [2, 0, 1]


def test_a_channel_that_is_short_gets_a_place_back():
    """Peer 1 would give all it has to the busy channel, and peer 2 of the quiet one had no parent."""
    start, members = [0, 2, 5], [0, 1, 0, 1, 2]
    shares = share_degrees([2, 1, 0], (start, members), [9.0, 1.0], [0, 0])
    assert shares.tolist() == [1, 0, 1, 1, 0]


def test_a_root_of_more_channels_than_it_may_have_children_is_refused():
    with pytest.raises(BadParameter, match="peer 0 is the root of 2 channels and may have 1 children"):
        share_degrees([1, 1], ([0, 2, 4], [0, 1, 0, 1]), [1, 1], [0, 0])
    with pytest.raises(BadParameter, match="channel 1: its root, peer 1, is not among its members"):
        share_degrees([1, 1], ([0, 2, 3], [0, 1, 0]), [1, 1], [0, 1])
    with pytest.raises(BadParameter, match="rates"):
        share_degrees([1, 1], ([0, 2], [0, 1]), [-1], [0])
