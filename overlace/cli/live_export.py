"""A plan to files on the command line: `overlace live export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from overlace.cli.console import AsJson, Force, PlanPath, answer, err, shown
from overlace.cli.options import options_from
from overlace.live.options import ExportOptions
from overlace.wording import counted

MOST_LINES = 60
"""Lines of the difference that are printed; the file has all."""


@options_from(ExportOptions)
def export_command(
    plan: PlanPath,
    to: Annotated[Literal["nats", "mosquitto", "clients", "dns"], typer.Option("--to", help="what the files are for")],
    out: Annotated[Path, typer.Option("--out", help="output folder", metavar="FOLDER")],
    options: ExportOptions,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the files that carry a plan out: broker configuration, a map of clients, or DNS records."""
    from overlace.live.export import export

    found = export(plan, to, out, options, force=force)
    for note in found.notes:
        err.print(f"[yellow]note:[/yellow] {shown(note)}")
    document = {
        "folder": str(out),
        "files": found.files,
        "new": found.new,
        "gone": found.gone,
        "difference": found.difference,
        "notes": found.notes,
    }
    lines = found.difference.splitlines()
    links = [(f"+ link {a} - {b}", "green") for a, b in found.new] + [
        (f"- link {a} - {b}", "red") for a, b in found.gone
    ]
    answer(
        as_json,
        document,
        *(shown(line) for line in found.summary),
        *(f"[{colour}]{shown(text)}[/{colour}]" for text, colour in links[:MOST_LINES]),
        *(shown(line) for line in lines[:MOST_LINES]),
        *(
            [f"... and {len(lines) - MOST_LINES:,} more lines: {shown(out / 'changes.diff')}"]
            if lines[MOST_LINES:]
            else []
        ),
        shown(f"files    {out}: {counted(len(found.files), 'file', 'files')}; README.txt says how they are used"),
    )
