"""Values in text, as spans of bytes: names as codes, times, whole numbers, lists.

A span is `first[i]:last[i]` in an array of bytes; first -1 means that there is nothing. Every span is read
on its own: what one holds changes nothing for another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlace.arrays.hashing import mix
from overlace.arrays.jit import Ints, kernel

Bytes = NDArray[np.uint8]
Codes = NDArray[np.int32]
Small = NDArray[np.int8]

ABSENT, TEXT, NUMBER, TRUTH, LIST, OBJECT = range(6)
"""Kinds of a value."""

FINE, MISSING, UNREADABLE, BEYOND = range(4)
"""What came of reading a time or a number."""

EARLIEST, LATEST = -2_208_988_800_000_000, 7_258_118_400_000_000
"""Times are from 1900 on and before 2200: beyond, a unit is wrong."""

MOST = 10**18
"""Numbers are read up to here."""

ROOM = (2**63 - 10) // 10
"""A number up to here has room for one more digit."""

FAR = 10**8
"""Powers of ten are all alike from here on."""


def _bytes(data: Bytes, first: Any, *_: Any) -> int:
    return 4 * len(data) + 8 * len(first)


@kernel
def trim(data: Bytes, first: int, last: int) -> tuple[int, int]:
    """The span without blanks at its ends."""
    while first < last and (data[first] == 32 or data[first] == 9):
        first += 1
    while last > first and (data[last - 1] == 32 or data[last - 1] == 9):
        last -= 1
    return first, last


@kernel
def hash_span(data: Bytes, first: int, last: int, state: np.uint64) -> np.uint64:
    """A hash of the bytes of a span."""
    word = np.uint64(0)
    filled = 0
    for i in range(first, last):
        word = (word << np.uint64(8)) | np.uint64(data[i])
        filled += 1
        if filled == 8:
            state = mix(state ^ word)
            word = np.uint64(0)
            filled = 0
    return mix(state ^ word ^ (np.uint64(last - first) << np.uint64(56)))


@kernel(work=_bytes)
def hash_spans(data: Bytes, first: Ints, last: Ints, seed: int) -> Ints:
    """A 64-bit hash of each span."""
    hashes = np.empty(len(first), dtype=np.int64)
    for i in range(len(first)):
        hashes[i] = np.int64(hash_span(data, first[i], last[i], np.uint64(seed)))
    return hashes


@kernel
def same_bytes(data: Bytes, first: int, last: int, other: int, end: int) -> bool:
    """Whether two spans hold the same bytes."""
    if last - first != end - other:
        return False
    for k in range(last - first):  # noqa: SIM110
        if data[first + k] != data[other + k]:
            return False
    return True


@kernel(work=_bytes)
def number_spans(data: Bytes, first: Ints, last: Ints) -> tuple[Codes, Ints]:
    """(codes, where): equal spans have equal codes, as they come up, -1 for none; the first span of each code."""
    n = len(first)
    codes = np.empty(n, dtype=np.int32)
    size = 1024
    slot = np.full(size, -1, dtype=np.int32)
    hashes = np.empty(512, dtype=np.uint64)
    where = np.empty(512, dtype=np.int64)
    count = 0
    for i in range(n):
        if first[i] < 0:
            codes[i] = -1
            continue
        state = hash_span(data, first[i], last[i], np.uint64(0))
        at = np.int64(state & np.uint64(size - 1))
        found = -1
        while slot[at] >= 0:
            code = slot[at]
            if hashes[code] == state and same_bytes(data, first[i], last[i], first[where[code]], last[where[code]]):
                found = code
                break
            at = (at + 1) & (size - 1)
        if found < 0:
            found = count
            if count == len(where):  # room for twice as many
                more = np.empty(2 * count, dtype=np.uint64)
                more[:count] = hashes
                hashes = more
                places = np.empty(2 * count, dtype=np.int64)
                places[:count] = where
                where = places
                size = 4 * len(where)
                slot = np.full(size, -1, dtype=np.int32)
                for code in range(count):
                    at = np.int64(hashes[code] & np.uint64(size - 1))
                    while slot[at] >= 0:
                        at = (at + 1) & (size - 1)
                    slot[at] = code
                at = np.int64(state & np.uint64(size - 1))
                while slot[at] >= 0:
                    at = (at + 1) & (size - 1)
            slot[at] = found
            hashes[found] = state
            where[found] = i
            count += 1
        codes[i] = found
    return codes, where[:count].copy()


@kernel(work=lambda data, first, last: 4 * len(first))
def gather_spans(data: Bytes, first: Ints, last: Ints) -> tuple[Codes, Bytes]:
    """(offsets, bytes): the spans one after the other."""
    offsets = np.zeros(len(first) + 1, dtype=np.int32)
    for i in range(len(first)):
        offsets[i + 1] = offsets[i] + last[i] - first[i]
    gathered = np.empty(offsets[-1], dtype=np.uint8)
    for i in range(len(first)):
        for k in range(last[i] - first[i]):
            gathered[offsets[i] + k] = data[first[i] + k]
    return offsets, gathered


@kernel(work=lambda data, first, last, kind: 8 * len(first))
def cut_whole(data: Bytes, first: Ints, last: Ints, kind: Small) -> Ints:
    """The ends of spans, where a number like 7.0 ends before its point: it names what 7 names."""
    ends = last.copy()
    for i in range(len(first)):
        if kind[i] != NUMBER:
            continue
        point = -1
        for k in range(first[i], last[i]):
            c = data[k]
            if c == 46 and point < 0 and k > first[i]:
                point = k
            elif (point >= 0 and c != 48) or not (48 <= c <= 57 or (c == 45 and k == first[i])):
                point = -1
                break
        if point >= 0:
            ends[i] = point
    return ends


# --- numbers and times ---------------------------------------------------------------------------------


@kernel
def read_number(data: Bytes, first: int, last: int) -> tuple[int, int, int, bool]:
    """(state, digits, exponent, exact): the number is digits * 10**exponent; digits beyond the 18th may be cut."""
    i = first
    negative = False
    if i < last and (data[i] == 45 or data[i] == 43):
        negative = data[i] == 45
        i += 1
    digits = 0
    exponent = 0
    seen = 0
    point = False
    exact = True
    while i < last:
        c = int(data[i])
        if 48 <= c <= 57:
            seen += 1
            if digits <= ROOM:
                digits = digits * 10 + (c - 48)
                exponent -= point
            else:
                exact = exact and c == 48
                exponent += not point
        elif c == 46 and not point:
            point = True
        else:
            break
        i += 1
    if seen == 0:
        return UNREADABLE, 0, 0, True
    if i < last and (data[i] == 101 or data[i] == 69):
        i += 1
        down = False
        if i < last and (data[i] == 45 or data[i] == 43):
            down = data[i] == 45
            i += 1
        power = 0
        any_digit = False
        while i < last and 48 <= data[i] <= 57:
            any_digit = True
            if power < FAR:
                power = power * 10 + (int(data[i]) - 48)
            i += 1
        if not any_digit:
            return UNREADABLE, 0, 0, True
        exponent += -power if down else power
    if i < last:
        return UNREADABLE, 0, 0, True
    return FINE, -digits if negative else digits, exponent, exact


@kernel
def scale(digits: int, exponent: int) -> tuple[int, int, bool]:
    """(state, whole, exact): digits * 10**exponent, cut towards 0."""
    exact = True
    negative = digits < 0
    value = -digits if negative else digits
    while exponent > 0 and value:
        if value >= MOST // 10:
            return BEYOND, 0, True
        value *= 10
        exponent -= 1
    while exponent < 0 and value:
        if value % 10:
            exact = False
        value //= 10
        exponent += 1
    return FINE, -value if negative else value, exact


@kernel(work=lambda data, first, last, kind, most: 40 * len(first))
def read_whole(data: Bytes, first: Ints, last: Ints, kind: Small, most: int) -> tuple[Ints, Small]:
    """(values, state): whole numbers from 0 to `most`; what is empty is missing."""
    values = np.zeros(len(first), dtype=np.int64)
    state = np.zeros(len(first), dtype=np.int8)
    for i in range(len(first)):
        if first[i] < 0:
            state[i] = MISSING
            continue
        begin, end = trim(data, first[i], last[i])
        if begin == end and kind[i] == TEXT:
            state[i] = MISSING
            continue
        if kind[i] != TEXT and kind[i] != NUMBER:
            state[i] = UNREADABLE
            continue
        came, digits, exponent, all_digits = read_number(data, begin, end)
        if came == FINE and digits < 0:
            came = UNREADABLE
        elif came == FINE:
            came, value, exact = scale(digits, exponent)
            if came == FINE and not (exact and all_digits):
                came = UNREADABLE
            elif came == FINE and value > most:
                came = BEYOND
            elif came == FINE:
                values[i] = value
        state[i] = came
    return values, state


@kernel
def two_digits(data: Bytes, i: int) -> int:
    """The number of two digits there, or -1."""
    a, b = int(data[i]) - 48, int(data[i + 1]) - 48
    return a * 10 + b if 0 <= a <= 9 and 0 <= b <= 9 else -1


@kernel
def days_before(year: int, month: int) -> int:
    """Days from 1970-01-01 to the first of a month."""
    y = year - 1 if month <= 2 else year
    era = y // 400
    of_era = y - era * 400
    shifted = (month + 9) % 12
    day_of_year = (153 * shifted + 2) // 5
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + day_of_year - 719_468


@kernel
def read_iso(data: Bytes, i: int, last: int) -> tuple[int, int, bool]:
    """(state, microseconds, zoned): a time of ISO 8601; without a zone it is taken as UTC."""
    if last - i < 10 or data[i + 4] != 45 or data[i + 7] != 45:
        return UNREADABLE, 0, False
    century, years = two_digits(data, i), two_digits(data, i + 2)
    month, day = two_digits(data, i + 5), two_digits(data, i + 8)
    if century < 0 or years < 0 or month < 1 or month > 12 or day < 1:
        return UNREADABLE, 0, False
    year = century * 100 + years
    begin = days_before(year, month)
    ahead = days_before(year + (month == 12), month % 12 + 1)
    if day > ahead - begin:
        return UNREADABLE, 0, False
    micro = (begin + day - 1) * 86_400_000_000
    i += 10
    if i == last:
        return FINE, micro, False
    if (data[i] != 84 and data[i] != 116 and data[i] != 32) or last - i < 6 or data[i + 3] != 58:
        return UNREADABLE, 0, False
    hour, minute = two_digits(data, i + 1), two_digits(data, i + 4)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59:
        return UNREADABLE, 0, False
    micro += (hour * 60 + minute) * 60_000_000
    i += 6
    if i < last and data[i] == 58:
        second = two_digits(data, i + 1) if last - i >= 3 else -1
        if second < 0 or second > 59:
            return UNREADABLE, 0, False
        micro += second * 1_000_000
        i += 3
        if i < last and (data[i] == 46 or data[i] == 44):
            i += 1
            worth = 100_000
            seen = 0
            while i < last and 48 <= data[i] <= 57:
                micro += (int(data[i]) - 48) * worth
                worth //= 10
                seen += 1
                i += 1
            if seen == 0 or seen > 9:
                return UNREADABLE, 0, False
    if i == last:
        return FINE, micro, False
    if data[i] == 32 and i + 1 < last:  # as some programs write it: 08:00:00 +01:00
        i += 1
    if (data[i] == 90 or data[i] == 122) and i + 1 == last:
        return FINE, micro, True
    if (data[i] != 43 and data[i] != 45) or last - i < 3:
        return UNREADABLE, 0, False
    hours, minutes = two_digits(data, i + 1), 0
    after = i + 3
    if after < last:
        if data[after] == 58:
            after += 1
        minutes = two_digits(data, after) if last - after == 2 else -1
    if hours < 0 or hours > 23 or minutes < 0 or minutes > 59:
        return UNREADABLE, 0, False
    east = (hours * 60 + minutes) * 60_000_000
    return FINE, micro - (east if data[i] == 43 else -east), True


@kernel(work=lambda data, first, last, kind, unit: 60 * len(first))
def read_times(data: Bytes, first: Ints, last: Ints, kind: Small, unit: int) -> tuple[Ints, Small, int]:
    """(microseconds, state, zoneless): ISO 8601, or numbers of 10**-unit seconds since 1970; how many had no zone."""
    at = np.zeros(len(first), dtype=np.int64)
    state = np.zeros(len(first), dtype=np.int8)
    zoneless = 0
    for i in range(len(first)):
        if first[i] < 0:
            state[i] = MISSING
            continue
        begin, end = trim(data, first[i], last[i])
        if begin == end and kind[i] == TEXT:
            state[i] = MISSING
            continue
        if kind[i] != TEXT and kind[i] != NUMBER:
            state[i] = UNREADABLE
            continue
        came, digits, exponent, _ = read_number(data, begin, end)
        if came == FINE:
            came, micro, _ = scale(digits, exponent + 6 - unit)
        elif came == UNREADABLE:
            came, micro, zoned = read_iso(data, begin, end)
            zoneless += came == FINE and not zoned
        else:
            micro = 0
        if came == FINE and not EARLIEST <= micro < LATEST:
            came = BEYOND
        if came == FINE:
            at[i] = micro
        state[i] = came
    return at, state, zoneless


# --- lists in a cell -----------------------------------------------------------------------------------


@kernel(work=_bytes)
def split_cells(
    data: Bytes, first: Ints, last: Ints, kind: Small, separator: Bytes, suspects: Bytes, room: int
) -> tuple[Ints, Ints, Ints, Small]:
    """(start, first, last, state): the parts of each cell between separators, trimmed, empty ones left out.

    Without a separator a cell is one part; one that holds a suspect byte is unreadable: it looks like a list.
    """
    start = np.zeros(len(first) + 1, dtype=np.int64)
    begins, ends = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    state = np.zeros(len(first), dtype=np.int8)
    wide = len(separator)
    n = 0
    for i in range(len(first)):
        if first[i] < 0:
            state[i] = MISSING
        elif kind[i] != TEXT and kind[i] != NUMBER:
            state[i] = UNREADABLE
        elif wide == 0:
            begin, end = trim(data, first[i], last[i])
            for k in range(begin, end):
                for suspect in suspects:
                    if data[k] == suspect:
                        state[i] = BEYOND
            if state[i] == FINE and end > begin:
                begins[n], ends[n] = first[i], last[i]
                n += 1
        else:
            part = first[i]
            k = first[i]
            while k <= last[i]:
                hit = k == last[i]
                if not hit and k + wide <= last[i]:
                    hit = True
                    for w in range(wide):
                        if data[k + w] != separator[w]:
                            hit = False
                            break
                if hit:
                    begin, end = trim(data, part, k)
                    if end > begin:
                        begins[n], ends[n] = begin, end
                        n += 1
                    k += wide
                    part = k
                else:
                    k += 1
        start[i + 1] = n
    return start, begins[:n].copy(), ends[:n].copy(), state
