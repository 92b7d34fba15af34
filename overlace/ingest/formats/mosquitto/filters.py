"""Subscriptions by client and the lines between which each holds, and MQTT's wildcards on codes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Bools, Ints, kernel
from overlace.ingest.formats.mosquitto.lines import is_any, mask
from overlace.ingest.formats.mosquitto.log import Log
from overlace.ingest.formats.mosquitto.shapes import FILTER, FILTER_OFF

LAST = 1 << 62
"""A line after all lines."""


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
    lines = np.flatnonzero(is_any(log.code, FILTER, FILTER_OFF))
    lines = lines[np.argsort(log.client[lines], kind="stable")]
    levels = pc.split_pattern(log.topics, "/")
    words = levels.values.dictionary_encode()
    plus, many = (pc.index(words.dictionary, pa.scalar(each, pa.string())).as_py() for each in "+#")
    return Filters(
        np.searchsorted(log.client[lines], np.arange(len(log.clients) + 1)),
        lines,
        *_spans(lines, log.code[lines] == FILTER, log.client[lines], log.topic[lines]),
        log.topic[lines].astype(np.int64),
        log.qos[lines].astype(np.int64),
        starts(log.topics, "$share/"),
        levels.offsets.to_numpy().astype(np.int64),
        words.indices.to_numpy().astype(np.int64),
        plus,
        many,
        starts(log.topics, "$"),
    )


def starts(names: pa.Array, with_: str) -> Bools:
    """Which names start so."""
    return mask(pc.starts_with(names, with_))


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
