"""What a master sees of the traffic: OCBR07 §3.1, Figure 2.

The neighbourhood of a master is itself and the nodes it is linked to. A class is seen by its ends there: (1)
a class that lies wholly behind one neighbour is not seen; (2) whoever is behind a neighbour is seen as that
neighbour. Classes with the same ends are one, with their demands added up.

All views of a tree are found together: at a node of its subtree, a class touches just the neighbours that are
in the subtree too, and the node itself if it is one of the class's own. So they cost as much as the subtrees
have links.

A class is a bit mask: bit 0 is the master, bit i its i-th neighbour, 62 bits a word.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import copy, neighbours
from overlace.arrays.hashing import group_rows
from overlace.arrays.jit import Bools, Floats, Ints, Pairs, kernel
from overlace.arrays.trees import root_at, subtree_links
from overlace.planners.search.spans import Spans

BITS = 62


class Views(NamedTuple):
    """The views of all nodes: neighbours, and for each class that passes a node the bits it touches there."""

    near_start: Ints
    near: Ints
    near_link: Ints  # the row of the link to that neighbour
    start: Ints
    seen: Ints  # the class
    bit: Ints


class LocalView(NamedTuple):
    """The view of one master: what it sees, and what it may rearrange."""

    nodes: Ints  # itself, then its neighbours in order
    masks: Ints  # (classes, words)
    weight: Floats  # per class
    room: Ints  # per node: how many of the neighbourhood's links it may have
    fixed: Bools  # per node: its link to the master must stay


@kernel
def neighbourhood(views: Views, master: int) -> Ints:
    """The master and its neighbours."""
    begin, end = views.near_start[master], views.near_start[master + 1]
    nodes = np.empty(end - begin + 1, dtype=np.int64)
    nodes[0] = master
    copy(views.near[begin:end], nodes[1:])
    return nodes


@kernel
def views_of(p: Spans, links: Pairs) -> Views:
    """The views of all nodes of a tree."""
    n = len(p.toll)
    near_start, near, near_link = neighbours(n, links)
    bit_at = np.empty((len(links), 2), dtype=np.int64)  # a link's bit at its left and at its right end
    for v in range(n):
        for k in range(near_start[v], near_start[v + 1]):
            bit_at[near_link[k], 0 if links[near_link[k], 0] == v else 1] = k - near_start[v] + 1

    tree = root_at(n, links, 0)
    bounds, below = subtree_links(tree, p.start, p.terminal)
    start = np.zeros(n + 1, dtype=np.int64)
    for i in range(len(below)):
        start[below[i] + 1] += 1
        start[tree.parent[below[i]] + 1] += 1
    for i in range(len(p.terminal)):
        start[p.terminal[i] + 1] += 1
    for v in range(n):
        start[v + 1] += start[v]

    place = start[:-1].copy()
    seen = np.empty(start[-1], dtype=np.int64)
    bit = np.empty(start[-1], dtype=np.int64)
    for k in range(len(p.weight)):
        for i in range(p.start[k], p.start[k + 1]):
            v = p.terminal[i]
            seen[place[v]] = k
            bit[place[v]] = 0
            place[v] += 1
        for i in range(bounds[k], bounds[k + 1]):
            x = below[i]
            row = tree.link[x]
            for v in (x, tree.parent[x]):
                seen[place[v]] = k
                bit[place[v]] = bit_at[row, 0 if links[row, 0] == v else 1]
                place[v] += 1
    return Views(near_start, near, near_link, start, seen, bit)


@kernel
def local_classes(p: Spans, views: Views, master: int) -> tuple[Ints, Floats]:
    """(masks, weight): the classes that pass a master, as it sees them, equal ones as one."""
    begin, end = views.start[master], views.start[master + 1]
    size = views.near_start[master + 1] - views.near_start[master] + 1
    words = (size + BITS - 1) // BITS
    count = 0
    for i in range(begin, end):
        count += i == begin or views.seen[i] != views.seen[i - 1]

    masks = np.zeros((count, words), dtype=np.int64)
    weight = np.zeros(count)
    at = -1
    for i in range(begin, end):
        if i == begin or views.seen[i] != views.seen[i - 1]:
            at += 1
            weight[at] = p.weight[views.seen[i]]
        masks[at, views.bit[i] // BITS] |= np.int64(1) << (views.bit[i] % BITS)
    if count == 0:
        return masks, weight

    group, first = group_rows(masks)
    merged = np.empty((len(first), words), dtype=np.int64)
    total = np.zeros(len(first))
    for g in range(len(first)):
        merged[g] = masks[first[g]]
    for i in range(count):
        total[group[i]] += weight[i]
    return merged, total
