"""Rows of a trace's tables as arrays, and which of them hold in a window.

A row lasts no longer than the clients and brokers that it names, where the tables `clients` and `brokers` say how long
that was; one that says nothing of when it began began with them. A row that begins at the end of a window or later is
not seen in it, and one that ends then or later is still open.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Bools, Ints
from overlace.model import NOT_MEASURED
from overlace.trace.store import Trace
from overlace.trace.tables import Numbers, numbers

ALWAYS, STILL = np.iinfo(np.int64).min, np.iinfo(np.int64).max
NO_REGION = np.iinfo(np.int64).min  # -1 is the backbone

NULL: dict[str, float] = {
    "since": ALWAYS,
    "until": STILL,
    "connections": STILL,
    "capacity": np.inf,
    "latency_us": NOT_MEASURED,
    "bound_ms": np.inf,
    "max_degree": -1,
    "region": NO_REGION,
    "topic": -1,
    "attributes": -1,
    "cost": np.nan,
}
"""What stands for null in the arrays of a column."""

Columns = dict[str, Numbers]
Window = tuple[int, int]

NAMED = {
    "sessions": {"client": "client", "broker": "broker"},
    "subscriptions": {"client": "client"},
    "advertisements": {"client": "client"},
    "links": {"left": "broker", "right": "broker"},
    "peers": {"left": "client", "right": "client"},
}
"""Columns of clients and brokers in the tables whose rows last no longer than these."""


def columns(trace: Trace, table: str, names: str) -> Columns:
    """Columns of a table as arrays, those of `names` and, where it has them, since and until."""
    read = trace.read(table, names.split())
    found = {name: numbers(read[name], NULL.get(name)) for name in read.column_names}
    found = {name: each.astype(np.int64) if each.dtype.kind == "i" else each for name, each in found.items()}
    return within_lifetimes(trace, table, found) if "since" in found else found


def within_lifetimes(trace: Trace, table: str, rows: Columns) -> Columns:
    """The rows as long as a table says that those lasted whom they name."""
    since, until = rows["since"], rows["until"]
    for column, kind in NAMED.get(table, {}).items():
        first, last = _lifetimes(trace, kind, int(rows[column].max(initial=-1)) + 1)
        since = np.where(rows["since"] == ALWAYS, np.maximum(since, first[rows[column]]), since)
        until = np.minimum(until, last[rows[column]])  # whenever the row ends: that may be later than what is known
    return {**rows, "since": since, "until": until}


def _lifetimes(trace: Trace, kind: str, ids: int) -> tuple[Ints, Ints]:
    """(since, until) of clients or brokers by id, as their table says; always and still where it says nothing."""
    rows = columns(trace, f"{kind}s", f"{kind} since until")
    size = max(ids, int(rows[kind].max(initial=-1)) + 1)
    since, until = np.full(size, STILL), np.full(size, ALWAYS)
    np.minimum.at(since, rows[kind], rows["since"])
    np.maximum.at(until, rows[kind], rows["until"])
    listed = np.zeros(size, dtype=np.bool_)
    listed[rows[kind]] = True
    return np.where(listed, since, ALWAYS), np.where(listed, until, STILL)


def bounds(window: Window) -> Window:
    """The ends of a window; (0, 0) is all of time."""
    return window if window != (0, 0) else (ALWAYS, STILL)


def at_end(rows: Columns, window: Window) -> Columns:
    """The rows that hold at the end of a window."""
    _, end = bounds(window)
    return pick(rows, (rows["since"] < end) & (rows["until"] >= end))


def before_end(rows: Columns, window: Window) -> Columns:
    """The rows that began before the end of a window."""
    return pick(rows, rows["since"] < bounds(window)[1])


def at_some_time(rows: Columns, window: Window) -> Columns:
    """The rows that hold at some time of a window."""
    begin, end = bounds(window)
    return pick(rows, (rows["since"] < end) & (rows["until"] > begin))


def pick(rows: Columns, which: Bools | Ints) -> Columns:
    """Some of the rows, or all in another order."""
    return {name: each[which] for name, each in rows.items()}
