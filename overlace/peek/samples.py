"""The columns of a file's first rows, whatever kind of file it is: what guesses are made of."""

from __future__ import annotations

import csv
import json
from contextlib import suppress
from dataclasses import replace

import pyarrow.parquet as pq

from overlace.ingest.formats import padres_quotes
from overlace.ingest.formats.csv import Layout, detect_layout
from overlace.ingest.formats.json import lines_of
from overlace.ingest.lines import MARK
from overlace.ingest.options import Options
from overlace.peek.columns import Columns
from overlace.peek.guesses import looks_like_data
from overlace.peek.heads import Head

ROWS = 2000
"""Rows from which columns are guessed."""


def sample_columns(head: Head, form: str, asked: Options) -> tuple[Columns | None, Options]:
    """(columns, options): a sample of a file's columns, and how it is laid out where that must be said."""
    if form == "nats":  # JSON, but not of columns
        return None, asked
    if head.data.startswith(b"PAR1"):
        return _parquet_columns(head.path), asked
    text = head.data.removeprefix(MARK)
    if form == padres_quotes.FORMAT.name:
        return _quote_columns(text), asked
    if text.lstrip()[:1] in b"{[":
        return _json_columns(text, form), asked
    if form not in ("csv", "counts", ""):
        return None, asked
    layout = detect_layout(text, asked.delimiter, asked.header)
    found = Columns(layout.columns, _rows(text, layout))
    if not form and not _is_regular(text, found):
        return None, asked
    if asked.header is None and layout.header and looks_like_data(found):
        asked = replace(asked, header=False)
        layout = detect_layout(text, asked.delimiter, header=False)
        found = Columns(layout.columns, _rows(text, layout))
    return found, asked


def _is_regular(text: bytes, columns: Columns) -> bool:
    """Whether nearly all lines have as many cells as the first."""
    lines = sum(bool(line.strip()) for line in text.splitlines()[: ROWS + 1])
    return len(columns.names) > 1 and max(map(len, columns.values.values()), default=0) + 1 >= 0.9 * lines


def _rows(text: bytes, layout: Layout) -> list[list[str | None]]:
    """Rows of a sample of text, those of another length left out."""
    lines = text.decode("utf-8", "replace").splitlines()[: ROWS + 1]
    rows: list[list[str | None]] = []
    for line in (line for line in lines if line.strip() and not (layout.comments and line.startswith("#"))):
        with suppress(csv.Error):
            cells = next(csv.reader([line], delimiter=layout.delimiter), [])
            if len(cells) == len(layout.columns):
                rows.append([each or None for each in cells])
    return rows[1:] if layout.header else rows


def _parquet_columns(path: str) -> Columns | None:
    try:
        batch = next(pq.ParquetFile(path).iter_batches(ROWS), None)
    except (OSError, ValueError):
        return None
    if batch is None:
        return None
    rows = [[_shown(value) for value in row.values()] for row in batch.to_pylist()]
    return Columns(batch.schema.names, rows)


def _quote_columns(text: bytes) -> Columns | None:
    pairs = padres_quotes.sample_pairs(b"\n".join(text.split(b"\n")[:ROWS]))
    return Columns(pairs.names, pairs.rows()) if pairs is not None and pairs.names else None


def _json_columns(text: bytes, form: str) -> Columns | None:
    """Members of objects, or places in lists, one a line or in one array; of an object of lists its two sides."""
    lines = lines_of(text) if text.lstrip()[:1] == b"[" and b"\n[" not in text[:4096].replace(b" ", b"") else text
    rows: list[dict[str, object]] = []
    for line in lines.split(b"\n")[:ROWS]:
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
            row = {str(i): value for i, value in enumerate(row)} if isinstance(row, list) else row
            rows += [row] if isinstance(row, dict) else []
    if form == "jsonl" and rows and all(isinstance(each, list) for each in rows[0].values()):
        return None
    names = list(dict.fromkeys(name for row in rows for name in row))
    return Columns(names, [[_shown(row.get(name)) for name in names] for row in rows]) if names else None


def _shown(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    return json.dumps(value, default=str) if isinstance(value, list | dict) else str(value)
