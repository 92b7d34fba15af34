"""A quiet Spark session, and never a hand on a session that is the user's.

The JVM's chatter goes to a file that is named when something fails, and removed when nothing did.
`session()` uses the session it is given or the active one; only a session that it started itself is stopped.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import tempfile
import threading
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from overlace.spark.failures import explained_failures
from overlace.spark.java import find_java
from overlace.spark.jvm import PATIENCE, drop_log, end, launch, log_file
from overlace.stopping import finishing, when_stopped

__all__ = ["EMBEDDED", "log_file", "packed", "session", "start", "stop"]

EMBEDDED: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""What a session that we start has, unless the user says otherwise."""


@contextmanager
def session(
    given: SparkSession | None = None, master: str = "local[*]", config: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """The given session, the active one, or one of our own on this master, stopped at the end."""
    spark = given or SparkSession.getActiveSession()
    if spark is None and SparkContext._active_spark_context is not None:  # started in another thread
        spark = SparkSession.builder.getOrCreate()
    if spark is not None:
        with explained_failures():
            yield spark
        return
    spark = start(master, config)
    try:
        with explained_failures():
            yield spark
    finally:
        stop(spark)


def start(master: str = "local[*]", config: Mapping[str, str] | None = None) -> SparkSession:
    """Start a JVM and a session. What the JVM says goes to a file in the temporary folder."""
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    quiet = Path(str(files("overlace.spark") / "log4j2.properties"))
    conf = SparkConf().setMaster(master).setAppName("overlace")
    conf.set("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={quiet.as_uri()}")
    if not master.startswith("local[") and master != "local":
        conf.set("spark.submit.pyFiles", str(packed()))
        os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    for key, value in {**EMBEDDED, **(config or {})}.items():
        conf.set(key, value)
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):  # they print what we are about to explain
        PySparkLogger.getLogger(name).disabled = True
    gateway = launch(conf)
    try:
        with explained_failures(), own_handlers():
            context = SparkContext(gateway=gateway, conf=conf)
            when_stopped(
                id(gateway), context.cancelAllJobs
            )  # who waits for rows waits for the job to end, come what may
            return SparkSession(context)
    except BaseException:
        with finishing():
            _end(gateway)
        raise


@contextmanager
def own_handlers() -> Iterator[None]:
    """Keep who listens for Ctrl-C: a SparkContext takes the signal for itself."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGINT, before)


def packed() -> Path:
    """This package as a zip that executors import, the same file for the same sources."""
    root = Path(str(files("overlace")))
    sources = sorted(path for path in root.rglob("*") if path.suffix in (".py", ".properties", ".j2"))
    state = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    target = Path(tempfile.gettempdir()) / f"overlace-{state}" / "overlace.zip"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{os.getpid()}.part")
        try:
            with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as archive:
                for path in sources:
                    archive.writestr(zipfile.ZipInfo(str(Path("overlace") / path.relative_to(root))), path.read_bytes())
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
    return target


def stop(spark: SparkSession) -> None:
    """Stop a session that start() made, and its JVM; one that does not answer is ended all the same.

    It is asked from another thread: this one may have been interrupted in the middle of a call to the JVM.
    """
    gateway = spark.sparkContext._gateway
    with finishing():
        asking = threading.Thread(target=_ask_to_stop, args=(spark,), daemon=True)
        asking.start()
        asking.join(PATIENCE)
        _end(gateway)


def _ask_to_stop(spark: SparkSession) -> None:
    with suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the JVM is gone already
        spark.stop()


def _end(gateway: Any) -> None:
    """End the JVM behind a gateway, and let PySpark forget it."""
    when_stopped(id(gateway), None)
    if gateway is not None:
        process = getattr(gateway, "proc", None)
        if process is None or process.poll() is None:
            with suppress(Exception):
                gateway.shutdown()
        if process is not None:
            end(process)
    with SparkContext._lock:
        SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    drop_log()
