"""CSV and other text with columns: one row a line, the columns mapped to fields.

A row is a message or, with a `receiver`, one delivery of it: rows with one key are one message. The
key is the mapped id, else (sender, at, topic, bytes), else the fields named by `group`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overlace.arrays.cells import AFTER_QUOTE, COLUMNS, OPEN_QUOTE, scan_cells
from overlace.errors import BadParameter
from overlace.ingest.cells import LARGEST, Spans, read_spans
from overlace.ingest.content import Reader, settle_content, with_content
from overlace.ingest.content import Spans as Values
from overlace.ingest.events import Blocks, Format, Settled
from overlace.ingest.fields import COMMON, FIELDS, OPTIONS, PLACE, match_columns, settle_mapping
from overlace.ingest.lines import MARK, TextLines, bad, read_lines

DELIMITERS = ",;\t |"
KEY = ("client", "at", "topic", "bytes")
"""What makes rows one message where no id is mapped."""


class Layout(NamedTuple):
    """How a file of columns is laid out."""

    delimiter: str
    header: bool  # the first line names the columns
    columns: list[str]
    comments: bool  # lines of # are no rows
    head: str | None  # the line that names the columns


def detect_layout(head: bytes, delimiter: str | None = None, header: bool | None = None) -> Layout:
    """The layout of a file from its first lines, but for what is given."""
    text = [line.rstrip("\r") for line in head.removeprefix(MARK).decode("utf-8", "replace").split("\n")[:200]]
    text = [line for line in text if line.strip()] or [""]
    comments = _has_comments(text, delimiter)
    text = ([line for line in text if not (comments and line.startswith("#"))] or [""])[:20]
    delimiter = delimiter or _detect_delimiter(text)
    if delimiter == "\\t":
        delimiter = "\t"
    if len(delimiter.encode()) != 1:
        raise BadParameter(f"--delimiter {delimiter!r}: expected one character")
    first = _split_line(text[0], delimiter)
    if header is None:
        header = not any(cell.strip().lstrip("-").replace(".", "", 1).isdigit() for cell in first)
    columns = first if header else [str(i) for i in range(len(first))]
    return Layout(delimiter, header, columns, comments, text[0] if header else None)


def _detect_delimiter(text: Sequence[str]) -> str:
    """The delimiter that all of the first lines have most of."""
    return max(DELIMITERS, key=lambda d: (min(line.count(d) for line in text[:5]), -DELIMITERS.index(d)))


def _has_comments(text: Sequence[str], delimiter: str | None) -> bool:
    """Whether a file begins with lines of # that are no header: several, or one of another shape than the rows."""
    rows = [line for line in text if not line.startswith("#")]
    if not text[0].startswith("#") or not rows:
        return False
    mark = delimiter or _detect_delimiter(rows)
    return text[1].startswith("#") or text[0].count(mark) != rows[0].count(mark)


def settle(sample: bytes, options: Settled) -> Settled:
    """The layout, which column is which, the key, and the unit of times."""
    layout = detect_layout(sample, options.get("delimiter"), options.get("header"))
    found = match_columns(layout.columns, options["map"])
    times = [i for i, each in enumerate(found) if each and each.field == "at"]
    cells = _sample_cells(sample, layout)
    samples = [row[i] for row in cells for i in times if i < len(row)]
    laid_out: Settled = {
        **options,
        "delimiter": layout.delimiter,
        "header": layout.header,
        "columns": layout.columns,
        "comments": layout.comments,
        "head": layout.head,
    }
    settled = settle_mapping(laid_out, layout.columns, samples, found)
    if settled.get("content"):
        places = enumerate(layout.columns)
        settle_content(settled, {name: [row[i] for row in cells if i < len(row)] for i, name in places})
    settled["group"] = settled.get("group") or default_group(settled)
    return settled


def _sample_cells(sample: bytes, layout: Layout) -> list[list[str]]:
    """The cells of the first rows, as the reader of rows splits them."""
    lines = (line.rstrip("\r") for line in sample.removeprefix(MARK).decode("utf-8", "replace").split("\n"))
    rows = (
        line
        for line in lines
        if line.strip() and line != layout.head and not (layout.comments and line.startswith("#"))
    )
    return [[cell.strip(" ") for cell in _split_line(line, layout.delimiter)] for line in rows]


def _split_line(line: str, delimiter: str) -> list[str]:
    """The cells of a line."""
    if '"' not in line:
        return line.split(delimiter) if line else []
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # what the reader of rows will refuse, too
        return line.split(delimiter)


def default_group(settled: Settled) -> tuple[str, ...]:
    """The fields that make rows one message where nothing was asked; with content and no receiver each row is one."""
    mapping = settled["mapping"]
    if "key" in mapping or (settled.get("content") and not {"receiver", "receivers"} & set(mapping)):
        return ()
    return tuple(name for name in KEY if name in mapping)


def read(blocks: Blocks, options: Settled, kind: str = "message", largest: int = LARGEST) -> Iterator[pa.RecordBatch]:
    """Events of rows; options as `settle` gives them."""
    columns, delimiter = options["columns"], ord(options["delimiter"] or ",")
    found = match_columns(columns, options["map"])
    field = np.array([PLACE[each.field] if each else -1 for each in found], np.int64)
    rank = np.array([each.rank if each else 0 for each in found], np.int64)
    reasons = {
        OPEN_QUOTE: "a quote that is not closed",
        AFTER_QUOTE: "text after a closing quote",
        COLUMNS: f"not {len(columns)} columns",
    }

    types = options.get("types") or {}
    own = np.array([list(types).index(name) if name in types else -1 for name in columns], np.int64)

    def content(lines: TextLines) -> Iterator[pa.RecordBatch]:
        copied = lines._replace(data=lines.data.copy())
        state, begin, end, kinds = scan_cells(copied.data, copied.first, copied.last, delimiter, own, own, len(types))
        reader = Reader(copied.data, len(state))
        for place, (name, each) in enumerate(types.items()):
            reader.add(name, Values(begin[place], end[place], kinds[place]), each)
        reader.wrong[state != 0] = 0  # told by the reader of fields
        yield from reader.bad(lines.data.tobytes(), lines)
        if (reader.wrong == 0).any():
            yield from with_content(rows(lines.at(reader.wrong == 0)), lines.offsets, reader.columns)

    def rows(lines: TextLines) -> Iterator[pa.RecordBatch]:
        block = lines.data.tobytes()  # doubled quotes are decoded in place
        state, begin, end, kinds = scan_cells(lines.data, lines.first, lines.last, delimiter, field, rank, len(FIELDS))
        yield from bad(block, lines, {code: state == code for code in reasons}, reasons)
        fine = state == 0
        if fine.any():
            yield from read_spans(block, lines.at(fine), Spans(begin, end, kinds).at(fine), options, kind, largest)

    head = options.get("head")
    parts = content if types else rows
    yield from read_lines(blocks, parts, head.encode() if head is not None else None, options.get("comments", False))


def sniff(head: bytes) -> float:
    """How much it looks like columns: every line has as many."""
    if head[:1] in (b"{", b"["):
        return 0.0
    lines = head.decode("utf-8", "replace").split("\n")[:20]
    if len(head) > 4000 or len(lines) > 1:
        lines = lines[:-1]
    found = detect_layout(head)
    lines = [line for line in lines if line.strip() and not (found.comments and line.startswith("#"))]
    counts = {line.count(found.delimiter) for line in lines}
    known = {name for names in COMMON.values() for name in names}
    named = found.header and sum(cell.strip().lower() in known for cell in found.columns) >= 2
    if len(counts) == 1 and counts != {0} and (named or not found.header or found.delimiter != " "):
        return 0.6  # words with blanks between them are a text, unless they are numbers or names of columns
    return 0.5 if named else 0.1


FORMAT = Format(
    name="csv",
    scope="line",
    sniff=sniff,
    read=read,
    settle=settle,
    options={
        **OPTIONS,
        "delimiter": "column delimiter (default: detected)",
        "header": "whether the first line names the columns (default: detected)",
    },
)
