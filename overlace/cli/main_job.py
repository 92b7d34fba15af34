"""The main job on the command line: optimize and drift."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from overlace.cli.console import AsJson, Force, RunPath, TrainUntil, amount, answer, bar, err, shown

if TYPE_CHECKING:
    from overlace.jobs.joined import InPlace

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
    max_degree: Annotated[int | None, typer.Option(help="links of a broker, at most")] = None,
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
    from overlace.jobs.optimize import Refused, as_document, optimize
    from overlace.jobs.wishes import read_wishes

    given = {key: value for key, value in locals().items() if key in WISHES}
    file = config or (Path("overlace.toml") if Path("overlace.toml").exists() else None)
    wishes = read_wishes(file, given)
    refused = None
    try:
        with bar("optimize") as progress:
            found = optimize(trace, run, wishes, force=force, progress=progress)
    except Refused as error:
        found, refused = error.answer, error
    if found.warning:
        err.print(f"[yellow]note:[/yellow] {shown(found.warning)}")
    last = [f"[bold]No change recommended:[/bold] {shown(refused)}"] if refused else []
    document = {"run": str(run), "recommended": refused is None, "why_not": str(refused) if refused else None}
    answer(as_json, document | as_document(found), *told(found), shown(f"report   {found.report}"), *last)
    if refused:
        raise typer.Exit(refused.exit_code)


WISHES = (
    "objective", "train", "train_until", "budget", "max_moves", "max_swaps", "min_gain", "min_step", "max_cut",
    "sent_cap", "handled_cap", "head_room", "max_degree", "placement", "could_wire", "keep", "only", "forecast",
    "effort", "seed",
)  # fmt: skip


def told(found: Any) -> list[str]:
    """The answer in a few lines."""
    lines = []
    for part in found.parts:
        steps = part.solved.document.steps_total
        if part.saving is None:
            lines.append(f"[bold]{part.name}[/bold]: {family_line(part)}")
            lines.append(f"  {counted(steps, 'step')}; {shown(part.solved.folder)}")
            continue
        where = "traffic that the plan has not seen" if part.part == "held-out" else "the traffic that planned"
        what = f"today {amount(part.before)}, with the plan {amount(part.after)} ({part.metric})"
        lines.append(f"[bold]{part.name}[/bold] on {where}: {what}: {less(part.saving.share)} ({part.saving})")
        changes = f"{counted(part.moves, 'client')} moved, {counted(part.swaps, 'link')} changed"
        lines.append(f"  {changes}; {shown(part.solved.folder)}")
        lines += [f"  {line}" for line in (*ahead_lines(part, found.ahead), *load_lines(part))]
    lines += [f"bound by: {shown(text)}" for text in found.bounds]
    lines += [f"[yellow]note:[/yellow] {shown(text)}" for text in found.notes]
    lines += [f"[dim]left out: {shown(facet)}: {shown(why)}[/dim]" for facet, why in found.left_out]
    return lines


def ahead_lines(part: Any, ahead: Any) -> list[str]:
    """What was planned for, what was expected of it and what came, and what became of newcomers."""
    judged, lines = part.solved.document.judged, [f"forecast: {shown(ahead)}"]
    saved = [f"on the part that planned {part.train:.1%}"]
    if sure := judged.expected:
        saved.insert(0, f"expected {sure.share:.1%} ({sure.low:.1%} to {sure.high:.1%})")
    if part.part == "held-out":
        saved.append(f"held out {part.saving.share:.1%}")
    lines.append(f"saved: {', '.join(saved)}")
    rule = part.solved.document.newcomers
    if judged.apart and part.before:
        known, new = judged.apart
        share = new.before / ((known.before + new.before) or 1.0)
        lines.append(
            f"newcomers ({share:.0%} of what is paid today): {less(new.saved)}, "
            f"{shown(rule) if rule else 'left where they connect'}; known clients: {less(known.saved)}"
        )
    elif rule:
        lines.append(f"newcomers: {shown(rule)}")
    return lines


def load_lines(part: Any) -> list[str]:
    """The busiest broker, the worst single failure and how long deliveries take, where the plan was judged."""
    found = {each.metric: each for each in part.solved.document.judged.metrics if each.part == part.part}
    said = []
    if load := found.get("max_broker_load"):
        said.append(f"busiest broker {amount(load.before)} -> {amount(load.after)} messages")
    if cut := found.get("cut_share_max"):
        said.append(f"worst single failure {cut.before:.1%} -> {cut.after:.1%} of deliveries")
    mean, most = found.get("mean_latency_us"), found.get("p95_latency_us")
    if mean and (mean.before or mean.after):
        ends = f" (95th percentile {most.before / 1000:.4g} -> {most.after / 1000:.4g})" if most else ""
        said.append(f"latency {mean.before / 1000:.4g} -> {mean.after / 1000:.4g} ms{ends}")
    return ["; ".join(said)] if said else []


def counted(number: int, what: str) -> str:
    """So many things."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def family_line(part: Any) -> str:
    """Channels or a mesh: what counts there, on what was observed."""
    values = {each.metric: each for each in part.solved.document.judged.metrics}
    if part.name == "mesh" and not values["links"].before:
        now = values["topic_connected"].after
        return (
            f"none today; with the plan {now:.0%} of the topics hang together, {amount(values['links'].after)} links, "
            f"at most {amount(part.after)} a client, {values['average_degree'].after:.1f} on average"
        )
    return f"{part.metric} {amount(part.before)} -> {amount(part.after)}"


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
    from overlace.jobs.drift import drift

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
        f"[bold]{shown(found.plan)}[/bold]: {found.predicted:.1%} less was promised, {less(found.seen)} is seen "
        f"with the overlay as {overlay} ({found.metric} {amount(found.before)} -> {amount(found.after)})",
        in_place_line(found.in_place),
        f"{found.unseen:.1%} of the messages come from clients that the plan never saw",
        table,
        f"planning again from there, on the first part of this traffic, would save {found.again:.1%} of the rest"
        + ("" if pays else f", less than {least:.1%}{'' if harms else ': leave it as it is'}"),
        *([f"[yellow]on this traffic the overlay as {overlay} costs more than what was there before[/yellow]"] * harms),
    )
    if not pays and not harms:
        raise typer.Exit(NothingBetter.exit_code)


def less(saved: float) -> str:
    """A share that is saved, in words."""
    return f"{-saved:.1%} more" if saved < 0 else f"{saved:.1%} less"


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
