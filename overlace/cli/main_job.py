"""The main job on the command line: optimize and drift."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from overlace.cli.console import AsJson, Every, Force, RunPath, Verbose, answer, bar, err, shown
from overlace.cli.options import options_from
from overlace.limits import Goal, Limits
from overlace.wording import amount, counted, percent

if TYPE_CHECKING:
    from overlace.optimize.drift import Drift, InPlace
    from overlace.optimize.result import Json, Result


@options_from(Limits, Goal, config=True)
def optimize_command(
    trace: Annotated[str, typer.Argument(help="a trace", metavar="TRACE")],
    run: Annotated[Path, typer.Option("--out", help="output folder")],
    limits: Limits,
    goal: Goal,
    force: Force = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Observe, plan, replay held-out traffic, and report: the main job."""
    from overlace.optimize.result import NoChangeRecommended
    from overlace.verbs import optimize

    try:
        with bar("optimize", SHORTER) as progress:
            found = optimize(trace, run, limits, goal, force=force, progress=progress)
    except NoChangeRecommended as error:
        found = error.result
    if found.warning:
        err.print(f"[yellow]note:[/yellow] {shown(found.warning)}")
    answer(as_json, {"run": str(run)} | found.as_document(), *(full_text(found) if verbose else answer_text(found)))
    if found.why_not:
        raise typer.Exit(NoChangeRecommended.exit_code)


SHORTER = (
    "this takes a while; --effort 10 searches a tenth as long, --forecast plain skips choosing a forecast, --budget "
    "limits the changes, and Ctrl-C ends with the best plan so far"
)
"""How a long run can be shortened."""
MOST_LINES, WIDE = 12, 110
"""Lines of the answer, and characters of one that holds no path."""
LABEL = 17
"""Characters of a line for what it is about."""


def answer_text(found: Result) -> list[str]:
    """The answer in twelve lines at most: what to do, what it brings, how sure, what it risks, what to type."""
    ranked: list[tuple[int, str]] = []  # (how soon it is left out: the least last, line)
    for each in found.verdicts:
        family = f"{each.name}: " if len(found.verdicts) > 1 else ""
        ranked.append((0, f"[bold]{shown(clip(f'{family}{each.headline}', WIDE))}[/bold]"))
        ranked += [(3 + i, line_of(*line)) for i, line in enumerate(each.summary)]
    ranked += [(4 + 5 * i, f"[yellow]{line_of('note', text)}[/yellow]") for i, text in enumerate(found.notes)]
    last = textwrap.wrap(f"No change recommended: {found.why_not}", WIDE) if found.why_not else []
    commands = [line for each in found.verdicts for line in each.commands(found.run)]
    for what, command in commands if not found.why_not else commands[:1]:
        ranked.append((3, f"[dim]{line_of(what, command, None)}[/dim]"))
    room = MOST_LINES - 1 - len(last)
    chosen = sorted(sorted(range(len(ranked)), key=lambda i: (ranked[i][0], i))[:room])
    more = "" if len(chosen) == len(ranked) else "  (more with --verbose)"
    return [*(ranked[i][1] for i in chosen), line_of("report", f"{found.report}{more}", None), *map(shown, last)]


def line_of(what: str, text: str, wide: int | None = WIDE) -> str:
    """A line of the answer."""
    line = f"  {what:<{LABEL}} {text}"
    return shown(clip(line, wide) if wide else line)


def clip(text: str, wide: int) -> str:
    """A text of so many characters at most, cut between words."""
    return text if len(text) <= wide else f"{text[: wide - 1].rpartition(' ')[0].rstrip(' ;,:')} …"


def full_text(found: Result) -> list[str | Table]:
    """All that is known of the answer."""
    lines: list[str | Table] = []
    for each in found.verdicts:
        lines.append(f"[bold]{each.name}: {each.headline}[/bold] ({shown(each.folder)})")
        lines += [f"  {shown(what)}: {shown(text)}" for what, text in each.lines]
        if each.forecast:
            lines.append(f"  forecast: {shown(each.forecast)}")
        if each.frontier:
            lines += [frontier_table(each.frontier["rows"]), f"  taken: {shown(each.frontier['why'])}"]
    lines += [line for each in found.verdicts if each.trees for line in trees_text(each.trees, found.run)]
    lines += [f"limited by: {shown(text)}" for text in found.bounds]
    lines += [f"[yellow]note:[/yellow] {shown(text)}" for text in found.notes]
    lines += [f"[dim]left out: {shown(facet)}: {shown(why)}[/dim]" for facet, why in found.left_out]
    commands = [line for each in found.verdicts for line in each.commands(found.run)]
    lines += [f"[dim]{what}: {shown(command)}[/dim]" for what, command in commands]
    lines.append(shown(f"report   {found.report}"))
    return [*lines, f"[bold]No change recommended:[/bold] {shown(found.why_not)}"] if found.why_not else lines


def trees_text(trees: Json, run: Path) -> list[str | Table]:
    """The trees of channels in a few lines."""
    from overlace.optimize.trees import TREES

    size = f"{counted(trees['channels'], 'channel', 'channels')}, {trees['subscribers']:,} subscribers"
    lines: list[str | Table] = [f"[bold]{TREES}[/bold]: {size} ({shown(run / 'trees.parquet')})"]
    return lines + [f"  {shown(what)}: {shown(text)}" for what, text in trees["lines"].items()]


def frontier_table(rows: list[dict[str, Any]]) -> Table:
    """What a mesh was chosen from."""
    head = ("", "planner", "longest path", "links", "most a client", "average", "")
    table = Table(*head, box=None, pad_edge=False, header_style="dim")
    for row in rows:
        marked = "*" if row["taken"] else ""
        if row["links"] or not row["why_not"]:
            exact = "" if row["diameter_exact"] else " or more"
            cells = (f"{row['diameter']}{exact}", f"{row['links']:,}", f"{row['max_degree']:,}")
            table.add_row(marked, shown(row["label"]), *cells, f"{row['average_degree']:.2f}", shown(row["why_not"]))
        else:
            table.add_row(marked, shown(row["label"]), "", "", "", "", shown(row["why_not"]))
    return table


def drift_command(
    run: RunPath,
    trace: Annotated[str, typer.Argument(help="a newer trace of the same system", metavar="TRACE")],
    plan: Annotated[str | None, typer.Option(help="which plan of the run (default: what optimize chose)")] = None,
    overlay: Annotated[
        Literal["planned", "applied"],
        typer.Option(help="what stands now: the plan, or what the newer trace's own sessions and wired links show"),
    ] = "planned",
    min_gain: Annotated[
        float | None, typer.Option(help="share that planning again must save to be worth it (default: as the plan's)")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="go on with the trace as it grows, until Ctrl-C")] = False,
    every: Every = "10s",
    as_json: AsJson = False,
) -> None:
    """Does the plan still hold on newer traffic, and would planning again pay? Exit code 3: nothing to do."""
    from overlace.errors import Absent, NothingBetter
    from overlace.optimize.drift import drift
    from overlace.spark import follow as following
    from overlace.trace.store import Trace

    def look(at: Trace) -> Drift:
        with bar("drift") as progress:
            return drift(run, at, plan, overlay=overlay, progress=progress)

    if not follow:
        pays, harms = show_drift(look(Trace.open(trace)), overlay, min_gain, as_json)
        if not pays and not harms:
            raise typer.Exit(NothingBetter.exit_code)
        return
    seen = ""

    def newer() -> Drift | None:
        nonlocal seen
        if not Trace.exists(trace):
            raise Absent(f"{trace} is no trace yet")
        grown = Trace.open(trace)
        if seen == grown.digest():
            return None
        found, seen = look(grown), grown.digest()
        return found

    following.follow(newer, following.read_seconds(every), lambda found: show_newer(found, min_gain, as_json))


def show_newer(found: Drift | str, min_gain: float | None, as_json: bool) -> None:
    """Whether the plan holds on a trace that has grown, in a line."""
    if isinstance(found, str):
        err.print(f"[yellow]note:[/yellow] {shown(found.rstrip('.'))}. Waiting for it.")
        return
    least = found.min_gain if min_gain is None else min_gain
    pays, harms = found.again >= least, found.after > found.before
    why = "it costs more than what was there before" if harms else f"planning again would save {found.again:.1%}"
    answer(
        as_json,
        found._asdict() | {"seen": found.seen, "plan_again": pays, "go_back": harms},
        f"{shown(found.plan)}: {percent(found.predicted)} was promised, {percent(found.seen)} is seen; "
        + (f"[yellow]it does not hold any more: {why}[/yellow]" if pays or harms else f"it holds: {why}"),
    )


def show_drift(found: Drift, overlay: str, min_gain: float | None, as_json: bool) -> tuple[bool, bool]:
    """(planning again pays, the plan harms): what drift has found, in full."""
    table = Table("broker", "sent there then", "now", box=None, pad_edge=False, header_style="dim")
    for name, then, now in found.loads[:8]:
        table.add_row(shown(name), f"{then:.1%}", f"{now:.1%}")
    least = found.min_gain if min_gain is None else min_gain
    pays, harms = found.again >= least, found.after > found.before
    more = {"in_place": found.in_place._asdict(), "seen": found.seen, "plan_again": pays, "go_back": harms}
    answer(
        as_json,
        found._asdict() | more,
        f"[bold]{shown(found.plan)}[/bold]: {percent(found.predicted)} was promised, {percent(found.seen)} is seen "
        f"with the overlay as {overlay} ({found.metric} {amount(found.before)} -> {amount(found.after)})",
        in_place_line(found.in_place),
        f"{found.unseen:.1%} of the messages come from newcomers: clients without traffic when the plan was made",
        table,
        f"planning again from there, on the first part of this traffic, would save {found.again:.1%} of the rest"
        + ("" if pays else f", less than {least:.1%}{'' if harms else ': leave it as it is'}"),
        *([f"[yellow]on this traffic the overlay as {overlay} costs more than what was there before[/yellow]"] * harms),
    )
    return pays, harms


def in_place_line(found: InPlace) -> str:
    """How much of a plan the newer trace shows to be carried out, in a line."""
    if not found.moves and not found.links:
        return "the plan changes nothing"
    done, beside = [], []
    if found.moves:
        done.append(f"{found.at_planned:,} of {found.seen_again:,} moves")
        gone = found.moves - found.seen_again
        where = (
            (found.at_old, "at the old broker"),
            (found.elsewhere, "elsewhere"),
            (gone, "not seen connected again"),
        )
        beside = [f"{count:,} {text}" for count, text in where if count]
    if found.links and found.links_known:
        done.append(f"{found.links_as_planned:,} of {found.links:,} links")
    elif found.links:
        beside.append("no wired links are shown")
    known = f"of the plan, {' and '.join(done)} are in place"
    return (known if done else "how much of the plan is in place is not known") + (
        f" ({'; '.join(beside)})" if beside else ""
    )
