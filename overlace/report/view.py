"""A result as the page shows it: key figures, what each plan saves, what is not known, and the accounts of the log."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from overlace.errors import BadTrace
from overlace.optimize.result import Json, Result, Verdict
from overlace.optimize.words import COSTS, PARTS, Units, benefit, flattens, label_of, own_cost_unit, todo
from overlace.report.naming import Naming
from overlace.report.sheets import Amount, Change, Sheet, Sheets, amount, change, sheet_of, shown
from overlace.report.tables import Row, Table, more_of, ratio
from overlace.trace.address import name_of
from overlace.trace.judgement import Interval
from overlace.trace.plan_file import PlanFile
from overlace.trace.store import Trace


class Family(NamedTuple):
    """Facets that are judged by the same metrics."""

    name: str
    facets: tuple[str, ...]
    metrics: list[str]  # on top of the page; the first is what counts
    details: list[str]


ROUTING = Family(
    "traffic",
    ("placement", "tree"),
    "cost crossings mean_hops mean_latency_us local_share".split(),
    "cost access_cost total_cost crossings mean_hops mean_latency_us local_share p95_latency_us region_local_share "
    "crossing_messages max_broker_load max_link_load cut_share_max".split(),
)
CHANNELS = Family(
    "channels",
    ("channels",),
    "received false_positive_rate mean_connections over_limit channels".split(),
    "channels publishers subscribers received true_positives false_positives false_positive_rate mean_connections "
    "max_connections over_limit".split(),
)
MESH = Family(
    "mesh",
    ("mesh",),
    "average_degree max_degree topic_connected links max_diameter".split(),
    "links average_degree max_degree topic_connected components_too_many max_diameter mean_diameter shared_topics "
    "flood_messages".split(),
)
FAMILIES = (ROUTING, CHANNELS, MESH)


@dataclass(frozen=True)
class MeasuredPlan:
    """A plan of the run and what its overlay measured; empty sheets if it was not replayed."""

    id: str
    document: PlanFile
    train: Sheet
    judged: Sheet

    def cost_unit(self, units: Units) -> str:
        """What the planner's estimate counts."""
        return own_cost_unit(self.document.facets, self.document.parameters, units)

    def within(self, family: Family) -> bool:
        """Whether the plan is about this family, and was measured."""
        mine = any(facet in family.facets for facet in self.document.facets)
        return mine and self.judged.of(family.metrics[0]) is not None


@dataclass(frozen=True)
class View:
    """A result as the page shows it."""

    result: Result
    part: str  # what judges: held-out, or train where nothing is held out
    today: Sheet  # what the overlay as it was measured on that part
    today_train: Sheet  # and in the training window
    plans: Sequence[MeasuredPlan]
    account: Account

    @cached_property
    def naming(self) -> Naming:
        """What things are called."""
        return Naming(self.result.names, self.result.observation.network, self.result.units)

    @cached_property
    def folder(self) -> Path:
        """The run folder by its name alone: where it lies is of no use to others."""
        return Path(self.result.run.resolve().name)

    @property
    def by_worth(self) -> list[MeasuredPlan]:
        """All plans: those that were judged, then the others, the best of each family first."""
        judged = [each.id for each in self.result.verdicts]
        ranked = [plan for family in FAMILIES for plan in self.ranked(family)]
        first = [plan for name in judged for plan in self.plans if plan.id == name]
        return list({plan.id: plan for plan in (*first, *ranked, *self.plans)}.values())

    def metrics(self, family: Family) -> list[str]:
        """The metrics of a family, the objective's first; traffic cost is one figure, with access where that counts."""
        of = [each.metric for each in self.result.verdicts if {*each.document.facets} & {*family.facets}]
        metrics = list(dict.fromkeys((*of[:1], *family.metrics)))
        return [each for each in metrics if not (each == "cost" and "total_cost" in of)]

    def best(self, family: Family) -> MeasuredPlan | None:
        """The plan that does best by what counts in its family."""
        return next(iter(self.ranked(family)), None)

    def ranked(self, family: Family) -> list[MeasuredPlan]:
        """The plans of a family that were measured, the best first."""
        metric = self.metrics(family)[0]
        return sorted((plan for plan in self.plans if plan.within(family)), key=lambda plan: rank(plan, family, metric))

    def sheets(self, family: Family) -> Sheets:
        """What the family's tables compare: today, and after the best plan."""
        best = self.best(family)
        return [("today", self.today), *([("after", best.judged)] if best else [])]


def rank(plan: MeasuredPlan, family: Family, metric: str) -> tuple[float, float, str]:
    """What sorts plans of a family, the best first."""
    broken = 1 - (plan.judged.of("topic_connected") or 0) if family is MESH else 0.0
    return broken, plan.judged.of(metric) or 0.0, plan.id


@dataclass(frozen=True)
class Account:
    """Where the lines of the log went; or why that is not known."""

    problem: str = ""
    sources: Sequence[Json] = ()
    quarantine: Sequence[Json] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    ignored: Sequence[tuple[str, int]] = ()  # by kind of line, most first


COUNTS = ("lines", "kept", "ignored", "quarantined", "duplicates")


def view_of(result: Result) -> View:
    """A result as the page shows it, with the accounts of its trace."""
    sheets = {name: sheet_of(metrics) for name, metrics in result.measured.items()}
    today = {part: sheets.get(f"before/{part}", Sheet()) for part in ("held-out", "train")}
    routed = {name.rpartition("/")[2] for name, sheet in sheets.items() if sheet.of("messages") is not None}
    since, until = result.about["held_out"]
    part = "train" if routed == {"train"} or since >= until else "held-out"
    plans = [
        MeasuredPlan(name, document, *(sheets.get(f"{name}/{each}", Sheet()) for each in ("train", part)))
        for name, document in result.plans.items()
    ]
    return View(result, part, today[part], today["train"], plans, read_account(result.about))


def read_account(about: Json) -> Account:
    """The trace's own accounts, or why they cannot be had."""
    path = str(about.get("trace", ""))
    name = name_of(path)
    try:
        trace = Trace.open(path)
        if trace.digest() != about.get("trace_digest"):
            return Account(f"The trace {name} has changed since this run was observed, so its accounts are not shown.")
        sources, quarantine = (trace.read(table).to_pylist() for table in ("sources", "quarantine"))
    except (BadTrace, OSError, KeyError, TypeError, ValueError, pa.ArrowException) as error:
        why = "" if path in str(error) else f": {error}"
        return Account(f"The trace {name} cannot be read any more, so its accounts are not shown{why}")
    totals = {name: sum(source[name] for source in sources) for name in COUNTS}
    if not sources and "recorded" in trace.notes:
        return Account("The trace was recorded from a running network, so there is no log to account for.")
    if not sources:
        return Account("The trace holds no accounts of a log: it was generated, or made from tables.")
    sources.sort(key=lambda source: (-source["lines"], source["name"]))
    quarantine.sort(key=lambda row: (-row["count"], row["source"], row["reason"]))
    kinds: Counter[str] = Counter()
    for source in trace.notes.get("sources", {}).values():
        kinds.update(source["account"]["ignored"])
    ignored = sorted(kinds.items(), key=lambda each: (-each[1], each[0]))
    return Account("", sources, quarantine, totals, ignored)


# --- the first section -----------------------------------------------------------------------------------------------

MOST_PLANS = 12
MOST_RULES = 8

CLIENTS = {"known": "messages of known clients", "newcomers": "messages with a newcomer"}
SEARCHES = {
    "joint": "placement and tree together",
    "alternating": "placement and tree in turn",
    "placement": "placement alone",
    "tree": "tree alone",
    "best": "the best of them",
    "within degrees": "the best, with no broker above its most links",
}
"""Searches that a plan is compared with, in the words of the page."""


class Tile(NamedTuple):
    """A number on top: today and, if there is a plan, after."""

    label: str
    help: str
    unit: str
    today: Amount
    after: Amount | None
    change: Change


def list_tiles(data: View) -> list[Tile]:
    """The key numbers of each family that was measured."""
    found = []
    for family in sorted(FAMILIES, key=lambda each: data.best(each) is None):
        best = data.best(family)
        for metric in data.metrics(family):
            today = data.today.of(metric)
            then = best.judged.of(metric) if best else None
            if today is None and then is None:
                continue
            after = amount(metric, then) if best else None
            unit = data.naming.cost_unit if metric in COSTS else ""
            about = (label_of(metric), data.naming.definition(metric), unit)
            found.append(Tile(*about, amount(metric, today), after, change(metric, today, then)))
    return found


class PlanAnswer(NamedTuple):
    """A judged plan: what to do, what it brings, and what to type."""

    verdict: Verdict
    commands: Sequence[tuple[str, str]]

    @property
    def act(self) -> str:
        """What to do, as a sentence begins."""
        return act_of(self.verdict.document)

    @property
    def brings(self) -> str:
        """The one figure to quote."""
        return benefit(self.verdict.document)

    @property
    def interval(self) -> bool:
        """Whether an interval stands beside it."""
        return self.brings.endswith(")")

    @property
    def carried(self) -> bool:
        """Whether there are files that carry it out."""
        return any(what == "carry out" for what, _ in self.commands)


def act_of(document: PlanFile) -> str:
    """What to do, as a sentence begins."""
    text = todo(document)
    return text[:1].upper() + text[1:]


def list_answers(data: View) -> list[PlanAnswer]:
    """What optimize says of its plans, line by line."""
    refused = bool(data.result.why_not)  # then a plan is only looked at
    return [PlanAnswer(each, each.commands(data.folder)[: 1 if refused else None]) for each in data.result.verdicts]


def export_of(plan: MeasuredPlan, data: View) -> str:
    """What to type for the files that carry a plan out; only placement and links have such files."""
    if data.result.why_not or not plan.document.steps_total or not {"placement", "tree"} & set(plan.document.facets):
        return ""
    return f"overlace live export {shlex.quote(str(data.folder / 'plans' / plan.id))} --to clients --out FOLDER"


class PlanSummary(NamedTuple):
    """A plan in one sentence: before and after by what counts for it, on both parts, and within which interval."""

    plan: MeasuredPlan
    metric: str
    before: Amount
    after: Amount
    change: Change
    train: Change
    interval: str
    flat: str


def list_summaries(data: View) -> list[PlanSummary]:
    """Each plan that has no answer of its own by the metric that counts for its facets, best first in a family."""
    judged = {each.id for each in data.result.verdicts}
    return [
        _summary_of(data, family, plan) for family in FAMILIES for plan in data.ranked(family) if plan.id not in judged
    ]


def _summary_of(data: View, family: Family, plan: MeasuredPlan) -> PlanSummary:
    judged = plan.document.judged
    metric = judged.metrics[0].metric if judged else family.metrics[0]
    today, then = data.today.of(metric), plan.judged.of(metric)
    return PlanSummary(
        plan,
        data.naming.metric(metric),
        before=amount(metric, today),
        after=amount(metric, then),
        change=change(metric, today, then),
        train=change(metric, data.today_train.of(metric), plan.train.of(metric)),
        interval=judged.saving.between if judged and judged.saving else "",
        flat=flattens(judged) if judged else "",
    )


def plan_table(data: View, family: Family) -> Table | None:
    """Today and every plan of a family, one a row; nothing of a single plan, which the sentence says already."""
    plans = data.ranked(family)
    if len(plans) < 2:
        return None
    metrics = [metric for metric in data.metrics(family) if plans[0].judged.of(metric) is not None]
    counts, today = metrics[0], data.today

    def row(name: str, steps: Amount, sheet: Sheet) -> Row:
        cells: list[Amount | str] = [steps]
        for metric in metrics:
            cells.append(amount(metric, sheet.of(metric)))
            if metric == counts:
                cells.append("" if sheet is today else change(metric, today.of(metric), sheet.of(metric)).text)
        return Row((name,), tuple(cells))

    heads = ["overlay", "steps"]
    for metric in metrics:
        heads += [data.naming.metric(metric), *(["change"] if metric == counts else [])]
    rows = [row("today", Amount(None), today)]
    rows += [row(plan.id, Amount(plan.document.steps_total), plan.judged) for plan in plans[:MOST_PLANS]]
    return Table("Today and every plan", tuple(heads), rows, more_of(len(plans) - MOST_PLANS, "plans"))


def list_alternatives(data: View) -> list[Table]:
    """What other searches reach within a plan's limits, by the planner's estimate in the training window."""
    plans = [plan for plan in data.plans if len(plan.document.beside) > 1]
    tables = []
    for plan in plans:
        document = plan.document
        costs = {"today": document.cost_before, **document.beside, "this plan": document.cost_after}
        rows = [
            Row((SEARCHES.get(name, name),), (Amount(cost), Amount(ratio(cost, document.cost_before), "share")))
            for name, cost in costs.items()
        ]
        caption = "Other searches within the same limits" + (f" as {plan.id}" if len(plans) > 1 else "")
        heads = ("search", "planner's estimate", "of today's")
        tables.append(Table(f"{caption} ({plan.cost_unit(data.naming.units)})", heads, rows))
    return tables


def list_savings(data: View) -> list[Table]:
    """What each judged plan was expected to save, what it saves in the training window, and what on later traffic."""
    judged = [(plan, plan.document.judged) for plan in data.plans if plan.document.judged]
    judged = [(plan, judgement) for plan, judgement in judged if judgement.saving]
    tables = []
    for plan, judgement in judged:
        metric = judgement.metrics[0].metric
        rows = [Row(("expected, from plans made at earlier times",), _interval_cells(judgement.expected))]
        for part in PARTS:
            measured = [each for each in judgement.metrics if (each.metric, each.part) == (metric, part)]
            if measured:
                share = Amount(1 - ratio(measured[0].after, measured[0].before), "share")
                cells = (share, "", "") if part != judgement.metrics[-1].part else _interval_cells(judgement.saving)
                rows.append(Row((PARTS[part],), cells))
        rows += [
            Row((f"there, {CLIENTS[each.clients]}",), (Amount(each.saved, "share"), "", "")) for each in judgement.apart
        ]
        if rule := judgement.newcomers:
            rows.append(Row(("there, beyond that by the rule for newcomers",), (Amount(rule.share, "share"), "", "")))
        caption = f"Savings of {plan.id}" if len(judged) > 1 else "Savings"
        tables.append(Table(f"{caption}: {data.naming.metric(metric)}", ("", "saved", "at least", "at most"), rows))
    return tables


def _interval_cells(interval: Interval | None) -> tuple[Amount | str, ...]:
    if interval is None:
        return ("too short to say", "", "")
    return tuple(Amount(each, "share") for each in (interval.share, interval.low, interval.high))


def list_forecasts(data: View) -> list[str]:
    """What plans were made for, and where newcomers go, a sentence each."""
    found = [f"Planned for: {each.forecast}." for each in data.result.verdicts if each.forecast]
    for plan in data.plans:
        if rule := plan.document.newcomers:
            named = ", ".join(f"{who}: {broker}" for who, broker in list(rule.brokers.items())[:MOST_RULES])
            more = f" ({named}{', ...' if len(rule.brokers) > MOST_RULES else ''})" if named else ""
            found.append(f"Clients that are not in the training window: {rule}{more}.")
    return found


def list_missing(data: View) -> list[str]:
    """What the page cannot show, and what would bring it."""
    today, found = data.today, list[str]()
    if data.result.observation.network.brokers == 0:
        found.append(
            "No brokers were observed, so no link is crossed: there are no routes, loads or "
            "failures to show. The tables sessions, brokers and links would bring them."
        )
    elif today.of("deliveries") is None and not any(plan.judged.of("deliveries") for plan in data.plans):
        found.append(
            "There are brokers, but no links that join them or no traffic between their clients, so there are no "
            "routes and no traffic cost. The tables links and messages would bring them."
        )
    if today.of("deliveries") is not None:
        found += _missing_of_traffic(data)
    unmeasured = [plan.id for plan in data.plans if not plan.judged]
    if unmeasured:
        again = f"overlace replay {shlex.quote(str(data.folder))}"
        found.append(f"Not measured yet: {', '.join(unmeasured[:8])}. Run: {again}")
    return found


def _missing_of_traffic(data: View) -> Iterator[str]:
    today = data.today
    homeless, made = today.of("homeless") or 0.0, today.of("deliveries") or 0.0
    if homeless:
        lost = shown(homeless / (homeless + made), "share")
        yield f"{homeless:,.0f} deliveries ({lost}) are left out: the broker of their sender or receiver is not known."
    alone = today.of("to_self") or 0.0
    if alone:
        yield f"{alone:,.0f} messages went to their own sender; that makes no delivery and crosses no link."
    if (latency := today.of("mean_latency_us")) is None:
        yield "Latencies of links that are wired were not measured, so no latency of deliveries is known."
    elif not latency:
        yield "Latencies of links are not known and taken as 0."
    elif later := [plan.id for plan in data.plans if plan.within(ROUTING) and not plan.judged.of("mean_latency_us")]:
        yield f"No latency is known after {', '.join(later[:8])}: links would be wired whose latency was not measured."
    if not today.of("bytes"):
        yield "Sizes of messages are not known, so bytes are 0."
    if not len(today.column("link_messages", "topic").key):
        yield "Topics were not logged, or nothing crosses a link."
