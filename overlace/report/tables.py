"""The tables of the report: every one is a filter and a pivot of `metrics`.

A sheet is what one replay measured. A table of the page compares sheets (today, and after a plan), shows the
largest rows and says how many it leaves out. Nothing here knows HTML; numbers keep their value beside
the text that is shown for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from overlace.arrays.jit import Floats
from overlace.arrays.trees import hops_between
from overlace.model import Names, Network, Observation, name_of
from overlace.report.sheets import Amount, Sheet, Sheets, amount, change

K = TypeVar("K", int, tuple[int, int])

MOST_ROWS = 15
"""Rows that a table shows."""
MOST_REGIONS = 10
"""Regions that a matrix shows; the others are one row together."""
MOST_BARS = 14
"""Bars that a histogram shows."""
KEPT_CALLERS = 1000
"""Clients and topics that a replay keeps."""
BACKBONE = -1


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


@dataclass(frozen=True)
class Calls:
    """What things are called on the page."""

    names: Names
    network: Network

    def broker(self, b: int) -> str:
        """A broker's name."""
        return name_of("broker", b, self.names)

    def link(self, link: tuple[int, int]) -> tuple[str, ...]:
        """The names of both ends."""
        return self.broker(link[0]), self.broker(link[1])

    @cached_property
    def regions_given(self) -> bool:
        """Whether somebody said in which regions brokers are."""
        return self.network.regions_given(self.names)

    def region(self, r: int) -> str:
        """A region's name; that of its broker where each broker is its own."""
        if r == BACKBONE:
            return "backbone"
        named = self.names.get("region", ())
        if r < len(named) or (self.regions_given and not named):
            return name_of("region", r, self.names)
        alone = np.flatnonzero(self.network.region == r)
        return self.broker(int(alone[0])) if len(alone) else name_of("region", r)


def largest(values: Mapping[K, float], most: int = MOST_ROWS) -> tuple[list[K], int]:
    """(keys of the largest values, how many more are above 0)."""
    above = [key for key, value in values.items() if value > 0]
    above.sort(key=lambda key: (-values[key], key))
    return above[:most], max(0, len(above) - most)


def more_of(number: int, what: str) -> str:
    """ "and 8 more links"."""
    return f"and {number:,} more {what}" if number else ""


def ratio(part: float, whole: float | None) -> float:
    """A share, 0 of nothing."""
    return part / whole if whole else 0.0


def link_table(sheet: Sheet, calls: Calls) -> Table:
    """What goes over each link and what it costs."""
    messages, size = sheet.by_pair("messages", "link"), sheet.by_pair("bytes", "link")
    cost = sheet.by_pair("cost", "link")
    by = cost if any(cost.values()) else messages
    chosen, more = largest(by)
    total, top = sum(by.values()), max(by.values(), default=0.0)
    rows = [
        Row(
            calls.link(link),
            (
                Amount(messages.get(link), "messages"),
                Amount(size.get(link), "bytes"),
                Amount(cost.get(link)),
                Amount(ratio(by[link], total), "share"),
            ),
            (ratio(by[link], top),),
        )
        for link in chosen
    ]
    heads = ("link", "messages", "bytes", "cost", "share")
    return Table("Over each link", heads, rows, more_of(more, "links"))


def region_table(sheet: Sheet, calls: Calls) -> Table:
    """What goes over the links between two regions, or inside one, and what it costs."""
    messages, size = sheet.by_pair("crossing_messages", "region pair"), sheet.by_pair("crossing_bytes", "region pair")
    cost = sheet.by_pair("cost", "region pair")
    by = cost if any(cost.values()) else messages
    chosen, more = largest(by)
    total, top = sum(by.values()), max(by.values(), default=0.0)
    rows = [
        Row(
            (calls.region(a), calls.region(b)) if a != b else (f"within {calls.region(a)}",),
            (
                Amount(messages.get((a, b)), "messages"),
                Amount(size.get((a, b)), "bytes"),
                Amount(cost.get((a, b))),
                Amount(ratio(by[a, b], total), "share"),
            ),
            (ratio(by[a, b], top),),
        )
        for a, b in chosen
    ]
    heads = ("regions", "messages", "bytes", "cost", "share")
    return Table("Over the links between and within regions", heads, rows, more_of(more, "pairs of regions"))


def caller_table(sheet: Sheet, scope: str, names: Names) -> Table:
    """The clients or topics whose messages cross most links."""
    by, size = sheet.by("link_messages", scope), sheet.by("link_bytes", scope)
    chosen, more = largest(by, 10)
    total, top = sheet.of("link_messages"), max(by.values(), default=0.0)
    rows = [
        Row(
            (name_of(scope, each, names),),
            (
                Amount(by[each], "messages"),
                Amount(size.get(each), "bytes"),
                Amount(ratio(by[each], total), "share"),
            ),
            (ratio(by[each], top),),
        )
        for each in chosen
    ]
    left = more_of(more, f"{scope}s") + (" or more" if more and len(by) >= KEPT_CALLERS else "")
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
    least = np.partition(crossed, -10)[-10] if len(crossed) > 10 else 0
    order = np.flatnonzero((crossed >= least) & (crossed > 0))
    order = order[np.argsort(-crossed[order], kind="stable")][:10]
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


def region_matrix(sheet: Sheet, metric: str, caption: str, calls: Calls) -> Matrix:
    """A metric between regions: those with most of it, and all others together."""
    pairs = sheet.by_pair(metric, "region pair")
    weight: dict[int, float] = {}
    for (a, b), value in pairs.items():
        for region in {a, b}:
            weight[region] = weight.get(region, 0.0) + value
    kept, others = _kept_regions(weight)
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
    names = [calls.region(region) for region in kept] + ([f"{others} others"] if others else [])
    return Matrix(caption, names, cells)


def _kept_regions(weight: Mapping[int, float]) -> tuple[list[int], int]:
    ranked = sorted(weight, key=lambda region: (-weight[region], region))
    if len(ranked) <= MOST_REGIONS + 1:
        return sorted(ranked), 0
    return sorted(ranked[:MOST_REGIONS]), len(ranked) - MOST_REGIONS


# --- before and after --------------------------------------------------------------------------------


def _compared(
    values: Sequence[Mapping[K, float]], names: Callable[[K], tuple[str, ...]], unit: str, most: int = MOST_ROWS
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
            names(key),
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


def broker_table(sheets: Sheets, calls: Calls, limits: Mapping[int, float] | None = None) -> Table:
    """Who is at home at each broker, what they send, what the broker handles, and what it may."""
    return brokers_of(sheets, calls, "Brokers", None, limits or {})


def brokers_of(
    sheets: Sheets, calls: Calls, caption: str, region: int | None, limits: Mapping[int, float], most: int = MOST_ROWS
) -> Table:
    """Brokers, of one region or of all."""
    handled = [
        {b: load for b, load in sheet.by("handled", "broker").items() if region in (None, calls.network.region[b])}
        for _, sheet in sheets
    ]
    chosen, rows, more = _compared(handled, lambda b: (calls.broker(b),), "messages", most)
    clients, sent = (sheets[0][1].by(metric, "broker") for metric in ("clients", "sent"))
    full = [
        row._replace(
            cells=(
                Amount(clients.get(b), "clients"),
                Amount(sent.get(b), "messages"),
                *row.cells,
                *([Amount(limits.get(b), "messages")] if limits else []),
            )
        )
        for b, row in zip(chosen, rows, strict=True)
    ]
    heads = ("broker", "clients", "sent", *_heads("", "handled", sheets)[1:], *(["at most"] if limits else []))
    return Table(caption, heads, full, more_of(more, "brokers"))


def link_load_table(sheets: Sheets, calls: Calls) -> Table:
    """Messages over each link, before and after."""
    _, rows, more = _compared([s.by_pair("messages", "link") for _, s in sheets], calls.link, "messages")
    return Table("Links", _heads("link", "messages", sheets), rows, more_of(more, "links"))


def cut_table(sheets: Sheets, scope: str, calls: Calls) -> Table:
    """The share of deliveries that is lost if a broker or link fails."""
    if scope == "broker":
        brokers = [sheet.by("cut_share", scope) for _, sheet in sheets]
        _, rows, more = _compared(brokers, lambda b: (calls.broker(b),), "share", 10)
    else:
        links = [sheet.by_pair("cut_share", scope) for _, sheet in sheets]
        _, rows, more = _compared(links, calls.link, "share", 10)
    heads = _heads(scope, "deliveries lost", sheets)
    return Table(f"If one {scope} fails", heads, rows, more_of(more, f"{scope}s"))


def channel_table(sheets: Sheets, names: Names) -> Table:
    """Messages received over each channel, before and after."""

    def called(channel: int) -> tuple[str]:
        return ("in no channel" if channel < 0 else name_of("channel", channel, names),)

    received = [sheet.by("received", "channel") for _, sheet in sheets]
    _, rows, more = _compared(received, called, "messages")
    return Table("Channels", _heads("channel", "received", sheets), rows, more_of(more, "channels"))


def metric_table(sheets: Sheets, metrics: Sequence[str], caption: str) -> Table:
    """Metrics overall, one a row: today, after, and the change."""
    rows = []
    for metric in metrics:
        values = [sheet.of(metric) for _, sheet in sheets]
        if all(value is None for value in values):
            continue
        cells: tuple[Amount | str, ...] = tuple(amount(metric, value) for value in values)
        if len(values) > 1:
            cells += (change(metric, values[0], values[-1]).text,)
        rows.append(Row((LABELS.get(metric, metric.replace("_", " ")),), cells))
    heads = ("metric", *(heading for heading, _ in sheets), *(("change",) if len(sheets) > 1 else ()))
    return Table(caption, heads, rows)


LABELS: Mapping[str, str] = {
    "cost": "cost",
    "access_cost": "cost of access",
    "total_cost": "cost with access",
    "crossings": "links crossed per message",
    "mean_hops": "links per delivery",
    "mean_latency_us": "mean latency",
    "p95_latency_us": "latency, 95 %",
    "local_share": "deliveries at one broker",
    "region_local_share": "deliveries in one region",
    "crossing_messages": "messages over links between regions",
    "cut_share_max": "worst failure of a broker",
    "max_broker_load": "busiest broker handles",
    "max_link_load": "busiest link carries",
    "received": "messages received",
    "false_positive_rate": "share of false positives",
    "mean_connections": "connections per publisher",
    "over_limit": "advertisements over their limit",
    "average_degree": "links per client",
    "max_degree": "most links of one client",
    "topic_connected": "all topics connected (1 or 0)",
    "components_too_many": "parts of topics too many",
    "flood_messages": "messages to flood a topic",
    "shared_topics": "topics shared per link",
}
"""Metrics in the words of the page; the others are called by their name."""


# --- histograms --------------------------------------------------------------------------------------


class Histogram(NamedTuple):
    """Shares of deliveries (or clients) per bar, one list a sheet; labels at the bars, or at their edges."""

    labels: Sequence[str]
    series: Sequence[Sequence[float]]
    at_edges: bool
    axis: str


def histogram(sheets: Sheets, metric: str, axis: str, *, scale: float = 1.0) -> Histogram | None:
    """Bins of a metric as shares; wide bins are joined; None where there is nothing, or only zeros."""
    columns = [sheet.column(metric, "bin") for _, sheet in sheets]
    keys = np.concatenate([column.key for column in columns]) / scale
    counts = np.concatenate([column.value for column in columns])
    if len(keys) == 0 or counts.sum() == 0 or (scale != 1 and keys.max() == 0):
        return None
    low, high = float(keys.min()), _quantile(keys, counts, 0.999)
    whole = scale == 1 and high - low < MOST_BARS
    width = 1.0 if whole else _nice((high - (0 if scale != 1 else low)) / MOST_BARS)
    first = math.floor(low) if whole else math.floor(low / width) * width
    n = max(1, min(MOST_BARS + 1, math.floor((high - first) / width) + 1))
    series = []
    for column in columns:
        place = np.clip(np.floor((column.key / scale - first) / width + 1e-9), 0, n - 1).astype(np.int64)
        sums = np.bincount(place, weights=column.value, minlength=n)
        series.append((sums / max(sums.sum(), 1)).tolist())
    beyond = bool(keys.max() >= first + n * width)
    if whole:
        labels = [f"{first + i:g}" + ("+" if beyond and i == n - 1 else "") for i in range(n)]
    else:
        labels = [f"{first + i * width:g}" for i in range(n)] + ["…" if beyond else f"{first + n * width:g}"]
    return Histogram(labels, series, not whole, axis)


def _quantile(keys: Floats, counts: Floats, share: float) -> float:
    order = np.argsort(keys, kind="stable")
    below = np.cumsum(counts[order])
    return float(keys[order][min(int(np.searchsorted(below, share * below[-1])), len(keys) - 1)])


def _nice(width: float) -> float:
    """The least of 1, 2, 5 x 10 ** k that is not below."""
    if width <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(width))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= width * (1 - 1e-9))
