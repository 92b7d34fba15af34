"""Entries of many filters side by side, with room to grow, and the kernels that compare a filter with them."""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Floats, Ints, by_address, kernel
from overlace.matching.content.boxes import Entry

NO, PERHAPS, YES = 0, 1, 2
NUMBER, TEXT, ANY = 0, 1, 2
"""Kinds of slots; flags count as numbers."""
KINDS = {"number": NUMBER, "flag": NUMBER, "text": TEXT, "any": ANY}
KIND, SLOT, ATTRIBUTE = 1, 3, 34
"""Where the mark of an entry has the kind of its slot, the slot and the attribute; its lowest bit: there are holes."""
MARK, CODE, LOW, HIGH = range(4)
"""The words of an entry. They lie together, as a query jumps from filter to filter."""


@by_address
class Held(NamedTuple):
    """Entries of filters: filter f has rows span[f, 0]:span[f, 1]."""

    span: Ints
    word: Ints
    number: Floats  # the same memory as word


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
    word = np.zeros((entries, 4), np.int64)
    return Held(np.zeros((filters, 2), np.int64), word, word.view(np.float64))


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
    rows = np.empty((len(entries), 4), np.int64)
    numbers = rows.view(np.float64)
    marks = [attribute[slot] << ATTRIBUTE | slot << SLOT for _, slot, *_ in entries]
    for i, (mark, entry) in enumerate(sorted(zip(marks, entries, strict=True))):
        rows[i, MARK] = mark | KINDS[entry.type] << KIND | (len(entry.holes) > 0)
        rows[i, CODE] = entry.code
        numbers[i, LOW], numbers[i, HIGH] = entry.low, entry.high
    return rows


@kernel
def find_above(held: Held, query: Ints, mask: int, listed: Ints, masks: Ints) -> tuple[Ints, int]:
    """(found, open): the listed filters that cover the query.

    Where that is left open, a filter is written as ~id; `open` is how many are.
    """
    word, number, limits = held.word, held.number, query.view(np.float64)
    found = np.empty(len(listed), np.int64)
    free = left_open = 0
    for k in range(len(listed)):  # without a branch: those that name no attribute which the query does not
        found[free] = listed[k]
        free += masks[k] & ~mask == 0
    candidates, free = free, 0
    for k in range(candidates):
        f, q, answer = found[k], 0, YES
        for e in range(held.span[f, 0], held.span[f, 1]):
            while q < len(query) and query[q, MARK] >> ATTRIBUTE < word[e, MARK] >> ATTRIBUTE:
                q += 1
            own = NO
            if q < len(query) and query[q, MARK] >> ATTRIBUTE == word[e, MARK] >> ATTRIBUTE:
                inside = number[e, LOW] <= limits[q, LOW] and limits[q, HIGH] <= number[e, HIGH]
                own = compare(word[e, MARK], query[q, MARK], word[e, CODE], query[q, CODE], inside)
            answer = min(answer, own)
            if answer == NO:
                break
        if answer != NO:
            found[free] = f if answer == YES else ~f
            free += 1
            left_open += answer == PERHAPS
    return found[:free].copy(), left_open


@kernel
def find_below(held: Held, query: Ints, mask: int, listed: Ints, masks: Ints) -> tuple[Ints, int]:
    """(found, open): the listed filters that the query covers, in the same way."""
    word, number, limits = held.word, held.number, query.view(np.float64)
    found = np.empty(len(listed), np.int64)
    free = left_open = 0
    for k in range(len(listed)):  # without a branch: those that name every attribute of the query
        found[free] = listed[k]
        free += mask & ~masks[k] == 0
    candidates, free = free, 0
    for k in range(candidates):
        f, answer = found[k], YES
        e, end = held.span[f, 0], held.span[f, 1]
        for q in range(len(query)):
            while e < end and word[e, MARK] >> ATTRIBUTE < query[q, MARK] >> ATTRIBUTE:
                e += 1
            own = NO
            if e < end and word[e, MARK] >> ATTRIBUTE == query[q, MARK] >> ATTRIBUTE:
                inside = limits[q, LOW] <= number[e, LOW] and number[e, HIGH] <= limits[q, HIGH]
                own = compare(query[q, MARK], word[e, MARK], query[q, CODE], word[e, CODE], inside)
            answer = min(answer, own)
            if answer == NO:
                break
        if answer != NO:
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
