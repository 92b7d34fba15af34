"""Columns of a table of any type as times, whole numbers, names and keys, value by value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overlace.arrays.hashing import mixed
from overlace.arrays.jit import Bools, Ints, kernel, size
from overlace.arrays.lines import is_utf8
from overlace.arrays.numbers import EARLIEST, LATEST, read_times, read_whole
from overlace.arrays.text import (
    BEYOND,
    FINE,
    MISSING,
    TEXT,
    UNREADABLE,
    Small,
    hash_spans,
)
from overlace.ingest.cells import LARGEST, spans_of
from overlace.ingest.events import Settled
from overlace.ingest.fields import UNITS

DENSE = 1 << 26


"""Whole numbers up to here are looked up in a table."""


class Values(NamedTuple):
    """A column read: its values, and what came of each (FINE, MISSING, ...)."""

    values: Ints
    state: Small


class Names(NamedTuple):
    """A column of names: codes into `names`, -1 for none."""

    codes: NDArray[np.int32]
    names: pa.Array


def number_column(values: Ints, state: Small) -> pa.Array:
    """Numbers as a column, null where they are missing."""
    missing = state == MISSING
    return pa.array(values, mask=missing) if missing.any() else pa.array(values)


def name_column(names: Names) -> pa.Array:
    """Names as a dictionary-encoded column."""
    mask = names.codes < 0
    indices = pa.array(names.codes, mask=mask) if mask.any() else pa.array(names.codes)
    return pa.DictionaryArray.from_arrays(indices, names.names)


def times_in(values: pa.Array, options: Settled) -> Values:
    """Times of any type as microseconds."""
    kind = values.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        values = values.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False).cast(pa.int64())
        return _check_times(values)
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        values = values.cast(pa.int64())
        shift = 6 - UNITS[options.get("unit") or "s"]
        micro = integers(filled(values))
        large = np.abs(micro) > np.iinfo(np.int64).max // 10**6
        micro = np.where(large, LATEST, micro) * 10**shift if shift >= 0 else _cut(micro, 10**-shift)
        micro = np.where(large, LATEST, micro)
        return _check_times(pa.array(micro, mask=nulls(values)))
    text = as_text(values)
    data, first, last = spans_of(text)
    at, state, _ = read_times(data, first, last, np.full(len(first), TEXT, np.int8), UNITS[options.get("unit") or "s"])
    return Values(at, state)


def _cut(values: Ints, by: int) -> Ints:
    return np.where(values < 0, -(-values // by), values // by)


def _check_times(values: pa.Array) -> Values:
    micro = integers(filled(values))
    state = np.where(nulls(values), MISSING, FINE).astype(np.int8)
    state[(state == FINE) & ((micro < EARLIEST) | (micro >= LATEST))] = BEYOND
    return Values(micro, state)


def numbers_in(values: pa.Array, options: Settled) -> Values:
    """Whole numbers of any type."""
    kind = values.type
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        numbers = integers(filled(values))
        state = np.where(nulls(values), MISSING, FINE).astype(np.int8)
        state[numbers < 0] = UNREADABLE
        state[numbers > LARGEST] = BEYOND
        return Values(numbers, state)
    if pa.types.is_floating(kind):
        values = pc.if_else(pc.is_nan(values), None, values)
    text = as_text(values)
    data, first, last = spans_of(text)
    found, state = read_whole(data, first, last, np.full(len(first), TEXT, np.int8), LARGEST)
    return Values(found, state)


def as_text(values: pa.Array) -> pa.Array:
    """Values as text; bytes stay bytes."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_floating(values.type):
        whole = pc.fill_null(pc.and_(pc.equal(values, pc.round(values)), pc.less(pc.abs(values), 2.0**63)), False)
        short = pc.if_else(whole, values, 0.0).cast(pa.int64(), safe=False).cast(pa.string())
        return pc.if_else(whole, short, values.cast(pa.string()))
    return values.cast(pa.binary()) if pa.types.is_binary(values.type) else values.cast(pa.string())


BROKEN = -2


"""The code of a name that is not text."""


def recode(names: Names, among: pa.Array) -> NDArray[np.int32]:
    """Codes among other names."""
    to = np.append(pc.index_in(names.names, value_set=among).to_numpy(zero_copy_only=False), [BROKEN, -1])
    return to.astype(np.int32)[names.codes]


def number_names(columns: Sequence[pa.Array]) -> tuple[list[NDArray[np.int32]], pa.Array]:
    """(codes of each column, names): -1 for null and for what is empty, BROKEN for what is not text."""
    if all(pa.types.is_integer(each.type) for each in columns):
        raw = [each.fill_null(0).to_numpy() for each in columns]
        low, high = min(int(r.min(initial=0)) for r in raw), max(int(r.max(initial=0)) for r in raw)
        dense = low >= 0 and high < DENSE
        values = _used(raw, high) if dense else np.unique(np.concatenate(raw))
        names = pa.array(values).cast(pa.string())
        if dense:
            place_of = np.zeros(high + 1, dtype=np.int32)
            place_of[values] = np.arange(len(values), dtype=np.int32)
            codes = [place_of[each] for each in raw]
        else:
            codes = [np.searchsorted(values, each).astype(np.int32) for each in raw]
        for code, each in zip(codes, columns, strict=True):
            if each.null_count:
                code[nulls(each)] = -1
        return codes, names
    coded = [each if pa.types.is_dictionary(each.type) else as_text(each).dictionary_encode() for each in columns]
    lists = [text_of(each.dictionary) for each in coded]
    names = pc.unique(pa.concat_arrays([text for text, _ in lists])).drop_null()
    names = names.filter(pc.greater(pc.binary_length(names), 0))
    numbers = []
    for each, (text, broken) in zip(coded, lists, strict=True):
        own = pc.index_in(text, value_set=names).fill_null(-1).to_numpy(zero_copy_only=False)
        place = np.append(np.where(broken, BROKEN, own), -1).astype(np.int32)
        numbers.append(place[each.indices.fill_null(len(text)).to_numpy(zero_copy_only=False)])
    return numbers, names


def text_of(values: pa.Array) -> tuple[pa.Array, Bools]:
    """(text, broken): values of a dictionary as text, null where they are not UTF-8."""
    text = as_text(values)
    if not pa.types.is_binary(text.type):
        return text, np.zeros(len(text), bool)
    data, first, last = spans_of(text)
    fine = is_utf8(data, np.maximum(first, 0), np.where(first < 0, 0, last))
    return pa.array([each if ok else None for each, ok in zip(text.to_pylist(), fine, strict=True)], pa.binary()).cast(
        pa.string()
    ), ~fine


def _used(columns: Sequence[NDArray[np.integer]], high: int) -> Ints:
    """The numbers up to `high` that occur."""
    seen = np.zeros(high + 1, dtype=np.bool_)
    for each in columns:
        mark(seen, each)
    return np.flatnonzero(seen)


@kernel(work=size)
def mark(seen: Bools, numbers: NDArray[np.integer]) -> None:
    """Note which numbers occur, in place."""
    for i in range(len(numbers)):
        seen[numbers[i]] = True


def words_of(column: pa.Array) -> Ints:
    """A word for each value of a key."""
    if pa.types.is_integer(column.type):
        return integers(filled(column))
    if not pa.types.is_dictionary(column.type):
        column = as_text(column).dictionary_encode()
    hashes = np.append(hashes_of(column.dictionary), 0)
    found: Ints = hashes[column.indices.fill_null(len(hashes) - 1).to_numpy(zero_copy_only=False)]
    return found


def hashes_of(names: pa.Array) -> Ints:
    """A hash of each text."""
    text = as_text(names)
    data, first, last = spans_of(text)
    return hash_spans(data, np.maximum(first, 0), np.where(first < 0, 0, last), 3)


def runs_of(keys: Ints, there: Bools) -> Ints:
    """Where runs of rows with one key begin, and the end; a row without a key is a run of its own."""
    if len(keys) == 0:
        return np.zeros(1, np.int64)
    differs = keys[1:] != keys[:-1]
    turn = differs.any(axis=1) if differs.ndim > 1 else differs
    if not there.all():
        turn |= ~there[1:]
    return np.append(np.flatnonzero(np.append(True, turn)), len(keys))


@kernel(work=size)
def least_of_runs(run: Ints, at: Ints) -> Ints:
    """The row with the least time of each run, the first of them."""
    head = np.empty(len(run) - 1, dtype=np.int64)
    for r in range(len(run) - 1):
        best = run[r]
        for i in range(run[r] + 1, run[r + 1]):
            if at[i] < at[best]:
                best = i
        head[r] = best
    return head


def mix_words(words: Ints) -> Ints:
    """Two words a row from one or more."""
    columns = words.reshape(len(words), -1).astype(np.uint64)
    out = []
    for seed in (0x5851F42D4C957F2D, 0x14057B7EF767814F):
        state = np.full(len(columns), seed, np.uint64)
        for c in range(columns.shape[1]):
            state = mixed(state ^ np.ascontiguousarray(columns[:, c]))
        out.append(state.view(np.int64))
    return np.column_stack(out)


def places(start: Ints, sizes: Ints) -> Ints:
    """The places start[i], start[i] + 1, ... of groups of these sizes."""
    first = np.cumsum(sizes) - sizes
    return np.repeat(start - first, sizes) + np.arange(sizes.sum())


def integers(values: pa.Array | pa.ChunkedArray) -> Ints:
    """Values as numbers of 64 bits."""
    return np.ascontiguousarray(
        values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy(), dtype=np.int64
    )


def flags(values: pa.Array) -> Bools:
    """Truth values as an array."""
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=bool)


def nulls(values: pa.Array) -> Bools:
    """Which values are null."""
    return flags(values.is_null()) if values.null_count else np.zeros(len(values), bool)


def filled(values: pa.Array) -> pa.Array:
    """Values with 0 for null."""
    return values.fill_null(0) if values.null_count else values
