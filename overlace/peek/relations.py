"""Which table of a trace a strange file could be: by the names of its columns, or as two columns of names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from overlace.peek.guessing import Columns, could_be_names, numbers_in, time_kind
from overlace.trace.tables import schema_of

TELLING = (
    ("interests", {"client", "topic"}),
    ("links", {"left", "right"}),
    ("sessions", {"client", "broker"}),
    ("subscriptions", {"client", "topic"}),
    ("subscriptions", {"client", "filter"}),
    ("advertisements", {"client", "attributes"}),
    ("brokers", {"broker"}),
    ("access", {"region", "broker"}),
    ("clients", {"client"}),
    ("channels", {"combination", "channel"}),
    ("peers", {"left", "right"}),
)
"""Columns that tell a table, the tables that people have first."""


def tables_by_names(names: Sequence[str]) -> list[str]:
    """The tables that have all of these columns, likeliest first."""
    own = {name.strip().lower() for name in names}
    return [
        table
        for table, needed in TELLING
        if needed <= own <= (needed if table == "interests" else set(schema_of(table).names))
    ]


def guess_pairs(columns: Columns) -> tuple[str, str] | None:
    """Two columns that could be a relation: the first two of names."""
    free = [
        name
        for name in columns.names
        if could_be_names(columns, name) and not time_kind(columns, name).startswith("ISO")
    ]
    return (free[0], free[1]) if len(free) > 1 else None


def guess_cost(columns: Columns, ends: tuple[str, str]) -> str:
    """A column that holds what links cost."""
    for name in columns.names:
        numbers = numbers_in(columns.known[name])
        priced = re.search(r"cost|weight|price|distance|length|metric|delay", name.lower()) or name.isdecimal()
        if name not in ends and priced and numbers and len(numbers) == len(columns.values[name]) and min(numbers) >= 0:
            return name
    return ""
