"""Planning on the command line: solve, plan files, the catalog. A planner's flags are its fields."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from overlace.cli.console import AsJson, Force, PlanPath, RunPath, Seed, answer, bar, err, shown
from overlace.errors import Unknown
from overlace.wording import amount, counted

if TYPE_CHECKING:
    from overlace.optimize.words import Units

plans = typer.Typer(no_args_is_help=True, help="Plan files: look at one, compare two, keep the first steps.")


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


def solve_function(name: str) -> Any:
    """The function behind `overlace solve NAME`, with an option for each of the planner's fields."""
    from overlace.catalog import planner_class
    from overlace.cli.options import parameters_of, with_parameters

    def solve(
        run: RunPath, *, seed: Seed = 0, forecast: Ahead = False, force: Force = False, as_json: AsJson = False,
        **given: Any,
    ) -> None:  # fmt: skip
        solve_command(name, run, seed, forecast, force, as_json, given)

    *own, _ = inspect.signature(solve, eval_str=True).parameters.values()
    return with_parameters(solve, [*own, *parameters_of(planner_class(name))], planner_class(name))


Ahead = Annotated[bool, typer.Option("--forecast", help="plan for the traffic to come, estimated from the run's trace")]


def solve_command(
    name: str, run: Path, seed: int, forecast: bool, force: bool, as_json: bool, given: dict[str, Any]
) -> None:
    """Solve unless that very plan is there already, and print it."""
    from overlace.catalog import planner_class
    from overlace.cli.options import make_planner
    from overlace.optimize.forecast import AS_OBSERVED, forecast_for
    from overlace.optimize.plan import keep_plan, plan_for, solve
    from overlace.trace.runs import read_observation, writing_run

    observation, names = read_observation(run)
    counts = {
        "client": observation.clients,
        "broker": observation.network.brokers,
        "topic": observation.topics,
    }
    planner = make_planner(planner_class(name), given, names, counts)
    with bar(name) as progress, writing_run(run):
        made_for = forecast_for(run, planner, seed, progress) if forecast else AS_OBSERVED
        if force:
            plan = plan_for(planner, observation, made_for.ahead, seed, progress)
            solved = keep_plan(plan, observation, run, names, made_for)
        else:
            solved = solve(planner, observation, run, names, seed=seed, forecast=made_for, progress=progress)
    document, folder, again, _ = solved
    if again:
        err.print(shown(f"solved before: {folder} (--force solves again)"))
    answer(
        as_json,
        {**document.model_dump(), "plan": str(folder)},
        *plan_lines(document, most=8, units=units_of_plan(folder)),
        shown(f"plan     {folder}"),
    )


def plan_lines(document: Any, most: int | None = None, units: Units | None = None) -> list[str]:
    """A plan as infrastructure tools show theirs: what each step changes and why, then what all of it comes to."""
    from overlace.optimize.words import PER_MESSAGE, changes_line, own_cost_unit
    from overlace.trace.plan_file import change_lines

    lines = []
    listed = document.steps[:most]
    unit = own_cost_unit(document.facets, document.parameters, units or PER_MESSAGE)
    short = unit.partition(";")[0]
    for line in listed:
        share = f" ({line.gain / document.cost_before:.1%})" if document.cost_before else ""
        # a mesh has no traffic cost
        saves = "" if "mesh" in document.facets else f" saves {amount(line.gain)} {short}{share}"
        lines.append(f"[dim]# step {line.step}{saves}: {shown(line.why)}[/dim]")
        changes = change_lines(line.changes)
        lines += [f"[{COLOUR[text[0]]}]{shown(text)}[/{COLOUR[text[0]]}]" for text in changes[:MOST_CHANGES]]
        left_out = max(0, len(changes) - MOST_CHANGES) + line.more
        if left_out:
            more = counted(left_out, "more change", "more changes")
            lines.append(f"  ... and {more} in this step (--json lists them)")
    if document.steps_total > len(listed):
        lines.append(f"... and {document.steps_total - len(listed):,} more steps")
    before, after = document.cost_before, document.cost_after
    share = f" ({(after - before) / before:+.1%})" if before else ""
    lines.append(f"[bold]Plan:[/bold] {changes_line(document)}")
    lines.append(
        f"{shown(document.planner)}, seed {document.seed}: the planner's estimate ({unit}) {amount(before)} -> "
        f"{amount(after)}{share} in the training window"
    )
    if document.forecast:
        lines.append(f"made for {shown(document.forecast)}")
    if document.newcomers and not document.judged:
        lines.append(f"newcomers: {shown(document.newcomers)}")
    return lines


COLOUR = {"+": "green", "-": "red", "~": "yellow"}
MOST_CHANGES = 8
"""Changes of a step that are listed."""


@plans.command("show", epilog="Example: [bold]overlace plan show demo-run/plans/tree.mst-b44d36db --steps 3[/bold]")
def plan_show(
    plan: PlanPath,
    steps: Annotated[int | None, typer.Option(min=0, help="how many steps to list (default: all)")] = None,
    as_json: AsJson = False,
) -> None:
    """What a plan costs and saves, and each step with its reason."""
    from overlace.catalog import PLANNERS
    from overlace.optimize.words import lines as lines_of
    from overlace.trace.plans import read_plan

    document = read_plan(plan, PLANNERS)
    units = units_of_plan(plan)
    judged = [f"{shown(what)}: {shown(text)}" for what, text in lines_of(document, units) if what != "changes"]
    lines = [*judged, f"most reconnects in one step: {document.peak_reconnects:,}"]
    shown_steps = plan_lines(document, steps, units)
    answer(as_json, document.model_dump(), *shown_steps, *lines, shown(f"digest   {document.digest}"))


def units_of_plan(plan: Path) -> Units:
    """What costs are counted in, as the run of a plan says; per message where it is none."""
    from overlace.optimize.words import Units
    from overlace.trace.runs import read_json

    about = (plan if plan.is_dir() else plan.parent).resolve().parent.parent / "run.json"
    run = read_json(about) if about.exists() else {}
    return Units(str(run.get("unit", "message")), bool(run.get("links_priced", True)))


@plans.command("diff", epilog="Example: [bold]overlace plan diff run/plans/A run/plans/B[/bold]")
def plan_diff(ours: PlanPath, theirs: PlanPath, as_json: AsJson = False) -> None:
    """Which changes only one of two plans makes."""
    from overlace.catalog import PLANNERS
    from overlace.optimize.words import changes_line
    from overlace.trace.plans import plan_difference, read_plan

    first, second = read_plan(ours, PLANNERS), read_plan(theirs, PLANNERS)
    only_ours, only_theirs, both = plan_difference(ours, theirs)
    if first.before != second.before:
        err.print("note: the two plans start from different overlays")
    answer(
        as_json,
        {"only_first": only_ours, "only_second": only_theirs, "both": both},
        f"first   {amount(first.cost_before)} -> {amount(first.cost_after)}: {changes_line(first)}",
        f"second  {amount(second.cost_before)} -> {amount(second.cost_after)}: {changes_line(second)}",
        f"{both:,} changes in both, {len(only_ours):,} only in the first, {len(only_theirs):,} only in the second",
        *(shown(f"first   {line}") for line in only_ours),
        *(shown(f"second  {line}") for line in only_theirs),
    )


@plans.command("cut", epilog="Example: [bold]overlace plan cut run/plans/A --steps 5 --out five-steps[/bold]")
def plan_cut(
    plan: PlanPath,
    steps: Annotated[int, typer.Option(min=0, help="how many steps to keep")],
    folder: Annotated[Path, typer.Option("--out", help="output folder")],
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """The first steps of a plan as a plan of its own."""
    from overlace.catalog import PLANNERS
    from overlace.trace.plans import cut_plan

    document = cut_plan(plan, steps, folder, PLANNERS, force=force)
    answer(
        as_json,
        {**document.model_dump(), "plan": str(folder)},
        *plan_lines(document, most=0, units=units_of_plan(plan)),
        shown(f"plan     {folder}"),
    )


def planners_command(
    facet: Annotated[
        str | None,
        typer.Argument(help="a kind, such as placement or mesh, or one planner by name", metavar="KIND|PLANNER"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Every planner with its paper and parameters."""
    from overlace.catalog import PLANNERS
    from overlace.cli.options import UNLIMITED, type_name

    chosen = {name: kind for name, kind in PLANNERS.items() if facet in (None, name, name.split(".")[0])}
    if not chosen:
        kinds = sorted({name.split(".")[0] for name in PLANNERS})
        raise Unknown("kind of planner, or planner,", facet or "", [*kinds, *PLANNERS])
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
            paper or "beyond the papers",
            about,
            Text("\n".join(f"{f['name']} = {UNLIMITED if f['default'] is None else f['default']}" for f in fields)),
        )
    answer(as_json, rows, table)
