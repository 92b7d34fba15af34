"""The report: one HTML file that opens anywhere, offline.

    write_report(result)       RUN/report.html, of a result in hand or of a run folder

It opens with what to do: the changes, what they bring, how sure, what they risk, what to type, and the overlay before
and after. Then come the steps, then the evidence: limits, loads, failures, today's traffic, method. Without a plan it
explains the trace alone. The file asks for nothing from anywhere, and names no path of the machine it was made on; its
one script sorts and searches steps and moves the slider of a plan. The same run gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from overlace.optimize.result import Result, read_result
from overlace.optimize.words import PARTS, changes_line
from overlace.replay.definitions import METRICS
from overlace.report.curve import Curve, gain_curve
from overlace.report.histograms import draw_histograms
from overlace.report.layout import lay_out, overlay_svg
from overlace.report.provenance import describe_origin
from overlace.report.sheets import Amount, amount, shown, visible
from overlace.report.tables import (
    MOST_CHANGES,
    Matrix,
    Row,
    StepRow,
    Table,
    broker_table,
    channel_table,
    failure_table,
    kind_table,
    link_load_table,
    link_table,
    list_steps,
    metric_table,
    pair_table,
    region_matrix,
    region_table,
    sender_table,
    tree_table,
)
from overlace.report.templates import read_text, render_template
from overlace.report.view import (
    CHANNELS,
    FAMILIES,
    MESH,
    ROUTING,
    Family,
    MeasuredPlan,
    View,
    act_of,
    export_of,
    list_alternatives,
    list_answers,
    list_forecasts,
    list_missing,
    list_savings,
    list_summaries,
    list_tiles,
    plan_table,
    view_of,
)
from overlace.trace.address import name_of
from overlace.trace.plan_file import PlanFile

MOST_OPENED = 40
MOST_IN_REGION = 60

Section = Mapping[str, object]
"""What a section of the page shows, by the template's names."""


def write_report(result: Result | Path) -> Path:
    """RUN/report.html: one self-contained page, written under another name and renamed."""
    result = read_result(result) if isinstance(result, Path) else result
    page = render(view_of(result))
    part, path = result.run / ".report.html.part", result.report
    part.write_text(page, encoding="utf-8")
    part.replace(path)
    return path


def render(data: View) -> str:
    """The page as HTML."""
    return render_template("report.html.j2", _list_sections(data))


def _list_sections(data: View) -> Section:
    about, outcome, routed = data.result.about, data.result, data.today.of("deliveries") is not None
    best, script = data.best(ROUTING) or data.best(MESH) or data.best(CHANNELS), read_text("page.js")
    plans = [_show_plan(plan, data, i) for i, plan in enumerate(data.by_worth)]
    shapes = data.sheets(MESH) if data.best(MESH) or not routed else []
    return {
        "shown": shown,
        "script": Markup(script),
        "script_hash": "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "title": name_of(str(about.get("trace", ""))) or data.result.run.name,
        "part": data.part,
        "where": PARTS[data.part],
        "timeless": list(about["train"]) == [0, 0],
        "today": {metric: amount(metric, data.today.of(metric)) for metric in METRICS},
        "routed": routed,
        "cost_unit": data.naming.cost_unit,
        "counts": _count(data),
        "tiles": list_tiles(data),
        "answers": list_answers(data),
        "outcome": outcome,
        "summaries": list_summaries(data),
        "comparisons": [table for family in FAMILIES if (table := plan_table(data, family))],
        "savings": list_savings(data),
        "forecasts": list_forecasts(data),
        "ahead": any(plan.document.forecast for plan in data.plans),
        "alternatives": list_alternatives(data),
        "missing": list_missing(data),
        "best": best.id if best else "",
        "traffic": _show_traffic(data) if routed else None,
        "loads": _show_loads(data),
        "picture": draw_network(data) if data.result.observation.network.brokers else None,
        "shapes": draw_histograms(shapes, ("degree",)) if shapes else [],
        "shapes_compared": all(len(sheet.column("degree", "bin").key) for _, sheet in shapes),
        "routes_first": data.best(ROUTING) is not None or not data.result.verdicts,
        "regions": list_regions(data),
        "channels": _show_channels(data),
        "mesh": _show_mesh(data),
        "plans": plans,
        "made": describe_origin(data),
    }


def _count(data: View) -> dict[str, int]:
    network = data.result.observation.network
    return {
        "clients": data.result.observation.clients,
        "topics": data.result.observation.topics,
        "brokers": network.brokers,
        "regions": len(set(network.region.tolist())),
        "regions_given": int(data.naming.regions_given),
    }


# --- today's traffic ---------------------------------------------------------------------------------


def _show_traffic(data: View) -> Section:
    today, naming = data.today, data.naming
    tables = (
        sender_table(today, "client", data.result.names),
        sender_table(today, "topic", data.result.names),
        pair_table(data.result.observation, data.result.names),
    )
    return {
        "matrices": list(_list_matrices(data)),
        "regions": region_table(today, naming) if naming.regions_given else None,
        "links": link_table(today, naming),
        "senders": [table for table in tables if table.rows],
    }


def _list_matrices(data: View) -> list[Matrix]:
    today, naming = data.today, data.naming
    if len(set(data.result.observation.network.region.tolist())) < 2:
        return []
    if not naming.regions_given:  # each broker is its own, and what crosses is in the table of links
        return [region_matrix(today, "deliveries", "Deliveries between brokers", naming)]
    crossing = "Messages over the links between and within regions"
    return [
        region_matrix(today, "deliveries", "Deliveries between regions", naming),
        region_matrix(today, "crossing_messages", crossing, naming),
    ]


# --- before and after --------------------------------------------------------------------------------


def _show_loads(data: View) -> Section | None:
    sheets, naming = data.sheets(ROUTING), data.naming
    if not any(sheet.of("deliveries") is not None for _, sheet in sheets):
        return None
    limits = list_limits(data)
    return {
        "metrics": metric_table(sheets, ROUTING.details, "Traffic cost in numbers", naming),
        "brokers": broker_table(sheets, naming, limits),
        "links": link_load_table(sheets, naming),
        "charts": draw_histograms(sheets, ("hops", "latency_us")),
        "failures": [table for scope in ("broker", "link") if (table := failure_table(sheets, scope, naming)).rows],
        "compared": len(sheets) > 1,
        "limited": bool(limits),
    }


def list_limits(data: View) -> dict[int, float]:
    """What each broker may handle in the part that is shown: the plan's limit as a share of the messages."""
    total = data.today.of("messages") or 0.0
    shares = data.result.load_limits.get("handled", ())
    return {broker: share * total for broker, share in enumerate(shares) if share is not None}


class Picture(NamedTuple):
    """The overlay as panels, and what they show."""

    panels: Sequence[tuple[str, Markup]]
    drawn: str
    near: bool
    most: float


def draw_network(data: View) -> Picture | None:
    """The overlay today and after the best plan, on one map; loads are the metrics'."""
    sheets = data.sheets(ROUTING)
    links = [sheet.by_pair("messages", "link") for _, sheet in sheets]
    measured = [each for each in links if each]
    if not measured:
        return None
    handled = next(sheet.by("handled", "broker") for _, sheet in sheets if sheet.by("handled", "broker"))
    layout = lay_out(data.naming, measured[0], handled)
    most = max(max(each.values()) for each in measured)
    panels = []
    for (heading, _), each in zip(sheets, links, strict=True):
        before = links[0] if heading != "today" and links[0] else None
        if each:
            panels.append((heading, overlay_svg(layout, each, most, f"The overlay, {heading}", before, scale=True)))
    return Picture(panels, layout.drawn, layout.near, most)


def list_regions(data: View) -> list[Table]:
    """The brokers of each region that has several, to be opened."""
    region, naming, sheets = data.result.observation.network.region.tolist(), data.naming, data.sheets(ROUTING)
    if not naming.regions_given or not any(sheet.by("handled", "broker") for _, sheet in sheets):
        return []
    limits = list_limits(data)
    several = sorted({r for r in region if region.count(r) > 1})[:MOST_OPENED]
    return [broker_table(sheets, naming, limits, r, MOST_IN_REGION) for r in several]


# --- channels and meshes -----------------------------------------------------------------------------


def _show_family(data: View, family: Family) -> dict[str, object] | None:
    """The metrics before and after."""
    sheets, best = data.sheets(family), data.best(family)
    if all(sheet.of(family.metrics[0]) is None for _, sheet in sheets):
        return None
    return {
        "best": best.id if best else "",
        "metrics": metric_table(sheets, family.details, f"The {family.name} in numbers", data.naming),
        "compared": len(sheets) > 1,
    }


def _show_channels(data: View) -> Section | None:
    section = _show_family(data, CHANNELS)
    trees, rows = next((each.trees for each in data.result.verdicts if each.trees), None), data.result.trees
    tables = [kind_table(trees), tree_table(rows, data.result.names)] if trees and rows is not None else []
    return section and section | {"table": channel_table(data.sheets(CHANNELS), data.result.names), "trees": tables}


def _show_mesh(data: View) -> Section | None:
    section = _show_family(data, MESH)
    return section and section | {"frontier": frontier_table(data)}


def frontier_table(data: View) -> Table | None:
    """What a mesh was chosen from, as optimize wrote it down."""
    frontier = next((each.frontier for each in data.result.verdicts if each.frontier), None)
    if not frontier:
        return None
    rows = []
    for each in frontier["rows"]:
        exact = "" if each["diameter_exact"] else " or more"
        why = "taken" if each["taken"] else str(each["why_not"])
        figures: tuple[Amount | str, ...] = ("", "", "", "")
        if each["links"] or not each["why_not"]:
            average = Amount(float(each["average_degree"]))
            figures = (f"{each['diameter']}{exact}", Amount(each["links"]), Amount(each["max_degree"]), average)
        rows.append(Row((str(each["label"]),), (*figures, visible(why, 200))))
    heads = ("planner", "longest path", "links", "most links of a client", "average", "")
    return Table(f"What the mesh was chosen from: {frontier['why']}", heads, rows)


# --- plans -------------------------------------------------------------------------------------------


class PlanSection(NamedTuple):
    """A plan, its steps and its gain curve."""

    id: str
    key: str  # of the section, for the script
    path: str
    document: PlanFile
    unit: str
    steps: Sequence[StepRow]
    curve: Curve | None
    export: str
    first: int = MOST_CHANGES  # changes of a step that are shown before it is opened

    @property
    def act(self) -> str:
        """What to do."""
        return act_of(self.document)

    @property
    def changes(self) -> str:
        """What it changes, in how many steps."""
        return changes_line(self.document)

    @property
    def saves(self) -> bool:
        """Whether its steps save something that can be counted; links of a mesh do not."""
        return "mesh" not in self.document.facets and any(step.gain.value for step in self.steps)

    @property
    def saves_share(self) -> bool:
        """Whether what they save is a share of a cost that is known."""
        return self.document.cost_before > 0


def _show_plan(plan: MeasuredPlan, data: View, i: int) -> PlanSection:
    document, path = plan.document, shlex.quote(str(data.folder / "plans" / plan.id))
    curve = gain_curve(plan.id, document, data.naming) if "mesh" not in document.facets else None
    unit, export = plan.cost_unit(data.naming.units), export_of(plan, data)
    return PlanSection(plan.id, f"plan-{i}", path, document, unit, list_steps(document), curve, export)
