"""Cells of rows as events: times, whole numbers, names and lists of names, read from spans of bytes.

A row whose time or numbers cannot be read is bad, with the field named; nothing is guessed in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overlace.arrays.jit import Bools, Ints
from overlace.arrays.json import scan_lists
from overlace.arrays.numbers import read_times, read_whole
from overlace.arrays.text import (
    BEYOND,
    LIST,
    MISSING,
    NUMBER,
    TEXT,
    UNREADABLE,
    Bytes,
    Small,
    cut_whole,
    gather_spans,
    hash_spans,
    number_spans,
    split_cells,
)
from overlace.ingest.events import TIME, Settled, events
from overlace.ingest.fields import PLACE, UNITS, separator_of, unit_of
from overlace.ingest.lines import TextLines, bad

LARGEST = 2**31 - 1
"""The largest size or weight of a message."""

WRONG_TYPE = "{}: neither text nor a number"
LOOKS_LIKE_A_LIST = "{}: looks like a list; name its separator with --list-separator, or 'none' if it is one name"


class Spans(NamedTuple):
    """Values of lines as spans of bytes, by field (the place in FIELDS) and line."""

    first: Ints
    last: Ints
    kind: Small

    def at(self, lines: Bools) -> Spans:
        """Those of some lines."""
        return self if lines.all() else Spans(self.first[:, lines], self.last[:, lines], self.kind[:, lines])

    def of(self, field: str) -> tuple[Ints, Ints, Small]:
        """First, last and kind of one field's values."""
        place = PLACE[field]
        return self.first[place], self.last[place], self.kind[place]


class Reading(NamedTuple):
    """Rows being read: their bytes, spans and lines, and what is wrong with each (0: nothing so far)."""

    data: Bytes
    spans: Spans
    wrong: Ints
    reasons: dict[int, str]
    names: Mapping[str, str]  # field -> what the source calls it

    def refuse(self, rows: Bools, reason: str, field: str) -> None:
        """These rows cannot be read, unless something else is wrong with them already."""
        if rows.any():
            code = len(self.reasons) + 1
            self.reasons[code] = reason.format(self.names.get(field, field))
            self.wrong[rows & (self.wrong == 0)] = code


def read_spans(
    block: bytes, lines: TextLines, spans: Spans, options: Settled, kind: str = "message", largest: int = LARGEST
) -> Iterator[pa.RecordBatch]:
    """One event a line: a message, or bad with the field that could not be read and a sample.

    `block` is what the bytes of the lines were before escapes in them were decoded.
    """
    data, offsets = lines.data, lines.offsets
    called = {field: names[0] if len(names) == 1 else field for field, names in options["mapping"].items()}
    rows = Reading(data, spans, np.zeros(len(offsets), np.int64), {}, called)
    columns: dict[str, pa.Array] = {"at": _times(rows, options)}
    client, *others = (_name_spans(rows, field) for field in ("client", "broker", "topic", "key"))
    rows.refuse(client[0] < 0, "{}: empty" if "client" in called else "no client", "client")
    for field in ("bytes", "weight"):
        columns[field] = _whole(rows, field, largest)
    receivers = _lists(rows, options)
    attributes = _list_of(rows, "attributes", options)
    fine = rows.wrong == 0
    if not fine.all():
        which = {code: rows.wrong == code for code in rows.reasons}
        yield from bad(block, lines, which, rows.reasons)
        keep = np.flatnonzero(fine)
        columns = {name: values.take(pa.array(keep)) for name, values in columns.items()}
        client, *others = ((first[keep], last[keep]) for first, last in (client, *others))
        receivers, attributes = _some_lists(receivers, keep), _some_lists(attributes, keep)
        offsets = offsets[keep]
    if len(offsets) == 0:
        return
    broker, topic, key = others
    columns["client"], columns["receivers"] = _with_receivers(data, client, receivers)
    for name, span in (("broker", broker), ("topic", topic)):
        columns[name] = names_of(data, *span)
    columns["attributes"] = _list_column(attributes, names_of(data, attributes.first, attributes.last))
    if (key[0] >= 0).any():
        columns["message"] = _keys(data, *key)
    yield events(offset=offsets, kind=kind, **columns)


def _times(rows: Reading, options: Settled) -> pa.Array:
    at, state, _ = read_times(rows.data, *rows.spans.of("at"), UNITS[options.get("unit") or "s"])
    rows.refuse(state == MISSING, "{}: empty" if "at" in rows.names else "no time", "at")
    rows.refuse(state == UNREADABLE, "{}: not a time", "at")
    rows.refuse(state == BEYOND, "{}: a time before 1900 or after 2199", "at")
    return pa.array(at).cast(TIME)


def _whole(rows: Reading, field: str, largest: int) -> pa.Array:
    values, state = read_whole(rows.data, *rows.spans.of(field), largest)
    rows.refuse(state == UNREADABLE, "{}: not a whole number of 0 or more", field)
    rows.refuse(state == BEYOND, f"{{}}: above {largest:,}", field)
    return pa.array(values, mask=state == MISSING)


def _name_spans(rows: Reading, field: str) -> tuple[Ints, Ints]:
    """The spans of names; what is empty has no name."""
    first, last, kind = rows.spans.of(field)
    rows.refuse((kind != 0) & (kind != TEXT) & (kind != NUMBER), WRONG_TYPE, field)
    last = cut_whole(rows.data, first, last, kind)
    return np.where(last > first, first, -1), last


class Lists(NamedTuple):
    """Names in lists: those of row i are first[start[i]:start[i + 1]]; `there`: whether the row has a list."""

    start: Ints
    first: Ints
    last: Ints
    there: Bools


def _list_of(rows: Reading, field: str, options: Settled) -> Lists:
    """The lists of a field, be they JSON's or text in a cell."""
    first, last, kind = rows.spans.of(field)
    lists, cells = kind == LIST, (kind != LIST) & (kind != 0)
    start = np.zeros(len(first) + 1, np.int64)
    found = Lists(start, np.empty(0, np.int64), np.empty(0, np.int64), lists | cells)
    if lists.any():
        room = int((last[lists] - first[lists]).sum()) // 2 + len(first)
        start, begin, end, kinds, state = scan_lists(rows.data, first, last, kind, room)
        rows.refuse(state == UNREADABLE, "{}: a list that holds more than names", field)
        rows.refuse(state == BEYOND, "{}: not Unicode", field)
        found = Lists(start, begin, cut_whole(rows.data, begin, end, kinds), found.there)
    if cells.any():
        separator, suspects, single = separator_of(options)
        only = np.where(cells, first, -1)
        room = int((last[cells] - first[cells]).sum()) + len(first)
        own = single if field == "receiver" else suspects
        bounds, begin, end, state = split_cells(rows.data, only, last, kind, separator, own, room)
        rows.refuse(state == UNREADABLE, WRONG_TYPE, field)
        rows.refuse(state == BEYOND, LOOKS_LIKE_A_LIST, field)
        end = cut_whole(rows.data, begin, end, np.repeat(kind, np.diff(bounds)))
        found = Lists(bounds, begin, end, found.there) if not lists.any() else _either(found, bounds, begin, end, cells)
    if field == "receiver":  # no name is no receiver that was logged
        found = found._replace(there=found.there & (lists | (np.diff(found.start) > 0)))
    return found


def _either(lists: Lists, start: Ints, first: Ints, last: Ints, cells: Bools) -> Lists:
    """Lists where they are, cells in the other rows."""
    sizes = np.where(cells, np.diff(start), np.diff(lists.start))
    joined_first, joined_last = np.concatenate([lists.first, first]), np.concatenate([lists.last, last])
    begin = np.where(cells, start[:-1] + len(lists.first), lists.start[:-1])
    bounds = np.append(0, np.cumsum(sizes))
    order = np.repeat(begin - bounds[:-1], sizes) + np.arange(bounds[-1])
    return Lists(bounds, joined_first[order], joined_last[order], lists.there)


def _lists(rows: Reading, options: Settled) -> Lists:
    """Receivers: a row's list of them, else the one receiver that it names."""
    many, one = _list_of(rows, "receivers", options), _list_of(rows, "receiver", options)
    if not one.there.any():
        return many
    if not many.there.any():
        return one
    single = one.there & ~many.there
    return _either(many, one.start, one.first, one.last, single)._replace(there=many.there | one.there)


def _some_lists(lists: Lists, keep: Ints) -> Lists:
    sizes = np.diff(lists.start)[keep]
    bounds = np.append(0, np.cumsum(sizes))
    order = np.repeat(lists.start[keep] - bounds[:-1], sizes) + np.arange(bounds[-1])
    return Lists(bounds, lists.first[order], lists.last[order], lists.there[keep])


def _with_receivers(data: Bytes, client: tuple[Ints, Ints], lists: Lists) -> tuple[pa.Array, pa.Array]:
    """(clients, receivers) under one dictionary."""
    first, last = np.concatenate([client[0], lists.first]), np.concatenate([client[1], lists.last])
    codes, where = number_spans(data, first, last)
    names = text_at(data, first[where], last[where])
    rows = len(client[0])
    senders = pa.DictionaryArray.from_arrays(pa.array(codes[:rows]), names)
    return senders, _list_column(lists, pa.DictionaryArray.from_arrays(pa.array(codes[rows:]), names))


def _list_column(lists: Lists, values: pa.Array) -> pa.Array:
    mask = None if lists.there.all() else pa.array(~lists.there)
    return pa.ListArray.from_arrays(pa.array(lists.start.astype(np.int32)), values, mask=mask)


def names_of(data: Bytes, first: Ints, last: Ints) -> pa.Array:
    """Spans as names, dictionary-encoded; null where there is none."""
    codes, where = number_spans(data, first, last)
    mask = codes < 0
    indices = pa.array(codes, mask=mask) if mask.any() else pa.array(codes)
    return pa.DictionaryArray.from_arrays(indices, text_at(data, first[where], last[where]))


def text_at(data: Bytes, first: Ints, last: Ints) -> pa.Array:
    """Spans as text."""
    offsets, gathered = gather_spans(data, first, last)
    return pa.StringArray.from_buffers(len(first), pa.py_buffer(offsets), pa.py_buffer(gathered))


def _keys(data: Bytes, first: Ints, last: Ints) -> pa.Array:
    """128-bit hashes of keys, null where there is none."""
    there = first >= 0
    begin, end = np.where(there, first, 0), np.where(there, last, 0)
    words = np.column_stack([hash_spans(data, begin, end, seed) for seed in (1, 2)])
    return key_column(words, there)


def key_column(words: Ints, there: Bools | None = None) -> pa.Array:
    """Pairs of words as keys of messages."""
    data = pa.py_buffer(np.ascontiguousarray(words, np.int64))
    known = None
    if there is not None and not there.all():
        known = pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(16), len(words), [known, data])


def times(text: pa.Array) -> tuple[pa.Array, Bools]:
    """(times, readable) of a column of text, numbers in the unit that their size suggests."""
    unit = unit_of(text.to_pylist())
    data, first, last = spans_of(text)
    at, state, _ = read_times(data, first, last, np.full(len(first), TEXT, np.int8), UNITS[unit or "s"])
    fine = state == 0
    return pa.array(at, mask=~fine).cast(TIME), fine


def spans_of(text: pa.Array) -> tuple[Bytes, Ints, Ints]:
    """(bytes, first, last) of an array of text; first -1 for null."""
    if len(text) == 0:
        return np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64)
    offsets = np.frombuffer(text.buffers()[1], np.int32)[text.offset : text.offset + len(text) + 1].astype(np.int64)
    raw = text.buffers()[2]
    data = np.frombuffer(raw, np.uint8) if raw is not None else np.empty(0, np.uint8)
    null = np.asarray(text.is_null().to_numpy(zero_copy_only=False), bool)
    return data, np.where(null, -1, offsets[:-1]), offsets[1:]
