"""CSV and other text with columns: one row a line, the columns mapped to fields.

A row is a message or, with a `receiver`, one delivery of it: rows with one key are one message. The
key is the mapped id, else (sender, at, topic, bytes), else the fields named by `group`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from overlace.ingest.formats.columns import as_events, mapping
from overlace.ingest.formats.events import Format
from overlace.ingest.formats.lines import joined
from overlace.ingest.formats.rows import read_rows

DELIMITERS = ",;\t |"


def layout(head: bytes, options: Mapping[str, Any]) -> dict[str, Any]:
    """delimiter, columns and whether there is a header line: as the options say, else from the first lines."""
    text = head.decode("utf-8", "replace").splitlines() or [""]
    delimiter = options.get("delimiter") or max(
        DELIMITERS, key=lambda d: (min(line.count(d) for line in text[:5]), -DELIMITERS.index(d))
    )
    first = next(csv.reader([text[0]], delimiter=delimiter), [])
    header = options.get("header")
    if header is None:
        header = not any(cell.strip().lstrip("-").replace(".", "", 1).isdigit() for cell in first)
    columns = first if header else [str(i) for i in range(len(first))]
    return {**options, "delimiter": delimiter, "header": header, "columns": columns}


def read(blocks: Iterator[tuple[int, bytes]], options: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """Events of CSV rows; options as `layout` gives them, with `map` and `group`."""
    columns, delimiter = list(options["columns"]), options["delimiter"]
    fields = mapping(columns, options.get("map") or {})
    group = options.get("group") or ()
    if not group and "key" not in fields:
        group = tuple(name for name in ("client", "at", "topic", "bytes") if name in fields)
    reading = pacsv.ReadOptions(column_names=columns, use_threads=False, block_size=1 << 30)
    parsing = pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=False, ignore_empty_lines=False)
    strings = pacsv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=False)

    def parse(lines: pa.Array) -> pa.Table:
        return pacsv.read_csv(io.BytesIO(joined(lines)), reading, parsing, strings)

    def events_of(rows: pa.Table, lines: pa.Array, offsets: Any) -> pa.RecordBatch:
        return as_events(rows, lines, offsets, fields, group)

    yield from read_rows(blocks, parse, events_of, _reason, header=options["header"])


def _reason(error: str) -> str:
    """An Arrow message without the line it quotes."""
    return (
        error.partition(": Row #")[0].partition("CSV parse error: ")[2].partition(":")[0] or "not a row of this table"
    )


def sniff(head: bytes) -> float:
    """How much it looks like columns: every line has as many."""
    if head[:1] in (b"{", b"["):
        return 0.0
    lines = head.decode("utf-8", "replace").splitlines()[:20]
    if len(head) > 4000:
        lines = lines[:-1]
    found = layout(head, {})
    counts = {line.count(found["delimiter"]) for line in lines if line}
    return 0.6 if len(counts) == 1 and counts != {0} else 0.1


FORMAT = Format(
    name="csv",
    scope="line",
    sniff=sniff,
    read=read,
    options={
        "map": "field=column, several times; fields: key at client receiver receivers topic bytes broker weight",
        "group": "rows that agree in these fields are one message: sender,at for e-mail",
        "delimiter": "what stands between columns (default: found out)",
        "header": "whether the first line names the columns (default: found out)",
    },
)
