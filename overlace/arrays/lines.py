"""Lines in bytes: where they begin and end, and which cannot be read as text."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Ints, kernel
from overlace.arrays.text import Bytes, Small

CLEAN, BLANK, NOT_UTF8, INNER_CR, NUL = range(5)
"""What a line is, before anything is read of it."""


class Lines(NamedTuple):
    """Lines of a block: `first[i]:last[i]` without their ends, and what each is."""

    first: Ints
    last: Ints
    state: Small


@kernel(work=lambda data, first, last: 2 * len(data))
def is_utf8(data: Bytes, first: Ints, last: Ints) -> Bools:
    """Whether each span is UTF-8, as RFC 3629 has it."""
    fine = np.ones(len(first), dtype=np.bool_)
    for line in range(len(first)):
        i, end = first[line], last[line]
        while i < end:
            c = data[i]
            if c < 0x80:
                i += 1
                continue
            low, high, more = 0x80, 0xBF, 0
            if 0xC2 <= c <= 0xDF:
                more = 1
            elif 0xE0 <= c <= 0xEF:
                more = 2
                low = 0xA0 if c == 0xE0 else 0x80
                high = 0x9F if c == 0xED else 0xBF
            elif 0xF0 <= c <= 0xF4:
                more = 3
                low = 0x90 if c == 0xF0 else 0x80
                high = 0x8F if c == 0xF4 else 0xBF
            if more == 0 or i + more >= end:
                fine[line] = False
                break
            broken = data[i + 1] < low or data[i + 1] > high
            for k in range(2, more + 1):
                broken = broken or data[i + k] < 0x80 or data[i + k] > 0xBF
            if broken:
                fine[line] = False
                break
            i += more + 1
    return fine


def find_lines(data: Bytes) -> Lines:
    """The lines of a block; a carriage return at the end belongs to the line's end."""
    ends = np.flatnonzero(data == 10)
    if len(data) and (len(ends) == 0 or ends[-1] != len(data) - 1):
        ends = np.append(ends, len(data))
    first = np.append(0, ends[:-1] + 1)[: len(ends)].astype(np.int64)
    last = ends.astype(np.int64)
    state = np.zeros(len(ends), dtype=np.int8)
    returns = np.flatnonzero(data == 13)
    if len(returns):
        last = without_returns(data, first, last, returns)
        line = np.searchsorted(ends, returns)
        state[line[returns < last[line]]] = INNER_CR
    nul = np.flatnonzero(data == 0)
    if len(nul):
        state[np.searchsorted(ends, nul)] = NUL
    wide = np.flatnonzero(data >= 0x80)
    if len(wide):
        line = np.unique(np.searchsorted(ends, wide))
        state[line[~is_utf8(data, first[line], last[line])]] = NOT_UTF8
    state[(state == CLEAN) & is_blank(data, first, last)] = BLANK
    return Lines(first, last, state)


def without_returns(data: Bytes, first: Ints, last: Ints, returns: Ints) -> Ints:
    """The ends of spans without the carriage returns there, given where all of them are."""
    runs = returns[np.append(True, np.diff(returns) != 1)]
    ends = last.copy()
    cut = np.flatnonzero((last > first) & (data[np.maximum(last - 1, 0)] == 13))
    ends[cut] = np.maximum(first[cut], runs[np.searchsorted(runs, last[cut] - 1, side="right") - 1])
    return ends


@kernel(work=lambda data, first, last: 3 * len(first) + len(data) // 8)
def is_blank(data: Bytes, first: Ints, last: Ints) -> Bools:
    """Whether each span holds nothing but blanks."""
    blank = np.ones(len(first), dtype=np.bool_)
    for i in range(len(first)):
        for k in range(first[i], last[i]):
            if data[k] != 32 and data[k] != 9:
                blank[i] = False
                break
    return blank
