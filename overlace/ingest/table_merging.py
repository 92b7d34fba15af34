"""Merge rows into a table of a trace: what is not named keeps its value.

A row is known by its table's key. A row whose key is there already sets the columns that it names, and an
empty cell sets nothing; any other row is new and has the defaults of the columns that it does not name.

A link is its two ends. Where one link has several lives, in the table or in what is given, `since` is part of its
key; a row that names no `since` is about all of them.

Keeps: rows that were there stay in their places, the new ones follow; nothing is removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overlace.errors import BadTrace
from overlace.ingest.events import in_one_piece
from overlace.trace.tables import arrow, is_content, numbers, schema_of

KEYS: Mapping[str, tuple[str, ...]] = {
    "clients": ("client",),
    "access": ("region", "broker"),
    "brokers": ("broker",),
    "links": ("left", "right"),
    "sessions": ("client", "broker", "since"),
    "subscriptions": ("client", "topic", "filter", "group", "attributes", "since"),
    "advertisements": ("client", "attributes", "filter", "since"),
    "peers": ("left", "right", "topic", "since"),
    "channels": ("combination", "since"),
}
"""The columns that tell a row; one that is not named is empty."""

DEFAULTS: Mapping[str, Mapping[str, float]] = {
    "brokers": {"cost": 1.0},
    "links": {"wired": True},
    "access": {"latency_us": 0, "cost": 0.0},
}
"""What a new row has in columns that must not be empty and are not named."""


class RowCounts(NamedTuple):
    """Rows of a table after a merge: added, with another value than before, and as they were."""

    new: int
    changed: int
    kept: int

    def __str__(self) -> str:
        words = ((self.new, "new"), (self.changed, "changed"), (self.kept, "unchanged"))
        return ", ".join(f"{rows:,} {text}" for rows, text in words if rows) or "no rows"


def merge(
    old: pa.Table, given: pa.Table, table: str, *, where: str = "", defaults: Mapping[str, float] | None = None
) -> pa.Table:
    """The table with these rows merged into it; `given` has only the columns that it names.

    `where` begins every error; `defaults` go before those of the table.
    """
    where = where or table
    key = _key(old, given, table)
    codes = _codes([_without_masks(old, table), _without_masks(given, table)], key)
    mine, theirs = (arrow(part, pa.int64()) for part in np.split(codes, [old.num_rows]))
    _refuse_twice(given, codes[old.num_rows :], key, where)
    source = pc.index_in(mine, value_set=theirs)
    chosen = np.flatnonzero(~numbers(pc.is_in(theirs, value_set=mine)))
    fresh = given.take(arrow(chosen, pa.int64()))
    otherwise = {**DEFAULTS.get(table, {}), **(defaults or {})}
    columns = []
    for each in schema_of(table):
        held, added = in_one_piece(old[each.name]), pa.nulls(fresh.num_rows, each.type)
        if each.name in given.column_names:
            held = pc.coalesce(in_one_piece(given[each.name]).cast(each.type).take(source), held)
            added = in_one_piece(fresh[each.name]).cast(each.type)
        if each.name in otherwise:
            added = pc.fill_null(added, otherwise[each.name])
        if not each.nullable and added.null_count:
            row = int(chosen[np.flatnonzero(numbers(added.is_null()))[0]]) + 1
            raise BadTrace(f"{where}: row {row}: {each.name} is empty. A new row of {table} needs it.")
        columns.append(pa.chunked_array([held, added], each.type))
    return pa.table(columns, schema=schema_of(table))


def changed_rows(old: pa.Table, merged: pa.Table) -> NDArray[np.bool_]:
    """Which of the rows that were there have another value after the merge."""
    changed = np.zeros(old.num_rows, dtype=bool)
    for name in old.column_names:
        before, after = in_one_piece(old[name]), in_one_piece(merged[name].slice(0, old.num_rows))
        changed |= numbers(pc.xor(before.is_null(), after.is_null()))
        changed |= numbers(pc.fill_null(pc.not_equal(before, after), False))
    return changed


def counts_of(old: pa.Table, merged: pa.Table) -> RowCounts:
    """How many rows are new, changed and kept."""
    changed = int(changed_rows(old, merged).sum())
    return RowCounts(merged.num_rows - old.num_rows, changed, old.num_rows - changed)


def unite_rows(rows: pa.Table, table: str) -> pa.Table:
    """The table with each key once, in order of its first rows; of several rows, later ones set what they name."""
    key = [*KEYS[table], "since"] if table == "links" else [*KEYS[table]]
    numbered = rows.append_column("row", arrow(np.arange(rows.num_rows), pa.int64()))
    last = [(name, "last") for name in rows.column_names if name not in key]
    united = numbered.group_by(key, use_threads=False).aggregate([*last, ("row", "min")]).sort_by("row_min")
    columns = [name if name in key else f"{name}_last" for name in rows.column_names]
    return united.select(columns).rename_columns(rows.column_names).cast(rows.schema)


def _key(old: pa.Table, given: pa.Table, table: str) -> tuple[str, ...]:
    """The columns that tell the rows of a table; of links `since` too, where it is named and one has several lives."""
    key = KEYS[table]
    if table == "links" and "since" in given.column_names:
        lives = (_codes([each], key) for each in (old, given))
        if any(len(np.unique(codes)) < len(codes) for codes in lives):
            return (*key, "since")
    return key


def _without_masks(rows: pa.Table, table: str) -> pa.Table:
    """Rows with no attributes where these follow from a filter on content: they do not tell such a row."""
    if table != "subscriptions" or not {"dialect", "attributes"} <= set(rows.column_names):
        return rows
    own = in_one_piece(rows["attributes"])
    masks = pc.if_else(arrow(is_content(rows["dialect"]), pa.bool_()), pa.scalar(None, own.type), own)
    return rows.set_column(rows.column_names.index("attributes"), "attributes", masks)


def _codes(tables: Sequence[pa.Table], key: Sequence[str]) -> NDArray[np.int64]:
    """A number for each row of the tables, one after the other: the same for the same key, null being a value."""
    named = [each.select([name for name in key if name in each.column_names]) for each in tables]
    rows = pa.concat_tables(named, promote_options="permissive")  # a column that one lacks is null there
    codes = np.zeros(rows.num_rows, dtype=np.int64)
    for column in rows.columns:
        found = in_one_piece(column).dictionary_encode(null_encoding="encode")
        codes = codes * (len(found.dictionary) + 1) + numbers(found.indices)
        codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
    return codes


def _refuse_twice(given: pa.Table, codes: NDArray[np.int64], key: Sequence[str], where: str) -> None:
    """Refuse two rows with one key: which of them holds?"""
    _, first, count = np.unique(codes, return_index=True, return_counts=True)
    if (count > 1).any():
        one = int(first[count > 1].min())
        other = int(np.flatnonzero(codes == codes[one])[1])
        same = ", ".join(name for name in key if name in given.column_names)
        raise BadTrace(f"{where}: rows {one + 1} and {other + 1} have the same {same}. Keep one of them.")
