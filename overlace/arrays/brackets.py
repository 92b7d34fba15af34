"""Pairs of attribute and value in brackets, any number a line, read where they lie: [symbol,'AAPL'],[close,63.3].

A value in quotes, single or double, is text and may hold anything but that quote; any other is a number, or true or
false, or not-a-number (nan), which is no value. Blanks around names and values do not count.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Ints, kernel
from overlace.arrays.numbers import read_number
from overlace.arrays.text import ABSENT, FINE, NUMBER, TEXT, TRUTH, Bytes, Small, same_bytes, trim

NO_PAIRS, UNQUOTED, TWICE = 1, 2, 3
"""What is wrong with a line: not pairs in brackets; a value of no type; two values for one attribute."""


TRUE, FALSE, NAN = (np.frombuffer(each, dtype=np.uint8) for each in (b"true", b"false", b"nan"))


class Bracketed(NamedTuple):
    """The pairs of lines: those of line i are the places start[i]:start[i + 1] of the spans of names and values."""

    state: Small  # of each line
    start: Ints
    name: Ints
    name_end: Ints
    value: Ints
    value_end: Ints
    kind: Small  # TEXT, NUMBER or TRUTH; ABSENT where it is not a number


@kernel
def is_word(data: Bytes, first: int, last: int, word: Bytes) -> bool:
    """Whether a span is a word of small letters, in any case."""
    if last - first != len(word):
        return False
    for k in range(len(word)):  # noqa: SIM110
        if (data[first + k] | 32) != word[k]:
            return False
    return True


@kernel
def is_truth(data: Bytes, first: int, last: int) -> bool:
    """Whether a span is true or false, in any case."""
    return is_word(data, first, last, TRUE) or is_word(data, first, last, FALSE)


@kernel
def is_nan(data: Bytes, first: int, last: int) -> bool:
    """Whether a span is not-a-number, in any case, with or without a sign."""
    signed = first < last and (data[first] == 43 or data[first] == 45)
    return is_word(data, first + 1 if signed else first, last, NAN)


@kernel
def pass_blanks(data: Bytes, i: int, end: int) -> int:
    """The next byte that is no blank."""
    while i < end and (data[i] == 32 or data[i] == 9):
        i += 1
    return i


@kernel
def end_of_value(data: Bytes, i: int, end: int) -> tuple[int, int, int, int]:
    """(kind, first, last, after): the value that begins at i, and what follows its bracket; kind below 0 is wrong.

    -2: there is no value, or no bracket closes it; -1: it has no type.
    """
    if i < end and (data[i] == 39 or data[i] == 34):
        mark = data[i]
        k = i + 1
        while k < end and data[k] != mark:
            k += 1
        after = pass_blanks(data, k + 1, end)
        closed = k < end and after < end and data[after] == 93
        return (TEXT if closed else -2), i + 1, k, after + 1
    k = i
    while k < end and data[k] != 93:
        k += 1
    first, last = trim(data, i, k)
    if k == end or last == first:
        return -2, first, last, k
    if read_number(data, first, last)[0] == FINE:
        return NUMBER, first, last, k + 1
    if is_nan(data, first, last):
        return ABSENT, first, last, k + 1
    return (TRUTH if is_truth(data, first, last) else -1), first, last, k + 1


@kernel(work=lambda data, first, last, room: 8 * len(data))
def scan_brackets(data: Bytes, first: Ints, last: Ints, room: int) -> Bracketed:
    """The pairs of each line; `room` is how many there are at most. A line with something wrong has none."""
    state = np.zeros(len(first), dtype=np.int8)
    start = np.zeros(len(first) + 1, dtype=np.int64)
    name, name_end = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    value, value_end = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    kinds = np.empty(room, dtype=np.int8)
    n = 0
    for line in range(len(first)):
        end = last[line]
        i = first[line]
        begin = n
        wrong = 0
        while True:
            i = pass_blanks(data, i, end)
            if i >= end or data[i] != 91:
                wrong = NO_PAIRS
                break
            k = i + 1
            while k < end and data[k] != 44 and data[k] != 93 and data[k] != 91:
                k += 1
            name[n], name_end[n] = trim(data, i + 1, k)
            if k >= end or data[k] != 44 or name[n] == name_end[n]:
                wrong = NO_PAIRS
                break
            kind, value[n], value_end[n], i = end_of_value(data, pass_blanks(data, k + 1, end), end)
            if kind < 0:
                wrong = NO_PAIRS if kind == -2 else UNQUOTED
                break
            kinds[n] = kind
            for other in range(begin, n):
                if same_bytes(data, name[n], name_end[n], name[other], name_end[other]):
                    wrong = TWICE
            n += 1
            i = pass_blanks(data, i, end)
            if wrong or i >= end:
                break
            if data[i] != 44:
                wrong = NO_PAIRS
                break
            i += 1
        if wrong:
            state[line] = wrong
            n = begin
        start[line + 1] = n
    return Bracketed(
        state, start, name[:n].copy(), name_end[:n].copy(), value[:n].copy(), value_end[:n].copy(), kinds[:n].copy()
    )
