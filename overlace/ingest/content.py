"""What messages say: attributes and their values, as further columns of events.

Where a log has content, its events have a column `content.TYPE.NAME` for each attribute and type: numbers, text
(dictionary-encoded) and flags, null where a message has no such value. The type is a part of the name, so that a
value of another type than usual is kept as what it is, wherever a log is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Bools
from overlace.errors import BadParameter, Unknown
from overlace.ingest.events import Settled
from overlace.ingest.lines import Faults
from overlace.ingest.values import mask_of

TYPES = ("text", "number", "flag")
NUMERAL = r"^[ \t]*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[ \t]*$"
NOT_A_NUMBER = r"^(?i:[+-]?nan)$"
TRUTHS = {"true": True, "false": False}
MARK = "content."
MOST = 100
"""Columns that can be content."""

Content = dict[str, pa.Array]
"""Columns of content by the names that they have among those of events."""


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
    words = pa.array([str(each) for each in values if each is not None and each != ""], pa.string())
    if len(words) and flags_in(words)[1].all():
        return "flag"
    numeric = mask_of(pc.match_substring_regex(words, NUMERAL))
    absent = mask_of(pc.match_substring_regex(pc.utf8_trim(words, " \t"), NOT_A_NUMBER))
    return "number" if numeric.any() and (numeric | absent).all() else "text"


def types_in(values: Sequence[object]) -> str:
    """The types that values have which are typed by how they are written, between bars; text where there are none."""
    kinds = {
        "flag" if isinstance(v, bool) else "number" if isinstance(v, int | float) else "text"
        for v in values
        if v is not None
    }
    return "|".join(each for each in TYPES if each in kinds) or "text"


def settle_content(settled: Settled, columns: Collection[str], type_in: Callable[[str], str]) -> Settled:
    """The same with the types of the columns that are content, as they were asked for or as their values tell."""
    wanted = asked_types(settled.get("content") or ())
    for name in wanted:
        if name not in columns:
            raise Unknown("column", name, columns)
    if wanted:
        settled["types"] = {name: kind or type_in(name) for name, kind in wanted.items()}
        settled["unused"] = [name for name in settled["unused"] if name not in wanted]
    return settled


def add_content(content: Content, faults: Faults, attribute: str, words: pa.Array, kind: str) -> None:
    """Add the values of an attribute, null where there is none, as a type."""
    if kind == "text":
        values = words.dictionary_encode()
    else:
        found, fine, empty = (numbers_in if kind == "number" else flags_in)(words.fill_null(""))
        faults.note(~fine & ~empty, f"{attribute}: {'not a number' if kind == 'number' else 'neither true nor false'}")
        values = pc.if_else(pa.array(fine & ~empty), found, None)
    content[column_name(kind, attribute)] = values


def numbers_in(words: pa.Array) -> tuple[pa.Array, Bools, Bools]:
    """(numbers, fine, empty) of some text; not-a-number is empty, and what is beyond the largest double not fine."""
    trimmed = pc.utf8_trim(words, " \t")
    fine = mask_of(pc.match_substring_regex(words, NUMERAL))
    plain = pc.utf8_ltrim(pc.if_else(pa.array(fine), trimmed, "0"), "+")
    try:
        values = plain.cast(pa.float64())
    except pa.ArrowInvalid:  # digits that only a slower reader takes
        values = pa.array([float(each) for each in plain.to_pylist()], pa.float64())
    fine &= np.isfinite(values.to_numpy(zero_copy_only=False))
    return values, fine, mask_of(pc.or_(pc.equal(trimmed, ""), pc.match_substring_regex(trimmed, NOT_A_NUMBER)))


def flags_in(words: pa.Array) -> tuple[pa.Array, Bools, Bools]:
    """(flags, fine, empty) of some text: true or false, in any case."""
    lower = pc.ascii_lower(pc.utf8_trim(words, " \t"))
    true = pc.equal(lower, "true")
    return true, mask_of(pc.or_(true, pc.equal(lower, "false"))), mask_of(pc.equal(lower, ""))
