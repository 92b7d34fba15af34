"""What messages say: attributes and their values, as further columns of events.

Where a log has content, its events have a column `content.TYPE.NAME` for each attribute and type: numbers, text
(dictionary-encoded) and flags, null where a message has no such value. The type is a part of the name, so that a
value of another type than usual is kept as what it is, wherever a log is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Bools, Ints
from overlace.arrays.text import ABSENT, NUMBER, TEXT, TRUTH, Bytes, Small
from overlace.errors import BadParameter, Unknown
from overlace.ingest.cells import names_of, text_at
from overlace.ingest.events import Settled
from overlace.ingest.lines import TextLines, bad

TYPES = ("text", "number", "flag")
KINDS = {TEXT: "text", NUMBER: "number", TRUTH: "flag"}
"""The type that a value has by how it is written."""

NUMERAL = r"^[ \t]*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[ \t]*$"
NOT_A_NUMBER = r"^(?i:[+-]?nan)$"
TRUTHS = {"true": True, "false": False}
MARK = "content."
MOST = 100
"""Columns that can be content."""

Content = dict[str, pa.Array]
"""Columns of content by the names that they have among those of events."""


class Spans(NamedTuple):
    """The values of one attribute as spans of bytes, a line each."""

    first: Ints
    last: Ints
    kind: Small


def column_name(kind: str, attribute: str) -> str:
    """What the column of an attribute's values of a type is called."""
    return f"{MARK}{kind}.{attribute}"


def attribute_of(column: str) -> tuple[str, str]:
    """(type, attribute) of a column of content."""
    kind, _, attribute = column.removeprefix(MARK).partition(".")
    return kind, attribute


def content_of(batch: pa.RecordBatch) -> list[str]:
    """The columns of content that a batch of events has."""
    return [name for name in batch.schema.names if name.startswith(MARK)]


def is_message(batch: pa.RecordBatch) -> bool:
    """Whether the events of a batch are messages: a batch with content is of one kind."""
    return batch.num_rows > 0 and bool(batch["kind"].dictionary[0].as_py() == "message")


def asked_types(content: Sequence[str]) -> dict[str, str | None]:
    """Column -> type, of what was asked for: NAME, or NAME:TYPE; none where the values tell."""
    found: dict[str, str | None] = {}
    for word in content:
        name, mark, kind = word.rpartition(":")
        name, wanted = (name, kind) if mark and kind in TYPES else (word, None)
        if not name:
            raise BadParameter(f"--content {word!r}: expected columns, such as close,volume or code:text")
        if name in found:
            raise BadParameter(f"--content names {name!r} twice; once is enough")
        found[name] = wanted
    if len(found) > MOST:
        raise BadParameter(
            f"--content names {len(found)} columns; expected at most {MOST}. Name those that filters use."
        )
    return found


def type_of(values: Sequence[object]) -> str:
    """The type that all of some values of one column have, written or not; text where they differ or there are none.

    Not-a-number is no value among numbers.
    """
    known = [each for each in values if each is not None and each != ""]
    if known and all(isinstance(each, bool) or str(each).strip().lower() in TRUTHS for each in known):
        return "flag"
    words = pa.array([str(each) for each in known if not isinstance(each, bool)], pa.string())
    numeric = _flags(pc.match_substring_regex(words, NUMERAL))
    absent = _flags(pc.match_substring_regex(pc.utf8_trim(words, " \t"), NOT_A_NUMBER))
    return "number" if len(words) == len(known) and numeric.any() and (numeric | absent).all() else "text"


def types_in(values: Sequence[object]) -> str:
    """The types that values have which are typed by how they are written, between bars; text where there are none."""
    kinds = {
        "flag" if isinstance(v, bool) else "number" if isinstance(v, int | float) else "text"
        for v in values
        if v is not None
    }
    return "|".join(each for each in TYPES if each in kinds) or "text"


def settle_content(settled: Settled, samples: Mapping[str, Sequence[object]], typed: bool = False) -> None:
    """Settle the types of the columns that are content, from the first values of all columns, in place.

    `typed`: each value has its own type.
    """
    wanted = asked_types(settled.get("content") or ())
    for name in wanted:
        if name not in samples:
            raise Unknown("column", name, samples)
    if wanted:
        settled["types"] = {
            name: kind or (types_in if typed else type_of)(samples[name]) for name, kind in wanted.items()
        }
        settled["unused"] = [name for name in settled["unused"] if name not in wanted]


class Reader:
    """Reads the content of lines; notes what is wrong with each (0: nothing)."""

    def __init__(self, data: Bytes, lines: int) -> None:
        self.data, self.columns = data, Content()
        self.wrong = np.zeros(lines, np.int64)
        self.reasons: dict[int, str] = {}

    def add(self, attribute: str, spans: Spans, kind: str | None) -> None:
        """Read the values of an attribute as a type, or each as what it is written as."""
        there = spans.kind != ABSENT
        plain = there & ((spans.kind == TEXT) | (spans.kind == NUMBER) | (spans.kind == TRUTH))
        self._refuse(there & ~plain, f"{attribute}: neither text, a number nor true or false")
        for code, own in KINDS.items():
            mine = plain & ((spans.kind == code) if kind is None else (kind == own))
            if mine.any():
                self._read(attribute, own, Spans(np.where(mine, spans.first, -1), spans.last, spans.kind))

    def _read(self, attribute: str, kind: str, spans: Spans) -> None:
        if kind == "text":
            values = names_of(self.data, spans.first, spans.last)
        else:
            there = np.flatnonzero(spans.first >= 0)
            words = text_at(self.data, spans.first[there], spans.last[there])
            found, fine, empty = numbers_in(words) if kind == "number" else flags_in(words)
            broken = np.zeros(len(self.wrong), bool)
            broken[there[~fine & ~empty]] = True
            self._refuse(broken, f"{attribute}: {'not a number' if kind == 'number' else 'neither true nor false'}")
            place = np.full(len(self.wrong), -1, np.int64)
            place[there[fine]] = np.flatnonzero(fine)
            values = found.take(pa.array(place, mask=place < 0))
        self.columns[column_name(kind, attribute)] = values

    def _refuse(self, rows: Bools, reason: str) -> None:
        if rows.any():
            code = len(self.reasons) + 1
            self.reasons[code] = reason
            self.wrong[rows & (self.wrong == 0)] = code

    def bad(self, block: bytes, lines: TextLines) -> Iterator[pa.RecordBatch]:
        """The lines whose content cannot be read."""
        if self.reasons:
            yield from bad(block, lines, {code: self.wrong == code for code in self.reasons}, self.reasons)


def numbers_in(words: pa.Array) -> tuple[pa.Array, Bools, Bools]:
    """(numbers, fine, empty) of some text; not-a-number is empty, and what is beyond the largest double not fine."""
    trimmed = pc.utf8_trim(words, " \t")
    fine = _flags(pc.match_substring_regex(words, NUMERAL))
    plain = pc.utf8_ltrim(pc.if_else(pa.array(fine), trimmed, "0"), "+")
    try:
        values = plain.cast(pa.float64())
    except pa.ArrowInvalid:  # digits that only a slower reader takes
        values = pa.array([float(each) for each in plain.to_pylist()], pa.float64())
    fine &= np.isfinite(values.to_numpy(zero_copy_only=False))
    return values, fine, _flags(pc.or_(pc.equal(trimmed, ""), pc.match_substring_regex(trimmed, NOT_A_NUMBER)))


def flags_in(words: pa.Array) -> tuple[pa.Array, Bools, Bools]:
    """(flags, fine, empty) of some text: true or false, in any case."""
    lower = pc.ascii_lower(pc.utf8_trim(words, " \t"))
    true = pc.equal(lower, "true")
    return true, _flags(pc.or_(true, pc.equal(lower, "false"))), _flags(pc.equal(lower, ""))


def _flags(values: pa.Array) -> Bools:
    return np.asarray(values.to_numpy(zero_copy_only=False), bool)


def with_content(batches: Iterator[pa.RecordBatch], offsets: Ints, content: Content) -> Iterator[pa.RecordBatch]:
    """Events with the content of their lines; `offsets`, ascending, are those of the lines that content is of."""
    for batch in batches:
        if is_message(batch):
            at = pa.array(np.searchsorted(offsets, batch["offset"].to_numpy()))
            for name, values in content.items():
                batch = batch.append_column(pa.field(name, values.type), values.take(at))
        yield batch
