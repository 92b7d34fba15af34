"""CSV and other text with columns: one row a line, the columns mapped to fields.

A row is a message or, with a `receiver`, one delivery of it: rows with one key are one message. The
key is the mapped id, else (sender, at, topic, bytes), else the fields named by `group`.

Counts are rows with the messages and bytes of a client (or broker), topic and hour, as many systems can export them
cheaply. They go straight into traffic; the receivers follow from subscriptions.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Bools, Ints
from overlace.errors import BadParameter
from overlace.ingest.content import Content, add_content, settle_content, type_of
from overlace.ingest.events import Blocks, Format, Settled
from overlace.ingest.fields import COMMON, OPTIONS, match_columns, settle_mapping
from overlace.ingest.lines import MARK, Faults, TextLines, bad, read_lines, text_between
from overlace.ingest.rows import LARGEST, read_rows
from overlace.ingest.values import as_text, empty_as_null
from overlace.ingest.where import check_columns, filter_columns, select_rows, settle_kinds

DELIMITERS = ",;\t |"
CODED = ("client", "broker", "topic", "receiver")
"""Fields whose cells repeat."""

LISTS = ("receivers", "receiver", "attributes")
"""Fields where an empty cell is none, and a blank one an empty list."""

WORDS, SENTENCE = 6, 4
"""Words up to which a line may be a row, and from which a cell is a sentence."""

AT_ONCE = 256
"""Lines with quotes that are read at once."""

csv.field_size_limit(1 << 30)  # a line may be one cell


class CsvLayout(NamedTuple):
    """How a file of columns is laid out."""

    delimiter: str
    header: bool  # the first line names the columns
    columns: list[str]
    comments: bool  # lines of # are no rows
    head: str | None  # the line that names the columns


def detect_layout(head: bytes, delimiter: str | None = None, header: bool | None = None) -> CsvLayout:
    """The layout of a file from its first lines, but for what is given."""
    text = sample_lines(head)[:200] or [""]
    comments = _has_comments(text, delimiter)
    text = ([line for line in text if not (comments and line.startswith("#"))] or [""])[:20]
    delimiter = delimiter or _detect_delimiter(text)
    if delimiter == "\\t":
        delimiter = "\t"
    if len(delimiter.encode()) != 1:
        raise BadParameter(f"--delimiter {delimiter!r}: expected one character")
    first = sample_cells(text[0], delimiter)
    if header is None:
        header = not any(cell.strip().lstrip("-").replace(".", "", 1).isdigit() for cell in first)
    columns = first if header else [str(i) for i in range(len(first))]
    return CsvLayout(delimiter, header, columns, comments, text[0] if header else None)


def sample_lines(sample: bytes) -> list[str]:
    """The lines of a sample that are not blank."""
    lines = (line.rstrip("\r") for line in sample.removeprefix(MARK).decode("utf-8", "replace").split("\n"))
    return [line for line in lines if line.strip()]


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
    check_columns(options, layout.columns)
    lines = [line for line in sample_lines(sample) if line != layout.head]
    rows = [sample_cells(line, layout.delimiter) for line in lines if not (layout.comments and line.startswith("#"))]
    cells = [[row[i].strip(" ") for row in rows if i < len(row)] for i in range(len(found))]
    times = [cell for each, own in zip(found, cells, strict=True) if each and each.field == "at" for cell in own]
    settled = settle_mapping(cast(Settled, {**options, **layout._asdict()}), layout.columns, times, found, table=True)
    named = dict(zip(layout.columns, cells, strict=True))
    settled.update(settle_kinds(named, options))
    return settle_content(settled, named, lambda name: type_of(named[name]))


def sample_cells(line: str, delimiter: str) -> list[str]:
    """The cells of a line, whatever its quotes are."""
    cells = _split_line(line, delimiter)
    return cells if isinstance(cells, list) else line.split(delimiter)


def _split_line(line: str, delimiter: str) -> list[str] | int:
    """The cells of a line, or what is wrong with its quotes."""
    if '"' not in line and "\r" not in line and "\0" not in line:
        return line.split(delimiter) if line else []
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        return 2 if "expected after" in str(error) else 1


def read(blocks: Blocks, options: Settled, kind: str = "message", largest: int = LARGEST) -> Iterator[pa.RecordBatch]:
    """Events of rows; options as `settle` gives them."""
    names, types, delimiter = options["columns"], options.get("types") or {}, options["delimiter"] or ","
    fields: dict[str, list[int]] = {}
    ranked = [(each.rank, i, each.field) for i, each in enumerate(match_columns(names, options["map"])) if each]
    for _, place, field in sorted(ranked):
        fields.setdefault(field, []).append(place)
    places = {each: [i for i, name in enumerate(names) if name == each] for each in types}
    coded = {i for field in CODED for i in fields.get(field, ())}
    filtered = {name: names.index(name) for name in filter_columns(options)}
    used = sorted({i for each in (*fields.values(), *places.values(), filtered.values()) for i in each})
    reasons = {1: "a quote that is not closed", 2: "text after a closing quote", 3: f"not {len(names)} columns"}

    def rows(lines: TextLines) -> Iterator[pa.RecordBatch]:
        plain, bounds = _find_cells(lines, delimiter, len(names))
        if plain.any():
            cells = {i: text_between(lines.block, bounds[:, i] + 1, bounds[:, i + 1]) for i in used}
            columns = {i: each.dictionary_encode() if i in coded else each for i, each in cells.items()}
            yield from events_of(lines if plain.all() else lines.at(plain), columns)
        if not plain.all():
            others = lines.at(~plain)
            found, wrong = _read_quoted(others, delimiter, len(names))
            yield from bad(others, {reason: wrong == reason for reason in reasons}, reasons)
            if found:
                columns = {i: pa.array([row[i] for row in found], pa.string()) for i in used}
                yield from events_of(others.at(wrong == 0), columns)

    def events_of(lines: TextLines, columns: Mapping[int, pa.Array]) -> Iterator[pa.RecordBatch]:
        faults, content = Faults(len(lines.first)), Content()
        select_rows({name: as_text(columns[i]) for name, i in filtered.items()}, options, faults)
        for name, each in types.items():
            add_content(content, faults, name, _first_of(columns, places[name]).cast(pa.string()), each)
        found = {
            field: [columns[at[0]] if len(at) == 1 and field not in LISTS else _first_of(columns, at)]
            for field, at in fields.items()
        }
        yield from read_rows(lines, found, options, faults, kind=kind, largest=largest, content=content)

    head = options.get("head")
    yield from read_lines(blocks, rows, head.encode() if head is not None else None, options.get("comments", False))


def _first_of(columns: Mapping[int, pa.Array], places: Sequence[int]) -> pa.Array:
    """Of each row the first of some cells that is not empty."""
    found = [empty_as_null(columns[i]) for i in places]
    return found[0] if len(found) == 1 else pc.coalesce(*(each.cast(pa.string()) for each in found))


def _find_cells(lines: TextLines, delimiter: str, width: int) -> tuple[Bools, Ints]:
    """(plain, bounds): the lines with as many cells as they should have and no quotes, and what these lie between."""
    data = np.frombuffer(lines.block, np.uint8)
    marks = np.flatnonzero(data == ord(delimiter))
    begin = np.searchsorted(marks, lines.first)
    plain = np.searchsorted(marks, lines.last) - begin == width - 1
    if b'"' in lines.block:
        quotes = np.flatnonzero(data == ord('"'))
        plain &= np.searchsorted(quotes, lines.first) == np.searchsorted(quotes, lines.last)
    inner = marks[begin[plain][:, None] + np.arange(width - 1)]
    return plain, np.column_stack([lines.first[plain] - 1, inner, lines.last[plain]])


def _read_quoted(lines: TextLines, delimiter: str, width: int) -> tuple[list[list[str]], Ints]:
    """(rows, wrong): the cells of lines that can be split, and what is wrong with the others, 0 for nothing."""
    texts = [line.decode() for line in lines.each()]
    found: list[list[str] | int] = []
    for i in range(0, len(texts), AT_ONCE):
        some = texts[i : i + AT_ONCE]
        with suppress(csv.Error):
            rows = list(csv.reader(some, delimiter=delimiter, strict=True))
            if len(rows) == len(some):  # so none runs on into the next
                found += rows
                continue
        found += [_split_line(text, delimiter) for text in some]
    wrong = [each if isinstance(each, int) else 3 * (len(each) != width) for each in found]
    return [each for each in found if isinstance(each, list) and len(each) == width], np.array(wrong, np.int64)


def is_prose(found: CsvLayout, lines: Sequence[str]) -> bool:
    """Whether lines are sentences: many words, of which few are numbers and none names a column, or several in a cell.

    That as many blanks or commas are in each line is by chance.
    """
    rows = [sample_cells(line, found.delimiter) for line in lines]
    if found.delimiter == " ":
        cells = [cell for row in rows[found.header :] for cell in row if cell]
        again = not found.header or any(cell in found.columns for cell in cells)
        return len(found.columns) > WORDS and again and sum(map(_is_number, cells)) * 2 < len(cells)
    first = [row[0] for row, line in zip(rows, lines, strict=True) if row and not line.startswith('"')]
    sentences = [cell for cell in first if len(cell.split()) >= SENTENCE]
    return len(sentences) * 2 > len(rows) and first[0] in sentences


def _is_number(cell: str) -> bool:
    return cell.lstrip("+-").replace(".", "", 1).isdigit()


def sniff(head: bytes) -> float:
    """How much it looks like columns: every line has as many."""
    if head[:1] in (b"{", b"["):
        return 0.0
    lines = head.decode("utf-8", "replace").split("\n")[:20]
    if len(head) > 4000 or len(lines) > 1:
        lines = lines[:-1]
    found = detect_layout(head)
    lines = [line for line in lines if line.strip() and not (found.comments and line.startswith("#"))]
    if is_prose(found, lines):
        return 0.0
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
    options=OPTIONS | {"delimiter", "header"},
)


def settle_counts(sample: bytes, options: Settled) -> Settled:
    """As for other rows; a log without clients counts by broker."""
    asked = dict(options["map"])
    columns = detect_layout(sample, options.get("delimiter"), options.get("header")).columns
    if "client" not in asked and not any(c.strip().lower() in COMMON["client"] for c in columns):
        named = next((c for c in columns if c.strip().lower() in ("broker", "server")), None)
        if named:
            asked["client"] = (named,)
    return {**settle(sample, {**options, "map": asked}), "group": ()}


def sniff_counts(head: bytes) -> float:
    """A header that names messages and an hour."""
    first = head.partition(b"\n")[0].lower()
    return 0.9 if b"messages" in first and b"hour" in first else 0.0


COUNTS = Format(
    name="counts",
    scope="line",
    sniff=sniff_counts,
    read=partial(read, kind="counts", largest=2**53),  # beyond, sums are no longer exact everywhere
    settle=settle_counts,
    options=FORMAT.options - {"group", "list_separator", "content", "deliveries_where"},
)
