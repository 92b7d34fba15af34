from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import BadParameter
from overlace.model import Observation, Offers, Overlay, Requests
from overlace.planners.channels.anneal import Anneal
from overlace.planners.channels.cost import cost
from overlace.planners.channels.strategies import Strategy1, Strategy2, Strategy3, Strategy31
from overlace.planners.channels.strategy4 import Strategy4
from overlace.replay.delivery import delivery
from reproductions.part10.bounds.least import bound
from reproductions.workloads.publishers import publishers as publishers_of
from tests.channels.common import LIMITED, connections, observed, partition, publishers
from tests.oracles.channels import Literal, offer, partitions


@pytest.mark.parametrize(
    ("planner", "literal"),
    [
        (Strategy1(), Literal.join1),
        (Strategy2(), Literal.join2),
        (Strategy3(), Literal.join3),
        (Strategy3(ties="least"), Literal.join3),
        (Strategy3(ties="newest"), Literal.join3),
        (Strategy31(), Literal.join31),
        (Strategy31(ties="least"), Literal.join31),
        (Strategy31(ties="newest"), Literal.join31),
    ],
)
@settings(max_examples=40)
@given(publishers)
def test_after_every_join_the_channels_are_those_of_the_pseudocode(planner, literal, joins):
    online, slow = planner.online(observed(joins)), Literal()
    for row, publisher in enumerate(joins):
        online.join(row)
        literal(slow, publisher, slow.descending(publisher[0], getattr(planner, "ties", "oldest")))
        assert partition(online.pairs) == slow.partition()


@pytest.mark.parametrize(("planner", "literal"), [(Strategy3, Literal.join3), (Strategy31, Literal.join31)])
@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(1, 15), st.integers(1, 5)), min_size=2, max_size=7), st.integers(0, 99))
def test_random_order_does_what_the_pseudocode_does_in_some_order(planner, literal, joins, seed):
    online = planner("random").online(observed(joins), seed)
    for row, publisher in enumerate(joins):
        before = partition(online.pairs)
        met = [held for held in before if held & offer(publisher[0])][:6]
        others = [held for held in before if held not in met]
        if sum(bool(held & offer(publisher[0])) for held in others):
            online.join(row)
            continue
        possible = []
        for order in permutations(met):
            slow = Literal()
            slow.publishers = list(joins[:row])
            for held in [*order, *others]:
                slow.create(held)
            literal(slow, publisher, list(slow.channels))
            possible.append(slow.partition())
        online.join(row)
        assert partition(online.pairs) in possible


@settings(max_examples=40)
@given(publishers, st.randoms(use_true_random=False))
def test_strategy_1_does_not_depend_on_the_order_of_joins(joins, random):
    other = random.sample(joins, len(joins))
    assert Strategy1().solve(observed(joins)).after == Strategy1().solve(observed(other)).after


@settings(max_examples=25)
@given(publishers, st.randoms(use_true_random=False))
def test_strategy_2_does_not_depend_on_the_order_of_visiting(joins, random):
    one, other = Literal(), Literal()
    for publisher in joins:
        one.join2(publisher, one.descending(publisher[0]))
        other.join2(publisher, random.sample(sorted(other.channels), len(other.channels)))
    assert one.partition() == other.partition() == partition(Strategy2().solve(observed(joins)).after.channels)


@settings(max_examples=25)
@given(st.lists(st.integers(1, 31), min_size=1, max_size=14))
def test_with_enough_connections_strategies_3_and_3_1_are_strategy_1(masks):
    """One more than there are combinations, since A3:11 and A4:11 keep one back (R9)."""
    joins = [(mask, 2 ** mask.bit_count()) for mask in masks]
    wanted = Strategy1().solve(observed(joins)).after
    for planner in (Strategy3(), Strategy3("random"), Strategy31(), Strategy31("random")):
        assert planner.solve(observed(joins)).after == wanted


@settings(max_examples=30)
@given(publishers)
def test_equal_advertisements_are_one_type_with_the_least_limit(joins):
    book_rows = Strategy3().online(observed(joins + joins))
    assert len(book_rows.book.attributes) == len({mask for mask, _ in joins})
    book_rows.join(0, 2 * len(joins))
    least = {mask: min(limit for other, limit in joins if other == mask) for mask, _ in joins}
    assert book_rows.now.limit.tolist() == [least[mask] for mask in sorted(least)]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 7), st.integers(1, 6), st.integers(0, 5)), min_size=1, max_size=6),
    st.lists(st.integers(1, 7), max_size=8),
)
def test_the_bound_is_below_every_cut_within_the_limits_and_strategies_are_not_below_it(joins, wanted):
    masks, limits, messages = zip(*joins, strict=True)
    observation = Observation(
        offers=Offers(range(len(masks)), masks, limits, messages), requests=Requests(range(len(wanted)), wanted)
    )
    lowest = bound(observation)
    offered = sorted(set().union(*map(offer, masks)))
    best = np.inf
    for cut in partitions(offered):
        channels = {a: i for i, held in enumerate(cut) for a in held}
        pairs = list(zip(masks, limits, strict=True))
        if all(met <= limit for met, (_, limit) in zip(connections(pairs, channels), pairs, strict=True)):
            best = min(best, cost(observation, Overlay(channels=sorted(channels.items()))))
    assert lowest.received <= best
    for planner in (*LIMITED, Anneal(sweeps=20)):
        after = planner.solve(observation).after
        assert cost(observation, after) >= best
        metrics = delivery(observation, after)
        assert metrics.of("true_positives") == lowest.true_positives
        assert metrics.of("false_positive_rate") >= lowest.rate - 1e-12


def test_one_connection_per_combination_is_not_quite_enough():
    """R9: the newcomer of A has 2^1 - 1 = 1 connection, and A3:11 wants more than one before it splits."""
    joins = [(0b11, 3), (0b01, 1)]
    assert partition(Strategy3().solve(observed(joins)).after.channels) == {frozenset({1, 2, 3})}
    assert len(partition(Strategy1().solve(observed(joins)).after.channels)) == 2


def test_on_the_setup_of_the_thesis_strategy_4_lies_between_the_offline_search_and_strategy_3_1():
    observation = publishers_of(300, 10, (3, 4), (11, 15), seed=1)
    costs = [cost(observation, each.solve(observation).after) for each in (Anneal(500), Strategy4(), Strategy31())]
    assert bound(observation).received <= costs[0] <= 1.02 * costs[1] < 0.6 * costs[2]


def test_strategy_4_uses_rates_and_requests_where_they_are_known():
    known = publishers_of(150, 7, (2, 3), (4, 6), subscribers=400, seed=2)
    blind = Observation(offers=Offers(known.offers.publisher, known.offers.attributes, known.offers.connections))
    knowing, not_knowing = (cost(known, Strategy4().solve(each).after) for each in (known, blind))
    assert knowing < 0.9 * not_knowing


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Strategy3(order="up"), 'order is "up"'),
        (lambda: Strategy31(ties="none"), 'ties is "none"'),
        (lambda: Strategy4(effort=-1), "effort is -1"),
        (lambda: Anneal(sweeps=-1), "sweeps is -1"),
        (lambda: Anneal(heat=0.0), "heat is 0.0"),
    ],
)
def test_parameters_out_of_range_are_refused(make, says):
    with pytest.raises(BadParameter, match=says):
        make()
