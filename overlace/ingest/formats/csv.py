"""CSV and other text with columns: one row a line, the columns mapped to fields.

A row is a message or, with a `receiver`, one delivery of it: rows with one key are one message. The
key is the mapped id, else (sender, at, topic, bytes), else the fields named by `group`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from overlace.arrays.cells import AFTER_QUOTE, COLUMNS, OPEN_QUOTE, scan_cells
from overlace.arrays.jit import Ints
from overlace.arrays.text import Bytes
from overlace.errors import BadParameter
from overlace.ingest.cells import LARGEST, Spans, read_spans
from overlace.ingest.events import Blocks, Format
from overlace.ingest.fields import COMMON, FIELDS, OPTIONS, PLACE, match_columns, settle_mapping
from overlace.ingest.lines import MARK, bad, read_lines

DELIMITERS = ",;\t |"
KEY = ("client", "at", "topic", "bytes")
"""What makes rows one message where no id is mapped."""


def layout(head: bytes, options: Mapping[str, Any]) -> dict[str, Any]:
    """delimiter, columns and the header line, if there is one: as the options say, else from the first lines."""
    text = [line.rstrip("\r") for line in head.removeprefix(MARK).decode("utf-8", "replace").split("\n")[:200]]
    text = [line for line in text if line.strip()] or [""]
    comments = _has_comments(text, options)
    text = ([line for line in text if not (comments and line.startswith("#"))] or [""])[:20]
    delimiter = _delimiter(text, options)
    if delimiter == "\\t":
        delimiter = "\t"
    if len(delimiter.encode()) != 1:
        raise BadParameter(f"--delimiter {delimiter!r}: expected one character")
    try:
        first = next(csv.reader([text[0]], delimiter=delimiter), [])
    except csv.Error:  # what the reader of rows will refuse, too
        first = text[0].split(delimiter)
    header = options.get("header")
    if header is None:
        header = not any(cell.strip().lstrip("-").replace(".", "", 1).isdigit() for cell in first)
    columns = first if header else [str(i) for i in range(len(first))]
    named = {"delimiter": delimiter, "header": header, "columns": columns, "comments": comments}
    return {**options, **named, "head": text[0] if header else None}


def _delimiter(text: Sequence[str], options: Mapping[str, Any]) -> str:
    """The delimiter that was asked for, else the one that all of the first lines have most of."""
    given: str | None = options.get("delimiter")
    return given or max(DELIMITERS, key=lambda d: (min(line.count(d) for line in text[:5]), -DELIMITERS.index(d)))


def _has_comments(text: Sequence[str], options: Mapping[str, Any]) -> bool:
    """Whether a file begins with lines of # that are no header: several, or one of another shape than the rows."""
    rows = [line for line in text if not line.startswith("#")]
    if not text[0].startswith("#") or not rows:
        return False
    delimiter = _delimiter(rows, options)
    return text[1].startswith("#") or text[0].count(delimiter) != rows[0].count(delimiter)


def settle(sample: bytes, options: dict[str, Any]) -> dict[str, Any]:
    """The layout, which column is which, the key, and the unit of times."""
    settled = layout(sample, options)
    columns, delimiter = settled["columns"], settled["delimiter"]
    found = match_columns(columns, settled["map"])
    times = [i for i, each in enumerate(found) if each and each.field == "at"]
    lines = sample.removeprefix(MARK).decode("utf-8", "replace").split("\n")[:2000]
    cells = [line.rstrip("\r").split(delimiter) for line in lines[1 if settled["header"] else 0 :]]
    samples = [row[i].strip('" ') for row in cells for i in times if i < len(row)]
    settled = settle_mapping(settled, columns, samples, found)
    if not settled.get("group") and "key" not in settled["mapping"]:
        settled["group"] = tuple(name for name in KEY if name in settled["mapping"])
    return settled


def read(
    blocks: Blocks, options: Mapping[str, Any], kind: str = "message", largest: int = LARGEST
) -> Iterator[pa.RecordBatch]:
    """Events of rows; options as `settle` gives them."""
    columns = options["columns"]
    found = match_columns(columns, options["map"])
    field = np.array([PLACE[each.field] if each else -1 for each in found], np.int64)
    rank = np.array([each.rank if each else 0 for each in found], np.int64)
    reasons = {
        OPEN_QUOTE: "a quote that is not closed",
        AFTER_QUOTE: "text after a closing quote",
        COLUMNS: f"not {len(columns)} columns",
    }

    def rows(data: Bytes, first: Ints, last: Ints, offsets: Ints) -> Iterator[pa.RecordBatch]:
        block = data.tobytes()  # doubled quotes are decoded in place
        state, begin, end, kinds = scan_cells(data, first, last, ord(options["delimiter"]), field, rank, len(FIELDS))
        yield from bad(block, (first, last), offsets, {code: state == code for code in reasons}, reasons)
        fine = state == 0
        if fine.any():
            spans = Spans(begin, end, kinds).at(fine)
            yield from read_spans(block, data, (first[fine], last[fine]), offsets[fine], spans, options, kind, largest)

    head = options.get("head")
    yield from read_lines(blocks, rows, head.encode() if head is not None else None, options.get("comments", False))


def sniff(head: bytes) -> float:
    """How much it looks like columns: every line has as many."""
    if head[:1] in (b"{", b"["):
        return 0.0
    lines = head.decode("utf-8", "replace").split("\n")[:20]
    if len(head) > 4000 or len(lines) > 1:
        lines = lines[:-1]
    found = layout(head, {})
    lines = [line for line in lines if line.strip() and not (found["comments"] and line.startswith("#"))]
    counts = {line.count(found["delimiter"]) for line in lines}
    known = {name for names in COMMON.values() for name in names}
    named = found["header"] and sum(cell.strip().lower() in known for cell in found["columns"]) >= 2
    if len(counts) == 1 and counts != {0} and (named or not found["header"] or found["delimiter"] != " "):
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
