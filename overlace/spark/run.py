"""Batch functions on Spark: the same function that runs over a list, over partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from overlace.replay.partials import PARTIAL


def runner(spark: SparkSession) -> Callable[[Any, Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What runs a replay's batch function on this session."""

    def run(function: Any, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        frame = spark.createDataFrame(pa.Table.from_batches(list(rows)))
        yield from frame.mapInArrow(function, from_arrow_schema(PARTIAL)).toArrow().to_batches()

    return run
