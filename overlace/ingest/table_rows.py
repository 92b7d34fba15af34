"""Plain files as rows of a trace's tables: ids for names, numbers and times for text.

A file is CSV, JSON (objects or lists, one a line or in one array) or Parquet with columns of its table (`overlace
schema TABLE`), in which clients, brokers, topics and regions stand by name; text is UTF-8, gzipped or not.
`interests` is client and topic, without times; a JSON object of lists ({"user": ["topic", ...]}) is that too.

Keeps: new names get ids after those that are there, in sorted order; an empty cell stays empty; what cannot be read is
refused in one line with the file, the row (counted from 1, the header not among them) and the column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from overlace.arrays.jit import Bools
from overlace.errors import BadFilter, BadTrace, Unknown
from overlace.ingest.events import in_one_piece
from overlace.ingest.files import read_unpacked
from overlace.ingest.formats.csv import detect_layout
from overlace.ingest.table_merging import DEFAULTS, KEYS
from overlace.ingest.values import times
from overlace.model import Names
from overlace.trace.address import is_address, name_of
from overlace.trace.tables import CONTENT, arrow, is_content, numbers, schema_of

TABLES = (*KEYS, "interests")

KINDS = {
    **{kind: kind for kind in ("client", "broker", "topic", "region")},
    **dict.fromkeys(("left", "right", "dials"), "broker"),
}
"""Columns that hold ids, and of what."""

TRUE, FALSE = ("1", "true", "yes", "t", "y"), ("0", "false", "no", "f", "n")

AMOUNTS = ("cost", "capacity", "latency_us", "max_degree", "bound_ms", "connections")
"""Columns that hold numbers from 0 on."""


# --- files -----------------------------------------------------------------------------------------------


def read_table_file(
    file: str | pa.Table, table: str, options: Mapping[str, Any], tell: Callable[[str], object] = lambda note: None
) -> pa.Table:
    """A file, or rows in hand, its columns renamed as the options' `map` says (table column = file column).

    Where columns are mapped, those that the table does not have are left out, and noted.
    """
    if table not in TABLES:
        raise Unknown("table", table, TABLES)
    path = place_of(file)
    try:
        rows = _read(file, table, options) if isinstance(file, str) else file
    except (pa.ArrowException, ValueError, OSError) as error:
        raise BadTrace(f"{path}: cannot be read as a table: {str(error).splitlines()[0]}") from None
    mapped, known = dict(options.get("map") or {}), schema_of("subscriptions" if table == "interests" else table).names
    for name, column in mapped.items():
        if name not in known:
            raise Unknown(f"column of the table {table}", name, known)
        if column not in rows.column_names:
            raise Unknown("column", column, rows.column_names)
    back = {column: name for name, column in mapped.items()}
    names = [back.get(name, name.strip().lower()) for name in rows.column_names]
    if mapped:
        used = [i for i, name in enumerate(names) if name in known]
        if len(used) < len(names):
            unused = [column for i, column in enumerate(rows.column_names) if i not in used]
            tell(f"{path}: columns not used: {', '.join(unused)}")
        rows, names = rows.select(used), [names[i] for i in used]
    for name in names:
        if names.count(name) > 1:
            raise BadTrace(
                f"{path}: the column {name} stands twice. Keep one, or name it with --map COLUMN=FILE_COLUMN."
            )
    return rows.rename_columns(names)


def place_of(file: str | pa.Table) -> str:
    """Where rows come from, in messages."""
    return file if isinstance(file, str) else "DataFrame"


def _read(path: str, table: str, options: Mapping[str, Any]) -> pa.Table:
    if not is_address(path) and Path(path).is_dir():
        return pq.read_table(path)
    data = read_unpacked(path, "a file of CSV, JSON or Parquet")
    ending = Path(name_of(path).removesuffix(".gz")).suffix.lower()
    if data[:4] == b"PAR1" or ending == ".parquet":
        return pq.ParquetFile(pa.BufferReader(data)).read()
    text = _text(path, data)
    if ending in (".json", ".jsonl", ".ndjson") or text.startswith("{") or re.match(r"\[\s*[{\[]", text):
        lists = _interests_of(text) if table == "interests" else None
        return _json_rows(path, text) if lists is None else lists
    return _csv(text, options)


def _text(path: str, data: bytes) -> str:
    """UTF-8 text from its first character that is not blank."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data[:4096]:
        raise BadTrace(
            f"{path}: UTF-16, or no text. Expected UTF-8: save the file as UTF-8, or `iconv -f UTF-16 -t UTF-8`."
        )
    try:
        text = data.decode("utf-8-sig").lstrip("\r\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadTrace(f"{path}: line {line} is not UTF-8. Save the file as UTF-8.") from None
    if not text.strip():
        raise BadTrace(f"{path}: the file is empty. Expected the names of columns, and rows.")
    return text


def _json(text: str) -> Any:
    """A JSON value; None where it cannot be read."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _interests_of(text: str) -> pa.Table | None:
    """Interests from a JSON object of lists; None if it is none."""
    lists = _json(text)
    if not isinstance(lists, dict) or not all(isinstance(each, list) for each in lists.values()):
        return None
    clients = [client for client, topics in lists.items() for _ in topics]
    topics = [topic for each in lists.values() for topic in each]
    if any(isinstance(topic, list | dict) for topic in topics):
        return None
    return pa.table({"client": pa.array(clients, pa.string()), "topic": pa.array(map(str, topics), pa.string())})


def _json_rows(path: str, text: str) -> pa.Table:
    """Objects or lists, one a line or in one array, as columns of text, numbers or truths; those of lists by number."""
    whole = _json(text) if text.startswith("[") else None
    if isinstance(whole, list) and all(isinstance(each, list | dict) for each in whole):
        found = [(f"element {number}", each) for number, each in enumerate(whole, 1)]
    else:
        lines = enumerate(text.split("\n"), 1)
        found = [(f"line {number}", _json(line)) for number, line in lines if line.strip()]
    rows: list[dict[str, object]] = []
    for where, row in found:
        if not isinstance(row, list | dict) or type(row) is not type(found[0][1]):
            raise BadTrace(f"{path}: {where} is no JSON object. Expected objects, one a line or in one array.")
        rows.append({str(i): value for i, value in enumerate(row)} if isinstance(row, list) else row)
        for name, value in rows[-1].items():
            if isinstance(value, list | dict):
                raise BadTrace(f"{path}: {where}: {name} is a list or an object. Expected one value.")
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: _column([row.get(name) for row in rows]) for name in names})


def _column(values: list[object]) -> pa.Array:
    """Values of one kind as they are, else, and where a number is too large for any column, as text."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) == 1 or kinds == {int, float}:
        with suppress(pa.ArrowException, OverflowError):
            return pa.array(values)
    return pa.array([value if value is None or isinstance(value, str) else json.dumps(value) for value in values])


def _csv(text: str, options: Mapping[str, Any]) -> pa.Table:
    """Columns of text; an empty cell is null."""
    layout = detect_layout(text[:4096].encode(), options.get("delimiter"), options.get("header"))
    columns = dict.fromkeys(layout.columns, pa.string())
    if layout.comments:
        text = "\n".join(line for line in text.split("\n") if not line.startswith("#"))
    if layout.header and not text.partition("\n")[2].strip():
        return pa.schema(columns).empty_table()
    return pacsv.read_csv(
        pa.BufferReader(text.encode()),
        pacsv.ReadOptions(column_names=layout.columns, skip_rows=1 if layout.header else 0),
        pacsv.ParseOptions(delimiter=layout.delimiter),
        pacsv.ConvertOptions(column_types=columns, strings_can_be_null=True, null_values=[""]),
    )


# --- rows ------------------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """A column of a file, to name in an error."""

    where: str
    column: str

    def wrong(self, row: int, value: object, expected: str) -> BadTrace:
        """What to raise for a value that is not what it should be."""
        shown = "empty" if value is None else repr(value)
        return BadTrace(f"{self.where}: row {row + 1}: {self.column} is {shown}. Expected {expected}.")

    def refuse(self, wrong: Bools, values: pa.Array | pa.ChunkedArray, expected: str) -> None:
        """Refuse the first of the values that are wrong."""
        for row in np.flatnonzero(wrong)[:1].tolist():
            raise self.wrong(row, values[row].as_py(), expected)


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
        raise _other_columns(rows, " ".join(schema.names), where)
    known = {kind: list(values) for kind, values in names.items()}
    columns: dict[str, pa.Array] = {}
    for name in rows.column_names:
        kind_of = "client" if table == "peers" and name in ("left", "right") else KINDS.get(name)
        cell = Cell(where, name)
        columns[name] = _encode_column(in_one_piece(rows[name]), schema.field(name).type, kind_of, known, cell)
        if name in needed:
            cell.refuse(numbers(columns[name].is_null()), columns[name], "a value")
    if table == "subscriptions" and "dialect" in columns:
        _check_filters(rows, columns, where)
    if table == "advertisements":
        masks, filters = (columns.get(name, pa.nulls(rows.num_rows)) for name in ("attributes", "filter"))
        nothing = numbers(pc.and_(masks.is_null(), filters.is_null()))
        Cell(where, "attributes").refuse(nothing, masks, "attributes, or a filter on content")
        _parse_filters(filters, numbers(filters.is_valid()), where)
    if table in ("links", "peers"):
        left, right = (numbers(columns[side]) for side in ("left", "right"))
        for row in np.flatnonzero(left == right).tolist():
            raise BadTrace(f"{where}: row {row + 1} joins {rows['left'][row].as_py()!r} with itself. Take it out.")
        columns["left"], columns["right"] = (arrow(f(left, right), pa.int64()) for f in (np.minimum, np.maximum))
    return table, pa.table(columns), known


def _other_columns(rows: pa.Table, expected: str, where: str) -> BadTrace:
    return BadTrace(
        f"{where}: found the columns {', '.join(rows.column_names)}; expected {expected}. "
        "Name them with --map COLUMN=FILE_COLUMN."
    )


def _interests(rows: pa.Table, where: str, both_ways: bool) -> pa.Table:
    """Pairs of client and topic, each once."""
    if not {"client", "topic"} <= set(rows.column_names):
        raise _other_columns(rows, "client topic", where)
    cells = [Cell(where, name) for name in ("client", "topic")]
    client, topic = (read_texts(in_one_piece(rows[cell.column]), cell) for cell in cells)
    for cell, values in zip(cells, (client, topic), strict=True):
        cell.refuse(numbers(values.is_null()), values, "a value")
    if both_ways:
        client, topic = pa.concat_arrays([client, topic]), pa.concat_arrays([topic, client])
    return pa.table({"client": client, "topic": topic}).group_by(["client", "topic"]).aggregate([])


def _check_filters(rows: pa.Table, columns: Mapping[str, pa.Array], where: str) -> None:
    """Refuse dialects that nothing reads, filters on content that cannot be read, and topics beside these."""
    from overlace.matching.topics import DIALECTS

    dialects, known = columns["dialect"], [*DIALECTS, CONTENT]
    for wrong in (each for each in pc.unique(dialects).drop_null().to_pylist() if each not in known):
        near = get_close_matches(wrong.strip().lower(), known, n=1)
        expected = f"one of {', '.join(known)}" + (f". Nearest: {near[0]}" if near else "")
        raise Cell(where, "dialect").wrong(pc.index(dialects, wrong).as_py(), wrong, expected)
    own = is_content(dialects)
    for name in ("topic", "group"):
        if name in columns:
            given = own & numbers(columns[name].is_valid())
            Cell(where, name).refuse(given, rows[name], "nothing beside a filter on content")
    _parse_filters(columns.get("filter", pa.nulls(rows.num_rows)), own, where)


def _parse_filters(filters: pa.Array, own: Bools, where: str) -> None:
    """Refuse filters on content that cannot be read, in the rows that have one of their own."""
    from overlace.matching.content.syntax import parse_filter

    expected = "a filter on content, such as symbol = 'AAPL' and close > 60"
    Cell(where, "filter").refuse(own & numbers(filters.is_null()), filters, expected)
    for row in np.flatnonzero(own).tolist():
        try:
            parse_filter(filters[row].as_py())
        except BadFilter as error:
            raise BadTrace(f"{where}: row {row + 1}: filter: {error}") from None


def _encode_column(
    values: pa.Array, kind: pa.DataType, kind_of: str | None, names: dict[str, list[str]], cell: Cell
) -> pa.Array:
    if kind_of and not (cell.column == "region" and pa.types.is_integer(values.type)):
        text, known = read_texts(values, cell), names.setdefault(kind_of, [])
        known += sorted(set(pc.unique(text).drop_null().to_pylist()) - set(known))
        return pc.index_in(text, value_set=pa.array(known, pa.string())).cast(pa.int64())
    if cell.column == "attributes":
        return _masks(values, names.setdefault("attribute", []), cell)
    if not (pa.types.is_timestamp(kind) or pa.types.is_boolean(kind) or pa.types.is_string(kind)):
        return _amounts(values, kind, cell)
    text = read_texts(values, cell)
    if pa.types.is_timestamp(kind):
        found, readable = times(text)
        cell.refuse(~readable & numbers(text.is_valid()), text, "a time, such as 2026-01-05T00:00Z")
        return found
    if pa.types.is_boolean(kind):
        place = pc.index_in(pc.utf8_lower(pc.utf8_trim_whitespace(text)), value_set=pa.array([*TRUE, *FALSE]))
        cell.refuse(numbers(pc.and_(place.is_null(), text.is_valid())), values, "true or false")
        return pc.less(place, len(TRUE))
    return text


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


def read_texts(values: pa.Array, cell: Cell) -> pa.Array:
    """Text, blank cells being empty."""
    text = _each(values, lambda part: part.cast(pa.string()), cell, "text")
    return pc.if_else(pc.equal(pc.utf8_trim_whitespace(text), ""), None, text)


def _amounts(values: pa.Array, kind: pa.DataType, cell: Cell) -> pa.Array:
    """Numbers of a kind, or an error that names the first that is none."""
    amount = cell.column in AMOUNTS
    expected = ("a whole number" if pa.types.is_integer(kind) else "a number") + (" from 0 on" if amount else "")
    found = _each(values, lambda part: _cast(part, kind, cell), cell, expected)
    plain = numbers(found, 0)
    fine = np.isfinite(plain) | ((plain == np.inf) & (cell.column == "capacity"))  # no limit
    cell.refuse(~fine | (plain < 0) & amount, values, expected)
    return found


def _cast(values: pa.Array, kind: pa.DataType, cell: Cell) -> pa.Array:
    """Numbers from text or other numbers; 12.0 is a whole number."""
    if not pa.types.is_primitive(values.type):
        values = pc.utf8_trim_whitespace(read_texts(values, cell))
        if pa.types.is_integer(kind):
            dotted = pc.match_substring_regex(values, r"^[-+]?\d{1,15}\.0*$")
            values = pc.if_else(dotted, pc.replace_substring_regex(values, r"\..*", ""), values)
    return values.cast(kind)


def _masks(values: pa.Array, names: list[str], cell: Cell) -> pa.Array:
    """Masks of attributes that are given as a number, as names that are known between ;, or between ; | + or spaces."""
    text = read_texts(values, cell)
    digits = pc.all(pc.match_substring_regex(text, r"^\s*\d+\s*$")).as_py()
    if pa.types.is_integer(values.type) or digits:
        return _each(text, lambda part: _cast(part, pa.int64(), cell), cell, "a mask of at most 63 attributes")
    known = frozenset(names)
    split = [None if each is None else _attributes(each, known) for each in text.to_pylist()]
    names += sorted({name for each in split if each for name in each} - known)
    if len(names) > 63:
        raise BadTrace(f"{cell.where}: {len(names)} attributes. A mask holds at most 63.")
    bit = {name: 1 << i for i, name in enumerate(names)}
    return pa.array([None if each is None else sum(bit[name] for name in set(each)) for each in split], pa.int64())


def _attributes(text: str, known: Collection[str]) -> list[str]:
    """The attributes that a cell names; those that are known may have blanks and marks in their names."""
    for parts in ([text], text.split(";")):
        listed = [each.strip() for each in parts if each.strip()]
        if listed and all(each in known for each in listed):
            return listed
    return re.sub(r"[;|+]", " ", text).split()
