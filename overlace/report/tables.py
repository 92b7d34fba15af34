"""The tables of the page: today's traffic, comparisons with a plan, trees of channels, and the steps of a plan.

Those of traffic are filters and pivots of `metrics`. A table shows the largest rows and says how many it leaves out.
Nothing here knows HTML; numbers keep their value beside the text that is shown for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from overlace.arrays.trees import hops_between
from overlace.model import Names, Observation, Plan, name_of
from overlace.optimize.result import Json
from overlace.report.naming import Naming
from overlace.report.sheets import Amount, Sheet, Sheets, amount, change
from overlace.trace.plan_file import ChangeLine, PlanFile, change_lines

K = TypeVar("K", int, tuple[int, int])

MOST_ROWS = 15
"""Rows that a table shows."""
MOST_SENDERS = 10
"""Rows of a table by client, topic or pair."""
MOST_REGIONS = 10
"""Regions that a matrix shows; the others are one row together."""
KEPT_SENDERS = 1000
"""Clients and topics that a replay keeps."""


COST_HEADS = ("messages", "bytes", "traffic cost", "share")


def without_empty(table: Table) -> Table:
    """The table without columns that hold nothing anywhere, such as bytes where sizes are not known."""
    filled = [i for i in range(len(table.heads) - 1) if any(_holds(row.cells[i]) for row in table.rows)]
    if not table.rows or len(filled) == len(table.heads) - 1:
        return table
    rows = [row._replace(cells=tuple(row.cells[i] for i in filled)) for row in table.rows]
    return replace(table, heads=(table.heads[0], *(table.heads[1 + i] for i in filled)), rows=rows)


def _holds(cell: Amount | str) -> bool:
    """Whether a cell holds something; sizes and times of 0 are not known."""
    if isinstance(cell, str):
        return bool(cell)
    return cell.value is not None and (cell.value != 0 or cell.unit not in ("bytes", "microseconds"))


class Row(NamedTuple):
    """What it is about (one name or two), its cells, and its bars (0 to 1)."""

    names: tuple[str, ...]
    cells: tuple[Amount | str, ...]
    bars: tuple[float, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table of the page."""

    caption: str
    heads: tuple[str, ...]
    rows: Sequence[Row]
    more: str = ""  # what is left out
    joint: str = "–"  # between two names


def largest(values: Mapping[K, float], most: int = MOST_ROWS) -> tuple[list[K], int]:
    """(keys of the largest values, how many more are above 0)."""
    above = [key for key, value in values.items() if value > 0]
    above.sort(key=lambda key: (-values[key], key))
    return above[:most], max(0, len(above) - most)


def more_of(number: int, what: str) -> str:
    """ "and 8 more links"; nothing if there are no more."""
    return f"and {number:,} more {what}" if number > 0 else ""


def ratio(part: float, whole: float | None) -> float:
    """A share, 0 of nothing."""
    return part / whole if whole else 0.0


def link_table(sheet: Sheet, naming: Naming) -> Table:
    """What goes over each link and what it costs."""
    rows, more = _cost_rows(sheet, "link", "", naming.link)
    caption = f"Over each link (traffic cost in {naming.cost_unit})"
    return Table(caption, ("link", *COST_HEADS), rows, more_of(more, "links"))


def region_table(sheet: Sheet, naming: Naming) -> Table:
    """What goes over the links between two regions, or inside one, and what it costs."""

    def name(pair: tuple[int, int]) -> tuple[str, ...]:
        first, second = naming.region(pair[0]), naming.region(pair[1])
        return (first, second) if pair[0] != pair[1] else (f"within {first}",)

    rows, more = _cost_rows(sheet, "region pair", "crossing_", name)
    caption = f"Over the links between and within regions (traffic cost in {naming.cost_unit})"
    return Table(caption, ("regions", *COST_HEADS), rows, more_of(more, "pairs of regions"))


def _cost_rows(
    sheet: Sheet, scope: str, prefix: str, name: Callable[[tuple[int, int]], tuple[str, ...]]
) -> tuple[list[Row], int]:
    """(rows of messages, bytes, cost and share, how many more): by cost, by messages where nothing costs."""
    messages, size = (sheet.by_pair(f"{prefix}{metric}", scope) for metric in ("messages", "bytes"))
    cost = sheet.by_pair("cost", scope)
    weight = cost if any(cost.values()) else messages
    chosen, more = largest(weight)
    total, top = sum(weight.values()), max(weight.values(), default=0.0)
    rows = [
        Row(
            name(pair),
            (
                Amount(messages.get(pair), "messages"),
                Amount(size.get(pair), "bytes"),
                Amount(cost.get(pair)),
                Amount(ratio(weight[pair], total), "share"),
            ),
            (ratio(weight[pair], top),),
        )
        for pair in chosen
    ]
    return rows, more


def sender_table(sheet: Sheet, scope: str, names: Names) -> Table:
    """The clients or topics whose messages cross most links."""
    messages, size = sheet.by("link_messages", scope), sheet.by("link_bytes", scope)
    chosen, more = largest(messages, MOST_SENDERS)
    total, top = sheet.of("link_messages"), max(messages.values(), default=0.0)
    rows = [
        Row(
            (name_of(scope, each, names),),
            (
                Amount(messages[each], "messages"),
                Amount(size.get(each), "bytes"),
                Amount(ratio(messages[each], total), "share"),
            ),
            (ratio(messages[each], top),),
        )
        for each in chosen
    ]
    left = more_of(more, f"{scope}s") + (" or more" if more and len(messages) >= KEPT_SENDERS else "")
    return Table(f"By {scope}", (scope, "link messages", "link bytes", "share"), rows, left)


def pair_table(observation: Observation, names: Names) -> Table:
    """The senders and receivers whose messages cross most links: flows x links between the two homes."""
    flows, homes = observation.flows, observation.overlay.homes(observation.clients)
    a, b = homes[flows.sender], homes[flows.receiver]
    placed = np.flatnonzero((a >= 0) & (b >= 0))
    hops = np.zeros(len(a), dtype=np.int64)
    if observation.network.brokers > 1 and len(placed):
        tree = observation.overlay.rooted(observation.network.brokers)
        hops[placed] = hops_between(tree, a[placed], b[placed])
    crossed = flows.messages * hops
    # a log has millions of pairs: only those that can be among the first are sorted
    least = np.partition(crossed, -MOST_SENDERS)[-MOST_SENDERS] if len(crossed) > MOST_SENDERS else 0
    order = np.flatnonzero((crossed >= least) & (crossed > 0))
    order = order[np.argsort(-crossed[order], kind="stable")][:MOST_SENDERS]
    total, top = int(crossed.sum()), float(crossed.max(initial=0))
    rows = [
        Row(
            (name_of("client", int(flows.sender[i]), names), name_of("client", int(flows.receiver[i]), names)),
            (
                Amount(float(crossed[i]), "messages"),
                Amount(float(flows.messages[i]), "messages"),
                Amount(float(hops[i]), "links"),
                Amount(ratio(float(crossed[i]), total), "share"),
            ),
            (ratio(float(crossed[i]), top),),
        )
        for i in order.tolist()
    ]
    more = more_of(int((crossed > 0).sum()) - len(rows), "pairs")
    heads = ("sender → receiver", "link messages", "sent", "links", "share")
    return Table("By sender and receiver", heads, rows, more, "→")


class Matrix(NamedTuple):
    """Amounts between regions, each pair once; heat is 0 to 1."""

    caption: str
    names: Sequence[str]
    cells: Sequence[Sequence[tuple[Amount, float] | None]]


def region_matrix(sheet: Sheet, metric: str, caption: str, naming: Naming) -> Matrix:
    """A metric between regions: those with most of it, and all others together."""
    pairs = sheet.by_pair(metric, "region pair")
    weight: dict[int, float] = {}
    for (a, b), value in pairs.items():
        for region in {a, b}:
            weight[region] = weight.get(region, 0.0) + value
    kept, others = _keep_largest(weight)
    place = {region: i for i, region in enumerate(kept)}
    size = len(kept) + bool(others)
    sums = np.zeros((size, size))
    for (a, b), value in pairs.items():
        i, j = sorted((place.get(a, len(kept)), place.get(b, len(kept))))
        sums[i, j] += value
    top = float(sums.max(initial=0.0))
    cells = [
        [(Amount(float(sums[i, j]), "short"), ratio(float(sums[i, j]), top)) if j >= i else None for j in range(size)]
        for i in range(size)
    ]
    names = [naming.region(region) for region in kept] + ([f"{others} others"] if others else [])
    return Matrix(caption, names, cells)


def _keep_largest(weight: Mapping[int, float]) -> tuple[list[int], int]:
    """(regions with a row of their own, how many share one)."""
    ranked = sorted(weight, key=lambda region: (-weight[region], region))
    if len(ranked) <= MOST_REGIONS + 1:
        return sorted(ranked), 0
    return sorted(ranked[:MOST_REGIONS]), len(ranked) - MOST_REGIONS


# --- today and after a plan ------------------------------------------------------------------------------------------


def _compare(
    values: Sequence[Mapping[K, float]], name: Callable[[K], tuple[str, ...]], unit: str, most: int = MOST_ROWS
) -> tuple[list[K], list[Row], int]:
    """(keys, rows, how many more), by the larger of before and after; a dash where it is not there."""
    either: dict[K, float] = {}
    for each in values:
        for key, value in each.items():
            either[key] = max(value, either.get(key, 0.0))
    chosen, more = largest(either, most)
    top = max(either.values(), default=0.0)
    rows = [
        Row(
            name(key),
            tuple(Amount(each.get(key), unit) for each in values),
            tuple(ratio(each.get(key, 0.0), top) for each in values),
        )
        for key in chosen
    ]
    return chosen, rows, more


def _heads(first: str, what: str, sheets: Sheets) -> tuple[str, ...]:
    if len(sheets) == 1:
        return first, what
    return first, *(f"{what}, {heading}" for heading, _ in sheets)


def broker_table(
    sheets: Sheets, naming: Naming, limits: Mapping[int, float], region: int | None = None, most: int = MOST_ROWS
) -> Table:
    """Who is at home at each broker (of one region, or of all), what they send, what it handles, and what it may."""
    handled = [
        {b: load for b, load in sheet.by("handled", "broker").items() if region in (None, naming.network.region[b])}
        for _, sheet in sheets
    ]
    chosen, rows, more = _compare(handled, lambda b: (naming.broker(b),), "messages", most)
    clients, sent = (sheets[0][1].by(metric, "broker") for metric in ("clients", "sent"))
    full = [
        row._replace(
            cells=(
                Amount(clients.get(b), "clients"),
                Amount(sent.get(b), "messages"),
                *row.cells,
                *([Amount(round(limits[b]) if b in limits else None, "messages")] if limits else []),
            )
        )
        for b, row in zip(chosen, rows, strict=True)
    ]
    heads = ("broker", "clients", "sent", *_heads("", "handled", sheets)[1:], *(["at most"] if limits else []))
    caption = "Brokers" if region is None else naming.region(region)
    return Table(caption, heads, full, more_of(more, "brokers"))


def link_load_table(sheets: Sheets, naming: Naming) -> Table:
    """Messages over each link, before and after."""
    _, rows, more = _compare([s.by_pair("messages", "link") for _, s in sheets], naming.link, "messages")
    return Table("Links", _heads("link", "messages", sheets), rows, more_of(more, "links"))


def failure_table(sheets: Sheets, scope: str, naming: Naming) -> Table:
    """The share of deliveries that is lost if a broker or link fails."""
    if scope == "broker":
        brokers = [sheet.by("cut_share", scope) for _, sheet in sheets]
        _, rows, more = _compare(brokers, lambda b: (naming.broker(b),), "share", MOST_SENDERS)
    else:
        links = [sheet.by_pair("cut_share", scope) for _, sheet in sheets]
        _, rows, more = _compare(links, naming.link, "share", MOST_SENDERS)
    heads = _heads(scope, "deliveries lost", sheets)
    return Table(f"If one {scope} fails", heads, rows, more_of(more, f"{scope}s"))


def channel_table(sheets: Sheets, names: Names) -> Table:
    """Messages received over each channel, before and after."""

    def name(channel: int) -> tuple[str]:
        return ("in no channel" if channel < 0 else name_of("channel", channel, names),)

    _, rows, more = _compare([sheet.by("received", "channel") for _, sheet in sheets], name, "messages")
    return Table("Channels", _heads("channel", "received", sheets), rows, more_of(more, "channels"))


def metric_table(sheets: Sheets, metrics: Sequence[str], caption: str, naming: Naming) -> Table:
    """Metrics overall, one a row: today, after, and the change; nothing about regions where there are none."""
    rows = []
    for metric in metrics:
        values = [sheet.of(metric) for _, sheet in sheets]
        if not any(_holds(amount(metric, value)) for value in values) or (
            "region" in naming.metric(metric) and not naming.regions_given
        ):
            continue
        cells: tuple[Amount | str, ...] = tuple(amount(metric, value) for value in values)
        if len(values) > 1:
            cells += (change(metric, values[0], values[-1]).text,)
        rows.append(Row((naming.metric(metric),), cells))
    heads = ("metric", *(heading for heading, _ in sheets), *(("change",) if len(sheets) > 1 else ()))
    return Table(caption, heads, rows)


# --- trees of channels -----------------------------------------------------------------------------------------------


def kind_table(found: Json) -> Table:
    """Our trees beside others within the same limits, and the star."""
    rows = []
    for each in found["kinds"]:
        figures = (f"{each['share_met']:.1%}", *(f"{each[name]:.4g} ms" for name in ("mean_ms", "p95_ms")))
        rows.append(Row((str(each["label"]),), (*figures, *map(Amount, (each["max_degree"], each["over_degree"])))))
    most = f"{found['share_met_at_most']:.1%} or less for any trees within the degree limits: proven"
    heads = ("tree", "bounds met", "mean delay", "95th percentile", "most children", "limits broken")
    return Table(f"Latency bounds met: {most}", heads, rows)


def tree_table(rows: pa.Table, names: Names) -> Table:
    """The channels in which most bounds are missed, and the largest."""
    channel, at = np.unique(rows["channel"].to_numpy(), return_inverse=True)
    bounded = np.array([each is not None for each in rows["met"].to_pylist()])
    met = np.array([bool(each) for each in rows["met"].to_pylist()])
    below = np.array([each is not None for each in rows["parent"].to_pylist()])
    delay = rows["delay_ms"].to_numpy()
    peers, bounds, kept = (np.bincount(at, weights=each) for each in (below, bounded, met & bounded))
    worst = np.zeros(len(channel))
    np.maximum.at(worst, at, delay)
    root = [name for name, up in zip(rows["client"].to_pylist(), below.tolist(), strict=True) if not up]
    order = np.lexsort((channel, -peers, kept - bounds))
    found = []
    for i in order[:MOST_ROWS].tolist():
        name = "in no channel" if channel[i] < 0 else name_of("channel", int(channel[i]), names)
        share = f"{kept[i] / bounds[i]:.1%}" if bounds[i] else ""
        cells = (root[i], Amount(peers[i]), Amount(bounds[i]), share)
        found.append(Row((name,), (*cells, f"{worst[i]:.4g} ms")))
    heads = ("channel", "root", "subscribers", "with a bound", "met", "longest delay")
    return Table("Trees by channel", heads, found, more_of(len(channel) - len(found), "channels"))


# --- steps of a plan -------------------------------------------------------------------------------------------------

MOST_CHANGES = 6
"""Changes of a step that are shown before it is opened."""
MOST_NAMED = 100
"""Changes of a step that are looked at to list some: the first step of a mesh has as many as it has links."""


class StepRow(NamedTuple):
    """A step: what it saves, why, what it changes, and how many more changes it has."""

    step: int
    gain: Amount
    share: Amount  # of the cost before; of what all steps save, where that cost is not known
    why: str
    changes: Sequence[str]
    more: int  # changes that are not listed
    so_far: Amount = Amount(None)  # the share that is saved by then


def list_steps(document: PlanFile) -> list[StepRow]:
    """The steps of a plan file, with all changes that it lists."""
    found, done = [], 0.0
    for step in document.steps:
        done += step.gain
        saved = (Amount(step.gain), _share(step.gain, document.cost_before))
        lines, so_far = change_lines(step.changes), _share(done, document.cost_before)
        found.append(StepRow(step.step, *saved, step.why, lines, step.more, so_far))
    return found


def list_plan_steps(plan: Plan, names: Names | None, most: int) -> list[StepRow]:
    """The first steps of a plan in memory."""
    found = []
    for i in range(min(most, len(plan.steps))):
        step = plan.step(i)
        kept = step.changes.between(0, MOST_NAMED)
        lines = change_lines([ChangeLine.of(*row, names) for row in kept.rows()])
        more = max(0, len(lines) - MOST_CHANGES) + len(step.changes) - len(kept)
        saved = (Amount(step.gain), _share(step.gain, plan.gain))
        found.append(StepRow(i + 1, *saved, plan.why(i, names), lines[:MOST_CHANGES], more))
    return found


def _share(gain: float, whole: float) -> Amount:
    return Amount(gain / whole if whole else None, "share")
