"""JSON lines: one object a line, its members mapped to fields.

    {"at": "2026-01-05T08:00:00Z", "client": "plc2", "topic": "fab/4/temp", "bytes": 4, "receivers": ["hmi7"]}

A line is a message. With an `id` lines of one id are one message; without, each is its own.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from overlace.ingest.formats.columns import COMMON, as_events, mapping
from overlace.ingest.formats.events import Format
from overlace.ingest.formats.lines import joined
from overlace.ingest.formats.rows import read_rows

NO_OBJECT = "not one JSON object"


def read(blocks: Iterator[tuple[int, bytes]], options: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """Events of JSON objects, a line each; options: `map` and `group`."""
    asked = dict(options.get("map") or {})
    group = tuple(options.get("group") or ())

    def parse(lines: pa.Array) -> pa.Table:
        reading = pajson.ReadOptions(use_threads=False, block_size=1 << 30)
        data = joined(lines)
        rows = pajson.read_json(io.BytesIO(data), read_options=reading)
        guessed = {f.name: _as_text(f.type) for f in rows.schema if _as_text(f.type) is not None}
        if guessed:  # Arrow takes text that looks like a date for one, and names would change
            explicit = pajson.ParseOptions(explicit_schema=pa.schema(guessed))
            rows = pajson.read_json(io.BytesIO(data), read_options=reading, parse_options=explicit)
        return rows

    def events_of(rows: pa.Table, lines: pa.Array, offsets: Any) -> pa.RecordBatch:
        return _events(rows, lines, offsets, asked, group)

    def braced(lines: pa.Array) -> pa.Array:  # Arrow's reader crashes on a line that is only null
        return pc.and_(pc.starts_with(lines, "{"), pc.ends_with(lines, "}"))

    yield from read_rows(blocks, parse, events_of, lambda error: NO_OBJECT, shaped=braced)


def _as_text(kind: pa.DataType) -> pa.DataType | None:
    """The type that keeps the text of what was taken for times."""
    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_list(kind) and pa.types.is_timestamp(kind.value_type):
        return pa.list_(pa.string())
    return None


def _events(
    rows: pa.Table, lines: pa.Array, offsets: Any, asked: Mapping[str, str], group: tuple[str, ...]
) -> pa.RecordBatch:
    """Rows to events; a member that no row of this block has is empty, one that was asked for too."""
    for column in asked.values():
        if column not in rows.column_names:
            rows = rows.append_column(column, pa.nulls(rows.num_rows, pa.string()))
    nested = [f.name for f in rows.schema if pa.types.is_struct(f.type) or pa.types.is_map(f.type)]
    fields = mapping([c for c in rows.column_names if c not in nested], asked)
    return as_events(rows.drop_columns(nested), lines, offsets, fields, group)


def sniff(head: bytes) -> float:
    """How much it looks like JSON objects, a line each, with members that logs have."""
    line = head.lstrip().partition(b"\n")[0].strip()
    if not line.startswith(b"{"):
        return 0.0
    known = sum(f'"{name}"'.encode() in line for names in COMMON.values() for name in names)
    return 0.95 if known >= 2 and line.endswith(b"}") else 0.5


FORMAT = Format(
    name="jsonl",
    scope="line",
    sniff=sniff,
    read=read,
    options={
        "map": "field=member, several times; fields: key at client receiver receivers topic bytes broker weight",
        "group": "lines that agree in these fields are one message",
    },
)
