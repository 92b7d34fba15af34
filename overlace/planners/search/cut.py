"""What it costs to join the two parts of a cut tree again, at any pair of nodes, by difference.

Taking a link out leaves two parts. Only the classes on both sides matter; joined again by a link between a
and b, each of them pays that link, the way from a to its own subtree in a's part and from b to its own in
b's. Summed over the classes, the way from a is `reach[a]`. It is found for all nodes in one pass: going from
a node to a child, the classes that are all below the child come nearer and those that have nothing below
it go farther.

Keeps: join(a, b) = load x price + reach[a] + reach[b] is what (1) says of the rejoined tree, up to a constant.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Floats, Ints, by_address, kernel
from overlace.arrays.wiring import Wiring
from overlace.planners.search.spans import Spans
from overlace.planners.search.wires import price_of


@by_address
class Workspace(NamedTuple):
    """Room to work in, made once: one entry a node, or a class."""

    order: Ints  # the nodes of the first part from its end of the cut link outwards, then those of the second
    up: Ints  # towards the cut link; -1 at its ends
    side: Ints  # 0 or 1
    depth: Ints
    rise: Floats  # the price of the link up
    length: Floats  # prices and tolls from the end of the cut link down to the node, its own toll left out
    some: Floats  # weight of the classes with a terminal at or below the node
    all: Floats  # weight of the classes with all their terminals of this side at or below it
    reach: Floats
    seen: Ints  # marks of nodes
    tally: Ints  # per class: its terminals in the smaller part
    crossing: Ints  # the classes on both sides
    tick: Ints  # one entry: the last mark given


@kernel
def new_workspace(p: Spans) -> Workspace:
    """Room for a problem."""
    n, classes = len(p.toll), len(p.weight)
    return Workspace(
        order=np.zeros(n, dtype=np.int64),
        up=np.zeros(n, dtype=np.int64),
        side=np.zeros(n, dtype=np.int64),
        depth=np.zeros(n, dtype=np.int64),
        rise=np.zeros(n),
        length=np.zeros(n),
        some=np.zeros(n),
        all=np.zeros(n),
        reach=np.zeros(n),
        seen=np.zeros(n, dtype=np.int64),
        tally=np.zeros(classes, dtype=np.int64),
        crossing=np.zeros(classes, dtype=np.int64),
        tick=np.zeros(1, dtype=np.int64),
    )


@kernel
def spread(p: Spans, w: Wiring, d: Workspace, slot: int) -> int:
    """Fill order, up, side, depth, rise and length of both parts; returns the size of the first."""
    filled = 0
    size = 0
    for side in range(2):
        root = w.to[2 * slot + 1 - side]
        begin = filled
        d.order[filled] = root
        filled += 1
        d.up[root] = -1
        d.depth[root] = 0
        d.length[root] = 0.0
        i = begin
        while i < filled:
            v = d.order[i]
            i += 1
            d.side[v] = side
            d.some[v] = 0.0
            d.all[v] = 0.0
            half = w.first[v]
            while half >= 0:
                x = w.to[half]
                if x != d.up[v] and (half >> 1) != slot:
                    d.up[x] = v
                    d.depth[x] = d.depth[v] + 1
                    d.rise[x] = w.price[half >> 1]
                    d.length[x] = d.length[v] + d.rise[x] + p.toll[v]
                    d.order[filled] = x
                    filled += 1
                half = w.after[half]
        if side == 0:
            size = filled
    return size


@kernel
def find_crossing(p: Spans, d: Workspace, size: int) -> int:
    """Fill crossing with the classes that have terminals in both parts; returns how many."""
    n = len(d.order)
    begin, end = (0, size) if 2 * size <= n else (size, n)
    met = 0
    for i in range(begin, end):
        v = d.order[i]
        for j in range(p.at_start[v], p.at_start[v + 1]):
            k = p.at[j]
            if d.tally[k] == 0:
                d.crossing[met] = k
                met += 1
            d.tally[k] += 1
    kept = 0
    for i in range(met):
        k = d.crossing[i]
        if d.tally[k] < p.start[k + 1] - p.start[k]:
            d.crossing[kept] = k
            kept += 1
        d.tally[k] = 0
    return kept


@kernel
def climb(p: Spans, d: Workspace, k: int, side: int, weight: float) -> int:
    """Mark the ways from class k's terminals in a part to the cut link; returns where they first meet."""
    d.tick[0] += 1
    mark = d.tick[0]
    low = -1
    for j in range(p.start[k], p.start[k + 1]):
        x = p.terminal[j]
        if d.side[x] != side:
            continue
        first = low < 0
        if first:
            low = x
        while x >= 0 and d.seen[x] != mark:
            d.seen[x] = mark
            d.some[x] += weight
            x = d.up[x]
        if not first and d.depth[x] < d.depth[low]:
            low = x
    return low


@kernel
def weigh(p: Spans, w: Wiring, d: Workspace, slot: int) -> tuple[float, int, int]:
    """(load, size, crossing) of the cut at a slot: what crosses it, the first part's size; fills reach."""
    size = spread(p, w, d, slot)
    crossing = find_crossing(p, d, size)
    load = 0.0
    begin = np.zeros(2)
    for i in range(crossing):
        k = d.crossing[i]
        load += p.weight[k]
        for side in range(2):
            low = climb(p, d, k, side, p.weight[k])
            begin[side] += p.weight[k] * d.length[low]
            while low >= 0:
                d.all[low] += p.weight[k]
                low = d.up[low]
    for i in range(len(d.order)):
        x = d.order[i]
        above = d.up[x]
        if above < 0:
            d.reach[x] = begin[d.side[x]]
        else:
            away = (d.rise[x] + p.toll[x]) * (load - d.some[x])
            d.reach[x] = d.reach[above] + away - (d.rise[x] + p.toll[above]) * d.all[x]
    return load, size, crossing


@kernel
def way(p: Spans, d: Workspace, k: int, side: int, end: int) -> float:
    """What the way from a node of a part to class k's subtree in it costs."""
    low = climb(p, d, k, side, 0.0)
    mark = d.tick[0]
    cost = 0.0
    x = end
    while d.seen[x] != mark:
        cost += d.rise[x] + p.toll[x]
        x = d.up[x]
    if d.depth[x] < d.depth[low]:  # above the subtree: down to it
        cost += d.length[low] - d.length[x]
    return cost


@kernel
def most_saved(p: Spans, w: Wiring, d: Workspace, slot: int, crossing: int, a: int, b: int) -> tuple[int, float]:
    """(class, saving): who saves most when the link at a slot gives way to a-b; call after weigh."""
    if d.side[a] == 1:
        a, b = b, a
    fresh = price_of(p.wires, a, b)
    best, most = -1, -np.inf
    for i in range(crossing):
        k = d.crossing[i]
        before = w.price[slot] + way(p, d, k, 0, w.to[2 * slot + 1]) + way(p, d, k, 1, w.to[2 * slot])
        after = fresh + way(p, d, k, 0, a) + way(p, d, k, 1, b)
        saved = p.weight[k] * (before - after)
        if saved > most or (saved == most and k < best):
            best, most = k, saved
    return best, most
