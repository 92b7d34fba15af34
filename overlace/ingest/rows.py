"""Rows as events: the columns of a log's fields, and which rows cannot be read and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Bools, Ints
from overlace.ingest.content import Content
from overlace.ingest.events import TIME, Settled, events
from overlace.ingest.fields import separator_of
from overlace.ingest.lines import Faults, TableRows, TextLines, bad
from overlace.ingest.values import (
    EARLIEST,
    LATEST,
    NONE,
    UNREADABLE,
    is_list,
    keys_in,
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
        yield from bad(lines, {code: faults.code == code for code in faults.reasons}, faults.reasons)
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
    yield batch


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
    note("client", mask_of(found["client"].is_null()), "{}: empty" if "client" in names else "no client")
    for field in ("bytes", "weight"):
        whole = numbers(field, whole_in)
        note(field, whole == UNREADABLE, "{}: not a whole number of 0 or more")
        note(field, whole > largest, f"{{}}: above {largest:,}")
        found[field] = pa.array(whole, mask=whole == NONE)
    for into, fields in (("receivers", ("receivers", "receiver")), ("attributes", ("attributes",))):
        lists = [_lists(each, field, options, note) for field in fields for each in columns.get(field, ())]
        found[into] = _first_of(lists, pa.list_(pa.string()), rows)
    if columns.get("key"):
        found["key"] = _first_of(columns["key"], pa.string(), rows)
    return found


def _first_of(columns: Sequence[pa.Array], kind: pa.DataType, rows: int) -> pa.Array:
    """Of each row the first value that there is."""
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
