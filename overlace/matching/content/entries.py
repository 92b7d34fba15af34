"""Entries of many filters side by side, with room to grow, and the kernels that compare a filter with them."""

from __future__ import annotations

from array import array
from functools import cache
from itertools import chain
from struct import Struct
from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Ints, kernel
from overlace.matching.content.boxes import Entry, Ints32

NO, PERHAPS, YES = 0, 1, 2
NUMBER, TEXT, ANY = 0, 1, 2
"""Kinds of slots; flags count as numbers."""
KINDS = {"number": NUMBER, "flag": NUMBER, "text": TEXT, "any": ANY}
KIND, SLOT, ATTRIBUTE = 1, 3, 34
"""Where the mark of an entry has the kind of its slot, the slot and the attribute; its lowest bit: there are holes."""
MARK, CODE, LOW, HIGH = range(4)
"""The words of an entry. They lie together, as a query jumps from filter to filter."""


class Held(NamedTuple):
    """Entries of filters: filter f has rows span[f, 0]:span[f, 1] of words, the last two of which are float64."""

    span: Ints32
    word: Ints


class EntryStore:
    """Entries by the id of their filter. When more room is needed, those of removed filters go, and those of filters
    that are filed together are laid side by side."""

    def __init__(self) -> None:
        self.held = _room(16, 64)
        self._near: dict[int, int] = {}  # what each filter is filed under
        self._used = 0

    def append(self, id: int, rows: Ints, near: int) -> None:
        """Add the entries of a filter, filed under a number."""
        if id >= len(self.held.span) or self._used + len(rows) > len(self.held.word):
            self.tidy(len(rows), id)
        end = self._used + len(rows)
        self.held.span[id] = self._used, end
        self.held.word[self._used : end] = rows
        self._used = end
        self._near[id] = near

    def remove(self, id: int) -> None:
        """Leave out the entries of a filter from now on."""
        del self._near[id]

    def tidy(self, more: int = 0, last: int = 0) -> None:
        """Lay all entries out anew, with room for at least so many more, and for ids up to a last one."""
        old, ids = self.held, np.fromiter(self._near.keys(), np.int64, len(self._near))
        ids = ids[np.lexsort((ids, np.fromiter(self._near.values(), np.int64, len(self._near))))]
        count = old.span[ids, 1] - old.span[ids, 0]
        end = np.cumsum(count)
        kept = np.repeat(old.span[ids, 0] - end + count, count) + np.arange(count.sum())
        self.held = _room(max(2 * last + 16, len(old.span)), 2 * (len(kept) + more) + 64)
        self.held.span[ids] = np.stack([end - count, end], axis=1)
        self.held.word[: len(kept)] = old.word[kept]
        self._used = len(kept)


def _room(filters: int, entries: int) -> Held:
    return Held(np.zeros((filters, 2), np.int32), np.zeros((entries, 4), np.int64))


class Listing:
    """Ids of filters, ascending, each with the mask of the attributes that it names."""

    def __init__(self) -> None:
        self._ids, self._masks = array("q"), array("q")

    def __len__(self) -> int:
        return len(self._ids)

    def append(self, id: int, mask: int) -> None:
        """Add the latest filter."""
        self._ids.append(id)
        self._masks.append(mask)

    def remove(self, id: int) -> None:
        """Take a filter out, if it is there."""
        at = int(np.searchsorted(np.frombuffer(self._ids, np.int64), id)) if self._ids else 0
        if at < len(self._ids) and self._ids[at] == id:
            del self._ids[at], self._masks[at]

    def arrays(self) -> tuple[Ints, Ints]:
        """(ids, masks), to be let go before the next change."""
        return np.frombuffer(self._ids, np.int64), np.frombuffer(self._masks, np.int64)


NOBODY = Listing()


def asked_words(entries: list[Entry]) -> list[tuple[int, int]]:
    """The (slot, word) that a filter asks for."""
    return [(each.slot, each.code) for each in entries if each.type == "text" and each.code >= 0]


def attribute_mask(entries: list[Entry], attribute: list[int]) -> int:
    """A bit for each attribute that a filter names, given the attribute of each slot; several may share one."""
    mask = 0
    for each in entries:
        mask |= 1 << attribute[each.slot] % 63
    return mask


def entry_rows(entries: list[Entry], attribute: list[int]) -> Ints:
    """Entries as words, by ascending attribute, given the attribute of each slot."""
    rows = [
        (attribute[slot] << ATTRIBUTE | slot << SLOT | KINDS[kind] << KIND | (1 if holes else 0), code, low, high)
        for kind, slot, low, high, code, holes in entries
    ]
    rows.sort()
    packed = bytearray(_row_format(len(rows)).pack(*chain.from_iterable(rows)))
    return np.frombuffer(packed, np.int64).reshape(-1, 4)


@cache
def _row_format(rows: int) -> Struct:
    return Struct("=" + rows * "qqdd")


@kernel
def compare_all(
    span: Ints32, word: Ints, query: Ints, mask: int, ids: Ints, masks: Ints, upward: bool
) -> tuple[Ints, int]:
    """(found, open): of the filters with these ids, those that cover the query or, with upward false, that it covers.

    `span` and `word` are what is held, `mask` and `masks` the attributes that are named. Where it is left open whether
    a filter covers, it is written as ~id; `open` is how many are.
    """
    number, limits = word.view(np.float64), query.view(np.float64)
    row_of = np.full((query[-1, MARK] >> ATTRIBUTE) + 1 if len(query) else 0, -1)
    for q in range(len(query)):
        row_of[query[q, MARK] >> ATTRIBUTE] = q
    found = np.empty(len(ids), np.int64)
    candidates = free = left_open = 0
    for k in range(len(found)):  # without a branch: the wide one names no attribute that the narrow one does not
        found[candidates] = ids[k]
        candidates += (masks[k] & ~mask if upward else mask & ~masks[k]) == 0
    for k in range(candidates):
        f, answer, shared = found[k], YES, 0
        for e in range(span[f, 0], span[f, 1]):
            attribute = word[e, MARK] >> ATTRIBUTE
            q = row_of[attribute] if attribute < len(row_of) else -1
            if q < 0:
                continue
            shared += 1
            if upward:
                inside = (number[e, LOW] <= limits[q, LOW]) & (limits[q, HIGH] <= number[e, HIGH])
                answer = min(answer, compare(word[e, MARK], query[q, MARK], word[e, CODE], query[q, CODE], inside))
            else:
                inside = (limits[q, LOW] <= number[e, LOW]) & (number[e, HIGH] <= limits[q, HIGH])
                answer = min(answer, compare(query[q, MARK], word[e, MARK], query[q, CODE], word[e, CODE], inside))
            if answer == NO:
                break
        if answer != NO and shared == (span[f, 1] - span[f, 0] if upward else len(query)):
            found[free] = f if answer == YES else ~f
            free += 1
            left_open += answer == PERHAPS
    return found[:free].copy(), left_open


@kernel
def compare(wide: int, narrow: int, wide_code: int, narrow_code: int, inside: bool) -> int:
    """Whether an entry has all that another of its attribute allows; PERHAPS if patterns or holes decide it.

    Given are the marks and codes of both, and whether the range of the narrow one lies in that of the wide one.
    """
    kind = wide >> KIND & 3
    if kind == ANY:
        return YES
    if (wide ^ narrow) >> SLOT:
        return NO
    if kind == NUMBER:
        return (PERHAPS if wide & 1 else YES) if inside else NO
    if wide_code == narrow_code and not wide & 1:
        return YES
    return NO if wide_code >= 0 else PERHAPS  # a word is in the same word only
