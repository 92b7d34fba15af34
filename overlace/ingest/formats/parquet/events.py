"""Rows of a Parquet file as events: rows of one message that stand next to one another are one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Bools, Ints
from overlace.arrays.text import BEYOND, MISSING, TEXT, UNREADABLE, Bytes, Small, split_cells
from overlace.ingest.cells import LARGEST, LOOKS_LIKE_A_LIST, key_column, spans_of, text_at
from overlace.ingest.events import TIME, Settled, events
from overlace.ingest.fields import separator_of
from overlace.ingest.formats.parquet.rows import Named, Rows, coalesce
from overlace.ingest.formats.parquet.values import (
    BROKEN,
    Names,
    Values,
    as_text,
    hashes_of,
    least_of_runs,
    mix_words,
    name_column,
    nulls,
    number_column,
    number_names,
    numbers_in,
    places,
    recode,
    runs_of,
    text_of,
    times_in,
    words_of,
)

Column = TypeVar("Column", Ints, Bools, Small)


class NameLists(NamedTuple):
    """Names in lists: row i has names.codes[start[i]:start[i + 1]]; `there`: whether it has a list at all."""

    start: Ints
    names: Names
    there: Bools

    def at(self, rows: Ints) -> NameLists:
        """The lists of some rows."""
        sizes = np.diff(self.start)[rows]
        codes = self.names.codes[places(self.start[rows], sizes)]
        return NameLists(np.append(0, np.cumsum(sizes)), Names(codes, self.names.names), self.there[rows])

    def column(self) -> pa.Array:
        """As a column, null where there is none."""
        missing = None if self.there.all() else pa.array(~self.there)
        return pa.ListArray.from_arrays(pa.array(self.start.astype(np.int32)), name_column(self.names), mask=missing)


def events_of(rows: Rows, before: int, known: Mapping[str, Bools] | None = None) -> Iterator[pa.RecordBatch]:
    """Bad rows by reason, then an event a message; `before` rows of the table stand above these.

    `known` are rows of which something is known to be wrong, by reason.
    """
    # what each row says, and what is wrong with it: reason -> rows
    wrong: dict[str, Bools] = dict(known or {})
    at = coalesce(rows, "at", times_in)
    called = {field: names[0] if len(names) == 1 else field for field, names in rows.options["mapping"].items()}
    n = len(at.state)
    offset = before + rows.skip + np.arange(n)
    _note(wrong, at.state, called.get("at", "at"), "a time before 1900 or after 2199", "not a time", "empty")
    names = {field: Named(rows, field, n) for field in ("client", "topic", "broker")}
    for field, each in names.items():
        for code, reason in ((-1, "empty"), (BROKEN, "not UTF-8")):
            if (field == "client" or code == BROKEN) and each.has(code):
                wrong[f"{called.get(field, field)}: {reason}"] = each.full.codes == code
    numbers = {field: coalesce(rows, field, numbers_in, n) for field in ("bytes", "weight")}
    for field, number in numbers.items():
        _note(wrong, number.state, called.get(field, field), f"above {LARGEST:,}", "not a whole number of 0 or more")
    receivers, attributes = _receivers(rows, n, wrong), _attributes(rows, wrong)

    bad = np.zeros(n, bool)
    for reason, which in wrong.items():
        yield from _bad(offset[which & ~bad], reason)
        bad |= which
    if bad.all():
        return

    # only the rows that can be read
    keep = np.flatnonzero(~bad) if bad.any() else None
    when, offset = (each if keep is None else each[keep] for each in (at.values, offset))
    keys, keyed = _keys(rows, n, keep, names, at.values, numbers)
    receivers = receivers if keep is None else receivers.at(keep)

    # runs of rows of one message, each with the row that speaks for it
    alone = keys is None or bool(rows.columns_of("receivers"))  # rows with lists are joined like any others
    run = np.arange(len(when) + 1) if alone or keys is None else runs_of(keys, keyed)
    whole = len(run) > len(when)
    head = run[:-1] if whole else least_of_runs(run, when)
    chosen = (None if whole else head) if keep is None else keep[head]  # the rows that speak, among all

    def at_heads(values: Column) -> Column:
        return values if whole else values[head]

    def at_chosen(values: Column) -> Column:
        return values if chosen is None else values[chosen]

    # an event a run, with the receivers of all of its rows
    columns: dict[str, pa.Array | Ints] = {"at": pa.array(at_heads(when)).cast(TIME)}
    columns |= {field: name_column(each.at(chosen)) for field, each in names.items() if each.known}
    for field, number in numbers.items():
        if rows.columns_of(field):
            columns[field] = number_column(at_chosen(number.values), at_chosen(number.state))
    if not whole:
        logged = receivers.there if receivers.there.all() else np.logical_or.reduceat(receivers.there, run[:-1])
        receivers = receivers._replace(start=receivers.start[run], there=logged)
        columns["rows"] = np.diff(run)
    columns["receivers"] = receivers.column()
    if attributes is not None:
        columns["attributes"] = attributes if chosen is None else attributes.take(pa.array(chosen))
    if keys is not None and (alone or not rows.options.get("sorted")):
        columns["message"] = key_column(mix_words(at_heads(keys)), at_heads(keyed))
    yield events(offset=at_heads(offset), kind="message", **columns)


def _bad(offset: Ints, reason: str) -> Iterator[pa.RecordBatch]:
    """Rows that cannot be read; the first is the sample."""
    if len(offset):
        shown = [f"row {offset[0]:,}"] + [None] * (len(offset) - 1)
        reasons = pa.repeat(pa.scalar(reason), len(offset))
        yield events(offset=offset, kind="bad", reason=reasons, sample=pa.array(shown, pa.string()))


def _note(
    wrong: dict[str, Bools], state: Small, name: str, beyond: str, unreadable: str, missing: str | None = None
) -> None:
    """Note which rows cannot be read, by reason."""
    for code, text in ((MISSING, missing), (UNREADABLE, unreadable), (BEYOND, beyond)):
        if text and (state == code).any():
            wrong[f"{name}: {text}"] = state == code


def _receivers(rows: Rows, n: int, wrong: dict[str, Bools]) -> NameLists:
    """Who received each row, if the row says so: of several columns the first that does counts."""
    parts = []
    for field in ("receivers", "receiver"):
        parts += [_names_in(rows.column(name), field, name, rows.options, wrong) for name in rows.columns_of(field)]
    if not parts:
        nobody = Names(np.empty(0, np.int32), pa.array([], pa.string()))
        return NameLists(np.zeros(n + 1, np.int64), nobody, np.zeros(n, bool))
    start, names, there = parts[0]
    for more_start, more, more_there in parts[1:]:
        use = more_there & ~there
        together = pc.unique(pa.concat_arrays([names.names, more.names]))
        codes = np.concatenate([recode(names, together), recode(more, together)])
        sizes = np.where(use, np.diff(more_start), np.diff(start))
        begin = np.where(use, more_start[:-1] + len(names.codes), start[:-1])
        start = np.append(0, np.cumsum(sizes))
        names, there = Names(codes[places(begin, sizes)], together), there | more_there
    return NameLists(start, names, there)


def _names_in(values: pa.Array, field: str, name: str, options: Settled, wrong: dict[str, Bools]) -> NameLists:
    """The names in each cell of a column: a list, text that may be split, or one name."""
    n = len(values)
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        sizes = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        (codes,), names = number_names([values.flatten()])
        parent = np.repeat(np.arange(n), sizes)
        if (codes == BROKEN).any():
            wrong[f"{name}: not UTF-8"] = np.bincount(parent[codes == BROKEN], minlength=n) > 0
        keep = codes >= 0
        start = np.append(0, np.cumsum(np.bincount(parent[keep], minlength=n)))
        return NameLists(start, Names(codes[keep], names), ~nulls(values))

    separator, suspects, single = separator_of(options)
    suspects = single if field == "receiver" else suspects
    inner = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if not pa.types.is_integer(inner) and (len(separator) or len(suspects)):
        values = values if pa.types.is_dictionary(values.type) else as_text(values).dictionary_encode()
        split = _split_names(values, field, name, (separator, suspects), wrong)
        if split is not None:
            return split

    (codes,), names = number_names([values])
    if (codes == BROKEN).any():
        wrong[f"{name}: not UTF-8"] = codes == BROKEN
    known = codes >= 0
    if known.all():
        return NameLists(np.arange(n + 1), Names(codes, names), known)
    there = known if field == "receiver" else ~nulls(values)
    return NameLists(np.append(0, np.cumsum(known)), Names(codes[known], names), there)


def _split_names(
    coded: pa.DictionaryArray, field: str, name: str, marks: tuple[Bytes, Bytes], wrong: dict[str, Bools]
) -> NameLists | None:
    """Cells split at the separator, if there is one; else what looks like a list is wrong.

    `marks` are the separator, and what makes a cell look like a list.
    """
    text, broken = text_of(coded.dictionary)
    data, first, last = spans_of(text)
    room = int((last - first)[first >= 0].sum()) + len(first)
    kinds = np.full(len(first), TEXT, np.int8)
    bounds, begin, end, state = split_cells(data, first, last, kinds, *marks, room)
    index = coded.indices.fill_null(len(text)).to_numpy(zero_copy_only=False).astype(np.int64)
    for reason, which in ((LOOKS_LIKE_A_LIST.format(name), state == BEYOND), (f"{name}: not UTF-8", broken)):
        rows = np.append(which, False)[index]
        if rows.any():
            wrong[reason] = rows
    if not len(marks[0]):
        return None
    names = text_at(data, begin, end).dictionary_encode()
    sizes = np.append(np.diff(bounds), 0)[index]
    codes = names.indices.to_numpy()[places(np.append(bounds[:-1], 0)[index], sizes)]
    there = sizes > 0 if field == "receiver" else index < len(text)
    return NameLists(np.append(0, np.cumsum(sizes)), Names(codes.astype(np.int32), names.dictionary), there)


def _attributes(rows: Rows, wrong: dict[str, Bools]) -> pa.Array | None:
    names = rows.columns_of("attributes")
    return _names_in(rows.column(names[0]), "attributes", names[0], rows.options, wrong).column() if names else None


def _keys(
    rows: Rows, n: int, keep: Ints | None, names: Mapping[str, Named], at: Ints, numbers: Mapping[str, Values]
) -> tuple[Ints | None, Bools]:
    """(words, there): what rows of one message agree in, two words or one a row; None where each stands alone."""
    group = rows.options.get("group") or ()
    parts: list[Ints] = []
    there = np.ones(n, bool)
    for field in group or (("key",) if rows.columns_of("key") else ()):
        if field in names:
            codes, called = names[field].full
            parts.append(np.append(hashes_of(called), [0, 0])[codes])
        elif field == "at":
            parts.append(at)
        elif field in numbers:
            parts.append(np.where(numbers[field].state == MISSING, -1, numbers[field].values))
        else:
            column = rows.column(rows.columns_of(field)[0])
            if field == "key" and not group:
                there = ~nulls(column)
            parts.append(words_of(column))
    if not parts:
        return None, there
    words = parts[0] if len(parts) == 1 else np.column_stack(parts)
    return (words, there) if keep is None else (words[keep], there[keep])
