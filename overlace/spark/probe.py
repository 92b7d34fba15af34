"""What each executor has: every one is asked by a task that is bound to it.

`doctor` asks them all and shows the answers. The first job of a session asks those that are there and refuses the
work if one is not fit, before anything is read.
"""

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
from overlace.spark.failures import ELSEWHERE, UnfitExecutor, explain, is_of_spark, words_of
from overlace.spark.fitness import About, look
from overlace.spark.jvm import NoSpark
from overlace.spark.session import is_local

FIRST = 60.0
"""Seconds until the first executor must have come."""

SETTLED = 5.0
"""Seconds without another one after which all have come."""

AT_ONCE = 16
"""Executors that are asked at the same time."""

MOST = 64
"""Executors that are asked before the first job; the others say it when a task comes to them."""


class Answer(About):
    """What an executor answers, or in `lacks` why it does not; `sure` unless that has another reason."""

    executor: str
    sure: bool


def probe(spark: SparkSession, first: float = FIRST, settled: float = SETTLED) -> list[Answer]:
    """What the Python of each executor answers (see `fitness.look`), or in `lacks` why it does not."""
    found = executors(spark, first, settled)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda each: ask(spark, each), found))


def check_executors(spark: SparkSession) -> None:
    """Refuse a session with an executor, of those that are there now, whose Python lacks what our tasks need."""
    if spark.sparkContext.applicationId in _checked:
        return
    with suppress(NoSpark), ThreadPoolExecutor(AT_ONCE) as pool:
        found = executors(spark, settled=1.0)[:MOST]
        refuse_unfit(each for each in pool.map(lambda each: ask(spark, each), found) if each["lacks"] and each["sure"])
    _checked.add(spark.sparkContext.applicationId)


_checked: set[str] = set()
"""Applications whose executors have been asked."""


def executors(spark: SparkSession, first: float = FIRST, settled: float = SETTLED) -> list[str]:
    """The ids of all executors, once they have come; `driver` on `local`."""
    if is_local(str(spark.sparkContext.master)):
        return ["driver"]
    Thread(target=_call_for, args=(spark,), daemon=True).start()
    begun = news = time.monotonic()
    found: list[str] = []
    while not found or time.monotonic() - news < settled * (4 if _has_gap(found) else 1):
        now = _executors_now(spark)
        if now != found:
            found, news = now, time.monotonic()
        if time.monotonic() - begun > first and not found:
            raise NoSpark(
                f"{spark.sparkContext.master} gave no executor within {first:.0f} s. "
                "Check that it has workers with free cores and memory (--conf spark.executor.memory=...)."
            )
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
    """Executors are numbered as they are launched: one that is missing below another may still be on its way."""
    return all(each.isdigit() for each in found) and len(found) <= max(map(int, found)) - min(map(int, found))


def ask(spark: SparkSession, executor: str) -> Answer:
    """What the Python of one executor answers, or why it does not; `sure` unless that has another reason."""
    version = overlace.__version__

    def answer(rows: Iterable[object]) -> Iterator[About]:
        for _ in rows:
            yield look(version)

    try:
        about: About = _bound_to(spark, executor).mapPartitions(answer).collect()[0]
        return {"executor": executor, **about, "sure": True}
    except Exception as error:
        if not is_of_spark(error):
            raise
        host, why = re.search(r"\((\S+) executor \S+\): ", words_of(error)), explain(error)
        return {
            "executor": executor,
            "host": host[1] if host else "?",
            "path": spark.sparkContext.pythonExec,
            "python": "?",
            "found": {},
            "lacks": {"python": str(why)},
            "sure": isinstance(why, UnfitExecutor),
        }


def _bound_to(spark: SparkSession, executor: str) -> RDD[Any]:
    """One row that an executor is to work on."""
    context = spark.sparkContext
    jvm: Any = context._jvm
    where = jvm.PythonUtils.toSeq([f"executor_any_{executor}"])
    row = jvm.scala.Tuple2(bytearray(pickle.dumps(0)), where)
    kind = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$").apply(jvm.java.lang.Class.forName("[B"))
    rows = context._jsc.sc().makeRDD(jvm.PythonUtils.toSeq([row]), kind).toJavaRDD()
    return RDD(rows, context, CPickleSerializer())


def refuse_unfit(answers: Iterable[About]) -> None:
    """Raise what executors lack, each host and Python once."""
    said = dict.fromkeys(_complaint(each) for each in answers)
    if said:
        raise UnfitExecutor(
            f"executors cannot run Overlace: {'; '.join(said)}. Install it there, or {ELSEWHERE}. "
            "`overlace doctor --master` lists all executors."
        )


def _complaint(about: About) -> str:
    if "python" in about["lacks"]:  # it could not even answer, and that says where
        return re.sub(rf"(: |\. Install it there, or ){ELSEWHERE}.$", "", str(about["lacks"]["python"]))
    return f"on {about['host']} Python {about['python']} ({about['path']}) lacks {lacking(about)}"


def lacking(about: About) -> str:
    """What a Python lacks, in words."""
    return ", ".join(name if what == "missing" else f"{name} ({what})" for name, what in about["lacks"].items())
