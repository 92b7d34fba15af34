"""Which engine runs the pipeline: decided here, and nowhere else.

| | what is typed | what starts |
|---|---|---|
| Apache Spark | nothing, `--master M` | a JVM, this process the driver; on `local` its tasks run here too |
| Spark Connect | `--remote sc://HOST:PORT` | nothing: a server is there |
| Sail | `--engine sail` | a server in this process, without Java |

The stages are the same and so are the digests. A session of the user's own is used as it is, and never stopped.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, cast
from weakref import WeakSet

from overlace.errors import BadParameter, OverlaceError
from overlace.extras import require
from overlace.limits import check_options, option

if TYPE_CHECKING:  # pyspark is loaded when a session is asked for
    from pyspark.sql import SparkSession

SMALL = 100 << 20
"""Bytes of logs below which a session is one for small inputs."""

UTC = {"spark.sql.session.timeZone": "UTC"}

IN_THIS_PROCESS: WeakSet[SparkSession] = WeakSet()
"""Sessions of servers whose tasks run in this process, by this Python."""


class NoEngine(OverlaceError):
    """The engine that was asked for cannot be had."""


def read_conf(words: Sequence[str]) -> dict[str, str]:
    """KEY=VALUE words as Spark's settings."""
    found = {}
    for word in words:
        key, mark, value = word.partition("=")
        if not mark or not re.fullmatch(r"spark\.[^\s=]*[^\s=.]", key):
            raise BadParameter(f"--conf {word!r}: expected KEY=VALUE, such as spark.executor.memory=4g")
        if key in ("spark.master", "spark.submit.deployMode", "spark.remote"):
            raise BadParameter(
                f"--conf {word!r}: Overlace is the driver here; where Spark runs is said with --master or --remote"
            )
        found[key] = value
    return found


@dataclass(frozen=True)
class Engine:
    """Where the pipeline runs."""

    PANEL: ClassVar[str] = "Engine"

    engine: Literal["spark", "sail"] = option("spark", "Apache Spark, or Sail: no Java, a third of the CPU time")
    master: str | None = option(None, "where Spark runs: local[*] (default), spark://host:7077, yarn, k8s://...")
    remote: str | None = option(None, "a server of Spark Connect that is there: sc://host:15002", metavar="sc://...")
    conf: Mapping[str, str] = option(
        {}, "Spark setting KEY=VALUE, several times: over spark-defaults.conf and our own", metavar="KEY=VALUE",
        read=read_conf,
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_options(self)
        if self.engine == "sail" and (self.master or self.remote):
            raise BadParameter("--engine sail runs in this process: leave --master and --remote out")
        if self.master and self.remote:
            raise BadParameter("--master starts a driver here, --remote uses one that is there: give one of them")
        if self.master and self.master.startswith("sc://"):
            raise BadParameter(f"{self.master} is a server of Spark Connect: give it as --remote {self.master}")
        if self.remote and not self.remote.startswith("sc://"):
            raise BadParameter(f"--remote {self.remote}: expected a server of Spark Connect, such as sc://host:15002")
        if self.conf and self.engine == "sail":
            raise BadParameter("--conf is for Spark, and Sail takes none of its settings. Leave it out.")

    @property
    def asked(self) -> bool:
        """Whether an engine was named."""
        return self.engine != "spark" or bool(self.master or self.remote)

    @property
    def named(self) -> str:
        """The engine, for people."""
        return "Sail" if self.engine == "sail" else f"Spark at {self.remote}" if self.remote else "Spark"

    @property
    def place(self) -> str:
        """Where it runs, as it is typed."""
        return "sail" if self.engine == "sail" else self.remote or self.master or "local[*]"


def is_local(master: str) -> bool:
    """Whether Apache Spark runs in one process here: the settings are ours to choose."""
    return master == "local" or master.startswith("local[")


@contextmanager
def session(given: SparkSession | None = None, engine: Engine | None = None, size: int = 0) -> Iterator[SparkSession]:
    """The given session, the one that this process has, or a new one of an engine, which is stopped at the end.

    `size`: bytes of logs. A JVM for small ones starts sooner and is slower on large ones.
    """
    from overlace.spark.failures import explained_failures

    with ExitStack() as stack:
        spark = given or active(engine) or stack.enter_context(started(engine or Engine(), size))
        stack.enter_context(explained_failures())  # an error of the JVM can be read while it lives
        yield spark


def active(engine: Engine | None = None) -> SparkSession | None:
    """The session that this process has: where an engine is named only a driver, of which there can be but one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if engine is not None and (engine.remote or engine.engine == "sail"):
        return None
    if SparkContext._active_spark_context is not None:  # perhaps started in another thread
        return SparkSession.builder.getOrCreate()
    connect = sys.modules.get("pyspark.sql.connect.session")
    return connect.SparkSession.getActiveSession() if connect and engine is None else None


@contextmanager
def started(engine: Engine, size: int = 0) -> Iterator[SparkSession]:
    """A new session of an engine, stopped at the end."""
    if engine.engine == "sail":
        with _sail() as spark:
            yield spark
    elif engine.remote:
        with _connected(engine.remote, engine.conf) as spark:
            yield spark
    else:
        from overlace.spark.session import start, stop

        spark = start(engine.master or "local[*]", engine.conf, size < SMALL)
        try:
            yield spark
        finally:
            stop(spark)


@contextmanager
def _sail() -> Iterator[SparkSession]:
    """A server of Sail in this process, and a session of it."""
    require("sail")
    os.environ.setdefault("RUST_LOG", "off")  # it would tell of every query
    from pysail.spark import SparkConnectServer

    server = SparkConnectServer()
    server.start(background=True)
    try:
        with _client(f"sc://localhost:{server.listening_address[1]}", UTC) as spark:
            IN_THIS_PROCESS.add(spark)
            on_interrupt = signal.getsignal(signal.SIGINT)
            if threading.current_thread() is threading.main_thread() and on_interrupt is not None:
                signal.signal(signal.SIGINT, on_interrupt)  # the server would end at Ctrl-C, and its clients wait
            yield spark
    finally:
        server.stop()


@contextmanager
def _connected(url: str, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session of a server that is there; it gets this package, for its tasks."""
    require("connect")
    from overlace.spark.jvm import drop_folder, work_folder
    from overlace.spark.session import pack_package, silence_of

    address = re.split("[/;]", url.removeprefix("sc://"))[0]
    if why := silence_of(address if re.search(r":\d+$", address) else f"{address}:15002"):
        raise NoEngine(f"no server of Spark Connect answers at {url} ({why}). Check --remote and that it is running.")
    try:
        with _client(url, conf) as spark:
            spark.addArtifacts(str(pack_package(work_folder())), pyfile=True)
            yield spark
    finally:
        drop_folder()


@contextmanager
def _client(url: str, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    from pyspark.sql.connect.session import SparkSession as Remote

    spark = Remote.builder.remote(url).config(map=dict(conf)).create()
    try:
        yield cast("SparkSession", spark)
    finally:
        with suppress(Exception):  # the server may be gone
            spark.stop()
