"""Batch functions as tasks of Spark, on executors whose Python is fit for them.

Small inputs never need numba, so an executor without it would pass forty lines and fail on a million; and a task that
fails is tried again elsewhere, so that one bad executor would only be slow, or fail a job by chance. So the first job
of a session asks the executors that are there, and refuses the work if one is not fit, with its host and Python named.

Functions of this module are pickled by value, with what they refer to: they run where `overlace` may be missing.
"""

from __future__ import annotations

import json
import pickle
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version as version_of
from platform import python_version
from socket import gethostname
from threading import Thread
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark import RDD, cloudpickle
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession

from overlace import __version__
from overlace.spark.engines import IN_THIS_PROCESS, is_local
from overlace.spark.failures import ELSEWHERE, UnfitExecutor, explain, is_of_spark, words_of
from overlace.spark.jvm import NoSpark

NEEDED = ("overlace", "numpy", "pyarrow", "pandas", "numba", "msgspec", "xxhash")
"""What tasks import, or Spark for them."""

FIRST, QUEUED, SETTLED = 30.0, 300.0, 5.0
"""Seconds until the first executor must have come, of a standalone master and where applications queue for them, and
without another one after which all have."""

AT_ONCE, MOST = 16, 64
"""Executors that are asked at the same time, and before the first job; the others say it when a task comes to them."""

About: TypeAlias = dict[str, Any]
"""What a Python says of itself: `host`, `path`, `python` (its version), `found` and `lacks` by package."""

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def runs_this_python(spark: SparkSession) -> bool:
    """Whether tasks run on the Python that runs this."""
    if not isinstance(spark, SparkSession):
        return spark in IN_THIS_PROCESS
    return is_local(str(spark.sparkContext.master)) and spark.sparkContext.pythonExec == sys.executable


def describe_python(version: str) -> About:
    """What this Python has and lacks; another version of Overlace than this one counts as lacking."""
    found, lacks = {}, {}
    for name in NEEDED:
        try:
            found[name] = str(getattr(import_module(name), "__version__", None) or version_of(name))
        except ModuleNotFoundError as error:
            lacks[name] = "missing" if error.name == name else f"its import fails: no module {error.name}"
        except Exception as error:
            lacks[name] = f"its import fails: {' '.join(str(error).split())[:200]}"
    if found.get("overlace", version) != version:
        lacks["overlace"] = f"{found['overlace']} there, {version} here"
    return {"host": gethostname(), "path": sys.executable, "python": python_version(), "found": found, "lacks": lacks}


def probe(spark: SparkSession) -> list[About]:
    """What each `executor` answers, each asked by a task that is bound to it, or in `lacks` why it does not."""
    if not isinstance(spark, SparkSession):
        return [{"executor": "a task", **each, "sure": True} for each in ask_server(spark)]
    return list(_ask_all(spark, _executors(spark, SETTLED)))


def check_python(spark: SparkSession) -> None:
    """Refuse a session with an executor, of those that are there now, whose Python lacks what our tasks need."""
    if runs_this_python(spark):
        return
    here = isinstance(spark, SparkSession)
    session = str(spark.sparkContext.applicationId if here else getattr(spark, "session_id"))  # noqa: B009
    if session not in _checked:
        answers = _ask_all(spark, _executors(spark, 1.0)[:MOST]) if here else ask_server(spark)
        refuse_unfit(each for each in answers if each["lacks"] and each.get("sure", True))
        _checked.add(session)


def ask_server(spark: SparkSession) -> list[About]:
    """What the Python of one task behind Spark Connect answers: more cannot be asked for there."""

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            about = json.dumps(describe_python(__version__))
            yield pa.RecordBatch.from_arrays([pa.array([about] * batch.num_rows)], names=["about"])

    return [
        json.loads(each) for each in spark.range(1).mapInArrow(answer, "about string").toArrow()["about"].to_pylist()
    ]


_checked: set[str] = set()
"""Sessions whose executors have been asked."""


def _executors(spark: SparkSession, settled: float) -> list[str]:
    """The ids of all executors, once they have come; `driver` on `local`."""

    def request() -> None:
        """Where executors are started on demand, only a job starts them; this one needs no Python."""
        with suppress(Exception):
            spark.range(0, AT_ONCE, 1, AT_ONCE).count()

    if is_local(str(spark.sparkContext.master)):
        return ["driver"]
    Thread(target=request, daemon=True).start()
    patience = FIRST if str(spark.sparkContext.master).startswith("spark://") else QUEUED
    begun = news = time.monotonic()
    found: list[str] = []
    gap = False  # executors are numbered as they are launched: one that is missing may still be on its way
    while not found or time.monotonic() - news < settled * (4 if gap else 1):
        ids = spark.sparkContext._jsc.sc().getExecutorIds()
        now = sorted((str(ids.apply(i)) for i in range(ids.size())), key=lambda each: (len(each), each))
        if now != found:
            found, news = now, time.monotonic()
            numbers = [int(each) for each in found if each.isdigit()]
            gap = len(numbers) == len(found) > 0 and len(found) <= numbers[-1] - numbers[0]
        if time.monotonic() - begun > patience and not found:
            raise NoSpark(
                f"{spark.sparkContext.master} gave no executor within {patience:.0f} s. "
                "Check that it has workers with free cores and memory (--conf spark.executor.memory=...)."
            )
        time.sleep(0.1)
    return found


def _ask_all(spark: SparkSession, executors: Sequence[str]) -> Iterator[About]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(lambda each: _ask(spark, each), executors)


def _ask(spark: SparkSession, executor: str) -> About:
    """What the Python of one executor answers, or why it does not; `sure` unless that has another reason."""

    def answer(rows: Iterable[object]) -> Iterator[About]:
        for _ in rows:
            yield describe_python(__version__)

    try:
        return {"executor": executor, **_bound_to(spark, executor).mapPartitions(answer).collect()[0], "sure": True}
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
    complaints = dict.fromkeys(map(_complaint, answers))
    if complaints:
        raise UnfitExecutor(
            f"executors cannot run Overlace: {'; '.join(complaints)}. Install it there, or {ELSEWHERE}. "
            "`overlace doctor --master` lists all executors."
        )


def _complaint(about: About) -> str:
    if "python" in about["lacks"]:  # it could not even answer, and that says where
        return re.sub(rf"(: |\. Install it there, or ){ELSEWHERE}.$", "", str(about["lacks"]["python"]))
    lacks = (name if what == "missing" else f"{name} ({what})" for name, what in about["lacks"].items())
    return f"on {about['host']} Python {about['python']} ({about['path']}) lacks {', '.join(lacks)}"
