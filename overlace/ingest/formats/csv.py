"""CSV and other text with columns: one row a line, the columns mapped to fields.

A row is a message or, with a `receiver`, one delivery of it: rows with one key are one message. The
key is the mapped id, else (sender, at, topic, bytes), else the fields named by `group`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from overlace.arrays.jit import Bools, Ints
from overlace.errors import BadParameter
from overlace.ingest.content import Content, add_content, settle_content
from overlace.ingest.events import Blocks, Format, Settled, in_one_piece
from overlace.ingest.fields import COMMON, OPTIONS, default_group, match_columns, settle_mapping
from overlace.ingest.lines import MARK, Faults, TextLines, bad, read_lines
from overlace.ingest.rows import LARGEST, read_rows
from overlace.ingest.values import empty_as_null

DELIMITERS = ",;\t |"
CODED = ("client", "broker", "topic", "receiver")
"""Fields whose cells repeat."""

LISTS = ("receivers", "receiver", "attributes")
"""Fields where an empty cell is none, and a blank one an empty list."""

AT_ONCE = 256
"""Lines with quotes that are read at once."""

csv.field_size_limit(1 << 30)  # a line may be one cell


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


class Table(NamedTuple):
    """How rows are read: how many cells they have, what lies between them, and which cells are used."""

    width: int
    delimiter: str
    fields: Mapping[str, Sequence[int]]  # field -> its columns, first choice first
    content: Mapping[str, Sequence[int]]


def read(blocks: Blocks, options: Settled, kind: str = "message", largest: int = LARGEST) -> Iterator[pa.RecordBatch]:
    """Events of rows; options as `settle` gives them."""
    names, types = options["columns"], options.get("types") or {}
    ranked = [(each.rank, i, each.field) for i, each in enumerate(match_columns(names, options["map"])) if each]
    fields: dict[str, list[int]] = {}
    for _, place, field in sorted(ranked):
        fields.setdefault(field, []).append(place)
    content = {each: [i for i, name in enumerate(names) if name == each] for each in types}
    table = Table(len(names), options["delimiter"] or ",", fields, content)

    def rows(lines: TextLines) -> Iterator[pa.RecordBatch]:
        plain = _are_plain(lines, table)
        if plain.all():
            yield from events_of(lines, _read_plain(lines, table))
            return
        others, cells, wrong = _read_others(lines.at(~plain), table)
        yield from bad(lines.at(~plain), {reason: wrong == reason for reason in (1, 2, 3)}, reasons)
        if plain.any():
            yield from events_of(lines.at(plain), _read_plain(lines.at(plain), table))
        if cells:
            yield from events_of(others, [pa.array(each, pa.string()) for each in zip(*cells, strict=True)])

    def events_of(lines: TextLines, columns: Sequence[pa.Array | None]) -> Iterator[pa.RecordBatch]:
        faults, said = Faults(len(lines.first)), Content()
        for name, each in types.items():
            add_content(said, faults, name, _first_of(columns, table.content[name]).cast(pa.string()), each)
        found = {
            field: [columns[at[0]] if len(at) == 1 and field not in LISTS else _first_of(columns, at)]
            for field, at in fields.items()
        }
        yield from read_rows(lines, found, options, faults, kind=kind, largest=largest, content=said)

    reasons = {1: "a quote that is not closed", 2: "text after a closing quote", 3: f"not {len(names)} columns"}
    head = options.get("head")
    yield from read_lines(blocks, rows, head.encode() if head is not None else None, options.get("comments", False))


def _first_of(columns: Sequence[pa.Array | None], places: Sequence[int]) -> pa.Array:
    """Of each row the first of some cells that is not empty."""
    found = [empty_as_null(columns[i]) for i in places]
    return found[0] if len(found) == 1 else pc.coalesce(*(each.cast(pa.string()) for each in found))


def _are_plain(lines: TextLines, table: Table) -> Bools:
    """Which lines have as many cells as they should, no quotes, and an end as usual."""
    block, first, last = lines.block, lines.first, lines.last
    data = np.frombuffer(block, np.uint8)
    marks, wanted = np.flatnonzero(data == ord(table.delimiter)), table.width - 1
    plain = np.ones(len(first), bool)
    even = wanted and len(marks) == wanted * len(first)
    if not (even and (marks[::wanted] >= first).all() and (marks[wanted - 1 :: wanted] < last).all()):
        plain = np.searchsorted(marks, last) - np.searchsorted(marks, first) == wanted
    if b'"' in block:
        plain[np.searchsorted(first, np.flatnonzero(data == ord('"')), "right") - 1] = False
    if b"\r" in block:
        ended = data[np.minimum(last, len(data) - 1)] == ord("\r")
        plain &= ~ended | (data[np.minimum(last + 1, len(data) - 1)] == ord("\n"))
    return plain


def _read_plain(lines: TextLines, table: Table) -> list[pa.Array | None]:
    """The columns that are used, read at once."""
    block, data = lines.block, np.frombuffer(lines.block, np.uint8)
    end = lines.last + (data[np.minimum(lines.last, len(data) - 1)] == ord("\r"))
    end = np.minimum(end + 1, len(data))
    cuts = np.flatnonzero(lines.first[1:] != end[:-1]) + 1
    runs = zip(lines.first[[0, *cuts]].tolist(), end[[*(cuts - 1), -1]].tolist(), strict=True)
    whole = memoryview(block)[lines.first[0] : end[-1]] if not len(cuts) else b"".join(block[i:j] for i, j in runs)
    coded = {place for field, places in table.fields.items() if field in CODED for place in places}
    used = sorted({i for places in (*table.fields.values(), *table.content.values()) for i in places})
    types = {str(i): pa.dictionary(pa.int32(), pa.string()) if i in coded else pa.string() for i in used}
    found = pa_csv.read_csv(
        pa.BufferReader(pa.py_buffer(whole)),
        pa_csv.ReadOptions(
            use_threads=False, column_names=[str(i) for i in range(table.width)], block_size=len(whole) + 1
        ),
        pa_csv.ParseOptions(delimiter=table.delimiter, quote_char=False, ignore_empty_lines=False),
        pa_csv.ConvertOptions(
            column_types=types, include_columns=[*types], strings_can_be_null=False, check_utf8=False
        ),
    )
    return [in_one_piece(found[str(i)]) if str(i) in types else None for i in range(table.width)]


def _read_others(lines: TextLines, table: Table) -> tuple[TextLines, list[list[str]], Ints]:
    """(lines, cells, wrong): the rows that can be split into cells, and what is wrong with the others."""
    texts = [line.decode() for line in lines.each()]
    found: list[list[str] | int] = []
    for i in range(0, len(texts), AT_ONCE):
        some = texts[i : i + AT_ONCE]
        with suppress(csv.Error):
            rows = list(csv.reader(some, delimiter=table.delimiter, strict=True))
            if len(rows) == len(some):  # so none runs on into the next
                found += rows
                continue
        found += [_split_strictly(text, table.delimiter) for text in some]
    wrong = np.array([each if isinstance(each, int) else 3 * (len(each) != table.width) for each in found], np.int64)
    cells = [each for each in found if isinstance(each, list) and len(each) == table.width]
    return lines.at(wrong == 0), cells, wrong


def _split_strictly(line: str, delimiter: str) -> list[str] | int:
    """The cells of a line, or what is wrong with its quotes."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error as error:
        return 2 if "expected after" in str(error) else 1


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
