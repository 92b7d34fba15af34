"""Filters as arrays: what each allows of every attribute, in numbers that kernels read.

A slot is an attribute and the type that filters expect of it, so a message whose attribute has another type lacks the
slot. In a slot of numbers a filter has a range; flags are the numbers 0 and 1, and any value that exists is 0. In a
slot of texts it has a code: the number of a word that must be there, or, below zero, of a pattern (`~code`). Holes,
the values that `!=` takes out, stand apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from overlace.arrays.csr import take_groups
from overlace.arrays.jit import Bools, Floats, Ints, by_address
from overlace.matching.content.constraints import Filter, Type
from overlace.matching.content.sets import Allowed, Anything, Choice, Flags, Range, Texts, allowed_values, is_empty

Ints32 = NDArray[np.int32]
K = TypeVar("K")


@by_address
class Boxes(NamedTuple):
    """Filters as arrays; entries start[f]:start[f + 1] are the slots that filter f constrains."""

    ids: Ints  # ascending
    start: Ints
    slot: Ints32
    low: Floats  # the range in a slot of numbers
    high: Floats
    code: Ints32  # the word or ~pattern in a slot of texts
    hole_entry: Ints  # ascending
    hole: Floats  # a number, or the number of a word


NO_BOXES = Boxes(
    np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0), np.empty(0),
    np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0),
)  # fmt: skip


@dataclass
class Vocabulary:
    """The numbers of slots, words and patterns. They only grow."""

    slots: dict[tuple[str, Type], int] = field(default_factory=dict)
    words: dict[str, int] = field(default_factory=dict)
    patterns: dict[tuple[int, Texts], int] = field(default_factory=dict)  # of a slot

    attributes: dict[str, int] = field(default_factory=dict)
    attribute: list[int] = field(default_factory=list)  # of each slot

    def slot(self, name: str, kind: Type) -> int:
        """The number of a slot."""
        found = self.slots.get((name, kind))
        if found is None:
            found = self.slots[name, kind] = len(self.slots)
            self.attribute.append(_number(self.attributes, name))
        return found

    def text_slots(self) -> Bools:
        """Which slots hold texts."""
        return np.array([kind == "text" for _, kind in self.slots], dtype=np.bool_)


def encode(filters: Iterable[tuple[int, Filter]], vocabulary: Vocabulary) -> Boxes:
    """Filters with their ids, ascending, as arrays; what nothing can match is left out."""
    ids: list[int] = []
    start = [0]
    slots: list[int] = []
    lows: list[float] = []
    highs: list[float] = []
    codes: list[int] = []
    hole_entries: list[int] = []
    holes: list[float] = []
    for number, filter in filters:
        entries = entries_of(filter, vocabulary)
        if entries is None:
            continue
        for entry in entries:
            hole_entries += [len(slots)] * len(entry.holes)
            holes += entry.holes
            slots.append(entry.slot)
            lows.append(entry.low)
            highs.append(entry.high)
            codes.append(entry.code)
        ids.append(number)
        start.append(len(slots))
    return Boxes(
        np.array(ids, np.int64), np.array(start, np.int64), np.array(slots, np.int32), np.array(lows, np.float64),
        np.array(highs, np.float64), np.array(codes, np.int32), np.array(hole_entries, np.int64),
        np.array(holes, np.float64),
    )  # fmt: skip


class Entry(NamedTuple):
    """What a filter allows in one slot."""

    type: Type
    slot: int
    low: float
    high: float
    code: int
    holes: Sequence[float]


def entries_of(filter: Filter, vocabulary: Vocabulary) -> list[Entry] | None:
    """What a filter allows in each slot that it constrains; None if nothing can match it."""
    entries = []
    for name, allowed in allowed_values(filter).items():
        if is_empty(allowed):
            return None
        entries.append(_entry(name, allowed, vocabulary))
    return entries


def _entry(name: str, allowed: Allowed, vocabulary: Vocabulary) -> Entry:
    if isinstance(allowed, Range):
        holes = sorted(allowed.holes) if allowed.holes else ()
        return Entry("number", vocabulary.slot(name, "number"), allowed.low, allowed.high, 0, holes)
    if isinstance(allowed, Anything):
        return Entry("any", vocabulary.slot(name, "any"), -math.inf, math.inf, 0, ())
    if isinstance(allowed, Flags):
        low, high = float(min(allowed.allowed)), float(max(allowed.allowed))
        return Entry("flag", vocabulary.slot(name, "flag"), low, high, 0, ())
    slot, words = vocabulary.slot(name, "text"), vocabulary.words
    if isinstance(allowed, Choice):
        if len(allowed.texts) == 1:
            return Entry("text", slot, 0.0, 0.0, _number(words, *allowed.texts), ())
        allowed = _spanned(allowed)
    code = ~_number(vocabulary.patterns, (slot, allowed._replace(holes=frozenset())))
    return Entry("text", slot, 0.0, 0.0, code, sorted(float(_number(words, hole)) for hole in allowed.holes))


def _number(table: dict[K, int], key: K) -> int:
    """The number of a key, which gets the next one if it is new."""
    return table.setdefault(key, len(table))


def _spanned(choice: Choice) -> Texts:
    """Several texts that differ by zero characters at their ends, as a span with holes."""
    first, last = min(choice.texts), max(choice.texts)
    between = {first + "\0" * zeros for zeros in range(len(last) - len(first))}
    return Texts(first, last + "\0", holes=frozenset(between - choice.texts))


def take(boxes: Boxes, rows: Ints) -> Boxes:
    """Some of the filters, by their rows."""
    start, entries = take_groups(boxes.start, np.arange(len(boxes.slot)), rows)
    left, right = (np.searchsorted(boxes.hole_entry, entries, side) for side in ("left", "right"))
    count = right - left
    picked = np.repeat(left - np.cumsum(count) + count, count) + np.arange(count.sum())
    return Boxes(
        boxes.ids[rows], start, boxes.slot[entries], boxes.low[entries], boxes.high[entries], boxes.code[entries],
        np.repeat(np.arange(len(entries)), count), boxes.hole[picked],
    )  # fmt: skip


def concatenate(several: Sequence[Boxes]) -> Boxes:
    """All filters of several, by ascending id."""
    entries = np.cumsum([0, *(len(each.slot) for each in several)])
    starts = [each.start[:-1] + shift for each, shift in zip(several, entries, strict=False)]
    joined = Boxes(
        np.concatenate([each.ids for each in several]),
        np.concatenate([*starts, entries[-1:]]).astype(np.int64),
        np.concatenate([each.slot for each in several]),
        np.concatenate([each.low for each in several]),
        np.concatenate([each.high for each in several]),
        np.concatenate([each.code for each in several]),
        np.concatenate([each.hole_entry + shift for each, shift in zip(several, entries, strict=False)]),
        np.concatenate([each.hole for each in several]),
    )
    order = np.argsort(joined.ids, kind="stable")
    return joined if (np.diff(order) == 1).all() else take(joined, order)
