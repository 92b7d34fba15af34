"""Take out links that no topic needs for a diameter of 2.

A way of two links that uses a link begins or ends at one of its ends. So a link can go exactly if in every topic
that its ends share, each of the two still reaches all subscribers in at most two steps without it.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.csr import neighbours
from overlace.arrays.jit import Bools, Ints, Pairs, kernel
from overlace.planners.mesh.interests import Interests

MOST_WORK = 2_000_000_000
"""Steps of searches after which pruning stops: about two seconds."""


def needed_links(given: Interests, links: Pairs) -> Bools:
    """Which links stay: those of the best linked clients are tried first, ties by the order of the links."""
    clients = len(given.start) - 1
    degree = np.bincount(links.reshape(-1), minlength=clients)
    ends = np.sort(degree[links], axis=1)
    order = np.lexsort((np.arange(len(links)), -ends[:, 0], -ends[:, 1]))
    start, other, link = neighbours(clients, links)
    kept: Bools = prune(given, links, order, start, other, link, MOST_WORK)
    return kept


@kernel
def prune(given: Interests, links: Pairs, order: Ints, start: Ints, other: Ints, link: Ints, work: int) -> Bools:
    """Which links stay, tried in this order until the work is used up."""
    kept = np.ones(len(links), dtype=np.bool_)
    clients = len(given.start) - 1
    degree = np.diff(start)
    mark = np.full(clients, -1, dtype=np.int64)
    stamp = 0
    for e in order:
        a, b = links[e, 0], links[e, 1]
        kept[e] = False
        i, j = given.start[a], given.start[b]
        spare = True
        while spare and i < given.start[a + 1] and j < given.start[b + 1]:
            if given.topic[i] < given.topic[j]:
                i += 1
            elif given.topic[i] > given.topic[j]:
                j += 1
            else:
                t = given.topic[i]
                for m in range(given.first[t], given.first[t + 1]):
                    mark[given.member[m]] = stamp
                size = given.first[t + 1] - given.first[t]
                few, many = (a, b) if degree[a] <= degree[b] else (b, a)
                for v in (few, many):
                    if spare:
                        spare, used = reaches_all(v, size, start, other, link, kept, mark, stamp, degree)
                        work -= used + size
                stamp += 2
                i += 1
                j += 1
        if spare:
            degree[a] -= 1
            degree[b] -= 1
        kept[e] = not spare
        if work < 0:
            break
    return kept


@kernel
def reaches_all(
    v: int, size: int, start: Ints, other: Ints, link: Ints, kept: Bools, mark: Ints, stamp: int, degree: Ints
) -> tuple[bool, int]:
    """(whether v reaches all of the marked clients in two steps among themselves, the work it took).

    Clients are marked with stamp, or stamp + 1 by an earlier search from the other end; the reached get another mark.
    """
    most = 1
    for k in range(start[v], start[v + 1]):
        y = other[k]
        if kept[link[k]] and mark[y] >= stamp:
            most += degree[y] + 1
    if most < size:
        return False, start[v + 1] - start[v]
    old = mark[v]
    new = 2 * stamp + 1 - old  # stamp for stamp + 1 and the other way round
    reached, work = 1, start[v + 1] - start[v]
    mark[v] = new
    for k in range(start[v], start[v + 1]):
        y = other[k]
        if not kept[link[k]] or mark[y] < stamp:
            continue
        if mark[y] == old:
            mark[y] = new
            reached += 1
        for z in range(start[y], start[y + 1]):
            work += 1
            if kept[link[z]] and mark[other[z]] == old:
                mark[other[z]] = new
                reached += 1
    if reached < size:
        return False, work
    return True, work
