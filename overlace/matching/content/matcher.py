"""Which filters each message matches: many filters at once, inserted and removed as they come.

Filters lie in segments (see `segment`), each laid out once. New ones wait in a short tail that is checked one by one;
when it is full, it becomes a segment together with those before it that are at most `LONGER` times as long. So there
are about log(filters / TAIL) / log(LONGER) segments, and a filter is laid out again at most `LONGER` times in each. A
removed filter is marked, and a segment of which half is removed is laid out again.

Keeps: the ids of a message ascend; what is matched does not depend on when filters came and went.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from overlace.errors import Unknown
from overlace.matching.content.boxes import NO_BOXES, Boxes, Vocabulary, concatenate, encode, take
from overlace.matching.content.columns import Columns
from overlace.matching.content.constraints import Filter
from overlace.matching.content.lookup import MatchedFilters, PartRows, look_up, merge, scan
from overlace.matching.content.rows import Distinct, Reader, SlotRows
from overlace.matching.content.segment import KEY, Segment, build, bytes_of, drop

TAIL = 256
"""Filters that wait until they are laid out."""
LONGER = 8
"""A segment at most so many times as long as what is laid out after it is laid out again with it."""


class Matcher:
    """Filters against messages. Filters are numbered from 0 as they come; numbers are not used again."""

    def __init__(self, filters: Iterable[Filter] = ()) -> None:
        self._vocabulary = Vocabulary()
        self._segments: list[Segment] = []
        self._tail: list[Boxes] = []
        self._reader: Reader | None = None
        self._dense = 16.0
        given = list(filters)
        self._next = len(given)
        self._unmatched = set(range(len(given)))
        boxes = encode(enumerate(given), self._vocabulary)
        self._unmatched.difference_update(boxes.ids.tolist())
        self._lay_out(boxes)

    def __len__(self) -> int:
        waiting = len(self._tail) + len(self._unmatched)
        return waiting + sum(int(np.count_nonzero(each.kept)) for each in self._segments)

    @property
    def nbytes(self) -> int:
        """Bytes in the arrays of the filters."""
        return bytes_of((*self._segments, *self._tail))

    @property
    def attributes(self) -> list[str]:
        """The attributes that filters name or have named."""
        return list(dict.fromkeys(name for name, _ in self._vocabulary.slots))

    def insert(self, filter: Filter) -> int:
        """Add a filter; its id."""
        self._next += 1
        boxes = encode([(self._next - 1, filter)], self._vocabulary)
        self._reader = None
        if not len(boxes.ids):
            self._unmatched.add(self._next - 1)
            return self._next - 1
        self._tail.append(boxes)
        if len(self._tail) >= TAIL:
            self._lay_out(concatenate(self._tail))
            self._tail = []
        return self._next - 1

    def remove(self, id: int) -> None:
        """Take a filter out."""
        if id in self._unmatched:
            self._unmatched.remove(id)
            return
        for k, waiting in enumerate(self._tail):
            if waiting.ids[0] == id:
                del self._tail[k]
                return
        for k, segment in enumerate(self._segments):
            row = int(np.searchsorted(segment.boxes.ids, id))
            if row < len(segment.boxes.ids) and segment.boxes.ids[row] == id and segment.kept[row]:
                drop(segment, row)
                if 2 * np.count_nonzero(segment.kept) < len(segment.kept):
                    del self._segments[k]
                    self._lay_out(_kept(segment))
                return
        raise Unknown("filter", str(id), [])

    def match(self, columns: Columns) -> MatchedFilters:
        """The filters that each message matches: ids[start[i]:start[i + 1]] for message i, ascending."""
        reader = self._reader = self._reader or Reader(self._vocabulary)
        distinct = reader.distinct(columns)
        ways = [_find_ways(segment, distinct, reader) for segment in self._segments]
        tail = concatenate(self._tail) if self._tail else None
        pieces = [self._match(rows, ways, tail) for rows in reader.read(columns, distinct)]
        if len(pieces) == 1:
            return pieces[0]
        counts = [np.diff(each.start) for each in pieces]
        start = np.concatenate([[0], np.cumsum(np.concatenate([np.empty(0, np.int64), *counts]))])
        return MatchedFilters(start, np.concatenate([np.empty(0, np.int32), *(each.ids for each in pieces)]))

    def _match(self, rows: SlotRows, ways: list[PartRows], tail: Boxes | None) -> MatchedFilters:
        found = MatchedFilters(np.zeros(len(rows.number) + 1, np.int64), np.empty(0, np.int32))
        for k, (segment, way) in enumerate(zip(self._segments, ways, strict=True)):
            room = int(1.25 * self._dense * len(rows.number)) + len(segment.kept)
            own = look_up(segment, rows, way, room)
            self._dense = len(own.ids) / len(rows.number)
            found = own if k == 0 else merge(found, own)
        if tail is not None:
            found = merge(found, scan(tail, np.ones(len(tail.ids), np.bool_), rows))
        return found

    def _lay_out(self, boxes: Boxes) -> None:
        """Make a segment of filters and of the shorter segments before."""
        several = [boxes]
        while self._segments and len(self._segments[-1].boxes.ids) <= LONGER * sum(len(each.ids) for each in several):
            several.append(_kept(self._segments.pop()))
        together = concatenate(several) if len(several) > 1 else boxes
        if len(together.ids):
            self._segments.append(build(together, self._vocabulary.text_slots()))
            self._segments.sort(key=lambda each: -len(each.boxes.ids))

    def __getstate__(self) -> dict[str, Any]:
        """The filters without their layout, which takes longer to ship than to make."""
        boxes = concatenate([NO_BOXES, *map(_kept, self._segments), *self._tail])
        return {"vocabulary": self._vocabulary, "boxes": boxes, "next": self._next, "unmatched": self._unmatched}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._vocabulary, self._next, self._unmatched = state["vocabulary"], state["next"], state["unmatched"]
        self._segments, self._tail, self._reader = [], [], None
        self._dense = 16.0
        self._lay_out(state["boxes"])


def _kept(segment: Segment) -> Boxes:
    return segment.boxes if segment.kept.all() else take(segment.boxes, np.flatnonzero(segment.kept))


def _find_ways(segment: Segment, distinct: Distinct, reader: Reader) -> PartRows:
    key = segment.parts.key
    wanted = distinct.slot * KEY + distinct.word
    part = np.searchsorted(key, wanted)
    part[part == len(key)] = 0
    part[(key[part] != wanted) | (distinct.word < 0)] = 0
    return PartRows(reader.column[np.unique(key[1:] // KEY)], part.astype(np.int32))
