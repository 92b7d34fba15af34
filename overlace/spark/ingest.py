"""Ingest on Spark: logs, or a DataFrame of the user's own, to a trace."""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pyarrow.fs as pafs
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from overlace.errors import BadTrace
from overlace.ingest.formats.parquet import NotSorted
from overlace.ingest.options import Options
from overlace.ingest.run import Ingested, Runner, ingest_sources
from overlace.ingest.tasks import ANSWERS, BatchFunction
from overlace.model import Progress
from overlace.spark.session import session
from overlace.spark.watch import watched
from overlace.trace.store import Trace, absolute, place

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
            with staged_frame(logs, out) as folder:
                return ingest_sources(
                    [folder], out, spark_runner(used, progress), replace(chosen, format="parquet"), progress
                )
        paths = [logs] if isinstance(logs, str) else list(logs)
        return ingest_sources(paths, out, spark_runner(used, progress), chosen, progress)


def spark_runner(spark: SparkSession, progress: Progress | None = None) -> Runner:
    """How the jobs of an ingest run on a session."""
    tell = progress or (lambda share, what: None)

    def run(function: BatchFunction, tasks: int, stage: str, begin: float, end: float) -> pa.Table:
        numbers = spark.range(0, tasks, 1, tasks)  # a task each, and nothing to shuffle
        with watched(spark, tell, stage, begin, end), task_failures():
            return numbers.mapInArrow(function, ANSWERS).toArrow()

    return Runner(run, spark.sparkContext.defaultParallelism)


@contextmanager
def task_failures() -> Iterator[None]:
    """What a task said, without Spark's words around it."""
    try:
        yield
    except PythonException as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = [line for line in lines if re.match(r"overlace\.[\w.]+: ", line)]
        if said:
            name, _, text = said[-1].partition(": ")
            raise (NotSorted if name.endswith(".NotSorted") else BadTrace)(text) from None
        raise BadTrace(f"a task failed: {lines[-1] if lines else error}") from None


@contextmanager
def staged_frame(frame: DataFrame, out: str) -> Iterator[str]:
    """A DataFrame as Parquet beside the trace, for as long as it is read."""
    target = f"{absolute(out)}/.staging-{uuid.uuid4().hex[:12]}/DataFrame.parquet"
    there = Trace.exists(absolute(out))
    address = target if "://" in target else f"file://{place(target)[1]}"
    try:
        frame.write.parquet(address)
        yield target
    finally:
        files, at = place(target.rpartition("/")[0])
        with contextlib.suppress(OSError):
            files.delete_dir(at)
        if not there and not Trace.exists(absolute(out)):
            with contextlib.suppress(OSError):
                _remove_empty(absolute(out))


def _remove_empty(path: str) -> None:
    files, at = place(path)
    if not files.get_file_info(pafs.FileSelector(at, allow_not_found=True)):
        files.delete_dir(at)
