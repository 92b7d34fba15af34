"""Who received each message: the sends of a log given to its messages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.csr import group
from overlace.arrays.jit import Bools, Ints
from overlace.ingest.formats.mosquitto.lines import (
    BRIDGE,
    DOUBLE,
    QUEUED,
    RECEIVE,
    REDELIVERY,
    SEND,
    SENT,
    SYS,
    UNMATCHED,
    Log,
)
from overlace.ingest.formats.mosquitto.queues import filters_of, find_carried, take_waiting
from overlace.ingest.formats.mosquitto.state import OPEN, Entries, Sends, turns_of
from overlace.ingest.values import mask_of


def match_sends(log: Log) -> tuple[Ints, Ints, Ints]:
    """(start, receivers, key): who received each message, and what sends to bridges carry.

    Line i was sent to receivers[start[i]:start[i + 1]], each once. A send to a bridge has as key the offset of the
    message that it carries; other lines have -1. Why each send was sent is written into the log, and what the first
    send of a will is: that message.
    """
    owned = mask_of(pc.starts_with(log.topics, "$SYS/"))
    entries, sends, repeated = turns_of(log, owned)
    order = group(sends.client.astype(np.int64), len(log.clients))[1]
    carried = find_carried(sends, order, entries, filters_of(log))
    _carry_over_bridges(sends, order, entries, log.topics, carried)
    _carry_late_wills(sends, entries, carried)

    # A message is the line at which it came, a will its first send, to a client if there is one.
    to_bridge, message = log.bridge[sends.client], entries.line.copy()
    of_will = np.flatnonzero((carried >= 0) & (np.append(entries.line, 0)[carried] < 0))[::-1]
    for which in (of_will[to_bridge[of_will]], of_will[~to_bridge[of_will]]):
        message[carried[which]] = sends.line[which]  # of several written to one place the last, so the first, stays
    root = np.append(message, -1)[carried]
    start, receivers, double = _receivers(sends, order, root, (root >= 0) & ~to_bridge & (sends.label == OPEN), log)

    waited = np.append(entries.enter, len(log.code))[carried] < sends.since
    why = np.select(
        [sends.label != OPEN, double, carried >= 0, sends.returned, owned[sends.topic]],
        [sends.label, DOUBLE, np.where(waited, QUEUED, SENT), QUEUED, SYS],
        UNMATCHED,
    )
    log.reason[sends.line], key = why, np.full(len(log.code), -1, np.int64)
    over = (why == BRIDGE) & (root >= 0)
    key[sends.line[over]] = log.offset[root[over]]
    log.code[repeated], log.reason[repeated] = SEND, REDELIVERY

    first = (carried >= 0) & (root == sends.line)
    lines, wills = sends.line[first], carried[first]
    by_bridge = log.bridge[entries.publisher[wills]]
    log.client[lines], log.topic[lines] = entries.publisher[wills], entries.topic[wills]
    log.code[lines], log.reason[lines] = np.where(by_bridge, SEND, RECEIVE), np.where(by_bridge, BRIDGE, 0)
    return start, receivers, key


def _receivers(sends: Sends, order: Ints, root: Ints, counted: Bools, log: Log) -> tuple[Ints, Ints, Bools]:
    """(start, receivers, double): per line the distinct clients it was sent to, in order, and sends that repeat one."""
    mine = order[counted[order]]
    mine = mine[group(root[mine], len(log.code))[1]]  # by message, then client, then line
    again = np.append(False, (np.diff(root[mine]) == 0) & (np.diff(sends.client[mine]) == 0))[: len(mine)]
    double = np.zeros(len(order), bool)
    double[mine[again]] = True
    mine = mine[~again]
    start = np.append(0, np.cumsum(np.bincount(root[mine], minlength=len(log.code))))
    return start, sends.client[mine].astype(np.int64), double


def _carry_late_wills(sends: Sends, entries: Entries, carried: Ints) -> None:
    """Have sends that nothing else explains carry the last will on their topic: a will may be sent with delay."""
    lost, wills = np.flatnonzero((sends.label == OPEN) & (carried < 0)), np.flatnonzero(entries.line < 0)
    if len(lost) == 0 or len(wills) == 0:
        return
    key = entries.topic[wills] << 40 | entries.enter[wills]
    wills, key = wills[np.argsort(key, kind="stable")], np.sort(key)
    last = wills[np.searchsorted(key, sends.topic[lost] << 40 | sends.line[lost]) - 1]
    fits = (entries.topic[last] == sends.topic[lost]) & (entries.size[last] == sends.size[lost])
    fits &= entries.enter[last] < sends.line[lost]
    carried[lost[fits]] = last[fits]


# --- bridges ----------------------------------------------------------------------------------------------


def _carry_over_bridges(sends: Sends, order: Ints, entries: Entries, topics: pa.Array, carried: Ints) -> None:
    """Have sends to bridges carry what waited, as too much was in flight or the bridge was down.

    What a broker queues for a bridge it numbers and sends as it does for any client, first in, first out. Inexact where
    the queue overflowed: what was dropped is taken for what was sent, until nothing waits.
    """
    late = order[((sends.label == BRIDGE) & (sends.qos > 0))[order]]
    if (carried[late] < 0).any() or sends.behind[late].any():
        late = late[np.lexsort((sends.number[late], sends.base[late], sends.client[late]))]
        renamed = sends._replace(topic=_topics_at_entry(sends, entries, topics))
        take_waiting(renamed, late, entries, carried)


def _topics_at_entry(sends: Sends, entries: Entries, topics: pa.Array) -> Ints:
    """Of each send the topic by which its message entered: bridges rename by prefix as they send.

    What a bridge renames is seen where a message was sent as it entered; the same prefixes hold for what waited.
    """
    topic, over = sends.topic.copy(), sends.label == BRIDGE
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
