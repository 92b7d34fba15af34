"""Logs on the command line: ingest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from overlace.cli.console import AsJson, Every, Logs, answer, bar, err
from overlace.cli.options import options_from
from overlace.cli.tables import show_merged, summary, trace_lines
from overlace.errors import BadParameter
from overlace.ingest.options import Options, TableOptions
from overlace.spark.engines import SMALL, Engine, is_local, session

if TYPE_CHECKING:
    from overlace.ingest.run import Ingested


@options_from(Options, TableOptions, Engine)
def ingest_command(
    logs: Logs,
    out: Annotated[str, typer.Option("--out", help="output trace; one that is there is added to")],
    options: Options,
    tables: TableOptions,
    engine: Engine,
    follow: Annotated[bool, typer.Option("--follow", help="go on with what the logs get, until Ctrl-C")] = False,
    every: Every = "10s",
    as_json: AsJson = False,
) -> None:
    """Raw logs to a trace on Spark, every line accounted for; again, and only what is new is read."""
    if tables.table or tables.topology:
        if follow or engine != Engine():
            flags = "--follow, --engine, --master, --remote and --conf"
            raise BadParameter(f"{flags} are for logs: tables need no engine, and are read once. Leave them out.")
        from overlace.ingest.tables import ingest_tables

        show_merged(ingest_tables(logs, out, options, tables), as_json)
        return
    from overlace.spark import follow as following
    from overlace.spark.failures import explained_failures
    from overlace.spark.ingest import ingest_on

    seconds, opened = following.read_seconds(every), list[tuple[Any, int]]()
    options = replace(options, whole_lines=follow)
    with ExitStack() as stack:

        def batch() -> Ingested:
            with explained_failures(), bar("ingest") as progress:

                def start(size: int) -> Any:
                    if not opened:
                        progress(0.01, f"starting {engine.named}")
                        opened.append((stack.enter_context(session(engine=engine, size=size)), size))
                    return opened[0][0]

                return ingest_on(start, logs, out, options, progress)

        if follow:
            new = lambda: done if (done := batch()).accounts else None  # noqa: E731
            following.follow(new, seconds, lambda done: show_batch(as_json, done))
        else:
            show(as_json, batch())
    if opened and opened[0][1] >= SMALL and engine.engine == "spark" and is_local(engine.place):
        note("Sail takes about a third of the CPU time for this: pip install 'overlace[sail]', then --engine sail")


def note(text: str) -> None:
    """What a user should know."""
    err.print(f"[yellow]note:[/yellow] {escape(text)}")


def show_batch(as_json: bool, done: Ingested | str) -> None:
    """What a batch of a log that goes on has brought, or why there is none."""
    if isinstance(done, str):
        note(f"{done.rstrip('.')}. Waiting for it.")
        return
    for each in done.notes:
        note(each)
    sources = [a._asdict() for a in done.accounts]
    answer(as_json, {"sources": sources, "notes": done.notes}, *map(escape, account_lines(done.accounts)))


def show(as_json: bool, done: Ingested) -> None:
    """What an ingest has made of its logs."""
    for each in done.notes:
        note(each)
    folded = [f"{done.folded:,} topic names were folded away (--keep-topics keeps them)"] if done.folded else []
    document = {
        **summary(done.trace),
        "sources": [a._asdict() for a in done.accounts],
        "known": done.known,
        "folded": done.folded,
        "notes": done.notes,
    }
    answer(
        as_json, document, *map(escape, [*account_lines(done.accounts), *done.known, *folded]), *trace_lines(done.trace)
    )


def account_lines(accounts: Sequence[Any]) -> list[str]:
    """What became of the lines; what was settled is said once for sources that are alike."""
    lines = []
    if len(accounts) > MANY:
        sums = [
            sum(each)
            for each in zip(
                *((a.lines, a.kept, sum(a.ignored.values()), a.bad, a.duplicates) for a in accounts), strict=True
            )
        ]
        lines.append(account_line(f"{len(accounts)} files", *sums))
    said: set[str] = set()
    for a in accounts:
        if len(accounts) <= MANY:
            lines.append(
                account_line(a.source, a.lines, a.kept, sum(a.ignored.values()), a.bad, a.duplicates) + f" ({a.format})"
            )
        lines += [f"  {text}" for text in a.mapping if text not in said]
        said |= set(a.mapping)
    ignored: Counter[str] = Counter()
    bad: Counter[str] = Counter()
    samples: dict[str, str] = {}
    for a in accounts:
        ignored.update(a.ignored)
        bad.update({why: n for why, (n, _) in a.quarantined.items()})
        samples = {**{why: s for why, (_, s) in a.quarantined.items()}, **samples}
    lines += [
        f"  {a.source}: its last line is unfinished ({a.waits:,} bytes) and waits for its end"
        for a in accounts
        if a.waits
    ]
    lines += [f"  ignored {n:,}: {reason}" for reason, n in ignored.items()]
    return [*lines, *(f"  quarantined {n:,}: {why}; such as {short(samples[why])!r}" for why, n in bad.most_common())]


MANY = 12
"""Sources that are listed one by one."""


def short(sample: str) -> str:
    """As much of a line as tells what is wrong with it."""
    return sample if len(sample) <= 90 else sample[:87] + "..."


def account_line(name: str, lines: int, kept: int, ignored: int, bad: int, duplicates: int) -> str:
    """What became of the lines of a log."""
    parts = f"{kept:,} kept + {ignored:,} ignored + {bad:,} quarantined + {duplicates:,} duplicates"
    return f"{name}: {lines:,} lines = {parts}"
