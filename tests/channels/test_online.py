from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.model import Observation, Offers, Overlay, Requests
from overlace.planners.channels.online import connections_of
from overlace.planners.channels.strategies import Strategy1, Strategy2, Strategy3, Strategy31
from overlace.planners.channels.strategy4 import Strategy4
from overlace.replay.delivery import delivery
from tests.channels.common import LIMITED, ONLINE, observed, partition, publishers
from tests.oracles.channels import Literal, offer

LITERAL = {
    Strategy1(): Literal.join1, Strategy2(): Literal.join2, Strategy3(): Literal.join3, Strategy31(): Literal.join31,
}  # fmt: skip


@settings(max_examples=30)
@given(st.data())
@pytest.mark.parametrize("planner", ONLINE, ids=repr)
def test_after_every_join_and_leave_all_is_covered_and_every_limit_holds(planner, data):
    joins = data.draw(publishers)
    messages = data.draw(st.lists(st.sampled_from([0, 1, 5, 1000]), min_size=len(joins), max_size=len(joins)))
    wanted = data.draw(st.lists(st.integers(1, 40), max_size=6))
    observation = observed(joins, messages=messages, requests=Requests(range(len(wanted)), wanted))
    online, present = planner.online(observation, seed=3), []
    slow, literal = Literal(), LITERAL.get(planner)
    types = np.searchsorted(online.book.attributes, observation.offers.attributes)
    todo = list(range(len(joins)))
    while todo:
        if present and data.draw(st.integers(0, 2)) == 0:
            row = present.pop(data.draw(st.integers(0, len(present) - 1)))
            online.leave(row)
            slow.leave(joins[row])
            todo += [row] if data.draw(st.booleans()) and len(todo) < 5 else []
        else:
            present.append(todo.pop(0))
            online.join(present[-1])
            if literal:
                publisher = joins[present[-1]]
                literal(slow, publisher, slow.descending(publisher[0]))
            else:
                slow.publishers.append(joins[present[-1]])
        offered = set().union(*(offer(joins[row][0]) for row in present))
        channels = partition(online.pairs)
        assert set().union(*channels) == offered
        assert len(channels) == online.channels
        assert sum(map(len, channels)) == len(offered)  # (3.1)
        for row in present:
            met = sum(bool(held & offer(joins[row][0])) for held in channels)
            if planner in LIMITED:
                assert met <= joins[row][1]
        if literal:
            assert channels == slow.partition()
        same_as_counted_anew(online, planner in LIMITED)
        assert (online.now.present == np.bincount(types[present], minlength=len(online.now.present))).all()
        nobody_misses_anything(observation, online, present)


def nobody_misses_anything(observation, online, present):
    """No false negatives, and publishers with equal advertisements are in equal channels."""
    offers = observation.offers
    rows = Offers(present, *(column[present] for column in (offers.attributes, offers.connections, offers.messages)))
    metrics = delivery(replace(observation, offers=rows), Overlay(channels=online.pairs))
    wanted = observation.requests.attributes.tolist() or sorted(set().union(*map(offer, rows.attributes.tolist())))
    matching = sum(
        messages * sum(want & mask == want for want in wanted)
        for mask, messages in zip(rows.attributes.tolist(), rows.messages.tolist(), strict=True)
    )
    assert metrics.of("true_positives") == matching
    each = metrics.value[(metrics.metric == "connections") & (metrics.scope == "client")]
    in_order = rows.attributes[np.argsort(rows.publisher)]
    assert len(set(zip(in_order.tolist(), each.tolist(), strict=True))) == len(set(in_order.tolist()))


def same_as_counted_anew(online, tracked):
    book, now = online.book, online.now
    used = np.flatnonzero(now.size > 0)
    held = now.channel >= 0
    assert (np.bincount(now.channel[held], minlength=len(now.size)) == now.size).all()
    if not tracked:
        return
    assert (connections_of(book, now) == now.connections).all()
    for c in used.tolist():
        inside = np.flatnonzero(now.channel == c)
        types = {t for a in inside for t in book.by_type[book.by_start[a] : book.by_start[a + 1]].tolist()}
        assert now.rate[c] == sum(now.messages[t] for t in types if now.present[t])
        assert now.subscribers[c] == book.weight[inside].sum()
        assert now.tight_in[c] == now.tight_on[inside].sum()
    for t in range(len(now.limit)):
        assert now.tight[t] == (now.present[t] > 0 and now.limit[t] <= now.connections[t])


def test_a_publisher_that_has_not_joined_cannot_leave():
    online = Strategy1().online(observed([(3, 1)]))
    with pytest.raises(ValueError, match="row 0 has not joined"):
        online.leave(0)


TWINS = Observation(offers=Offers([0, 1], [3, 3], [2, 2], [1, 100]))


@pytest.mark.parametrize("planner", [Strategy1(), Strategy3(), Strategy4()], ids=repr)
class TestWhoCanJoinAndLeave:
    def test_only_the_row_that_joined_can_leave_and_not_its_twin(self, planner):
        online = planner.online(TWINS)
        online.join(0)
        with pytest.raises(ValueError, match="row 1 has not joined"):
            online.leave(1)
        assert online.now.messages.tolist() == [1]

    def test_nobody_joins_twice(self, planner):
        online = planner.online(TWINS)
        online.join(1)
        for rows in ((1,), (0, 2)):
            with pytest.raises(ValueError, match="row 1 has joined already"):
                online.join(*rows)
        assert online.now.present.tolist() == [1]
        online.leave(1)
        online.join(1)

    @pytest.mark.parametrize("rows", [(-1,), (5,), (0, 3), (2, 1)])
    def test_rows_that_the_offers_do_not_have_cannot_join(self, planner, rows):
        with pytest.raises(ValueError, match="the offers have rows 0 to 1"):
            planner.online(TWINS).join(*rows)

    @pytest.mark.parametrize("row", [-1, 0, 5])
    def test_who_has_not_joined_cannot_leave(self, planner, row):
        with pytest.raises(ValueError, match=f"row {row} has not joined"):
            planner.online(TWINS).leave(row)


@settings(max_examples=30)
@given(publishers, st.integers(1, 14), st.lists(st.integers(32, 63), max_size=30), st.integers(0, 9))
@pytest.mark.parametrize("planner", [*LIMITED, Strategy4(effort=60)], ids=repr)
def test_the_first_joins_depend_neither_on_later_publishers_nor_on_requests_that_nobody_offers(
    planner, joins, first, unserved, seed
):
    first = min(first, len(joins))
    wanted = [] if not unserved else list(range(1, 32))
    whole = planner.online(observed(joins, requests=Requests(range(len(wanted)), wanted)), seed)
    few = planner.online(
        observed(joins[:first], requests=Requests(range(len(wanted + unserved)), wanted + unserved)), seed
    )
    whole.join(0, first)
    few.join(0, first)
    assert partition(whole.pairs) == partition(few.pairs)


@settings(max_examples=60)
@given(publishers)
def test_when_strategy_4_merges_two_channels_the_larger_one_keeps_its_id(joins):
    online = Strategy4(effort=0).online(observed(joins))
    before, changed = {}, 0
    for row in range(len(joins)):
        online.join(row)
        now, once = dict(online.pairs.tolist()), online.changed == changed + 2
        held = {}
        for combination, channel in before.items():
            held.setdefault(channel, set()).add(combination)
        for c, these in held.items():
            for d, others in held.items():
                found = {now[a] for a in these | others}
                if once and c != d and len(found) == 1 and found <= {c, d}:
                    larger = max((c, d), key=lambda each: (len(held[each]), -min(held[each])))
                    assert found == {larger}
        before, changed = now, online.changed


def test_a_merge_by_strategy_4_dissolves_the_smaller_channel():
    """AB, then ABC with one connection: everything ends in the channel that was largest when it was merged."""
    online = Strategy4(effort=0).online(observed([(0b11, 1), (0b100, 1), (0b111, 1)]))
    online.join(0, 2)
    [large] = {channel for combination, channel in online.pairs.tolist() if combination < 4}
    online.join(2)
    assert set(online.pairs[:, 1].tolist()) == {large}


@settings(max_examples=30)
@given(st.data())
@pytest.mark.parametrize("planner", ONLINE, ids=repr)
def test_an_id_is_never_given_to_a_second_channel(planner, data):
    joins = data.draw(publishers)
    online, present, seen, now = planner.online(observed(joins)), [], set(), set()
    todo = list(range(len(joins)))
    while todo:
        if present and data.draw(st.booleans()):
            online.leave(present.pop())
        else:
            present.append(todo.pop(0))
            online.join(present[-1])
        after = set(online.pairs[:, 1].tolist())
        assert not (after - now) & seen
        seen, now = seen | after, after


def test_many_channels_are_visited_in_the_order_of_the_pseudocode():
    """An offer of 6 attributes meets up to 63 channels."""
    rng = np.random.default_rng(4)
    joins = [(sum(1 << a for a in rng.permutation(7)[:6].tolist()), int(rng.integers(20, 64))) for _ in range(12)]
    joins = [(int(rng.integers(1, 128)), 64) for _ in range(25)] + joins
    for planner, literal in ((Strategy3(), Literal.join3), (Strategy31(ties="least"), Literal.join31)):
        online, slow = planner.online(observed(joins)), Literal()
        for row, publisher in enumerate(joins):
            online.join(row)
            literal(slow, publisher, slow.descending(publisher[0], planner.ties))
            assert partition(online.pairs) == slow.partition()
