"""Deliveries in sorted Parquet to traffic and audiences: the fast way in for logs that are tables already.

One row a delivery: message, at, client, topic, bytes, receiver; sorted by message, integers or strings. A
task takes row groups, reads them by pyarrow column by column and reduces them with compiled kernels;
messages are never cut: one belongs to the row groups in which its first row lies. Clients, topics and
audiences are numbered within the task, in order of their names, and travel with its sums; the driver
gives ids and adds up, bucket by bucket. What is not sorted Parquet goes through Spark's expressions
(`by_expressions`), to the same digests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from overlace.arrays.csr import sort_groups
from overlace.arrays.hashing import hash_groups
from overlace.arrays.jit import Ints, kernel, size
from overlace.errors import BadTrace, Unknown
from overlace.trace.store import HOUR_US, Trace, Writer, absolute, place
from overlace.trace.tables import schema_of
from overlace.trace.traffic import (
    NONE,
    Reduction,
    Run,
    add_up,
    distinct,
    in_order,
    merge,
    receivers_of,
    traffic_table,
)

COLUMNS = ("message", "at", "client", "topic", "bytes", "receiver")
PARTIAL = "first long, traffic binary, audiences binary, clients binary, topics binary"
ROWS = 2_000_000
"""Rows that a task holds at once."""

HEAD_ROWS = 10_000
"""Rows read at once for the rest of a message that runs into the next row group."""

TRAFFIC = ("bucket", "client", "topic", "audience", "messages", "bytes")
RECEIVERS = schema_of("audiences").field("receivers").type
NOBODY = -1
"""The number of a name that is null."""

Numbers = NDArray[Any]  # 32-bit integers


class Named(NamedTuple):
    """A reduction, and the names that its ids stand for."""

    reduction: Reduction
    clients: pa.Array
    topics: pa.Array


class Partial(NamedTuple):
    """What one task found, under numbers of its own that are in order of the names."""

    first: int  # the first bucket
    traffic: pa.Buffer  # rows in order: number of the bucket, client, topic, audience; messages and bytes
    audiences: pa.Array  # the receivers of each
    clients: pa.Array
    topics: pa.Array


@kernel(work=size)
def message_starts(message: Ints) -> tuple[Ints, bool]:
    """(start, sorted): where each run of equal messages begins, and the end; whether they only grow."""
    count = 1 if len(message) else 0
    in_order = True
    for i in range(1, len(message)):
        if message[i] != message[i - 1]:
            count += 1
            in_order = in_order and message[i] > message[i - 1]
    starts = np.empty(count + 1, dtype=np.int64)
    n = 0
    for i in range(len(message)):
        if i == 0 or message[i] != message[i - 1]:
            starts[n] = i
            n += 1
    starts[n] = len(message)
    return starts, in_order


@kernel(work=size)
def without_nobody(start: Ints, members: Numbers) -> tuple[Ints, Numbers]:
    """(start, members) of groups less the members that are null."""
    bounds = np.zeros(len(start), dtype=np.int64)
    kept = np.empty_like(members)
    n = 0
    for g in range(len(start) - 1):
        for k in range(start[g], start[g + 1]):
            if members[k] >= 0:
                kept[n] = members[k]
                n += 1
        bounds[g + 1] = n
    return bounds, kept[:n].copy()


def splits_of(path: str, rows: int = ROWS) -> list[tuple[str, int, int]]:
    """(path, first, last): runs of row groups of a file, each of about so many rows."""
    about = _metadata(path)
    found, first, held = [], 0, 0
    for group in range(about.num_row_groups):
        held += about.row_group(group).num_rows
        if held >= rows:
            found.append((path, first, group + 1))
            first, held = group + 1, 0
    if first < about.num_row_groups:
        found.append((path, first, about.num_row_groups))
    return found


def _metadata(path: str) -> pq.FileMetaData:
    files, at = place(path)
    about = pq.read_metadata(at, filesystem=files)
    missing = [name for name in COLUMNS if name not in about.schema.to_arrow_schema().names]
    if missing:
        raise BadTrace(f"{path}: no column {', '.join(missing)}; expected {', '.join(COLUMNS)}")
    return about


def _ends(about: pq.FileMetaData, group: int) -> tuple[int, int] | None:
    """The least and the largest message of a row group, where its statistics say so."""
    column = about.row_group(group).column(about.schema.to_arrow_schema().get_field_index("message"))
    if not column.is_stats_set or not column.statistics.has_min_max:
        return None
    return int(column.statistics.min), int(column.statistics.max)


def _refuse_overlap(paths: Sequence[str]) -> None:
    """A message must not be in two files: each file is reduced by itself."""
    ranges = []
    for path in paths:
        about = _metadata(path)
        ends = [_ends(about, group) for group in range(about.num_row_groups) if about.row_group(group).num_rows]
        if None in ends:
            raise BadTrace(f"{path}: no statistics of the messages. Write it with them, or ingest it as a DataFrame.")
        known = [each for each in ends if each]
        ranges += [(min(known)[0], max(high for _, high in known), path)] if known else []
    ranges.sort()
    for (_, high, left), (low, _, right) in pairwise(ranges):
        if low <= high:
            raise BadTrace(f"{left} and {right} both hold messages from {low} to {high}. Ingest them as a DataFrame.")


def reduce_splits(splits: Sequence[tuple[str, int, int]], bucket_us: int) -> Any:
    """The batch function: numbers of splits in, what was found in each out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                path, first, last = splits[int(number)]
                yield _packed(reduce_split(path, first, last, bucket_us))
                pa.default_memory_pool().release_unused()

    return run


def reduce_split(path: str, first: int, last: int, bucket_us: int) -> Partial:
    """Reduce the messages that begin in some row groups of a file."""
    files, at = place(path)
    with pq.ParquetFile(files.open_input_file(at), read_dictionary=["client", "topic", "receiver"]) as file:
        groups = list(range(first, last))
        message = _integers(_read(file, groups, "message"))
        start, grows = message_starts(message)
        before = _last_message(file, first - 1) if first and len(message) else None
        if not grows or (before is not None and message[0] < before):
            raise BadTrace(f"{path}: not sorted by message. Sort it, or ingest it as a DataFrame.")
        if before is not None and message[0] == before:  # it began in the split before
            start = start[1:]
        rest = _rest(file, last, int(message[-1])) if len(start) > 1 else None
        del message

        def column(name: str) -> pa.Array:
            own = _read(file, groups, name).slice(int(start[0])).chunks
            return _array([*own, *(rest[name].chunks if rest else [])], file.schema_arrow.field(name).type)

        bounds = start - start[0]
        bounds[-1] += rest.num_rows if rest else 0
        return _reduced(column, bounds, bucket_us)


def _read(file: pq.ParquetFile, groups: Sequence[int], name: str) -> pa.ChunkedArray:
    return file.read_row_groups(list(groups), columns=[name], use_threads=False)[name]


def _array(chunks: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    """Chunks as one array."""
    together = pa.chunked_array(chunks, kind).unify_dictionaries().combine_chunks()
    return together if isinstance(together, pa.Array) else pa.concat_arrays(together.chunks)


def _last_message(file: pq.ParquetFile, group: int) -> int:
    """The last message of a row group, from its statistics or its rows."""
    ends = _ends(file.metadata, group)
    return ends[1] if ends else int(_read(file, [group], "message")[-1].as_py())


def _rest(file: pq.ParquetFile, group: int, message: int) -> pa.Table | None:
    """The rows of a message in the row groups after the split."""
    parts = []
    while group < file.num_row_groups:
        ends = _ends(file.metadata, group)
        if ends and ends[0] != message:
            break
        for batch in file.iter_batches(HEAD_ROWS, [group], list(COLUMNS), use_threads=False):
            same = int(np.searchsorted(batch["message"].to_numpy(), message, side="right"))
            parts.append(batch.slice(0, same))
            if same < batch.num_rows:
                return pa.Table.from_batches(parts)
        group += 1
    return pa.Table.from_batches(parts) if parts else None


def _integers(values: pa.ChunkedArray | pa.Array) -> Ints:
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    return np.ascontiguousarray(values.to_numpy(), dtype=np.int64)


def _numbered(columns: Sequence[pa.Array]) -> tuple[list[Numbers], pa.Array]:
    """(numbers of each column, names): in order of the names; whole numbers stand by their digits."""
    if all(pa.types.is_integer(each.type) and not each.null_count for each in columns):
        raw = [each.to_numpy() for each in columns]
        low, high = min(int(r.min(initial=0)) for r in raw), max(int(r.max(initial=0)) for r in raw)
        dense = low >= 0 and high < 1 << 26
        values = _used(raw, high) if dense else np.unique(np.concatenate(raw))
        names, rank = _ranked(pa.array(values).cast(pa.string()))
        if dense:
            place_of = np.zeros(high + 1, dtype=np.int32)
            place_of[values] = rank
            return [place_of[each] for each in raw], names
        return [rank[np.searchsorted(values, each)] for each in raw], names
    coded = [
        each if pa.types.is_dictionary(each.type) else each.cast(pa.string()).dictionary_encode() for each in columns
    ]
    names, _ = _ranked(pc.unique(pa.concat_arrays([each.dictionary.cast(pa.string()) for each in coded])).drop_null())
    numbers = []
    for each in coded:
        place_of = np.append(_places(each.dictionary.cast(pa.string()), names), np.int32(NOBODY))
        numbers.append(place_of[each.indices.fill_null(len(place_of) - 1).to_numpy()])
    return numbers, names


def _used(columns: Sequence[NDArray[Any]], high: int) -> Ints:
    """The numbers up to `high` that occur."""
    seen = np.zeros(high + 1, dtype=np.bool_)
    for each in columns:
        seen[each] = True
    return np.flatnonzero(seen)


def _ranked(names: pa.Array) -> tuple[pa.Array, Numbers]:
    """The names in order, and the place of each of the given ones."""
    order = pc.sort_indices(names)
    rank = np.empty(len(names), dtype=np.int32)
    rank[order.to_numpy()] = np.arange(len(names), dtype=np.int32)
    return names.take(order), rank


def _places(names: pa.Array, among: pa.Array) -> Numbers:
    """Where each name is among others; NOBODY for null."""
    found = pc.index_in(names, value_set=among, skip_nulls=True)
    return np.ascontiguousarray(found.fill_null(NOBODY).to_numpy(), dtype=np.int32)


def _reduced(column: Callable[[str], pa.Array], start: Ints, bucket_us: int) -> Partial:
    head = pa.array(start[:-1])
    receiver = column("receiver")
    sender, topic, length, at = (column(name).take(head) for name in ("client", "topic", "bytes", "at"))
    for name, values in (("client", sender), ("at", at)):
        if values.null_count:
            raise BadTrace(f"{values.null_count} of {len(values):,} messages have no {name}. Leave them out.")
    (client, member), clients = _numbered([sender, receiver])
    (subject,), topics = _numbered([topic])
    if receiver.null_count:
        start, member = without_nobody(start, member)
    start, members = sort_groups(start, member)
    audience, audiences = distinct(hash_groups(start, members), start, members)
    keys = [_integers(at) // bucket_us, client.astype(np.int64), subject.astype(np.int64), audience]
    keys, sums = add_up(keys, [np.ones(len(head), np.int64), _integers(length.cast(pa.int64()).fill_null(0))])
    columns = [pa.array(keys[0]), *(pa.array(key.astype(np.int32)) for key in keys[1:]), *map(pa.array, sums)]
    traffic = pa.table(columns, names=TRAFFIC)
    first = int(keys[0][0]) if len(keys[0]) else 0
    return Partial(first, _bytes(traffic), _array(audiences["receivers"].chunks, RECEIVERS), clients, topics)


def _packed(part: Partial) -> pa.RecordBatch:
    """What a task found as one row."""
    cells = [_bytes(pa.table({"": each})) for each in part[2:]]
    columns = [pa.array([part.first]), *(pa.array([c.to_pybytes()], pa.binary()) for c in (part.traffic, *cells))]
    return pa.RecordBatch.from_arrays(columns, Partial._fields)


def _unpacked(row: Mapping[str, Any]) -> Partial:
    lists, clients, topics = (
        _array(_table(row[name].as_buffer())[0].chunks, kind)
        for name, kind in (("audiences", RECEIVERS), ("clients", pa.string()), ("topics", pa.string()))
    )
    return Partial(row["first"].as_py(), row["traffic"].as_buffer(), lists, clients, topics)


def _bytes(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _table(data: pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


def reduce_deliveries(paths: Sequence[str], spark: SparkSession, bucket_us: int) -> Named:
    """Traffic and audiences of sorted Parquet files, with ids in order of the names."""
    if len(paths) > 1:
        _refuse_overlap(paths)
    splits = [split for path in paths for split in splits_of(path)]
    if not splits:
        return united([], bucket_us)
    numbers = spark.range(0, len(splits), 1, len(splits))  # a task each, and nothing to shuffle
    rows = numbers.mapInArrow(reduce_splits(splits, bucket_us), PARTIAL).toArrow()
    return united([_unpacked({name: rows[name][i] for name in rows.column_names}) for i in range(len(rows))], bucket_us)


def united(parts: Sequence[Partial], bucket_us: int) -> Named:
    """What tasks found as one, under ids in order of the names."""
    clients, topics = (_all_names([getattr(part, name) for part in parts]) for name in ("clients", "topics"))
    to_client = [_places(part.clients, clients) for part in parts]
    number, audiences = _all_audiences(parts, to_client)
    ends = np.cumsum([0, *(len(part.audiences) for part in parts)])
    runs = [
        Run(part.first, partial(_rows, part.traffic, own, _places(part.topics, topics), number[ends[i] : ends[i + 1]]))
        for i, (part, own) in enumerate(zip(parts, to_client, strict=True))
    ]
    hashes = audiences["audience"].to_numpy()
    pieces = []
    for (bucket, client, topic, audience), (messages, total) in in_order(runs, 4):
        keys = [bucket * bucket_us, client, np.where(topic == NOBODY, NONE, topic), np.full(len(bucket), NONE)]
        pieces.append(traffic_table([*keys, hashes[audience]], [messages, messages, total]))
    return Named(Reduction(pa.concat_tables([schema_of("traffic").empty_table(), *pieces]), audiences), clients, topics)


def _all_audiences(parts: Sequence[Partial], to_client: Sequence[Numbers]) -> tuple[Ints, pa.Table]:
    """(number, audiences): all audiences under ids, and which of them each audience of each part is."""
    sizes = [np.zeros(1, dtype=np.int64)]
    members: list[Numbers] = [np.empty(0, dtype=np.int32)]
    for part, ids in zip(parts, to_client, strict=True):
        offsets = part.audiences.offsets.to_numpy()
        sizes.append(np.diff(offsets).astype(np.int64))
        members.append(ids[part.audiences.values.to_numpy()[offsets[0] : offsets[-1]]])  # both in order of the names
    start, every = np.cumsum(np.concatenate(sizes)), np.concatenate(members)
    return distinct(hash_groups(start, every), start, every)


def _rows(traffic: pa.Buffer, to_client: Numbers, to_topic: Numbers, number: Ints) -> list[Ints]:
    """The rows that a task found, under ids."""
    bucket, client, topic, audience, *sums = (each.to_numpy() for each in _table(traffic).columns)
    topics = np.append(to_topic, np.int32(NOBODY))
    return [bucket, to_client[client].astype(np.int64), topics[topic].astype(np.int64), number[audience], *sums]


def ingest_frame(
    frame: DataFrame | Sequence[str],
    mapping: Mapping[str, str],
    out: str,
    spark: SparkSession,
    bucket_us: int = HOUR_US,
) -> Trace:
    """A DataFrame, or Parquet files, with a row a delivery into the trace at `out`.

    `mapping` names the columns: message (or none: sender, time, topic and bytes together are the key), at,
    client, receiver (or receivers, a list), topic, bytes. Files that are sorted by a whole number of a
    message are reduced natively, anything else by expressions. Only the reduction is kept, no messages: a
    window of this trace is whole buckets.
    """
    out = absolute(out)
    base = Trace.open(out) if Trace.exists(out) else None
    if base is not None and base.rows("traffic"):
        raise BadTrace(f"{out} has traffic already; tables of deliveries cannot be added to it. Make a new trace.")
    named = _natively(frame, mapping, spark, bucket_us) if not isinstance(frame, DataFrame) else None
    if named is None:
        given = frame if isinstance(frame, DataFrame) else spark.read.parquet(*(absolute(p) for p in frame))
        named = by_expressions(_mapped(given, mapping), bucket_us)
    writer = Writer(out, base)
    named = _among(named, base)
    writer.write("traffic", named.reduction.traffic)
    writer.write("audiences", named.reduction.audiences)
    kept = [
        (k, i, n)
        for k, names in (base.names if base else {}).items()
        if k not in ("client", "topic")
        for i, n in enumerate(names)
    ]
    rows = [*kept, *(("client", i, n) for i, n in enumerate(named.clients.to_pylist()))]
    rows += [("topic", i, n) for i, n in enumerate(named.topics.to_pylist())]
    kinds, ids, called = zip(*rows, strict=True) if rows else ((), (), ())
    columns = {
        "kind": pa.array(kinds, pa.string()),
        "id": pa.array(ids, pa.int32()),
        "name": pa.array(called, pa.string()),
    }
    writer.write("names", pa.table(columns), replace=True)
    return writer.commit(bucket_us=bucket_us, unit=base.unit if base else "message", notes=base.notes if base else {})


def _natively(paths: Sequence[str], mapping: Mapping[str, str], spark: SparkSession, bucket_us: int) -> Named | None:
    """The native way, where the files allow it."""
    if any(mapping.get(name, name) != name for name in COLUMNS):
        return None
    try:
        for path in paths:
            files, at = place(path)
            kind = pq.read_schema(at, filesystem=files).field("message").type
            if not pa.types.is_integer(kind):
                return None
        return reduce_deliveries([absolute(path) for path in paths], spark, bucket_us)
    except (BadTrace, KeyError, PythonException):  # not sorted, or without a column: expressions can do it
        return None


def _mapped(frame: DataFrame, mapping: Mapping[str, str]) -> DataFrame:
    """The frame with the columns that a reduction takes."""
    for name, column in mapping.items():
        if name not in (*COLUMNS, "receivers"):
            raise Unknown("field", name, (*COLUMNS, "receivers"))
        if column not in frame.columns:
            raise Unknown("column", column, frame.columns)
    have = {
        name: mapping.get(name, name) for name in (*COLUMNS, "receivers") if mapping.get(name, name) in frame.columns
    }
    missing = [name for name in ("at", "client") if name not in have]
    if missing or not {"receiver", "receivers"} & set(have):
        lacking = missing or ["receiver"]
        raise BadTrace(f"the table has no {', '.join(lacking)}; its columns are {', '.join(frame.columns)}. Map them.")
    rows = frame.select(*(F.col(column).alias(name) for name, column in have.items()))
    if "receivers" in have:
        rows = rows.withColumn("receiver", F.explode_outer("receivers")).drop("receivers")
    for name, kind in (("topic", "string"), ("bytes", "long")):
        if name not in have:
            rows = rows.withColumn(name, F.lit(None).cast(kind))
    if "message" not in have:
        rows = rows.withColumn("message", F.struct("client", "at", "topic", "bytes"))
    at = F.col("at") if dict(rows.dtypes)["at"].startswith("timestamp") else F.timestamp_seconds(F.col("at"))
    return rows.withColumn("at", at.cast("timestamp")).withColumn(
        "bytes", F.coalesce(F.col("bytes").cast("long"), F.lit(0))
    )


def _among(named: Named, base: Trace | None) -> Named:
    """The reduction under the ids of a trace that knows some of the names already."""
    known = base.names if base else {}
    if not known.get("client") and not known.get("topic"):
        return named
    lists = []
    for kind, names in (("client", named.clients), ("topic", named.topics)):
        have = pa.array(list(known.get(kind, ())), pa.string())
        new = names.filter(pc.invert(pc.is_in(names, value_set=have))) if len(have) else names
        lists.append(pa.concat_arrays([have, new.cast(pa.string())]))
    moved = _renumbered(named, *lists)
    return Named(merge([moved, Reduction(*(each.slice(0, 0) for each in moved))]), *lists)


def _all_names(columns: Sequence[Any]) -> pa.Array:
    flat = [each.combine_chunks() if isinstance(each, pa.ChunkedArray) else each for each in columns]
    names = pc.unique(pa.concat_arrays([pa.array([], pa.string()), *flat])).drop_null()
    return names.take(pc.sort_indices(names))


def _renumbered(part: Named, clients: pa.Array, topics: pa.Array) -> Reduction:
    """A reduction with its ids exchanged; audiences are hashed anew."""
    to_client = pc.index_in(part.clients, value_set=clients).to_numpy().astype(np.int64)
    to_topic = np.append(pc.index_in(part.topics, value_set=topics).to_numpy().astype(np.int64), NONE)
    start, members = receivers_of(part.reduction.audiences)
    start, members = sort_groups(start, to_client[members])
    old, new = part.reduction.audiences["audience"].to_numpy(), hash_groups(start, members)
    order = np.argsort(old, kind="stable")
    traffic = part.reduction.traffic
    audience = new[order][np.searchsorted(old[order], traffic["audience"].to_numpy())]
    columns = {
        "client": to_client[traffic["client"].to_numpy()],
        "topic": to_topic[pc.fill_null(traffic["topic"], len(to_topic) - 1).to_numpy()],
        "audience": audience,
    }
    for name, values in columns.items():
        at = traffic.schema.get_field_index(name)
        column = pa.array(values, mask=values == NONE if name == "topic" else None).cast(traffic.schema.field(at).type)
        traffic = traffic.set_column(at, traffic.schema.field(at), column)
    lists = pa.ListArray.from_arrays(pa.array(start.astype(np.int32)), pa.array(members.astype(np.int32)))
    return Reduction(traffic, pa.table([pa.array(new), lists], schema=schema_of("audiences")))


def by_expressions(frame: DataFrame, bucket_us: int) -> Named:
    """The same from any DataFrame with those columns, by Spark's expressions: any order, any source."""
    text = frame.select(
        "message", F.unix_micros("at").alias("at"), F.col("client").cast("string"), F.col("topic").cast("string"),
        F.col("bytes").cast("long"), F.col("receiver").cast("string"),
    )  # fmt: skip
    people = text.select(F.col("client").alias("name")).union(text.select("receiver")).distinct().toArrow()["name"]
    clients, topics = _all_names([people]), _all_names([text.select("topic").distinct().toArrow()["topic"]])
    spark = frame.sparkSession
    ids = {
        name: F.broadcast(spark.createDataFrame(pa.table({f"{name}_name": names, f"{name}_id": np.arange(len(names))})))
        for name, names in (("client", clients), ("receiver", clients), ("topic", topics))
    }
    rows = text
    for name, table in ids.items():
        rows = rows.join(table, F.col(name) == F.col(f"{name}_name"), "left")
    grouped = rows.groupBy("message").agg(
        F.min(F.struct("at", "client_id", "topic_id", "bytes")).alias("first"),
        F.sort_array(F.collect_set("receiver_id")).alias("receivers"),  # leaves out null: a message to nobody
    )
    bucket = F.floor(F.col("first.at") / bucket_us).cast("long") * bucket_us
    summed = grouped.groupBy(
        bucket.alias("bucket"),
        F.col("first.client_id").alias("client"),
        F.col("first.topic_id").alias("topic"),
        "receivers",
    ).agg(F.count("*").alias("messages"), F.sum("first.bytes").alias("bytes"))
    return Named(_from_rows(summed.toArrow()), clients, topics)


def _from_rows(rows: pa.Table) -> Reduction:
    """Traffic and audiences from rows that are summed already."""
    start, members = receivers_of(rows.rename_columns([*rows.column_names]).select(["receivers"]))
    start, members = sort_groups(start, members)
    hashes = hash_groups(start, members)
    columns: Mapping[str, Any] = {
        "bucket": rows["bucket"].cast(pa.timestamp("us", tz="UTC")), "client": rows["client"].cast(pa.int32()),
        "topic": rows["topic"].cast(pa.int32()), "attributes": pa.nulls(rows.num_rows, pa.int64()), "audience": hashes,
        "messages": rows["messages"], "rows": rows["messages"], "bytes": rows["bytes"],
    }  # fmt: skip
    traffic = pa.table(columns).cast(schema_of("traffic"))
    lists = pa.ListArray.from_arrays(pa.array(start.astype(np.int32)), pa.array(members.astype(np.int32)))
    audiences = pa.table([pa.array(hashes), lists], schema=schema_of("audiences"))
    whole = Reduction(traffic, audiences)
    return merge([whole, Reduction(*(each.slice(0, 0) for each in whole))])
