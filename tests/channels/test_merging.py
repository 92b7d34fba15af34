import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.model import Overlay
from overlace.planners.channels import merging
from overlace.planners.channels.anneal import Anneal
from overlace.planners.channels.book import book_of
from overlace.planners.channels.cost import cost
from overlace.planners.channels.merging import merge_by_prices, merge_while_it_saves, saved_by_merge
from overlace.planners.channels.strategy4 import Strategy4
from tests.channels.common import connections, observed, partition, publishers
from tests.oracles.channels import offer


def cut_of(joins, messages=()):
    observation = observed(joins, messages)
    book, _ = book_of(observation)
    channel = merge_by_prices(observation, book, np.arange(len(book.combination)))
    return observation, Overlay(channels=np.column_stack([book.combination, channel]))


@settings(max_examples=40)
@given(publishers)
def test_the_cut_covers_all_that_is_offered_and_keeps_every_limit(joins):
    _, cut = cut_of(joins)
    channels = dict(cut.channels.tolist())
    assert set(channels) == set().union(*(offer(mask) for mask, _ in joins))
    for met, (_, limit) in zip(connections(joins, channels), joins, strict=True):
        assert met <= limit


@settings(max_examples=25)
@given(st.lists(st.integers(1, 31), min_size=1, max_size=10))
def test_who_has_connections_for_all_it_offers_gets_nothing_that_was_not_asked_for(masks):
    observation, cut = cut_of([(mask, 2 ** mask.bit_count() - 1) for mask in masks])
    wanted = sum(len(offer(mask)) for mask in masks)
    assert cost(observation, cut) == wanted


def test_with_one_connection_each_those_who_share_something_share_one_channel():
    _, cut = cut_of([(0b00011, 1), (0b00110, 1), (0b11000, 1)])
    assert partition(cut.channels) == {frozenset(offer(0b011) | offer(0b110)), frozenset(offer(0b11000))}


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 15), st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=6),
    st.data(),
)
def test_what_a_merge_is_said_to_save_is_what_it_saves(types, data):
    """The prices of the types in both channels, less what D grows by."""
    masks, messages, prices = (np.array(column) for column in zip(*types, strict=True))
    observation = observed([(mask, 99) for mask in masks.tolist()], messages)
    offered = sorted(set().union(*map(offer, masks.tolist())))
    side = data.draw(st.lists(st.integers(0, 2), min_size=len(offered), max_size=len(offered)))
    apart = dict(zip(offered, side, strict=True))
    together = {a: min(c, 1) for a, c in apart.items()}
    held = [{a for a in offered if apart[a] == c} for c in (1, 2)]
    meets = np.array([[bool(offer(mask) & each) for mask in masks.tolist()] for each in held])
    rate = (meets * messages).sum(axis=1).astype(float)
    subscribers = np.array([float(len(each)) for each in held])
    said = saved_by_merge(meets, subscribers, rate, messages.astype(float), prices.astype(float), 0, 1)
    before, after = (cost(observation, Overlay(channels=sorted(cut.items()))) for cut in (apart, together))
    assert said == prices[meets.all(axis=0)].sum() + before - after


def test_dear_connections_make_one_channel_and_cheap_ones_none():
    meets = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]], dtype=np.bool_)
    ones = np.ones(3)
    for price, count in ((0.0, [2, 2, 2]), (100.0, [1, 1, 1])):
        into, connected = merge_while_it_saves(meets, ones, ones, np.full(3, price))
        assert connected.tolist() == count
        assert len(set(into.tolist())) == (3 if price == 0 else 1)


@settings(max_examples=25)
@given(publishers, st.integers(0, 9), st.booleans())
def test_the_offline_search_is_never_worse_than_strategy_4_or_than_merging(joins, seed, few):
    observation, cut = cut_of(joins)
    with pytest.MonkeyPatch.context() as patch:
        if not few:
            patch.setattr(merging, "MOST_WORK", 0)
        found = cost(observation, Anneal(sweeps=10).solve(observation, seed).after)
    assert found <= cost(observation, Strategy4().solve(observation, seed).after)
    if few:
        assert found <= cost(observation, cut)
