"""What to plan for: an estimate of the traffic to come, from the traffic that was.

A plan is worth what it saves later. Where traffic changes, what was said lately says more of what comes than what was
said long ago; where few messages were seen of each pair, who belongs together says more than who has talked. So classes
and flows count by their age, a part of them plainly, and a part of the demand is drawn from communities: a sender by
its traffic, and a partner by traffic from the community that its real partner is in.

How fast traffic ages is asked of the log itself: the half-life is the longest whose client totals, decayed up to some
moment, are nearly as much like those after it as the best are, at three moments of the window.

Amounts are whole numbers in an observation; those of a forecast are in thousandths of a message, and nobody reads them
but planners. Limits are about messages: they count plain traffic.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from overlace.arrays.communities import communities_at
from overlace.arrays.csr import sort_groups, take_groups
from overlace.arrays.hashing import distinct_groups, hash_groups
from overlace.arrays.jit import Floats, Ints
from overlace.model import PARTS, Classes, Flows, Observation
from overlace.observe.known import IdMap
from overlace.observe.sums import with_sender
from overlace.observe.traffic import complete_traffic
from overlace.trace.plan_file import ForecastModel
from overlace.trace.store import DAY_US, Trace
from overlace.trace.traffic import Traffic, add_up

HALF_LIVES: tuple[float | None, ...] = (None, 120, 60, 30, 14, 7, 3, 1)
"""Days after which a message counts half, the longest first; None: it always counts as much."""
MOMENTS = (1 / 2, 5 / 7, 6 / 7)
"""Shares of the window at which what was is held against what came."""
NEARLY = 0.003
"""How far a mean cosine may be below the best one."""
PLAIN = 0.2
"""The share of demand that does not age."""
BLOCKS = (0.0, 0.2, 0.5)
"""Shares of demand drawn from communities that are tried."""
DRAWS = 20_000, 200_000
"""Pairs that are drawn: four for each flow up to the first, one for each flow up to the second."""


class ClassSlices(NamedTuple):
    """How much of each class there was in each slice of time."""

    when: Ints
    which: Ints
    messages: Ints
    bytes: Ints


class FlowSlices(NamedTuple):
    """How much of each flow there was in each slice of time."""

    when: Ints
    sender: Ints
    receiver: Ints
    messages: Ints
    bytes: Ints


class Slices(NamedTuple):
    """Traffic by slices of time: which classes and flows there were when, and how much of each."""

    begin: Ints  # microseconds, one entry a slice
    end: Ints
    start: Ints  # members[start[k]:start[k + 1]] are the clients of class k
    members: Ints
    classes: ClassSlices
    flows: FlowSlices


def read_slices(trace: Trace, window: tuple[int, int], known: IdMap) -> Slices:
    """The traffic of a window by days, from its end back; clients as an observation numbers them."""
    begin, end = window
    width = max(DAY_US // trace.bucket_us, 1) * trace.bucket_us
    edges = np.unique([begin, *range(end - (end - begin - 1) // width * width, end + 1, width)])
    traffic = complete_traffic(trace, window, known)
    return slices_of(edges, np.searchsorted(edges, np.maximum(traffic.bucket, begin), side="right") - 1, traffic)


def slices_of(edges: Ints, when: Ints, traffic: Traffic) -> Slices:
    """Traffic whose row i is in the slice when[i] between two edges."""
    keys, (messages, size) = add_up([traffic.audience, traffic.client, when], [traffic.messages, traffic.bytes])
    audience, client, when = keys
    fresh = np.ones(len(audience), dtype=np.bool_)
    fresh[1:] = (audience[1:] != audience[:-1]) | (client[1:] != client[:-1])
    of, first = np.cumsum(fresh) - 1, np.flatnonzero(fresh)  # one for each sender and audience

    # classes: the sender among its receivers, numbered by who they are
    sender = client[first]
    bounds, others = sort_groups(*take_groups(traffic.start, traffic.receivers, audience[first]))
    kept, joins, members = with_sender(sender, bounds, others)
    number, one, clash = distinct_groups(hash_groups(joins, members), joins, members)
    if clash >= 0:  # two sets with one hash: each sender's and audience's for itself
        number, one = np.arange(len(kept)), np.arange(len(kept))
    which = np.full(len(first), -1)
    which[kept] = number
    joined = which[of] >= 0
    keys, sums = add_up([when[joined], which[of][joined]], [messages[joined], size[joined]])
    classes = ClassSlices(*keys, *sums)

    # flows: from the sender to every other receiver
    row = np.repeat(np.arange(len(of)), np.diff(bounds)[of])
    _, got = take_groups(bounds, others, of)
    apart = got != client[row]
    row, got = row[apart], got[apart]
    keys, sums = add_up([when[row], client[row], got], [messages[row], size[row]])
    return Slices(edges[:-1], edges[1:], *take_groups(joins, members, one), classes, FlowSlices(*keys, *sums))


def half_life_of(slices: Slices, clients: int) -> float | None:
    """The longest half-life whose decayed client totals are nearly the best guess of those that follow."""
    if not len(slices.begin):
        return None
    begin, end = int(slices.begin[0]), int(slices.end[-1])
    totals = _totals(slices, clients)
    score = np.zeros(len(HALF_LIVES))
    used = 0
    for share in MOMENTS:
        moment = begin + share * (end - begin)
        before = slices.end <= moment
        after = (~before).astype(np.float64) @ totals
        if not after.any() or not (before.astype(np.float64) @ totals).any():
            continue
        used += 1
        for i, days in enumerate(HALF_LIVES):
            score[i] += _cosine(np.where(before, weights(slices.end, int(moment), days), 0.0) @ totals, after)
    if not used:
        return None
    score /= used
    return HALF_LIVES[int(np.flatnonzero(score >= score.max() - NEARLY)[0])]


def weights(ends: Ints, moment: int, half_life: float | None) -> Floats:
    """What slices that end then count at a moment."""
    if half_life is None:
        return np.ones(len(ends))
    return np.asarray(0.5 ** (np.maximum(moment - ends, 0) / (half_life * DAY_US)))


def expect_traffic(observation: Observation, slices: Slices, forecast: ForecastModel, seed: int = 0) -> Observation:
    """The observation with the traffic to expect after its window, in thousandths of a message.

    All amounts together are what they were. Who is connected where, and what links cost, stays as it is.
    """
    age = weights(slices.end, int(slices.end.max(initial=0)), forecast.half_life_days)
    when, which = slices.classes.when, slices.classes.which
    at, sender, receiver, *amounts = slices.flows
    scale = PARTS * (1.0 - forecast.blocks)
    demand, bytes_ = (
        np.bincount(which, weights=scale * _age(each, age[when]), minlength=len(slices.start) - 1)
        for each in (slices.classes.messages, slices.classes.bytes)
    )
    flows = [scale * _age(each, age[at]) for each in amounts]
    start, members, ends = slices.start, slices.members, (sender, receiver)

    if forecast.blocks > 0 and len(sender):
        one, two, drawn, drawn_bytes = _blocks(observation.clients, sender, receiver, flows, seed)
        part = forecast.blocks / (1.0 - forecast.blocks)
        ends = np.append(sender, one), np.append(receiver, two)
        flows = [np.append(flows[0], part * drawn), np.append(flows[1], part * drawn_bytes)]
        pairs, (times,) = add_up([np.minimum(one, two), np.maximum(one, two)], [np.ones(len(one), dtype=np.int64)])
        start = np.append(start, start[-1] + 2 * np.arange(1, len(times) + 1))
        members = np.append(members, np.column_stack(pairs).reshape(-1))
        demand, bytes_ = (np.append(each, part * each.sum() * times / max(1, len(one))) for each in (demand, bytes_))

    # whole numbers again: what rounds to nothing is left out
    (one, two), (flown, flown_bytes) = add_up(list(ends), [np.rint(each).astype(np.int64) for each in flows])
    kept = np.rint(demand) > 0
    start, members = take_groups(start, members, np.flatnonzero(kept))
    classes = Classes(start, members, *(np.rint(each[kept]).astype(np.int64) for each in (demand, bytes_)))
    positive = flown > 0
    known = Flows(*(each[positive] for each in (one, two, flown, flown_bytes)))
    sent, sent_bytes = (
        _sent(plain, sender, each, _age(each, age[at]))
        for plain, each in zip((observation.sent, observation.sent_bytes), amounts, strict=True)
    )
    return replace(observation, classes=classes, flows=known, sent=sent, sent_bytes=sent_bytes)


def _age(amount: Ints, age: Floats) -> Floats:
    """Amounts by their age and plainly, all together as much as they were."""
    decayed = amount * age
    total = float(decayed.sum())
    if not total > 0:
        return amount.astype(np.float64)
    return np.asarray((1 - PLAIN) * decayed * (amount.sum() / total) + PLAIN * amount)


def _sent(plain: Ints, sender: Ints, amount: Ints, aged: Floats) -> Ints:
    """What each client is expected to send: as much of what it sent as its flows are expected to grow or fall by."""
    then, now = (np.bincount(sender, weights=each, minlength=len(plain)) for each in (amount.astype(np.float64), aged))
    return np.rint(PARTS * plain * np.divide(now, then, out=np.ones_like(now), where=then > 0)).astype(np.int64)


def _blocks(
    clients: int, sender: Ints, receiver: Ints, flows: list[Floats], seed: int
) -> tuple[Ints, Ints, Floats, Floats]:
    """(sender, receiver, messages, bytes): flows whose receiver is another one of its community, by their traffic.

    A class of two for each that is drawn; a client drawn as its own partner is left as it is.
    """
    messages, size = flows
    apart = np.flatnonzero((sender != receiver) & (messages > 0))
    if not len(apart):
        none = np.empty(0, dtype=np.int64)
        return none, none, np.empty(0), np.empty(0)
    low, high = np.minimum(sender[apart], receiver[apart]), np.maximum(sender[apart], receiver[apart])
    (left, right), (weight,) = add_up([low, high], [np.rint(messages[apart]).astype(np.int64)])
    community = communities_at(left, right, np.maximum(weight, 1).astype(np.float64), clients, seed)
    traffic = np.bincount(sender[apart], messages[apart], clients) + np.bincount(
        receiver[apart], messages[apart], clients
    )
    order = np.lexsort((np.arange(clients), community))
    total = np.append(0.0, np.cumsum(traffic[order]))
    first = np.searchsorted(community[order], np.arange(community.max() + 2))
    rng = np.random.default_rng(seed)
    count = int(min(max(min(4 * len(apart), DRAWS[0]), len(apart)), DRAWS[1]))
    real = apart[np.searchsorted(np.cumsum(messages[apart]), rng.random(count) * messages[apart].sum(), side="right")]
    there = community[receiver[real]]
    begin, end = total[first[there]], total[first[there + 1]]
    drawn = order[
        np.minimum(np.searchsorted(total, begin + rng.random(count) * (end - begin), side="right") - 1, clients - 1)
    ]
    partner = np.where(drawn == sender[real], receiver[real], drawn)
    each, of_size = messages[apart].sum() / count, size[apart].sum() / count
    return sender[real], partner, np.full(count, each), np.full(count, of_size)


def _totals(slices: Slices, clients: int) -> csr_array:
    """(slices, clients): the messages of each client's classes in each slice."""
    when, which, messages, _ = slices.classes
    size = np.diff(slices.start)[which]
    _, members = take_groups(slices.start, slices.members, which)
    known = members < clients
    amount = np.repeat(messages, size)[known].astype(np.float64)
    rows = np.repeat(when, size)[known]
    return csr_array((amount, (rows, members[known])), shape=(len(slices.begin), clients))


def _cosine(one: Floats, two: Floats) -> float:
    length = float(np.linalg.norm(one) * np.linalg.norm(two))
    return float(one @ two) / length if length else 0.0
