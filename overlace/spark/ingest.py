"""Ingest on Spark: logs, or a DataFrame of the user's own, to a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from overlace.ingest.options import Options
from overlace.ingest.run import Ingested, Runner, ingest_sources
from overlace.ingest.staging import ANSWER, BatchFunction
from overlace.model import Progress
from overlace.spark.failures import explained_failures
from overlace.spark.session import session
from overlace.spark.watch import watch_jobs
from overlace.spark.work import number_tasks, run_on
from overlace.trace.writer import Writer, writing

Logs = str | Sequence[str] | DataFrame


def ingest(
    logs: Logs,
    out: str,
    mapping: Mapping[str, str | Sequence[str]] | None = None,
    *,
    spark: SparkSession | None = None,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Ingested:
    """Logs, given by their paths or as a DataFrame, into the trace at `out`, new or existing.

    `mapping` says which column each field is read from: client, at, topic, bytes, receiver (a row a delivery) or
    receivers (a list), key, broker, weight, attributes; common names are found without it. It runs on the given
    session, the active one, or one of its own; a session that it did not start it never stops.
    """
    chosen = options or Options()
    if mapping:
        chosen = replace(chosen, map={**chosen.map, **mapping})
    own = logs.sparkSession if isinstance(logs, DataFrame) else spark
    with session(spark or own) as used:
        if isinstance(logs, DataFrame):
            chosen = replace(chosen, format="parquet")
            with writing(out, break_lock=chosen.break_lock) as writer:
                folder = stage_frame(logs, writer)
                return ingest_sources([folder], out, spark_runner(used, progress), chosen, progress, writer)
        paths = [logs] if isinstance(logs, str) else list(logs)
        return ingest_sources(paths, out, spark_runner(used, progress), chosen, progress)


def spark_runner(spark: SparkSession, progress: Progress | None = None) -> Runner:
    """How the jobs of an ingest run on a session."""
    tell = progress or (lambda share, what: None)

    def run(function: BatchFunction, tasks: int, stage: str, begin: float, end: float) -> pa.Table:
        with watch_jobs(spark, tell, stage, begin, end):
            return run_on(number_tasks(spark, tasks), function, ANSWER)

    return Runner(run, spark.sparkContext.defaultParallelism)


def stage_frame(frame: DataFrame, writer: Writer) -> str:
    """Write a DataFrame as Parquet into what the writer stages; the path."""
    target = f"{writer.path}/{writer.staging}/DataFrame.parquet"
    with explained_failures():
        frame.write.parquet(target if "://" in target else f"file://{target}")
    return target
