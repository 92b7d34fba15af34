"""One program of commands, and what becomes of an error: one line that says what to do."""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Annotated

import typer

import overlace
from overlace.cli.console import err, out, shown, visible_lines
from overlace.cli.explain import exit_code_of, explain
from overlace.errors import NothingBetter
from overlace.stopping import received


def new_app() -> typer.Typer:
    """The program without its commands."""
    app = typer.Typer(
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Plans better overlays for distributed publish/subscribe systems, from their traffic.",
        epilog="Start with [bold]overlace demo[/bold]; check this installation: [bold]overlace doctor[/bold].",
    )
    app.callback(invoke_without_command=True)(options)
    return app


def options(
    version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="full traceback")] = False,
) -> None:
    """Plans better overlays for distributed publish/subscribe systems, from their traffic."""
    if version:
        out.print(overlace.__version__)
        raise typer.Exit


def run_app(words: list[str], commands: typer.Typer, name: str = "overlace") -> int:
    """Run a command; its exit code. Every failure is one clear line, or with --debug the full traceback."""
    debug, words = take_flag("--debug", words)
    logging.getLogger().addHandler(logging.NullHandler())  # py4j tells the root logger when a gateway is lost
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot write
    try:
        code = commands(words, prog_name=name, standalone_mode=False)
        return code if isinstance(code, int) else 0
    except Exception as error:
        if received() is not None:
            raise  # what a signal leaves behind is no error
        if debug:
            print(visible_lines("".join(traceback.format_exception(error))), end="", file=sys.stderr)
        elif text := explain(error):
            lead = "[bold]No change recommended:[/bold]" if isinstance(error, NothingBetter) else "[red]error:[/red]"
            err.print(f"{lead} {shown(text)}")
        return exit_code_of(error)


def take_flag(option: str, words: list[str]) -> tuple[bool, list[str]]:
    """Whether an option stands anywhere before `--`, and the words without it."""
    end = words.index("--") if "--" in words else len(words)
    rest = [word for word in words[:end] if word != option] + words[end:]
    return len(rest) < len(words), rest
