"""Filters laid out so that a message meets few of them: by a word they ask for, then as bitmaps by bucket of value.

A filter that asks for certain words is in the part of the rarest of them, and only messages with that word look there;
all others are in part 0. Within a part each slot has buckets, cut where ranges begin and end, and each bucket a bitmap
of the filters that hold somewhere in it. A message is the intersection of one bitmap for each slot, less the filters
whose range begins or ends inside its bucket beyond its value: those stand sorted, so that only the failing ones are
looked at. Small parts have no bitmaps; their filters are checked one by one.

Memory: at most `BITS` bits a filter in bitmaps, 24 bytes for each range and as much for its box.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import group
from overlace.arrays.jit import Bools, Floats, Ints, by_address, kernel
from overlace.matching.content.bitmaps import Ranges, Words, clear_bit, full_bitmaps, lay_bases, lay_codes, lay_ranges
from overlace.matching.content.boxes import Boxes, Ints32

FEW = 48
"""Filters that are checked one by one rather than by bitmaps."""
BITS = 640
"""Bits a filter in the bitmaps of all slots together, at most."""
BUCKETS = 128
"""Buckets of a slot, at most."""
ENDS = 16
"""Ends of ranges in a bucket on average, at least."""
HEAVY = 4
"""A code has a bitmap of its own if more filters than so many times the words of a bitmap ask for it."""
KEY = np.int64(1) << 32


class Parts(NamedTuple):
    """Filters by the word that they ask for."""

    key: Ints  # slot x KEY + word of each part, ascending; -1 for part 0
    start: Ints  # members of part p: member[start[p]:start[p + 1]]
    member: Ints32  # rows of boxes, ascending in each part
    id: Ints32  # of each member
    position: Ints32  # of each row of boxes among the members
    word_start: Ints  # the bitmap of part p is word_start[p]:word_start[p + 1]; empty where filters are checked singly
    group_start: Ints  # groups group_start[p]:group_start[p + 1] are those of part p


class FilterGroups(NamedTuple):
    """The filters of a part that constrain a slot. Members are positions in their part."""

    slot: Ints32
    row: Ints  # where the bitmaps begin: of filters without a constraint, then one for each bucket or heavy code
    ranges: Ranges
    hole_start: Ints
    hole: Floats  # ascending in each group
    hole_member: Ints32
    code_start: Ints
    code: Ints32  # ascending in each group
    code_row: Ints  # where the bitmap of a heavy code begins, -1 for others
    list_start: Ints  # the filters that ask for a code
    list_member: Ints32


@by_address
class Segment(NamedTuple):
    """Filters ready to be matched."""

    boxes: Boxes
    parts: Parts
    groups: FilterGroups
    rows: Words  # bitmaps
    alive: Words  # the filters of each part that are not removed, as bitmaps
    kept: Bools  # the same for each box


class Members(NamedTuple):
    """Entries of boxes that go into bitmaps, by part, slot and code."""

    entry: Ints
    place: Ints32  # the filter's position in its part
    start: Ints  # group g: start[g]:start[g + 1]
    part: Ints  # of each group
    slot: Ints32


def build(boxes: Boxes, text_slots: Bools) -> Segment:
    """Lay out filters; `text_slots` says which slots hold texts."""
    owner = np.repeat(np.arange(len(boxes.ids)), np.diff(boxes.start))
    is_text = text_slots[boxes.slot] if len(boxes.slot) else np.zeros(0, np.bool_)
    keys = np.where(is_text & (boxes.code >= 0), boxes.slot * KEY + boxes.code, -1)
    _, kind, count = np.unique(keys, return_inverse=True, return_counts=True)
    chosen = rarest(boxes.start, keys, count[kind])

    wanted = np.full(len(boxes.ids) + 1, -1)  # one more, so that part 0 is there
    wanted[:-1][chosen >= 0] = keys[chosen[chosen >= 0]]
    key, part = np.unique(wanted, return_inverse=True)
    start, member = group(part[:-1], len(key))
    size = np.diff(start)
    width = np.where(size > FEW, (size + 63) // 64, 0)
    position = np.empty(len(boxes.ids), np.int32)
    position[member] = np.arange(len(member))
    place = (position - start[part[:-1]]).astype(np.int32)

    used = width[part[owner]] > 0
    used[chosen[chosen >= 0]] = False  # all filters of a part have its word
    members = _members(boxes, np.flatnonzero(used), part[owner], place[owner])
    group_start = np.searchsorted(members.part, np.arange(len(key) + 1))
    ids = boxes.ids[member].astype(np.int32)
    parts = Parts(key, start, member.astype(np.int32), ids, position, _offsets(width), group_start)
    groups, rows = _groups(boxes, members, parts, text_slots)
    return Segment(boxes, parts, groups, rows, full_bitmaps(parts.word_start, size), np.ones(len(boxes.ids), np.bool_))


@kernel
def rarest(start: Ints, keys: Ints, count: Ints) -> Ints:
    """The entry of each filter whose key is the rarest, the first among equals; -1 if it has no key."""
    chosen = np.full(len(start) - 1, -1)
    for f in range(len(chosen)):
        for e in range(start[f], start[f + 1]):
            if keys[e] >= 0 and (chosen[f] < 0 or count[e] < count[chosen[f]]):
                chosen[f] = e
    return chosen


def _members(boxes: Boxes, entry: Ints, part: Ints, place: Ints32) -> Members:
    entry = entry[np.lexsort((boxes.code[entry], boxes.slot[entry], part[entry]))]
    own, slot = part[entry], boxes.slot[entry]
    first = np.ones(len(entry), np.bool_)
    first[1:] = (own[1:] != own[:-1]) | (slot[1:] != slot[:-1])
    begin = np.flatnonzero(first)
    return Members(entry, place[entry], np.append(begin, len(entry)), own[begin], slot[begin])


def _groups(boxes: Boxes, members: Members, parts: Parts, text_slots: Bools) -> tuple[FilterGroups, Words]:
    """(groups, rows)."""
    count = np.diff(members.start)
    width = np.diff(parts.word_start)[members.part]
    owner = np.repeat(np.arange(len(count)), count)
    is_text = text_slots[members.slot] if len(count) else np.zeros(0, np.bool_)

    in_text = is_text[owner]
    listed, code = owner[in_text], boxes.code[members.entry[in_text]]
    first = np.ones(len(code), np.bool_)
    first[1:] = (listed[1:] != listed[:-1]) | (code[1:] != code[:-1])
    list_start = np.append(np.flatnonzero(first), len(code))
    code_group = listed[first]
    heavy = np.diff(list_start) > HEAVY * width[code_group]
    heavies = np.bincount(code_group[heavy], minlength=len(count))

    low, high = boxes.low[members.entry], boxes.high[members.entry]
    ends = np.bincount(owner, np.isfinite(low).astype(float) + np.isfinite(high), minlength=len(count))
    most = np.minimum(BUCKETS, BITS // np.maximum(1, np.diff(parts.group_start)))[members.part]
    buckets = np.where(is_text, 0, np.clip(ends // ENDS, 1, np.maximum(most, 1))).astype(np.int64)

    row = _offsets(width * (1 + buckets + heavies))
    rows = np.zeros(row[-1], np.uint64)
    lay_bases(members.start, members.place, np.diff(parts.start)[members.part], row, rows)
    nth = np.cumsum(heavy) - (np.cumsum(heavies) - heavies)[code_group]  # from 1, within the group
    code_row = np.where(heavy, row[code_group] + nth * width[code_group], -1)
    list_member = members.place[in_text]
    lay_codes(code_row, list_start, list_member, rows)
    ranges = lay_ranges(members.start, members.place, low, high, buckets, width, row, rows)

    hole_start, hole, hole_member = _holes(boxes, members, owner)
    code_start = np.searchsorted(code_group, np.arange(len(count) + 1))
    groups = FilterGroups(
        members.slot, row, ranges, hole_start, hole, hole_member,
        code_start, code[first], code_row, list_start, list_member,
    )  # fmt: skip
    return groups, rows


def _holes(boxes: Boxes, members: Members, owner: Ints) -> tuple[Ints, Floats, Ints32]:
    """(hole_start, hole, hole_member): the holes of each group."""
    where = np.full(len(boxes.slot) + 1, -1)
    where[members.entry] = np.arange(len(members.entry))
    at = where[boxes.hole_entry]
    hole, at = boxes.hole[at >= 0], at[at >= 0]
    order = np.lexsort((hole, owner[at]))
    start = np.searchsorted(owner[at][order], np.arange(len(members.part) + 1))
    return start, hole[order], members.place[at[order]]


def _offsets(sizes: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def drop(segment: Segment, row: int) -> None:
    """Mark a filter as removed."""
    segment.kept[row] = False
    position = segment.parts.position[row]
    p = int(np.searchsorted(segment.parts.start, position, "right")) - 1
    if segment.parts.word_start[p + 1] > segment.parts.word_start[p]:
        clear_bit(segment.alive, segment.parts.word_start[p], position - segment.parts.start[p])


def bytes_of(held: object) -> int:
    """Bytes in the arrays of a tuple and of tuples in it."""
    if isinstance(held, np.ndarray):
        return held.nbytes
    return sum(map(bytes_of, held)) if isinstance(held, tuple) else 0
