"""The report, first edition: the bill. One HTML file that opens anywhere, offline.

    write_report(run)       RUN/report.html

It explains the trace even without a plan: what the traffic costs, what crosses between regions and over
each link, who causes it, what breaks. Where there are plans, each is shown before and after on the part
of the log that it has not seen. The file asks for nothing from anywhere; its one script moves the slider of a
plan. The same run gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import platform
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from overlace import __version__
from overlace.replay.definitions import METRICS
from overlace.report.answer import COST_UNITS, answer_lines
from overlace.report.curve import MOST_STEPS, curve, flattens
from overlace.report.figures import bars_svg, overlay_map, overlay_svg
from overlace.report.loaded import (
    ALL_METRICS,
    BILL,
    CHANNELS,
    COUNTS,
    FAMILIES,
    MESH,
    Family,
    Judged,
    Loaded,
    load,
    rank,
)
from overlace.report.sheets import Amount, Change, Sheet, Sheets, amount, change, shown, visible
from overlace.report.tables import (
    LABELS,
    Histogram,
    Row,
    Table,
    broker_table,
    brokers_of,
    caller_table,
    channel_table,
    cut_table,
    histogram,
    link_load_table,
    link_table,
    metric_table,
    more_of,
    pair_table,
    ratio,
    region_matrix,
    region_table,
)
from overlace.trace.judgement import Interval
from overlace.trace.plan_file import change_lines

MOST_SOURCES = 15
MOST_OPENED = 40
MOST_IN_REGION = 60


def write_report(run: Path) -> Path:
    """RUN/report.html: one self-contained page, written beside and renamed."""
    page = render(load(run))
    beside, path = run / ".report.html.part", run / "report.html"
    beside.write_text(page, encoding="utf-8")
    beside.replace(path)
    return path


# --- what it says ------------------------------------------------------------------------------------


class Tile(NamedTuple):
    """A number on top: today and, if there is a plan, after."""

    label: str
    help: str
    today: Amount
    after: Amount | None
    change: Change


def tiles(loaded: Loaded) -> list[Tile]:
    """The key numbers of each family that was measured."""
    found = []
    for family in FAMILIES:
        best = loaded.best(family)
        for metric in family.metrics:
            now = loaded.today.of(metric)
            then = best.judged.of(metric) if best else None
            if now is None and then is None:
                continue
            after = amount(metric, then) if best else None
            text = METRICS[metric].definition
            found.append(Tile(_label(metric), text, amount(metric, now), after, change(metric, now, then)))
    return found


def _label(metric: str) -> str:
    return LABELS.get(metric, metric.replace("_", " "))


class Answer(NamedTuple):
    """A judged plan in lines."""

    plan: Judged
    lines: list[tuple[str, str]]


def answers(loaded: Loaded) -> list[Answer]:
    """What optimize says of its plans, line by line."""
    named = {str(part["plan"]) for part in loaded.answer.get("parts", ())}
    unit = str(loaded.about.get("unit"))
    return [Answer(plan, answer_lines(plan.document, unit)) for plan in loaded.plans if plan.id in named]


class Verdict(NamedTuple):
    """A plan in one sentence: before and after by what counts for it, on both parts, and how sure that is."""

    plan: Judged
    metric: str
    before: Amount
    after: Amount
    change: Change
    train: Change
    sure: str
    flat: str


def verdicts(loaded: Loaded) -> list[Verdict]:
    """Each plan by the metric that counts for its facets, best first within a family."""
    found = []
    for family in FAMILIES:
        told = {each.plan.id for each in answers(loaded)}
        mine = [plan for plan in loaded.plans if plan.within(family) and plan.id not in told]
        for plan in sorted(mine, key=lambda p: rank(p, family)):
            judged = plan.document.judged
            metric = judged.metrics[0].metric if judged else family.metrics[0]
            now, then = loaded.today.of(metric), plan.judged.of(metric)
            train = change(metric, loaded.today_train.of(metric), plan.train.of(metric))
            each = (_label(metric), amount(metric, now), amount(metric, then), change(metric, now, then))
            sure = str(judged.saving) if judged and judged.saving else ""
            found.append(Verdict(plan, *each, train, sure, flattens(judged) if judged else ""))
    return found


def comparison(loaded: Loaded, family: Family) -> Table | None:
    """Today and every plan of a family, one a row."""
    mine = sorted((plan for plan in loaded.plans if plan.within(family)), key=lambda plan: rank(plan, family))
    if len(mine) < 2:
        return None  # the sentence and the numbers on top say it already
    shown_metrics = [metric for metric in family.metrics if mine[0].judged.of(metric) is not None]
    counts, now = family.metrics[0], loaded.today

    def row(name: str, steps: Amount, sheet: Sheet) -> Row:
        cells: list[Amount | str] = [steps]
        for metric in shown_metrics:
            cells.append(amount(metric, sheet.of(metric)))
            if metric == counts:
                cells.append("" if sheet is now else change(metric, now.of(metric), sheet.of(metric)).text)
        return Row((name,), tuple(cells))

    heads = ["overlay", "steps"]
    for metric in shown_metrics:
        heads += [_label(metric), *(["change"] if metric == counts else [])]
    rows = [row("today", Amount(None), now)]
    rows += [row(plan.id, Amount(plan.document.steps_total), plan.judged) for plan in mine[:12]]
    return Table("Today and every plan", tuple(heads), rows, more_of(len(mine) - 12 if len(mine) > 12 else 0, "plans"))


WAYS = {
    "joint": "placement and tree together",
    "alternating": "placement and tree in turn",
    "placement": "placement alone",
    "tree": "tree alone",
    "best": "the best of them",
    "within degrees": "the best, with no broker above its most links",
}
"""Ways to a plan in the words of the page."""


def beside(loaded: Loaded) -> list[Table]:
    """What other ways reach within a plan's limits, by the planner's own cost on the part that planned."""
    tables = []
    for plan in loaded.plans:
        document = plan.document
        if len(document.beside) < 2:
            continue
        costs = {"today": document.cost_before, **document.beside, "this plan": document.cost_after}
        rows = [
            Row((WAYS.get(way, way),), (Amount(cost), Amount(ratio(cost, document.cost_before), "share")))
            for way, cost in costs.items()
        ]
        caption = "What other ways reach with the same limits"
        several = sum(len(each.document.beside) > 1 for each in loaded.plans) > 1
        heads = ("way", "planner's own cost", "of today's")
        tables.append(Table(f"{caption} as {plan.id}" if several else caption, heads, rows))
    return tables


def promises(loaded: Loaded) -> list[Table]:
    """What each judged plan was expected to save, what it saves where it was made, and what on later traffic."""
    tables = []
    for plan in loaded.plans:
        judged = plan.document.judged
        if judged is None or judged.saving is None:
            continue
        metric = judged.metrics[0].metric
        rows = [Row(("expected, from plans made at earlier times",), _shares(judged.expected))]
        for part in ("train", "held-out"):
            told = [each for each in judged.metrics if (each.metric, each.part) == (metric, part)]
            if told:
                share = Amount(1 - ratio(told[0].after, told[0].before), "share")
                between = _shares(judged.saving)[1:] if part == judged.metrics[-1].part else ("", "")
                rows.append(Row((PARTS[part],), (share, *between)))
        rows += [
            Row((f"there, {CLIENTS[each.clients]}",), (Amount(each.saved, "share"), "", "")) for each in judged.apart
        ]
        several = sum(bool(each.document.judged and each.document.judged.saving) for each in loaded.plans) > 1
        caption = f"What {plan.id} saves" if several else "What it saves"
        tables.append(Table(caption, ("where", "saved", "at least", "at most"), rows))
    return tables


PARTS = {"train": "in the training window", "held-out": "on held-out traffic"}
CLIENTS = {"known": "messages of known clients", "newcomers": "messages with a newcomer"}


def _shares(sure: Interval | None) -> tuple[Amount | str, ...]:
    if sure is None:
        return ("too short to say", "", "")
    return tuple(Amount(each, "share") for each in (sure.share, sure.low, sure.high))


def planned_for(loaded: Loaded) -> list[str]:
    """What plans were made for, and where newcomers go, a sentence each."""
    said = []
    if told := loaded.answer.get("forecast"):
        said.append(f"Planned for: {told}.")
    for plan in loaded.plans:
        if rule := plan.document.newcomers:
            named = ", ".join(f"{who}: {broker}" for who, broker in list(rule.brokers.items())[:8])
            more = f" ({named}{', ...' if len(rule.brokers) > 8 else ''})" if named else ""
            said.append(f"Of clients that the plan has never seen, {rule}{more}.")
    return said


def missing(loaded: Loaded) -> list[str]:
    """What the page cannot say, and what would bring it."""
    observation, today = loaded.observation, loaded.today
    said = []
    if observation.network.brokers == 0:
        said.append(
            "No brokers were observed, so nobody has a home and no link is crossed: there are no routes, loads or "
            "failures to show. The tables sessions, brokers and links would bring them."
        )
    elif today.of("deliveries") is None and not any(plan.judged.of("deliveries") for plan in loaded.plans):
        said.append(
            "There are brokers, but no links that join them or no traffic between their clients, so there are no "
            "routes to bill. The tables links and messages would bring them."
        )
    if today.of("deliveries") is not None:
        said += _missing_of_the_bill(loaded)
    unmeasured = [plan.id for plan in loaded.plans if not plan.judged]
    if unmeasured:
        again = f"overlace replay {shlex.quote(str(loaded.run))}"
        said.append(f"Not measured yet: {', '.join(unmeasured[:8])}. Run: {again}")
    return said


def _missing_of_the_bill(loaded: Loaded) -> Iterator[str]:
    today, network = loaded.today, loaded.observation.network
    homeless, made = today.of("homeless") or 0.0, today.of("deliveries") or 0.0
    if homeless:
        lost = shown(homeless / (homeless + made), "share")
        yield f"{homeless:,.0f} deliveries ({lost}) are left out: their sender or receiver has no home."
    alone = today.of("to_self") or 0.0
    if alone:
        yield f"{alone:,.0f} messages went to their own sender; that makes no delivery and crosses no link."
    if not today.of("mean_latency_us"):
        yield "Latencies of links are not known and count 0."
    if not today.of("bytes"):
        yield "Sizes of messages are not known, so bytes are 0."
    if network.brokers > 1 and not loaded.calls.regions_given:
        yield "No regions were given: each broker is its own."
    if not len(today.column("link_messages", "topic").key):
        yield "Topics were not logged, or nothing crosses a link."


# --- pictures ----------------------------------------------------------------------------------------


def histogram_svg(sheets: Sheets, metric: str, title: str, axis: str, *, scale: float = 1.0) -> Markup | None:
    """A histogram of a metric, before and after; None where there is nothing to draw."""
    found: Histogram | None = histogram(sheets, metric, axis, scale=scale)
    if found is None:
        return None
    names = [heading for heading, _ in sheets]
    return bars_svg(found.labels, found.series, names, title, found.axis, at_edges=found.at_edges)


class Picture(NamedTuple):
    """The overlay as panels, and what they show."""

    panels: Sequence[tuple[str, Markup]]
    drawn: str
    near: bool
    most: float


def picture(loaded: Loaded) -> Picture | None:
    """The overlay today and after the best plan, on one map; loads are the metrics'."""
    network, sheets = loaded.observation.network, loaded.sheets(BILL)
    links = [sheet.by_pair("messages", "link") for _, sheet in sheets]
    measured = [each for each in links if each]
    if not measured:
        return None
    handled = next(sheet.by("handled", "broker") for _, sheet in sheets if sheet.by("handled", "broker"))
    here = overlay_map(network, measured[0], handled, loaded.names, loaded.calls.region)
    most = max(max(each.values()) for each in measured)
    panels = []
    for (heading, _), each in zip(sheets, links, strict=True):
        before = links[0] if heading != "today" and links[0] else None
        if each:
            panels.append((heading, overlay_svg(here, each, most, f"The overlay, {heading}", before)))
    return Picture(panels, here.drawn, here.near, most)


# --- how it was made ---------------------------------------------------------------------------------


def utc(us: int) -> str:
    """A time as people read it."""
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(us))
    except OverflowError:
        return f"{us} µs"
    return at.strftime("%Y-%m-%d %H:%M" + (":%S" if at.second or at.microsecond else ""))


def window_text(window: Sequence[int]) -> str:
    """A half-open window: from, to, and how long."""
    since, until = int(window[0]), int(window[1])
    if (since, until) == (0, 0):
        return "all of it (the log has no times)"
    if since >= until:
        return "nothing"
    return f"{utc(since)} to {utc(until)} UTC ({_duration(until - since)})"


def _duration(us: int) -> str:
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        if us >= size * 1_000_000:
            count = us / size / 1e6
            return f"{count:,.3g} {unit}{'' if count == 1 else 's'}" if count < 1000 else f"{count:,.0f} {unit}s"
    return f"{us} µs"


def commands(loaded: Loaded) -> list[str]:
    """What to type to make the page again."""
    run, trace = shlex.quote(str(loaded.run)), shlex.quote(str(loaded.about.get("trace", "TRACE")))
    if wishes := loaded.answer.get("options"):
        unused = {"train"} if wishes.get("train_until") else set()
        asked = _flags({name: value for name, value in wishes.items() if value is not None and name not in unused})
        return [f"overlace optimize {trace} --out {run} {' '.join(asked)}"]
    until = loaded.about.get("train_until")
    cut = f"--train-until {shlex.quote(until)}" if until else f"--train {loaded.about.get('share', 0.7)!r}"
    lines = [f"overlace observe {trace} --out {run} {cut}"]
    for plan in loaded.plans:
        document = plan.document
        flags = " ".join(_flags(document.parameters))
        lines.append(f"overlace solve {document.planner} {run} --seed {document.seed} {flags}".rstrip())
    return [*lines, f"overlace replay {run}", f"overlace report {run}"]


def _flags(parameters: Mapping[str, Any]) -> Iterator[str]:
    """A planner's parameters as options of `overlace solve`."""
    for name, value in parameters.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            yield flag if value else f"--no-{flag[2:]}"
        elif isinstance(value, list):
            yield from (f"{flag} {shlex.quote(str(each))}" for each in value)
        else:
            yield f"{flag} {'unlimited' if value is None else shlex.quote(str(value))}"


def _plain(value: Any) -> Any:
    """Whatever the template shows: text without control characters."""
    return visible(value, len(value)) if type(value) is str else value


def steps_of(plan: Judged) -> list[Mapping[str, Any]]:
    """The first steps of a plan: gain, reason, changes."""
    found: list[Mapping[str, Any]] = []
    for step in plan.document.steps[:MOST_STEPS]:
        lines = change_lines(step.changes)
        changes = lines[:6]
        more = len(lines) - len(changes) + step.more
        share = step.gain / plan.document.cost_before if plan.document.cost_before else None
        found.append(
            {
                "step": step.step,
                "gain": Amount(step.gain),
                "share": Amount(share, "share"),
                "why": step.why,
                "changes": changes,
                "more": more,
            }
        )
    return found


# --- the page ----------------------------------------------------------------------------------------


def render(loaded: Loaded) -> str:
    """The page as HTML."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined, finalize=_plain
    )
    environment.filters["visible"] = visible
    template = environment.from_string(files("overlace.report").joinpath("bill.html.j2").read_text("utf-8"))
    return template.render(_context(loaded)).lstrip()


def _context(loaded: Loaded) -> dict[str, Any]:
    observation, about = loaded.observation, loaded.about
    bill, channels, mesh = (loaded.best(family) for family in FAMILIES)
    routed = loaded.today.of("deliveries") is not None
    script = files("overlace.report").joinpath("slider.js").read_text(encoding="utf-8")
    return {
        "shown": shown,
        "script": Markup(script),
        "script_hash": "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "title": Path(str(about.get("trace", ""))).name or loaded.run.name,
        "part": loaded.part,
        "timeless": list(about["train"]) == [0, 0],
        "window": window_text(about["held_out" if loaded.part == "held-out" else "train"]),
        "today": {metric: amount(metric, loaded.today.of(metric)) for metric in METRICS},
        "routed": routed,
        "cost_unit": COST_UNITS.get(str(about.get("unit")), str(about.get("unit"))),
        "counts": _counts(loaded),
        "tiles": tiles(loaded),
        "answers": answers(loaded),
        "why_not": str(loaded.answer.get("why_not") or ""),
        "notes": [str(text) for text in loaded.answer.get("notes", [])],
        "verdicts": verdicts(loaded),
        "comparisons": [table for family in FAMILIES if (table := comparison(loaded, family))],
        "promises": promises(loaded),
        "planned_for": planned_for(loaded),
        "ahead": any(plan.document.forecast for plan in loaded.plans),
        "beside": beside(loaded),
        "missing": missing(loaded),
        "best": bill.id if bill else "",
        "bill": _bill(loaded) if routed else None,
        "loads": _loads(loaded),
        "picture": picture(loaded) if observation.network.brokers else None,
        "regions": regions(loaded),
        "bounds": [str(text) for text in loaded.answer.get("bounds", [])],
        "left_out": [(str(each["facet"]), str(each["why"])) for each in loaded.answer.get("left_out", [])],
        "channels": _family(loaded, CHANNELS, channels),
        "mesh": _family(loaded, MESH, mesh),
        "plans": [
            {"id": plan.id, "document": plan.document, "steps": steps_of(plan), "curve": curve(plan.id, plan.document)}
            for plan in loaded.plans
        ],
        "made": _made(loaded),
    }


def _counts(loaded: Loaded) -> dict[str, int]:
    network = loaded.observation.network
    return {
        "clients": loaded.observation.clients,
        "topics": loaded.observation.topics,
        "brokers": network.brokers,
        "regions": len(set(network.region.tolist())),
        "regions_given": int(loaded.calls.regions_given),
        "links": len(loaded.observation.overlay.tree),
    }


def _bill(loaded: Loaded) -> dict[str, Any]:
    today, calls = loaded.today, loaded.calls
    matrices = []
    if len(set(loaded.observation.network.region.tolist())) > 1:
        matrices.append(region_matrix(today, "deliveries", "Deliveries between regions", calls))
        if calls.regions_given:  # else the regions are the brokers, and this is the table of links
            matrices.append(
                region_matrix(today, "crossing_messages", "Messages over the links between and within regions", calls)
            )
    return {
        "matrices": matrices,
        "regions": region_table(today, calls) if calls.regions_given else None,
        "links": link_table(today, calls),
        "callers": [
            table
            for table in (
                caller_table(today, "client", loaded.names),
                caller_table(today, "topic", loaded.names),
                pair_table(loaded.observation, loaded.names),
            )
            if table.rows
        ],
    }


def _loads(loaded: Loaded) -> dict[str, Any] | None:
    sheets, calls = loaded.sheets(BILL), loaded.calls
    if not any(sheet.of("deliveries") is not None for _, sheet in sheets):
        return None
    charts = (
        ("Links per delivery", histogram_svg(sheets, "hops", "Links per delivery", "links, both client links counted")),
        ("Latency per delivery", histogram_svg(sheets, "latency_us", "Latency", "milliseconds", scale=1000.0)),
    )
    return {
        "metrics": metric_table(sheets, ALL_METRICS["bill"], "The bill in numbers"),
        "brokers": broker_table(sheets, calls, limits_of(loaded)),
        "links": link_load_table(sheets, calls),
        "charts": [(caption, svg) for caption, svg in charts if svg],
        "cut": [table for scope in ("broker", "link") if (table := cut_table(sheets, scope, calls)).rows],
        "compared": len(sheets) > 1,
        "limited": bool(limits_of(loaded)),
    }


def limits_of(loaded: Loaded) -> dict[int, float]:
    """What each broker may handle in the part that is shown: the plan's limit as a share of the messages."""
    total = loaded.today.of("messages") or 0.0
    shares = loaded.answer.get("limits", {}).get("handled", [])
    return {broker: share * total for broker, share in enumerate(shares) if share is not None}


def regions(loaded: Loaded) -> list[Table]:
    """The brokers of each region that has several, to be opened."""
    region, calls, sheets = loaded.observation.network.region.tolist(), loaded.calls, loaded.sheets(BILL)
    if not calls.regions_given or not any(sheet.by("handled", "broker") for _, sheet in sheets):
        return []
    limits = limits_of(loaded)
    several = sorted({r for r in region if region.count(r) > 1})[:MOST_OPENED]
    return [brokers_of(sheets, calls, calls.region(r), r, limits, MOST_IN_REGION) for r in several]


def _family(loaded: Loaded, family: Family, best: Judged | None) -> dict[str, Any] | None:
    """Channels or mesh: the metrics before and after, and what lies behind them."""
    sheets = loaded.sheets(family)
    if all(sheet.of(family.metrics[0]) is None for _, sheet in sheets):
        return None
    found: dict[str, Any] = {
        "best": best.id if best else "",
        "metrics": metric_table(sheets, ALL_METRICS[family.name], f"The {family.name} in numbers"),
        "compared": len(sheets) > 1,
    }
    if family is CHANNELS:
        return found | {"table": channel_table(sheets, loaded.names)}
    chart = histogram_svg(sheets, "degree", "Links per client", "links of a client")
    return found | {"charts": [("Links per client", chart)] if chart else [], "frontier": frontier_table(loaded)}


def frontier_table(loaded: Loaded) -> Table | None:
    """What a mesh was chosen from, as optimize wrote it down."""
    found = loaded.answer.get("frontier")
    if not found:
        return None
    rows = []
    for each in found["rows"]:
        exact = "" if each["diameter_exact"] else " or more"
        why = "taken" if each["taken"] else str(each["why_not"])
        figures: tuple[Amount | str, ...] = ("", "", "", "")
        if each["links"] or not each["why_not"]:
            average = Amount(float(each["average_degree"]))
            figures = (f"{each['diameter']}{exact}", Amount(each["links"]), Amount(each["max_degree"]), average)
        rows.append(Row((str(each["label"]),), (*figures, visible(why, 200))))
    heads = ("planner", "longest path", "links", "most links of a client", "average", "")
    return Table(f"What the mesh was chosen from: {found['why']}", heads, rows)


def _replays(loaded: Loaded) -> list[dict[str, Any]]:
    """One row an overlay: its parameters, its seed, and how long each part took."""
    rows: dict[str, dict[str, Any]] = {}
    for each in loaded.runs:
        row = rows.setdefault(each["plan"] or "", {"plan": each["plan"] or "", "seconds": {}})
        row |= {"parameters": each["parameters"], "seed": each["seed"]}
        row["seconds"][each["part"]] = each["seconds"]
    return list(rows.values())


def _made(loaded: Loaded) -> dict[str, Any]:
    about, held = loaded.about, loaded.account
    return {
        "trace": str(about.get("trace", "")),
        "digest": str(about.get("trace_digest", "")),
        "observation": loaded.observation.digest(),
        "train": window_text(about["train"]),
        "held_out": window_text(about["held_out"]),
        "share": Amount(float(about.get("share", 0)), "share"),
        "warning": str(about.get("warning", "")),
        "problem": held.problem,
        "sources": held.sources[:MOST_SOURCES],
        "sources_more": more_of(max(0, len(held.sources) - MOST_SOURCES), "sources"),
        "totals": held.totals,
        "rest": held.totals.get("lines", 0) - sum(held.totals.get(name, 0) for name in COUNTS[1:]),
        "ignored": held.ignored[:MOST_SOURCES],
        "quarantine": held.quarantine[:MOST_SOURCES],
        "quarantine_more": more_of(max(0, len(held.quarantine) - MOST_SOURCES), "reasons"),
        "runs": _replays(loaded),
        "versions": sorted({str(each["version"]) for each in loaded.runs}),
        "version": __version__,
        "python": platform.python_version(),
        "commands": commands(loaded),
    }
