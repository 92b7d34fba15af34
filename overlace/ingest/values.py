"""Columns of any type as times, whole numbers, names, lists of names and keys: whole columns at once.

What Arrow reads, it reads a column at a time; the few values that it does not take are read one by one. Nothing is
guessed in place of a value that cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_128_digest

from overlace.arrays.jit import Bools, Ints
from overlace.ingest.events import TIME
from overlace.ingest.fields import UNITS, unit_of
from overlace.ingest.lines import is_text

NONE, UNREADABLE = np.iinfo(np.int64).min, np.iinfo(np.int64).min + 1
"""No value, and one that cannot be read."""

FAR = 2**62
"""What a number is read as that is larger."""

EPOCH, MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
EARLIEST, LATEST = ((datetime(year, 1, 1, tzinfo=UTC) - EPOCH) // MICROSECOND for year in (1900, 2200))
"""Times are from 1900 on and before 2200: beyond, a unit is wrong."""

NUMBER = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:[eE]([+-]?[0-9]+))?")
ISO = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.,:][0-9]{1,9})?)?"
    r"(?: ?(?:[Zz]|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?))?)?"
)
COLON = "^(.{16}:[0-9]{2}):"
"""What a time begins with that has a colon before the parts of its second."""
DAY = re.compile(r"([0-9]{1,2})-([A-Za-z]{3})-([0-9]{2}|[0-9]{4})")
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()


def as_text(values: pa.Array) -> pa.Array:
    """Values as text; what is not UTF-8 is written with replacement characters."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_floating(values.type):
        whole = pc.fill_null(pc.and_(pc.equal(values, pc.round(values)), pc.less(pc.abs(values), 2.0**63)), False)
        short = pc.if_else(whole, values, 0.0).cast(pa.int64(), safe=False).cast(pa.string())
        return pc.if_else(whole, short, values.cast(pa.string()))
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([each and each.decode(errors="replace") for each in values.to_pylist()], pa.string())


def not_utf8(values: pa.Array) -> Bools:
    """Which values of a column are bytes that are no text."""
    if pa.types.is_dictionary(values.type):
        broken = np.append(not_utf8(values.dictionary), False)
        codes: Ints = values.indices.fill_null(len(values.dictionary)).to_numpy(zero_copy_only=False)
        return np.asarray(broken[codes], bool)
    if _is_bytes(values.type):
        try:
            values.cast(pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:
            return np.array([each is not None and not is_text(each) for each in values.to_pylist()], bool)
    return np.zeros(len(values), bool)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def mask_of(values: pa.Array) -> Bools:
    """Truth values as an array, null being false."""
    return np.asarray(pc.fill_null(values, False).to_numpy(zero_copy_only=False), bool)


def integers(values: pa.Array) -> Ints:
    """Whole numbers of 64 bits as an array, NONE for null."""
    return np.asarray(values.cast(pa.int64()).fill_null(NONE).to_numpy(zero_copy_only=False), np.int64)


def _read(text: pa.Array, quick: Callable[[pa.Array], Ints], slow: Callable[[str], int]) -> Ints:
    """A number for each text: as many as can be at once, the others one by one."""
    there = mask_of(pc.greater(pc.binary_length(text), 0))
    found = np.full(len(text), NONE)
    found[there] = _in_parts(text if there.all() else text.filter(pa.array(there)), quick, slow)
    return found


def _in_parts(text: pa.Array, quick: Callable[[pa.Array], Ints], slow: Callable[[str], int]) -> Ints:
    """The same where there are no empty texts: what is not read at once is read in 8 parts, a few one by one."""
    if len(text) > 16:
        try:
            return quick(text)
        except pa.ArrowInvalid:
            size = -(-len(text) // 8)
            parts = [text.slice(begin, size) for begin in range(0, len(text), size)]
            return np.concatenate([_in_parts(part, quick, slow) for part in parts])
    return np.array([slow(each) for each in text.to_pylist()], np.int64)


def _quick_digits(text: pa.Array) -> Ints:
    """Numbers of up to 18 digits."""
    if not pc.all(pc.ascii_is_decimal(text)).as_py() or pc.max(pc.binary_length(text)).as_py() > 18:
        raise pa.ArrowInvalid("not digits alone")
    return integers(text)


def _quick_decimals(text: pa.Array, digits: int, exact: bool) -> Ints:
    """Numbers times 10**digits, cut towards 0 unless they have to be exact."""
    number = text.cast(pa.decimal128(38, 12)).cast(pa.decimal128(38, digits), safe=exact)
    low, high = np.frombuffer(number.buffers()[1], np.int64).reshape(-1, 2)[number.offset :][: len(number)].T
    return np.where((low >> 63) == high, np.clip(low, -FAR, FAR), np.where(high < 0, -FAR, FAR))


def number_of(text: str, shift: int = 0) -> Decimal | None:
    """The number times 10**shift, with all its digits."""
    found = NUMBER.fullmatch(text)
    if found is None:
        return None
    sign, digits, exponent = Decimal(found[1]).as_tuple()
    power = int((found[2] or "").lstrip("+-").lstrip("0")[:8] or 0)
    return Decimal((sign, digits, int(exponent) + shift + (-power if (found[2] or "").startswith("-") else power)))


# --- times -----------------------------------------------------------------------------------------------


def times_in(values: pa.Array, unit: str | None) -> Ints:
    """Times of any type as microseconds since 1970; those that are numbers are of a unit, seconds unless one is given.

    NONE where there is none, UNREADABLE where it is no time; any other number may lie outside EARLIEST and LATEST.
    """
    kind, chosen = values.type, unit or "s"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return integers(values.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False))
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return _scaled(integers(values), chosen)
    return _read(as_text(values), lambda text: _quick_times(text, chosen), lambda text: time_of(text, chosen))


def _scaled(numbers: Ints, unit: str) -> Ints:
    shift = 6 - UNITS[unit]
    if shift >= 0:
        micro = np.clip(numbers, -(FAR // 10**shift), FAR // 10**shift) * 10**shift
    else:
        micro = np.sign(numbers) * (np.abs(numbers) // 10**-shift)
    return np.where(numbers == NONE, NONE, micro)


def _quick_times(text: pa.Array, unit: str) -> Ints:
    shown = text[0].as_py()
    if shown.isdecimal():
        return _scaled(_quick_digits(text), unit)
    if shown[4:5] != "-":
        return _quick_decimals(text, 6 - UNITS[unit], exact=False)
    if shown[16:20:3] == "::":
        text = pc.replace_substring_regex(text, COLON, r"\1.")
    sizes = pc.binary_length(text)
    zoned = shown.endswith("Z") or "+" in shown or "-" in shown[10:]
    if pc.min(sizes).as_py() < 20 if zoned else pc.any(pc.equal(sizes, 13)).as_py():
        raise pa.ArrowInvalid("a time without minutes")
    try:
        return integers(text.cast(pa.timestamp("us", "UTC" if zoned else None)))
    except pa.ArrowInvalid:
        if len(shown) < 27:
            raise
    return integers(text.cast(pa.timestamp("ns", "UTC" if zoned else None)).cast(pa.int64())) // 1000


@lru_cache(1 << 16)
def time_of(text: str, unit: str) -> int:
    """Microseconds since 1970 of ISO 8601, a day such as 21-Dec-04, or a number; NONE, UNREADABLE or FAR."""
    text = text.strip(" \t")
    if not text:
        return NONE
    number = number_of(text, 6 - UNITS[unit])
    if number is not None:
        return _whole_part(number)
    day = DAY.fullmatch(text)
    if day is not None and day[2].lower() in MONTHS:
        year = day[3] if len(day[3]) == 4 else f"{19 if int(day[3]) >= 69 else 20}{day[3]}"  # as POSIX has it
        text = f"{year}-{MONTHS.index(day[2].lower()) + 1:02}-{int(day[1]):02}"
    if not ISO.fullmatch(text):
        return UNREADABLE
    text = re.sub(COLON, r"\1.", text)
    text = ("0400" + text[4:] if text.startswith("0000") else text).upper()  # datetime has no year 0, as leap as 400
    try:
        at = datetime.fromisoformat(text[:11] + text[11:].replace(" ", "").replace(",", "."))
    except ValueError:
        return UNREADABLE
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND


def _whole_part(number: Decimal) -> int:
    """A number cut towards 0, at most FAR."""
    return int(max(min(number, Decimal(FAR)), Decimal(-FAR)))


def times(text: pa.Array) -> tuple[pa.Array, Bools]:
    """(times, readable) of a column of text, numbers in the unit that their size suggests."""
    micro = times_in(text, unit_of(text.to_pylist()))
    fine = (micro >= EARLIEST) & (micro < LATEST)
    return pa.array(micro, mask=~fine).cast(TIME), fine


# --- whole numbers ---------------------------------------------------------------------------------------


def whole_in(values: pa.Array) -> Ints:
    """Whole numbers of 0 or more of any type: NONE where there is none, else UNREADABLE; those above FAR are FAR."""
    kind = values.type

    def quick(text: pa.Array) -> Ints:
        try:
            return _quick_digits(text)
        except pa.ArrowInvalid:
            return _quick_decimals(text, 0, exact=True)

    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        found = integers(values)
    else:
        values = pc.if_else(pc.is_nan(values), None, values) if pa.types.is_floating(kind) else values
        found = _read(as_text(values), quick, whole_of)
    return np.where((found < 0) & (found != NONE), UNREADABLE, found)


@lru_cache(1 << 16)
def whole_of(text: str) -> int:
    """A whole number of 0 or more, however it is written; NONE, UNREADABLE or FAR."""
    text = text.strip(" \t")
    number = number_of(text)
    if number is None:
        return UNREADABLE if text else NONE
    whole = number.adjusted() >= 30 or number == number.to_integral_value()
    return _whole_part(number) if whole and number >= 0 else UNREADABLE


# --- names -----------------------------------------------------------------------------------------------


def names_in(values: pa.Array) -> pa.DictionaryArray:
    """Names of a column of any type; null where there is none or it is empty."""
    if not pa.types.is_dictionary(values.type):
        values = (values if pa.types.is_integer(values.type) else as_text(values)).dictionary_encode()
    return empty_as_null(pa.DictionaryArray.from_arrays(values.indices.cast(pa.int32()), as_text(values.dictionary)))


def empty_as_null(text: pa.Array) -> pa.Array:
    """Text, dictionary-encoded or not, with null in place of what is empty."""
    coded = pa.types.is_dictionary(text.type)
    empty = pc.equal(text.dictionary if coded else text, "")
    if not pc.any(empty).as_py():
        return text
    if not coded:
        return pc.if_else(empty, None, text)
    indices = pc.if_else(empty.take(text.indices), None, text.indices)
    return pa.DictionaryArray.from_arrays(indices, text.dictionary)


def is_list(kind: pa.DataType) -> bool:
    """Whether values are lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def names_in_lists(values: pa.Array, single: bool = False) -> pa.ListArray:
    """Lists without what is null or empty in them; for a `single` name an empty list is none."""
    sizes = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    names = names_in(values.flatten())
    if names.null_count:
        parent = np.repeat(np.arange(len(sizes)), sizes)
        sizes = np.bincount(parent[mask_of(names.is_valid())], minlength=len(sizes))
    missing = pa.array(sizes == 0) if single else values.is_null()
    return list_column(np.append(0, np.cumsum(sizes)), names.drop_null(), missing)


def list_column(start: Ints, members: pa.Array, missing: pa.Array | None = None) -> pa.ListArray:
    """Lists: that of row i is members[start[i]:start[i + 1]]; null where it is missing."""
    mask = missing if missing is not None and missing.true_count else None
    return pa.ListArray.from_arrays(pa.array(start.astype(np.int32)), members, mask=mask)


def names_in_cells(values: pa.Array, separator: str, suspects: str, single: bool) -> tuple[pa.ListArray, Bools]:
    """(lists, suspicious): the names in each cell, split at the separator if there is one.

    Without one a cell is one name; one that holds a suspect looks like a list.
    """
    coded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    text = as_text(coded.dictionary)
    suspicious = np.zeros(len(values), bool)
    if separator:
        parts = pc.split_pattern(text, separator)
        parts = list_column(parts.offsets.to_numpy(), pc.utf8_trim(parts.flatten(), " \t"), parts.is_null())
        return names_in_lists(parts.take(coded.indices), single), suspicious
    trimmed = pc.utf8_trim(text, " \t")
    if suspects and not pa.types.is_integer(coded.dictionary.type):
        suspicious = mask_of(pc.match_substring_regex(trimmed, f"[{re.escape(suspects)}]").take(coded.indices))
    cells = pa.DictionaryArray.from_arrays(coded.indices, pc.if_else(pc.equal(trimmed, ""), "", text))
    return names_in_lists(list_column(np.arange(len(cells) + 1), cells, values.is_null()), single), suspicious


# --- keys ------------------------------------------------------------------------------------------------


def keys_in(values: pa.Array) -> pa.Array:
    """128-bit hashes of keys of any type, null where there is none."""
    coded = values.dictionary_encode() if _is_bytes(values.type) else names_in(values)
    hashes = b"".join(map(xxh3_128_digest, coded.dictionary.cast(pa.binary()).to_pylist()))
    return pa.Array.from_buffers(pa.binary(16), len(coded.dictionary), [None, pa.py_buffer(hashes)]).take(coded.indices)
