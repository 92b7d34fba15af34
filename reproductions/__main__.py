"""`python -m reproductions [KEY]`: the papers' tables and figures made again, as pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from overlace.cli import main
from overlace.cli.commands import run
from overlace.cli.console import AsJson, answer, bar, shown
from overlace.errors import BadParameter
from reproductions.pages import chosen_items, reproduce, rewrite

app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode="rich")


@app.command(epilog="Example: [bold]python -m reproductions tdcd17/table-1[/bold]")
def reproduce_command(
    item: Annotated[
        str | None, typer.Argument(help="a paper (tdcd17) or an item of it (tdcd17/table-1); none: all", metavar="KEY")
    ] = None,
    folder: Annotated[Path, typer.Option("--out", help="where the pages go")] = Path("reproductions"),
    seeds: Annotated[int | None, typer.Option(min=1, help="how many seeds (default: as published)")] = None,
    from_csv: Annotated[
        bool, typer.Option("--from-csv", help="measure nothing: write the pages anew from their rows")
    ] = False,
    listing: Annotated[bool, typer.Option("--list", help="only list what there is")] = False,
    as_json: AsJson = False,
) -> None:
    """The papers' tables and figures compared with ours: a page, a table and pictures for each."""
    if listing:
        names = [f"{key}/{name}" for key, name in chosen_items(item)]
        answer(as_json, names, *names)
        return
    if from_csv and seeds:
        raise BadParameter("--from-csv measures nothing, so there are no seeds to choose: leave out --seeds")
    with bar("reproduce") as progress:
        done = rewrite(item, folder) if from_csv else reproduce(item, folder, seeds=seeds, progress=progress)
    table = Table("item", "what it is", "page", box=None, pad_edge=False, header_style="dim")
    for name, result in done.items():
        table.add_row(name, shown(result.title), shown(folder / f"{name}.md"))
    document = {name: {"title": r.title, "rows": list(r.rows), "notes": list(r.notes)} for name, r in done.items()}
    answer(as_json, document, table)


if __name__ == "__main__":
    main(lambda words: run(words, app, "python -m reproductions"))
