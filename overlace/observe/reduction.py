"""Reduce once: messages to traffic and audiences (docs/decisions/reduce-once.md).

Messages of one client to one topic with one audience in one bucket are one row of traffic; a set of
receivers is written once, under its hash. Everything adds up: parts of a log reduced apart and merged
are the log reduced at once. Sums are integers, rows are sorted: the same rows for the same messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overlace.arrays.csr import take_groups
from overlace.arrays.hashing import distinct_groups, group_rows, hash_groups, sum_by
from overlace.arrays.jit import Ints
from overlace.errors import BadTrace
from overlace.tables import TIME, schema_of

UNLOGGED = 0
"""The audience of messages whose receivers were not logged: they follow from subscriptions."""

NONE = np.iinfo(np.int64).min
"""Stands for null in a column of integers."""


class Messages(NamedTuple):
    """Messages as columns; receivers of message i are receivers[start[i]:start[i + 1]], distinct and sorted."""

    at: Ints  # microseconds
    client: Ints
    topic: Ints  # NONE: no topic
    attributes: Ints  # NONE: none
    bytes: Ints
    weight: Ints
    logged: Ints  # 0: the receivers were not logged
    start: Ints
    receivers: Ints


class Reduction(NamedTuple):
    """Traffic and the audiences it names."""

    traffic: pa.Table
    audiences: pa.Table


def audience_hashes(messages: Messages) -> Ints:
    """The audience of each message: the hash of its receivers, or UNLOGGED."""
    hashes = hash_groups(messages.start, messages.receivers)
    return np.where(messages.logged != 0, hashes, UNLOGGED)


def reduce(messages: Messages, bucket_us: int) -> Reduction:
    """Traffic and audiences of some messages."""
    audience = audience_hashes(messages)
    bucket = messages.at // bucket_us * bucket_us
    keys = np.column_stack([bucket, messages.client, messages.topic, messages.attributes, audience])
    traffic = _summed(keys, messages.weight, np.ones(len(bucket), np.int64), messages.bytes * messages.weight)
    logged = np.flatnonzero(messages.logged)
    return Reduction(traffic, _distinct(audience[logged], *take_groups(messages.start, messages.receivers, logged)))


def merge(parts: Sequence[Reduction]) -> Reduction:
    """Several reductions as one; refused if two audiences share a hash."""
    if len(parts) == 1:
        return parts[0]
    traffic = pa.concat_tables([part.traffic for part in parts])
    audiences = pa.concat_tables([part.audiences for part in parts]).combine_chunks()
    columns = [_integers(traffic, name) for name in ("bucket", "client", "topic", "attributes", "audience")]
    sums = (_integers(traffic, name) for name in ("messages", "rows", "bytes"))
    start, members = receivers_of(audiences)
    hashes = _integers(audiences, "audience")
    return Reduction(_summed(np.column_stack(columns), *sums), _distinct(hashes, start, members))


def receivers_of(audiences: pa.Table) -> tuple[Ints, Ints]:
    """(start, receivers) of a table of audiences."""
    lists = audiences["receivers"].combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], lists.type)
    offsets = lists.offsets.to_numpy().astype(np.int64)
    values = lists.values.to_numpy(zero_copy_only=False).astype(np.int64)
    return offsets - offsets[0], values[offsets[0] : offsets[-1]]


def _integers(table: pa.Table, name: str) -> Ints:
    values = table[name]
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    if values.null_count:
        values = values.cast(pa.int64()).fill_null(NONE)
    return np.ascontiguousarray(values.to_numpy(), dtype=np.int64)


def _summed(keys: Ints, messages: Ints, rows: Ints, size: Ints) -> pa.Table:
    """Rows of traffic: equal keys added up, in order of the keys."""
    group, first = group_rows(np.ascontiguousarray(keys))
    found = keys[first]
    order = np.lexsort(found.T[::-1])
    sums = [sum_by(group, len(first), np.ascontiguousarray(values))[order] for values in (messages, rows, size)]
    found = found[order]
    schema = schema_of("traffic")

    def column(i: int, kind: pa.DataType) -> pa.Array:
        return pa.array(found[:, i], mask=found[:, i] == NONE).cast(kind)

    columns = [
        pa.array(found[:, 0]).cast(TIME),
        *(
            column(i, schema.field(name).type)
            for i, name in enumerate(("client", "topic", "attributes", "audience"), 1)
        ),
        *map(pa.array, sums),
    ]
    return pa.table(columns, schema=schema)


def _distinct(hashes: Ints, start: Ints, members: Ints) -> pa.Table:
    """Audiences by hash, each once."""
    _, first, clash = distinct_groups(hashes, start, members)
    if clash >= 0:
        raise BadTrace(
            f"two different audiences have the hash {hashes[clash]}. This happens once in 10**8 traces of a "
            "million audiences; ingest the sources into two traces."
        )
    first = first[np.argsort(hashes[first], kind="stable")]
    bounds, taken = take_groups(start, members, first)
    lists = pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), pa.array(taken.astype(np.int32)))
    return pa.table([pa.array(hashes[first]), lists], schema=schema_of("audiences"))
