"""Messages in the numbers of the filters' slots, words and patterns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Bools, Floats, Ints, by_address
from overlace.matching.content.boxes import Ints32, Vocabulary
from overlace.matching.content.columns import AttributeColumn, Columns
from overlace.matching.content.patterns import Patterns, encode_patterns, encode_strings, find_patterns
from overlace.matching.content.sets import Texts

NO_INTS, NO_INTS32 = np.empty(0, np.int64), np.empty(0, np.int32)
CELLS = 1 << 17
"""Values of messages that are laid out at a time."""


@by_address
class SlotRows(NamedTuple):
    """Messages in the slots of filters."""

    is_text: Bools  # of each slot
    column: Ints  # of each slot: a column of number, or of text
    number: Floats  # message x column, not-a-number where absent
    text: Ints32  # message x column: a distinct text, -1 where absent
    word: Ints32  # of each distinct text: its number in the filters' words, -1 if none has it
    pattern_start: Ints  # of each distinct text: the patterns that it has, ascending
    pattern: Ints32


class Distinct(NamedTuple):
    """The distinct texts of some messages, slot by slot."""

    slot: Ints
    word: Ints32
    pattern_start: Ints
    pattern: Ints32
    first: dict[int, int]  # of each slot that the messages have


class Reader:
    """Lays out messages for the filters of a vocabulary as it is now."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.slots = list(vocabulary.slots)
        self.is_text = vocabulary.text_slots()
        self.column = np.where(self.is_text, np.cumsum(self.is_text), np.cumsum(~self.is_text)).astype(np.int64) - 1
        own: dict[int, dict[int, Texts]] = {}
        for (slot, pattern), number in vocabulary.patterns.items():
            own.setdefault(slot, {})[number] = pattern
        self.patterns: dict[int, tuple[Ints32, Patterns]] = {
            slot: (np.array(list(some), np.int32), encode_patterns(list(some.values()))) for slot, some in own.items()
        }

    def distinct(self, columns: Columns) -> Distinct:
        """The distinct texts of messages, with the words that they are and the patterns that they have."""
        first, slots, words, starts, found = {}, [], [], [], []
        texts = patterns = 0
        for slot in map(int, np.flatnonzero(self.is_text)):
            column = self._column(columns, slot)
            if column is None:
                continue
            first[slot] = texts
            start, own = self._patterns(slot, column)
            slots.append(np.full(len(column.words), slot))
            words.append(self._words(column))
            starts.append(start[:-1] + patterns)
            found.append(own)
            texts += len(column.words)
            patterns += len(own)
        return Distinct(
            np.concatenate([NO_INTS, *slots]),
            np.concatenate([NO_INTS32, *words]),
            np.concatenate([NO_INTS, *starts, [patterns]]),
            np.concatenate([NO_INTS32, *found]),
            first,
        )

    def read(self, columns: Columns, distinct: Distinct) -> Iterator[SlotRows]:
        """The messages, so many at a time that they stay small."""
        step = max(64, CELLS // max(1, len(self.slots)))
        for begin in range(0, columns.rows, step):
            end = min(columns.rows, begin + step)
            number = np.full((end - begin, int((~self.is_text).sum())), np.nan)
            text = np.full((end - begin, int(self.is_text.sum())), -1, np.int32)
            for slot, (_, kind) in enumerate(self.slots):
                column = self._column(columns, slot)
                if column is None:
                    continue
                if kind == "text":
                    codes = column.codes[begin:end]
                    text[:, self.column[slot]] = np.where(codes >= 0, codes + distinct.first[slot], -1)
                elif kind == "any":
                    number[:, self.column[slot]] = np.where(_absent(column, begin, end), np.nan, 0.0)
                else:
                    number[:, self.column[slot]] = column.numbers[begin:end]
            yield SlotRows(self.is_text, self.column, number, text, *distinct[1:4])

    def _column(self, columns: Columns, slot: int) -> AttributeColumn | None:
        """The attribute of a slot, if the messages have it in the slot's type."""
        name, kind = self.slots[slot]
        column = columns.columns.get(name)
        return column if column is not None and kind in ("any", column.type) else None

    def _words(self, column: AttributeColumn) -> Ints32:
        """The number of each distinct text of a column in the filters' words, -1 if none has it."""
        known = self.vocabulary.words
        if len(column.words) < len(known):
            return np.array([known.get(word, -1) for word in column.words.to_pylist()], np.int32)
        numbers = pc.index_in(column.words, value_set=pa.array(list(known), pa.string()))
        return np.asarray(numbers.fill_null(-1).to_numpy(), np.int32)

    def _patterns(self, slot: int, column: AttributeColumn) -> tuple[Ints, Ints32]:
        """(start, pattern): the patterns that each distinct text of a column has."""
        if slot not in self.patterns:
            return np.zeros(len(column.words) + 1, np.int64), np.empty(0, np.int32)
        numbers, patterns = self.patterns[slot]
        start, found = find_patterns(encode_strings(column.words), patterns)
        return start, numbers[found]


def _absent(column: AttributeColumn, begin: int, end: int) -> Bools:
    return column.codes[begin:end] < 0 if column.type == "text" else np.isnan(column.numbers[begin:end])
