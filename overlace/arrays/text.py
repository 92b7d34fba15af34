"""Values in text, as spans of bytes: names as codes, lists. Numbers and times are in `numbers`.

A span is `first[i]:last[i]` in an array of bytes; first -1 means that there is nothing. Every span is read
on its own: what one holds changes nothing for another.
"""

from __future__ import annotations

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


def _bytes(data: Bytes, first: Ints, *_: object) -> int:
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
