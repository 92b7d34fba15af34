"""Pairwise merging by the prices of the limits: a good cut of everything at once, in about a second.

Ours. Every combination starts as a channel of its own, and every connection of a type has a price. The two
channels are merged whose merge saves most: the prices of the types with something in both, less the
traffic it adds; until no merge saves. Then the price of a type rises by how far it is beyond its limit,
or falls by how far it is below, and the merging is done again. After each round whoever is still beyond
is relieved, and combinations move where that helps; the best of the rounds is kept.

Keeps: (3.1); every limit. No draws; of equal merges the one with the least combinations.
Costs: combinations x types for each merge of each round.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints, kernel
from overlace.model import Observation
from overlace.planners.channels.book import Book
from overlace.planners.channels.moves import polish, received, repair
from overlace.planners.channels.partition import partition_of

ROUNDS = 60  # of pricing; the steps shrink to nothing over them
MOST_WORK = 1 << 27
"""Combinations x combinations x types of one round: beyond that it would take minutes."""


def merge_by_prices(observation: Observation, book: Book, offered: Ints) -> Ints | None:
    """The channel of each combination of the book (-1: not offered); None: there are too many to look at all pairs."""
    n, types = len(offered), len(book.attributes)
    if n * n * types > MOST_WORK:
        return None
    place = np.full(len(book.combination), -1, dtype=np.int64)
    place[offered] = np.arange(n)
    now = partition_of(observation, book, place)
    meets = np.zeros((n, types), dtype=np.bool_)
    meets[place[book.offered], np.repeat(np.arange(types), np.diff(book.start))] = True
    messages, prices = now.messages.astype(np.float64), np.zeros(types)
    best, least = place, -1
    for r in range(ROUNDS):
        into, connections = merge_while_it_saves(meets, book.weight[offered].astype(np.float64), messages, prices)
        channel = place.copy()
        channel[offered] = into
        cut = partition_of(observation, book, channel)
        repair(book, cut)
        polish(book, cut, offered)
        if least < 0 or received(cut) < least:
            best, least = cut.channel, received(cut)
        prices = np.maximum(0.0, prices + messages.mean() * (1 - r / ROUNDS) * (connections - now.limit))
    return best


@kernel
def merge_while_it_saves(meets: Bools, subscribers: Floats, messages: Floats, prices: Floats) -> tuple[Ints, Ints]:
    """(channel of each combination, connections of each type) after all merges that save something."""
    return merge_down(meets, subscribers, messages, prices, 1, 0.0)


@kernel
def merge_down(
    meets: Bools, subscribers: Floats, messages: Floats, prices: Floats, least: int, floor: float
) -> tuple[Ints, Ints]:
    """The same, merging while there are more channels than `least` and the best merge saves more than `floor`.

    `meets` has a row a combination and a column a type that offers it.
    """
    n, types = meets.shape
    meets, subscribers = meets.copy(), subscribers.copy()
    rate = np.zeros(n)
    for c in range(n):
        for t in range(types):
            rate[c] += messages[t] if meets[c, t] else 0.0
    into = np.arange(n)
    saves = np.full((n, n), -np.inf)
    best = np.zeros(n, dtype=np.int64)  # of each channel, the one it would be merged with
    for c in range(n):
        for d in range(c):
            saves[c, d] = saves[d, c] = saved_by_merge(meets, subscribers, rate, messages, prices, c, d)
    for c in range(n):
        best[c] = np.argmax(saves[c])
    for _ in range(n - least):
        c, most = -1, floor
        for i in range(n):
            if saves[i, best[i]] > most:
                c, most = i, saves[i, best[i]]
        if c < 0:
            break
        d = best[c]
        subscribers[c] += subscribers[d]
        for t in range(types):
            if meets[d, t] and not meets[c, t]:
                meets[c, t] = True
                rate[c] += messages[t]
            meets[d, t] = False
        for a in range(n):
            if into[a] == d:
                into[a] = c
        saves[d, :] = -np.inf
        saves[:, d] = -np.inf
        for e in range(n):
            if e != c and saves[c, e] > -np.inf:
                saves[c, e] = saves[e, c] = saved_by_merge(meets, subscribers, rate, messages, prices, c, e)
        for e in range(n):
            if e == c or best[e] == c or best[e] == d:
                best[e] = np.argmax(saves[e])
            elif saves[e, c] > saves[e, best[e]]:
                best[e] = c
    connections = np.zeros(types, dtype=np.int64)
    for t in range(types):
        connections[t] = meets[:, t].sum()
    return into, connections


@kernel
def saved_by_merge(
    meets: Bools, subscribers: Floats, rate: Floats, messages: Floats, prices: Floats, c: int, d: int
) -> float:
    """What merging two channels saves: prices of connections, less the traffic added."""
    common = price = 0.0
    for t in range(len(messages)):
        if meets[c, t] and meets[d, t]:
            common += messages[t]
            price += prices[t]
    return float(price - subscribers[c] * (rate[d] - common) - subscribers[d] * (rate[c] - common))
