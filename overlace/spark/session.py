"""A quiet Spark session, and never a hand on a session that is the user's.

The JVM's chatter goes to a file that is named when something fails. `session()` uses the session it is
given or the active one; only a session that it started itself is stopped.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from overlace.spark.java import find_java

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
        yield spark
        return
    spark = start(master, config)
    try:
        yield spark
    finally:
        stop(spark)


def start(master: str = "local[*]", config: Mapping[str, str] | None = None) -> SparkSession:
    """Start a JVM and a session. Its standard error goes to a file in the temporary folder."""
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
    with log_file().open("ab") as log:
        gateway = launch_gateway(  # type: ignore[no-untyped-call]
            conf, popen_kwargs={"stderr": log, "stdout": log}
        )
    return SparkSession(SparkContext(gateway=gateway, conf=conf))


def packed() -> Path:
    """This package as a zip that executors import, the same file for the same sources."""
    root = Path(str(files("overlace")))
    sources = sorted(path for path in root.rglob("*") if path.suffix in (".py", ".properties", ".j2"))
    state = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    target = Path(tempfile.gettempdir()) / f"overlace-{state}" / "overlace.zip"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{os.getpid()}.part")
        with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sources:
                archive.writestr(zipfile.ZipInfo(str(Path("overlace") / path.relative_to(root))), path.read_bytes())
        beside.replace(target)
    return target


def stop(spark: SparkSession) -> None:
    """Stop a session that start() made, and its JVM."""
    gateway = spark.sparkContext._gateway
    spark.stop()
    if gateway is not None:
        gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()
            process.wait(timeout=30)
    SparkContext._gateway = None
    SparkContext._jvm = None


def log_file() -> Path:
    """Where the JVM's standard error goes."""
    return Path(tempfile.gettempdir()) / f"overlace-spark-{os.getpid()}.log"
