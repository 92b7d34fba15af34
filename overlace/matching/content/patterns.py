"""Texts as bytes, and which patterns they have: UTF-8 keeps the order of code points, prefixes, suffixes and parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overlace.arrays.csr import copy
from overlace.arrays.jit import Bools, Ints, by_address, kernel
from overlace.matching.content.sets import Texts

Bytes = NDArray[np.uint8]


@by_address
class Strings(NamedTuple):
    """Texts in UTF-8 one after the other: text i is content[start[i]:start[i + 1]]."""

    start: Ints
    content: Bytes


@by_address
class Patterns(NamedTuple):
    """Spans of texts with suffixes and parts."""

    low: Strings
    high: Strings
    endless: Bools  # no text is too late
    suffix: Strings
    part_start: Ints
    parts: Strings


def encode_strings(texts: pa.Array | list[str]) -> Strings:
    """Texts as bytes."""
    array = (texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string())).cast(pa.large_string())
    if not len(array):
        return Strings(np.zeros(1, np.int64), np.empty(0, np.uint8))
    _, offsets, content = array.buffers()
    start = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return Strings(start, np.frombuffer(content, np.uint8) if content is not None else np.empty(0, np.uint8))


def encode_patterns(patterns: Sequence[Texts]) -> Patterns:
    """Patterns as bytes."""
    parts = [sorted(each.parts) for each in patterns]
    return Patterns(
        encode_strings([each.low for each in patterns]),
        encode_strings([each.high or "" for each in patterns]),
        np.array([each.high is None for each in patterns], np.bool_),
        encode_strings([each.suffix for each in patterns]),
        np.cumsum([0, *map(len, parts)]),
        encode_strings([part for own in parts for part in own]),
    )


@kernel
def compare(left: Strings, i: int, right: Strings, j: int) -> int:
    """Below, at or above zero as text i comes before, equals or comes after text j."""
    a, b = left.start[i], right.start[j]
    size, other = left.start[i + 1] - a, right.start[j + 1] - b
    for k in range(min(size, other)):
        if left.content[a + k] != right.content[b + k]:
            return -1 if left.content[a + k] < right.content[b + k] else 1
    return int(size - other)


@kernel
def stands_at(texts: Strings, at: int, parts: Strings, j: int) -> bool:
    """Whether part j stands at a place in the content of texts."""
    begin, size, k = parts.start[j], parts.start[j + 1] - parts.start[j], 0
    while k < size and texts.content[at + k] == parts.content[begin + k]:
        k += 1
    return bool(k == size)


@kernel
def ends_with(texts: Strings, i: int, suffixes: Strings, j: int) -> bool:
    """Whether text i ends with suffix j."""
    at = texts.start[i + 1] - (suffixes.start[j + 1] - suffixes.start[j])
    return at >= texts.start[i] and stands_at(texts, at, suffixes, j)


@kernel
def contains(texts: Strings, i: int, parts: Strings, j: int) -> bool:
    """Whether part j stands anywhere in text i."""
    at, last = texts.start[i], texts.start[i + 1] - (parts.start[j + 1] - parts.start[j])
    while at <= last and not stands_at(texts, at, parts, j):
        at += 1
    return bool(at <= last)


@kernel
def find_patterns(texts: Strings, patterns: Patterns) -> tuple[Ints, Ints]:
    """(start, pattern): the patterns start[i]:start[i + 1] hold for text i, ascending."""
    count = len(patterns.endless)
    start = np.zeros(len(texts.start), np.int64)
    found = np.empty(len(texts.start) + count, np.int64)
    free = 0
    for i in range(len(texts.start) - 1):
        if free + count > len(found):
            grown = np.empty(2 * len(found), np.int64)
            copy(found[:free], grown)
            found = grown
        for j in range(count):
            if compare(texts, i, patterns.low, j) < 0:
                continue
            if not patterns.endless[j] and compare(texts, i, patterns.high, j) >= 0:
                continue
            holds = ends_with(texts, i, patterns.suffix, j)
            for part in range(patterns.part_start[j], patterns.part_start[j + 1]):
                holds = holds and contains(texts, i, patterns.parts, part)
            if holds:
                found[free] = j
                free += 1
        start[i + 1] = free
    return start, found[:free].copy()
