"""A trace as an engine reads and writes it: Parquet files in folders that count when the manifest names them."""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from overlace.ingest import stages
from overlace.trace.address import (
    Bucket,
    absolute,
    bucket_of,
    export_for_sail,
    for_engine,
    inside,
    options_of_s3a,
    place,
)
from overlace.trace.digests import digest_columns, digest_of
from overlace.trace.store import Part, Trace
from overlace.trace.tables import schema_of
from overlace.trace.writer import LOGS, Writer

EXTRA = pa.schema(
    [("source", pa.int64()), *((name, pa.int64()) for name in stages.KEPT if name != "source"), ("repeats", pa.int64())]
)
"""Columns that files of messages and traffic have beyond their tables."""

GLOB = re.compile(r"[][{}*?\\]")
"""What Spark takes for a pattern in a path that it reads."""


@dataclass
class Files:
    """The Parquet files of a trace as an engine reads them."""

    spark: SparkSession
    path: str

    def __post_init__(self) -> None:
        self.path = absolute(self.path)  # as tasks find it

    def url(self, path: str) -> str:
        """A path in the trace as the engine takes it."""
        if self.encoded and self.bucket:
            export_for_sail(self.bucket)
        return for_engine(inside(self.path, path), self.encoded)

    @cached_property
    def bucket(self) -> Bucket | None:
        """The bucket that the trace lies in, if it does."""
        return bucket_of(self.path)

    @cached_property
    def options(self) -> dict[str, str]:
        """What Apache Spark must know to read and write there."""
        return options_of_s3a(self.bucket) if self.bucket and not self.encoded else {}

    @cached_property
    def encoded(self) -> bool:
        """Whether the engine takes paths as URLs, percent-encoded: Sail, whose version is not Spark's."""
        if "connect" not in type(self.spark).__module__:
            return False
        (said,) = self.spark.sql("select version() as version").toArrow()["version"].to_pylist()
        return not str(said).startswith(self.spark.version)

    def read(self, schema: pa.Schema, *paths: str) -> DataFrame:
        """Parquet files at some paths in the trace, as rows of a schema; what a file lacks is null."""
        types = from_arrow_schema(schema, prefer_timestamp_ntz=False)
        if not paths:
            return self.spark.createDataFrame([], types)
        urls = [each if self.encoded else GLOB.sub(r"\\\g<0>", each) for each in map(self.url, paths)]
        lists = [each.name for each in schema if pa.types.is_list(each.type)]
        if self.encoded and lists and (of_spark := [path for path in paths if self._is_of_spark(path, lists[0])]):
            found = self.spark.read.parquet(*map(self.url, of_spark))  # under a schema Sail takes no lists of Spark's
            there = [F.col(each.name) if each.name in found.columns else F.lit(None).alias(each.name) for each in types]
            frame = found.select(*(own.cast(each.dataType) for own, each in zip(there, types, strict=True)))
            rest = [path for path in paths if path not in of_spark]
            return union([frame, self.read(schema, *rest)]) if rest else frame
        return self.spark.read.options(**self.options).schema(types).parquet(*urls)

    def table(self, table: str, parts: Mapping[str, Sequence[Part]]) -> DataFrame:
        """The rows of a table in those of its parts that count."""
        return self.read(schema_of(table), *dict.fromkeys(part.path for part in parts.get(table, ())))

    def _is_of_spark(self, path: str, column: str) -> bool:
        """Whether Apache Spark wrote the files at a path: by the name that it has for the elements of lists."""
        files, root = place(self.path)
        listed = [f"{root}/{path}"]
        if not path.endswith(".parquet"):
            below = pafs.FileSelector(f"{root}/{path}", recursive=True, allow_not_found=True)
            listed = [each.path for each in files.get_file_info(below)]
        first = next((each for each in listed if each.endswith(".parquet")), None)
        if first is None:
            return False
        with files.open_input_file(first) as raw:
            names = pq.read_schema(raw).field(column).type.value_field.name
        return bool(names == "element")


class Store(Files):
    """A trace as an engine reads and writes it; what it writes counts when the writer commits it."""

    def __init__(self, spark: SparkSession, writer: Writer) -> None:
        super().__init__(spark, writer.path)
        self.writer = writer
        self.written: dict[str, list[str]] = {}  # tables with the columns that they are cut by

    @property
    def base(self) -> Trace | None:
        """The trace as it was."""
        return self.writer.base

    def held(self, table: str) -> Sequence[Part]:
        """The parts that the trace had of a table."""
        return self.base.parts.get(table, ()) if self.base else ()

    def parts(self, table: str, paths: Iterable[str] | None = None) -> DataFrame:
        """What the trace had of a table, or some of its parts, with the columns beyond the table."""
        listed = [part.path for part in self.held(table)] if paths is None else paths
        return self.read(wide(table), *dict.fromkeys(listed))

    def now(self, table: str) -> DataFrame:
        """A table as it will be when what was written counts."""
        return self.table(table, self.writer.parts)

    def write(self, table: str, frame: DataFrame, *by: str, mode: str = "overwrite", counts: bool = True) -> str:
        """Write rows of a table, cut by the values of some columns; where they lie."""
        at = self.writer.folder(table) if counts else f"{self.writer.staging}/{table}"
        options = {"compression": "zstd", **self.options}
        frame.write.mode(mode).partitionBy(*by).options(**options).parquet(self.url(at))
        if counts:
            self.written[table] = list(by)
        return at

    def folders(self, at: str) -> list[str]:
        """The folders with files below a path in the trace."""
        files, root = place(self.writer.path)
        listed = files.get_file_info(pafs.FileSelector(f"{root}/{at}", recursive=True, allow_not_found=True))
        inside = (i.path for i in listed if i.type == pafs.FileType.File and not i.base_name.startswith(("_", ".")))
        return sorted({path.rpartition("/")[0].removeprefix(f"{root}/") for path in inside})

    def drop(self, at: str) -> None:
        """Remove a folder."""
        files, root = place(self.writer.path)
        files.delete_dir(f"{root}/{at}")

    def put_beside(self, name: str, rows: pa.Table) -> str:
        """Write rows where tasks find them, for this ingest only; the path."""
        files, root = place(self.writer.path)
        files.create_dir(f"{root}/{self.writer.staging}", recursive=True)
        with (
            files.open_output_stream(f"{root}/{self.writer.staging}/{name}") as sink,
            pa.ipc.new_stream(sink, rows.schema) as out,
        ):
            out.write_table(rows)
        return inside(self.writer.path, f"{self.writer.staging}/{name}")

    def digests(self) -> dict[str, list[Part]]:
        """What was written of each table, as parts with their rows and digests."""
        frames = []
        for table, by in self.written.items():
            schema = pa.schema([*schema_of(table), *((name, pa.string()) for name in by)])
            labels = [
                F.lit(table).alias("table"),
                *(F.col(name) if name in by else F.lit("").alias(name) for name in CUTS),
            ]
            sums = [
                F.expr(each).alias(name) for each, name in zip(digest_columns(table), ("n", "low", "high"), strict=True)
            ]
            rows = self.read(schema, self.writer.folder(table))
            rows = rows.where(F.col("state").isin(*WHOLE)) if "state" in by else rows
            frames.append(rows.groupBy(*labels).agg(*sums))
        found: dict[str, list[Part]] = {table: [] for table in self.written}
        for row in union(frames).toArrow().to_pylist() if frames else ():
            cut = "".join(f"/{name}={row[name]}" for name in CUTS if row[name])
            count, hashed = digest_of(row["n"], row["low"], row["high"])
            if count:
                found[row["table"]].append(Part(self.writer.folder(row["table"]) + cut, count, hashed, LOGS))
        return {table: sorted(parts, key=lambda part: part.path) for table, parts in found.items()}


def wide(table: str) -> pa.Schema:
    """The columns of a table, and what files of it may have beyond."""
    return pa.schema(list({each.name: each for each in [*EXTRA, *schema_of(table)]}.values()))


CUTS = ("state", "period")
"""Columns that tables are cut by."""

WHOLE = ("whole", "joined")
"""States of messages that count."""


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all frames."""
    whole = frames[0]
    for each in frames[1:]:
        whole = whole.unionByName(each)
    return whole


def columns_of(table: str, have: Sequence[str]) -> list[Column]:
    """The columns of a table; those that a frame does not have are null."""
    types = from_arrow_schema(schema_of(table), prefer_timestamp_ntz=False)
    return [
        F.col(each.name) if each.name in have else F.lit(None).cast(each.dataType).alias(each.name) for each in types
    ]


def without(frame: DataFrame, sources: Sequence[int]) -> DataFrame:
    """The rows that do not come from some sources."""
    return frame.where(~F.coalesce(F.col("source").isin(list(sources)), F.lit(False))) if sources else frame


# --- the session ------------------------------------------------------------------------------------------

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.maxConcurrentOutputFileWriters": "64",  # else rows are sorted by what tables are cut by
}


@contextmanager
def settings(spark: SparkSession) -> Iterator[SparkSession]:
    """What ingest needs of a session, which is put back as it was when its last ingest ends."""
    with _SETTING:
        if not _IN_USE[id(spark)]:
            _BEFORE[id(spark)] = {name: spark.conf.get(name, None) for name in SETTINGS}
            for name, value in SETTINGS.items():
                spark.conf.set(name, value)
        _IN_USE[id(spark)] += 1
    try:
        with functions_for(spark):
            yield spark
    finally:
        with _SETTING:
            _IN_USE[id(spark)] -= 1
            for name, old in _BEFORE.pop(id(spark)).items() if not _IN_USE[id(spark)] else ():
                spark.conf.unset(name) if old is None else spark.conf.set(name, old)


@contextmanager
def functions_for(spark: SparkSession) -> Iterator[None]:
    """While column functions are used: PySpark takes them for those of Connect or of a JVM by the environment."""
    mode = os.environ.pop(MODE, None)
    if "connect" in type(spark).__module__:
        os.environ[MODE] = "1"
    try:
        yield
    finally:
        os.environ.pop(MODE, None)
        if mode is not None:
            os.environ[MODE] = mode


MODE = "SPARK_CONNECT_MODE_ENABLED"
_SETTING, _IN_USE = threading.Lock(), Counter[int]()
_BEFORE: dict[int, dict[str, str | None]] = {}
