"""Which message a send carries that waited in its receiver's queue.

Mosquitto numbers what it queues for a client as it queues it. So a session's sends in the order of their numbers
go through what was queued in it, first in, first out; a missing number is a message that was dropped. What was queued
follows from the client's subscriptions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Bools, Ints, kernel
from overlace.ingest.formats.mosquitto import kinds
from overlace.ingest.formats.mosquitto.lines import Log, is_any
from overlace.ingest.formats.mosquitto.state import OPEN, UNSEEN, Entries, Sends
from overlace.ingest.values import mask_of

LOOK = 2_000  # messages that a send without a counterpart is compared with: twice Mosquitto's queue
MOST = 10_000_000  # pairs of topic and filter that are compared for one session

LAST = 1 << 62  # a line after all lines

# --- subscriptions ----------------------------------------------------------------------------------------


class Filters(NamedTuple):
    """Subscriptions by client, and topics and filters as levels."""

    of_client: Ints  # CSR into the next five
    line: Ints
    end: Ints  # until which line it holds; of an unsubscribe -1
    first: Bools  # the first line about this filter of this client; of an unsubscribe false
    topic: Ints
    qos: Ints
    shared: Bools  # of a topic
    of_topic: Ints  # CSR into level
    level: Ints
    plus: int
    many: int
    dollar: Bools  # of a topic


def filters_of(log: Log) -> Filters:
    """Subscriptions of each client in the order of the log, and the levels of every topic and filter."""
    lines = np.flatnonzero(is_any(log.code, kinds.FILTER, kinds.FILTER_OFF))
    lines = lines[np.argsort(log.client[lines], kind="stable")]
    levels = pc.split_pattern(log.topics, "/")
    words = levels.values.dictionary_encode()
    plus, many = (pc.index(words.dictionary, pa.scalar(each, pa.string())).as_py() for each in "+#")
    return Filters(
        np.searchsorted(log.client[lines], np.arange(len(log.clients) + 1)),
        lines,
        *_spans(lines, log.code[lines] == kinds.FILTER, log.client[lines], log.topic[lines]),
        log.topic[lines].astype(np.int64),
        log.qos[lines].astype(np.int64),
        mask_of(pc.starts_with(log.topics, "$share/")),
        levels.offsets.to_numpy().astype(np.int64),
        words.indices.to_numpy().astype(np.int64),
        plus,
        many,
        mask_of(pc.starts_with(log.topics, "$")),
    )


def _spans(line: Ints, on: Bools, client: Ints, topic: Ints) -> tuple[Ints, Bools]:
    """(end, first) of subscriptions: each until the next line about the same filter of the same client."""
    end, first = np.where(on, LAST, -1), np.array(on)
    order = np.lexsort((line, topic, client))
    same = (np.diff(client[order]) == 0) & (np.diff(topic[order]) == 0)
    before, after = order[:-1][same], order[1:][same]
    first[after] = False
    end[before[on[before]]] = line[after[on[before]]]
    return end, first


@kernel
def matches(filters: Filters, wanted: int, topic: int) -> bool:
    """Whether a filter asks for a topic, by MQTT's rules."""
    f, f_end = filters.of_topic[wanted], filters.of_topic[wanted + 1]
    t, t_end = filters.of_topic[topic], filters.of_topic[topic + 1]
    if filters.shared[wanted]:
        f += 2
    if f < f_end and filters.dollar[topic] and (filters.level[f] == filters.plus or filters.level[f] == filters.many):
        return False
    while f < f_end:
        if filters.level[f] == filters.many:
            return True
        if t == t_end or (filters.level[f] != filters.plus and filters.level[f] != filters.level[t]):
            return False
        f, t = f + 1, t + 1
    return bool(t == t_end)


# --- queues -----------------------------------------------------------------------------------------------


class Sessions(NamedTuple):
    """Sessions in which something waited, and their sends above QoS 0 by number."""

    start: Ints  # CSR into sends
    sends: Ints
    over: Ints  # the line at which the client's next session begins


class Evidence(NamedTuple):
    """What the log says of messages and sends."""

    sends: Sends
    entries: Entries
    filters: Filters
    echoed: Bools  # of a client: it is sent its own messages
    raised: bool  # the broker sends at a subscription's QoS what was published below it (upgrade_outgoing_qos)


def find_carried(sends: Sends, order: Ints, entries: Entries, filters: Filters) -> Ints:
    """The message that each send carries, -1 where none is found; `order` is by client, then line."""
    carried = np.where((sends.label == OPEN) | (sends.label == kinds.BRIDGE), sends.turn, -1)
    own = np.flatnonzero(carried >= 0)
    own = own[entries.publisher[carried[own]] == sends.client[own]]
    waiting = order[(sends.qos == 0)[order]]
    waiting = waiting[(sends.label[waiting] == OPEN) & (carried[waiting] < 0) & (sends.base[waiting] != UNSEEN)]
    if len(waiting):
        take_waiting(sends, waiting, entries, carried)
    sessions = _sessions(sends, order)
    if len(sessions.sends):
        echoed = np.zeros(len(filters.of_client), bool)  # no-local clients never get their own
        echoed[sends.client[own]] = True
        at_zero = np.flatnonzero((sends.turn >= 0) & (sends.label == OPEN))
        at_zero = at_zero[entries.qos[sends.turn[at_zero]] == 0]
        raised = bool(len(at_zero) and (sends.qos[at_zero] > 0).mean() > 0.5)
        settle(sessions, Evidence(sends, entries, filters, echoed, raised), carried)
    return carried


def _sessions(sends: Sends, order: Ints) -> Sessions:
    """Sessions that queued: the others' sends are each the only one in a turn that it fits, by ascending number."""
    able = (sends.qos > 0) & ((sends.label == OPEN) | (sends.label == kinds.RETAINED))
    mine = order[able[order]]
    client, base = sends.client[mine], sends.base[mine]
    begins = np.append(True, (client[1:] != client[:-1]) | (base[1:] != base[:-1]))[: len(mine)]
    session = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    over = np.append(np.where(client[first[1:]] == client[first[:-1]], base[first[1:]], LAST), LAST)
    waited = (sends.turn[mine] < 0) & (sends.label[mine] == OPEN)
    queued = np.zeros(len(first), bool)
    queued[session[waited | sends.behind[mine] | sends.crowded[mine]]] = True
    mine, session = mine[queued[session]], session[queued[session]]
    mine = mine[np.lexsort((sends.number[mine], session))]
    sizes = np.bincount(session, minlength=len(first))[queued]
    return Sessions(np.append(0, np.cumsum(sizes)), mine, over[: len(first)][queued])


@kernel(work=lambda sends, waiting, *_: 20 * len(waiting))
def take_waiting(sends: Sends, waiting: Ints, entries: Entries, carried: Ints) -> None:
    """Go through each client's sends and through what entered on their topics side by side, first in, first out.

    At QoS 0 a message waits only for an absent client (queue_qos0_messages), since it went. `waiting` is by client, and
    a client's in the order in which they were queued; those that `carried` has already show how far the queue is.
    """
    client, least = -1, 0
    for j in waiting:
        if sends.client[j] != client:
            client, least = sends.client[j], 0
        if carried[j] >= 0 and not sends.behind[j]:
            least = carried[j] + 1
            continue
        carried[j] = -1  # and what entered before its session cannot have waited in it: a retained copy is no message
        least = max(least, place_of(entries.enter, sends.base[j], 0, len(entries.enter)))
        end = entries.of_topic[sends.topic[j] + 1]
        begin = place_of(entries.places, least, entries.of_topic[sends.topic[j]], end)
        for k in range(begin, min(end, begin + LOOK)):
            each = entries.places[k]
            if entries.enter[each] > sends.line[j]:
                break
            asked = sends.label[j] != kinds.BRIDGE or (entries.qos[each] > 0 and entries.publisher[each] != client)
            if asked and entries.size[each] == sends.size[j]:
                carried[j], least = each, each + 1
                break


@kernel(
    work=lambda sessions, evidence, *_: (
        10 * len(sessions.sends)
        + len(sessions.over) * sum(map(len, (evidence.entries.line, evidence.filters.line, evidence.filters.of_topic)))
    )
)
def settle(sessions: Sessions, evidence: Evidence, carried: Ints) -> None:
    """Write into `carried` what the sends of sessions with queues carry."""
    sends = evidence.sends
    marked = np.full(len(evidence.filters.of_topic), -1, np.int64)  # of a topic: the last session with a send on it
    for k in range(len(sessions.over)):
        ranked = sessions.sends[sessions.start[k] : sessions.start[k + 1]]
        seen = np.empty(len(ranked), np.int64)
        topics = 0
        for j in ranked:
            if sends.label[j] == OPEN and marked[sends.topic[j]] != k:
                marked[sends.topic[j]] = k
                seen[topics] = sends.topic[j]
                topics += 1
        queue, loose = queue_of(k, sessions.over[k], ranked, seen[:topics], marked, evidence)
        walk(evidence, ranked, queue, loose, carried)


@kernel
def queue_of(session: int, over: int, ranked: Ints, seen: Ints, marked: Ints, evidence: Evidence) -> tuple[Ints, bool]:
    """(queue, loose): what was queued for a client in a session, sent or dropped, once per subscription that asks.

    Loose says that a subscription is shared, so that the queue holds more than the client's part.
    """
    sends, entries, filters = evidence.sends, evidence.entries, evidence.filters
    start, places = entries.of_topic, entries.places
    client, begin, until = sends.client[ranked[0]], sends.base[ranked[0]], np.int64(-1)
    for j in ranked:
        until = max(until, sends.line[j])
    before = 0 if begin >= 0 else sends.number[ranked[0]] - 1
    gaps = sends.number[ranked[-1]] - before - len(ranked)  # numbers that were never sent
    a, b = filters.of_client[client], filters.of_client[client + 1]
    a, b = place_of(filters.line, begin, a, b), place_of(filters.line, over, a, b)

    # What was dropped may be on a topic that was never sent.
    every = gaps > 0 and (b - a) * (len(start) - 1) < MOST
    queue, held, loose = np.empty(len(ranked) + 16, np.int64), 0, False
    for t in range(len(start) - 1 if every else len(seen)):
        topic = t if every else seen[t]
        if start[topic] == start[topic + 1]:
            continue
        asked = False
        for k in range(a, b + 1):
            # One subscription after the other; last, all of a topic whose subscription is not in the log.
            since, end = begin, until
            if k < b:
                if filters.end[k] < 0 or not matches(filters, filters.topic[k], topic):
                    continue
                asked = True
                loose = loose or filters.shared[filters.topic[k]]
                if filters.qos[k] == 0:
                    continue
                since = begin if begin < 0 and filters.first[k] else filters.line[k]
                end = min(until, filters.end[k])
            elif asked or marked[topic] != session:
                continue

            first = place_of(entries.enter, since, 0, len(entries.enter))
            for p in range(place_of(places, first, start[topic], start[topic + 1]), start[topic + 1]):
                each = places[p]
                if entries.enter[each] >= end:
                    break
                own = entries.publisher[each] == client
                if (entries.qos[each] > 0 or evidence.raised) and (evidence.echoed[client] or not own):
                    if held == len(queue):
                        queue, old = np.empty(2 * held, np.int64), queue
                        for i in range(held):
                            queue[i] = old[i]
                    queue[held] = each
                    held += 1
    return ascending(queue[:held]), loose


@kernel
def walk(evidence: Evidence, ranked: Ints, queue: Ints, loose: bool, carried: Ints) -> None:
    """Go through a client's sends by number and through its queue side by side."""
    sends = evidence.sends
    at, number = 0, np.int64(0)  # the next place in the queue, the number before it
    known = sends.base[ranked[0]] >= 0  # a session that began before this log has numbers before it
    for j in ranked:
        gap = sends.number[j] - number - 1 if known else 0
        known, number = True, sends.number[j]
        if sends.label[j] != OPEN:
            at += max(gap, 0)
            continue

        # Nothing was in flight, so that the queue was empty: it is the turn's, and the count starts anew.
        if sends.turn[j] >= 0 and (sends.idle[j] or (loose and not sends.behind[j])):
            carried[j] = sends.turn[j]
            at = place_of(queue, sends.turn[j], 0, len(queue))
            if at < len(queue) and queue[at] == sends.turn[j]:
                at += 1
            continue

        # The one that its number says, else the turn's, else the next that fits.
        place = -1
        if 0 <= at + gap < len(queue) and fits(evidence, j, queue[at + gap]):
            place = at + gap
        elif sends.turn[j] >= 0 and not sends.behind[j]:
            carried[j] = sends.turn[j]
            at = place_of(queue, sends.turn[j] + 1, 0, len(queue))
            continue
        else:
            for each in range(at, min(len(queue), at + LOOK)):
                if fits(evidence, j, queue[each]):
                    place = each
                    break
        carried[j] = -1
        if place >= 0:
            carried[j] = queue[place]
            at = place + 1


@kernel
def fits(evidence: Evidence, j: int, each: int) -> bool:
    """Whether a send can carry a message."""
    sends, entries = evidence.sends, evidence.entries
    return bool(
        entries.enter[each] < sends.line[j]
        and entries.topic[each] == sends.topic[j]
        and entries.size[each] == sends.size[j]
        and (entries.qos[each] >= sends.qos[j] or evidence.raised)
    )


# --- bridges ----------------------------------------------------------------------------------------------


def carry_over_bridges(sends: Sends, order: Ints, entries: Entries, topics: pa.Array, carried: Ints) -> None:
    """Have sends to bridges carry what waited, as too much was in flight or the bridge was down.

    What a broker queues for a bridge it numbers and sends as it does for any client, first in, first out. Inexact where
    the queue overflowed: what was dropped is taken for what was sent, until nothing waits.
    """
    late = order[((sends.label == kinds.BRIDGE) & (sends.qos > 0))[order]]
    if (carried[late] < 0).any() or sends.behind[late].any():
        late = late[np.lexsort((sends.number[late], sends.base[late], sends.client[late]))]
        renamed = sends._replace(topic=_topics_at_entry(sends, entries, topics))
        take_waiting(renamed, late, entries, carried)


def _topics_at_entry(sends: Sends, entries: Entries, topics: pa.Array) -> Ints:
    """Of each send the topic by which its message entered: bridges rename by prefix as they send.

    What a bridge renames is seen where a message was sent as it entered; the same prefixes hold for what waited.
    """
    topic, over = sends.topic.copy(), sends.label == kinds.BRIDGE
    at_once = over & (sends.turn >= 0) & ~sends.behind
    late = np.flatnonzero(over & ~at_once)
    names = topics.to_pylist()
    place = {name: i for i, name in enumerate(names)}
    came: dict[tuple[int, int], int] = {}
    prefixes: dict[int, set[tuple[str, str]]] = {}
    seen = np.column_stack([sends.client, topic, np.append(entries.topic, -1)[sends.turn]])[at_once]
    for client, out, entered in np.unique(seen, axis=0).tolist():
        came[client, out] = entered
        now, then = names[out].split("/"), names[entered].split("/")
        while now and then and now[-1] == then[-1]:
            now, then = now[:-1], then[:-1]
        prefixes.setdefault(client, set()).add(("/".join([*now, ""]), "/".join([*then, ""])))
    pairs, which = np.unique(np.column_stack([sends.client, topic])[late], axis=0, return_inverse=True)
    found = []
    for client, out in pairs.tolist():
        rules = sorted(prefixes.get(client, ()), key=lambda each: (-len(each[0]), each))
        renamed = [then + names[out][len(now) :] for now, then in rules if names[out].startswith(now)]
        found.append(came.get((client, out), next((place[name] for name in renamed if name in place), out)))
    topic[late] = np.array(found, dtype=np.int64)[which.reshape(-1)]
    return topic


# numpy's own search, sort and append take seconds to compile.


@kernel
def place_of(values: Ints, value: int, first: int, last: int) -> int:
    """The first place in values[first:last], which ascend, with a value that is not below the given one, else last."""
    while first < last:
        middle = (first + last) // 2
        if values[middle] < value:
            first = middle + 1
        else:
            last = middle
    return first


@kernel
def ascending(values: Ints) -> Ints:
    """The values sorted, runs merged two by two."""
    old, new, width = values, np.empty(len(values), np.int64), 1
    while width < len(values):
        for low in range(0, len(values), 2 * width):
            middle, high = min(low + width, len(values)), min(low + 2 * width, len(values))
            i, j = low, middle
            for k in range(low, high):
                if i < middle and (j == high or old[i] <= old[j]):
                    new[k] = old[i]
                    i += 1
                else:
                    new[k] = old[j]
                    j += 1
        old, new, width = new, old, 2 * width
    return old
