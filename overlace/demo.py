"""The demo: the main job on logs of brokers: ingested on Spark, planned, judged on held-out traffic, reported."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from overlace.errors import BadTrace
from overlace.ingest.run import Ingested
from overlace.ingest.table_merging import RowCounts
from overlace.ingest.tables import add_tables
from overlace.limits import Goal, Limits
from overlace.model import Progress
from overlace.optimize.result import Result
from overlace.spark.engines import Engine, session
from overlace.spark.ingest import ingest
from overlace.trace.address import local
from overlace.trace.store import Trace
from overlace.verbs import optimize
from overlace.workloads.logs import write_logs, write_tables
from overlace.workloads.sites import Sites

MESSAGES, BUDGET = 140_000, 40


class Demo(NamedTuple):
    """What the demo made, step by step."""

    tables: dict[str, RowCounts]
    ingested: Ingested
    result: Result


def demo(
    out: Path,
    *,
    seed: int = 0,
    force: bool = False,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Demo:
    """Write logs and tables into OUT, then do with them what a user would."""
    out = local(out)
    report_progress = progress or (lambda share, what: None)
    trace = str(out / "trace")
    if not force:
        _refuse_used(out)
    elif (out / "run.json").exists():
        shutil.rmtree(out)
    elif Trace.exists(trace):
        shutil.rmtree(trace)
    report_progress(0.02, "writing logs")
    workload = Sites(messages=MESSAGES, seed=seed)
    write_logs(workload, out / "logs")
    tables = {
        table: add_tables([str(path)], table, trace, {})[1]
        for table, path in write_tables(workload, out / "tables").items()
    }
    report_progress(0.05, f"starting {(engine or Engine()).named}")
    with session(engine=engine) as spark:
        done = ingest(
            str(out / "logs"), trace, spark=spark, progress=lambda share, what: report_progress(0.2 + 0.3 * share, what)
        )
    limits = Limits(budget=BUDGET, allow_link=("*:*",))
    result = optimize(
        trace, out, limits, Goal(seed=seed), progress=lambda share, what: report_progress(0.5 + 0.5 * share, what)
    )
    return Demo(tables, done, result)


def _refuse_used(out: Path) -> None:
    """Refuse a folder that holds logs, a trace or a run."""
    held = {"logs": out / "logs", "a trace": out / "trace", "a run": out / "observation"}
    for what, path in held.items():
        if path.exists():
            raise BadTrace(f"{out} holds {what} already. Choose another name, or --force to replace it.")
