"""Bitmaps of filters: built by bucket of value and by code, and read back as positions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overlace.arrays.csr import copy
from overlace.arrays.jit import Floats, Ints, kernel
from overlace.matching.content.boxes import Ints32

Words = NDArray[np.uint64]

ONE = np.uint64(1)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


class Ranges(NamedTuple):
    """Buckets of values in each group: bucket b begins at cut b - 1. The first bucket of group g is bucket_start[g]."""

    cut_start: Ints
    cut: Floats
    bucket_start: Ints
    low_start: Ints  # of each bucket
    low: Floats  # where ranges begin inside a bucket, descending
    low_member: Ints32
    high_start: Ints
    high: Floats  # where ranges end inside a bucket, ascending
    high_member: Ints32


@kernel
def set_bit(words: Words, at: int, member: int) -> None:
    """Set the bit of a member in the bitmap that begins at a word."""
    words[at + (member >> 6)] |= ONE << np.uint64(member & 63)


@kernel
def clear_bit(words: Words, at: int, member: int) -> None:
    """Clear the bit of a member in the bitmap that begins at a word."""
    words[at + (member >> 6)] &= ~(ONE << np.uint64(member & 63))


@kernel
def fill_bits(words: Words, at: int, members: int) -> None:
    """Set the first so many bits of the bitmap that begins at a word."""
    for w in range(members >> 6):
        words[at + w] = ALL
    if members & 63:
        words[at + (members >> 6)] = (ONE << np.uint64(members & 63)) - ONE


@kernel
def full_bitmaps(start: Ints, size: Ints) -> Words:
    """A bitmap of all members of each part that has one: part p has words start[p]:start[p + 1]."""
    words = np.zeros(start[-1], dtype=np.uint64)
    for p in range(len(size)):
        if start[p + 1] > start[p]:
            fill_bits(words, start[p], size[p])
    return words


@kernel
def lay_bases(start: Ints, place: Ints32, size: Ints, row: Ints, rows: Words) -> None:
    """The first bitmap of each group: the members of its part that do not constrain its slot."""
    for g in range(len(size)):
        fill_bits(rows, row[g], size[g])
        for k in range(start[g], start[g + 1]):
            clear_bit(rows, row[g], place[k])


@kernel
def lay_codes(code_row: Ints, list_start: Ints, list_member: Ints32, rows: Words) -> None:
    """The bitmaps of heavy codes."""
    for c in range(len(code_row)):
        if code_row[c] >= 0:
            for k in range(list_start[c], list_start[c + 1]):
                set_bit(rows, code_row[c], list_member[k])


@kernel
def lay_ranges(
    start: Ints, place: Ints32, low: Floats, high: Floats, buckets: Ints, width: Ints, row: Ints, rows: Words
) -> Ranges:
    """Cut the values of each group into at most so many buckets, and lay a bitmap for each."""
    groups, members, total = len(buckets), len(low), buckets.sum()
    cut_start, bucket_start = np.zeros(groups + 1, np.int64), np.zeros(groups + 1, np.int64)
    cut = np.empty(total)
    low_start, high_start = np.zeros(total + 1, np.int64), np.zeros(total + 1, np.int64)
    low_end, high_end = np.empty(members), np.empty(members)
    low_member, high_member = np.empty(members, np.int32), np.empty(members, np.int32)
    lows = highs = 0
    for g in range(groups):
        first, last = start[g], start[g + 1]
        bucket = bucket_start[g]
        cuts = choose_cuts(low[first:last], high[first:last], buckets[g], cut[cut_start[g] :])
        cut_start[g + 1] = cut_start[g] + cuts
        if buckets[g] == 0:
            bucket_start[g + 1] = bucket
            continue
        bucket_start[g + 1] = bucket + cuts + 1
        by_low, by_high = np.argsort(low[first:last]), np.argsort(high[first:last])
        i = j = 0
        for b in range(cuts + 1):
            at = row[g] + (b + 1) * width[g]
            copy(rows[at - width[g] : at], rows[at:])
            end = cut[cut_start[g] + b] if b < cuts else np.inf
            if b > 0:
                for k in range(high_start[bucket + b - 1], high_start[bucket + b]):
                    clear_bit(rows, at, high_member[k])

            begun = i  # ranges that begin in this bucket, if not at its very start
            while i < len(by_low) and (low[first + by_low[i]] < end or b == cuts):
                set_bit(rows, at, place[first + by_low[i]])
                i += 1
            for k in range(i - 1, begun - 1, -1):
                value = low[first + by_low[k]]
                if value > (cut[cut_start[g] + b - 1] if b > 0 else -np.inf):
                    low_end[lows], low_member[lows] = value, place[first + by_low[k]]
                    lows += 1
            low_start[bucket + b + 1] = lows
            while j < len(by_high) and high[first + by_high[j]] < end:
                high_end[highs], high_member[highs] = high[first + by_high[j]], place[first + by_high[j]]
                highs += 1
                j += 1
            high_start[bucket + b + 1] = highs
    used = bucket_start[groups]
    return Ranges(
        cut_start, cut[: cut_start[groups]].copy(), bucket_start, low_start[: used + 1].copy(), low_end[:lows].copy(),
        low_member[:lows].copy(), high_start[: used + 1].copy(), high_end[:highs].copy(), high_member[:highs].copy(),
    )  # fmt: skip


@kernel
def choose_cuts(low: Floats, high: Floats, buckets: int, cut: Floats) -> int:
    """Write at most buckets - 1 ascending cuts so that about as many ranges begin or end in each; how many."""
    if buckets < 2:
        return 0
    ends = np.concatenate((low[np.isfinite(low)], high[np.isfinite(high)]))
    ends.sort()
    cuts = 0
    for b in range(1, buckets):
        value = ends[b * len(ends) // buckets]
        if cuts == 0 or value > cut[cuts - 1]:
            cut[cuts] = value
            cuts += 1
    return cuts
