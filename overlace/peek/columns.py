"""The columns of a sample: which are the fields of a log, which make a table of a trace, which hold times or names.

A guess says what it rests on: names, parts of names, and what columns hold. Rows and times are read as the formats of
logs read them. Numbers that never fall may be times too; columns with many values in common are sender and receiver.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from overlace.errors import OverlaceError
from overlace.ingest.fields import UNIT_WORDS, ZONELESS, mapping_of, match_columns, unit_of
from overlace.ingest.formats import json as json_array
from overlace.ingest.formats import padres_quotes, parquet
from overlace.ingest.formats.csv import detect_layout, is_prose, sample_cells, sample_lines
from overlace.ingest.lines import MARK
from overlace.ingest.options import Options
from overlace.ingest.values import times
from overlace.trace.tables import schema_of

ROWS = 2000
"""Rows from which columns are guessed."""

DEPTH = 4
"""Objects inside one another whose members are looked at."""

WITH_COLUMNS = ("csv", "counts", "json", "jsonl", "parquet")
"""Formats whose rows have columns of any name."""

TABLE_COLUMNS = (
    ("interests", "client topic"), ("links", "left right"), ("sessions", "client broker"),
    ("subscriptions", "client topic"), ("subscriptions", "client filter"), ("advertisements", "client attributes"),
    ("brokers", "broker"), ("access", "region broker"), ("clients", "client"), ("channels", "combination channel"),
    ("peers", "left right"),
)  # fmt: skip
"""Columns that identify a table, the likeliest tables first."""

NAMED = "by name"
LISTS = re.compile(r'\["[^"{}\[\]]*"(, "[^"{}\[\]]*")*\]|\[\]')
"""A list of names, as a cell has it."""

SHARED = 0.2
"""Share of the values of the smaller column from which two columns hold the same kind of names."""

STRONG = {
    "at": "time timestamp datetime when date epoch sent created logged ts zeitpunkt zeitstempel",
    "receiver": (
        "receiver receivers recipient recipients to dst dest destination target subscriber subscribers consumer callee "
        "rcpt empfänger empfaenger"
    ),
    "client": "client sender from src source publisher producer author caller origin absender",
    "topic": "topic subject channel queue stream room genre category tag hashtag thema",
    "bytes": "bytes size length größe groesse",
    "broker": "broker server gateway",
}
WEAK = {
    "client": "user username device member account person actor sensor uid who",
    "topic": "group item interest feed path list movie product page song artist",
}
"""Words in the names of columns by the field they stand for; the weak ones where no other column is it."""

OTHER_DATES = (
    r"(?<![\d.])\d{1,2}[./-]\d{1,2}[./-]\d{2,4}(?![\d.])|\d{1,2}[- /][A-Z][a-z]{2}[- /]\d{2,4}|"
    r"[A-Z][a-z]{2} +\d{1,2}\b.*\d:\d\d|\d\d:\d\d:\d\d"
)
"""Times as people write them, which no two read alike."""

Fields = Mapping[str, tuple[str, str]]
"""Column -> (field, why)."""


class Guess(NamedTuple):
    """What a column of a file is taken for: nothing if it is not used."""

    column: str
    field: str
    sample: str
    why: str


class Columns:
    """The columns of a sample by name: the values that are not empty, the names that these list, what is a number."""

    def __init__(self, names: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
        self.rows, self.names, self.cells = len(rows), list(dict.fromkeys(names)), rows
        self.known = {name: [row[name] for row in rows if row.get(name)] for name in self.names}
        self.sets = {
            name: {part.strip() for each in {*own} for part in re.split("[;|,]", each)} - {""}
            for name, own in self.known.items()
        }
        self.numbers = {name: _numbers(values) for name, values in self.known.items()}
        self.time_kinds = {name: _time_kind(values[:500]) for name, values in self.known.items()}
        self.kind = ""  # the column that says of what kind a row is

    def rows_by(self, name: str, values: Sequence[str]) -> list[Mapping[str, str]]:
        """The rows that have one of some values in a column."""
        return [row for row in self.cells if row.get(name) in values]

    def share(self, shape: str, name: str) -> float:
        """The share of the values of a column that hold a regular expression."""
        return sum(bool(re.search(shape, each)) for each in self.known[name]) / max(1, len(self.known[name]))

    def shared(self, left: str, right: str) -> float:
        """The share of the values of the smaller column that the other has too."""
        a, b = self.sets[left], self.sets[right]
        return len(a & b) / min(len(a), len(b)) if min(len(a), len(b)) > 1 else 0.0

    def guesses(self, fields: Fields) -> list[Guess]:
        """Each column with what it is taken for."""
        given = {name: fields.get(name, ("", "")) for name in self.names}
        return [Guess(name, field, (self.known[name] or [""])[0], why) for name, (field, why) in given.items()]

    def is_nested(self, name: str) -> bool:
        """Whether a column holds lists or objects."""
        return any(each.startswith(("{", "[")) for each in self.known[name][:20])

    def could_be_names(self, name: str) -> bool:
        """Whether a column could hold names: neither fractions, nor long texts, nor lists."""
        strange = max(self.share(r"(?s).{81}", name), self.share(r"^-?\d*\.\d+$", name))
        dated = not self.time_kinds[name] and self.share(rf"^\W*({OTHER_DATES})", name) > 0.5
        few = len(self.known[name]) * 2 <= self.rows
        return not (few or dated or strange > 0.5 or name == self.kind or self.is_nested(name))

    def lists_names(self, name: str) -> bool:
        """Whether each cell is a list of names."""
        return bool(self.known[name]) and all(map(LISTS.fullmatch, self.known[name]))

    def fans_out(self, name: str, same: Sequence[str]) -> bool:
        """Whether rows that agree in some columns differ in this one, and its names come again in other rows."""
        groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for row in self.cells:
            groups[tuple(row.get(each, "") for each in same)].append(row.get(name, ""))
        several = [own for own in groups.values() if len(own) > 1]
        differ = sum(len({*own}) == len(own) for own in several)
        often = sum(map(len, several)) > SHARED * self.rows
        return often and differ > 0.95 * len(several) and 1 < len({*self.known[name]}) < len(self.known[name]) / 2

    def could_be_costs(self, name: str) -> bool:
        """Whether a column could hold what links cost."""
        numbers = self.numbers[name]
        called = name.isdecimal() or re.search("cost|weight|price|distance|length|metric|delay", name.lower())
        return bool(called) and len(numbers) == self.rows > 0 and min(numbers) >= 0

    def is_counted(self, name: str) -> bool:
        """Whether a column holds the numbers of rows."""
        return len(self.numbers[name]) == len(self.known[name]) and bool((np.diff(self.numbers[name]) == 1).all())

    def never_falls(self, name: str) -> bool:
        """Whether a column holds numbers of 0 or more that grow, and not by one from row to row."""
        numbers = self.numbers[name]
        if len(numbers) < max(3, 0.98 * len(self.known[name])) or min(numbers) < 0 or self.is_counted(name):
            return False
        rises = numbers[-1] - numbers[0] >= len(numbers) / 2
        return rises and bool((np.diff(numbers) >= 0).mean() >= 0.98)


def _numbers(values: Sequence[str]) -> list[float]:
    found = []
    for each in values:
        with suppress(ValueError):
            found.append(float(each))
    return [value for value in found if math.isfinite(value)]


def _label(cell: str) -> str:
    """The label before a number, as in Offset:12; nothing if there is none."""
    found = re.fullmatch(r"([A-Za-z_]+):\d+", cell)
    return found[1] if found else ""


def _is_sized(values: Sequence[str]) -> bool:
    """Whether most values are numbers, and as times they are from 1990 to 2100."""
    numbers = sorted(_numbers(values))
    per_second = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit_of(values) or "s"]
    return len(numbers) * 2 > len(values) and 6.3e8 < numbers[len(numbers) // 2] / per_second < 4.1e9


def _time_kind(values: Sequence[str]) -> str:
    """What makes values look like times, as the formats read them; nothing if it does not."""
    if not values or times(pa.array(values, pa.string()))[1].sum() * 2 < len(values):
        return ""
    if sum("-" in each[1:] for each in values) > len(values) // 2:
        return "ISO times" + (", without a zone" if ZONELESS.match(values[0]) else "")
    return f"numbers, taken as {UNIT_WORDS[unit_of(values) or 's']} since 1970"


# --- the first rows ---------------------------------------------------------------------------------------


def sample_columns(path: str, data: bytes, form: str, asked: Options) -> tuple[Columns | None, Options]:
    """(columns, options): the first rows by column, and the options, which deny a header if there is none."""
    data = data.removeprefix(MARK)
    rows: list[Any] = []
    if form not in ("", *WITH_COLUMNS, padres_quotes.NAME):
        return None, asked
    if data.startswith(parquet.MAGIC):
        with suppress(OverlaceError, OSError, ValueError), parquet.open_parquet(path) as file:
            rows = next((batch.to_pylist() for batch in file.iter_batches(ROWS)), [])
    elif form == padres_quotes.NAME:
        rows = padres_quotes.sample_pairs(data)[:ROWS]
    elif data.lstrip()[:1] in (b"{", b"["):
        lines = json_array.lines_of(data) if re.match(rb"\s*\[\s*[\[{]", data) else data
        for line in lines.split(b"\n")[:ROWS]:
            with suppress(ValueError, RecursionError):
                row = json.loads(line)
                rows.append({str(i): each for i, each in enumerate(row)} if isinstance(row, list) else row)
    else:
        return _text_columns(data, form, asked)
    rows = [row for row in rows if isinstance(row, dict)]
    if not any(rows) or (form == "jsonl" and all(isinstance(each, list) for each in rows[0].values())):
        return None, asked
    if not data.startswith(parquet.MAGIC):
        rows = [dict(_members(row)) for row in rows]
    cells = [{_cell(name): _cell(value) for name, value in row.items()} for row in rows]
    return Columns(sorted((name for row in cells for name in row), key=lambda name: name.count(".")), cells), asked


def _members(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The members of an object, and of those inside them by their paths."""
    for name, value in row.items():
        if isinstance(value, dict) and value and prefix.count(".") < DEPTH:
            yield from _members(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _cell(value: object) -> str:
    """A value as a cell of CSV has it; empty if there is none."""
    text = json.dumps(value, default=str) if isinstance(value, list | dict) else "" if value is None else str(value)
    return text.encode("utf-8", "replace").decode()


def _text_columns(data: bytes, form: str, asked: Options) -> tuple[Columns | None, Options]:
    lines = [line for line in data[: 1 << 18].split(b"\n")[: ROWS + 1] if line.strip()]
    layout = detect_layout(b"\n".join(lines), asked.delimiter, asked.header)
    kept = [line for line in sample_lines(b"\n".join(lines)) if not (layout.comments and line.startswith("#"))]
    cells = [[cell.strip(" ") for cell in sample_cells(line, layout.delimiter)] for line in kept[layout.header :]]
    backwards = layout.columns[::-1]  # of columns of one name the first counts
    whole = [dict(zip(backwards, row[::-1], strict=True)) for row in cells if len(row) == len(backwards)]
    found = Columns(layout.columns, whole)
    texts = [line.decode("utf-8", "replace") for line in lines[:20]]
    if not form and (len(layout.columns) < 2 or found.rows + 1 < 0.9 * len(lines) or is_prose(layout, texts)):
        return None, asked
    meaning = any(_field_in(name, words) for name in found.names for words in (STRONG, WEAK))
    again = any(name in values for name in found.names for values in found.known.values())
    marked = any(_label(name) and {*map(_label, values)} == {_label(name)} for name, values in found.known.items())
    if asked.header is None and layout.header and (marked or (again and not meaning)):  # the first line is one more row
        return _text_columns(data, form, replace(asked, header=False))
    return found, asked


# --- fields of a log -----------------------------------------------------------------------------------------


def guess_fields(form: str, columns: Columns) -> dict[str, tuple[str, str]]:
    """The columns that are fields of a log: with at and client it can be one; of publications the time and the client.

    The attributes of publications may have any name, and none of them is a publisher.
    """
    found: dict[str, tuple[str, str]] = {}
    for field, names in mapping_of(match_columns(columns.names, {})).items():
        timeless = [name for name in names if field == "at" and columns.known[name] and not columns.time_kinds[name]]
        found |= dict.fromkeys((name for name in names if name not in timeless), (field, NAMED))
    for words, why in ((STRONG, "by its name"), (WEAK, "perhaps, by its name")):
        for name in columns.names:
            field, known = _field_in(name, words), columns.known[name]
            fits = columns.time_kinds[name] if field == "at" else known and not columns.is_nested(name)
            fits = all(map(str.isdecimal, known)) if field == "bytes" else fits
            if field == "receiver" and columns.lists_names(name):
                field, fits = "receivers", True
            if name not in found and field and not _has(found, "receiver" if field == "receivers" else field) and fits:
                found[name] = (field, why)
    if not _has(found, "at"):
        found |= _guess_time(columns, [name for name in columns.names if name not in found])
    if form != padres_quotes.NAME:
        return found | _guess_names(columns, found)
    times = {name: each for name, each in found.items() if each[0] == "at"}
    client = padres_quotes.guess_client([name for name in columns.names if name not in times] or columns.names)
    content = dict.fromkeys(columns.names, ("content", ""))
    return {**content, **times, client: ("client", "in place of a publisher, as publications name none")}


def _has(found: Fields, field: str) -> bool:
    return any(each in (field, "receivers" if field == "receiver" else field) for each, _ in found.values())


def _field_in(name: str, words: Mapping[str, str]) -> str:
    """The field of the first word in the name of a column that stands for one."""
    parts = re.findall(r"[A-ZÄÖÜ]?[a-zäöüß]+|[A-Z]+|\d+", name)
    return next((field for part in parts for field, own in words.items() if part.lower() in own.split()), "")


def _guess_time(columns: Columns, free: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The column that holds times: by their form, by their size, or as numbers that never fall."""
    free = [name for name in free if not columns.is_nested(name)]
    for name in free:
        kind = columns.time_kinds[name]
        if kind.startswith("ISO") or (kind and _is_sized(columns.known[name])):
            return {name: ("at", kind)}
    growing = [name for name in free if columns.never_falls(name)] if len(columns.names) > 2 else []
    others = [name for name in columns.names if name not in growing]
    alone = [name for name in growing if all(columns.shared(name, other) < SHARED for other in others)]
    return dict.fromkeys(alone[:1], ("at", "numbers that never fall, taken as seconds"))


def _guess_names(columns: Columns, found: Fields) -> dict[str, tuple[str, str]]:
    """Sender and receiver as columns with the same names in them, a topic, and the first column as sender."""
    added: dict[str, tuple[str, str]] = {}
    free = [name for name in columns.names if name not in found and columns.could_be_names(name)]
    few = [name for name in free if len(columns.known[name]) <= 3]  # one value in few rows, or their numbers, is chance
    free = [name for name in free if name in few or (len({*columns.known[name]}) > 1 and not columns.is_counted(name))]
    mine = [name for name, (field, _) in found.items() if field == "client"]
    if not _has(found, "receiver"):
        pairs = [(a, b) for i, a in enumerate(mine[:1] or free) for b in (free if mine else free[i + 1 :])]
        best = max(pairs, key=lambda pair: columns.shared(*pair), default=None)
        if best and columns.shared(*best) >= SHARED:
            why = f"{columns.shared(*best):.0%} of its values are also in {{}}"
            added |= {} if mine else {best[0]: ("client", why.format(best[1]))}
            added[best[1]] = ("receiver", why.format(best[0]))
    free = [name for name in free if name not in added]
    leveled = [name for name in free if columns.share(r"\w[/.]\w", name) > 0.5]
    if not _has(found, "topic") and leveled:
        added[leveled[0]] = ("topic", "names with levels")
        free.remove(leveled[0])
    if not _has({**found, **added}, "client") and free:
        added[free[0]] = ("client", "the first column of names")
        repeats = [name for name in free[1:] if len({*columns.known[name]}) < len(columns.known[name])]
        if not any(_has({**found, **added}, field) for field in ("topic", "receiver")) and repeats:
            added[repeats[0]] = ("topic", "the next column of names that come again")
    every = {**found, **added}
    same = [name for name, (field, _) in every.items() if field in ("at", "client", "topic")]
    if not _has(every, "receiver") and _has(every, "at") and _has(every, "client"):
        several = [name for name in free if name not in added and columns.fans_out(name, same)]
        added |= dict.fromkeys(several[:1], ("receiver", "it differs in rows of one sender, time and topic"))
    return added


def common_key(columns: Columns, kind: str, values: Sequence[Sequence[str]], fields: Collection[str]) -> str:
    """The column by which deliveries are joined to messages, by the values of their kinds; nothing if none could be it.

    It is another one for nearly each message, and deliveries have those of messages; columns of fields are left out.
    """
    for name in (name for name in columns.names if name not in fields):
        keys = [[row.get(name) for row in columns.rows_by(kind, own)] for own in values]
        of_messages, of_deliveries = ({*own} - {None, ""} for own in keys)
        alone = len(of_deliveries - of_messages)
        if len(of_messages) > 0.9 * len(keys[0]) and of_deliveries and alone < 0.1 * len(keys[1]):
            return name
    return ""


def labelled_times(columns: Columns) -> str:
    """A column of times that are numbers behind a label, such as CreateTime:1788242430940."""
    for name, cells in columns.known.items():
        labels = {*map(_label, cells)}
        if len(labels) == 1 and "" not in labels and _is_sized([each.rpartition(":")[2] for each in cells]):
            return name
    return ""


def unread_times(columns: Columns) -> str:
    """A column of times in a form that no reader takes."""
    strange = (name for name in columns.names if not columns.time_kinds[name])
    return next((name for name in strange if columns.share(OTHER_DATES, name) > 0.5), "")


def clock_apart(columns: Columns) -> tuple[str, str] | None:
    """(date, time of day), where they are two columns."""
    shapes = (r"^\s*\d{4}-\d\d-\d\d\s*$", r"^\s*\d{1,2}:\d\d(:\d\d([.,]\d+)?)?Z?\s*$")
    days, clocks = ([name for name in columns.names if columns.share(shape, name) == 1] for shape in shapes)
    return (days[0], clocks[0]) if days and clocks else None


# --- tables --------------------------------------------------------------------------------------------------


def tables_by_names(names: Sequence[str]) -> list[str]:
    """The tables that have all of these columns, likeliest first."""
    own = {name.strip().lower() for name in names}
    every = {table: {*schema_of(table).names} for table, _ in TABLE_COLUMNS if table != "interests"}
    return [table for table, names in TABLE_COLUMNS if {*names.split()} <= own <= every.get(table, {*names.split()})]
