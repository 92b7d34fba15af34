"""Publications as PADRES writes them, one a line: pairs of attribute and value in brackets, as in its stock quotes.

    [class,'STOCK'],[symbol,'AAPL'],[open,63.30],[high,64.25],[close,63.75],[volume,9000000],[date,'21-Dec-04']

A line is a message and all its pairs are its content: in quotes text, else a number (nan: none), or true or false. A
publication names neither its publisher nor when it was made: `--map client=symbol --map at=date` takes both from
attributes (a time also from any attribute that is called as logs call theirs). No attribute is taken for anything else
unasked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa

from overlace.arrays.brackets import NO_PAIRS, TWICE, UNQUOTED, Bracketed, scan_brackets
from overlace.arrays.jit import Ints
from overlace.arrays.text import ABSENT, NUMBER, Small, number_spans
from overlace.errors import BadTrace, Unknown
from overlace.ingest.cells import Spans, read_spans, text_at
from overlace.ingest.content import KINDS, Reader, asked_types, with_content
from overlace.ingest.content import Spans as Values
from overlace.ingest.events import Blocks, Format, Settled
from overlace.ingest.fields import COMMON, FIELDS, OPTIONS, PLACE, Column, match_columns, settle_mapping
from overlace.ingest.lines import TextLines, bad, read_lines

NAME = "padres-quotes"
REASONS = {
    NO_PAIRS: "not pairs of [attribute,value]",
    UNQUOTED: "a value that is neither in quotes, a number nor true or false",
    TWICE: "two values for one attribute",
}
LINE = re.compile(rb"^\s*\[\s*[A-Za-z_][^\[\],'\"]*,\s*('[^']*'|\"[^\"]*\"|[^\[\],'\"]+)\s*\]\s*(,\s*\[|$)")


class Pairs:
    """The pairs of lines by attribute."""

    def __init__(self, lines: TextLines) -> None:
        self.lines = lines
        data = lines.data
        self.found: Bracketed = scan_brackets(data, lines.first, lines.last, int(np.count_nonzero(data == 91)))
        self.code, where = number_spans(data, self.found.name, self.found.name_end)
        names = text_at(data, self.found.name[where], self.found.name_end[where])
        self.names: list[str] = names.to_pylist()
        self.line = np.repeat(np.arange(len(lines.first)), np.diff(self.found.start))

    def values(self, name: str) -> Values:
        """The values of an attribute, a line each."""
        n = len(self.lines.first)
        values = Values(np.full(n, -1), np.full(n, -1), np.full(n, ABSENT, np.int8))
        if name in self.names:
            mine = np.flatnonzero((self.code == self.names.index(name)) & (self.found.kind != ABSENT))
            at = self.line[mine]
            values.first[at], values.last[at] = self.found.value[mine], self.found.value_end[mine]
            values.kind[at] = self.found.kind[mine]
        return values

    def kinds(self, name: str) -> list[int]:
        """The kinds of values that an attribute has; it is a number where none of them is one."""
        kinds: list[int] = np.unique(self.found.kind[self.code == self.names.index(name)]).tolist()
        return [kind for kind in kinds if kind != ABSENT] or [NUMBER]

    def texts(self, name: str) -> list[str | None]:
        """The values of an attribute as they are written, a line each."""
        values = self.values(name)
        there = values.first >= 0
        words = iter(text_at(self.lines.data, values.first[there], values.last[there]).to_pylist())
        return [next(words) if each else None for each in there.tolist()]

    def rows(self) -> list[list[str | None]]:
        """The lines, each with its values as they are written."""
        return [list(row) for row in zip(*map(self.texts, self.names), strict=True)]


def read(blocks: Blocks, options: Settled) -> Iterator[pa.RecordBatch]:
    """Events of publications with their content, a line each; options as `settle` gives them."""
    wanted = asked_types(options.get("content") or ())

    def rows(lines: TextLines) -> Iterator[pa.RecordBatch]:
        block = lines.data.tobytes()
        pairs = Pairs(lines)
        state = pairs.found.state
        yield from bad(block, lines, {code: state == code for code in REASONS}, REASONS)
        reader = Reader(lines.data, len(state))
        for name in wanted or pairs.names:
            reader.add(name, pairs.values(name), wanted.get(name))
        yield from reader.bad(block, lines)
        fine = (state == 0) & (reader.wrong == 0)
        if fine.any():
            events = read_spans(block, lines.at(fine), _fields(pairs, options).at(fine), options)
            yield from with_content(events, lines.offsets, reader.columns)

    yield from read_lines(blocks, rows)


def _fields(pairs: Pairs, options: Settled) -> Spans:
    """The values that fields are read from: of each line the first that it has."""
    n = len(pairs.lines.first)
    first, last = (np.full((len(FIELDS), n), -1, np.int64) for _ in range(2))
    kind: Small = np.full((len(FIELDS), n), ABSENT, np.int8)
    for field, names in options["mapping"].items():
        place = PLACE[field]
        for name in names:
            values = pairs.values(name)
            use: Ints = np.flatnonzero((kind[place] == ABSENT) & (values.kind != ABSENT))
            for to, own in ((first, values.first), (last, values.last), (kind, values.kind)):
                to[place, use] = own[use]
    return Spans(first, last, kind)


def settle(sample: bytes, options: Settled) -> Settled:
    """Which attributes the first lines have, of which types, and which of them are the client and the time."""
    pairs = sample_pairs(sample)
    asked = options["map"]
    for name in (name for names in asked.values() for name in names):
        if pairs is not None and pairs.names and name not in pairs.names:
            raise Unknown("attribute of the first lines", name, pairs.names)
    listed = list(pairs.names) if pairs is not None else []
    columns = list(dict.fromkeys([*listed, *(name for names in asked.values() for name in names)]))
    found = [_only_times(each, asked) for each in match_columns(columns, asked)]
    times = [each.name for each in found if each and each.field == "at"]
    if listed and not times:
        raise BadTrace(
            f"no attribute is the time of a publication. Name one: --map at=ATTRIBUTE (found: {', '.join(listed)})."
        )
    if listed and "client" not in asked:
        first = guess_client([name for name in listed if name not in times] or listed)
        raise BadTrace(
            f"publications name no publisher. Expected an attribute that stands for one: --map client={first} (found: "
            f"{', '.join(listed)})."
        )
    samples = [text for name in times if pairs is not None for text in pairs.texts(name)]
    settled = settle_mapping(options, columns, samples, found)
    wanted = asked_types(options.get("content") or ())
    for name in wanted:
        if listed and name not in listed:
            raise Unknown("attribute of the first lines", name, listed)
    kinds = {name: pairs.kinds(name) for name in listed} if pairs is not None else {}
    settled["types"] = {
        name: wanted.get(name) or "|".join(KINDS[each] for each in kinds[name])
        for name in listed
        if not wanted or name in wanted
    }
    settled["unused"] = [name for name in settled["unused"] if name not in settled["types"]]
    return settled


def _only_times(column: Column | None, asked: Collection[str]) -> Column | None:
    """A column of a field that was asked for, or one of times: attributes are called as they like."""
    return column if column and (column.field == "at" or column.field in asked) else None


def sample_pairs(sample: bytes) -> Pairs | None:
    """The pairs of the first lines; none where there is no line."""
    found: list[TextLines] = []

    def take(lines: TextLines) -> Iterator[pa.RecordBatch]:
        found.append(lines)
        return iter(())

    list(read_lines(iter([(0, sample)]), take))
    return Pairs(found[0]) if found else None


def guess_client(names: Sequence[str]) -> str:
    """The attribute that likeliest stands for a publisher: one that is called so, the symbol, or any but the class."""
    likely = [name for name in names if name.lower() in (*COMMON["client"], "symbol")]
    return next(iter([*likely, *(name for name in names if name != "class"), *names]))


def sniff(head: bytes) -> float:
    """Whether the first lines are pairs in brackets."""
    lines = [line for line in head.split(b"\n")[:20] if line.strip()]
    shaped = sum(bool(LINE.match(line)) for line in lines)
    return 0.95 if lines and shaped * 2 > len(lines) else 0.0


FORMAT = Format(
    name=NAME,
    scope="line",
    sniff=sniff,
    read=read,
    settle=settle,
    content=True,
    options={
        "map": "field=attribute, several times; client must be mapped. fields: " + " ".join(FIELDS),
        "group": OPTIONS["group"],
        "broker": OPTIONS["broker"],
        "unit": OPTIONS["unit"],
        "list_separator": OPTIONS["list_separator"],
        "content": "attributes that are content (default: all), each with its type if need be: code:text",
    },
)

__all__ = ["FORMAT", "Pairs", "guess_client", "read", "sample_pairs", "settle", "sniff"]
