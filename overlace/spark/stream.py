"""Streams: each batch of a streaming DataFrame goes into a trace once, through the stages of any ingest.

    into_trace = into("trace", client="src", receiver="dst", at="when")
    stream.writeStream.foreachBatch(into_trace).option("checkpointLocation", "checkpoint").start()

The trace knows a stream by its query, which Spark keeps in the checkpoint, and how many of its batches count. So one
that was killed before the manifest was written is read again, and one that comes again after it changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from overlace.errors import Absent, BadParameter
from overlace.ingest.frames import Batch
from overlace.ingest.run import ingest_frame
from overlace.spark.failures import explained_failures
from overlace.spark.ingest import options_of
from overlace.spark.tasks import check_python

QUERY = "sql.streaming.queryId"
"""The property of a job of Spark that names the query that it is of."""


def into(trace: str, **named: Any) -> Callable[[DataFrame, int], None]:
    """What `foreachBatch` takes: a function that ingests a batch, with columns and options as `ingest` has them."""
    options = options_of(**named)

    def ingest_batch(frame: DataFrame, number: int) -> None:
        spark = frame.sparkSession
        query = spark.sparkContext.getLocalProperty(QUERY) if isinstance(spark, SparkSession) else None
        if query is None:
            raise BadParameter("expected to be called by foreachBatch of Apache Spark; other frames go to ingest()")
        frame.persist()
        try:
            with explained_failures():
                check_python(spark)
                if not frame.isEmpty():
                    with suppress(Absent):  # filters may leave no row of a batch
                        ingest_frame(frame, trace, spark, options, batch=Batch(query, number))
        finally:
            frame.unpersist()

    return ingest_batch
