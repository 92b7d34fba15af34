"""What all commands share: two consoles, the options that many have, progress, and how a result is given."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

PIPED = 160  # columns, where nobody has a window that says how many fit
out = Console(soft_wrap=True, highlight=False, emoji=False, width=None if sys.stdout.isatty() else PIPED)
err = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)

AsJson = Annotated[bool, typer.Option("--json", help="the result as JSON on standard output")]
Force = Annotated[bool, typer.Option("--force", help="replace what is there")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="same seed, same result")]
RunPath = Annotated[Path, typer.Argument(help="a run folder", metavar="RUN")]
PlanPath = Annotated[Path, typer.Argument(help="a plan folder, or its plan.json", metavar="PLAN")]
Master = Annotated[str, typer.Option(help="where Spark runs: local[*], spark://host:7077, ...")]


@contextmanager
def bar(what: str) -> Iterator[Any]:
    """A progress bar on standard error, as the callback that planners and jobs take."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task(what, total=1.0)
        yield lambda share, text: progress.update(task, completed=share, description=f"{what}: {text}")


def answer(as_json: bool, document: Any, *text: Any) -> None:
    """The result, once: as JSON or as text."""
    if as_json:
        plain = "utf" not in (sys.stdout.encoding or "utf-8").lower()
        sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=plain, default=str) + "\n")
    else:
        for each in text:
            out.print(each)


def amount(value: float) -> str:
    """A cost or gain for people: whole from 1,000 on, else four digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
