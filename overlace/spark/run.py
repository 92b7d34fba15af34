"""Batch functions on Spark: the same function that runs over a list, over partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from overlace.metrics import Metrics
from overlace.model import Observation, Overlay
from overlace.observe.known import known_in
from overlace.observe.observation import observe as observation_of
from overlace.observe.traffic import traffic_of
from overlace.replay.measure import measure
from overlace.spark.failures import explained_failures
from overlace.spark.session import session
from overlace.spark.work import run_on
from overlace.trace.store import BatchFunction, Runner, Trace


def runner(spark: SparkSession) -> Runner:
    """What runs a batch function of observe or replay on this session."""

    def run(function: BatchFunction, rows: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with explained_failures():
            frame = spark.createDataFrame(pa.Table.from_batches(list(rows)))
        yield from run_on(frame, function, schema).to_batches()

    return run


def observe(
    trace: Trace | str, spark: SparkSession | None = None, window: tuple[int, int] | None = None
) -> Observation:
    """What a window of a trace says, summed on Spark: on this session, the active one, or one of its own."""
    opened = Trace.open(trace) if isinstance(trace, str) else trace
    with session(spark) as used:
        return observation_of(opened, window, runner(used))


def replay(
    trace: Trace | str,
    overlay: Overlay,
    spark: SparkSession | None = None,
    window: tuple[int, int] | None = None,
    observation: Observation | None = None,
) -> Metrics:
    """What a window of a trace costs on an overlay, measured on Spark."""
    opened = Trace.open(trace) if isinstance(trace, str) else trace
    with session(spark) as used:
        seen = observation or observation_of(opened, window, runner(used))
        rows = traffic_of(opened, window, known_in(opened, seen.window))
        return measure(seen, overlay, rows, opened.unit, runner(used))
