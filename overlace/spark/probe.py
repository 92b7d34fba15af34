"""What each executor has: every one is asked by a task that is bound to it."""

from __future__ import annotations

import pickle
import re
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Thread
from typing import Any

from pyspark import RDD
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession

import overlace
from overlace.spark.failures import explained, of_spark
from overlace.spark.fitness import look
from overlace.spark.jvm import NoSpark
from overlace.spark.session import is_local

FIRST = 60.0
"""Seconds until the first executor must have come."""

SETTLED = 5.0
"""Seconds without another one after which all have come."""

AT_ONCE = 16
"""Executors that are asked at the same time."""


def probe(spark: SparkSession, first: float = FIRST, settled: float = SETTLED) -> list[dict[str, Any]]:
    """What the Python of each executor answers (see `fitness.look`), or in `lacks` why it does not."""
    found = executors(spark, first, settled)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda each: {"executor": each, **ask(spark, each)}, found))


def executors(spark: SparkSession, first: float = FIRST, settled: float = SETTLED) -> list[str]:
    """The ids of all executors, once they have come; `driver` on `local`."""
    if is_local(str(spark.sparkContext.master)):
        return ["driver"]
    Thread(target=_call_for, args=(spark,), daemon=True).start()
    begun = news = time.monotonic()
    found: list[str] = []
    while not found or _has_gap(found) or time.monotonic() - news < settled:
        now = _executors_now(spark)
        if now != found:
            found, news = now, time.monotonic()
        if time.monotonic() - begun > first and not found:
            raise NoSpark(
                f"{spark.sparkContext.master} gave no executor within {first:.0f} s. "
                "Check that it has workers with free cores and memory (--conf spark.executor.memory=...)."
            )
        if time.monotonic() - news > first:  # what is missing has come and gone
            break
        time.sleep(0.1)
    return found


def _call_for(spark: SparkSession) -> None:
    """A job that needs no Python: where executors come on demand, they come for work only."""
    with suppress(Exception):
        spark.range(0, AT_ONCE, 1, AT_ONCE).count()


def _executors_now(spark: SparkSession) -> list[str]:
    ids = spark.sparkContext._jsc.sc().getExecutorIds()
    return sorted((str(ids.apply(i)) for i in range(ids.size())), key=lambda each: (len(each), each))


def _has_gap(found: list[str]) -> bool:
    """Executors are numbered as they are launched: one that is missing below another is still on its way."""
    return all(each.isdigit() for each in found) and len(found) <= max(map(int, found)) - min(map(int, found))


def ask(spark: SparkSession, executor: str) -> dict[str, Any]:
    """What the Python of one executor answers, or why it does not."""
    version = overlace.__version__

    def answer(rows: Iterable[Any]) -> Iterator[Any]:
        for _ in rows:
            yield look(version)

    try:
        about: dict[str, Any] = _bound_to(spark, executor).mapPartitions(answer).collect()[0]
        return about
    except Exception as error:
        if not of_spark(error):
            raise
        text = str(error)
        host = re.search(r"\((\S+) executor \S+\): ", text)
        return {
            "host": host[1] if host else "?", "path": spark.sparkContext.pythonExec, "python": "?", "found": {},
            "lacks": {"python": str(explained(error))},
        }  # fmt: skip


def _bound_to(spark: SparkSession, executor: str) -> RDD[Any]:
    """One row that an executor is to work on."""
    context = spark.sparkContext
    jvm: Any = context._jvm
    where = jvm.PythonUtils.toSeq([f"executor_any_{executor}"])
    row = jvm.scala.Tuple2(bytearray(pickle.dumps(0)), where)
    kind = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$").apply(jvm.java.lang.Class.forName("[B"))
    rows = context._jsc.sc().makeRDD(jvm.PythonUtils.toSeq([row]), kind).toJavaRDD()
    return RDD(rows, context, CPickleSerializer())
