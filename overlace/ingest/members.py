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

from overlace.ingest.content import MARK, Content, add_content, attribute_of, column_name
from overlace.ingest.events import Settled, in_one_piece
from overlace.ingest.lines import Faults, TextLines
from overlace.ingest.rows import called, read_rows

WHOLE = re.compile(r"(-?[0-9]+)\.0+")
HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair."""


class Number(str):
    """A number as it is written."""

    __slots__ = ()


OF_TYPE = {str: "text", Number: "number", int: "number", bool: "flag", type(None): ""}
"""The type of content that a value is."""

SCALARS = {str, Number, int, type(None)}
REASONS = {"at": "{}: not a time", **dict.fromkeys(("bytes", "weight"), "{}: not a whole number of 0 or more")}


def columns_of(
    fields: Mapping[str, list[Any]],
    content: Mapping[str, tuple[list[Any], str | None]],
    options: Settled,
    faults: Faults,
) -> pa.Table:
    """The values of some lines as columns by field and type, those of content as a type if one was asked for.

    What is of no type that it should be is a fault.
    """
    columns, names = {"": pa.nulls(len(faults.code))}, called(options)
    for name, (values, kind) in content.items():
        columns |= _content_of(values, name, kind, faults)
    for field, values in fields.items():
        name, kinds = names.get(field, field), set(map(type, values))
        reason = REASONS.get(field, "{}: neither text nor a number").format(name)
        if list in kinds and field in ("receivers", "receiver", "attributes"):
            lists = [each if type(each) is list else None for each in values]
            columns[f"{field}.list"] = _lists(lists, faults, name)
            values = [None if type(each) is list else each for each in values]
        if Number in kinds and field not in REASONS:
            values = [_name(each) if type(each) is Number else each for each in values]
        scalars = _scalars(values, faults, reason)
        columns[f"{field}.{scalars.type}"] = scalars
    return pa.table(columns)


def read_parts(
    lines: TextLines, parts: Sequence[pa.Table], options: Settled, faults: Faults
) -> Iterator[pa.RecordBatch]:
    """Events of lines from the columns of parts of them."""
    content, columns = Content(), dict[str, list[pa.Array]]()
    whole = pa.concat_tables(parts, promote_options="default")
    for name in whole.column_names[1:]:
        values = in_one_piece(whole[name])
        if name.startswith(MARK):
            kind, attribute = attribute_of(name)
            add_content(content, faults, attribute, values, kind)
        else:
            columns.setdefault(name.partition(".")[0], []).append(values)
    yield from read_rows(lines, columns, options, faults, content=content)


def _scalars(values: list[Any], faults: Faults, reason: str) -> pa.Array:
    """Text or numbers, as numbers where all are; others are faults."""
    kinds = set(map(type, values))
    if kinds - SCALARS:
        values = _refuse(values, [type(each) not in SCALARS for each in values], faults, reason)
    if int in kinds and not kinds & {str, Number}:
        with suppress(OverflowError):
            return pa.array(values, pa.int64())
    if int in kinds:
        values = [each if each is None else str(each) for each in values]
    return pa.array(values, pa.string())


def _refuse(values: list[Any], wrong: list[bool], faults: Faults, reason: str) -> list[Any]:
    """None in place of the values that are wrong."""
    faults.note(np.array(wrong, bool), reason)
    return [None if own else each for each, own in zip(values, wrong, strict=True)]


def _name(value: Number) -> str:
    """A number like 7.0 names what 7 names."""
    whole = WHOLE.fullmatch(value)
    return whole[1] if whole else str(value)


def _lists(values: list[list[Any] | None], faults: Faults, name: str) -> pa.Array:
    """Lists of names."""
    if set(map(type, chain.from_iterable(filter(None, values)))) - {str, type(None)}:
        more = [not SCALARS.issuperset(map(type, each or ())) for each in values]
        values = [
            each and [_name(v) if type(v) is Number else v if v is None else str(v) for v in each]
            for each in _refuse(values, more, faults, f"{name}: a list that holds more than names")
        ]
    with suppress(UnicodeEncodeError):
        return pa.array(values, pa.list_(pa.string()))
    half = [any(HALF.search(v) for v in each or () if v) for each in values]
    return pa.array(_refuse(values, half, faults, f"{name}: not Unicode"), pa.list_(pa.string()))


def _content_of(values: list[Any], name: str, kind: str | None, faults: Faults) -> dict[str, pa.Array]:
    """The values of an attribute as text, all as one type or by the type that each is written as."""
    if set(map(type, values)) - OF_TYPE.keys():
        odd = [type(each) not in OF_TYPE for each in values]
        values = _refuse(values, odd, faults, f"{name}: neither text, a number nor true or false")
    types = [OF_TYPE[type(each)] for each in values]
    words = [str(each).lower() if type(each) is bool else each if each is None else str(each) for each in values]
    if kind:
        return {column_name(kind, name): pa.array(words, pa.string())}
    return {
        column_name(own, name): pa.array(
            [w if of == own else None for w, of in zip(words, types, strict=True)], pa.string()
        )
        for own in sorted(set(types) - {""})
    }
