"""Rows as events: the columns of a log's fields, and which rows cannot be read and why.

Fields come as columns of any type, or as lists of values as JSON has them. There a number is a `Number`, as it is
written, or an int; other values are text, flags, lists, objects or None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Bools, Ints
from overlace.ingest.content import MARK, Content, add_content, attribute_of, column_name
from overlace.ingest.events import TIME, Settled, events, in_one_piece
from overlace.ingest.fields import separator_of
from overlace.ingest.lines import Faults, TableRows, TextLines
from overlace.ingest.values import (
    EARLIEST,
    LATEST,
    NONE,
    UNREADABLE,
    is_list,
    keys_in,
    list_column,
    mask_of,
    names_in,
    names_in_cells,
    names_in_lists,
    not_utf8,
    times_in,
    whole_in,
)

Columns = Mapping[str, Sequence[pa.Array]]
"""Field -> columns of any type that it is read from, of which each row has the first that is not null."""

LARGEST = 2**31 - 1
"""The largest size or weight of a message."""


LISTED = "{}: looks like a list; name its separator with --list-separator, or 'none' if it is one name"


def called(options: Settled) -> dict[str, str]:
    """Field -> what the source calls it."""
    return {field: names[0] if len(names) == 1 else field for field, names in options["mapping"].items()}


def read_rows(
    lines: TextLines | TableRows,
    columns: Columns,
    options: Settled,
    faults: Faults,
    *,
    kind: str = "message",
    largest: int = LARGEST,
    content: Content | None = None,
) -> Iterator[pa.RecordBatch]:
    """One event a line: what its fields say, or bad with the reason and a sample."""
    found = _fields(columns, len(lines.offsets), options, faults, largest) | (content or {})
    if not faults.fine.all():
        yield from faults.events(lines)
        keep = pa.array(faults.fine)
        found = {name: values.filter(keep) for name, values in found.items()}
        lines = lines.at(faults.fine)
    if len(lines.offsets) == 0:
        return
    if "key" in found:
        found["message"] = keys_in(found.pop("key"))
    extra = {name: found.pop(name) for name in content or ()}
    batch = events(offset=lines.offsets, kind=kind, **found)
    for name, values in extra.items():
        batch = batch.append_column(pa.field(name, values.type), values)
    mere = faults.deliveries[faults.fine]
    if not mere.all():
        yield batch.filter(pa.array(~mere)) if mere.any() else batch
    if mere.any():
        yield events(
            lines.offsets[mere], kind="delivery", **{n: each.filter(pa.array(mere)) for n, each in found.items()}
        )


def _fields(columns: Columns, rows: int, options: Settled, faults: Faults, largest: int) -> dict[str, pa.Array]:
    """The columns of events by field; the key is as it is logged. What cannot be read is noted as a fault."""
    names = called(options)

    def note(field: str, which: Bools, reason: str) -> None:
        faults.note(which, reason.format(names.get(field, field)))

    def numbers(field: str, read: Callable[[pa.Array], Ints]) -> Ints:
        found = np.full(rows, NONE)
        for each in columns.get(field, ()):
            found = np.where(found == NONE, read(each), found)
        return found

    at = numbers("at", lambda values: times_in(values, options.get("unit")))
    note("at", at == NONE, "{}: empty" if "at" in names else "no time")
    note("at", at == UNREADABLE, "{}: not a time")
    note("at", (at > UNREADABLE) & ((at < EARLIEST) | (at >= LATEST)), "{}: a time before 1900 or after 2199")
    found: dict[str, pa.Array] = {"at": pa.array(at).cast(TIME)}
    for field in ("client", "broker", "topic"):
        for each in columns.get(field, ()):
            note(field, not_utf8(each), "{}: not UTF-8")
        found[field] = _first_of([names_in(each) for each in columns.get(field, ())], pa.string(), rows)
    missing = mask_of(found["client"].is_null())
    for field in ("bytes", "weight"):
        whole = numbers(field, whole_in)
        note(field, whole == UNREADABLE, "{}: not a whole number of 0 or more")
        note(field, whole > largest, f"{{}}: above {largest:,}")
        found[field] = pa.array(whole, mask=whole == NONE)
    for into, fields in (("receivers", ("receivers", "receiver")), ("attributes", ("attributes",))):
        lists = [_lists(each, field, options, note) for field in fields for each in columns.get(field, ())]
        found[into] = _first_of(lists, pa.list_(pa.string()), rows)
    if options.get("deliveries_where"):
        by_column = bool({"receiver", "receivers"} & names.keys())
        nobody = _deliver(found, faults.deliveries, by_column)
        note("receivers" if "receivers" in names else "receiver", nobody, "{}: empty")
        missing &= ~(faults.deliveries & by_column)
    note("client", missing, "{}: empty" if "client" in names else "no client")
    if columns.get("key"):
        found["key"] = _first_of(columns["key"], pa.string(), rows)
    return found


def _deliver(found: dict[str, pa.Array], mere: Bools, by_column: bool) -> Bools:
    """Name the receivers of deliveries, their clients unless a column does; those that have none.

    Nobody has received a message for which its own row names none: deliveries say who has.
    """
    client, listed = found["client"].cast(pa.string()), found["receivers"].cast(pa.list_(pa.string()))
    named = np.zeros(len(mere), bool) if by_column else mere
    alone = list_column(np.append(0, np.cumsum(named)), client.filter(pa.array(named)))
    found["client"] = pc.if_else(pa.array(mere), None, client)
    found["receivers"] = pc.if_else(pa.array(named), alone, pc.coalesce(listed, alone))
    return mere & mask_of(pc.equal(found["receivers"].value_lengths(), 0))


def _first_of(columns: Sequence[pa.Array], kind: pa.DataType, rows: int) -> pa.Array:
    if len(columns) < 2:
        return columns[0] if columns else pa.nulls(rows, kind)
    return pc.coalesce(*(each.cast(kind) for each in columns))


def _lists(values: pa.Array, field: str, options: Settled, note: Callable[[str, Bools, str], None]) -> pa.ListArray:
    """The names in each row of a column, of lists or of cells."""
    if is_list(values.type):
        broken = not_utf8(values.flatten())
        if broken.any():
            rows = pc.list_parent_indices(values).to_numpy()[broken]
            note(field, np.bincount(rows, minlength=len(values)) > 0, "{}: not UTF-8")
        return names_in_lists(values)
    separator, suspects, suspects_in_one = separator_of(options)
    single = field == "receiver"
    lists, suspicious = names_in_cells(values, separator, suspects_in_one if single else suspects, single)
    note(field, not_utf8(values), "{}: not UTF-8")
    note(field, suspicious, LISTED)
    return lists


# --- values as JSON has them, a list of them a field -------------------------------------------------------

WHOLE = re.compile(r"(-?[0-9]+)\.0+")
HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair."""


class Number(str):
    """A number as it is written."""

    __slots__ = ()


OF_TYPE = {str: "text", Number: "number", int: "number", bool: "flag", type(None): ""}
"""The type of content that a value is."""

SCALARS = {str, Number, int, type(None)}
NUMBERS = {"at": "{}: not a time", **dict.fromkeys(("bytes", "weight"), "{}: not a whole number of 0 or more")}


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
        reason = NUMBERS.get(field, "{}: neither text nor a number").format(name)
        if list in kinds and field in ("receivers", "receiver", "attributes"):
            lists = [each if type(each) is list else None for each in values]
            columns[f"{field}.list"] = _name_lists(lists, faults, name)
            values = [None if type(each) is list else each for each in values]
        if Number in kinds and field not in NUMBERS:
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


def _name_lists(values: list[list[Any] | None], faults: Faults, name: str) -> pa.Array:
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
