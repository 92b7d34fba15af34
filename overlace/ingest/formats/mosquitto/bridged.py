"""Which message a send to a bridge carries that waited, as too much was in flight to it or it was down.

What a broker queues for a bridge it numbers and sends as it does for any client, first in, first out. But the
broker that dials logs a send by the name that the far end knows, so the name by which the message entered is found
first. Inexact where the queue overflowed: what was dropped is taken for what was sent, until nothing waits.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from overlace.arrays.csr import group
from overlace.arrays.jit import Ints, kernel
from overlace.ingest.formats.mosquitto.queues import LOOK, place_of
from overlace.ingest.formats.mosquitto.shapes import BRIDGE
from overlace.ingest.formats.mosquitto.turns import Entries, Sends


def carry_over_bridges(sends: Sends, order: Ints, entries: Entries, topics: pa.Array, carried: Ints) -> None:
    """Write into `carried` what the sends carry that waited for a bridge; `order` is by client, then line."""
    late = order[((sends.label == BRIDGE) & (sends.qos > 0))[order]]
    if (carried[late] < 0).any() or sends.behind[late].any():
        late = late[np.lexsort((sends.number[late], sends.base[late], sends.client[late]))]
        take_waiting(
            sends, late, entries, group(entries.topic, len(topics)), topics_at_entry(sends, entries, topics), carried
        )


def topics_at_entry(sends: Sends, entries: Entries, topics: pa.Array) -> Ints:
    """Of each send the topic by which its message entered: bridges rename by prefix as they send.

    What a bridge renames is seen where a message was sent as it entered; the same prefixes hold for what waited.
    """
    topic, over = sends.topic.astype(np.int64), sends.label == BRIDGE
    at_once = over & (sends.turn >= 0) & ~sends.behind
    late = np.flatnonzero(over & ~at_once)
    names = topics.to_pylist()
    place = {name: i for i, name in enumerate(names)}
    came: dict[tuple[int, int], int] = {}
    prefixes: dict[int, set[tuple[str, str]]] = {}
    seen = np.column_stack([sends.client, topic, np.append(entries.topic, -1)[sends.turn]])[at_once]
    for client, out, entered in np.unique(seen, axis=0).tolist():
        came[client, out] = entered
        prefixes.setdefault(client, set()).add(_prefixes(names[out], names[entered]))
    pairs, which = np.unique(np.column_stack([sends.client, topic])[late], axis=0, return_inverse=True)
    found = []
    for client, out in pairs.tolist():
        rules = sorted(prefixes.get(client, ()), key=lambda each: (-len(each[0]), each))
        renamed = [then + names[out][len(now) :] for now, then in rules if names[out].startswith(now)]
        found.append(came.get((client, out), next((place[name] for name in renamed if name in place), out)))
    topic[late] = np.array(found, dtype=np.int64)[which.reshape(-1)]
    return topic


def _prefixes(now: str, then: str) -> tuple[str, str]:
    """Two names without the levels in which they end alike."""
    a, b = now.split("/"), then.split("/")
    while a and b and a[-1] == b[-1]:
        a, b = a[:-1], b[:-1]
    return "".join(each + "/" for each in a), "".join(each + "/" for each in b)


@kernel(work=lambda sends, late, *_: 20 * len(late))
def take_waiting(
    sends: Sends, late: Ints, entries: Entries, by_topic: tuple[Ints, Ints], topic: Ints, carried: Ints
) -> None:
    """Go through each bridge's sends by number and through what entered side by side."""
    start, places = by_topic
    who, least = -1, 0
    for j in late:
        if sends.client[j] != who:
            who, least = sends.client[j], 0
        if carried[j] >= 0 and not sends.behind[j]:
            least = carried[j] + 1
            continue
        carried[j] = -1  # and what entered before its session cannot have waited in it: a retained copy is no message
        least = max(least, place_of(entries.enter, sends.base[j], 0, len(entries.enter)))
        end = start[topic[j] + 1]
        begin = place_of(places, least, start[topic[j]], end)
        for k in range(begin, min(end, begin + LOOK)):
            each = places[k]
            if entries.enter[each] > sends.line[j]:
                break
            if entries.size[each] == sends.size[j] and entries.qos[each] > 0 and entries.publisher[each] != who:
                carried[j], least = each, each + 1
                break
