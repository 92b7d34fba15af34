"""Who subscribed to what, and who receives what was not logged.

Receivers that were not logged follow from the subscriptions that were open in the bucket; those on content are left
out, since ingest has matched them. Messages to a group are dealt
in turn over its members, lowest id first.
"""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from overlace.arrays.jit import Ints
from overlace.observe.tables import ALWAYS, STILL, Window, within_lifetimes
from overlace.trace.store import Trace
from overlace.trace.tables import arrow, is_content, numbers
from overlace.trace.traffic import NONE, Traffic, add_up

if TYPE_CHECKING:
    from overlace.observe.known import IdMap


class Subscribers(NamedTuple):
    """Who subscribed to which topic, and when; filters matched against all topics."""

    client: Ints
    topic: Ints
    since: Ints
    until: Ints
    group: Ints  # -1: none; else its place among the groups in order of their names


def read_subscribers(trace: Trace) -> Subscribers:
    """Who subscribed to which topic."""
    rows = trace.read("subscriptions")
    client = numbers(rows["client"]).astype(np.int64)
    topic = numbers(rows["topic"], -1).astype(np.int64)
    picked = np.flatnonzero(topic >= 0)
    matched = topic[picked]
    if rows["filter"].null_count < rows.num_rows:
        from overlace.matching.topics import match

        on_topics = ~is_content(rows["dialect"])
        by_filter = np.flatnonzero(numbers(rows["filter"].is_valid()) & on_topics)
        chosen = rows.select(["filter", "dialect"]).take(arrow(by_filter, pa.int64()))
        dialects = [each or "mqtt" for each in chosen["dialect"].to_pylist()]
        pairs = match(chosen["filter"].to_pylist(), dialects, trace.names.get("topic", ()))
        picked, matched = np.append(picked, by_filter[pairs[:, 0]]), np.append(matched, pairs[:, 1])
    group = np.full(rows.num_rows, -1)
    if rows["group"].null_count < rows.num_rows:
        named = rows["group"].to_pylist()
        place = {name: i for i, name in enumerate(sorted({name for name in named if name is not None}))}
        group = np.array([place.get(name, -1) for name in named])
    times = {"client": client, "since": numbers(rows["since"], ALWAYS), "until": numbers(rows["until"], STILL)}
    _, since, until = within_lifetimes(trace, "subscriptions", times).values()
    return Subscribers(client[picked], matched, since[picked], until[picked], group[picked])


def derive_receivers(trace: Trace, window: Window | None, known: IdMap | None, rows: Traffic) -> Traffic:
    """Traffic whose receivers were not logged, with those who were subscribed in its buckets.

    Message n of a topic, counted from 0 in order of the rows, goes to everyone who subscribed alone, and in
    each group of k members to member n modulo k. Messages of a row that go to the same are one part of it,
    with its share of the bytes; the first part has what is left over.
    """
    rows = rows.add_up()  # in the order of their buckets, however they were read
    moment, cells = _moments(rows, _subscribers_in(trace, window, known), trace.bucket_us)
    period = _periods(cells, int(moment.max(initial=-1)) + 1)[moment]
    turns = np.where(period > 0, np.minimum(period, rows.messages), 1)
    at, turn = np.repeat(np.arange(len(turns)), turns), _count_up(turns)
    whole, rounds = rows.messages[at], turns[at]
    messages = whole // rounds + (turn < whole % rounds)
    size = rows.bytes[at] * messages // np.maximum(whole, 1)
    first = np.flatnonzero(turn == 0)
    if len(first):
        size[first] += rows.bytes[at[first]] - np.add.reduceat(size, first)
    phase = np.where(period[at] > 0, (_before(rows)[at] + turn) % np.maximum(period[at], 1), 0)
    audience, which, phase = _number_pairs(moment[at], phase)
    dealt = rows.pick(at)._replace(audience=audience, messages=messages, bytes=size)
    return Traffic(*dealt[:7], *_receivers(which, phase, cells))


def _subscribers_in(trace: Trace, window: Window | None, known: IdMap | None) -> Subscribers:
    """Who had subscribed by the end of a window, as an observation numbers them."""
    found = read_subscribers(trace)
    if window is not None:
        open_then = (found.since < window[1]) & (found.until > window[0])
        found = Subscribers(*(each[open_then] for each in found))
    if known is not None:
        client, topic = known.number("client", found.client), known.number("topic", found.topic)
        found = found._replace(client=client, topic=topic)
    return found


def _moments(rows: Traffic, known: Subscribers, width: int) -> tuple[Ints, list[Ints]]:
    """(moment, cells): rows of one moment have the same topic and see the same subscriptions open.

    Cells are those: columns of moment, group and client, in this order and each once.
    """
    opens = np.maximum(known.since, ALWAYS + width) - width + 1  # the first bucket, whole or not, that sees it
    times = np.unique(np.concatenate([opens, known.until, rows.bucket]))
    line = np.where(rows.topic == NONE, 0, rows.topic + 1) * len(times)  # each topic has its own
    lines = (known.topic + 1) * len(times)
    events = np.concatenate([line, *(lines + np.searchsorted(times, each) for each in (opens, known.until))])
    epoch = np.searchsorted(np.unique(events), line + np.searchsorted(times, rows.bucket), side="right")
    _, row, moment = np.unique(epoch, return_index=True, return_inverse=True)
    order = np.argsort(known.topic, kind="stable")
    first, last = (np.searchsorted(known.topic[order], rows.topic[row], side=side) for side in ("left", "right"))
    which = np.repeat(np.arange(len(row)), last - first)
    each = order[np.repeat(first, last - first) + _count_up(last - first)]
    bucket = rows.bucket[row][which]
    live = (opens[each] <= bucket) & (known.until[each] > bucket)
    which, each = which[live], each[live]
    return moment, add_up([which, known.group[each], known.client[each]], [])[0]


def _periods(cells: list[Ints], moments: int) -> Ints:
    """After how many messages all groups of each moment are where they were; 0 where there is no group."""
    period = [0] * moments
    moment, group, _ = cells
    shared = group >= 0
    (owner, _), (members,) = add_up([moment[shared], group[shared]], [np.ones(int(shared.sum()), np.int64)])
    for i, size in zip(owner.tolist(), members.tolist(), strict=True):
        period[i] = min(lcm(period[i] or 1, size), STILL)  # beyond that no message comes
    return np.array(period, dtype=np.int64)


def _before(rows: Traffic) -> Ints:
    """How many messages of its topic come before each row."""
    order = np.argsort(rows.topic, kind="stable")
    topic, messages = rows.topic[order], rows.messages[order]
    total = np.cumsum(messages) - messages
    before = np.empty(len(total), dtype=np.int64)
    before[order] = total - total[np.searchsorted(topic, topic)]
    return before


def _number_pairs(moment: Ints, phase: Ints) -> tuple[Ints, Ints, Ints]:
    """(number, moment, phase): pairs numbered in their order, and the pair of each number."""
    order = np.lexsort((phase, moment))
    moment, phase = moment[order], phase[order]
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = (moment[1:] != moment[:-1]) | (phase[1:] != phase[:-1])
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(fresh) - 1
    return number, moment[fresh], phase[fresh]


def _receivers(moment: Ints, phase: Ints, cells: list[Ints]) -> tuple[Ints, Ints]:
    """(start, receivers) of audiences: everyone who is alone, and of each group whose turn it is."""
    owner, group, client = cells
    fresh = np.ones(len(owner) + 1, dtype=np.bool_)
    fresh[1:-1] = (owner[1:] != owner[:-1]) | (group[1:] != group[:-1])
    members = np.diff(np.flatnonzero(fresh))
    turn, size = _count_up(members), np.repeat(members, members)
    first, last = (np.searchsorted(owner, moment, side=side) for side in ("left", "right"))
    which = np.repeat(np.arange(len(moment)), last - first)
    each = np.repeat(first, last - first) + _count_up(last - first)
    due = (group[each] < 0) | (turn[each] == phase[which] % size[each])
    which, receivers = add_up([which[due], client[each[due]]], [])[0]
    return np.searchsorted(which, np.arange(len(moment) + 1)), receivers


def _count_up(sizes: Ints) -> Ints:
    """0, 1, ... up to each size, one after the other."""
    return np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
