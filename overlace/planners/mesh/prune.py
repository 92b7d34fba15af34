"""Take out links that no topic needs for a diameter of 2.

A way of two links that uses a link begins or ends at one of its ends. So a link can go exactly if in every topic
that its ends share, each of the two still reaches all subscribers in at most two steps without it.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.csr import Neighbours, neighbours
from overlace.arrays.jit import Bools, Ints, Pairs, kernel
from overlace.planners.mesh.interests import Interests, next_shared

MOST_WORK = 2_000_000_000
"""Steps of searches after which pruning stops: about two seconds."""


def needed_links(given: Interests, links: Pairs) -> Bools:
    """Which links stay: those of the best linked clients are tried first, ties by the order of the links."""
    clients = len(given.start) - 1
    degree = np.bincount(links.reshape(-1), minlength=clients)
    ends = np.sort(degree[links], axis=1)
    order = np.lexsort((np.arange(len(links)), -ends[:, 0], -ends[:, 1]))
    return prune(given, links, order, neighbours(clients, links), MOST_WORK)


@kernel
def prune(given: Interests, links: Pairs, order: Ints, near: Neighbours, work: int) -> Bools:
    """Which links stay, tried in this order until the work is used up."""
    kept = np.ones(len(links), dtype=np.bool_)
    degree = np.diff(near.start)
    mark = np.full(len(degree), -1, dtype=np.int64)
    stamp = 0
    for e in order:
        a, b = links[e, 0], links[e, 1]
        few, many = (a, b) if degree[a] <= degree[b] else (b, a)
        kept[e] = False

        # without it, do both ends still reach everybody in each topic that they share?
        spare = True
        i, j = next_shared(given, a, b, given.start[a], given.start[b])
        while spare and i < given.start[a + 1]:
            t = given.topic[i]
            size = given.first[t + 1] - given.first[t]
            for m in range(given.first[t], given.first[t + 1]):
                mark[given.member[m]] = stamp
            for v in (few, many):
                if spare:
                    spare, used = reaches_all(near, kept, degree, v, size, mark, stamp)
                    work -= used + size
            stamp += 2
            i, j = next_shared(given, a, b, i + 1, j + 1)

        if spare:
            degree[a] -= 1
            degree[b] -= 1
        kept[e] = not spare
        if work < 0:
            break
    return kept


@kernel
def reaches_all(
    near: Neighbours, kept: Bools, degree: Ints, v: int, size: int, mark: Ints, stamp: int
) -> tuple[bool, int]:
    """(whether v reaches all of the marked clients in two steps among themselves, the work it took).

    Clients are marked with stamp, or stamp + 1 by an earlier search from the other end; the reached get another mark.
    """
    start, other, link = near.start, near.other, near.link
    most, work = 1, start[v + 1] - start[v]
    for k in range(start[v], start[v + 1]):
        y = other[k]
        if kept[link[k]] and mark[y] >= stamp:
            most += degree[y] + 1
    if most < size:
        return False, work

    old = mark[v]
    new = 2 * stamp + 1 - old  # stamp for stamp + 1 and the other way round
    reached = 1
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
    return reached >= size, work
