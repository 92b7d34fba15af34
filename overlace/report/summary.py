"""The first section of the page: the key figures, what each plan saves, what limits it, what is not known."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from overlace.report.answer import answer_lines, headline
from overlace.report.curve import flattens
from overlace.report.naming import COSTS, PARTS, label_of
from overlace.report.run_data import FAMILIES, ROUTING, Family, MeasuredPlan, RunData
from overlace.report.sheets import Amount, Change, Sheet, amount, change, shown
from overlace.report.tables import Row, Table, more_of, ratio
from overlace.trace.judgement import Interval

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


def list_tiles(data: RunData) -> list[Tile]:
    """The key numbers of each family that was measured."""
    found = []
    for family in FAMILIES:
        best = data.best(family)
        for metric in family.metrics:
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
    """A judged plan in lines."""

    plan: MeasuredPlan
    headline: str
    lines: list[tuple[str, str]]
    export: str  # the command that writes the files to carry it out; empty where there are none


def list_answers(data: RunData) -> list[PlanAnswer]:
    """What optimize says of its plans, line by line."""
    mine = [plan for plan in data.plans if plan.id in data.outcome.plans]
    unit, priced = data.naming.unit, data.naming.priced
    return [
        PlanAnswer(each, headline(each.document), answer_lines(each.document, unit, priced), export_of(each, data))
        for each in mine
    ]


def export_of(plan: MeasuredPlan, data: RunData) -> str:
    """What to type for the files that carry a plan out; only placement and links have such files."""
    if data.outcome.why_not or not plan.document.steps_total or not {"placement", "tree"} & set(plan.document.facets):
        return ""
    return f"overlace live export {shlex.quote(str(data.run / 'plans' / plan.id))}"


class Verdict(NamedTuple):
    """A plan in one sentence: before and after by what counts for it, on both parts, and within which interval."""

    plan: MeasuredPlan
    metric: str
    before: Amount
    after: Amount
    change: Change
    train: Change
    interval: str
    flat: str


def list_verdicts(data: RunData) -> list[Verdict]:
    """Each plan that has no answer of its own by the metric that counts for its facets, best first in a family."""
    return [
        _verdict(data, family, plan)
        for family in FAMILIES
        for plan in data.ranked(family)
        if plan.id not in data.outcome.plans
    ]


def _verdict(data: RunData, family: Family, plan: MeasuredPlan) -> Verdict:
    judged = plan.document.judged
    metric = judged.metrics[0].metric if judged else family.metrics[0]
    today, then = data.today.of(metric), plan.judged.of(metric)
    return Verdict(
        plan,
        data.naming.metric(metric),
        before=amount(metric, today),
        after=amount(metric, then),
        change=change(metric, today, then),
        train=change(metric, data.today_train.of(metric), plan.train.of(metric)),
        interval=str(judged.saving) if judged and judged.saving else "",
        flat=flattens(judged) if judged else "",
    )


def plan_table(data: RunData, family: Family) -> Table | None:
    """Today and every plan of a family, one a row; nothing of a single plan, which the sentence says already."""
    plans = data.ranked(family)
    if len(plans) < 2:
        return None
    metrics = [metric for metric in family.metrics if plans[0].judged.of(metric) is not None]
    counts, today = family.metrics[0], data.today

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


def list_alternatives(data: RunData) -> list[Table]:
    """What other searches reach within a plan's limits, by the planner's own cost in the training window."""
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
        heads = ("search", "planner's own cost", "of today's")
        tables.append(Table(f"{caption} ({plan.cost_unit(data.naming.priced)})", heads, rows))
    return tables


def list_savings(data: RunData) -> list[Table]:
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


def list_forecasts(data: RunData) -> list[str]:
    """What plans were made for, and where newcomers go, a sentence each."""
    lines = [f"Planned for: {data.outcome.forecast}."] if data.outcome.forecast else []
    for plan in data.plans:
        if rule := plan.document.newcomers:
            named = ", ".join(f"{who}: {broker}" for who, broker in list(rule.brokers.items())[:MOST_RULES])
            more = f" ({named}{', ...' if len(rule.brokers) > MOST_RULES else ''})" if named else ""
            lines.append(f"Clients that are not in the training window: {rule}{more}.")
    return lines


def list_missing(data: RunData) -> list[str]:
    """What the page cannot show, and what would bring it."""
    today, lines = data.today, []
    if data.observation.network.brokers == 0:
        lines.append(
            "No brokers were observed, so nobody has a home and no link is crossed: there are no routes, loads or "
            "failures to show. The tables sessions, brokers and links would bring them."
        )
    elif today.of("deliveries") is None and not any(plan.judged.of("deliveries") for plan in data.plans):
        lines.append(
            "There are brokers, but no links that join them or no traffic between their clients, so there are no "
            "routes and no traffic cost. The tables links and messages would bring them."
        )
    if today.of("deliveries") is not None:
        lines += _missing_of_traffic(data)
    unmeasured = [plan.id for plan in data.plans if not plan.judged]
    if unmeasured:
        again = f"overlace replay {shlex.quote(str(data.run))}"
        lines.append(f"Not measured yet: {', '.join(unmeasured[:8])}. Run: {again}")
    return lines


def _missing_of_traffic(data: RunData) -> Iterator[str]:
    today = data.today
    homeless, made = today.of("homeless") or 0.0, today.of("deliveries") or 0.0
    if homeless:
        lost = shown(homeless / (homeless + made), "share")
        yield f"{homeless:,.0f} deliveries ({lost}) are left out: their sender or receiver has no home."
    alone = today.of("to_self") or 0.0
    if alone:
        yield f"{alone:,.0f} messages went to their own sender; that makes no delivery and crosses no link."
    if (latency := today.of("mean_latency_us")) is None:
        yield "Latencies of links that are wired were not measured, so no latency of deliveries is known."
    elif not latency:
        yield "Latencies of links are not known and count 0."
    elif later := [plan.id for plan in data.plans if plan.within(ROUTING) and not plan.judged.of("mean_latency_us")]:
        yield f"No latency is known after {', '.join(later[:8])}: links would be wired whose latency was not measured."
    if not today.of("bytes"):
        yield "Sizes of messages are not known, so bytes are 0."
    if not len(today.column("link_messages", "topic").key):
        yield "Topics were not logged, or nothing crosses a link."
