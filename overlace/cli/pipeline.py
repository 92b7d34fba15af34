"""From a log to a judged overlay on the command line: generate, observe, replay, report, demo."""

from __future__ import annotations

import inspect
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from overlace.cli.console import (
    AsJson,
    Force,
    RunPath,
    Seed,
    answer,
    bar,
    err,
    shown,
)
from overlace.cli.options import options_from, parameters_of, with_parameters
from overlace.cli.plans import plan_lines
from overlace.cli.tables import summary, trace_lines
from overlace.errors import BadParameter
from overlace.limits import Split
from overlace.spark.engines import Engine, session
from overlace.wording import amount

if TYPE_CHECKING:
    from overlace.observe.traffic import Reader


@options_from(Engine)
def demo_command(
    engine: Engine,
    folder: Annotated[Path, typer.Option("--out", help="output folder")] = Path("demo-run"),
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Everything on logs of brokers: ingest on Spark, observe, plan, replay held-out traffic, report."""
    from overlace.cli.logs import account_lines
    from overlace.cli.main_job import answer_text
    from overlace.demo import BUDGET, demo

    began = time.perf_counter()
    with bar("demo") as progress:
        made = demo(folder, seed=seed, force=force, engine=engine, progress=progress)
    ingested, found, trace = made.ingested, made.result, f"{folder}/trace"
    lines: list[str | Table] = []
    for table, counts in made.tables.items():
        lines += [typed("ingest", f"{folder}/tables/{table}.csv", "--table", table, "--out", trace)]
        lines += [f"{table}: {counts}"]
    lines += [typed("ingest", f"{folder}/logs", "--out", trace)]
    lines += [*map(shown, account_lines(ingested.accounts)), *trace_lines(ingested.trace)]
    goal = ("--budget", str(BUDGET), "--allow-link", "*:*", *(("--seed", str(seed)) if seed else ()))
    lines += [typed("optimize", trace, "--out", str(folder), *goal)]
    answer(
        as_json,
        {"trace": ingested.trace.path, "sources": [a._asdict() for a in ingested.accounts], **found.as_document()},
        *lines,
        *plan_lines(found.verdicts[0].document, most=5, units=found.units),
        *answer_text(found),
        f"[dim]{time.perf_counter() - began:.0f} s[/dim]",
    )


def typed(*words: str) -> str:
    """A command as a user types it."""
    return shown(f"$ overlace {shlex.join(words)}")


workloads = typer.Typer(no_args_is_help=True, help="A seeded trace of any size: overlace generate WORKLOAD --out TRACE")


@workloads.callback()
def generate_options() -> None:
    """A seeded trace of any size."""


def generate_function(name: str) -> Any:
    """The function behind `overlace generate NAME`, with an option for each of the workload's fields."""
    from overlace.workloads import workload_class

    kind = workload_class(name)

    def run(
        *,
        out: Annotated[str, typer.Option("--out", help="output trace")],
        force: Force = False,
        as_json: AsJson = False,
        **given: Any,
    ) -> None:
        from overlace.workloads.generate import generate

        workload = kind(**{key: value for key, value in given.items() if value is not None})
        with bar("generate") as progress:
            trace = generate(workload, out, name=name, force=force, progress=progress)
        answer(as_json, summary(trace), *trace_lines(trace))

    *own, _ = inspect.signature(run, eval_str=True).parameters.values()
    return with_parameters(run, [*own, *parameters_of(kind)], kind)


HARD = "Hard: [bold]--loud 0.6[/bold], [bold]--fan-out 10000[/bold], [bold]--turns 0.5[/bold], --scatter"
for _name in ("sites", "composition", "small-world", "random"):
    _example = f"Example: [bold]overlace generate {_name} --messages 100000 --out trace[/bold]"
    workloads.command(_name, epilog=HARD if _name == "sites" else _example)(generate_function(_name))


@options_from(Split, Engine)
def observe_command(
    trace: Annotated[str, typer.Argument(help="a trace", metavar="TRACE")],
    run: Annotated[Path, typer.Option("--out", help="output folder")],
    split: Split,
    engine: Engine,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """What the training window of a log says, into a run folder; the rest is held out to judge plans.

    It is observed in this process. With an engine named, traffic that is larger than memory is added up there.
    """
    from overlace.optimize.task import observe
    from overlace.trace.recorded import describe_recording
    from overlace.trace.runs import writing_run

    with bar("observe") as progress, writing_run(run), reading(engine, lambda: trace) as reader:
        progress(0.1, "reading")
        task = observe(trace, run, split, force=force, reader=reader)
    found, parts = task.observation, task.cut
    for line in (parts.warning, *describe_recording(task.trace.notes)):
        if line:
            err.print(f"[yellow]note:[/yellow] {shown(line)}")
    document = {
        "run": str(run),
        "digest": found.digest(),
        "clients": found.clients,
        "topics": found.topics,
        "brokers": found.network.brokers,
        "flows": len(found.flows.sender),
        "classes": len(found.classes),
        "messages": int(found.sent.sum()),
        "train": parts.train,
        "held_out": parts.held_out,
        "share": parts.share,
    }
    answer(
        as_json,
        document,
        f"training window: {document['messages']:,} messages ({parts.share:.0%} of the log), "
        f"{when(parts.train[0])} to {when(parts.train[1])}",
        f"{found.clients:,} clients, {found.network.brokers} brokers, {len(found.flows.sender):,} flows, "
        f"{len(found.classes):,} traffic classes, {len(found.interests):,} interests, "
        f"{len(found.offers.publisher):,} offers",
        shown(f"run      {run}"),
    )


def when(micro: int) -> str:
    """A time for people."""
    import datetime

    return datetime.datetime.fromtimestamp(micro / 1e6, datetime.UTC).strftime("%Y-%m-%d %H:%M")


@contextmanager
def reading(engine: Engine, trace: Callable[[], str]) -> Iterator[Reader]:
    """What reads the traffic of a trace: the engine that is named if the trace is large, else this process."""
    from overlace.observe.traffic import IN_PROCESS
    from overlace.trace.store import Trace

    if engine.conf and not engine.asked:
        raise BadParameter("--conf is for Spark: say where it runs with --master or --remote")
    if engine.asked:
        from overlace.spark.reduction import OnEngine, is_for_engine

        if is_for_engine(found := Trace.open(trace()), engine.engine):
            with session(engine=engine) as spark:
                yield OnEngine(spark)
            return
        err.print(shown(f"{found.rows('traffic'):,} rows: read in this process, which is faster"))
    yield IN_PROCESS


SHOWN = (
    *"cost total_cost link_messages link_bytes crossings mean_hops mean_latency_us local_share".split(),
    *"max_broker_load cut_share_max".split(),
    *"false_positive_rate received mean_connections channels".split(),
    *"links average_degree max_degree max_diameter topic_connected".split(),
)
"""What replay prints of all that it measures: the columns of the families that are there."""


@options_from(Engine)
def replay_command(run: RunPath, engine: Engine, as_json: AsJson = False) -> None:
    """What the traffic costs before and after each plan, in the training window and on held-out traffic.

    It is replayed in this process. With an engine named, traffic that is larger than memory is added up there.
    """
    from overlace.optimize.replay import replay
    from overlace.trace.runs import read_run, writing_run

    with bar("replay") as progress, reading(engine, lambda: str(read_run(run)["trace"])) as reader:
        read_run(run)
        with writing_run(run):
            done = replay(run, reader=reader, progress=progress)
    columns = [metric for metric in SHOWN if any(metric in each.metrics for each in done)]
    table = Table("run", *columns, box=None, pad_edge=False, header_style="dim")
    document = []
    for each in done:
        values = {m: each.metrics.of(m) for m in columns if m in each.metrics}
        document.append(
            {"run": each.run, "plan": each.plan, "overlay": each.overlay, "part": each.part, "metrics": values}
        )
        table.add_row(shown(each.run), *(amount(values[m]) if m in values else "" for m in columns))
    answer(as_json, document, table, shown(f"metrics  {run}/metrics.parquet"))


def report_command(run: RunPath, as_json: AsJson = False) -> None:
    """RUN/report.html: what the traffic costs, who causes it, what breaks, and what each plan would change."""
    from overlace.report.page import write_report

    path = write_report(run)
    answer(as_json, {"report": str(path)}, shown(f"report   {path}"))
