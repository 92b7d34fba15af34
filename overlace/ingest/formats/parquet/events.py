"""Rows of a Parquet file as events: rows of one message that stand next to one another are one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Bools, Ints
from overlace.arrays.text import (
    BEYOND,
    MISSING,
    TEXT,
    UNREADABLE,
    Small,
    split_cells,
)
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


def events_of(rows: Rows, before: int) -> Iterator[pa.RecordBatch]:
    """Bad rows by reason, then an event a message; `before` rows of the table stand above these."""
    wrong: dict[str, Bools] = {}
    at = coalesce(rows, "at", times_in)
    called = {field: names[0] if len(names) == 1 else field for field, names in rows.options["mapping"].items()}
    n = len(at.state)
    offset = before + rows.skip + np.arange(n)
    _note(wrong, at.state, "at", called, "a time before 1900 or after 2199", "not a time", "empty")
    names = {field: Named(rows, field, n) for field in ("client", "topic", "broker")}
    for field, each in names.items():
        for code, reason in ((-1, "empty"), (BROKEN, "not UTF-8")):
            if (field == "client" or code == BROKEN) and each.has(code):
                wrong[f"{called.get(field, field)}: {reason}"] = each.full.codes == code
    numbers = {field: coalesce(rows, field, numbers_in, n) for field in ("bytes", "weight")}
    for field, number in numbers.items():
        _note(wrong, number.state, field, called, f"above {LARGEST:,}", "not a whole number of 0 or more", None)
    start, receivers, there = _receivers(rows, n, called, wrong)
    attributes = _attributes(rows, n, called, wrong)
    bad = np.zeros(n, bool)
    for reason, which in wrong.items():
        fresh = which & ~bad
        if fresh.any():
            at_rows = np.flatnonzero(fresh)
            shown = [f"row {offset[at_rows[0]]:,}"] + [None] * (len(at_rows) - 1)
            texts = pa.repeat(pa.scalar(reason), len(at_rows))
            yield events(offset=offset[at_rows], kind="bad", reason=texts, sample=pa.array(shown, pa.string()))
        bad |= which
    keep = np.flatnonzero(~bad) if bad.any() else None
    if n == 0 or (keep is not None and len(keep) == 0):
        return

    def kept(values: Column) -> Column:
        return values if keep is None else values[keep]

    when = kept(at.values)
    keys, there_key = _keys(rows, n, keep, names, at.values, numbers)
    if keep is not None:
        sizes = np.diff(start)[keep]
        bounds = np.append(0, np.cumsum(sizes))
        receivers = Names(receivers.codes[places(start[keep], sizes)], receivers.names)
        start, there, offset = bounds, there[keep], offset[keep]
    alone = keys is None or bool(rows.columns_of("receivers"))  # rows with lists are joined like any others
    run = np.arange(len(when) + 1) if alone or keys is None else runs_of(keys, there_key)
    whole = len(run) > len(when)
    head = run[:-1] if whole else least_of_runs(run, when)
    chosen = (None if whole else head) if keep is None else keep[head]  # rows that tell of their messages

    def at_heads(values: Column) -> Column:
        return values if whole else values[head]

    def at_chosen(values: Column) -> Column:
        return values if chosen is None else values[chosen]

    columns: dict[str, pa.Array | Ints] = {"at": pa.array(at_heads(when)).cast(TIME)}
    columns |= {field: name_column(each.at(chosen)) for field, each in names.items() if each.known}
    for field, number in numbers.items():
        if rows.columns_of(field):
            columns[field] = number_column(at_chosen(number.values), at_chosen(number.state))
    logged = there if whole or there.all() else np.logical_or.reduceat(there, run[:-1])
    bounds = pa.array((start if whole else start[run]).astype(np.int32))
    columns["receivers"] = pa.ListArray.from_arrays(
        bounds, name_column(receivers), mask=None if logged.all() else pa.array(~logged)
    )
    if attributes is not None:
        taken = attributes if keep is None else attributes.take(pa.array(keep))
        columns["attributes"] = taken if whole else taken.take(pa.array(head))
    if keys is not None and (alone or not rows.options.get("sorted")):
        columns["message"] = key_column(mix_words(at_heads(keys)), at_heads(there_key))
    if not whole:
        columns["rows"] = np.diff(run)
    yield events(offset=at_heads(offset), kind="message", **columns)


def _note(
    wrong: dict[str, Bools],
    state: Small,
    field: str,
    called: Mapping[str, str],
    beyond: str,
    unreadable: str,
    missing: str | None,
) -> None:
    for code, text in ((MISSING, missing), (UNREADABLE, unreadable), (BEYOND, beyond)):
        if text and (state == code).any():
            wrong[f"{called.get(field, field)}: {text}"] = state == code


def _receivers(rows: Rows, n: int, called: Mapping[str, str], wrong: dict[str, Bools]) -> tuple[Ints, Names, Bools]:
    """(start, names, there): who received each row, and whether the row says so."""
    parts = []
    for field in ("receivers", "receiver"):
        parts += [_receivers_in(rows.column(name), field, name, rows.options, wrong) for name in rows.columns_of(field)]
    if not parts:
        return np.zeros(n + 1, np.int64), Names(np.empty(0, np.int32), pa.array([], pa.string())), np.zeros(n, bool)
    start, names, there = parts[0]
    for more_start, more, more_there in parts[1:]:
        use = more_there & ~there
        together = pc.unique(pa.concat_arrays([names.names, more.names]))
        codes = np.concatenate([recode(names, together), recode(more, together)])
        sizes = np.where(use, np.diff(more_start), np.diff(start))
        begin = np.where(use, more_start[:-1] + len(names.codes), start[:-1])
        start = np.append(0, np.cumsum(sizes))
        names, there = Names(codes[places(begin, sizes)], together), there | more_there
    return start, names, there


def _receivers_in(
    values: pa.Array, field: str, name: str, options: Settled, wrong: dict[str, Bools]
) -> tuple[Ints, Names, Bools]:
    n = len(values)
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        there = ~nulls(values)
        sizes = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        (codes,), names = number_names([values.flatten()])
        parent = np.repeat(np.arange(n), sizes)
        if (codes == BROKEN).any():
            wrong[f"{name}: not UTF-8"] = np.bincount(parent[codes == BROKEN], minlength=n) > 0
        keep = codes >= 0
        start = np.append(0, np.cumsum(np.bincount(parent[keep], minlength=n)))
        return start, Names(codes[keep], names), there
    separator, suspects, single = separator_of(options)
    inner = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    suspects = single if field == "receiver" else suspects
    if not pa.types.is_integer(inner) and (len(separator) or len(suspects)):
        coded = values if pa.types.is_dictionary(values.type) else as_text(values).dictionary_encode()
        text, broken = text_of(coded.dictionary)
        data, first, last = spans_of(text)
        room = int((last - first)[first >= 0].sum()) + len(first)
        kinds = np.full(len(first), TEXT, np.int8)
        bounds, begin, end, state = split_cells(data, first, last, kinds, separator, suspects, room)
        index = coded.indices.fill_null(len(text)).to_numpy(zero_copy_only=False).astype(np.int64)
        odd = np.append(state == BEYOND, False)[index]
        if odd.any():
            wrong[LOOKS_LIKE_A_LIST.format(name)] = odd
        if np.append(broken, False)[index].any():
            wrong[f"{name}: not UTF-8"] = np.append(broken, False)[index]
        if len(separator):
            names = text_at(data, begin, end).dictionary_encode()
            sizes = np.append(np.diff(bounds), 0)[index]
            start = np.append(0, np.cumsum(sizes))
            codes = names.indices.to_numpy()[places(np.append(bounds[:-1], 0)[index], sizes)]
            there = sizes > 0 if field == "receiver" else index < len(text)
            return start, Names(codes.astype(np.int32), names.dictionary), there
        values = coded
    (codes,), names = number_names([values])
    if (codes == BROKEN).any():
        wrong[f"{name}: not UTF-8"] = codes == BROKEN
    known = codes >= 0
    if known.all():
        return np.arange(n + 1), Names(codes, names), known
    there = known if field == "receiver" else ~nulls(values)
    return np.append(0, np.cumsum(known)), Names(codes[known], names), there


def _attributes(rows: Rows, n: int, called: Mapping[str, str], wrong: dict[str, Bools]) -> pa.Array | None:
    names = rows.columns_of("attributes")
    if not names:
        return None
    start, found, there = _receivers_in(rows.column(names[0]), "attributes", names[0], rows.options, wrong)
    mask = None if there.all() else pa.array(~there)
    return pa.ListArray.from_arrays(pa.array(start.astype(np.int32)), name_column(found), mask=mask)


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
