from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.model import Overlay
from overlace.planners.channels.book import book_of
from overlace.planners.channels.cost import cost
from reproductions.part10.bounds import channels as bound_channels
from reproductions.part10.bounds.least import bound
from reproductions.part10.bounds.pricing import Priced, grow, most_beyond, room_for
from reproductions.part10.bounds.selection import needs_of, select
from reproductions.workloads.publishers import publishers as publishers_of
from tests.channels.common import connections, observed
from tests.oracles.channels import offer, partitions


def subsets(items):
    return chain.from_iterable(combinations(items, k) for k in range(len(items) + 1))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_choice_of_things_brings_more_than_the_one_selected(data):
    things, resources = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 5))
    gain = np.array(data.draw(st.lists(st.integers(0, 9), min_size=things, max_size=things)), dtype=float)
    cost = np.array(data.draw(st.lists(st.integers(0, 9), min_size=resources, max_size=resources)), dtype=float)
    needed = [sorted(data.draw(st.sets(st.integers(0, resources - 1)))) for _ in range(things)]
    start = np.concatenate([[0], np.cumsum([len(each) for each in needed])])
    flat = np.array(list(chain.from_iterable(needed)), dtype=np.int64)

    def profit(chosen):
        return sum(gain[i] for i in chosen) - sum(cost[r] for r in set().union(*(needed[i] for i in chosen)))

    most, taken = select(gain, cost, needs_of(start, flat, resources))
    assert most == pytest.approx(max(map(profit, subsets(range(things)))))
    assert profit(np.flatnonzero(taken).tolist()) == pytest.approx(most)


rows = st.lists(st.tuples(st.integers(1, 7), st.integers(0, 4)), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(rows, st.data())
def test_the_search_leaves_no_cheap_channel_out(types, data):
    """Against all sets of combinations, by the first of each: the one that most messages match."""
    masks, messages = (list(column) for column in zip(*types, strict=True))
    observation = observed([(mask, 9) for mask in masks], messages)
    book, _ = book_of(observation)
    n, t = len(book.combination), np.searchsorted(book.attributes, masks)
    rate = np.bincount(t, weights=messages, minlength=len(book.attributes))
    price = np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(rate), max_size=len(rate))), dtype=float)
    value = np.array(data.draw(st.lists(st.integers(0, 20), min_size=n, max_size=n)), dtype=float)
    weight = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), dtype=float)
    met = [set(book.by_type[book.by_start[a] : book.by_start[a + 1]].tolist()) for a in range(n)]
    matched = np.array([sum(rate[u] for u in each) for each in met])
    rank = np.empty(n, dtype=np.int64)
    rank[np.lexsort((np.arange(n), -matched))] = np.arange(n)

    def beyond(channel):
        types = set().union(*(met[a] for a in channel))
        paid = weight[list(channel)].sum() * sum(rate[u] for u in types) + sum(price[u] for u in types)
        return value[list(channel)].sum() - paid

    most = np.zeros(n)
    for channel in subsets(range(n)):
        if channel:
            first = min(channel, key=lambda a: rank[a])
            most[first] = max(most[first], beyond(channel))
    priced = Priced(weight, rate, price, value, rank)
    found = room_for(200)
    said = most_beyond(book, priced, 10_000, found)
    assert said == pytest.approx(most, abs=1e-6)
    assert (most_beyond(book, priced, 1, room_for(200)) >= most - 1e-6).all()  # however soon it stops
    grow(book, priced, 5, found)
    for row in found.rows[: int(found.total[0])]:
        assert beyond(row[row >= 0].tolist()) > 0


def best_cut(observation, joins):
    offered, best = sorted(set().union(*(offer(mask) for mask, _ in joins))), np.inf
    for cut in partitions(offered):
        channels = {a: i for i, held in enumerate(cut) for a in held}
        if all(met <= limit for met, (_, limit) in zip(connections(joins, channels), joins, strict=True)):
            best = min(best, cost(observation, Overlay(channels=sorted(channels.items()))))
    return best


def test_on_small_cases_the_bound_is_mostly_the_optimum_and_never_above():
    rng, same = np.random.default_rng(7), 0
    for _ in range(25):
        joins = [tuple(row) for row in rng.integers([1, 1], [8, 5], (4, 2)).tolist()]
        observation = observed(joins, rng.integers(0, 6, 4).tolist())
        least, best = bound(observation).received, best_cut(observation, joins)
        assert least <= best
        same += least == best
    assert same >= 20


def test_looking_at_whole_channels_is_stronger_than_at_pairs(monkeypatch):
    observation = publishers_of(150, 7, (3, 4), (6, 10), seed=100)
    whole = bound(observation)
    monkeypatch.setattr(bound_channels, "MOST_PAIRS", 0)
    pairs = bound(observation)
    assert pairs.true_positives == whole.true_positives < pairs.received < whole.received
