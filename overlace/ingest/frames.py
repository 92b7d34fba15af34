"""Frames as logs: rows of a table of Spark, pandas, Arrow or Polars, read by the reader of tables in tasks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from overlace.errors import BadParameter
from overlace.ingest.events import Settled, in_one_piece
from overlace.ingest.files import hash_of
from overlace.ingest.formats import parquet
from overlace.ingest.fragments import Split
from overlace.ingest.job import Job
from overlace.ingest.options import Options
from overlace.ingest.source import SCHEMA, together
from overlace.ingest.sources import Source

NAME = "DataFrame"
PLACE = "overlace row"
"""A column with the place of a row, which a message without a key is known by."""


def settle(frame: Any, options: Options) -> Settled:
    """Which column of a frame is which, before an engine starts; what is no frame is refused."""
    table = as_arrow(frame)
    schema = table.schema if table is not None else to_arrow_schema(frame.schema, timezone="UTC")

    def first(names: list[str]) -> pa.RecordBatch | None:
        head = frame.select(*map(quoted, names)).limit(1000).toArrow() if table is None else table.select(names)
        return next(iter(head.slice(0, 1000).combine_chunks().to_batches()), None)

    return parquet.settle_columns(NAME, schema, first, options.for_format(parquet.FORMAT))


def as_arrow(frame: Any) -> pa.Table | None:
    """A frame that lies in this process as Arrow has it; none for one of Spark."""
    if isinstance(frame, pa.Table):
        return frame
    if hasattr(frame, "sparkSession"):
        return None
    if hasattr(frame, "to_arrow"):  # Polars
        return frame.to_arrow()
    if hasattr(frame, "iloc"):
        return pa.Table.from_pandas(frame, preserve_index=False)
    raise BadParameter(f"expected paths or a frame of Spark, pandas, Arrow or Polars, found {type(frame).__name__}")


def as_spark(frame: Any, spark: SparkSession, settled: Settled) -> DataFrame:
    """The columns of a frame that are read, as a frame of the session."""
    table = as_arrow(frame)
    columns = parquet.columns_read(settled)
    if table is None:
        return cast(DataFrame, frame.select(*map(quoted, columns)))
    plain = pa.table({name: _plain(in_one_piece(table[name])) for name in columns})
    return spark.createDataFrame(plain)


def _plain(values: pa.Array) -> pa.Array:
    """A column in a type that engines take: no dictionaries, views or wide text."""
    kind, text = values.type, dict.fromkeys((pa.large_string(), pa.string_view()), pa.string())
    if pa.types.is_dictionary(kind):
        return _plain(values.cast(kind.value_type))
    if pa.types.is_large_list(kind):
        return values.cast(pa.list_(text.get(kind.value_type, kind.value_type)))
    return values.cast(text[kind]) if kind in text else values


def source_of(rows: DataFrame, settled: Settled, key: bytes) -> Source:
    """A frame as a source: it is known by what it holds, in any order."""
    row = F.xxhash64(*map(quoted, rows.columns))
    halves = F.sum(row.bitwiseAND(0xFFFF_FFFF)), F.sum(F.shiftrightunsigned(row, 32))
    found = rows.agg(F.count("*").alias("n"), *(each.alias(name) for each, name in zip(halves, "ab", strict=True)))
    about = found.toArrow().to_pylist()[0]
    digest = hash_of(repr(tuple(about.values())).encode(), key)
    return Source(
        "", NAME, digest, about["n"], "parquet", settled, disk=(about["n"], digest), tail=digest, log=digest, key=key
    )


class Batch(NamedTuple):
    """A part of a stream: its query, which is one over all its runs, and its number there."""

    query: str
    number: int


def batch_of(batch: Batch, settled: Settled, key: bytes) -> Source:
    """A batch as what is new of a source, the stream: how far it was read are the batches that count."""
    digest = hash_of(batch.query.encode(), key)
    return Source("", "stream", digest, batch.number + 1, "parquet", settled, log=digest, key=key)


def read_events(rows: DataFrame, spark: SparkSession, job: Job, number: int = 0) -> DataFrame:
    """The events of a frame's rows; of a stream, those of the batch with a number."""
    place = F.monotonically_increasing_id()
    placed = rows.withColumn(PLACE, F.xxhash64(F.lit(number), place) if number else place)
    return placed.mapInArrow(partial(read_batches, job), SCHEMA)


def read_batches(job: Job, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The events of a part of a frame."""
    (source,) = job.sources
    split, lines = Split(job, source), 0

    def events() -> Iterator[pa.RecordBatch]:
        nonlocal lines
        for batch in batches:
            if batch.num_rows:
                lines += batch.num_rows
                columns = {name: batch[name] for name in parquet.columns_read(source.options)}
                yield from parquet.events_of(columns, batch.num_rows, batch[PLACE][0].as_py(), source.options)

    yield from together(split.events(events(), lambda: lines))


def quoted(name: str) -> Column:
    """A column by its name, whatever it holds."""
    return F.col("`" + name.replace("`", "``") + "`")
