"""Plain rows as rows of a trace: ids for names, numbers and times for text.

New names get ids after those that are there, in sorted order. An empty cell stays empty. Errors name the
file, the row (counted from 1, the header not among them) and the column.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.errors import BadFilter, BadTrace
from overlace.ingest.events import in_one_piece
from overlace.ingest.table_merging import DEFAULTS
from overlace.ingest.topologies import Topology
from overlace.ingest.values import times
from overlace.model import Names
from overlace.trace.tables import CONTENT, arrow, is_content, numbers, schema_of

KINDS = {
    **{kind: kind for kind in ("client", "broker", "topic", "region")},
    **dict.fromkeys(("left", "right", "dials"), "broker"),
}
"""Columns that hold ids, and of what."""

TRUTHS = {**dict.fromkeys(("1", "true", "yes", "t", "y"), True), **dict.fromkeys(("0", "false", "no", "f", "n"), False)}

AMOUNTS = ("cost", "capacity", "latency_us", "max_degree", "bound_ms", "connections")
"""Columns that hold numbers from 0 on."""


class Cell(NamedTuple):
    """A column of a file, to name in an error."""

    where: str
    column: str

    def wrong(self, row: int, value: object, expected: str) -> BadTrace:
        """What to raise for a value that is not what it should be."""
        shown = "empty" if value is None else repr(value)
        return BadTrace(f"{self.where}: row {row + 1}: {self.column} is {shown}. Expected {expected}.")


def encode_rows(
    rows: pa.Table, table: str, names: Names, *, where: str = "", both_ways: bool = False
) -> tuple[str, pa.Table, dict[str, list[str]]]:
    """(table, rows, names): the columns that the rows name, with ids; new names among the old.

    Interests become subscriptions; with both_ways a pair holds in both directions.
    """
    where = where or table
    if table == "interests":
        rows, table = _interests(rows, where, both_ways), "subscriptions"
    schema = schema_of(table)
    needed = [each.name for each in schema if not each.nullable and each.name not in DEFAULTS.get(table, {})]
    if not set(needed) <= set(rows.column_names) <= set(schema.names):
        _refuse(rows, table, where)
    known = {kind: list(values) for kind, values in names.items()}
    columns: dict[str, pa.Array] = {}
    for name in rows.column_names:
        kind_of = "client" if table == "peers" and name in ("left", "right") else KINDS.get(name)
        cell = Cell(where, name)
        columns[name] = _encode_column(in_one_piece(rows[name]), schema.field(name).type, kind_of, known, cell)
        if name in needed and columns[name].null_count:
            raise cell.wrong(_first(columns[name].is_null()), None, "a value")
    if table == "subscriptions":
        _check_filters(rows, columns, where)
    if table == "advertisements":
        _check_advertisements(columns, rows.num_rows, where)
    if table in ("links", "peers"):
        left, right = (numbers(columns[side]) for side in ("left", "right"))
        for row in np.flatnonzero(left == right).tolist():
            raise BadTrace(f"{where}: row {row + 1} joins {rows['left'][row].as_py()!r} with itself. Take it out.")
        columns["left"], columns["right"] = (arrow(f(left, right), pa.int64()) for f in (np.minimum, np.maximum))
    return table, pa.table(columns), known


def _check_filters(rows: pa.Table, columns: Mapping[str, pa.Array], where: str) -> None:
    """Refuse filters on content that cannot be read, and rows with more than one says."""
    if "dialect" not in columns:
        return
    _check_dialects(columns["dialect"], where)
    own = np.flatnonzero(is_content(columns["dialect"]))
    if len(own) == 0:
        return
    for name in ("topic", "group"):
        if name in columns and (more := own[numbers(columns[name].is_valid())[own]]).size:
            value = rows[name][int(more[0])].as_py()
            raise Cell(where, name).wrong(int(more[0]), value, "nothing beside a filter on content")
    texts: list[str | None] = columns["filter"].to_pylist() if "filter" in columns else [None] * rows.num_rows
    for row in own.tolist():
        _check_filter(texts[row], row, where)


def _check_dialects(dialects: pa.Array, where: str) -> None:
    """Refuse dialects that nothing reads."""
    from overlace.matching.topics import DIALECTS

    known = [*DIALECTS, CONTENT]
    for wrong in (each for each in pc.unique(dialects).drop_null().to_pylist() if each not in known):
        near = get_close_matches(wrong.strip().lower(), known, n=1)
        expected = f"one of {', '.join(known)}" + (f". Nearest: {near[0]}" if near else "")
        raise Cell(where, "dialect").wrong(pc.index(dialects, wrong).as_py(), wrong, expected)


def _check_advertisements(columns: Mapping[str, pa.Array], rows: int, where: str) -> None:
    """Refuse advertisements of nothing, and filters that cannot be read."""
    masks, texts = (
        columns[name].to_pylist() if name in columns else [None] * rows for name in ("attributes", "filter")
    )
    for row, (mask, text) in enumerate(zip(masks, texts, strict=True)):
        if mask is None and text is None:
            raise Cell(where, "attributes").wrong(row, None, "attributes, or a filter on content")
        if text is not None:
            _check_filter(text, row, where)


def _check_filter(text: str | None, row: int, where: str) -> None:
    """Refuse a filter on content that cannot be read."""
    from overlace.matching.content.syntax import parse_filter

    if text is None:
        raise Cell(where, "filter").wrong(row, None, "a filter on content, such as symbol = 'AAPL' and close > 60")
    try:
        parse_filter(text)
    except BadFilter as error:
        raise BadTrace(f"{where}: row {row + 1}: filter: {error}") from None


def _interests(rows: pa.Table, where: str, both_ways: bool) -> pa.Table:
    """Pairs of client and topic, each once."""
    if not {"client", "topic"} <= set(rows.column_names):
        _refuse(rows, "interests", where)
    client, topic = (_texts(in_one_piece(rows[name]), Cell(where, name)) for name in ("client", "topic"))
    for name, values in (("client", client), ("topic", topic)):
        if values.null_count:
            raise Cell(where, name).wrong(_first(values.is_null()), None, "a value")
    if both_ways:
        client, topic = pa.concat_arrays([client, topic]), pa.concat_arrays([topic, client])
    return pa.table({"client": client, "topic": topic}).group_by(["client", "topic"]).aggregate([])


def _refuse(rows: pa.Table, table: str, where: str) -> None:
    expected = "client topic" if table == "interests" else " ".join(schema_of(table).names)
    raise BadTrace(
        f"{where}: found the columns {', '.join(rows.column_names)}; expected {expected}. "
        "Name them with --map COLUMN=FILE_COLUMN."
    )


def _first(flags: pa.Array) -> int:
    """The first row that is true."""
    return int(np.flatnonzero(numbers(flags, False))[0])


def _encode_column(
    values: pa.Array, kind: pa.DataType, kind_of: str | None, names: dict[str, list[str]], cell: Cell
) -> pa.Array:
    """A column as its table holds it."""
    if kind_of and not (cell.column == "region" and pa.types.is_integer(values.type)):
        return _ids(_texts(values, cell), names.setdefault(kind_of, []))
    if cell.column == "attributes":
        return _masks(values, names.setdefault("attribute", []), cell)
    if pa.types.is_timestamp(kind):
        return _times(values, cell)
    if pa.types.is_boolean(kind):
        return _truths(values, cell)
    if pa.types.is_string(kind):
        return _texts(values, cell)
    return _amounts(values, kind, cell)


def _each(values: pa.Array, convert: Callable[[pa.Array], pa.Array], cell: Cell, expected: str) -> pa.Array:
    """The values converted; refused with the first one that cannot be."""
    impossible = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
    try:
        return convert(values)
    except impossible:
        for row in range(len(values)):
            try:
                convert(values.slice(row, 1))
            except impossible:
                raise cell.wrong(row, values[row].as_py(), expected) from None
        raise


def _texts(values: pa.Array, cell: Cell) -> pa.Array:
    """Text, blank cells being empty."""
    text = _each(values, lambda part: part.cast(pa.string()), cell, "text")
    return pc.if_else(pc.equal(pc.utf8_trim_whitespace(text), ""), None, text)


def _ids(text: pa.Array, names: list[str]) -> pa.Array:
    """Ids of names; new ones are added, sorted."""
    have = pa.array(names, pa.string())
    new = sorted(set(pc.unique(text).drop_null().to_pylist()) - set(names))
    names += new
    found = pc.index_in(text, value_set=pa.concat_arrays([have, pa.array(new, pa.string())])).cast(pa.int64())
    return pc.if_else(text.is_valid(), found, None)


def _times(values: pa.Array, cell: Cell) -> pa.Array:
    text = _texts(values, cell)
    found, readable = times(text)
    wrong = pc.and_(pc.invert(pa.array(readable)), text.is_valid())
    if pc.any(wrong).as_py():
        raise cell.wrong(_first(wrong), text[_first(wrong)].as_py(), "a time, such as 2026-01-05T00:00Z")
    return found


def _truths(values: pa.Array, cell: Cell) -> pa.Array:
    text = pc.utf8_lower(pc.utf8_trim_whitespace(_texts(values, cell)))
    truths = pa.array([TRUTHS.get(each) for each in text.to_pylist()], pa.bool_())
    wrong = pc.and_(truths.is_null(), text.is_valid())
    if pc.any(wrong).as_py():
        raise cell.wrong(_first(wrong), values[_first(wrong)].as_py(), "true or false")
    return truths


def _amounts(values: pa.Array, kind: pa.DataType, cell: Cell) -> pa.Array:
    """Numbers of a kind, or an error that names the first that is none."""
    amount = cell.column in AMOUNTS
    expected = ("a whole number" if pa.types.is_integer(kind) else "a number") + (" from 0 on" if amount else "")
    found = _each(values, lambda part: _cast(part, kind, cell), cell, expected)
    plain = numbers(found, 0)
    fine = np.isfinite(plain) | ((plain == np.inf) & (cell.column == "capacity"))  # no limit
    if amount:
        fine &= plain >= 0
    if not fine.all():
        row = int(np.flatnonzero(~fine)[0])
        raise cell.wrong(row, values[row].as_py(), expected)
    return found


def _cast(values: pa.Array, kind: pa.DataType, cell: Cell) -> pa.Array:
    """Numbers from text or other numbers; 12.0 is a whole number."""
    if not pa.types.is_primitive(values.type):
        values = pc.utf8_trim_whitespace(_texts(values, cell))
        if pa.types.is_integer(kind):
            dotted = pc.match_substring_regex(values, r"^[-+]?\d{1,15}\.0*$")
            values = pc.if_else(dotted, pc.replace_substring_regex(values, r"\..*", ""), values)
    return values.cast(kind)


def _masks(values: pa.Array, names: list[str], cell: Cell) -> pa.Array:
    """Masks of attributes that are given as a number, as names that are known between ;, or between ; | + or spaces."""
    text = _texts(values, cell)
    digits = pc.all(pc.match_substring_regex(text, r"^\s*\d+\s*$")).as_py()
    if pa.types.is_integer(values.type) or digits:
        return _each(text, lambda part: _cast(part, pa.int64(), cell), cell, "a mask of at most 63 attributes")
    known = frozenset(names)
    split = [None if each is None else _pieces(each, known) for each in text.to_pylist()]
    names += sorted({t for each in split if each for t in each} - set(names))
    if len(names) > 63:
        raise BadTrace(f"{cell.where}: {len(names)} attributes. A mask holds at most 63.")
    bit = {name: 1 << i for i, name in enumerate(names)}
    return pa.array([None if each is None else sum(bit[t] for t in set(each)) for each in split], pa.int64())


def _pieces(text: str, known: Collection[str]) -> list[str]:
    """The attributes that a cell names; those that are known may have blanks and marks in their names."""
    for parts in ([text], text.split(";")):
        listed = [each.strip() for each in parts if each.strip()]
        if listed and all(each in known for each in listed):
            return listed
    for mark in ";|+":
        text = text.replace(mark, " ")
    return text.split()


def topology_tables(topology: Topology) -> dict[str, pa.Table]:
    """The brokers and links of a topology, by name; one without a wired link says nothing about wiring."""
    links = topology.links
    columns = ["left", "right", "cost", "latency_us", "wired", "dials"]
    if not any(links["wired"].to_pylist()):
        columns.remove("wired")
    return {"brokers": pa.table({"broker": pa.array(topology.brokers, pa.string())}), "links": links.select(columns)}


TOPOLOGY_DEFAULTS: Mapping[str, Mapping[str, float]] = {"links": {"wired": False}}
"""What a new row of a topology has where it says nothing: a link that could be wired."""
