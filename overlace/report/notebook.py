"""What a notebook shows of a plan, an observation, an overlay or metrics: parts of the report, escaped and small.

The objects hold ids, not names: `noun_html(plan, names)` shows the names too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup

from overlace.arrays.jit import Ints
from overlace.errors import BadOverlay
from overlace.metrics import Metrics
from overlace.model import Names, Network, Observation, Overlay, Plan, name_of
from overlace.optimize.result import Result
from overlace.optimize.words import Units, own_cost_unit
from overlace.replay.definitions import METRICS
from overlace.report.histograms import draw_histograms
from overlace.report.layout import lay_out, link_loads, overlay_svg
from overlace.report.naming import Naming
from overlace.report.provenance import window_text
from overlace.report.sheets import Amount, sheet_of, visible
from overlace.report.tables import (
    MOST_ROWS,
    Row,
    Table,
    largest,
    list_plan_steps,
    metric_table,
    more_of,
    pair_table,
    ratio,
)
from overlace.report.templates import render_template
from overlace.trace.plan_tables import count_changes
from overlace.wording import counted

MOST_STEPS = 20
MOST_METRICS = 36
MOST_DRAWN = 2_000
"""Brokers of a network that is drawn while somebody waits."""

Pictures = list[tuple[str, Markup]]


def noun_html(noun: object, names: Names | None = None) -> str | None:
    """HTML of a plan, an observation, an overlay or metrics; None of anything else."""
    names = names or {}
    match noun:
        case Plan():
            return plan_html(noun, names)
        case Observation():
            return observation_html(noun, names)
        case Overlay():
            return overlay_html(noun, names)
        case Metrics():
            return metrics_html(noun, names)
        case Result():
            return result_html(noun)
    return None


def _render(title: str, text: str, tables: Sequence[Table], pictures: Pictures, **steps: object) -> str:
    shown = [table for table in tables if table.rows]
    nothing: dict[str, object] = {"plan_steps": [], "unit": "", "more": ""}
    return render_template(
        "notebook.html.j2", nothing | steps | {"title": title, "text": text, "tables": shown, "pictures": pictures}
    )


def plan_html(plan: Plan, names: Names) -> str:
    """What a plan saves and changes, its first steps, and its tree."""
    unit = own_cost_unit(plan.planner.facets, getattr(plan.planner, "__dict__", {}))
    steps = list_plan_steps(plan, names, MOST_STEPS)
    saved = f"saves {Amount(plan.gain)} of the planner's estimate ({unit})"
    text = f"{saved}; {count_changes(plan.changes)}; made by {visible(repr(plan.planner), 160)}, seed {plan.seed}"
    pictures: Pictures = []
    if len(plan.after.tree):
        pictures = _draw_tree(plan.after, names, before=plan.before if len(plan.before.tree) else None)
    more = more_of(len(plan.steps) - len(steps), "steps")
    title = f"Plan of {counted(len(plan.steps), 'step', 'steps')}"
    return _render(title, text, [], pictures, plan_steps=steps, unit=unit, more=more)


def result_html(result: Result) -> str:
    """What to do and what it saves, a table a plan, the tree before and after, and what a reader must know."""
    tables = [
        Table(each.headline, ("", each.name), [Row((what,), (text,)) for what, text in each.lines])
        for each in result.verdicts
    ]
    notes = [*([f"No change recommended: {result.why_not}"] if result.why_not else []), *result.notes]
    pictures: Pictures = []
    for each in result.verdicts[:1]:
        if len(each.plan.after.tree):
            pictures = _draw_tree(each.plan.after, result.names, result.observation.network, before=each.plan.before)
    return _render("Result", ". ".join(notes) or "nothing to note", tables, pictures)


def observation_html(observation: Observation, names: Names) -> str:
    """What was observed: how much of what, and what crosses today's tree."""
    overlay, network = observation.overlay, observation.network
    naming = Naming(names, network)
    counts = {
        "clients": observation.clients,
        "topics": observation.topics,
        "brokers": network.brokers,
        "regions": len(np.unique(network.region)) if naming.regions_given else 0,
        "links that could be wired": len(network.links),
        "flows (sender, receiver)": len(observation.flows.sender),
        "messages to receivers": int(observation.flows.messages.sum()),
        "traffic classes": len(observation.classes),
        "messages": int(observation.classes.demand.sum()),
        "interests (client, topic)": len(observation.interests),
        "advertisements": len(observation.offers.publisher),
        "requests": len(observation.requests.client),
    }
    rows = [Row((name,), (Amount(count),)) for name, count in counts.items() if count]
    tables, text = [Table("Observed", ("", "number"), rows)], f"window: {window_text(observation.window)}"
    pictures: Pictures = []
    if len(overlay.tree):
        try:
            loads = _loads_by_link(overlay, link_loads(observation, overlay).tolist())
            tables += [_link_table(loads, naming), pair_table(observation, names)]
            pictures = _draw_tree(overlay, names, network, loads)
        except BadOverlay as error:  # a view must not fail where it is needed most
            text = f"{text}. {error}"
    return _render("Observation", text, tables, pictures)


def overlay_html(overlay: Overlay, names: Names) -> str:
    """The four relations: how many rows, who has most, and the tree."""
    counts = (
        (len(overlay.placement), "client at a known broker", "clients at a known broker"),
        (len(overlay.tree), "link between brokers", "links between brokers"),
        (len(overlay.channels), "combination in a channel", "combinations in channels"),
        (len(overlay.mesh), "link between clients", "links between clients"),
    )
    text = ", ".join(counted(*each) for each in counts if each[0]) or "empty"
    tables = [
        _count_table("Brokers", "broker", {"clients": overlay.placement[:, 1], "links": overlay.tree}, names),
        _count_table("Channels", "channel", {"combinations": overlay.channels[:, 1]}, names),
        _count_table("Mesh", "client", {"links": overlay.mesh}, names),
    ]
    return _render("Overlay", text, tables, _draw_tree(overlay, names) if len(overlay.tree) else [])


def metrics_html(metrics: Metrics, names: Names) -> str:
    """What was measured overall, a histogram of hops and latencies, and in which scopes there is more."""
    sheet = sheet_of(metrics)
    # in a trace without regions each broker is its own, and all that crosses a link crosses between two
    apart = sheet.of("crossing_messages") != sheet.of("link_messages")
    naming = Naming(names, Network(region=[0, 0]) if apart else Network(), Units("the links' unit"))
    overall = [metric for metric in METRICS if sheet.of(metric) is not None]
    table = metric_table([("value", sheet)], overall[:MOST_METRICS], "Overall", naming)
    more = more_of(len(overall) - MOST_METRICS, "metrics")
    scopes = sorted({scope for _, scope in sheet.columns if apart or "region" not in scope} - {"overall"})
    text = f"{len(metrics.value):,} values" + (f"; also by {', '.join(scopes)}" if scopes else "")
    tables = [Table(table.caption, table.heads, table.rows, more)]
    return _render("Metrics", text, tables, draw_histograms([("value", sheet)]))


def _count_table(caption: str, kind: str, columns: Mapping[str, Ints], names: Names) -> Table:
    """How often each thing stands in some columns, most first by the first column."""
    ids = np.unique(np.concatenate([column.reshape(-1) for column in columns.values()]))
    numbers = [np.bincount(np.searchsorted(ids, each.reshape(-1)), minlength=len(ids)) for each in columns.values()]
    order = np.lexsort([ids, *(-number for number in reversed(numbers))])[:MOST_ROWS]
    top = int(numbers[0].max(initial=0))
    rows = [
        Row(
            (name_of(kind, int(ids[i]), names),),
            tuple(Amount(int(number[i])) for number in numbers),
            (ratio(int(numbers[0][i]), top),),
        )
        for i in order.tolist()
    ]
    return Table(caption, (kind, *columns), rows, more_of(len(ids) - len(rows), f"{kind}s"))


def _loads_by_link(overlay: Overlay, loads: Sequence[float]) -> dict[tuple[int, int], float]:
    return {(a, b): load for (a, b), load in zip(overlay.tree.tolist(), loads, strict=True)}


def _link_table(loads: Mapping[tuple[int, int], float], naming: Naming) -> Table:
    chosen, more = largest(loads)
    top = max(loads.values(), default=0.0)
    rows = [Row(naming.link(link), (Amount(loads[link]),), (ratio(loads[link], top),)) for link in chosen]
    return Table("Over each link", ("link", "messages"), rows, more_of(more, "links"))


def _draw_tree(
    overlay: Overlay,
    names: Names,
    network: Network | None = None,
    loads: Mapping[tuple[int, int], float] | None = None,
    before: Overlay | None = None,
) -> Pictures:
    """The broker tree; links as wide as their load where that is known."""
    brokers = 1 + max(int(overlay.tree.max(initial=-1)), int(overlay.placement[:, 1].max(initial=-1)))
    network = network or Network(region=np.arange(brokers))
    if network.brokers > MOST_DRAWN:
        return []
    drawn = loads or _loads_by_link(overlay, [0.0] * len(overlay.tree))
    old = _loads_by_link(before, [0.0] * len(before.tree)) if before else None
    layout = lay_out(Naming(names, network), old or drawn, {})
    most = max(drawn.values(), default=0.0)
    title = "The broker tree" + (" after the plan" if before else "")
    caption = title + (": new links in green, old ones dotted" if before else "")
    return [(caption, overlay_svg(layout, drawn, most, title, old))]
