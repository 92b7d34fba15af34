"""What all commands share: two consoles, the options that many have, progress, and how a result is given."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
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
    """A progress bar on standard error, as the callback that planners and jobs take.

    What they say is `stage` or `stage: detail`. In a window each stage leaves a line with its last detail
    (rows, tasks) and its seconds.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True) as progress:
        stages = Stages(what)
        task = progress.add_task(what, total=1.0)

        def tell(share: float, text: str) -> None:
            ended = stages.enter(text)
            if ended and err.is_terminal:
                err.print(f"[dim]{escape(ended)}[/dim]")
            progress.update(task, completed=share, description=escape(f"{what}: {text}"))

        yield tell
        if err.is_terminal and stages.stage:
            err.print(f"[dim]{escape(stages.line())}[/dim]")


class Stages:
    """The stages of a piece of work as it names them, with their seconds."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.stage = self.detail = ""
        self.began = time.perf_counter()

    def enter(self, text: str) -> str:
        """Take note of `stage: detail`; the line of the stage that has ended, if one has."""
        stage, _, detail = text.partition(": ")
        ended = self.line() if self.stage and stage != self.stage else ""
        if stage != self.stage:
            self.stage, self.began = stage, time.perf_counter()
        self.detail = detail
        return ended

    def line(self) -> str:
        """The current stage in a line."""
        detail = f", {self.detail}" if self.detail else ""
        return f"{self.what}: {self.stage}{detail}, {time.perf_counter() - self.began:.1f} s"


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
