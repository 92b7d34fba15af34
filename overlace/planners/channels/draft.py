"""A second cut beside the one in use, in which connections beyond a limit have a price instead of being refused.

Ours. Within hard limits most moves are blocked, since nearly everybody is at their limit. In a draft a
combination goes anywhere; each connection beyond a limit costs a price, which rises while the temperature
falls (annealing), so that towards the end of a round hardly anybody is beyond. Nobody re-tunes for a draft: what is
left of it after a round is repaired, polished and taken only if it beats the cut in use.

Keeps: the draft holds the combinations that the cut in use holds; rates, subscribers and connections are exact.
Costs: a move is O(types that offer the combination). Memory: two bytes for each pair of a combination and a type.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overlace.arrays.draws import draw_counted
from overlace.arrays.hashing import mix
from overlace.arrays.jit import Ints, kernel
from overlace.planners.channels.book import Book
from overlace.planners.channels.moves import polish, repair
from overlace.planners.channels.partition import HELD, Partition, recut

MOST_COUNTED = 1 << 21
"""Pairs of a combination and a type up to which a draft is kept: 4 MB."""
STAIR = 64  # moves at one temperature
RESOLUTION = 1 << 30  # of the draws that accept a move
SPARE, DRAWS, STAMP = range(3)  # places in Draft.counts


class Draft(NamedTuple):
    """What changes while a draft is searched. Places of channels are its own."""

    channel: Ints  # of each combination; -1: none
    size: Ints  # of each channel
    subscribers: Ints
    rate: Ints
    seen: Ints  # marks
    spare: Ints  # places to give out, a stack
    pairs: NDArray[np.int16]  # (channel, type): combinations of the type in the channel
    connections: Ints  # of each type, whether it is present or not
    counts: Ints  # places to give out, draws, marks


class CoolingRound(NamedTuple):
    """How a round of moves cools: temperature and price go from the first to the second, both in traffic."""

    length: int  # moves
    hot: float
    cold: float
    cheap: float  # price of a connection beyond a limit
    dear: float


def can_draft(book: Book) -> bool:
    """Whether combinations and types are few enough to count all pairs of them."""
    pairs = len(book.combination) * len(book.attributes)
    return 0 < pairs <= MOST_COUNTED and int(np.diff(book.start).max(initial=0)) < 1 << 15


def empty_draft(book: Book, seed: int = 0, *, kept: bool = True) -> Draft:
    """A draft of nothing; not kept: one without room."""
    n, types = (len(book.combination), len(book.attributes)) if kept else (0, 0)

    def zeros(size: int, value: int = 0) -> Ints:
        return np.full(size, value, dtype=np.int64)

    counts = zeros(3)
    counts[DRAWS] = np.int64(np.uint64(mix(np.uint64(seed) ^ np.uint64(1 << 40))) >> np.uint64(1))
    pairs = np.zeros((n, types), dtype=np.int16)
    return Draft(zeros(n, -1), zeros(n), zeros(n), zeros(n), zeros(n), zeros(n), pairs, zeros(types), counts)


def within_limits(book: Book, now: Partition, draft: Draft) -> Partition:
    """The draft as a cut of its own, repaired and polished."""
    other = recut(book, now, draft.channel)
    repair(book, other)
    polish(book, other, np.flatnonzero(now.channel >= 0))
    return other


@kernel
def copy_cut(book: Book, now: Partition, draft: Draft) -> None:
    """Begin a draft with the cut in use."""
    draft.channel[:] = -1
    draft.size[:] = 0
    draft.subscribers[:] = 0
    draft.rate[:] = 0
    draft.pairs[:] = 0
    draft.connections[:] = 0
    for a in range(len(draft.channel)):
        if now.channel[a] >= 0:
            put_drafted(book, now, draft, a, now.channel[a])
    draft.counts[SPARE] = 0
    for c in range(len(draft.size) - 1, -1, -1):
        if draft.size[c] == 0:
            draft.spare[draft.counts[SPARE]] = c
            draft.counts[SPARE] += 1


@kernel
def put_drafted(book: Book, now: Partition, draft: Draft, a: int, c: int) -> None:
    """Put a combination that is in no channel into one."""
    draft.channel[a] = c
    draft.size[c] += 1
    draft.subscribers[c] += book.weight[a]
    for i in range(book.by_start[a], book.by_start[a + 1]):
        t = book.by_type[i]
        if draft.pairs[c, t] == 0:
            draft.rate[c] += now.messages[t]
            draft.connections[t] += 1
        draft.pairs[c, t] += 1


@kernel
def take_drafted(book: Book, now: Partition, draft: Draft, a: int) -> None:
    """Take a combination out of its channel."""
    c = draft.channel[a]
    draft.channel[a] = -1
    draft.size[c] -= 1
    draft.subscribers[c] -= book.weight[a]
    for i in range(book.by_start[a], book.by_start[a + 1]):
        t = book.by_type[i]
        draft.pairs[c, t] -= 1
        if draft.pairs[c, t] == 0:
            draft.rate[c] -= now.messages[t]
            draft.connections[t] -= 1
    if draft.size[c] == 0:
        draft.spare[draft.counts[SPARE]] = c
        draft.counts[SPARE] += 1


@kernel
def follow(book: Book, now: Partition, draft: Draft, t: int, messages: int) -> None:
    """Have the draft hold what the cut in use holds, after a publisher of type t came (messages above 0) or went.

    What is new becomes a channel of its own.
    """
    draft.counts[STAMP] += 1
    for i in range(book.start[t], book.start[t + 1]):
        c = draft.channel[book.offered[i]]
        if c >= 0 and draft.seen[c] != draft.counts[STAMP]:
            draft.seen[c] = draft.counts[STAMP]
            draft.rate[c] += messages
    for i in range(book.start[t], book.start[t + 1]):
        a = book.offered[i]
        if now.channel[a] >= 0 and draft.channel[a] < 0:
            draft.counts[SPARE] -= 1
            put_drafted(book, now, draft, a, draft.spare[draft.counts[SPARE]])
        elif now.channel[a] < 0 and draft.channel[a] >= 0:
            take_drafted(book, now, draft, a)


@kernel
def search(book: Book, now: Partition, draft: Draft, round: CoolingRound, first: int, last: int) -> None:
    """Make the moves from first up to, without, last of a round.

    A combination is drawn, then a channel that somebody who offers it is in, or a new one.
    """
    temperature = price = 0.0
    for n in range(first, last):
        if n == first or n % STAIR == 0:
            done = n / round.length
            temperature = round.hot * (round.cold / round.hot) ** done
            price = round.cheap * (round.dear / round.cheap) ** done
        draft.counts[DRAWS] += 1
        word = mix(np.uint64(draft.counts[DRAWS]))
        a = now.held[scaled(word, 40, 24, now.counts[HELD])]
        by = book.by_start[a]
        t = book.by_type[by + scaled(word, 20, 20, book.by_start[a + 1] - by)]
        j = scaled(word, 0, 20, book.start[t + 1] - book.start[t] + 1)
        c = draft.channel[a]
        if j == 0:
            if draft.size[c] == 1:
                continue
            d = draft.spare[draft.counts[SPARE] - 1]
        else:
            d = draft.channel[book.offered[book.start[t] + j - 1]]
            if d < 0 or d == c:
                continue
        added, beyond = weigh_drafted(book, now, draft, a, d)
        worse = added + price * beyond
        if worse > 20 * temperature:
            continue
        if worse > 0:
            chance = (draw_counted(draft.counts, DRAWS, RESOLUTION) + 1) / RESOLUTION
            if chance > math.exp(-worse / temperature):
                continue
        if draft.size[d] == 0:
            draft.counts[SPARE] -= 1
        take_drafted(book, now, draft, a)
        put_drafted(book, now, draft, a, d)


@kernel
def scaled(word: np.uint64, shift: int, width: int, below: int) -> int:
    """The bits of a random word from a place on, so many of them, as one of 0 to below - 1."""
    part = np.int64((word >> np.uint64(shift)) & np.uint64((1 << width) - 1))
    return int((part * below) >> width)


@kernel
def weigh_drafted(book: Book, now: Partition, draft: Draft, a: int, d: int) -> tuple[int, int]:
    """(traffic, connections beyond limits) that a combination's move to channel d would add."""
    c = draft.channel[a]
    lost = won = beyond = 0
    for i in range(book.by_start[a], book.by_start[a + 1]):
        t = book.by_type[i]
        more = 0
        if draft.pairs[c, t] == 1:
            lost += now.messages[t]
            more -= 1
        if draft.pairs[d, t] == 0:
            won += now.messages[t]
            more += 1
        if now.present[t] > 0:
            if more > 0 and draft.connections[t] >= now.limit[t]:
                beyond += 1
            elif more < 0 and draft.connections[t] > now.limit[t]:
                beyond -= 1
    s, r, w = draft.subscribers, draft.rate, book.weight[a]
    before = s[c] * r[c] + s[d] * r[d]
    after = (s[c] - w) * (r[c] - lost) + (s[d] + w) * (r[d] + won)
    return after - before, beyond
