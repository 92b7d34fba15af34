"""Frames as logs: rows of a table of Spark, pandas, Arrow or Polars, read by the reader of tables in tasks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from overlace.errors import BadParameter, BadTrace
from overlace.ingest.events import Settled, in_one_piece
from overlace.ingest.files import hash_of
from overlace.ingest.formats import parquet
from overlace.ingest.fragments import Split
from overlace.ingest.job import Job
from overlace.ingest.options import Options
from overlace.ingest.source import SCHEMA, together
from overlace.ingest.sources import Source
from overlace.ingest.store import functions_for
from overlace.ingest.values import is_list

NAME = "DataFrame"
PLACE = "overlace row"
"""A column with the place of a row, which a message without a key is known by."""


def settle(frame: Any, options: Options) -> Settled:
    """Which column of a frame is which, before an engine starts; what is no frame is refused."""
    table = as_arrow(frame)
    schema = table.schema if table is not None else to_arrow_schema(frame.schema, timezone="UTC")

    def first(names: list[str]) -> pa.RecordBatch | None:
        if table is not None:
            head = table.select(names).slice(0, 1000)
        else:
            with functions_for(frame.sparkSession):
                head = frame.select(*map(quoted, names)).limit(1000).toArrow()
        return next(iter(head.combine_chunks().to_batches()), None)

    return parquet.settle_columns(NAME, schema, first, options.for_format(parquet.FORMAT))


def as_arrow(frame: Any) -> pa.Table | None:
    """A frame that lies in this process as Arrow has it; none for one of Spark."""
    if isinstance(frame, pa.Table):
        return frame
    if hasattr(frame, "sparkSession"):
        return None
    try:
        if hasattr(frame, "to_arrow") and hasattr(frame, "columns"):  # Polars
            return frame.to_arrow()
        if hasattr(frame, "iloc") and hasattr(frame, "columns"):
            return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, ValueError) as error:
        why = "; ".join(map(str, error.args))
        raise BadTrace(f"Arrow has no type for what the frame holds: {why}. Drop or cast such columns.") from None
    raise BadParameter(f"expected paths or a frame of Spark, pandas, Arrow or Polars, found {type(frame).__name__}")


def in_hand(frame: Any) -> pa.Table:
    """A frame of any kind in this process, in plain types."""
    table = as_arrow(frame)
    whole = frame.toArrow() if table is None else table
    return pa.table({name: _plain(in_one_piece(whole[name])) for name in whole.column_names})


def as_spark(frame: Any, spark: SparkSession, settled: Settled) -> DataFrame:
    """The columns of a frame that are read, as a frame of the session."""
    table = as_arrow(frame)
    columns = parquet.columns_read(settled)
    if table is None:
        return cast(DataFrame, frame.select(*map(quoted, columns)))
    plain = pa.table({name: _plain(in_one_piece(table[name])) for name in columns})
    return (
        spark.createDataFrame(plain) if plain.num_rows else spark.createDataFrame([], from_arrow_schema(plain.schema))
    )


ODD_TYPES = (
    (pa.types.is_large_string, pa.string()), (pa.types.is_string_view, pa.string()), (pa.types.is_uint64, pa.string()),
    (pa.types.is_time, pa.string()), (pa.types.is_decimal256, pa.string()), (pa.types.is_float16, pa.float32()),
    (pa.types.is_date64, pa.date32()), (pa.types.is_binary_view, pa.binary()),
    (pa.types.is_unsigned_integer, pa.int64()),
)  # fmt: skip
"""Types that Spark or Sail lacks, and what is read as the same."""


def _plain(values: pa.Array) -> pa.Array:
    """A column in a type that engines take: no dictionaries, views, wide text or lists."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _plain(values.dictionary).take(values.indices)
    if is_list(kind):
        return pa.ListArray.from_arrays(values.offsets.cast(pa.int32()), _plain(values.values), mask=values.is_null())
    for is_odd, plain in ODD_TYPES:
        if is_odd(kind):
            return values.cast(plain)
    return values


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
    return placed.mapInArrow(partial(read_batches, job), StructType(SCHEMA.fields))  # 4.0 refuses a subclass


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
