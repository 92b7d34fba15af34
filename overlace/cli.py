"""The command line: one command per verb; a planner's flags are its fields.

Results go to standard output, as text or with --json as JSON; progress and prose go to standard
error. Exit codes: 0 done, 1 bad input or a failure, 2 wrong usage, 3 nothing better.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from typer.core import TyperGroup

import overlace
from overlace.errors import OverlaceError, Unknown

PIPED = 160  # columns, where nobody has a window that says how many fit
out = Console(soft_wrap=True, highlight=False, emoji=False, width=None if sys.stdout.isatty() else PIPED)
err = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)

AsJson = Annotated[bool, typer.Option("--json", help="the result as JSON on standard output")]
Force = Annotated[bool, typer.Option("--force", help="replace what is there")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="same seed, same result")]
RunPath = Annotated[Path, typer.Argument(help="a run folder", metavar="RUN")]
PlanPath = Annotated[Path, typer.Argument(help="a plan folder, or its plan.json", metavar="PLAN")]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Plans better overlays for distributed publish/subscribe systems, from their traffic.",
    epilog="Start with [bold]overlace demo[/bold]; what this machine lacks: [bold]overlace doctor[/bold].",
)
plans = typer.Typer(no_args_is_help=True, help="Plan files: look at one, compare two, keep the first steps.")
app.add_typer(plans, name="plan")


@contextmanager
def bar(what: str) -> Iterator[Any]:
    """A progress bar on standard error, as the callback that planners take."""
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
        sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=plain) + "\n")
    else:
        for each in text:
            out.print(each)


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="the version, and no more")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="the whole trace of an error")] = False,
) -> None:
    """Plans better overlays for distributed publish/subscribe systems, from their traffic."""
    if version:
        out.print(overlace.__version__)
        raise typer.Exit


@app.command(
    "demo",
    epilog="Then: [bold]overlace plan show PLAN[/bold] with the folder it prints",
)
def demo_command(
    folder: Annotated[Path, typer.Option("--out", help="the run folder to make")] = Path("demo-run"),
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """A generated system of 24 sites: observed, planned with tree.mst, every step explained."""
    from overlace.jobs.demo import demo

    with bar("demo") as progress:
        made = demo(folder, seed=seed, force=force, progress=progress)
    answer(
        as_json,
        {**made.solved.document.model_dump(), "plan": str(made.solved.folder), "picture": str(made.picture)},
        f"{made.observation.network.brokers} brokers, {made.observation.clients} clients, "
        f"{int(made.observation.classes.demand.sum()):,} messages in {len(made.observation.classes)} traffic classes",
        *plan_lines(made.solved.document, most=8),
        escape(f"plan     {made.solved.folder}"),
        escape(f"picture  {made.picture}"),
    )


class PlannerGroup(TyperGroup):
    """One sub-command a planner, made from its fields when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Every planner's name."""
        from overlace.catalog import PLANNERS

        return list(PLANNERS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of one planner; the nearest names if there is none."""
        from overlace.catalog import planner_class

        planner = planner_class(cmd_name)
        one = typer.Typer(
            add_completion=False,
            pretty_exceptions_enable=False,
            rich_markup_mode="rich",
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        one.command(
            cmd_name,
            help=inspect.getdoc(planner),
            epilog=f"Example: [bold]overlace solve {cmd_name} demo-run[/bold]",
        )(solve_function(cmd_name))
        return typer.main.get_command(one)


solvers = typer.Typer(
    cls=PlannerGroup,
    no_args_is_help=True,
    help="One plan, into RUN/plans/. Each planner has its own options: overlace solve PLANNER --help",
    rich_markup_mode="rich",
)


@solvers.callback()
def solve_options() -> None:
    """One plan, into RUN/plans/. Each planner has its own options: overlace solve PLANNER --help."""


app.add_typer(solvers, name="solve")


def solve_function(name: str) -> Any:
    """The function behind `overlace solve NAME`, with an option for each of the planner's fields."""
    from overlace.catalog import planner_class
    from overlace.options import parameters_of

    def solve(run: Path, seed: int = 0, force: bool = False, as_json: bool = False, **given: Any) -> None:
        solve_command(name, run, seed, force, as_json, given)

    fixed = [
        inspect.Parameter("run", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=RunPath),
        *(
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for key, default, kind in (("seed", 0, Seed), ("force", False, Force), ("as_json", False, AsJson))
        ),
    ]
    every = [*fixed, *parameters_of(planner_class(name))]
    solve.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    solve.__annotations__ = {each.name: each.annotation for each in every}
    return solve


def solve_command(name: str, run: Path, seed: int, force: bool, as_json: bool, given: dict[str, Any]) -> None:
    """Solve unless that very plan is there already, and print it."""
    from overlace.catalog import planner_class
    from overlace.jobs.solve import solve
    from overlace.options import make_planner
    from overlace.run import read_observation

    observation, names = read_observation(run)
    counts = {
        "client": observation.clients,
        "broker": observation.network.brokers,
        "topic": observation.topics,
    }
    planner = make_planner(planner_class(name), given, names, counts)
    with bar(name) as progress:
        document, folder, again = solve(planner, observation, run, names, seed=seed, force=force, progress=progress)
    if again:
        err.print(escape(f"solved before: {folder} (--force solves again)"))
    answer(
        as_json,
        {**document.model_dump(), "plan": str(folder)},
        *plan_lines(document, most=8),
        escape(f"plan     {folder}"),
    )


def amount(value: float) -> str:
    """A cost or gain for people: whole from 1,000 on, else four digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def plan_lines(document: Any, most: int | None = None) -> list[Any]:
    """A plan for people: what it costs, then its steps."""
    before, after = document.cost_before, document.cost_after
    share = f" ({(after - before) / before:+.1%})" if before else ""
    yielded: list[Any] = [
        f"[bold]{document.planner}[/bold] seed {document.seed}: cost {amount(before)} -> {amount(after)}{share} "
        f"in {document.steps_total:,} steps, {document.changes_total:,} changes"
    ]
    shown = document.steps[:most]
    if shown:
        table = Table("step", "gain", "changes", "why", box=None, pad_edge=False, header_style="dim")
        for line in shown:
            changes = line.changes[:4]
            left_out = len(line.changes) - len(changes) + line.more
            more = f" (+{left_out:,} more)" if left_out else ""
            text = "; ".join(f"{'+' if c.action == 'add' else '-'} {c.left} {c.right}" for c in changes)
            table.add_row(str(line.step), amount(line.gain), escape(text + more), escape(line.why))
        yielded.append(table)
    if document.steps_total > len(shown):
        yielded.append(f"... and {document.steps_total - len(shown):,} more steps")
    return yielded


@plans.command("show", epilog="Example: [bold]overlace plan show demo-run/plans/tree.mst-b44d36db --steps 3[/bold]")
def plan_show(
    plan: PlanPath,
    steps: Annotated[int | None, typer.Option(min=0, help="how many steps to list (default: all)")] = None,
    as_json: AsJson = False,
) -> None:
    """What a plan costs and saves, and each step with its reason."""
    from overlace.planfile import read_plan

    document = read_plan(plan)
    answer(as_json, document.model_dump(), *plan_lines(document, steps), f"digest   {document.digest}")


@plans.command("diff", epilog="Example: [bold]overlace plan diff run/plans/A run/plans/B[/bold]")
def plan_diff(ours: PlanPath, theirs: PlanPath, as_json: AsJson = False) -> None:
    """Which changes only one of two plans makes."""
    from overlace.planfile import plan_difference, read_plan

    first, second = read_plan(ours), read_plan(theirs)
    only_ours, only_theirs, both = plan_difference(ours, theirs)
    if first.before != second.before:
        err.print("note: the two plans start from different overlays")
    answer(
        as_json,
        {"only_first": only_ours, "only_second": only_theirs, "both": both},
        f"first   {amount(first.cost_before)} -> {amount(first.cost_after)} in {first.steps_total:,} steps",
        f"second  {amount(second.cost_before)} -> {amount(second.cost_after)} in {second.steps_total:,} steps",
        f"{both:,} changes in both, {len(only_ours):,} only in the first, {len(only_theirs):,} only in the second",
        *(escape(f"first   {line}") for line in only_ours),
        *(escape(f"second  {line}") for line in only_theirs),
    )


@plans.command("cut", epilog="Example: [bold]overlace plan cut run/plans/A --steps 5 --out five-steps[/bold]")
def plan_cut(
    plan: PlanPath,
    steps: Annotated[int, typer.Option(help="how many steps to keep")],
    folder: Annotated[Path, typer.Option("--out", help="the plan folder to make")],
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """The first steps of a plan as a plan of its own."""
    from overlace.planfile import cut_plan

    document = cut_plan(plan, steps, folder, force=force)
    answer(
        as_json,
        {**document.model_dump(), "plan": str(folder)},
        *plan_lines(document, most=0),
        escape(f"plan     {folder}"),
    )


@app.command("planners", epilog="Example: [bold]overlace planners tree[/bold]")
def planners_command(
    facet: Annotated[str | None, typer.Argument(help="only this facet, or one planner by name")] = None,
    as_json: AsJson = False,
) -> None:
    """Every planner with its paper and parameters."""
    from overlace.catalog import PLANNERS
    from overlace.options import type_name

    chosen = {name: kind for name, kind in PLANNERS.items() if facet in (None, name, name.split(".")[0])}
    if not chosen:
        raise Unknown("facet or planner", facet or "", [*sorted({n.split(".")[0] for n in PLANNERS}), *PLANNERS])
    rows = []
    table = Table("planner", "paper", "what it does", "parameters", box=None, pad_edge=False, header_style="dim")
    for name, kind in chosen.items():
        hints = get_type_hints(kind)
        about = (inspect.getdoc(kind) or "").splitlines()[0]
        fields = [
            {
                "name": f.name,
                "type": type_name(hints[f.name]),
                "default": f.default,
                "help": f.metadata.get("help", ""),
            }
            for f in dataclasses.fields(kind)  # type: ignore[arg-type]
        ]
        paper = getattr(kind, "paper", "")
        rows.append({"planner": name, "paper": paper, "about": about, "parameters": fields})
        table.add_row(
            name,
            paper or "baseline",
            about,
            escape("\n".join(f"{f['name']} = {f['default']}" for f in fields)),
        )
    answer(as_json, rows, table)


@app.command("schema", epilog="Examples: [bold]overlace schema plan[/bold], [bold]overlace schema traffic[/bold]")
def schema_command(
    name: Annotated[str | None, typer.Argument(help="plan, or a table's name; none: list them")] = None,
    as_json: AsJson = False,
) -> None:
    """The JSON Schema of plan files, or the columns of a table."""
    from overlace.planfile import PlanFile
    from overlace.tables import RUN, TABLES, TRACE, schema_of

    if name == "plan":
        answer(True, PlanFile.model_json_schema())
        return
    if name is None:
        listing = {"file": ["plan"], "trace": list(TRACE), "run": list(RUN)}
        answer(
            as_json,
            listing,
            *(f"[bold]{kind}[/bold]  {' '.join(tables)}" for kind, tables in listing.items()),
        )
        return
    if name not in TABLES:
        raise Unknown("table", name, ["plan", *TABLES])
    columns = [{"column": f.name, "type": str(f.type), "nullable": f.nullable} for f in schema_of(name)]
    table = Table("column", "type", "may be empty", box=None, pad_edge=False, header_style="dim")
    for each in columns:
        table.add_row(str(each["column"]), escape(str(each["type"])), "yes" if each["nullable"] else "")
    answer(as_json, {"table": name, "columns": columns}, table)


@app.command("doctor", epilog="Example: [bold]overlace doctor --master 'local[2]'[/bold] also starts Spark")
def doctor_command(
    master: Annotated[str | None, typer.Option(help="also start Spark there and ask its executors")] = None,
    as_json: AsJson = False,
) -> None:
    """What this machine (and with --master each executor) has and lacks."""
    from overlace.jobs.doctor import examine

    findings = examine(master)
    table = Table("", "what", "found", "to do", box=None, pad_edge=False, header_style="dim")
    marks = {"ok": "[green]ok[/green]", "optional": "[yellow]-[/yellow]", "missing": "[red]missing[/red]"}
    for each in findings:
        table.add_row(marks[each.state], *map(escape, (each.what, each.found, each.advice)))
    answer(as_json, [each._asdict() for each in findings], table)
    if any(each.state == "missing" for each in findings):
        raise typer.Exit(1)


def main() -> None:
    """The entry point: every failure is one clear line and an exit code, or with --debug the whole trace."""
    try:
        app()
    except OverlaceError as error:
        fail(error, error.exit_code)
    except KeyboardInterrupt:
        err.print("stopped")
        sys.exit(130)
    except Exception as error:
        fail(error, 1)


def fail(error: Exception, code: int) -> None:
    """Say what went wrong and leave."""
    if "--debug" in sys.argv:
        traceback.print_exception(error)
    else:
        known = isinstance(error, OverlaceError)
        text = str(error) if known else f"{type(error).__name__}: {error} (overlace --debug ... shows where)"
        err.print(f"[red]error:[/red] {escape(text)}")
    sys.exit(code)
