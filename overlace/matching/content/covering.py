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

from array import array
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np

from overlace.arrays.jit import Floats, Ints, by_address, kernel
from overlace.errors import Unknown
from overlace.matching.content.boxes import Entry, Vocabulary, entries_of
from overlace.matching.content.constraints import Filter
from overlace.matching.content.filters import covers

Word: TypeAlias = tuple[int, int]
"""A slot, and the number of a word that a filter asks for there."""

NO, PERHAPS, YES = 0, 1, 2
NUMBER, TEXT, ANY = 0, 1, 2
ATTRIBUTE, SLOT, KIND, LOW, HIGH, CODE, HOLES = range(7)
"""The columns of an entry: kind is that of its slot, flags count as numbers; holes is whether there are any."""


@by_address
class Held(NamedTuple):
    """Filters as arrays with room to grow: filter f has the entries start[f]:stop[f]."""

    start: Ints
    stop: Ints
    entry: Floats


class Inserted(NamedTuple):
    """A filter that was added."""

    id: int
    replaced: list[int]  # the filters that were roots until it came


class CoverIndex:
    """Filters by what they cover. They are numbered from 0 as they come; numbers are not used again."""

    def __init__(self, filters: Iterable[Filter] = ()) -> None:
        self._vocabulary = Vocabulary()
        self._slots: list[tuple[int, int, int]] = []  # attribute, slot, kind
        self._filters: dict[int, Filter] = {}
        self._held = Held(np.zeros(16, np.int64), np.zeros(16, np.int64), np.empty((64, 7)))
        self._next = self._used = 0
        self._asking: dict[Word, array[int]] = {}  # by each word that a filter asks for
        self._filed: dict[Word | None, array[int]] = {None: array("q")}  # by one of them
        self._empty: set[int] = set()  # filters that nothing can match
        self._witness: dict[int, int] = {}
        self._witnessed: dict[int, set[int]] = {}
        for each in filters:
            self.insert(each)

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

    def insert(self, filter: Filter) -> Inserted:
        """Add a filter."""
        entries = entries_of(filter, self._vocabulary)
        above = self._find_above(filter, entries)
        id = self._file(filter, entries)
        if len(above):
            self._put_under(id, int(above[0]))
            return Inserted(id, [])
        below = self._find_below(filter, entries).tolist()
        replaced = [each for each in below if each != id and each not in self._witness]
        for each in replaced:
            self._put_under(each, id)
        return Inserted(id, replaced)

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
        keys = [None, *(word for word in self._words(entries) if word in self._filed)]
        return self._find(filter, entries, [self._filed[key] for key in keys], upward=True)

    def _find_below(self, filter: Filter, entries: list[Entry] | None) -> Ints:
        if entries is None:
            return np.array(sorted(self._empty), np.int64)
        lists = [self._asking.get(word, array("q")) for word in self._words(entries)]
        rarest = min(lists, key=len) if lists else array("q", sorted(self._filters.keys() - self._empty))
        found = self._find(filter, entries, [rarest], upward=False)
        return np.union1d(found, np.array(list(self._empty), np.int64)) if self._empty else found

    def _find(self, filter: Filter, entries: list[Entry], lists: list[array[int]], upward: bool) -> Ints:
        """Those of the listed filters that cover a filter or, with upward false, that it covers."""
        query = self._rows(entries)
        pieces = []
        for some in lists:
            if some:
                found, open_ones = compare_all(self._held, query, np.frombuffer(some, np.int64), upward)
                pieces.append(self._settle(filter, found, upward) if open_ones else found)
        if len(pieces) == 1:
            return pieces[0]
        return np.sort(np.concatenate([np.empty(0, np.int64), *pieces]))

    def _settle(self, filter: Filter, found: Ints, upward: bool) -> Ints:
        """Decide what the kernel has left open, which is written as ~id."""

        def holds(other: Filter) -> bool:
            return covers(other, filter) if upward else covers(filter, other)

        pairs = ((id, id) if id >= 0 else (id, ~id) for id in found.tolist())
        return np.array([id for mark, id in pairs if mark >= 0 or holds(self._filters[id])], np.int64)

    def _words(self, entries: list[Entry]) -> list[Word]:
        """The words that a filter asks for."""
        return [(each.slot, each.code) for each in entries if each.code >= 0 and self._slot(each.slot)[KIND] == TEXT]

    def _rows(self, entries: list[Entry]) -> Floats:
        rows = [(*self._slot(each.slot), each.low, each.high, each.code, len(each.holes) > 0) for each in entries]
        return np.array(rows, np.float64).reshape(-1, 7)

    def _slot(self, slot: int) -> tuple[int, int, int]:
        """(attribute, slot, kind)."""
        if slot >= len(self._slots):
            slots = self._vocabulary.slots
            names = {name: i for i, name in enumerate(dict.fromkeys(name for name, _ in slots))}
            kinds = {"text": TEXT, "any": ANY}
            self._slots = [(names[name], i, kinds.get(kind, NUMBER)) for (name, kind), i in slots.items()]
        return self._slots[slot]

    def _file(self, filter: Filter, entries: list[Entry] | None) -> int:
        """Store a filter; its id."""
        id, self._next = self._next, self._next + 1
        self._filters[id] = filter
        if entries is None:
            self._empty.add(id)
            return id
        rows = self._rows(entries)
        self._make_room(len(rows))
        self._held.start[id], self._held.stop[id] = self._used, self._used + len(rows)
        self._held.entry[self._used : self._used + len(rows)] = rows
        self._used += len(rows)
        words = self._words(entries)
        for word in words:
            self._asking.setdefault(word, array("q")).append(id)
        key = min(words, key=lambda word: len(self._asking[word])) if words else None
        self._filed.setdefault(key, array("q")).append(id)
        return id

    def _take_out(self, id: int, filter: Filter) -> None:
        del self._filters[id]
        if id in self._empty:
            self._empty.discard(id)
            return
        words = self._words(entries_of(filter, self._vocabulary) or [])
        for word in words:
            self._asking[word].remove(id)
        for key in (None, *words):
            if id in self._filed.get(key, ()):
                self._filed[key].remove(id)

    def _make_room(self, entries: int) -> None:
        """Have room for another filter, leaving out the entries of those that went."""
        start, stop, entry = self._held
        if self._next <= len(start) and self._used + entries <= len(entry):
            return
        ids = np.array([id for id in self._filters if id not in self._empty and id < self._next - 1], np.int64)
        count = stop[ids] - start[ids]
        kept = np.repeat(start[ids] - np.cumsum(count) + count, count) + np.arange(count.sum())
        held = Held(
            np.zeros(2 * self._next, np.int64), np.zeros(2 * self._next, np.int64),
            np.empty((2 * (len(kept) + entries) + 64, 7)),
        )  # fmt: skip
        held.start[ids], held.stop[ids] = np.cumsum(count) - count, np.cumsum(count)
        held.entry[: len(kept)] = entry[kept]
        self._held, self._used = held, len(kept)


@kernel
def compare_all(held: Held, query: Floats, listed: Ints, upward: bool) -> tuple[Ints, int]:
    """(found, open): the listed filters that cover the query or, with upward false, that it covers.

    Where that is left open, a filter is written as ~id; `open` is how many are.
    """
    found = np.empty(len(listed), np.int64)
    free = left_open = 0
    for k in range(len(listed)):
        own = held.entry[held.start[listed[k]] : held.stop[listed[k]]]
        answer = compare(own, query) if upward else compare(query, own)
        if answer != NO:
            found[free] = listed[k] if answer == YES else ~listed[k]
            free += 1
            left_open += answer == PERHAPS
    return found[:free].copy(), left_open


@kernel
def compare(wide: Floats, narrow: Floats) -> int:
    """Whether a filter covers another: NO, YES, or PERHAPS where patterns or holes must be looked at."""
    answer = YES
    for w in range(len(wide)):
        own = NO
        for n in range(len(narrow)):
            if narrow[n, ATTRIBUTE] == wide[w, ATTRIBUTE]:
                own = compare_entries(wide, w, narrow, n)
                break
        if own == NO:
            return NO
        answer = min(answer, own)
    return answer


@kernel
def compare_entries(wide: Floats, w: int, narrow: Floats, n: int) -> int:
    """The same for one attribute."""
    if wide[w, KIND] == ANY:
        return YES
    if wide[w, SLOT] != narrow[n, SLOT]:
        return NO
    if wide[w, KIND] == NUMBER:
        inside = wide[w, LOW] <= narrow[n, LOW] and narrow[n, HIGH] <= wide[w, HIGH]
        return (PERHAPS if wide[w, HOLES] else YES) if inside else NO
    if wide[w, CODE] == narrow[n, CODE] and not wide[w, HOLES]:
        return YES
    return NO if wide[w, CODE] >= 0 else PERHAPS  # only the same word is in a word
