"""Values as JSON has them, a list of them a field, as columns.

A number is a `Number`, as it is written, or an int; other values are text, flags, lists, objects or None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from overlace.ingest.content import Content, add_content
from overlace.ingest.events import Settled
from overlace.ingest.lines import Faults, TextLines
from overlace.ingest.rows import WRONG_TYPE, called, read_rows

WHOLE = re.compile(r"(-?[0-9]+)\.0+")
HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair."""


class Number(str):
    """A number as it is written."""

    __slots__ = ()


OF_TYPE = {str: "text", Number: "number", int: "number", bool: "flag", type(None): ""}
"""The type of content that a value is."""

SCALARS = {str, Number, int, type(None)}
Columns = dict[tuple[str, str], pa.Array]
"""(field, cell or list) or (attribute, type) -> the values of some lines."""


def columns_of(
    fields: Mapping[str, list[Any]],
    content: Mapping[str, tuple[list[Any], str | None]],
    options: Settled,
    faults: Faults,
) -> tuple[Columns, Columns]:
    """(fields, content): values as columns, those of content as a type if one was asked for; what is odd is a fault."""
    columns, said, names = Columns(), Columns(), called(options)
    for name, (values, kind) in content.items():
        said |= _content_of(values, name, kind, faults)
    for field, values in fields.items():
        name = names.get(field, field)
        if field == "at":
            columns[field, "cell"] = _scalars(values, faults, f"{name}: not a time")
        elif field in ("bytes", "weight"):
            columns[field, "cell"] = _scalars(values, faults, f"{name}: not a whole number of 0 or more")
        elif field in ("receivers", "receiver", "attributes") and list in set(map(type, values)):
            columns[field, "list"] = _lists([each if type(each) is list else None for each in values], faults, name)
            cells = [None if type(each) is list else each for each in values]
            columns[field, "cell"] = _names(cells, faults, WRONG_TYPE.format(name))
        else:
            columns[field, "cell"] = _names(values, faults, WRONG_TYPE.format(name))
    return columns, said


def read_parts(
    lines: TextLines, parts: Sequence[tuple[int, Columns, Columns]], options: Settled, faults: Faults
) -> Iterator[pa.RecordBatch]:
    """Events of lines from their columns, which come in parts of so many lines."""
    content = Content()
    for name, kind in dict.fromkeys(chain.from_iterable(said for _, _, said in parts)):
        words = _join([(rows, said.get((name, kind))) for rows, _, said in parts])
        add_content(content, faults, name, words.cast(pa.string()), kind)
    columns: dict[str, list[pa.Array]] = {}
    for field, form in sorted(set(chain.from_iterable(own for _, own, _ in parts)), reverse=True):
        columns.setdefault(field, []).append(_join([(rows, own.get((field, form))) for rows, own, _ in parts]))
    yield from read_rows(lines, columns, options, faults, content=content)


def _join(parts: Sequence[tuple[int, pa.Array | None]]) -> pa.Array:
    """A column from its parts, as text if not all are numbers; null where it has none."""
    kinds = {each.type for _, each in parts if each is not None and each.null_count < len(each)}
    kind = kinds.pop() if len(kinds) == 1 else pa.string()
    return pa.concat_arrays(
        [pa.nulls(rows, kind) if each is None or each.null_count == rows else each.cast(kind) for rows, each in parts]
    )


def _scalars(values: list[Any], faults: Faults, reason: str) -> pa.Array:
    """Text or numbers, as numbers where all are; others are faults."""
    kinds = set(map(type, values))
    if kinds - SCALARS:
        wrong = np.array([type(each) not in SCALARS for each in values], bool)
        faults.note(wrong, reason)
        values = [None if own else each for each, own in zip(values, wrong.tolist(), strict=True)]
    if int not in kinds:
        return pa.array(values, pa.string())
    if not kinds & {str, Number}:
        with suppress(OverflowError):
            return pa.array(values, pa.int64())
    return pa.array([each if each is None else str(each) for each in values], pa.string())


def _names(values: list[Any], faults: Faults, reason: str) -> pa.Array:
    """Names; a number like 7.0 names what 7 names."""
    if Number in set(map(type, values)):
        values = [_name(each) if type(each) is Number else each for each in values]
    return _scalars(values, faults, reason)


def _name(value: Number) -> str:
    whole = WHOLE.fullmatch(value)
    return whole[1] if whole else str(value)


def _lists(values: list[list[Any] | None], faults: Faults, name: str) -> pa.Array:
    """Lists of names."""
    if set(map(type, chain.from_iterable(filter(None, values)))) - {str, type(None)}:
        more = np.array([bool(each) and not SCALARS.issuperset(map(type, each or ())) for each in values], bool)
        faults.note(more, f"{name}: a list that holds more than names")
        values = [
            None
            if each is None or own
            else [_name(v) if type(v) is Number else v if v is None else str(v) for v in each]
            for each, own in zip(values, more.tolist(), strict=True)
        ]
    with suppress(UnicodeEncodeError):
        return pa.array(values, pa.list_(pa.string()))
    half = np.array([any(HALF.search(v) for v in each or () if v) for each in values], bool)
    faults.note(half, f"{name}: not Unicode")
    return pa.array(
        [None if own else each for each, own in zip(values, half.tolist(), strict=True)], pa.list_(pa.string())
    )


def _content_of(values: list[Any], name: str, kind: str | None, faults: Faults) -> Columns:
    """The values of an attribute as text, all as one type or by the type that each is written as."""
    kinds = list(map(type, values))
    if odd := set(kinds) - OF_TYPE.keys():
        wrong = np.array([each in odd for each in kinds], bool)
        faults.note(wrong, f"{name}: neither text, a number nor true or false")
        values = [None if own else each for each, own in zip(values, wrong.tolist(), strict=True)]
        kinds = list(map(type, values))
    words = [
        str(each).lower() if of is bool else each if each is None else str(each)
        for each, of in zip(values, kinds, strict=True)
    ]
    if kind:
        return {(name, kind): pa.array(words, pa.string())}
    types = [OF_TYPE[each] for each in kinds]
    return {
        (name, own): pa.array([w if of == own else None for w, of in zip(words, types, strict=True)], pa.string())
        for own in sorted(set(types) - {""})
    }
