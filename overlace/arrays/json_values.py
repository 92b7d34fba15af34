"""Where the values of JSON end, and strings with their escapes decoded in place."""

from __future__ import annotations

from overlace.arrays.jit import kernel
from overlace.arrays.text import ABSENT, NUMBER, TRUTH, Bytes, Small


@kernel
def skip_blanks(data: Bytes, i: int, end: int) -> int:
    """The next byte that is no blank."""
    while i < end and (data[i] == 32 or data[i] == 9):
        i += 1
    return i


@kernel
def is_hex(c: int) -> bool:
    """Whether a byte is a hexadecimal digit."""
    return 48 <= c <= 57 or 65 <= c <= 70 or 97 <= c <= 102


@kernel
def end_of_string(data: Bytes, i: int, end: int) -> tuple[int, bool]:
    """(close, escaped): where the string that begins at i has its closing quote, -1 if it is no string."""
    escaped = False
    while i < end:
        c = data[i]
        if c == 34:
            return i, escaped
        if c < 32:
            return -1, False
        if c == 92:
            escaped = True
            i += 1
            if i >= end:
                return -1, False
            c = data[i]
            if c == 117:
                if i + 4 >= end:
                    return -1, False
                for k in range(1, 5):
                    if not is_hex(int(data[i + k])):
                        return -1, False
                i += 4
            elif not (c == 34 or c == 92 or c == 47 or c == 98 or c == 102 or c == 110 or c == 114 or c == 116):
                return -1, False
        i += 1
    return -1, False


@kernel
def hex_value(data: Bytes, i: int) -> int:
    """The number of four hexadecimal digits."""
    value = 0
    for k in range(4):
        c = int(data[i + k])
        value = value * 16 + (c - 48 if c <= 57 else (c | 32) - 87)
    return value


@kernel
def unescape(data: Bytes, first: int, last: int) -> int:
    """Decode a string in place: its new end, -1 if it holds half of a surrogate pair."""
    out = first
    i = first
    while i < last:
        c = int(data[i])
        if c != 92:
            data[out] = c
            out += 1
            i += 1
            continue
        c = int(data[i + 1])
        i += 2
        if c != 117:
            if c == 98:
                c = 8
            elif c == 102:
                c = 12
            elif c == 110:
                c = 10
            elif c == 114:
                c = 13
            elif c == 116:
                c = 9
            data[out] = c
            out += 1
            continue
        point = hex_value(data, i)
        i += 4
        if 0xDC00 <= point <= 0xDFFF:
            return -1
        if 0xD800 <= point <= 0xDBFF:
            if i + 6 > last or data[i] != 92 or data[i + 1] != 117:
                return -1
            low = hex_value(data, i + 2)
            if not 0xDC00 <= low <= 0xDFFF:
                return -1
            point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00)
            i += 6
        if point < 0x80:
            data[out] = point
            out += 1
        elif point < 0x800:
            data[out] = 0xC0 | (point >> 6)
            data[out + 1] = 0x80 | (point & 63)
            out += 2
        elif point < 0x10000:
            data[out] = 0xE0 | (point >> 12)
            data[out + 1] = 0x80 | ((point >> 6) & 63)
            data[out + 2] = 0x80 | (point & 63)
            out += 3
        else:
            data[out] = 0xF0 | (point >> 18)
            data[out + 1] = 0x80 | ((point >> 12) & 63)
            data[out + 2] = 0x80 | ((point >> 6) & 63)
            data[out + 3] = 0x80 | (point & 63)
            out += 4
    return out


@kernel
def end_of_number(data: Bytes, i: int, end: int) -> int:
    """The end of the number that begins at i, -1 if it is none."""
    if data[i] == 45:
        i += 1
    if i >= end or not 48 <= data[i] <= 57:
        return -1
    if data[i] == 48:
        i += 1
    else:
        while i < end and 48 <= data[i] <= 57:
            i += 1
    if i < end and data[i] == 46:
        i += 1
        if i >= end or not 48 <= data[i] <= 57:
            return -1
        while i < end and 48 <= data[i] <= 57:
            i += 1
    if i < end and (data[i] == 101 or data[i] == 69):
        i += 1
        if i < end and (data[i] == 43 or data[i] == 45):
            i += 1
        if i >= end or not 48 <= data[i] <= 57:
            return -1
        while i < end and 48 <= data[i] <= 57:
            i += 1
    return i


@kernel
def end_of_word(data: Bytes, i: int, end: int) -> tuple[int, int]:
    """(end, kind) of true, false or null at i; end -1 if it is none of them."""
    if end - i >= 4 and data[i] == 116 and data[i + 1] == 114 and data[i + 2] == 117 and data[i + 3] == 101:
        return i + 4, TRUTH
    if end - i >= 4 and data[i] == 110 and data[i + 1] == 117 and data[i + 2] == 108 and data[i + 3] == 108:
        return i + 4, ABSENT
    if (
        end - i >= 5
        and data[i] == 102
        and data[i + 1] == 97
        and data[i + 2] == 108
        and data[i + 3] == 115
        and data[i + 4] == 101
    ):
        return i + 5, TRUTH
    return -1, ABSENT


@kernel
def end_of_plain(data: Bytes, i: int, end: int) -> tuple[int, int]:
    """(end, kind) of a number, true, false or null; end -1 if it is none of them."""
    if data[i] == 45 or 48 <= data[i] <= 57:
        return end_of_number(data, i, end), NUMBER
    return end_of_word(data, i, end)


@kernel
def end_of_nested(data: Bytes, i: int, end: int, stack: Small) -> int:
    """The end of the list or object that begins at i; -1 if it is none, -2 if it is nested too deep."""
    depth = 0
    while True:
        # a value is due
        i = skip_blanks(data, i, end)
        if i >= end:
            return -1
        c = data[i]
        done = True
        if c == 34:
            close, _ = end_of_string(data, i + 1, end)
            if close < 0:
                return -1
            i = close + 1
        elif c == 123 or c == 91:
            if depth == len(stack):
                return -2
            stack[depth] = c
            depth += 1
            i = skip_blanks(data, i + 1, end)
            if i < end and ((c == 123 and data[i] == 125) or (c == 91 and data[i] == 93)):
                depth -= 1
                i += 1
            else:
                done = False
        else:
            i, _ = end_of_plain(data, i, end)
            if i < 0:
                return -1
        # what may follow a value
        while done and depth:
            i = skip_blanks(data, i, end)
            if i >= end:
                return -1
            c = data[i]
            i += 1
            if c == 44:
                done = False
            elif (c == 125 and stack[depth - 1] == 123) or (c == 93 and stack[depth - 1] == 91):
                depth -= 1
            else:
                return -1
        if depth == 0:
            return i
        if stack[depth - 1] == 123:  # the name of the next member
            i = skip_blanks(data, i, end)
            if i >= end or data[i] != 34:
                return -1
            close, _ = end_of_string(data, i + 1, end)
            if close < 0:
                return -1
            i = skip_blanks(data, close + 1, end)
            if i >= end or data[i] != 58:
                return -1
            i += 1
