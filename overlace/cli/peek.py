"""peek on the command line: what files are, and what to type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape
from rich.table import Table

from overlace.cli.console import AsJson, Logs, answer, err, example, shown
from overlace.cli.options import options_from
from overlace.cli.running import new_app, run_app
from overlace.ingest.options import Options

if TYPE_CHECKING:
    from overlace.peek.peek import Command, Peek

WIDE = 40
"""Characters of a sample value."""


EPILOG = example("overlace peek mosquitto.log")
ASKED = "format map group where deliveries_where delimiter header list_separator unit skip".split()
"""Options that peek takes and puts into the commands that it prints."""


@options_from(Options, only=ASKED)
def peek_command(logs: Logs, options: Options, as_json: AsJson = False) -> None:
    """What files are, without a JVM: first lines, columns as guessed, what is missing, and the command to type.

    A command is printed if it was tried on the first rows and keeps nearly all of them; else a line says what to give.
    """
    from overlace.peek.peek import peek

    found = peek(logs, options)
    answer(
        as_json, _document(found), *_files(found), *_columns(found), *_log(found), *_facets(found), *_commands(found)
    )
    if found.problem:
        err.print(f"[yellow]nothing to ingest:[/yellow] {shown(found.problem)}")
        raise typer.Exit(1)


def run_peek(words: list[str]) -> int:
    """Run this command alone; its exit code."""
    app = new_app()
    app.command("peek", epilog=EPILOG)(peek_command)
    return run_app(words, app)


def _document(found: Peek) -> dict[str, Any]:
    """All of it, for programs."""
    listed = {
        name: [each._asdict() for each in getattr(found, name)] for name in ("kinds_of_files", "columns", "commands")
    }
    return {**found._asdict(), **listed}


def _files(found: Peek) -> list[Any]:
    """Kinds of files, where there are several, and the first lines."""
    lines: list[Any] = []
    if sum(kind.files for kind in found.kinds_of_files) > 1:
        table = Table("files", "are", "taken as", "such as", box=None, pad_edge=False, header_style="dim")
        for kind in found.kinds_of_files:
            table.add_row(f"{kind.files:,}", escape(kind.what), escape(kind.makes or "left out"), escape(kind.example))
        lines.append(table)
    if found.head:
        lines.append(f"[dim]first lines of {shown(found.first)}[/dim]")
        lines += [escape(f"  {line}") for line in found.head]
    return lines


def _columns(found: Peek) -> list[Any]:
    """Which column is what."""
    if not found.columns:
        return []
    table = Table("column", "taken as", "sample", "because", box=None, pad_edge=False, header_style="dim")
    for each in found.columns:
        sample = each.sample if len(each.sample) <= WIDE else each.sample[: WIDE - 3] + "..."
        table.add_row(*(escape(text) for text in (each.column, each.field or "not used", sample, each.why)))
    return [table]


def _log(found: Peek) -> list[Any]:
    """What the log holds."""
    if not found.format:
        return []
    rows = Table("at", "client", "broker", "topic", "bytes", "receivers", box=None, pad_edge=False, header_style="dim")
    for row in found.rows:
        receivers = row.get("receivers")
        listed = (
            "not logged" if receivers is None else ", ".join(receivers[:4]) + (" ..." if len(receivers) > 4 else "")
        )
        cells = (
            str(row.get("at", ""))[:26],
            *(str(row.get(k, "")) for k in ("client", "broker", "topic", "bytes")),
            listed,
        )
        rows.add_row(*map(escape, cells))
    part = "" if found.whole else " (only the beginning was looked at)"
    unstable = (
        f"; {len(found.unstable)} ids look made up for one connection ({', '.join(found.unstable[:3])})"
        if found.unstable
        else ""
    )
    return [
        f"format [bold]{found.format}[/bold]: {found.lines:,} lines{part}",
        escape("  " + ", ".join(f"{count:,} {kind}" for kind, count in sorted(found.kinds.items()))),
        *(escape(f"  {text}") for text in found.mapping),
        rows,
        escape(f"{found.clients:,} clients, {found.topics:,} topics, {found.brokers} brokers{unstable}"),
        escape(f"bridges: {', '.join(found.bridges) or 'none seen'}"),
    ]


def _facets(found: Peek) -> list[Any]:
    """What can be planned, and what is missing for it."""
    if not found.commands:
        return []
    facets = Table(box=None, pad_edge=False, show_header=False)
    for name, state in found.facets.items():
        facets.add_row(name, f"[green]{state}[/green]" if state == "possible" else escape(state))
    return [facets]


def _commands(found: Peek) -> list[Any]:
    """What to type, and what it would count."""
    if not found.commands:
        return []
    lines = [escape(found.question)] if found.question else []
    lines += ["[bold]to type[/bold]" + (", one of these, the likeliest first" if found.choose else "")]
    for each in found.commands:
        lines += [escape(f"  {each.command}"), f"[dim]    {shown(_counted(each))}[/dim]"]
        lines += [f"[dim]    {shown(note)}[/dim]" for note in (each.counts or {}).get("notes", ())]
    return lines


def _counted(command: Command) -> str:
    """What an ingest by a command counts, in a line."""
    why = f" ({command.why})" if command.why else ""
    if command.counts is None:
        return f"{command.makes}{why}: not counted, only the beginning was looked at"
    if "rows" in command.counts:
        named = command.makes == "topology"
        rows = ", ".join(f"{n:,} {name if named else 'rows'}" for name, n in command.counts["rows"].items())
        return f"{command.makes}{why}: {rows}"
    counts = command.counts
    parts = [f"{counts['lines']:,} lines, {counts['messages']:,} messages"]
    parts += [f"{n:,} ignored: {reason}" for reason, n in counts["ignored"].items()]
    parts += [f"{n:,} bad: {reason}" for reason, n in counts["bad"].items()]
    parts += [f"{counts['duplicates']:,} duplicates"] if counts["duplicates"] else []
    return f"{command.makes}{why}: {', '.join(parts)}"
