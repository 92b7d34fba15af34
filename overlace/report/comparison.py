"""Tables that compare sheets, today and after a plan: brokers, links, failures, channels, metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from overlace.model import Names, name_of
from overlace.report.naming import Naming
from overlace.report.sheets import Amount, Sheets, amount, change
from overlace.report.tables import MOST_ROWS, MOST_SENDERS, K, Row, Table, largest, more_of, ratio


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
                *([Amount(limits.get(b), "messages")] if limits else []),
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
        if all(value is None for value in values) or ("region" in naming.metric(metric) and not naming.regions_given):
            continue
        cells: tuple[Amount | str, ...] = tuple(amount(metric, value) for value in values)
        if len(values) > 1:
            cells += (change(metric, values[0], values[-1]).text,)
        rows.append(Row((naming.metric(metric),), cells))
    heads = ("metric", *(heading for heading, _ in sheets), *(("change",) if len(sheets) > 1 else ()))
    return Table(caption, heads, rows)
