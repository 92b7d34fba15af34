"""Communities by greedy modularity, with the order of the merges (CC12 §III.A, Newman's algorithm).

Every client starts alone. The two communities whose merge raises q = sum of (e_ii - a_i^2) most become one, until no
merge raises it (Clauset, Newman and Moore's form: a heap of merges; entries that a later merge outdated are skipped).
The merges in their order are the dendrogram: taking back the last ones gives more and smaller communities (R5).

Keeps: every merge is the best there is at that point, as in networkx (igraph's heap now and then takes one that is not,
and on graphs without end, such as a ring, may end at a higher q by it); a community is named by its lowest client; of
equal merges the one with the lowest names comes first.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.csr import copy
from overlace.arrays.heap import pop, push
from overlace.arrays.jit import Floats, Ints, Pairs, kernel
from overlace.planners.placement.ties import Ties


def merges(ties: Ties) -> tuple[Pairs, Floats]:
    """(merges, q): which two communities became one, in order, and q after each; up to the peak of q."""
    made, gain, begin = greedy(ties)
    q: Floats = begin + np.cumsum(gain)
    return made, q


def strengths(ties: Ties) -> Floats:
    """The traffic of each client with all others."""
    client = np.repeat(np.arange(len(ties.start) - 1), np.diff(ties.start))
    return np.bincount(client, weights=ties.weight, minlength=len(ties.start) - 1).astype(np.float64)


@kernel
def communities_after(clients: int, made: Pairs, count: int) -> Ints:
    """The community of each client after the first merges, numbered from 0 by their lowest client."""
    name = np.arange(clients)
    for k in range(count):  # the higher name goes; merges only name communities that are there
        name[made[k, 1]] = made[k, 0]
    number = np.full(clients, -1, dtype=np.int64)
    community = np.empty(clients, dtype=np.int64)
    known = 0
    for c in range(clients):
        top = c
        while name[top] != top:
            top = name[top]
        name[c] = top
        if number[top] < 0:
            number[top] = known
            known += 1
        community[c] = number[top]
    return community


@kernel
def greedy(ties: Ties) -> tuple[Pairs, Floats, float]:
    """(merges, gain of each, q at the start). A merge names the two communities, the lower one first."""
    n = len(ties.start) - 1
    other, weight = ties.other.copy(), ties.weight.copy()
    total = weight.sum()
    following = np.full(len(other), -1, dtype=np.int64)  # the rows of a community are a linked list
    head = np.full(n, -1, dtype=np.int64)
    tail = np.full(n, -1, dtype=np.int64)
    share = np.zeros(n, dtype=np.float64)  # a_i
    begin = 0.0
    for c in range(n):
        for k in range(ties.start[c], ties.start[c + 1]):
            share[c] += weight[k] / total
            if head[c] < 0:
                head[c] = k
            else:
                following[tail[c]] = k
            tail[c] = k
        begin -= share[c] * share[c]
    name = np.arange(n)
    age = np.zeros(n, dtype=np.int64)  # how often a community has grown
    seen = np.full(n, -1, dtype=np.int64)  # the row that holds the weight to that neighbour
    heap_key = np.empty(len(other) // 2 + 16, dtype=np.float64)
    heap_row = np.empty((len(other) // 2 + 16, 4), dtype=np.int64)  # lower, higher, and their ages
    size = 0
    for c in range(n):
        for k in range(ties.start[c], ties.start[c + 1]):
            if c < other[k]:
                gain = 2 * (weight[k] / total - share[c] * share[other[k]])
                if gain > 0:
                    heap_key, heap_row = room(heap_key, heap_row, size)
                    size = push(heap_key, heap_row, size, -gain, (c, other[k], 0, 0))
    made = np.empty((n, 2), dtype=np.int64)
    gains = np.empty(n, dtype=np.float64)
    done = 0
    while size:
        gain, a, b = -heap_key[0], heap_row[0, 0], heap_row[0, 1]
        fresh = name[a] == a and name[b] == b and heap_row[0, 2] == age[a] and heap_row[0, 3] == age[b]
        size = pop(heap_key, heap_row, size)
        if not fresh:
            continue
        made[done, 0] = a
        made[done, 1] = b
        gains[done] = gain
        done += 1
        name[b] = a
        age[a] += 1
        share[a] += share[b]
        if head[a] < 0:
            head[a] = head[b]
        else:
            following[tail[a]] = head[b]
        tail[a] = tail[b]
        k, before = head[a], np.int64(-1)
        while k >= 0:  # neighbours by their present name, each once
            far = other[k]
            while name[far] != far:
                name[far] = name[name[far]]
                far = name[far]
            other[k] = far
            if far == a or seen[far] >= 0:
                if far != a:
                    weight[seen[far]] += weight[k]
                if before < 0:
                    head[a] = following[k]
                else:
                    following[before] = following[k]
                if tail[a] == k:
                    tail[a] = before
            else:
                seen[far] = k
                before = k
            k = following[k]
        k = head[a]
        while k >= 0:
            far = other[k]
            seen[far] = -1
            gain = 2 * (weight[k] / total - share[a] * share[far])
            if gain > 0:
                heap_key, heap_row = room(heap_key, heap_row, size)
                low, high = min(a, far), max(a, far)
                size = push(heap_key, heap_row, size, -gain, (low, high, age[low], age[high]))
            k = following[k]
    return made[:done].copy(), gains[:done].copy(), begin


@kernel
def room(gain: Floats, row: Ints, size: int) -> tuple[Floats, Ints]:
    """The heap with room for one more."""
    if size < len(gain):
        return gain, row
    more_gain = np.empty(2 * len(gain), dtype=np.float64)
    more_row = np.empty((2 * len(gain), 4), dtype=np.int64)
    copy(gain[:size], more_gain)
    copy(row[:size], more_row)
    return more_gain, more_row
