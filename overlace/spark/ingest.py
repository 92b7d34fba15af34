"""Ingest on Spark: logs by their paths, or a DataFrame of the user's own, to a trace."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import fields, replace
from functools import partial
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql import SparkSession

from overlace.errors import BadParameter, Unknown
from overlace.ingest import frames
from overlace.ingest.options import Options, TableOptions
from overlace.ingest.run import Ingested, Start, ingest_frame, ingest_sources
from overlace.ingest.tables import ingest_tables
from overlace.model import Progress
from overlace.spark.engines import Engine, session
from overlace.spark.failures import explained_failures
from overlace.spark.tasks import check_python

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from pyspark.sql import DataFrame

    Logs: TypeAlias = (
        str | Path | Sequence[str | Path] | DataFrame | pyarrow.Table | pandas.DataFrame | polars.DataFrame
    )
    Columns: TypeAlias = str | Sequence[str]

EVERY, PATIENCE = 0.3, 5.0
"""Seconds between looks at how far jobs are, and for the last look: a JVM that hangs must not hold us."""


def ingest(
    logs: Logs,
    trace: str | Path,
    *,
    client: Columns | None = None,
    at: Columns | None = None,
    topic: Columns | None = None,
    receiver: Columns | None = None,
    receivers: Columns | None = None,
    key: Columns | None = None,
    bytes: Columns | None = None,
    map: Mapping[str, Columns] | None = None,
    options: Options | None = None,
    spark: SparkSession | None = None,
    progress: Progress | None = None,
    **more: Any,
) -> Ingested:
    """Logs into the trace at `trace`, new or existing: paths of files and folders, or a frame of rows.

    A frame is of Spark, pandas, Arrow or Polars; a row is a delivery (`receiver`) or a message (`receivers`, a list).
    `client` to `bytes` name the columns that fields are read from, `map` those of further fields (broker, weight,
    attributes); columns with common names are found without. `more` are the options of `overlace ingest`, as
    `group=("client", "at")` or `reduce_only=True`; `options` has them all. It runs on the given session, that of the
    frame, the active one, or one of its own; a session that it did not start it never stops.

    `engine`, `master`, `remote` and `conf` name another engine. `table="links"` merges paths or a frame of a plain
    table (links, sessions, clients ...), `topology=True` files of a topology; these need no engine.
    """
    named = {"client": client, "at": at, "topic": topic, "receiver": receiver, "receivers": receivers, "key": key}
    about: dict[type[Any], dict[str, Any]] = {kind: {} for kind in (TableOptions, Engine)}
    for kind, its in about.items():
        its |= {each.name: more.pop(each.name) for each in fields(kind) if each.name in more}
    tables, engine = (kind(**its) for kind, its in about.items())
    chosen = options_of(options, map, bytes=bytes, **named, **more)
    if tables.table or tables.topology:
        if spark or about[Engine]:
            raise BadParameter(
                "spark, engine, master, remote and conf are for logs: tables need no engine. Leave it out."
            )
        files = paths_of(logs) or [frames.in_hand(logs)]
        merged = ingest_tables(files, str(trace), chosen, tables)
        return Ingested(merged.trace, [], [], 0, merged.notes, merged.tables)
    own = spark or getattr(logs, "sparkSession", None)
    with ExitStack() as stack, explained_failures():
        start = lambda size: stack.enter_context(session(own, engine if about[Engine] else None, size))  # noqa: E731
        return ingest_on(start, logs, str(trace), chosen, progress)


def paths_of(logs: Logs) -> list[str]:
    """The paths of files and folders; none of a frame."""
    each = [logs] if isinstance(logs, str | Path) else logs if isinstance(logs, Sequence) else []
    return [str(path) for path in each] if all(isinstance(path, str | Path) for path in each) else []


def options_of(options: Options | None = None, map: Mapping[str, Columns] | None = None, **named: Any) -> Options:
    """Options as they are named: columns by the field that is read from them, and options by their own name."""
    names = [each.name for each in fields(Options)]
    columns = {name: named.pop(name) for name in COLUMNS if name in named}
    for name in named:
        if name not in names:
            raise Unknown("option", name, [*COLUMNS, *(each.name for each in OPTIONS)])
    chosen = options or Options()
    given = {name: each for name, each in columns.items() if each is not None}
    listed = {name: tuple(each) for name, each in named.items() if isinstance(each, list)}
    return replace(chosen, map={**chosen.map, **(map or {}), **given}, **{**named, **listed})


OPTIONS = [each for kind in (Options, TableOptions, Engine) for each in fields(kind)]
"""What the command line takes."""

COLUMNS = ("client", "at", "topic", "receiver", "receivers", "key", "bytes")
"""Fields whose columns have an argument of their own."""


def ingest_on(start: Start, logs: Logs, trace: str, options: Options, progress: Progress | None = None) -> Ingested:
    """The same on a session that is started when it is needed: what is wrong with the logs shows before."""
    watch = partial(_watch_jobs, progress=progress or (lambda share, what: None))

    def fit(size: int) -> SparkSession:
        spark = start(size)
        check_python(spark)
        return spark

    if paths := paths_of(logs):
        return ingest_sources(paths, trace, fit, options, progress, watch)
    return ingest_frame(logs, trace, fit, options, progress, watch)


@contextmanager
def _watch_jobs(spark: SparkSession, stage: str, begin: float, end: float, progress: Progress) -> Iterator[None]:
    """While the block runs, report how many tasks of its jobs are done, between two shares of the whole."""

    def report(done: int, total: int) -> None:
        if total and not over.is_set():
            progress(begin + (end - begin) * done / total, f"{stage}: {done:,} of {total:,} tasks")

    over = threading.Event()
    if not isinstance(spark, SparkSession):  # of Spark Connect; Sail says nothing
        told = lambda stages, *_, **__: report(  # noqa: E731
            sum(each.num_completed_tasks for each in stages or ()), sum(each.num_tasks for each in stages or ())
        )
        spark.registerProgressHandler(told)
        try:
            yield
        finally:
            over.set()
            spark.removeProgressHandler(told)
        return
    tracker = spark.sparkContext.statusTracker()

    def look() -> None:
        with suppress(Exception):  # a JVM or a terminal that is gone is noticed by those who need it
            while not over.wait(EVERY):
                infos = [info for number in tracker.getActiveStageIds() if (info := tracker.getStageInfo(number))]
                report(sum(info.numCompletedTasks for info in infos), sum(info.numTasks for info in infos))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join(PATIENCE)


def _signature() -> Signature:
    """The signature with every option by name: each is declared once, in Options."""
    own = signature(ingest)
    names = [each for each in OPTIONS if each.name != "map" and not each.metadata.get("hidden")]
    keyword = Parameter.KEYWORD_ONLY
    more = [Parameter(each.name, keyword, default=each.default, annotation=each.type) for each in names]
    kept = [each for each in own.parameters.values() if each.kind != Parameter.VAR_KEYWORD]
    return own.replace(parameters=[*kept, *more])


ingest.__signature__ = _signature()  # type: ignore[attr-defined]
