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
from overlace.ingest.formats.mosquitto.queues import carried_by
from overlace.ingest.formats.mosquitto.shapes import BRIDGE, DOUBLE, QUEUED, SENT, SYS, UNMATCHED
from overlace.ingest.formats.mosquitto.turns import OPEN, turns_of
from overlace.ingest.formats.mosquitto.wills import give_to_late_wills, named_by_sends


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
    carried = carried_by(sends, order, entries, filters_of(log))
    carry_over_bridges(sends, order, entries, log.topics, carried)
    carried = give_to_late_wills(sends, entries, len(log.topics), carried)

    to_bridge = log.bridge[sends.client]
    message = named_by_sends(entries.line, sends.line, carried, to_bridge)
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
