"""Traffic of a trace that is larger than memory: an engine adds it up over time, and arrays take what is left.

What an observation holds, and what a replay measures, has no times but of newcomers. So the rows of one client, topic
and audience are one row for a whole window; there are about as many as the observation has traffic classes. The tasks
read the files of the trace, and only sums come back. All stages are functions from DataFrame to DataFrame.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from overlace.arrays.jit import Ints
from overlace.ingest.stages import begin_of
from overlace.ingest.store import Files, settings, union
from overlace.observe.traffic import as_traffic, inside
from overlace.spark.failures import explained_failures
from overlace.trace.store import Trace, replace_ids
from overlace.trace.tables import TIME, numbers, schema_of
from overlace.trace.traffic import UNLOGGED, Traffic

if TYPE_CHECKING:
    from overlace.observe.tables import Window

KEYS = ("bucket", "client", "topic", "attributes", "audience")
SUMS = ("messages", "bytes")

LARGE = {"sail": 2_000_000, "spark": 10_000_000}
"""Rows of traffic from which on an engine reads a trace: Sail is faster then, and what Spark saves is memory
(docs/scale.md)."""


def sent_in(traffic: DataFrame, messages: DataFrame, window: Window, edges: list[Window]) -> DataFrame:
    """Rows of traffic in whole buckets of a window, and the messages at its ends as rows of traffic."""
    ends = [in_rows(messages.where(_between("at", edge))) for edge in edges]
    return union([traffic.where(_between("bucket", window)).select(*KEYS, *SUMS), *ends])


def in_rows(messages: DataFrame) -> DataFrame:
    """Messages as rows of traffic, each with its own time."""
    size = F.coalesce(F.col("bytes"), F.lit(0)).cast("long") * F.col("weight")
    return messages.select(
        F.col("at").alias("bucket"),
        *("client", "topic", "attributes"),
        F.coalesce(F.col("audience"), F.lit(UNLOGGED)).alias("audience"),
        F.col("weight").cast("long").alias("messages"),
        size.alias("bytes"),
    )


def clients_in(rows: DataFrame, audiences: DataFrame) -> DataFrame:
    """The clients that sent or received something."""
    got = audiences.join(rows.select("audience").distinct(), "audience", "semi")
    return union([rows.select("client"), got.select(F.explode("receivers").alias("client"))]).distinct()


def with_newcomers(rows: DataFrame, audiences: DataFrame, known: DataFrame) -> DataFrame:
    """Rows with the column `fresh`: whether a client takes part in them that is not among the known ones."""
    members = audiences.select("audience", F.explode("receivers").alias("client"))
    heard = members.join(known, "client", "anti").select("audience").distinct().withColumn("hears", F.lit(True))
    sends = known.select("client").withColumn("knows", F.lit(True))
    found = rows.join(heard, "audience", "left").join(sends, "client", "left")
    return found.withColumn("fresh", F.col("hears").isNotNull() | F.col("knows").isNull()).drop("hears", "knows")


def over_time(rows: DataFrame, since: int, keeps: Column) -> DataFrame:
    """Rows added up over the whole window that begins at `since`; some keep their time."""
    at = F.when(keeps, F.col("bucket")).otherwise(_time(since))
    return rows.withColumn("bucket", at).groupBy(*KEYS).agg(*(F.sum(name).alias(name) for name in SUMS))


def _time(micro: int) -> Column:
    return F.timestamp_micros(F.lit(micro))


def _between(column: str, window: Window) -> Column:
    return (F.col(column) >= _time(window[0])) & (F.col(column) < _time(window[1]))


@dataclass(frozen=True)
class OnEngine:
    """Traffic that an engine adds up: of what it reads only sums come into this process."""

    spark: SparkSession

    def buckets(self, trace: Trace) -> tuple[Ints, Ints]:
        """(bucket, messages), each bucket once."""
        with settings(self.spark), explained_failures():
            sums = self._table(trace, "traffic").groupBy("bucket").agg(F.sum("messages").alias("messages")).toArrow()
        sums = sums.sort_by("bucket")
        return numbers(sums["bucket"].cast(TIME)), numbers(sums["messages"])

    def traffic(self, trace: Trace, window: Window | None = None, after: Window | None = None) -> Traffic:
        """The traffic of a window, added up over time where only sums are of use."""
        since = (window or trace.span())[0]
        with settings(self.spark), explained_failures():
            rows, keeps = self._sent(trace, window), F.col("audience") == UNLOGGED
            if after is not None and after != window:
                known = clients_in(self._sent(trace, after), self._table(trace, "audiences"))
                rows = with_newcomers(rows, self._table(trace, "audiences"), known)
                keeps |= F.col("fresh")
            return self._gathered(trace, over_time(rows, since // trace.bucket_us * trace.bucket_us, keeps))

    def messages(self, trace: Trace, window: Window, after: Window) -> Traffic:
        """Messages of a window in which a client takes part that had no traffic in another."""
        with settings(self.spark), explained_failures():
            audiences = self._table(trace, "audiences")
            known = clients_in(self._sent(trace, after), audiences)
            rows = in_rows(self._table(trace, "messages").where(_between("at", window)))
            return self._gathered(trace, with_newcomers(rows, audiences, known).where("fresh").drop("fresh"))

    def _sent(self, trace: Trace, window: Window | None) -> DataFrame:
        """The rows of a window, those of a part of a bucket with the time of the bucket."""
        if window is None:
            return self._table(trace, "traffic").select(*KEYS, *SUMS)
        inner, edges = inside(trace, window)
        rows = sent_in(self._table(trace, "traffic"), self._table(trace, "messages"), inner, edges)
        return rows.withColumn("bucket", begin_of("bucket", trace.bucket_us))

    def _table(self, trace: Trace, table: str) -> DataFrame:
        return Files(self.spark, trace.path).table(table, trace.parts)

    def _gathered(self, trace: Trace, rows: DataFrame) -> Traffic:
        """Rows and the audiences that they name, with the numbers of this process for ids."""
        found = rows.select(*KEYS, *SUMS).persist()
        try:
            sums = found.toArrow()
            used = found.select("audience").distinct()
            sets = self._table(trace, "audiences").join(used, "audience", "semi").toArrow()
        finally:
            found.unpersist()
        sums = _in_shape(trace, sums, "traffic")
        order = np.lexsort([numbers(sums[name], -1) for name in reversed(KEYS)])
        return as_traffic(sums.take(pa.array(order)), _in_shape(trace, sets.sort_by("audience"), "audiences"))


def _in_shape(trace: Trace, rows: pa.Table, table: str) -> pa.Table:
    """What an engine gave as rows of a table, with the numbers of this process for ids."""
    schema = schema_of(table)
    wanted = pa.schema([schema.field(name) for name in rows.column_names])
    return replace_ids(rows.cast(wanted).combine_chunks(), table, trace.number)


def is_for_engine(trace: Trace, engine: str) -> bool:
    """Whether an engine had better read a trace than this process: a large one, each file of which counts whole."""
    whole = all(part.group < 0 for table in ("traffic", "messages", "audiences") for part in trace.parts.get(table, ()))
    return whole and trace.rows("traffic") >= LARGE[engine]
