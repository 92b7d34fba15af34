"""What all commands share: two consoles, the options that many have, progress, and how a result is given.

Names come from logs, and a log may hold anything: nothing that could steer a terminal is written as it is. The
consoles see to it themselves, whoever prints: a string is one line, and every control character in it is shown
as an escape such as \\x1b. Only rich's own colours and cursor moves reach the terminal.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.errors import MarkupError
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.text import Text

PIPED = 160  # columns, where nobody has a window that says how many fit

HARMFUL = {*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029}
HARMFUL |= {*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)}
"""Control characters, line and paragraph separators, turns of the writing direction, halves of characters."""

SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
VISIBLE = {code: SHORT.get(chr(code), f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}") for code in HARMFUL}
VISIBLE_LINES = {code: text for code, text in VISIBLE.items() if code != ord("\n")}
IN_JSON = {code: f"\\u{code:04x}" for code in HARMFUL if code >= 0x7F}


def visible(text: str) -> str:
    """A text as one line in which every control character can be seen and does nothing."""
    return text.translate(VISIBLE)


def visible_lines(text: str) -> str:
    """The same for a text of several lines."""
    return text.translate(VISIBLE_LINES)


def shown(text: object) -> str:
    """A name, path or message as it may stand inside markup."""
    return escape(visible(str(text)))


class Harmless(Console):
    """A console that writes nothing which could steer a terminal, but what rich itself makes."""

    def render_str(self, text: str, **how: Any) -> Text:
        """A string as one line; one whose brackets are no markup is taken as it is."""
        try:
            return super().render_str(visible(text), **how)
        except MarkupError:
            return super().render_str(visible(text), **{**how, "markup": False})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What is about to be written, whatever it came from."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            if control:
                yield segment
            else:  # a link would carry an address that nobody sees
                yield Segment(visible_lines(text), style.update_link(None) if style and style.link else style)

    def on_broken_pipe(self) -> None:
        """Whoever read this has left, as in `overlace planners | head`: leave too, quietly."""
        self.quiet = True
        raise SystemExit(BROKEN_PIPE)


BROKEN_PIPE = 141  # as if by the signal, which Python ignores

_piped = sys.stdout is None or not sys.stdout.isatty()
out = Harmless(soft_wrap=True, highlight=False, emoji=False, width=PIPED if _piped else None)
err = Harmless(stderr=True, soft_wrap=True, highlight=False, emoji=False)

Logs = Annotated[list[str], typer.Argument(help="files or folders of a log", metavar="LOG...")]
AsJson = Annotated[bool, typer.Option("--json", help="the result as JSON on standard output")]
Force = Annotated[bool, typer.Option("--force", help="replace what is there")]
Verbose = Annotated[bool, typer.Option("--verbose", help="all that is known of the answer, not its first lines")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="same seed, same result")]
Every = Annotated[str, typer.Option(help="how often --follow looks: 500ms, 10s, 5m")]
RunPath = Annotated[Path, typer.Argument(help="a run folder", metavar="RUN")]
PlanPath = Annotated[Path, typer.Argument(help="a plan folder, or its plan.json", metavar="PLAN")]
NetworkPath = Annotated[
    Path, typer.Option("--network", help="network file, or the folder of one", metavar="FILE", show_default=True)
]
NETWORK = Path("net")
"""The folder of a network that is not named."""


def example(text: str) -> str:
    """The line below a command's help."""
    return f"Example: [bold]{escape(text)}[/bold]"


@contextmanager
def bar(what: str, hint: str = "") -> Iterator[Any]:
    """How far a piece of work is, on standard error, as the callback that planners and jobs take.

    What they say is `stage` or `stage: detail`, the detail being what was counted. In a window each stage leaves a line
    with its last detail (rows, tasks) and its seconds. Elsewhere, as in a log, only stages of some seconds do, and a
    long one says from time to time how far it is. What takes long says once how to shorten it, if there is a hint.
    """
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        stages, began, hints = Stages(what), time.perf_counter(), [hint] if hint else []
        task = progress.add_task(shown(what), total=1.0)

        def tell(share: float, text: str) -> None:
            seconds = stages.seconds
            ended = stages.enter(text)
            if ended and (err.is_terminal or seconds >= BRIEF):
                err.print(f"[dim]{shown(ended)}[/dim]")
            elif not err.is_terminal and stages.is_due():
                err.print(f"[dim]{shown(stages.line())}[/dim]")
            if hints and time.perf_counter() - began >= LONG:
                err.print(f"[dim]{shown(f'{what}: {hints.pop()}')}[/dim]")
            progress.update(task, completed=share, description=shown(f"{what}: {text}"))

        yield tell
        if stages.stage and (err.is_terminal or stages.seconds >= BRIEF):
            err.print(f"[dim]{shown(stages.line())}[/dim]")


BRIEF, OFTEN, LONG = 2.0, 10.0, 20.0
"""Seconds: of a stage that leaves no line in a log, between two lines of a long one there, and until a hint is due."""


class Stages:
    """The stages of a piece of work as it names them, with their seconds."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.stage = self.detail = ""
        self.began = self.told = time.perf_counter()

    @property
    def seconds(self) -> float:
        """How long the current stage has taken."""
        return time.perf_counter() - self.began

    def is_due(self) -> bool:
        """Whether it is time to say how far the current stage is; if so, it counts as said."""
        due = time.perf_counter() - self.told >= OFTEN
        if due:
            self.told = time.perf_counter()
        return due

    def enter(self, text: str) -> str:
        """Take note of `stage: detail`; the line of the stage that has ended, if one has."""
        stage, _, detail = text.partition(": ")
        ended = self.line() if self.stage and stage != self.stage else ""
        if stage != self.stage:
            self.stage = stage
            self.began = self.told = time.perf_counter()
        self.detail = detail
        return ended

    def line(self) -> str:
        """The current stage in a line."""
        detail = f", {self.detail}" if self.detail else ""
        return f"{self.what}: {self.stage}{detail}, {time.perf_counter() - self.began:.1f} s"


def answer(as_json: bool, document: Any, *text: Any) -> None:
    """The result, once: as JSON or as text."""
    if as_json:
        plain = "utf" not in (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
        written = json.dumps(document, indent=1, ensure_ascii=plain, default=str)
        print(written.translate(IN_JSON), flush=True)
    else:
        for each in text:
            out.print(each)
