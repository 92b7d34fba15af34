"""How a batch function runs on Spark: over numbers of tasks or rows, on executors that are fit for it."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import overlace
from overlace.spark.failures import explained_failures
from overlace.spark.fitness import UNFIT, check_first
from overlace.spark.probe import check_executors, refuse_unfit
from overlace.spark.session import is_local
from overlace.trace.store import BatchFunction


def run_on(frame: DataFrame, function: BatchFunction, schema: pa.Schema) -> pa.Table:
    """What a batch function makes of the rows of a frame, all tasks together."""
    with explained_failures():
        if runs_this_python(frame.sparkSession):
            return frame.mapInArrow(function, from_arrow_schema(schema)).toArrow()
        check_executors(frame.sparkSession)
        checked = check_first(function, schema.names, schema.types, overlace.__version__)
        asked = pa.schema([*(each.with_nullable(True) for each in schema), pa.field(UNFIT, pa.string())])
        done = frame.mapInArrow(checked, from_arrow_schema(asked)).toArrow()
        refuse_unfit(json.loads(each) for each in done[UNFIT].unique().to_pylist() if each)
        return done.drop_columns([UNFIT])


def runs_this_python(spark: SparkSession) -> bool:
    """Whether tasks run here, on the Python that runs this: what it lacks would have been noticed.

    Where they run behind Spark Connect is not to be asked.
    """
    if not isinstance(spark, SparkSession):
        return True
    return is_local(str(spark.sparkContext.master)) and spark.sparkContext.pythonExec == sys.executable
