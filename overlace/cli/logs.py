"""Logs on the command line: ingest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import fields
from typing import Annotated, Any

import typer
from rich.markup import escape

from overlace.cli.console import AsJson, Conf, Master, answer, bar, err, settings
from overlace.cli.tables import ingest_tables, summary, trace_lines
from overlace.errors import BadParameter
from overlace.ingest.formats import NAMES

Logs = Annotated[list[str], typer.Argument(help="files or folders of a log", metavar="LOG...")]
Mapped = Annotated[
    list[str] | None, typer.Option("--map", help="FIELD=COLUMN, several times: client=src receiver=dst at=time ...")
]
FormatName = Annotated[str | None, typer.Option("--format", help=f"{', '.join(NAMES)} (default: detected)")]
Delimiter = Annotated[str | None, typer.Option(help="column delimiter (default: detected)")]
Header = Annotated[
    bool | None, typer.Option("--header/--no-header", help="the first line names the columns (default: detected)")
]
Separator = Annotated[
    str | None, typer.Option("--list-separator", help="what separates names inside a cell; none: a cell is one name")
]
Unit = Annotated[
    str | None, typer.Option("--time-unit", help="of times that are numbers: s, ms, us, ns (default: by their size)")
]
Skip = Annotated[list[str] | None, typer.Option("--skip", help="leave files of this pattern in folders out: '*.md'")]


def pairs(given: Sequence[str] | None) -> dict[str, tuple[str, ...]]:
    """FIELD=COLUMN words as a mapping; several may be joined by commas, a field may have several columns.

    A column is called as the file has it: with commas and blanks, if need be.
    """
    found: dict[str, tuple[str, ...]] = {}
    for word in (part for each in given or () for part in re.split(r",(?=\s*\w+=)", each)):
        name, mark, column = word.partition("=")
        if not mark or not name or not column:
            raise BadParameter(f"--map {word!r}: expected FIELD=COLUMN, such as client=src")
        found[name.strip()] = (*found.get(name.strip(), ()), column)
    return found


def ingest_command(
    logs: Logs,
    out: Annotated[str, typer.Option("--out", help="output trace; one that is there is added to")],
    form: FormatName = None,
    table: Annotated[
        str | None,
        typer.Option(help="the files are this table: brokers links clients sessions subscriptions interests ..."),
    ] = None,
    topology: Annotated[
        bool, typer.Option("--topology", help="the files are GraphML, Repetita, mosquitto.conf or NATS configurations")
    ] = False,
    wired: Annotated[
        str | None,
        typer.Option(
            metavar="mst|all|FILE",
            help="with --topology, the wired links: a minimum spanning tree, all, or a table of them (left, right)",
        ),
    ] = None,
    mapped: Mapped = None,
    group: Annotated[
        str | None, typer.Option(help="rows that agree in these fields are one message: sender,at")
    ] = None,
    delimiter: Delimiter = None,
    header: Header = None,
    list_separator: Separator = None,
    unit: Unit = None,
    broker: Annotated[
        str | None,
        typer.Option(
            help="the broker that wrote the log (Mosquitto; default: the file's name), or that senders are at"
        ),
    ] = None,
    identity: Annotated[
        str | None,
        typer.Option(help="who is one client: client, broker/client, user or a pattern (default: by format)"),
    ] = None,
    keep_topics: Annotated[
        bool, typer.Option("--keep-topics", help="do not fold _INBOX.>, $JS.>, $SYS/# and UUID levels")
    ] = False,
    pseudonymise: Annotated[
        bool, typer.Option("--pseudonymise", help="hash all names with the key in OVERLACE_KEY")
    ] = False,
    reduce_only: Annotated[
        bool,
        typer.Option(
            "--reduce-only", help="keep traffic and audiences, no messages: smaller, windows are whole buckets"
        ),
    ] = False,
    bucket: Annotated[
        str | None, typer.Option(help="width of a bucket: hour or minute (default: by the span of the log)")
    ] = None,
    both_ways: Annotated[
        bool, typer.Option("--both-ways", help="with --table interests: a pair holds in both directions")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="fail on the first line that cannot be read")] = False,
    max_bad: Annotated[str, typer.Option("--max-bad", help="fail above this share of bad lines")] = "10%",
    skip: Skip = None,
    break_lock: Annotated[
        bool, typer.Option("--break-lock", help="take the trace's lock from a writer that is gone")
    ] = False,
    master: Master = "local[*]",
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Raw logs to a trace on Spark, every line accounted for; again, and only what is new is read."""
    from overlace.ingest.options import Options
    from overlace.ingest.run import ingest_sources

    options = Options(
        format=form, map=pairs(mapped), group=tuple(group.split(",")) if group else (), delimiter=delimiter,
        header=header, list_separator=list_separator, unit=unit, broker=broker, identity=identity,
        keep_topics=keep_topics, pseudonymise=pseudonymise, reduce_only=reduce_only, bucket=bucket, strict=strict,
        max_bad=share_of(max_bad), skip=tuple(skip or ()), break_lock=break_lock,
    )  # fmt: skip
    config = settings(conf)
    if table or topology:
        if config:
            raise BadParameter("--conf is for Spark, and tables are read without it. Leave it out.")
        refuse_for_tables(options)
        columns = {name: each[-1] for name, each in options.map.items()}
        how = {"map": columns, "delimiter": delimiter, "header": header}
        if wired and not topology:
            raise BadParameter("--wired goes with --topology")
        ingest_tables(logs, out, table, how, wired, both_ways, break_lock, as_json)
        return
    if wired:
        raise BadParameter("--wired goes with --topology")
    if both_ways:
        raise BadParameter("--both-ways goes with --table interests")
    from overlace.spark.ingest import spark_runner
    from overlace.spark.session import session

    with bar("ingest") as progress, ExitStack() as stack:

        def start() -> Any:
            progress(0.01, "starting Spark")
            return spark_runner(stack.enter_context(session(master=master, config=config)), progress)

        done = ingest_sources(logs, out, start, options, progress)
    for note in done.notes:
        err.print(f"[yellow]note:[/yellow] {escape(note)}")
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
        lines.append(_account_line(f"{len(accounts)} files", *sums))
    said: set[str] = set()
    for a in accounts:
        if len(accounts) <= MANY:
            lines.append(
                _account_line(a.source, a.lines, a.kept, sum(a.ignored.values()), a.bad, a.duplicates)
                + f" ({a.format})"
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


def _account_line(name: str, lines: int, kept: int, ignored: int, bad: int, duplicates: int) -> str:
    parts = f"{kept:,} kept + {ignored:,} ignored + {bad:,} quarantined + {duplicates:,} duplicates"
    return f"{name}: {lines:,} lines = {parts}"


def refuse_for_tables(options: Any) -> None:
    """Options of logs mean nothing for tables and topologies."""
    from overlace.ingest.options import FLAGS

    for each in fields(options):
        if (
            each.name not in ("map", "delimiter", "header", "max_bad", "break_lock")
            and getattr(options, each.name) != each.default
        ):
            flag = FLAGS.get(each.name, "--" + each.name.replace("_", "-"))
            raise BadParameter(f"{flag} works on logs, not on tables and topologies. Leave it out.")


def share_of(text: str) -> float:
    """A share such as 1% or 0.01."""
    try:
        value = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise BadParameter(f"{text!r}: expected a share such as 1% or 0.01") from None
    if not 0 <= value <= 1:
        raise BadParameter(f"{text!r}: expected a share from 0 to 100%")
    return value
