"""Channels that cost less than their combinations are worth: found by growing, and ruled out by branch and bound.

A channel C costs S(C) x R(C) + L(C): subscribers times messages, and the prices of the types that meet it. Every
combination has a value. A channel is *cheap* if the values of its combinations add up to more than it costs.

To rule out cheap channels, all channels are sorted by their first combination, the one that most messages match.
A node of the search is the set of channels that hold all of F and nothing that was left out. With r = R(F)
and s = S(F) + the fewest subscribers of what may be added, a larger channel C of the node has R(C) >= r and
S(C) >= s, hence (S(C) - s) x (R(C) - r) >= 0, which is S(C) x R(C) >= s x R(C) + r x S(C) - s x r. The right
side is a cost per combination added and a cost per type added, so that the cheapest C by it is a minimum cut
(`selection`). If that is not cheap, nothing in the node is. If it is, and costs more than the right side says, the node
is parted in two: with and without one of its combinations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints, Pairs, kernel
from overlace.planners.channels.book import Book
from reproductions.part10.bounds.selection import needs_of, select

LONGEST = 64  # combinations of a channel that is written down
NEAR = 1e-9  # share of a channel's worth that is taken for rounding


class Priced(NamedTuple):
    """What everything costs and is worth, in any one unit."""

    weight: Floats  # subscribers of each combination
    messages: Floats  # of each type
    price: Floats  # of a connection of each type, 0 or more
    value: Floats  # of each combination, 0 or more
    rank: Ints  # of each combination: 0 matches most messages; -1: nobody offers it


class Node(NamedTuple):
    """The combinations that every channel of a node holds, and what they cost together."""

    met: Bools  # of each type
    subscribers: float
    messages: float
    prices: float
    value: float


class Found(NamedTuple):
    """Cheap channels, a row each, filled with -1; and how many."""

    rows: Pairs
    total: Ints


def room_for(channels: int) -> Found:
    """Nothing found yet."""
    return Found(np.full((channels, LONGEST), -1, dtype=np.int64), np.zeros(1, dtype=np.int64))


@kernel
def add_up(book: Book, priced: Priced, state: Ints) -> Node:
    """What the combinations of state 1 cost together."""
    met = np.zeros(len(priced.messages), dtype=np.bool_)
    subscribers = messages = prices = value = 0.0
    for a in range(len(state)):
        if state[a] != 1:
            continue
        subscribers += priced.weight[a]
        value += priced.value[a]
        for i in range(book.by_start[a], book.by_start[a + 1]):
            t = book.by_type[i]
            if not met[t]:
                met[t] = True
                messages += priced.messages[t]
                prices += priced.price[t]
    return Node(met, subscribers, messages, prices, value)


@kernel
def gain_of(node: Node) -> float:
    """What the combinations are worth beyond what their channel costs."""
    return float(node.value - node.subscribers * node.messages - node.prices)


@kernel
def note(found: Found, state: Ints) -> None:
    """Write down the combinations of state 1 as a channel, if there is room."""
    row, k = found.total[0], 0
    if row == len(found.rows):
        return
    for a in range(len(state)):
        if state[a] == 1:
            if k == LONGEST:
                found.rows[row] = -1
                return
            found.rows[row, k] = a
            k += 1
    found.total[0] += 1


@kernel
def grow(book: Book, priced: Priced, most: int, found: Found) -> None:
    """From every combination, add the one that gains most, up to `most`; write down the best on the way if cheap."""
    n = len(priced.weight)
    state = np.zeros(n, dtype=np.int64)
    for first in range(n):
        if priced.rank[first] < 0:
            continue
        state[:] = 0
        state[first] = 1
        node = add_up(book, priced, state)
        best, kept = gain_of(node), state.copy()
        for _ in range(most - 1):
            chosen, top = -1, -np.inf
            for b in range(n):
                if state[b] == 1 or priced.rank[b] < 0:
                    continue
                messages, prices, meets = node.messages, node.prices, False
                for i in range(book.by_start[b], book.by_start[b + 1]):
                    t = book.by_type[i]
                    if node.met[t]:
                        meets = True
                    else:
                        messages += priced.messages[t]
                        prices += priced.price[t]
                gain = node.value + priced.value[b] - (node.subscribers + priced.weight[b]) * messages - prices
                if meets and gain > top:
                    chosen, top = b, gain
            if chosen < 0:
                break
            state[chosen] = 1
            node = add_up(book, priced, state)
            if top > best:
                best = top
                kept[:] = state
        if best > NEAR * node.value:
            note(found, kept)


@kernel
def most_beyond(book: Book, priced: Priced, nodes: int, found: Found) -> Floats:
    """Of each combination, what channels that it is first in are worth beyond their cost: at most so much.

    Cheap channels met on the way are written down. After so many nodes for a combination what is open counts
    with its bound.
    """
    n = len(priced.weight)
    beyond = np.zeros(n)
    state = np.zeros(n, dtype=np.int64)  # 1: in every channel of the node, 2: in none
    path = np.empty(n + 1, dtype=np.int64)
    for first in range(n):
        if priced.rank[first] < 0:
            continue
        state[:] = 0
        state[first] = 1
        depth = seen = 0
        while True:
            seen += 1
            node = add_up(book, priced, state)
            beyond[first] = max(beyond[first], gain_of(node))
            branch, left = look(book, priced, node, state, first, found)
            if branch >= 0 and seen < nodes:
                path[depth] = branch
                depth += 1
                state[branch] = 1
                continue
            beyond[first] = max(beyond[first], left)
            while depth > 0 and state[path[depth - 1]] == 2:
                depth -= 1
                state[path[depth]] = 0
            if depth == 0:
                break
            state[path[depth - 1]] = 2
    return beyond


@kernel
def look(book: Book, priced: Priced, node: Node, state: Ints, first: int, found: Found) -> tuple[int, float]:
    """(combination to part the node by, or -1; what its larger channels are worth beyond their cost, at most)."""
    n, fewest = len(state), np.inf
    added, gain = np.empty(n, dtype=np.int64), np.empty(n)
    k = 0
    for b in range(n):
        if state[b] == 0 and priced.rank[b] > priced.rank[first]:
            gain[k] = priced.value[b] - node.messages * priced.weight[b]
            if gain[k] > 0:
                added[k] = b
                fewest = min(fewest, priced.weight[b])
                k += 1
    if k == 0:
        return -1, 0.0
    profit, taken = choose(book, priced, node, added[:k], gain[:k], node.subscribers + fewest)
    left = profit + gain_of(node)
    if left <= NEAR * node.value:
        return -1, max(left, 0.0)
    whole, branch, most = state.copy(), -1, -1.0
    for i in range(k):
        if not taken[i]:
            continue
        whole[added[i]] = 1
        new = 0.0
        for j in range(book.by_start[added[i]], book.by_start[added[i] + 1]):
            t = book.by_type[j]
            new += 0.0 if node.met[t] else priced.messages[t]
        if new > most:
            branch, most = added[i], new
    other = add_up(book, priced, whole)
    if gain_of(other) > NEAR * other.value:
        note(found, whole)
    if gain_of(other) >= left - NEAR * other.value:  # the bound is what this one is worth
        return -1, left
    return branch, left


@kernel
def choose(
    book: Book, priced: Priced, node: Node, added: Ints, gain: Floats, subscribers: float
) -> tuple[float, Bools]:
    """The most that adding brings, if a new type costs its price and its messages for so many subscribers."""
    place = np.full(len(priced.messages), -1, dtype=np.int64)
    start = np.zeros(len(added) + 1, dtype=np.int64)
    total = 0
    for i in range(len(added)):
        total += book.by_start[added[i] + 1] - book.by_start[added[i]]
    resource, cost = np.empty(total, dtype=np.int64), np.empty(len(place))
    k = resources = 0
    for i in range(len(added)):
        for j in range(book.by_start[added[i]], book.by_start[added[i] + 1]):
            t = book.by_type[j]
            if node.met[t]:
                continue
            if place[t] < 0:
                place[t] = resources
                cost[resources] = subscribers * priced.messages[t] + priced.price[t]
                resources += 1
            resource[k] = place[t]
            k += 1
        start[i + 1] = k
    return select(gain, cost[:resources], needs_of(start, resource[:k], resources))
