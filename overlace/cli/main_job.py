"""The main job on the command line: optimize and drift."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from overlace.cli.console import AsJson, Force, RunPath, TrainUntil, answer, bar, err, shown
from overlace.wording import amount, percent

if TYPE_CHECKING:
    from overlace.optimize.joined import InPlace

Several = list[str] | None


def optimize_command(
    trace: Annotated[str, typer.Argument(help="a trace", metavar="TRACE")],
    run: Annotated[Path, typer.Option("--out", help="the run folder to make")],
    objective: Annotated[
        str | None, typer.Option(help="what to lower: hops, messages, bytes, latency or cost (default)")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="limits and wishes as TOML (default: overlace.toml, if it is there)")
    ] = None,
    train: Annotated[float | None, typer.Option(help="share of the messages that plans (0.7)")] = None,
    train_until: TrainUntil = None,
    budget: Annotated[int | None, typer.Option(help="clients moved and links changed together, at most")] = None,
    max_moves: Annotated[int | None, typer.Option(help="clients moved, at most")] = None,
    max_swaps: Annotated[int | None, typer.Option(help="links changed, at most")] = None,
    min_gain: Annotated[float | None, typer.Option(help="share of the cost that a plan must save (0.01)")] = None,
    min_step: Annotated[float | None, typer.Option(help="share of the cost that every change must save (0)")] = None,
    max_cut: Annotated[float | None, typer.Option(help="share of the deliveries that may fail with one broker")] = None,
    sent_cap: Annotated[
        float | None, typer.Option(help="sent by a broker's clients, at most times the mean (1.5; 0: any)")
    ] = None,
    handled_cap: Annotated[
        float | None, typer.Option(help="through a broker, at most times today's busiest (1; 0: any)")
    ] = None,
    head_room: Annotated[
        float | None, typer.Option(help="share of a broker's capacity that stays free, where it is known (0.2)")
    ] = None,
    max_degree: Annotated[int | None, typer.Option(help="maximum links of a broker, in a mesh of a client")] = None,
    max_diameter: Annotated[
        int | None, typer.Option(help="meshes: maximum links on a path between two subscribers of a topic")
    ] = None,
    survive: Annotated[
        int | None, typer.Option(help="meshes: clients that may fail at once with every topic still connected (0)")
    ] = None,
    placement: Annotated[str | None, typer.Option(help="may clients leave their region: region or anywhere")] = None,
    could_wire: Annotated[Several, typer.Option(help="links that could be new, such as 'plant*:hub*'")] = None,
    keep: Annotated[
        Several, typer.Option(help="what stays: CLIENT, broker:NAME, link:LEFT:RIGHT; patterns too")
    ] = None,
    only: Annotated[
        Several, typer.Option(help="what may change, named as for --keep; of a kind that is not named: all")
    ] = None,
    forecast: Annotated[
        str | None,
        typer.Option(
            help="what is planned for: the traffic to come, as chosen from the first part, or its plain sums"
            " (chosen; or: plain)"
        ),
    ] = None,
    effort: Annotated[
        int | None, typer.Option(help="how long to anneal after the first search (100); 0: quickest")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="same seed, same result (0)")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Observe, plan, replay the part of the log that the plan has not seen, and report: the main job."""
    from overlace.optimize.job import Refused, as_document, optimize
    from overlace.optimize.wishes import read_wishes

    given = {key: value for key, value in locals().items() if key in WISHES}
    file = config or (Path("overlace.toml") if Path("overlace.toml").exists() else None)
    wishes = read_wishes(file, given)
    try:
        with bar("optimize", SHORTER) as progress:
            found = optimize(trace, run, wishes, force=force, progress=progress)
    except Refused as error:
        found = error.answer
    if found.warning:
        err.print(f"[yellow]note:[/yellow] {shown(found.warning)}")
    last = [f"[bold]No change recommended:[/bold] {shown(found.why_not)}"] if found.why_not else []
    answer(as_json, {"run": str(run)} | as_document(found), *told(found), shown(f"report   {found.report}"), *last)
    if found.why_not:
        raise typer.Exit(Refused.exit_code)


SHORTER = (
    "this takes a while; --effort 10 searches a tenth as long, --forecast plain skips choosing a forecast, --budget "
    "bounds the changes, and Ctrl-C ends with the best plan so far"
)
"""How a long run can be shortened."""

WISHES = (
    "objective", "train", "train_until", "budget", "max_moves", "max_swaps", "min_gain", "min_step", "max_cut",
    "sent_cap", "handled_cap", "head_room", "max_degree",
    "max_diameter", "survive", "placement", "could_wire", "keep", "only", "forecast",
    "effort", "seed",
)  # fmt: skip


def told(found: Any) -> list[Any]:
    """The answer in a few lines."""
    from overlace.report.answer import answer_lines

    lines: list[Any] = []
    for part in found.parts:
        document = part.solved.document
        lines.append(f"[bold]{part.name}[/bold]: {document.counts} ({shown(part.solved.folder)})")
        if document.judged.saving is not None:
            lines.append(f"  forecast: {shown(found.ahead)}")
        lines += [f"  {shown(what)}: {shown(text)}" for what, text in answer_lines(document, found.unit)]
        if part.name == "mesh" and found.mesh:
            lines += [frontier_table(found.mesh.rows), f"  taken: {shown(found.mesh.why)}"]
    lines += [f"limited by: {shown(text)}" for text in found.bounds]
    lines += [f"[yellow]note:[/yellow] {shown(text)}" for text in found.notes]
    lines += [f"[dim]left out: {shown(facet)}: {shown(why)}[/dim]" for facet, why in found.left_out]
    return lines


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
    as_json: AsJson = False,
) -> None:
    """Does the plan still hold on newer traffic, and would planning again pay? Exit code 3: nothing to do."""
    from overlace.errors import NothingBetter
    from overlace.optimize.drift import drift

    with bar("drift") as progress:
        found = drift(run, trace, plan, overlay=overlay, progress=progress)
    table = Table("broker", "sent there then", "now", box=None, pad_edge=False, header_style="dim")
    for name, then, now in found.loads[:8]:
        table.add_row(shown(name), f"{then:.1%}", f"{now:.1%}")
    least = found.min_gain if min_gain is None else min_gain
    pays, harms = found.again >= least, found.after > found.before
    document = {
        **found._asdict(), "in_place": found.in_place._asdict(), "seen": found.seen, "plan_again": pays,
        "go_back": harms,
    }  # fmt: skip
    answer(
        as_json,
        document,
        f"[bold]{shown(found.plan)}[/bold]: {found.predicted:.1%} less was promised, {percent(found.seen)} is seen "
        f"with the overlay as {overlay} ({found.metric} {amount(found.before)} -> {amount(found.after)})",
        *([f"[dim]{OTHERWISE}[/dim]"] if found.rule else []),
        in_place_line(found.in_place),
        f"{found.unseen:.1%} of the messages come from clients that the plan never saw",
        table,
        f"planning again from there, on the first part of this traffic, would save {found.again:.1%} of the rest"
        + ("" if pays else f", less than {least:.1%}{'' if harms else ': leave it as it is'}"),
        *([f"[yellow]on this traffic the overlay as {overlay} costs more than what was there before[/yellow]"] * harms),
    )
    if not pays and not harms:
        raise typer.Exit(NothingBetter.exit_code)


OTHERWISE = "newcomers count where the newer log has them; what was promised had them where the plan's rule sends them"


def in_place_line(found: InPlace) -> str:
    """How much of a plan the newer trace shows to be carried out, in a line."""
    if not found.moves and not found.links:
        return "the plan changes nothing"
    done, beside = [], []
    if found.moves:
        done.append(f"{found.at_planned:,} of {found.seen_again:,} moves")
        gone = found.moves - found.seen_again
        where = ((found.at_old, "at the old home"), (found.elsewhere, "elsewhere"), (gone, "not seen connected again"))
        beside = [f"{count:,} {text}" for count, text in where if count]
    if found.links and found.links_known:
        done.append(f"{found.links_as_planned:,} of {found.links:,} links")
    elif found.links:
        beside.append("no wired links are shown")
    said = (
        f"of the plan, {' and '.join(done)} are in place" if done else "how much of the plan is in place is not known"
    )
    return said + (f" ({'; '.join(beside)})" if beside else "")
