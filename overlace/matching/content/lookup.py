"""Messages against filters that are laid out: bitmaps intersected, failing ends taken out, positions read back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import copy
from overlace.arrays.jit import Bools, Ints, kernel
from overlace.matching.content.bitmaps import ONE, Words, clear_bit, set_bit
from overlace.matching.content.boxes import Boxes, Ints32
from overlace.matching.content.rows import SlotRows
from overlace.matching.content.segment import FilterGroups, Segment


class MatchedFilters(NamedTuple):
    """The filters of each message: ids[start[i]:start[i + 1]], ascending."""

    start: Ints
    ids: Ints32


class PartRows(NamedTuple):
    """From messages to the parts of a segment."""

    column: Ints  # the columns of text by which filters are parted
    part: Ints32  # of each distinct text, 0 if none


DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
SIX = np.uint64(58)
BIT = np.zeros(64, np.int32)
for _bit in range(64):
    BIT[((0x03F79D71B4CB0A89 << _bit) & 0xFFFFFFFFFFFFFFFF) >> 58] = _bit


@kernel
def look_up(segment: Segment, rows: SlotRows, ways: PartRows, room: int) -> MatchedFilters:
    """The filters of a segment that each message matches; `room` is for how many ids there is room at first."""
    parts, messages = segment.parts, len(rows.number)
    start = np.zeros(messages + 1, np.int64)
    ids = np.empty(room, np.int32)
    widest = 0
    for p in range(len(parts.key)):
        widest = max(widest, parts.word_start[p + 1] - parts.word_start[p])
    left, term = np.empty(widest, np.uint64), np.empty(widest, np.uint64)
    free = 0
    for i in range(messages):
        first = free
        for k in range(-1, len(ways.column)):
            p = 0
            if k >= 0:
                text = rows.text[i, ways.column[k]]
                p = ways.part[text] if text >= 0 else 0
                if p == 0:
                    continue
            size = parts.start[p + 1] - parts.start[p]
            if free + size + 64 > len(ids):
                grown = np.empty(2 * len(ids) + size + 64, np.int32)
                copy(ids[:free], grown)
                ids = grown
            begun, width = free, parts.word_start[p + 1] - parts.word_start[p]
            if width > 0:
                intersect(segment, rows, i, p, left, term)
                free = read_bits(left, width, parts.id, parts.start[p], ids, free)
            else:
                for m in range(parts.start[p], parts.start[p + 1]):
                    f = parts.member[m]
                    if segment.kept[f] and holds(segment.boxes, f, rows, i):
                        ids[free] = parts.id[m]
                        free += 1
            if begun > first and begun < free and ids[begun] < ids[begun - 1]:
                ids[first:free].sort()
        start[i + 1] = free
    return MatchedFilters(start, ids[:free])  # room that is not used is not touched


@kernel
def intersect(segment: Segment, rows: SlotRows, i: int, p: int, left: Words, term: Words) -> None:
    """Leave in the bitmap `left` the filters of part p that message i matches."""
    parts, groups, bitmaps = segment.parts, segment.groups, segment.rows
    at, width = parts.word_start[p], parts.word_start[p + 1] - parts.word_start[p]
    copy(segment.alive[at : at + width], left)
    for g in range(parts.group_start[p], parts.group_start[p + 1]):
        slot = groups.slot[g]
        column = rows.column[slot]
        if rows.is_text[slot]:
            text = rows.text[i, column]
            if text < 0:
                narrow(left, bitmaps, groups.row[g], width)
            else:
                narrow_by_text(groups, bitmaps, g, rows, text, width, left, term)
        else:
            value = rows.number[i, column]
            if np.isnan(value):
                narrow(left, bitmaps, groups.row[g], width)
            else:
                narrow_by_number(groups, bitmaps, g, value, width, left)


@kernel
def narrow(left: Words, bitmaps: Words, at: int, width: int) -> None:
    """Keep in `left` only what is in the bitmap at a place too."""
    term = bitmaps[at : at + width]
    for w in range(width):
        left[w] &= term[w]


@kernel
def narrow_by_number(groups: FilterGroups, bitmaps: Words, g: int, value: float, width: int, left: Words) -> None:
    """Keep the filters whose range has the value, and that do not constrain the slot."""
    ranges = groups.ranges
    low, high = ranges.cut_start[g], ranges.cut_start[g + 1]
    while low < high:
        middle = (low + high) >> 1
        if ranges.cut[middle] <= value:
            low = middle + 1
        else:
            high = middle
    b = low - ranges.cut_start[g]
    narrow(left, bitmaps, groups.row[g] + (b + 1) * width, width)
    bucket = ranges.bucket_start[g] + b
    for k in range(ranges.low_start[bucket], ranges.low_start[bucket + 1]):
        if ranges.low[k] <= value:
            break
        clear_bit(left, 0, ranges.low_member[k])
    for k in range(ranges.high_start[bucket], ranges.high_start[bucket + 1]):
        if ranges.high[k] >= value:
            break
        clear_bit(left, 0, ranges.high_member[k])
    clear_holes(groups, g, value, left)


@kernel
def clear_holes(groups: FilterGroups, g: int, value: float, left: Words) -> None:
    """Take out the filters that leave out a value."""
    if groups.hole_start[g] < groups.hole_start[g + 1]:
        own = groups.hole[groups.hole_start[g] : groups.hole_start[g + 1]]
        for k in range(np.searchsorted(own, value), len(own)):
            if own[k] != value:
                break
            clear_bit(left, 0, groups.hole_member[groups.hole_start[g] + k])


@kernel
def narrow_by_text(
    groups: FilterGroups, bitmaps: Words, g: int, rows: SlotRows, text: int, width: int, left: Words, term: Words
) -> None:
    """Keep the filters that ask for the text or for a pattern that it has, and that do not constrain the slot."""
    copy(bitmaps[groups.row[g] : groups.row[g] + width], term)
    word = rows.word[text]
    if word >= 0:
        add_code(groups, bitmaps, g, word, width, term)
    for k in range(rows.pattern_start[text], rows.pattern_start[text + 1]):
        add_code(groups, bitmaps, g, ~rows.pattern[k], width, term)
    for w in range(width):
        left[w] &= term[w]
    if word >= 0:
        clear_holes(groups, g, float(word), left)


@kernel
def add_code(groups: FilterGroups, bitmaps: Words, g: int, code: int, width: int, term: Words) -> None:
    """Add the filters that ask for a code."""
    first, last = groups.code_start[g], groups.code_start[g + 1]
    c = first + np.searchsorted(groups.code[first:last], code)
    if c == last or groups.code[c] != code:
        return
    if groups.code_row[c] >= 0:
        own = bitmaps[groups.code_row[c] : groups.code_row[c] + width]
        for w in range(width):
            term[w] |= own[w]
    else:
        for k in range(groups.list_start[c], groups.list_start[c + 1]):
            set_bit(term, 0, groups.list_member[k])


@kernel
def read_bits(left: Words, width: int, names: Ints32, first: int, ids: Ints32, free: int) -> int:
    """Write the names, from the first on, of the members in a bitmap; where the next one goes."""
    for w in range(width):
        word = left[w]
        base = first + (w << 6)
        while word != 0:
            ids[free] = names[base + BIT[((word & (~word + ONE)) * DE_BRUIJN) >> SIX]]
            free += 1
            word &= word - ONE
    return free


@kernel
def holds(boxes: Boxes, f: int, rows: SlotRows, i: int) -> bool:
    """Whether message i matches filter f, constraint by constraint."""
    for e in range(boxes.start[f], boxes.start[f + 1]):
        slot = boxes.slot[e]
        column = rows.column[slot]
        if rows.is_text[slot]:
            text = rows.text[i, column]
            if text < 0 or not has_code(rows, text, boxes.code[e]) or in_hole(boxes, e, float(rows.word[text])):
                return False
        else:
            value = rows.number[i, column]
            if not (boxes.low[e] <= value <= boxes.high[e]) or in_hole(boxes, e, value):
                return False
    return True


@kernel
def has_code(rows: SlotRows, text: int, code: int) -> bool:
    """Whether a distinct text is the word, or has the pattern, of a code."""
    if code >= 0:
        return bool(rows.word[text] == code)
    own = rows.pattern[rows.pattern_start[text] : rows.pattern_start[text + 1]]
    at = np.searchsorted(own, ~code)
    return bool(at < len(own) and own[at] == ~code)


@kernel
def in_hole(boxes: Boxes, e: int, value: float) -> bool:
    """Whether an entry leaves out a value."""
    if len(boxes.hole_entry) == 0:
        return False
    for k in range(np.searchsorted(boxes.hole_entry, e), len(boxes.hole_entry)):
        if boxes.hole_entry[k] != e:
            return False
        if boxes.hole[k] == value:
            return True
    return False


@kernel
def scan(boxes: Boxes, kept: Bools, rows: SlotRows) -> MatchedFilters:
    """The filters that each message matches, by checking every one."""
    start = np.zeros(len(rows.number) + 1, np.int64)
    ids = np.empty(64 + len(boxes.ids), np.int32)
    free = 0
    for i in range(len(rows.number)):
        if free + len(boxes.ids) > len(ids):
            grown = np.empty(2 * len(ids), np.int32)
            copy(ids[:free], grown)
            ids = grown
        for f in range(len(boxes.ids)):
            if kept[f] and holds(boxes, f, rows, i):
                ids[free] = boxes.ids[f]
                free += 1
        start[i + 1] = free
    return MatchedFilters(start, ids[:free].copy())


@kernel
def merge(left: MatchedFilters, right: MatchedFilters) -> MatchedFilters:
    """The filters of each message from two disjoint sets."""
    start = left.start + right.start
    ids = np.empty(start[-1], np.int32)
    for i in range(len(start) - 1):
        a, b, end_a, end_b = left.start[i], right.start[i], left.start[i + 1], right.start[i + 1]
        for k in range(start[i], start[i + 1]):
            if b == end_b or (a < end_a and left.ids[a] < right.ids[b]):
                ids[k] = left.ids[a]
                a += 1
            else:
                ids[k] = right.ids[b]
                b += 1
    return MatchedFilters(start, ids)
