"""Numbers and times in text, as spans of bytes, see `text`: whole numbers and others; ISO 8601, days such as 21-Dec-04,
or seconds since 1970."""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Ints, kernel
from overlace.arrays.text import BEYOND, FINE, MISSING, NUMBER, TEXT, UNREADABLE, Bytes, Small, trim

EARLIEST, LATEST = -2_208_988_800_000_000, 7_258_118_400_000_000
"""Times are from 1900 on and before 2200: beyond, a unit is wrong."""

MOST = 10**18
"""Numbers are read up to here."""

ROOM = (2**63 - 10) // 10
"""A number up to here has room for one more digit."""

FAR = 10**8
"""Powers of ten are all alike from here on."""


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


@kernel
def find_number(data: Bytes, first: int, last: int, kind: int) -> tuple[int, int, int]:
    """(state, begin, end): the span of a number or a time without blanks, if there can be one."""
    if first < 0:
        return MISSING, first, last
    begin, end = trim(data, first, last)
    if begin == end and kind == TEXT:
        return MISSING, begin, end
    return FINE if kind in (TEXT, NUMBER) else UNREADABLE, begin, end


@kernel(work=lambda data, first, last, kind, most: 40 * len(first))
def read_whole(data: Bytes, first: Ints, last: Ints, kind: Small, most: int) -> tuple[Ints, Small]:
    """(values, state): whole numbers from 0 to `most`; what is empty is missing."""
    values = np.zeros(len(first), dtype=np.int64)
    state = np.zeros(len(first), dtype=np.int8)
    for i in range(len(first)):
        state[i], begin, end = find_number(data, first[i], last[i], kind[i])
        if state[i] != FINE:
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


MONTHS = np.frombuffer(b"janfebmaraprmayjunjulaugsepoctnovdec", dtype=np.uint8)

CENTURY = 69
"""Years of two digits are 1969 to 2068, as POSIX has them."""


@kernel
def month_named(data: Bytes, i: int) -> int:
    """The month whose English name begins with the three letters there, in any case, or 0."""
    for month in range(12):
        if (
            (data[i] | 32) == MONTHS[3 * month]
            and (data[i + 1] | 32) == MONTHS[3 * month + 1]
            and (data[i + 2] | 32) == MONTHS[3 * month + 2]
        ):
            return month + 1
    return 0


@kernel
def read_day(data: Bytes, i: int, last: int) -> tuple[int, int]:
    """(state, microseconds): a day such as 21-Dec-04 or 3-Jan-2004, its beginning in UTC."""
    dash = i + 1 if last - i > 1 and data[i + 1] == 45 else i + 2
    if last - dash not in (7, 9) or data[dash] != 45 or data[dash + 4] != 45:
        return UNREADABLE, 0
    day = int(data[i]) - 48
    if dash == i + 2:
        day = two_digits(data, i)
    elif day > 9:
        return UNREADABLE, 0
    month, year = month_named(data, dash + 1), two_digits(data, dash + 5)
    if last - dash == 9:
        years = two_digits(data, dash + 7)
        year = year * 100 + years if year >= 0 and years >= 0 else -1
    elif year >= 0:
        year += 1900 if year >= CENTURY else 2000
    if month == 0 or year < 0 or day < 1 or day > 31:
        return UNREADABLE, 0
    begin = days_before(year, month)
    if day > days_before(year + (month == 12), month % 12 + 1) - begin:
        return UNREADABLE, 0
    return FINE, (begin + day - 1) * 86_400_000_000


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
    """(microseconds, state, zoneless): ISO 8601, days such as 21-Dec-04, or numbers of 10**-unit seconds since 1970.

    `zoneless` is how many had no zone.
    """
    at = np.zeros(len(first), dtype=np.int64)
    state = np.zeros(len(first), dtype=np.int8)
    zoneless = 0
    for i in range(len(first)):
        state[i], begin, end = find_number(data, first[i], last[i], kind[i])
        if state[i] != FINE:
            continue
        came, digits, exponent, _ = read_number(data, begin, end)
        if came == FINE:
            came, micro, _ = scale(digits, exponent + 6 - unit)
        elif came == UNREADABLE:
            came, micro, zoned = read_iso(data, begin, end)
            if came == UNREADABLE:
                came, micro = read_day(data, begin, end)  # without a zone
            zoneless += came == FINE and not zoned
        else:
            micro = 0
        if came == FINE and not EARLIEST <= micro < LATEST:
            came = BEYOND
        if came == FINE:
            at[i] = micro
        state[i] = came
    return at, state, zoneless
