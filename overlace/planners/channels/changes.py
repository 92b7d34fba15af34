"""Splitting and merging channels, and the order in which a newcomer visits them.

Keeps: a channel's id stays with the larger part of a split and with the largest channel of a merge (ties: the
part with the least combination), so that the fewest subscribers tune in elsewhere.

Costs: a shift of combinations between channels is O(2^m) for each type that offers one of them; the order
of visit is O(n log n) for the n channels that an offer meets, 2^m - 1 at most.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.csr import copy
from overlace.arrays.jit import kernel
from overlace.planners.channels.book import Book
from overlace.planners.channels.partition import CHANGED, RETUNED, STAMP, Partition, draw, new_channel, put, retighten


@kernel
def arrange(now: Partition, found: int, shuffled: bool, ties: int) -> None:
    """Bring the met channels into the order of visit: random, or largest first.

    Of equally large ones the lower id comes first (ties 1), the higher (ties -1), or they stay as they are (0).
    """
    met, size, born = now.met, now.size, now.born
    if shuffled:
        for i in range(found - 1, 0, -1):
            k = draw(now, i + 1)
            met[i], met[k] = met[k], met[i]
        return
    if ties != 0:
        copy(met[np.argsort(ties * born[met[:found]], kind="mergesort")], met)
    copy(met[np.argsort(-size[met[:found]], kind="mergesort")], met)


@kernel
def shift(book: Book, now: Partition, k: int, target: int, tracked: bool) -> None:
    """Move the first k combinations of `moved`, all of one channel, to another; connections follow (R3).

    Where nobody's connections are asked for (strategies 1 and 2) they are not tracked.
    """
    source = now.channel[now.moved[0]]
    listed = 0
    if tracked:
        for m in range(k):
            now.moving[now.moved[m]] = 1
        now.counts[STAMP] += 1
        for m in range(k):
            a = now.moved[m]
            for i in range(book.by_start[a], book.by_start[a + 1]):
                t = book.by_type[i]
                if now.present[t] == 0 or now.touched[t] == now.counts[STAMP]:
                    continue
                now.touched[t] = now.counts[STAMP]
                stays = there = False
                for j in range(book.start[t], book.start[t + 1]):
                    b = book.offered[j]
                    if now.channel[b] == target:
                        there = True
                    elif now.channel[b] == source and now.moving[b] == 0:
                        stays = True
                if not there:
                    now.connections[t] += 1
                    now.rate[target] += now.messages[t]
                if not stays:
                    now.connections[t] -= 1
                    now.rate[source] -= now.messages[t]
                if there != stays:
                    now.listed[listed] = t
                    listed += 1
    for m in range(k):
        now.moving[now.moved[m]] = 0
        now.counts[RETUNED] += book.weight[now.moved[m]]
        put(book, now, now.moved[m], target)
    for i in range(listed):
        retighten(book, now, now.listed[i])


@kernel
def least_of(now: Partition, c: int) -> int:
    """The least combination of a channel."""
    a = least = now.head[c]
    while a >= 0:
        least = min(least, a)
        a = now.following[a]
    return int(least)


@kernel
def members(now: Partition, c: int) -> int:
    """Put all combinations of a channel into `moved`."""
    k, a = 0, now.head[c]
    while a >= 0:
        now.moved[k] = a
        k += 1
        a = now.following[a]
    return k


@kernel
def turn_round(now: Partition, k: int, target: int) -> tuple[int, int]:
    """(k, target) of a shift; one that would end the larger of two channels is turned round, so that its id stays."""
    c = now.channel[now.moved[0]]
    if k < now.size[c] or k < now.size[target] or now.size[target] == 0:
        return k, target
    if k == now.size[target] and least_of(now, target) < least_of(now, c):
        return k, target
    return members(now, target), int(c)


@kernel
def split(book: Book, now: Partition, k: int, tracked: bool) -> None:
    """Part the first k combinations of `moved` from the rest of their channel; the larger part keeps the id."""
    c = now.channel[now.moved[0]]
    now.counts[CHANGED] += 1
    rest = now.size[c] - k
    take_rest = rest < k
    if rest == k:  # a tie: the part with the least combination keeps the id
        least = now.moved[0]
        for m in range(k):
            least = min(least, now.moved[m])
        take_rest = least_of(now, c) == least
    if take_rest:
        for m in range(k):
            now.moving[now.moved[m]] = 1
        old, k, a = k, 0, now.head[c]
        first = now.moved[:old].copy()
        while a >= 0:
            if now.moving[a] == 0:
                now.moved[k] = a
                k += 1
            a = now.following[a]
        for m in range(old):
            now.moving[first[m]] = 0
    shift(book, now, k, new_channel(now), tracked)


@kernel
def take_shared(book: Book, now: Partition, t: int, c: int, loose: bool) -> int:
    """Put the combinations that type t offers in channel c into `moved`; loose: only where nobody is tight."""
    k = 0
    for i in range(book.start[t], book.start[t + 1]):
        a = book.offered[i]
        if now.channel[a] == c and (not loose or now.tight_on[a] == 0):
            now.moved[k] = a
            k += 1
    return k


@kernel
def merge(book: Book, now: Partition, first: int, last: int, tracked: bool) -> int:
    """Make one channel of the channels met[first:last]; the largest keeps its id (ties: least combination)."""
    best, best_least = now.met[first], -1
    for i in range(first, last):
        c = now.met[i]
        if now.size[c] < now.size[best]:
            continue
        least = least_of(now, c)
        if now.size[c] > now.size[best] or best_least < 0 or least < best_least:
            best, best_least = c, least
    now.counts[CHANGED] += last - first if last - first > 1 else 0
    for i in range(first, last):
        if now.met[i] != best:
            shift(book, now, members(now, now.met[i]), best, tracked)
    return int(best)


@kernel
def gather(book: Book, now: Partition, t: int, first: int, last: int, tracked: bool) -> None:
    """A channel of what type t offers and no channel holds yet, with the channels met[first:last] merged into it."""
    target = merge(book, now, first, last, tracked) if last > first else -1
    for i in range(book.start[t], book.start[t + 1]):
        a = book.offered[i]
        if now.channel[a] < 0:
            if target < 0:
                target = new_channel(now)
            put(book, now, a, target)  # offered for the first time, so it changes nobody's connections


@kernel
def unassigned(book: Book, now: Partition, t: int) -> bool:
    """Whether type t offers something that no channel holds."""
    found = False
    for i in range(book.start[t], book.start[t + 1]):
        found = found or now.channel[book.offered[i]] < 0
    return found
