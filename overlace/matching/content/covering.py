"""Which filters cover which, kept while filters come and go.

A filter that asks for a word can only cover filters that ask for it too, and be covered by those that ask for none or
for one that it asks for itself. So a query looks at the filters of a word, not at all: at those that ask for its
rarest word to find what it covers, and at those filed under one of its words, or under none, to find what covers it.
Ranges are compared by a kernel; what that leaves open (patterns, holes) is settled by `covers`.

The roots are what a broker forwards: the filters that no other covers; of equal ones, the first. Each other filter has
a witness, some filter that comes before it in this order. When a witness goes, a new one is looked for, and where there
is none, the filter is a root again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from overlace.arrays.jit import Ints
from overlace.errors import Unknown
from overlace.matching.content.boxes import Entry, Vocabulary, entries_of
from overlace.matching.content.constraints import Filter
from overlace.matching.content.entries import (
    NOBODY,
    EntryStore,
    Listing,
    asked_words,
    attribute_mask,
    compare_all,
    entry_rows,
)
from overlace.matching.content.filters import covers

Word: TypeAlias = tuple[int, int]
"""A slot, and the number of a word that a filter asks for there."""


class CoverIndex:
    """Filters by what they cover. They are numbered from 0 as they come; numbers are not used again."""

    def __init__(self, filters: Iterable[Filter] = ()) -> None:
        self._vocabulary = Vocabulary()
        self._filters: dict[int, Filter] = {}
        self._entries = EntryStore()
        self._next = 0
        self._asking: dict[Word, Listing] = {}  # by each word that a filter asks for
        self._filed: dict[Word | None, Listing] = {None: Listing()}  # by one of them
        self._empty: set[int] = set()  # filters that nothing can match
        self._witness: dict[int, int] = {}
        self._witnessed: dict[int, set[int]] = {}
        for each in filters:
            self.insert(each)
        self._entries.tidy()

    def __len__(self) -> int:
        return len(self._filters)

    def __getitem__(self, id: int) -> Filter:
        if id not in self._filters:
            raise Unknown("filter", str(id), [])
        return self._filters[id]

    @property
    def roots(self) -> list[int]:
        """The filters that no other covers, ascending; of equal filters the first."""
        return [id for id in self._filters if id not in self._witness]

    def is_root(self, id: int) -> bool:
        """Whether no other filter covers this one, nor equals it and came before."""
        return id in self._filters and id not in self._witness

    def insert(self, filter: Filter) -> tuple[int, list[int]]:
        """Add a filter: (its number, the filters that were roots until it came)."""
        entries = entries_of(filter, self._vocabulary)
        above = self._find_above(filter, entries)
        id = self._file(filter, entries)
        if len(above):
            self._put_under(id, int(above[0]))
            return id, []
        below = self._find_below(filter, entries).tolist()
        replaced = [each for each in below if each != id and each not in self._witness]
        for each in replaced:
            self._put_under(each, id)
        return id, replaced

    def remove(self, id: int) -> list[int]:
        """Take a filter out; the filters that have become roots by that, ascending."""
        self._take_out(id, self[id])
        above = self._witness.pop(id, None)
        if above is not None:
            self._witnessed[above].discard(id)
        brought = []
        for each in sorted(self._witnessed.pop(id, ())):
            del self._witness[each]
            witness = self._find_witness(each)
            if witness is None:
                brought.append(each)
            else:
                self._put_under(each, witness)
        return brought

    def covers_of(self, filter: Filter) -> Ints:
        """The filters that cover a filter, ascending."""
        return self._find_above(filter, entries_of(filter, self._vocabulary))

    def covered_by(self, filter: Filter) -> Ints:
        """The filters that a filter covers, ascending."""
        return self._find_below(filter, entries_of(filter, self._vocabulary))

    def _find_witness(self, id: int) -> int | None:
        """The first filter that covers this one, and came before it or is not covered by it."""
        own = self._filters[id]
        for each in self.covers_of(own).tolist():
            if each < id or (each > id and not covers(own, self._filters[each])):
                return int(each)
        return None

    def _put_under(self, id: int, witness: int) -> None:
        self._witness[id] = witness
        self._witnessed.setdefault(witness, set()).add(id)

    def _find_above(self, filter: Filter, entries: list[Entry] | None) -> Ints:
        if entries is None:
            return np.array(sorted(self._filters), np.int64)
        lists = [self._filed[word] for word in asked_words(entries) if word in self._filed]
        return self._find(filter, entries, [self._filed[None], *lists], upward=True)

    def _find_below(self, filter: Filter, entries: list[Entry] | None) -> Ints:
        if entries is None:
            return np.array(sorted(self._empty), np.int64)
        words = asked_words(entries)
        if words:
            rarest = min((self._asking.get(word, NOBODY) for word in words), key=len)
            found = self._find(filter, entries, [rarest], upward=False)
        else:
            found = self._find(filter, entries, list(self._filed.values()), upward=False)
        return np.union1d(found, np.array(list(self._empty), np.int64)) if self._empty else found

    def _find(self, filter: Filter, entries: list[Entry], lists: list[Listing], upward: bool) -> Ints:
        """Those of the listed filters that cover a filter or, with upward false, that it covers."""
        attribute = self._vocabulary.attribute
        query, mask = entry_rows(entries, attribute), attribute_mask(entries, attribute)
        pieces = []
        for some in lists:
            if len(some):
                found, left_open = compare_all(*self._entries.held, query, mask, *some.arrays(), upward)
                pieces.append(self._settle(filter, found, upward) if left_open else found)
        if len(pieces) == 1:
            return pieces[0]
        return np.sort(np.concatenate([np.empty(0, np.int64), *pieces]))

    def _settle(self, filter: Filter, found: Ints, upward: bool) -> Ints:
        """Decide what the kernel has left open, which is written as ~id."""

        def holds(other: Filter) -> bool:
            return covers(other, filter) if upward else covers(filter, other)

        pairs = ((id, id) if id >= 0 else (id, ~id) for id in found.tolist())
        return np.array([id for mark, id in pairs if mark >= 0 or holds(self._filters[id])], np.int64)

    def _file(self, filter: Filter, entries: list[Entry] | None) -> int:
        """Store a filter; its id."""
        id, self._next = self._next, self._next + 1
        self._filters[id] = filter
        if entries is None:
            self._empty.add(id)
            return id
        words, mask = asked_words(entries), attribute_mask(entries, self._vocabulary.attribute)
        for word in words:
            self._asking.setdefault(word, Listing()).append(id, mask)
        key = min(words, key=lambda word: len(self._asking[word])) if words else None
        self._filed.setdefault(key, Listing()).append(id, mask)
        self._entries.append(id, entry_rows(entries, self._vocabulary.attribute), key[1] if key else -1)
        return id

    def _take_out(self, id: int, filter: Filter) -> None:
        del self._filters[id]
        if id in self._empty:
            self._empty.discard(id)
            return
        words = asked_words(entries_of(filter, self._vocabulary) or [])
        for word in words:
            self._asking[word].remove(id)
        for key in (None, *words):
            if key in self._filed:
                self._filed[key].remove(id)
        self._entries.remove(id)
