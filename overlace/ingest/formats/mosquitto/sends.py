"""Who received each message: the sends of a log given to its messages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import group
from overlace.arrays.jit import Bools, Ints, kernel
from overlace.ingest.formats.mosquitto.bridged import carry_over_bridges
from overlace.ingest.formats.mosquitto.filters import filters_of, starts
from overlace.ingest.formats.mosquitto.lines import Numbers
from overlace.ingest.formats.mosquitto.log import Log
from overlace.ingest.formats.mosquitto.queues import find_carried
from overlace.ingest.formats.mosquitto.shapes import BRIDGE, DOUBLE, QUEUED, SENT, SYS, UNMATCHED
from overlace.ingest.formats.mosquitto.turns import OPEN, Entries, Sends, turns_of


class Matched(NamedTuple):
    """What the sends say of the lines of a log."""

    start: Ints  # CSR: of a line that is a message its receivers
    receivers: Ints
    publisher: Numbers  # of a line: its client, of a will's first send the one who died
    topic: Numbers  # of a line; of a will's first send the will's
    reason: Numbers  # of a line; of a send why it was sent
    key: Ints  # of a send to a bridge the offset of the message it carries, else -1
    wills: Ints  # lines that are the first send of a will
    again: Bools  # of a line: a receive that comes again


def match_sends(log: Log) -> Matched:
    """Which message each send carries, and so who received each message."""
    owned = starts(log.topics, "$SYS/")
    entries, sends, again = turns_of(log, owned)
    order = group(sends.client.astype(np.int64), len(log.clients))[1]
    carried = find_carried(sends, order, entries, filters_of(log))
    carry_over_bridges(sends, order, entries, log.topics, carried)
    carried = give_to_late_wills(sends, entries, len(log.topics), carried)

    to_bridge = log.bridge[sends.client]
    message = lines_of_messages(entries.line, sends.line, carried, to_bridge)
    root = np.append(message, -1)[carried]
    counted = (root >= 0) & ~to_bridge & (sends.label == OPEN)
    start, receivers, double = receivers_of(order, sends.client, root, counted, len(log.code))
    away = np.append(entries.enter, len(log.code))[carried] < sends.since
    why = np.select(
        [sends.label != OPEN, double, carried >= 0, sends.returned, owned[sends.topic]],
        [sends.label, DOUBLE, np.where(away, QUEUED, SENT), QUEUED, SYS],
        UNMATCHED,
    )
    reason, key = log.reason.copy(), np.full(len(log.code), -1, np.int64)
    reason[sends.line] = why
    over = (why == BRIDGE) & (root >= 0)
    key[sends.line[over]] = log.offset[root[over]]

    first = (carried >= 0) & (root == sends.line)
    publisher, topic = log.client.copy(), log.topic.copy()
    publisher[sends.line[first]] = entries.publisher[carried[first]]
    topic[sends.line[first]] = entries.topic[carried[first]]
    return Matched(start, receivers, publisher, topic, reason, key, sends.line[first], again)


@kernel(work=lambda order, client, root, counted, lines: 2 * len(order) + lines)
def receivers_of(order: Ints, client: Numbers, root: Ints, counted: Bools, lines: int) -> tuple[Ints, Ints, Bools]:
    """(start, receivers, double): per line the distinct clients it was sent to, in order, as CSR."""
    double = np.zeros(len(order), np.bool_)
    latest = np.full(lines, -1, np.int64)
    start = np.zeros(lines + 1, np.int64)
    for j in order:
        if counted[j]:
            double[j] = latest[root[j]] == client[j]
            latest[root[j]] = client[j]
            if not double[j]:
                start[root[j] + 1] += 1
    for i in range(lines):
        start[i + 1] += start[i]
        latest[i] = start[i]  # now where the line's next receiver goes
    receivers = np.empty(start[-1], np.int64)
    for j in order:
        if counted[j] and not double[j]:
            receivers[latest[root[j]]] = client[j]
            latest[root[j]] += 1
    return start, receivers, double


def give_to_late_wills(sends: Sends, entries: Entries, topics: int, carried: Ints) -> Ints:
    """The message of each send, where those that nothing else explains carry the last will on their topic.

    A will may be sent with delay.
    """
    lost = np.flatnonzero((sends.label == OPEN) & (carried < 0))
    wills = np.flatnonzero(entries.line < 0)
    return match_lost_sends(sends, lost, entries, wills, topics, carried) if len(lost) and len(wills) else carried


@kernel(work=lambda sends, lost, entries, wills, *_: 2 * (len(lost) + len(wills)))
def match_lost_sends(sends: Sends, lost: Ints, entries: Entries, wills: Ints, topics: int, carried: Ints) -> Ints:
    """The message of each send, that of a lost one being the last will that entered before it on its topic."""
    found = carried.copy()
    latest = np.full(topics, -1, np.int64)
    each = 0
    for j in lost:
        while each < len(wills) and entries.enter[wills[each]] < sends.line[j]:
            latest[entries.topic[wills[each]]] = wills[each]
            each += 1
        will = latest[sends.topic[j]]
        if will >= 0 and entries.size[will] == sends.size[j]:
            found[j] = will
    return found


def lines_of_messages(line: Ints, sent: Ints, carried: Ints, bridge: Bools) -> Ints:
    """The lines of all messages: a will's is its first send, to a client if there is one."""
    named = line.copy()
    theirs = np.flatnonzero((carried >= 0) & (np.append(line, 0)[carried] < 0))[::-1]
    for which in (bridge[theirs], ~bridge[theirs]):  # of several written to one place the last, so the first, stays
        named[carried[theirs[which]]] = sent[theirs[which]]
    return named
