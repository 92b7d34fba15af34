"""A quiet session of Apache Spark, with this process as its driver.

The JVM's log goes to a file that is named when something fails, and removed when nothing did.

Settings of a session that is started here: those of the caller (`--conf`) come first. On `local` ours come next; on a
cluster what is set there (spark-defaults.conf, PYSPARK_SUBMIT_ARGS, spark-submit), and ours only fill gaps.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import warnings
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

import pyspark
from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from overlace.ingest.store import MODE
from overlace.spark.engines import is_local
from overlace.spark.failures import explained_failures
from overlace.spark.java import find_java
from overlace.spark.jvm import PATIENCE, NoSpark, drop_folder, end, launch, work_folder
from overlace.stopping import finishing, when_stopped

EMBEDDED: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.executorEnv.PYTHONSAFEPATH": "1",  # else a re.py in the current folder is taken for Python's own
}
"""Settings of a session that is started here."""

LARGE = "2g"
"""The JVM's memory on `local` for large inputs: with less, collecting garbage takes a tenth of the CPU time."""


def start(master: str = "local[*]", config: Mapping[str, str] | None = None, small: bool = True) -> SparkSession:
    """Start a JVM and a session. The JVM's log is in a folder of this user alone."""
    find_master(master)
    if "pyspark.sql.connect.session" not in sys.modules:
        os.environ.pop(MODE, None)  # a process that talks to such a server has started this one
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setMaster(master)
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        conf.setAll(list({**EMBEDDED, **({} if small else {"spark.driver.memory": LARGE})}.items()))
    else:
        os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
        conf.set("spark.submit.deployMode", "client")  # this process is the driver
    conf.setAll(list((config or {}).items()))
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):  # they print what we are about to explain
        PySparkLogger.getLogger(name).disabled = True
    on_interrupt, gateway = signal.getsignal(signal.SIGINT), launch(conf, small)
    try:
        with explained_failures():
            try:
                context = SparkContext(gateway=gateway, conf=_complete(conf, gateway))
            finally:
                if threading.current_thread() is threading.main_thread() and on_interrupt is not None:
                    signal.signal(signal.SIGINT, on_interrupt)  # a SparkContext takes Ctrl-C for itself
            when_stopped(id(gateway), context.cancelAllJobs)  # a wait for rows ends only with their job
            chosen = conf if is_local(master) else context.getConf()
            context.pythonExec = chosen.get("spark.pyspark.python") or context.pythonExec
            if not is_local(master):
                context.addPyFile(str(pack_package(work_folder())))
            return SparkSession(context)
    except BaseException:
        with finishing():
            _end(gateway)
        raise


def _complete(conf: SparkConf, gateway: JavaGateway) -> SparkConf:
    """A configuration with what the JVM was started with; ours come before that on `local`, after it elsewhere."""
    found = SparkConf(_jvm=gateway.jvm).setAll(conf.getAll())
    ours = {**EMBEDDED, "spark.sql.warehouse.dir": (work_folder() / "warehouse").as_uri()}
    for key, value in ours.items():
        if not conf.contains(key) and (is_local(str(conf.get("spark.master"))) or not found.contains(key)):
            found.set(key, value)
    if found.get("spark.app.name") in (None, "pyspark-shell"):  # the name that spark-submit gives for want of one
        found.setAppName("overlace")
    return found


def find_master(master: str) -> None:
    """Refuse a standalone master that does not answer: Spark itself tries for a minute, and reports less."""
    if not master.startswith("spark://"):
        return
    for address in master.removeprefix("spark://").split(","):
        why = silence_of(address)
        if not why:
            return
    raise NoSpark(f"no Spark master answers at {master} ({address}: {why}). Check --master and that it is running.")


def silence_of(address: str) -> str:
    """Why nothing answers at HOST:PORT; empty if something does."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE / 2).close()
    except (OSError, ValueError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""


def pack_package(folder: Path) -> Path:
    """This package as a zip that executors import; an existing file is refused, not sent."""
    root = Path(str(files("overlace")))
    target = folder / "overlace.zip"
    with zipfile.ZipFile(target, "x", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".properties", ".j2")):
            archive.writestr(zipfile.ZipInfo(str(Path("overlace") / path.relative_to(root))), path.read_bytes())
    return target


def stop(spark: SparkSession) -> None:
    """Stop a session that start() made, and its JVM, also if it does not answer.

    From another thread: this one may have been interrupted in the middle of a call to the JVM.
    """
    gateway = spark.sparkContext._gateway

    def ask() -> None:
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the JVM is gone already
            spark.stop()

    with finishing():
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(PATIENCE)
        _end(gateway)


def _end(gateway: JavaGateway | None) -> None:
    """End the JVM behind a gateway, and let PySpark forget it."""
    when_stopped(id(gateway), None)
    if gateway is not None:
        process = getattr(gateway, "proc", None)
        if process is not None:
            end(process)  # before its connections are closed: one that a stream is called back on waits for its end

        def shut() -> None:
            with suppress(Exception):
                gateway.shutdown()

        shutting = threading.Thread(target=shut, daemon=True)
        shutting.start()
        shutting.join(PATIENCE)
    with SparkContext._lock:
        SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    drop_folder()
