"""Logs on the command line: peek and ingest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from overlace.cli.console import AsJson, Master, answer, bar, err
from overlace.cli.tables import ingest_tables, summary, told
from overlace.errors import BadParameter

Logs = Annotated[list[str], typer.Argument(help="files or folders of a log", metavar="LOG...")]
Mapped = Annotated[
    list[str] | None, typer.Option("--map", help="FIELD=COLUMN, several times: client=src receiver=dst at=time ...")
]
FormatName = Annotated[
    str | None, typer.Option("--format", help="jsonl, csv, counts, mosquitto or parquet (default: found out)")
]


def peek_command(
    logs: Logs,
    form: FormatName = None,
    mapped: Mapped = None,
    delimiter: Annotated[str | None, typer.Option(help="what stands between columns")] = None,
    as_json: AsJson = False,
) -> None:
    """What a log is, without a JVM: format, ten rows, clients, topics, bridges, unstable ids, and what is missing."""
    from overlace.jobs.peek import peek

    found = peek(logs, form, {"map": pairs(mapped), "delimiter": delimiter})
    rows = Table("at", "client", "broker", "topic", "bytes", "receivers", box=None, pad_edge=False, header_style="dim")
    for row in found.rows:
        receivers = row.get("receivers")
        shown = "not logged" if receivers is None else ", ".join(receivers[:4]) + (" ..." if len(receivers) > 4 else "")
        cells = (
            str(row.get("at", ""))[:26],
            *(str(row.get(k, "")) for k in ("client", "broker", "topic", "bytes")),
            shown,
        )
        rows.add_row(*map(escape, cells))
    facets = Table(box=None, pad_edge=False, show_header=False)
    for name, state in found.facets.items():
        facets.add_row(name, f"[green]{state}[/green]" if state == "possible" else escape(state))
    part = "" if found.whole else " (only the beginning was looked at)"
    unstable = (
        f"; {len(found.unstable)} ids look made up for one connection ({', '.join(found.unstable[:3])})"
        if found.unstable
        else ""
    )
    answer(
        as_json,
        found._asdict(),
        f"format [bold]{found.format}[/bold]: {found.lines:,} lines{part}",
        escape("  " + ", ".join(f"{count:,} {kind}" for kind, count in sorted(found.kinds.items()))),
        rows,
        escape(f"{found.clients:,} clients, {found.topics:,} topics, {found.brokers} brokers{unstable}"),
        escape(f"bridges: {', '.join(found.bridges) or 'none seen'}"),
        facets,
    )


def pairs(given: Sequence[str] | None) -> dict[str, str]:
    """FIELD=COLUMN words as a mapping; several may be joined by commas."""
    found = {}
    for word in (part for each in given or () for part in each.split(",")):
        name, mark, column = word.partition("=")
        if not mark or not name or not column:
            raise BadParameter(f"--map {word!r}: expected FIELD=COLUMN, such as client=src")
        found[name.strip()] = column.strip()
    return found


def ingest_command(
    logs: Logs,
    out: Annotated[str, typer.Option("--out", help="the trace to make, or to add to")],
    form: FormatName = None,
    table: Annotated[
        str | None,
        typer.Option(help="the files are this table: brokers links clients sessions subscriptions interests ..."),
    ] = None,
    topology: Annotated[
        bool, typer.Option("--topology", help="the files are GraphML, Repetita, mosquitto.conf or NATS configurations")
    ] = False,
    mapped: Mapped = None,
    group: Annotated[
        str | None, typer.Option(help="rows that agree in these fields are one message: sender,at")
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="what stands between columns (default: found out)")] = None,
    header: Annotated[
        bool | None, typer.Option("--header/--no-header", help="the first line names the columns (default: found out)")
    ] = None,
    broker: Annotated[str | None, typer.Option(help="the broker that wrote the log (default: the file's name)")] = None,
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
    both_ways: Annotated[
        bool, typer.Option("--both-ways", help="with --table interests: a pair holds in both directions")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="fail on the first line that cannot be read")] = False,
    max_bad: Annotated[str, typer.Option("--max-bad", help="fail above this share of bad lines")] = "10%",
    master: Master = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Raw logs to a trace on Spark, every line accounted for; again, and only what is new is read."""
    if (table or topology) and pseudonymise:
        raise BadParameter("--pseudonymise works on logs; hide the names of a table before it is ingested")
    if table or topology:
        ingest_tables(
            logs, out, table, {"map": pairs(mapped), "delimiter": delimiter, "header": header}, both_ways, as_json
        )
        return
    from overlace.spark.session import session

    if form == "parquet" or all(path.endswith(".parquet") for path in logs):
        from overlace.spark.deliveries import ingest_frame

        with bar("ingest") as progress, session(master=master) as spark:
            progress(0.1, "reducing deliveries")
            trace = ingest_frame(logs, pairs(mapped), out, spark)
        answer(as_json, summary(trace), *told(trace))
        return
    from overlace.spark.ingest import Options, ingest

    options = Options(
        format=form, map=pairs(mapped), group=tuple(group.split(",")) if group else (), delimiter=delimiter,
        header=header, broker=broker, identity=identity, keep_topics=keep_topics, pseudonymise=pseudonymise,
        strict=strict, max_bad=share_of(max_bad),
    )  # fmt: skip
    with bar("ingest") as progress, session(master=master) as spark:
        done = ingest(logs, out, spark, options, progress)
    lines = [
        f"{a.source}: {a.lines:,} lines = {a.kept:,} kept + {sum(a.ignored.values()):,} ignored + "
        f"{sum(n for n, _ in a.quarantined.values()):,} quarantined + {a.duplicates:,} duplicates ({a.format})"
        for a in done.accounts
    ]
    details = [f"  ignored {n:,}: {reason}" for a in done.accounts for reason, n in a.ignored.items()]
    details += [
        f"  quarantined {n:,}: {why}; such as {s!r}" for a in done.accounts for why, (n, s) in a.quarantined.items()
    ]
    known = [f"{name}: nothing new" for name in done.known]
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
    answer(as_json, document, *map(escape, [*lines, *details, *known, *folded]), *told(done.trace))


def share_of(text: str) -> float:
    """A share such as 1% or 0.01."""
    try:
        value = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise BadParameter(f"{text!r}: expected a share such as 1% or 0.01") from None
    if not 0 <= value <= 1:
        raise BadParameter(f"{text!r}: expected a share from 0 to 100%")
    return value
