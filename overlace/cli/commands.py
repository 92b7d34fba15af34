"""All commands, and what becomes of an error: one line that says what to do."""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Annotated

import typer

import overlace
from overlace.cli import about, live, logs, main_job, peek, pipeline, plans, show, trees
from overlace.cli.console import err, example, out, shown, visible_lines
from overlace.cli.explain import exit_code_of, explain
from overlace.errors import NothingBetter
from overlace.stopping import received

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Plans better overlays for distributed publish/subscribe systems, from their traffic.",
    epilog="Start with [bold]overlace demo[/bold]; check this installation: [bold]overlace doctor[/bold].",
)


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="full traceback")] = False,
) -> None:
    """Plans better overlays for distributed publish/subscribe systems, from their traffic."""
    if version:
        out.print(overlace.__version__)
        raise typer.Exit


app.command("demo", epilog=example("overlace demo --out demo-run"))(pipeline.demo_command)
app.add_typer(pipeline.workloads, name="generate")
app.command("peek", epilog=example("overlace peek mosquitto.log"))(peek.peek_command)
app.command("ingest", epilog=example("overlace ingest logs/ --out trace"))(logs.ingest_command)
app.command("show", epilog=example("overlace show trace links --rows 5"))(show.show_command)
app.command("observe", epilog=example("overlace observe trace --out run"))(pipeline.observe_command)
app.add_typer(plans.solvers, name="solve")
app.add_typer(plans.plans, name="plan")
app.command("replay", epilog=example("overlace replay run"))(pipeline.replay_command)
app.command("report", epilog=example("overlace report run"))(pipeline.report_command)
app.command("optimize", epilog=example("overlace optimize trace --out run --budget 40"))(main_job.optimize_command)
app.command("drift", epilog=example("overlace drift run newer-trace"))(main_job.drift_command)
app.command("trees", epilog=example("overlace trees delays.csv --bounds 100 --degrees 3 --root hub"))(
    trees.trees_command
)
app.add_typer(live.live, name="live")
app.command("planners", epilog=example("overlace planners tree"))(plans.planners_command)
app.command("metrics", epilog=example("overlace metrics hops"))(about.metrics_command)
app.command("schema", epilog=example("overlace schema plan"))(about.schema_command)
app.command("doctor", epilog=example("overlace doctor --master 'local[2]'"))(about.doctor_command)


def run(words: list[str], commands: typer.Typer = app, name: str = "overlace") -> int:
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
