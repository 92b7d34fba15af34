"""Messages to traffic: what a task sums up under its own codes, and the sums of all tasks under ids.

Messages of one client to one topic with one audience in one bucket are one row. A task numbers names and
audiences as it meets them; the driver gives ids and adds up, bucket by bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overlace.arrays.csr import sort_groups
from overlace.arrays.hashing import hash_groups
from overlace.arrays.jit import Ints
from overlace.ingest.messages import Messages, masks_of
from overlace.trace.tables import schema_of
from overlace.trace.traffic import NONE, UNLOGGED, Reduction, Run, add_up, distinct, in_order, traffic_table

COLUMNS = ("bucket", "client", "topic", "attributes", "audience", "messages", "rows", "bytes")


class Ids(NamedTuple):
    """The ids of a task's codes; of the last place, none."""

    client: Ints
    topic: Ints
    broker: Ints
    attribute: Ints


class Partial(NamedTuple):
    """What one task summed up, under numbers of its own."""

    traffic: pa.Buffer  # COLUMNS, in order of the keys
    first: int  # the first bucket
    start: Ints  # audiences
    members: Ints
    sets_start: Ints  # sets of attributes
    sets: Ints
    ids: Ids | None = None  # of its numbers; None: they are ids already


def sum_up(messages: Messages, bucket_us: int) -> Partial:
    """The traffic of some messages."""
    bucket = messages.at // bucket_us
    keys = [bucket, *(each.astype(np.int64) for each in (messages.client, messages.topic, messages.attributes))]
    total = np.where(messages.counts, messages.bytes, messages.bytes * messages.weight)
    ones = np.ones(len(bucket), np.int64)
    keys, sums = add_up([*keys, messages.audience.astype(np.int64)], [messages.weight, ones, total])
    columns = [pa.array(keys[0]), *(pa.array(key.astype(np.int32)) for key in keys[1:]), *map(pa.array, sums)]
    first = int(keys[0][0]) if len(keys[0]) else 0
    traffic = to_bytes(pa.table(columns, names=COLUMNS))
    return Partial(traffic, first, messages.start, messages.members, messages.sets_start, messages.sets)


def to_bytes(table: pa.Table) -> pa.Buffer:
    """A table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return sink.getvalue()


def from_bytes(data: pa.Buffer | bytes) -> pa.Table:
    """A table from its bytes."""
    return pa.ipc.open_stream(data).read_all()


def put_under_ids(messages: Messages, ids: Ids) -> Messages:
    """The same messages under ids: sets of attributes are still numbers, their members are ids."""
    start, members = sort_groups(messages.start, ids.client[messages.members])
    sets_start, sets = sort_groups(messages.sets_start, ids.attribute[messages.sets])
    client, topic = (
        to[codes].astype(np.int32) for to, codes in ((ids.client, messages.client), (ids.topic, messages.topic))
    )
    return messages._replace(client=client, topic=topic, start=start, members=members, sets_start=sets_start, sets=sets)


def sum_parts(parts: Sequence[Partial], bucket_us: int, ratio: int = 1) -> Reduction:
    """What tasks summed up as one; `ratio` of their buckets make one."""
    lists = [_members(part) for part in parts]
    bounds = np.cumsum([0, *(len(start) - 1 for start, _ in lists)])
    start = np.cumsum(np.concatenate([np.zeros(1, np.int64), *(np.diff(each) for each, _ in lists)]))
    members = np.concatenate([np.empty(0, np.int64), *(each for _, each in lists)])
    number, audiences = distinct(hash_groups(start, members), start, members)
    hashes = np.append(audiences["audience"].to_numpy(), UNLOGGED)
    order = np.argsort(hashes, kind="stable")  # rows in order of their keys are in order of the hashes
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    runs = [
        Run(
            part.first // ratio,
            partial(_rows, part, ratio, rank[np.append(number[bounds[i] : bounds[i + 1]], len(hashes) - 1)]),
        )
        for i, part in enumerate(parts)
    ]
    sorted_hashes = hashes[order]
    pieces = [
        traffic_table([keys[0] * bucket_us, *keys[1:4], sorted_hashes[keys[4]]], sums)
        for keys, sums in in_order(runs, 5)
    ]
    return Reduction(pa.concat_tables([schema_of("traffic").empty_table(), *pieces]), audiences)


def _members(part: Partial) -> tuple[Ints, Ints]:
    """A part's audiences under ids."""
    if part.ids is None:
        return part.start, part.members
    return sort_groups(part.start, part.ids.client[part.members])


def _rows(part: Partial, ratio: int, audience_of: Ints) -> list[Ints]:
    """A part's rows under ids, the last place of `audience_of` for receivers that were not logged."""
    bucket, client, topic, attributes, audience, *sums = (each.to_numpy() for each in from_bytes(part.traffic).columns)
    sets = part.sets if part.ids is None else part.ids.attribute[part.sets]
    masks = np.append(masks_of(part.sets_start, np.arange(len(sets)), sets), NONE)
    if part.ids is not None:
        client, topic = part.ids.client[client], part.ids.topic[topic]
    topic = np.where(topic < 0, NONE, topic.astype(np.int64))
    keys = [bucket // ratio, client.astype(np.int64), topic, masks[attributes], audience_of[audience]]
    return [*keys, *sums]
