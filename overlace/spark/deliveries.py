"""Deliveries in sorted Parquet to traffic and audiences: the fast way in for logs that are tables already.

One row a delivery: message, at, client, topic, bytes, receiver; sorted by message, integers or strings. A
task takes row groups, reads them by pyarrow and reduces them with compiled kernels; messages are never
cut: one belongs to the row groups in which its first row lies. Clients and topics are numbered within
the task, and its reduction travels with the names it uses; the driver gives ids and merges. What is not
sorted Parquet goes through Spark's expressions (`by_expressions`), to the same digests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from overlace.arrays.csr import sort_groups
from overlace.arrays.hashing import hash_groups
from overlace.arrays.jit import Ints, kernel
from overlace.errors import BadTrace, Unknown
from overlace.observe.reduction import NONE, Messages, Reduction, merge, receivers_of, reduce
from overlace.tables import schema_of
from overlace.trace import HOUR_US, Trace, Writer, absolute, place

COLUMNS = ("message", "at", "client", "topic", "bytes", "receiver")
PARTIAL = "traffic binary, audiences binary, clients binary, topics binary"
ROWS = 2_000_000
"""Rows that a task holds at once."""


class Named(NamedTuple):
    """A reduction with ids of its own, and the names they stand for."""

    reduction: Reduction
    clients: pa.Array
    topics: pa.Array


@kernel
def message_starts(message: Ints) -> Ints:
    """Where each run of equal messages begins, and the end."""
    count = 1 if len(message) else 0
    for i in range(1, len(message)):
        if message[i] != message[i - 1]:
            count += 1
    starts = np.empty(count + 1, dtype=np.int64)
    n = 0
    for i in range(len(message)):
        if i == 0 or message[i] != message[i - 1]:
            starts[n] = i
            n += 1
    starts[n] = len(message)
    return starts


def splits_of(path: str, rows: int = ROWS) -> list[tuple[str, int, int]]:
    """(path, first, last): runs of row groups of a file, each of about so many rows."""
    files, at = place(path)
    about = pq.read_metadata(at, filesystem=files)
    missing = [name for name in COLUMNS if name not in about.schema.to_arrow_schema().names]
    if missing:
        raise BadTrace(f"{path}: no column {', '.join(missing)}; expected {', '.join(COLUMNS)}")
    found, first, held = [], 0, 0
    for group in range(about.num_row_groups):
        held += about.row_group(group).num_rows
        if held >= rows:
            found.append((path, first, group + 1))
            first, held = group + 1, 0
    if first < about.num_row_groups:
        found.append((path, first, about.num_row_groups))
    return found


def reduce_splits(bucket_us: int) -> Any:
    """The batch function: splits in, one reduction with its names out for each."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield _packed(reduce_split(row["path"], row["first"], row["last"], bucket_us))

    return run


def reduce_split(path: str, first: int, last: int, bucket_us: int) -> Named:
    """Reduce the messages that begin in some row groups of a file."""
    files, at = place(path)
    with pq.ParquetFile(files.open_input_file(at)) as file:
        table = file.read_row_groups(list(range(first, last)), columns=list(COLUMNS), use_threads=False)
        message = _integers(table["message"])
        skip = 0
        if first and len(message):
            skip = int(np.searchsorted(message, _last_message(file, first - 1), side="right"))
        tail = _rest(file, last, int(message[-1])) if len(message) else None
    if (np.diff(message) < 0).any():
        raise BadTrace(f"{path}: not sorted by message. Sort it, or ingest it as a DataFrame.")
    table = table.slice(skip)
    if tail is not None and tail.num_rows and table.num_rows:
        table = pa.concat_tables([table, tail])
    return _reduced(table, bucket_us)


def _last_message(file: pq.ParquetFile, group: int) -> int:
    """The last message of a row group, from its statistics or its rows."""
    column = file.metadata.row_group(group).column(file.schema_arrow.get_field_index("message"))
    if column.is_stats_set and column.statistics.has_min_max:
        return int(column.statistics.max)
    return int(file.read_row_group(group, columns=["message"])["message"][-1].as_py())


def _rest(file: pq.ParquetFile, group: int, message: int) -> pa.Table:
    """The rows of a message in the row groups after the split."""
    parts = []
    while group < file.num_row_groups:
        rows = file.read_row_group(group, columns=list(COLUMNS), use_threads=False)
        same = int(np.searchsorted(_integers(rows["message"]), message, side="right"))
        parts.append(rows.slice(0, same))
        if same < rows.num_rows:
            break
        group += 1
    return pa.concat_tables(parts) if parts else None


def _integers(values: pa.ChunkedArray) -> Ints:
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us")).cast(pa.int64())
    return np.ascontiguousarray(values.to_numpy(), dtype=np.int64)


def _numbered(columns: Sequence[pa.ChunkedArray]) -> tuple[list[Ints], pa.Array]:
    """(ids of each column, names): numbered within the task; whole numbers stand by their digits."""
    if all(pa.types.is_integer(each.type) and not each.null_count for each in columns):
        raw = [_integers(each) for each in columns]
        low, high = min(int(r.min(initial=0)) for r in raw), max(int(r.max(initial=0)) for r in raw)
        if low >= 0 and high < 1 << 26:
            seen = np.zeros(high + 1, dtype=np.bool_)
            for each in raw:
                seen[each] = True
            values = np.flatnonzero(seen)
            place_of = np.cumsum(seen) - 1
            return [place_of[each] for each in raw], pa.array(values).cast(pa.string())
        values = np.unique(np.concatenate(raw))
        return [np.searchsorted(values, each) for each in raw], pa.array(values).cast(pa.string())
    coded = [each.cast(pa.string()).combine_chunks().dictionary_encode() for each in columns]
    names = pc.unique(pa.concat_arrays([each.dictionary for each in coded])).drop_null()
    places = [
        np.append(pc.index_in(each.dictionary, value_set=names).to_numpy().astype(np.int64), NONE) for each in coded
    ]
    return [p[pc.fill_null(each.indices, len(p) - 1).to_numpy()] for p, each in zip(places, coded, strict=True)], names


def _reduced(table: pa.Table, bucket_us: int) -> Named:
    message = _integers(table["message"])
    starts = message_starts(message)
    head = starts[:-1]
    (client, receiver), clients = _numbered([table["client"], table["receiver"]])
    (topic,), topics = _numbered([table["topic"]])
    start, receivers = sort_groups(starts, receiver)
    ones = np.ones(len(head), dtype=np.int64)
    size = table["bytes"].cast(pa.int64()).to_numpy()[head]
    at = _integers(table["at"])[head]
    messages = Messages(at, client[head], topic[head], np.full(len(head), NONE), size, ones, ones, start, receivers)
    return Named(reduce(messages, bucket_us), clients, topics)


def _packed(named: Named) -> pa.RecordBatch:
    """A reduction and its names as one row of bytes."""
    cells = [_bytes(named.reduction.traffic), _bytes(named.reduction.audiences)]
    cells += [_bytes(pa.table({"name": names})) for names in (named.clients, named.topics)]
    return pa.RecordBatch.from_arrays(
        [pa.array([c], pa.binary()) for c in cells], ["traffic", "audiences", "clients", "topics"]
    )


def _bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _table(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


def reduce_deliveries(paths: Sequence[str], spark: SparkSession, bucket_us: int) -> Named:
    """Traffic and audiences of sorted Parquet files, with ids in order of the names."""
    splits = [split for path in paths for split in splits_of(path)]
    frame = spark.createDataFrame(splits, "path string, first int, last int").repartition(len(splits))
    rows = frame.mapInArrow(reduce_splits(bucket_us), PARTIAL).toArrow().to_pylist()
    parts = [
        Named(
            Reduction(_table(r["traffic"]), _table(r["audiences"])),
            _table(r["clients"])["name"],
            _table(r["topics"])["name"],
        )
        for r in rows
    ]
    return united(parts)


def united(parts: Sequence[Named]) -> Named:
    """Reductions under ids of their own as one, under ids in order of the names."""
    clients, topics = (_all_names([getattr(part, name) for part in parts]) for name in ("clients", "topics"))
    moved = [_renumbered(part, clients, topics) for part in parts]
    none = Reduction(*(each.slice(0, 0) for each in moved[0]))
    return Named(merge([*moved, none]), clients, topics)


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
    lists = []
    for kind, names in (("client", named.clients), ("topic", named.topics)):
        have = pa.array(list(known.get(kind, ())), pa.string())
        new = names.filter(pc.invert(pc.is_in(names, value_set=have))) if len(have) else names
        lists.append(pa.concat_arrays([have, new.cast(pa.string())]))
    moved = _renumbered(named, *lists)
    return Named(merge([moved, Reduction(*(each.slice(0, 0) for each in moved))]), *lists)


def _all_names(columns: Sequence[Any]) -> pa.Array:
    flat = [each.combine_chunks() if isinstance(each, pa.ChunkedArray) else each for each in columns]
    names = pc.unique(pa.concat_arrays(flat)).drop_null()
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
