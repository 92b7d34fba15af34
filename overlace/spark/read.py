"""Tables of a trace as DataFrames, the names of things in place of their ids."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from overlace.errors import Unknown
from overlace.ingest.store import Files, functions_for
from overlace.trace.store import Trace
from overlace.trace.tables import TRACE, hashed_columns

NAMED = ("region",)
"""Columns that hold small numbers of things that have names."""


def read(spark: SparkSession, trace: str, table: str, *, names: bool = True) -> DataFrame:
    """A table of a trace, read by the engine of a session: lazily, and nothing of it on the driver.

    Clients, brokers, topics and regions have their names; with `names=False` ids, as the files have them: of clients,
    brokers and topics xxhash64 of the name. Who received traffic and messages is in the table audiences.
    """
    if table not in TRACE:
        raise Unknown("table", table, list(TRACE))
    found = Trace.open(trace)
    files = Files(spark, found.path)
    with functions_for(spark):
        frame, listed = files.table(table, found.parts), files.table("names", found.parts)
        kinds = hashed_columns(table) | {name: name for name in NAMED if name in frame.columns}
        for column, kind in kinds.items() if names else ():
            own = listed.where(F.col("kind") == kind).select(F.col("id").alias(ITS_ID), F.col("name").alias(ITS_NAME))
            frame = _lists_named(frame, column, own) if column == "receivers" else _named(frame, column, own)
    return frame


ITS_ID, ITS_NAME = "its id", "its name"


def _named(frame: DataFrame, column: str, names: DataFrame) -> DataFrame:
    """A frame with names for the ids in a column."""
    wanted = [F.col(ITS_NAME).alias(column) if name == column else F.col(name) for name in frame.columns]
    return frame.join(names, F.col(column).cast("long") == F.col(ITS_ID), "left").select(*wanted)


def _lists_named(frame: DataFrame, column: str, names: DataFrame) -> DataFrame:
    """A frame with names for the ids in the sets of a column, which are known by their audience."""
    each = frame.select("audience", F.explode_outer(column).alias(column)).distinct()
    sets = _named(each, column, names).groupBy("audience").agg(F.array_sort(F.collect_list(column)).alias(column))
    return frame.drop(column).join(sets, "audience", "left").select(*frame.columns)
