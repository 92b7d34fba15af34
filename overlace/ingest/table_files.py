"""Plain files for the tables of a trace: brokers, links, clients, sessions and so on, by name.

A file is CSV, JSON (objects or lists, one a line or in one array) or Parquet with columns of its table (`overlace
schema TABLE`), in which clients, brokers, topics and regions stand by name; text is UTF-8, gzipped or not.
`interests` is client and topic, without times; a JSON object of lists ({"user": ["topic", ...]}) is that too.

Keeps: a file that cannot be read as a table is refused in one line that says why.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from overlace.errors import BadTrace, Unknown
from overlace.ingest.files import read_unpacked
from overlace.ingest.formats.csv import detect_layout
from overlace.trace.tables import schema_of

TABLES = ("clients access brokers links sessions subscriptions advertisements peers channels interests").split()
JSON = (".json", ".jsonl", ".ndjson")


def read_table_file(
    path: str, table: str, options: Mapping[str, Any], tell: Callable[[str], object] = lambda note: None
) -> pa.Table:
    """A file as text or numbers, its columns renamed as the options' `map` says (table column = file column).

    Where columns are mapped, those that the table does not have are left out, and told.
    """
    if table not in TABLES:
        raise Unknown("table", table, TABLES)
    try:
        rows = _read(path, table, options)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise BadTrace(f"{path}: cannot be read as a table: {str(error).splitlines()[0]}") from None
    asked, known = dict(options.get("map") or {}), schema_of("subscriptions" if table == "interests" else table).names
    for name, column in asked.items():
        if name not in known:
            raise Unknown(f"column of the table {table}", name, known)
        if column not in rows.column_names:
            raise Unknown("column", column, rows.column_names)
    back = {column: name for name, column in asked.items()}
    names = [back.get(name, name.strip().lower()) for name in rows.column_names]
    if asked:
        used = [i for i, name in enumerate(names) if name in known]
        left_out = [name for name in rows.column_names if name not in {rows.column_names[i] for i in used}]
        if left_out:
            tell(f"{path}: columns not used: {', '.join(left_out)}")
        rows, names = rows.select(used), [names[i] for i in used]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise BadTrace(
            f"{path}: the column {twice[0]} stands twice. Keep one, or name it with --map COLUMN=FILE_COLUMN."
        )
    return rows.rename_columns(names)


def _read(path: str, table: str, options: Mapping[str, Any]) -> pa.Table:
    if Path(path).is_dir():
        return pq.read_table(path)
    data = read_unpacked(path, "a file of CSV, JSON or Parquet")
    ending = Path(path.removesuffix(".gz")).suffix.lower()
    if data[:4] == b"PAR1" or ending == ".parquet":
        return pq.ParquetFile(pa.BufferReader(data)).read()
    text = _text(path, data)
    if ending in JSON or text.startswith("{") or re.match(r"\[\s*[{\[]", text):
        lists = _lists(text) if table == "interests" else None
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


def _lists(text: str) -> pa.Table | None:
    """Interests from a JSON object of lists; None if it is none."""
    try:
        lists = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(lists, dict) or not all(isinstance(each, list) for each in lists.values()):
        return None
    if any(isinstance(topic, list | dict) for each in lists.values() for topic in each):
        return None
    who = np.repeat(list(lists), [len(each) for each in lists.values()])
    return pa.table({"client": who.astype(str), "topic": [str(t) for each in lists.values() for t in each]})


def _json_rows(path: str, text: str) -> pa.Table:
    """Objects or lists, one a line or in one array, as columns of text, numbers or truths; those of lists by number."""
    rows: list[dict[str, object]] = []
    kind: type | None = None
    for where, row in _json_values(text):
        kind = kind or (list if isinstance(row, list) else dict)
        if row is None or type(row) is not kind:
            raise BadTrace(f"{path}: {where} is no JSON object. Expected objects, one a line or in one array.")
        members = _members(row)
        nested = [name for name, value in members.items() if isinstance(value, list | dict)]
        if nested:
            raise BadTrace(f"{path}: {where}: {nested[0]} is a list or an object. Expected one value.")
        rows.append(members)
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: _column([row.get(name) for row in rows]) for name in names})


def _members(row: list[object] | dict[str, object]) -> dict[str, object]:
    """An object, or a list as one whose names are numbers."""
    return {str(i): value for i, value in enumerate(row)} if isinstance(row, list) else row


def _json_values(text: str) -> Iterator[tuple[str, list[object] | dict[str, object] | None]]:
    """(where, value) of the elements of a JSON array, else of lines."""
    if text.startswith("["):
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError):
            whole = [None]
        if all(isinstance(each, list | dict) for each in whole):
            yield from ((f"element {number}", each) for number, each in enumerate(whole, 1))
            return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield f"line {number}", json.loads(line)
            except (ValueError, RecursionError):
                yield f"line {number}", None


def _column(values: list[object]) -> pa.Array:
    """Values of one kind as they are, else as text."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) == 1 or kinds == {int, float}:
        try:
            return pa.array(values)
        except (pa.ArrowException, OverflowError):
            pass  # a number that is too large for any column
    return pa.array([value if value is None or isinstance(value, str) else json.dumps(value) for value in values])


def _csv(text: str, options: Mapping[str, Any]) -> pa.Table:
    """Columns of text; an empty cell is null."""
    layout = detect_layout(text[:4096].encode(), options.get("delimiter"), options.get("header"))
    columns = layout.columns
    if layout.comments:
        text = "\n".join(line for line in text.split("\n") if not line.startswith("#"))
    if layout.header and not text.partition("\n")[2].strip():
        return pa.table({name: pa.nulls(0, pa.string()) for name in columns})
    return pacsv.read_csv(
        pa.BufferReader(text.encode()),
        pacsv.ReadOptions(column_names=columns, skip_rows=1 if layout.header else 0),
        pacsv.ParseOptions(delimiter=layout.delimiter),
        pacsv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=True, null_values=[""]
        ),
    )
