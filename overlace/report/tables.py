"""The tables of today's traffic: every one is a filter and a pivot of `metrics`.

A table shows the largest rows and says how many it leaves out. Nothing here knows HTML; numbers keep their value
beside the text that is shown for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from overlace.arrays.trees import hops_between
from overlace.model import Names, Observation, name_of
from overlace.report.naming import Naming
from overlace.report.sheets import Amount, Sheet

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
