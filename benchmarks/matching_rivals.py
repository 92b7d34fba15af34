"""What the matcher and the index of covering are compared with: plain compiled loops over ranges of numbers.

A filter is a list of (column, low, high); a text is the number of its word, asked for by low = high. Messages are rows
of numbers. That is less than the matcher handles, and what is left out would only slow these down.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import by_address, kernel

BUCKETS = 64


@by_address
class Plain(NamedTuple):
    """Filters: ranges start[f]:start[f + 1]."""

    start: np.ndarray
    column: np.ndarray
    low: np.ndarray
    high: np.ndarray


@kernel
def match_naively(filters, messages):
    """(start, ids): every filter against every message, range by range until one fails."""
    start = np.zeros(len(messages) + 1, np.int64)
    ids = np.empty(len(messages) * 64 + len(filters.start), np.int32)
    free = 0
    for i in range(len(messages)):
        if free + len(filters.start) > len(ids):
            grown = np.empty(2 * len(ids) + len(filters.start), np.int32)
            grown[:free] = ids[:free]
            ids = grown
        for f in range(len(filters.start) - 1):
            e, end = filters.start[f], filters.start[f + 1]
            while e < end and filters.low[e] <= messages[i, filters.column[e]] <= filters.high[e]:
                e += 1
            if e == end:
                ids[free] = f
                free += 1
        start[i + 1] = free
    return start, ids[:free]


@by_address
class Counting(NamedTuple):
    """Ranges by column and bucket: rows first[c * BUCKETS + b] and on of range, which may hold in that bucket."""

    cut: np.ndarray  # column x bucket: where buckets begin
    first: np.ndarray
    range: np.ndarray
    owner: np.ndarray  # the filter of each range
    size: np.ndarray  # ranges of each filter


@kernel
def list_ranges(filters, cut, first, listed):
    """Count, and if there is room write, the ranges of every bucket."""
    place = first.copy()
    for e in range(len(filters.column)):
        c = filters.column[e]
        low = np.searchsorted(cut[c], filters.low[e], side="right") - 1
        high = np.searchsorted(cut[c], filters.high[e], side="right") - 1
        for b in range(max(low, 0), high + 1):
            if len(listed):
                listed[place[c * BUCKETS + b]] = e
            place[c * BUCKETS + b] += 1
    return place


def prepare_counting(filters: Plain, messages: np.ndarray) -> Counting:
    """The counting matcher: buckets by quantiles of the messages' values."""
    columns = messages.shape[1]
    cut = np.quantile(messages, np.arange(BUCKETS) / BUCKETS, axis=0).T.copy()
    cut[:, 0] = -np.inf
    none = np.empty(0, np.int32)
    count = list_ranges(filters, cut, np.zeros(columns * BUCKETS, np.int64), none)
    first = np.concatenate([[0], np.cumsum(count)])
    listed = np.empty(first[-1], np.int32)
    list_ranges(filters, cut, first[:-1].copy(), listed)
    size = np.diff(filters.start)
    owner = np.repeat(np.arange(len(size), dtype=np.int32), size)
    return Counting(cut, first, listed, owner, size.astype(np.int32))


@kernel
def match_by_counting(index, filters, messages):
    """(start, ids): for each value the ranges that hold add one to their filter; full filters match."""
    count = np.zeros(len(index.size), np.int32)
    touched = np.empty(len(index.size), np.int32)
    start = np.zeros(len(messages) + 1, np.int64)
    ids = np.empty(len(messages) * 64 + len(index.size), np.int32)
    free = 0
    for i in range(len(messages)):
        if free + len(index.size) > len(ids):
            grown = np.empty(2 * len(ids) + len(index.size), np.int32)
            grown[:free] = ids[:free]
            ids = grown
        marks, begun = 0, free
        for c in range(messages.shape[1]):
            value = messages[i, c]
            bucket = c * BUCKETS + np.searchsorted(index.cut[c], value, side="right") - 1
            for k in range(index.first[bucket], index.first[bucket + 1]):
                e = index.range[k]
                if filters.low[e] <= value <= filters.high[e]:
                    f = index.owner[e]
                    if count[f] == 0:
                        touched[marks] = f
                        marks += 1
                    count[f] += 1
                    if count[f] == index.size[f]:
                        ids[free] = f
                        free += 1
        for k in range(marks):
            count[touched[k]] = 0
        ids[begun:free].sort()
        start[i + 1] = free
    return start, ids[:free]


@kernel
def scan_covers(filters, column, low, high, upward):
    """Every filter that covers the one with these ranges or, with upward false, that it covers."""
    found = np.empty(len(filters.start) - 1, np.int64)
    free = 0
    for f in range(len(filters.start) - 1):
        first, last = filters.start[f], filters.start[f + 1]
        good = True
        if upward:
            for e in range(first, last):
                q = 0
                while q < len(column) and column[q] != filters.column[e]:
                    q += 1
                if q == len(column) or low[q] < filters.low[e] or high[q] > filters.high[e]:
                    good = False
                    break
        else:
            for q in range(len(column)):
                e = first
                while e < last and column[q] != filters.column[e]:
                    e += 1
                if e == last or low[q] > filters.low[e] or high[q] < filters.high[e]:
                    good = False
                    break
        if good:
            found[free] = f
            free += 1
    return found[:free].copy()
