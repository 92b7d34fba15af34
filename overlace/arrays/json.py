"""One JSON object a line, read where it lies: the spans of wanted members, every line on its own.

RFC 8259 to the letter: what Python's json module reads, NaN and Infinity left out. Strings with escapes are
decoded in place (they only get shorter), so the bytes are changed; a caller who needs them keeps a copy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Ints, kernel
from overlace.arrays.json_values import end_of_nested, end_of_plain, end_of_string, skip_blanks, unescape
from overlace.arrays.text import (
    ABSENT,
    BEYOND,
    FINE,
    LIST,
    MISSING,
    NUMBER,
    OBJECT,
    TEXT,
    TRUTH,
    UNREADABLE,
    Bytes,
    Small,
)

NO_OBJECT, TOO_DEEP, NOT_UNICODE, TWICE = 1, 2, 3, 16
"""What is wrong with a line; TWICE + f: two values for field f."""

DEPTH = 64
"""Lists and objects inside one another, at most."""

EMPTY = 1 << 32
"""What an empty string adds to its rank."""


class Wanted(NamedTuple):
    """Names of members as hashes: as they are written (`exact`) or in any case, each with its field and rank."""

    hashes: Ints
    exact: Small
    field: Ints
    rank: Ints  # the least rank that has a value is taken
    fields: int


@kernel
def hash_name(data: Bytes, first: int, last: int, fold: bool) -> np.int64:
    """FNV-1a of a name, in lower case if it is folded."""
    state = np.uint64(0xCBF29CE484222325)
    for i in range(first, last):
        c = int(data[i])
        if fold and 65 <= c <= 90:
            c += 32
        state = (state ^ np.uint64(c)) * np.uint64(0x100000001B3)
    return np.int64(state)


def _work(data: Bytes, *_: object) -> int:
    return 8 * len(data)


@kernel
def find_wanted(data: Bytes, first: int, last: int, wanted: Wanted) -> int:
    """Which of the wanted names a name is; -1 for none."""
    written, folded = hash_name(data, first, last, False), hash_name(data, first, last, True)
    for k in range(len(wanted.hashes)):
        if wanted.hashes[k] == (written if wanted.exact[k] else folded):
            return k
    return -1


@kernel(work=_work)
def scan_objects(data: Bytes, first: Ints, last: Ints, wanted: Wanted) -> tuple[Small, Ints, Ints, Small]:
    """(state, begin, end, kind) of each line, the last three by field: the spans of the wanted members' values.

    Of the members of a field the one with the least rank is taken, an empty string only where nothing else is there.
    In which order they come does not matter: two of the rank that is taken are one too many.
    """
    n, fields = len(first), wanted.fields
    state = np.zeros(n, dtype=np.int8)
    begin = np.full((fields, n), -1, dtype=np.int64)
    finish = np.full((fields, n), -1, dtype=np.int64)
    kinds = np.zeros((fields, n), dtype=np.int8)
    ranks = np.empty(fields, dtype=np.int64)
    twice = np.empty(fields, dtype=np.bool_)
    stack = np.empty(DEPTH, dtype=np.int8)
    guess_hash = np.zeros(32, dtype=np.int64)
    guess = np.full(32, -2, dtype=np.int64)
    for line in range(n):
        end = last[line]
        i = skip_blanks(data, first[line], end)
        if i >= end or data[i] != 123:
            state[line] = NO_OBJECT
            continue
        i = skip_blanks(data, i + 1, end)
        ranks[:] = -1
        twice[:] = False
        member = 0
        wrong = 0
        half = False
        closed = i < end and data[i] == 125
        while not closed:
            if i >= end or data[i] != 34:
                wrong = NO_OBJECT
                break
            name = i + 1
            close, escaped = end_of_string(data, name, end)
            if close < 0:
                wrong = NO_OBJECT
                break
            name_end = unescape(data, name, close) if escaped else close
            i = skip_blanks(data, close + 1, end)
            if i >= end or data[i] != 58:
                wrong = NO_OBJECT
                break
            slot = -1
            if name_end >= 0:
                written = hash_name(data, name, name_end, False)
                if member < 32 and guess[member] > -2 and guess_hash[member] == written:
                    slot = guess[member]
                else:
                    slot = find_wanted(data, name, name_end, wanted)
                    if member < 32:
                        guess_hash[member], guess[member] = written, slot
            i = skip_blanks(data, i + 1, end)
            if i >= end:
                wrong = NO_OBJECT
                break
            # the value
            value = i
            c = data[i]
            if c == 34:
                close, escaped = end_of_string(data, i + 1, end)
                if close < 0:
                    wrong = NO_OBJECT
                    break
                value, i, kind = i + 1, close + 1, TEXT
                value_end = close
                if escaped and slot >= 0:
                    value_end = unescape(data, value, close)
                    half = half or value_end < 0
            elif c == 123 or c == 91:
                i = end_of_nested(data, i, end, stack)
                if i < 0:
                    wrong = TOO_DEEP if i == -2 else NO_OBJECT
                    break
                kind = OBJECT if c == 123 else LIST
                value_end = i
            else:
                i, kind = end_of_plain(data, i, end)
                if i < 0:
                    wrong = NO_OBJECT
                    break
                value_end = i
            if slot >= 0 and kind != ABSENT:
                f = wanted.field[slot]
                rank = 2 * wanted.rank[slot] + (
                    wanted.exact[slot] == 0 and hash_name(data, name, name_end, False) != wanted.hashes[slot]
                )
                if kind == TEXT and value_end == value:
                    rank += EMPTY
                if ranks[f] == rank:
                    twice[f] = True
                elif ranks[f] < 0 or rank < ranks[f]:
                    ranks[f], twice[f] = rank, False
                    begin[f, line], finish[f, line], kinds[f, line] = value, value_end, kind
            member += 1
            i = skip_blanks(data, i, end)
            if i < end and data[i] == 125:
                closed = True
            elif i < end and data[i] == 44:
                i = skip_blanks(data, i + 1, end)
            else:
                wrong = NO_OBJECT
                break
        if wrong == 0 and skip_blanks(data, i + 1, end) < end:
            wrong = NO_OBJECT
        if wrong == 0 and half:
            wrong = NOT_UNICODE
        for f in range(fields):
            if wrong == 0 and twice[f]:
                wrong = TWICE + f
        if wrong:
            state[line] = wrong
            for f in range(fields):
                begin[f, line] = finish[f, line] = -1
                kinds[f, line] = ABSENT
    return state, begin, finish, kinds


@kernel(work=_work)
def scan_lists(data: Bytes, first: Ints, last: Ints, kind: Small, room: int) -> tuple[Ints, Ints, Ints, Small, Small]:
    """(start, first, last, kind, state): the strings and numbers in lists; null and "" are left out.

    A list that holds anything else is unreadable, one with half of a surrogate pair is beyond what can be read.
    """
    start = np.zeros(len(first) + 1, dtype=np.int64)
    begins, ends = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    kinds = np.empty(room, dtype=np.int8)
    state = np.zeros(len(first), dtype=np.int8)
    n = 0
    for row in range(len(first)):
        start[row + 1] = n
        if kind[row] != LIST:
            state[row] = MISSING
            continue
        i, end = first[row] + 1, last[row] - 1
        while True:
            i = skip_blanks(data, i, end)
            if i >= end:
                break
            c = data[i]
            if c == 44:
                i += 1
                continue
            if c == 34:
                close, escaped = end_of_string(data, i + 1, end)
                stop = unescape(data, i + 1, close) if escaped else close
                if stop < 0:
                    state[row] = BEYOND
                    break
                if stop > i + 1:
                    begins[n], ends[n], kinds[n] = i + 1, stop, TEXT
                    n += 1
                i = close + 1
            elif c == 123 or c == 91:
                state[row] = UNREADABLE
                break
            else:
                stop, word = end_of_plain(data, i, end)
                if word == TRUTH:
                    state[row] = UNREADABLE
                    break
                if word == NUMBER:
                    begins[n], ends[n], kinds[n] = i, stop, NUMBER
                    n += 1
                i = stop
        if state[row] != FINE:
            n = start[row]
        start[row + 1] = n
    return start, begins[:n].copy(), ends[:n].copy(), kinds[:n].copy(), state
