"""Traffic in all its shapes, and the reduction of messages to it (docs/decisions/a-dataflow.md).

A row of traffic has three shapes on its way from the log to what is measured:

    Reduction   as ingest writes it: two Arrow tables, in which a row names its audience by a hash
    Traffic     as a window is read: columns, in which a row names its audience by its place
    TRAFFIC     as batch functions take it: Arrow batches of rows with their receivers; `TrafficRows` are their columns

Messages of one client to one topic with one audience in one bucket are one row of traffic; a set of
receivers is written once, under its hash. Everything adds up: parts of a log reduced apart and merged
are the log reduced at once. Sums are integers, rows are sorted: the same rows for the same messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overlace.arrays.csr import take_groups
from overlace.arrays.hashing import distinct_groups
from overlace.arrays.jit import Bools, Ints
from overlace.errors import BadTrace
from overlace.trace.ids import audience_of
from overlace.trace.tables import TIME, groups, numbers, schema_of

UNLOGGED = 0
"""The audience of messages whose receivers were not logged: they follow from subscriptions."""

NONE = np.iinfo(np.int64).min
"""Stands for null in a column of integers."""

KEYS = ("bucket", "client", "topic", "attributes", "audience")
SUMS = ("messages", "rows", "bytes")
ROOM = 1 << 62
"""Values that keys packed into one integer may take."""


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


class Traffic(NamedTuple):
    """Rows of traffic as columns, and audiences: receivers[start[a]:start[a + 1]] are those of audience a."""

    bucket: Ints  # or the time of a single message
    client: Ints
    topic: Ints  # NONE: no topic
    attributes: Ints  # NONE: none
    audience: Ints  # its place; -1: the receivers were not logged
    messages: Ints
    bytes: Ints
    start: Ints
    receivers: Ints

    def pick(self, rows: Ints | Bools | slice) -> Traffic:
        """Some of the rows, with all audiences."""
        return Traffic._make([*(each[rows] for each in self[:7]), self.start, self.receivers])

    def add_up(self) -> Traffic:
        """The same with one row for each bucket, client, topic, attributes and audience, in this order."""
        keys, sums = add_up(self[:5], self[5:7])
        return Traffic._make([*keys, *sums, self.start, self.receivers])

    def append(self, *others: Traffic) -> Traffic:
        """These rows and those of others, which name the same audiences."""
        rows = map(np.concatenate, zip(*(each[:7] for each in (self, *others)), strict=True))
        return Traffic._make([*rows, self.start, self.receivers])

    def join(self, other: Traffic) -> Traffic:
        """The rows of both, and the audiences of both."""
        moved = other._replace(audience=other.audience + len(self.start) - 1)
        start = np.append(self.start, self.start[-1] + other.start[1:])
        return self.append(moved)._replace(start=start, receivers=np.append(self.receivers, other.receivers))


TRAFFIC: pa.Schema = pa.schema(
    [
        pa.field("client", pa.int32(), nullable=False),
        pa.field("topic", pa.int32()),
        pa.field("messages", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("receivers", pa.list_(pa.int32()), nullable=False),
    ]
)
"""Rows of traffic with their receivers, sorted and distinct, the sender perhaps among them."""


class TrafficRows(NamedTuple):
    """The columns of a batch of TRAFFIC, ids of 32 bits; receivers[start[i]:start[i + 1]] are row i's."""

    client: Ints
    topic: Ints  # -1: none
    messages: Ints
    bytes: Ints
    start: Ints
    receivers: Ints


def rows_of(batch: pa.RecordBatch) -> TrafficRows:
    """A batch of TRAFFIC as arrays; it may have other columns too."""
    missing = [name for name in TRAFFIC.names if name not in batch.schema.names]
    if missing:
        has = ", ".join(batch.schema.names)
        raise BadTrace(f"traffic: no column {missing[0]} among {has}. Join audiences to traffic.")
    columns = {}
    for each in TRAFFIC:
        column = batch.column(each.name)
        if column.null_count and not each.nullable:
            raise BadTrace(
                f"traffic.{each.name}: {column.null_count:,} of {len(column):,} values are empty. "
                "Every row of traffic needs an audience that stands in audiences."
            )
        columns[each.name] = column if column.type == each.type else column.cast(each.type)
    client, messages, size = (numbers(columns[name]) for name in ("client", "messages", "bytes"))
    return TrafficRows(client, numbers(columns["topic"], -1), messages, size, *groups(columns["receivers"]))


def audience_hashes(messages: Messages, ids: Ints) -> Ints:
    """The audience of each message: the hash of its receivers, whose ids are these, or UNLOGGED."""
    hashes = audience_of(messages.start, ids[messages.receivers])
    return np.where(messages.logged != 0, hashes, UNLOGGED)


def reduce(messages: Messages, bucket_us: int, ids: Ints) -> Reduction:
    """Traffic and audiences of some messages, whose clients have these ids."""
    audience = audience_hashes(messages, ids)
    logged = np.flatnonzero(messages.logged)
    receivers = (messages.start, messages.receivers)
    if len(logged) < len(audience):
        receivers = take_groups(*receivers, logged)
    number, audiences = distinct(audience[logged], *receivers)
    hashes = _integers(audiences, "audience")
    unlogged = int(np.searchsorted(hashes, UNLOGGED))
    hashes = np.insert(hashes, unlogged, UNLOGGED)
    rank = np.full(len(audience), unlogged)
    rank[logged] = number + (number >= unlogged)
    bucket = messages.at // bucket_us
    ones = np.ones(len(bucket), np.int64)
    keys, sums = add_up(
        [bucket, messages.client, messages.topic, messages.attributes, rank],
        [messages.weight, ones, messages.bytes * messages.weight],
    )
    return Reduction(traffic_table([keys[0] * bucket_us, *keys[1:4], hashes[keys[4]]], sums), audiences)


def merge(parts: Sequence[Reduction]) -> Reduction:
    """Several reductions as one; refused if two audiences share a hash."""
    if len(parts) == 1:
        return parts[0]
    runs = [BucketedTraffic(int(_integers(t, "bucket").min()), partial(_by_bucket, t)) for t, _ in parts if t.num_rows]
    pieces = [traffic_table(keys, sums) for keys, sums in in_order(runs, len(KEYS))]
    audiences = pa.concat_tables([part.audiences for part in parts]).combine_chunks()
    _, found = distinct(_integers(audiences, "audience"), *receivers_of(audiences))
    return Reduction(pa.concat_tables(pieces or [schema_of("traffic").empty_table()]), found)


class BucketedTraffic(NamedTuple):
    """Rows of traffic in order of their buckets, from `first` on, as columns that are made when needed."""

    first: int
    columns: Callable[[], Sequence[Ints]]  # the bucket, further keys, then sums


def in_order(runs: Sequence[BucketedTraffic], keys: int) -> Iterator[tuple[list[Ints], list[Ints]]]:
    """The rows of all runs with equal keys added up, in order of the keys, piece by piece.

    A bucket is done when no run to come begins so early: only runs that overlap are held together.
    """
    ahead = sorted(runs, key=lambda run: run.first)
    held: list[Sequence[Ints]] = []
    for i, run in enumerate(ahead):
        held.append(run.columns())
        last = i + 1 == len(ahead)
        ends = [len(each[0]) if last else int(np.searchsorted(each[0], ahead[i + 1].first)) for each in held]
        ready = [[column[:end] for column in each] for each, end in zip(held, ends, strict=True) if end]
        held = [[c[end:] for c in each] for each, end in zip(held, ends, strict=True) if end < len(each[0])]
        if ready:
            columns = [np.concatenate(each) for each in zip(*ready, strict=True)]
            yield add_up(columns[:keys], columns[keys:])


def add_up(keys: Sequence[Ints], values: Sequence[Ints]) -> tuple[list[Ints], list[Ints]]:
    """(keys, sums): the values of rows with equal keys added up, in order of the keys."""
    if not len(keys[0]):
        return list(keys), list(values)
    packed = pack(keys)
    order = np.argsort(packed[0]) if len(packed) == 1 else np.lexsort(packed[::-1])
    begins = np.zeros(len(order), dtype=np.bool_)
    begins[0] = True
    for each in packed:
        placed = each[order]
        begins[1:] |= placed[1:] != placed[:-1]
    start = np.flatnonzero(begins)
    first = order[start]
    return [key[first] for key in keys], [np.add.reduceat(each[order], start) for each in values]


def pack(keys: Sequence[Ints]) -> list[Ints]:
    """Fewer columns that sort alike: neighbours whose ranges fit into one integer become one."""
    packed: list[Ints] = []
    taken = ROOM
    for key in keys:
        low = int(key.min())
        width = int(key.max()) - low + 1
        if taken * width < ROOM:
            packed[-1] = packed[-1] * width + (key - low) if width > 1 else packed[-1]
            taken *= width
        else:
            packed.append(key - low if width < ROOM else key)
            taken = width
    return packed


def _by_bucket(traffic: pa.Table) -> list[Ints]:
    """The columns of traffic, sorted by bucket."""
    columns = [_integers(traffic, name) for name in (*KEYS, *SUMS)]
    if (columns[0][1:] >= columns[0][:-1]).all():
        return columns
    order = np.argsort(columns[0], kind="stable")
    return [each[order] for each in columns]


def receivers_of(audiences: pa.Table) -> tuple[Ints, Ints]:
    """(start, receivers) of a table of audiences."""
    start, receivers = groups(audiences["receivers"])
    return start, receivers.astype(np.int64)


def _integers(table: pa.Table, name: str) -> Ints:
    return numbers(table[name], NONE).astype(np.int64, copy=False)


def traffic_table(keys: Sequence[Ints], sums: Sequence[Ints]) -> pa.Table:
    """Rows of traffic from their columns: KEYS, where NONE is null, and SUMS."""
    schema = schema_of("traffic")
    bucket, *others = keys
    columns = [pa.array(bucket).cast(TIME)]
    for name, key in zip(KEYS[1:], others, strict=True):
        columns.append(pa.array(key, mask=key == NONE).cast(schema.field(name).type))
    return pa.table([*columns, *map(pa.array, sums)], schema=schema)


def distinct(hashes: Ints, start: Ints, members: Ints) -> tuple[Ints, pa.Table]:
    """(number, audiences): audiences in order of their hashes, each once, and which of them each group is."""
    number, first, clash = distinct_groups(hashes, start, members)
    if clash >= 0:
        raise BadTrace(
            f"two different audiences have the hash {hashes[clash]}. This happens once in 10**8 traces of a "
            "million audiences; ingest the sources into two traces."
        )
    order = np.argsort(hashes[first])
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    first = first[order]
    lists = pa.ListArray.from_arrays(pa.array(start.astype(np.int32)), pa.array(members.astype(np.int64, copy=False)))
    return rank[number], pa.table([pa.array(hashes[first]), lists.take(pa.array(first))], schema=schema_of("audiences"))
