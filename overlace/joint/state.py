"""The system while it is searched: homes, tree, what each class spans, and what each broker bears.

A class pays demand x (links + brokers) of the minimal subtree that joins the homes of its clients; costs come
scaled by alpha and beta. Everything is asked by difference: what it costs a client to be elsewhere, what it
costs the classes to have a link replaced.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overlace.arrays.jit import Floats, Ints, Pairs, kernel


class Demand(NamedTuple):
    """Who talks, and how much: classes by their clients, and clients by their classes."""

    start: Ints
    member: Ints
    demand: Floats
    of_start: Ints
    of_class: Ints


class Tree(NamedTuple):
    """A rooted tree of brokers; up[v] is what the link from v to its parent costs."""

    parent: Ints
    up: Floats
    order: Ints  # parents before children
    depth: Ints
    degree: Ints


@kernel
def rooted(links: Pairs, wire: Floats) -> Tree:
    """Root the tree at broker 0."""
    n = len(links) + 1
    degree = np.zeros(n, dtype=np.int64)
    for k in range(len(links)):
        degree[links[k, 0]] += 1
        degree[links[k, 1]] += 1
    start = np.zeros(n + 1, dtype=np.int64)
    for v in range(n):
        start[v + 1] = start[v] + degree[v]
    place = start[:-1].copy()
    other = np.empty(2 * len(links), dtype=np.int64)
    for k in range(len(links)):
        for side in range(2):
            v = links[k, side]
            other[place[v]] = links[k, 1 - side]
            place[v] += 1
    parent = np.full(n, -1, dtype=np.int64)
    depth = np.zeros(n, dtype=np.int64)
    up = np.zeros(n, dtype=np.float64)
    order = np.zeros(n, dtype=np.int64)
    filled = 1
    for i in range(n):
        v = order[i]
        for k in range(start[v], start[v + 1]):
            w = other[k]
            if w != parent[v]:
                parent[w] = v
                depth[w] = depth[v] + 1
                up[w] = wire[v, w]
                order[filled] = w
                filled += 1
    return Tree(parent, up, order, depth, degree)


@kernel
def span(tree: Tree, terminals: Ints, count: int, mark: Ints, stamp: int, nodes: Ints) -> int:
    """Put the minimal subtree of the first terminals into nodes, its top last, marked by stamp; how many."""
    top = terminals[0]
    mark[top] = stamp
    filled = 0
    for k in range(1, count):
        v = terminals[k]
        while mark[v] != stamp and tree.depth[v] > tree.depth[top]:
            mark[v] = stamp
            nodes[filled] = v
            filled += 1
            v = tree.parent[v]
        if mark[v] == stamp:
            continue
        while tree.depth[top] > tree.depth[v]:
            nodes[filled] = top
            filled += 1
            top = tree.parent[top]
            mark[top] = stamp
        while v != top:
            mark[v] = stamp
            nodes[filled], nodes[filled + 1] = v, top
            filled += 2
            v, top = tree.parent[v], tree.parent[top]
            mark[top] = stamp
    nodes[filled] = top
    return filled + 1


class Seats(NamedTuple):
    """The home of each client, and of large classes how many are at each; changed in place."""

    home: Ints
    row: Ints  # of a class: its row of `many`, or -1
    many: NDArray[np.int32]  # (large classes, brokers)


def seated(demand: Demand, home: Ints, brokers: int) -> Seats:
    """Seats for these homes."""
    large = np.diff(demand.start) > brokers  # then to look at every broker is quicker
    row = np.where(large, np.cumsum(large) - 1, -1)
    many = np.zeros((int(large.sum()), brokers), dtype=np.int32)
    of = np.repeat(row, np.diff(demand.start))
    np.add.at(many, (of[of >= 0], home[demand.member[of >= 0]]), 1)
    return Seats(home, row, many)


def scanned(demand: Demand, home: Ints) -> Seats:
    """Seats that share their homes with others, and count nothing."""
    return Seats(home, np.full(len(demand.demand), -1), np.zeros((0, 0), dtype=np.int32))


@kernel
def seat(demand: Demand, seats: Seats, c: int, there: int) -> None:
    """Bring a client to a broker."""
    for j in range(demand.of_start[c], demand.of_start[c + 1]):
        row = seats.row[demand.of_class[j]]
        if row >= 0:
            seats.many[row, seats.home[c]] -= 1
            seats.many[row, there] += 1
    seats.home[c] = there


@kernel
def class_homes(demand: Demand, seats: Seats, k: int, without: int, seen: Ints, stamp: int, out: Ints) -> int:
    """The distinct homes of a class, one of its clients left out (-1: none is); how many."""
    found = 0
    row = seats.row[k]
    if row >= 0:
        for b in range(seats.many.shape[1]):
            if seats.many[row, b] - (1 if without >= 0 and seats.home[without] == b else 0) > 0:
                out[found] = b
                found += 1
        return found
    for i in range(demand.start[k], demand.start[k + 1]):
        c = demand.member[i]
        if c != without and seen[seats.home[c]] != stamp:
            seen[seats.home[c]] = stamp
            out[found] = seats.home[c]
            found += 1
    return found


@kernel
def bill(demand: Demand, home: Ints, tree: Tree, node: Floats) -> tuple[float, Floats]:
    """(cost, handled): what all classes pay, and the messages that pass each broker."""
    n = len(node)
    mark = np.full(n, -1, dtype=np.int64)
    seen = np.full(n, -1, dtype=np.int64)
    terminals = np.empty(n, dtype=np.int64)
    nodes = np.empty(n, dtype=np.int64)
    handled = np.zeros(n, dtype=np.float64)
    total = 0.0
    for k in range(len(demand.demand)):
        count = 0
        for i in range(demand.start[k], demand.start[k + 1]):
            b = home[demand.member[i]]
            if seen[b] != k:
                seen[b] = k
                terminals[count] = b
                count += 1
        if count == 0:
            continue
        size = span(tree, terminals, count, mark, k, nodes)
        paid = node[nodes[size - 1]]
        for i in range(size - 1):
            paid += tree.up[nodes[i]] + node[nodes[i]]
        for i in range(size):
            handled[nodes[i]] += demand.demand[k]
        if demand.start[k + 1] - demand.start[k] > 1:
            total += demand.demand[k] * paid
    return total, handled


@kernel
def add_client(demand: Demand, seats: Seats, tree: Tree, c: int, sign: float, handled: Floats, work: Ints) -> None:
    """Add (or take away) what the classes of a client make each broker handle."""
    mark, seen, terminals, nodes = work[0], work[1], work[2], work[3]
    for j in range(demand.of_start[c], demand.of_start[c + 1]):
        k = demand.of_class[j]
        work[4, 0] += 1
        stamp = work[4, 0]
        count = class_homes(demand, seats, k, -1, seen, stamp, terminals)
        size = span(tree, terminals, count, mark, stamp, nodes)
        for i in range(size):
            handled[nodes[i]] += sign * demand.demand[k]


@kernel
def reach_of(tree: Tree, node: Floats) -> Floats:
    """What the way from the farthest broker to each costs, that broker's own cost left out."""
    n = len(node)
    reach = np.zeros(n, dtype=np.float64)
    way = np.zeros((n, n), dtype=np.float64)
    for i in range(1, n):
        v = tree.order[i]
        p = tree.parent[v]
        for j in range(i):
            x = tree.order[j]
            way[x, v] = way[x, p] + tree.up[v] + node[v]
            way[v, x] = way[p, x] + tree.up[v] + node[p]
            reach[v] = max(reach[v], way[x, v])
            reach[x] = max(reach[x], way[v, x])
    return reach


@kernel
def prices(
    demand: Demand, seats: Seats, tree: Tree, node: Floats, c: int, work: Ints, sums: Floats, out: Floats
) -> None:
    """out[b]: what the classes of a client pay more for it to be at home at b than for it to be gone.

    From a broker to the next one down, those classes pay more that lie above, and those less that lie below; a class
    whose subtree holds both pays nothing at either. So it is enough to sum each class once over its subtree.
    """
    n = len(node)
    mark, seen, terminals, nodes = work[0], work[1], work[2], work[3]
    below, across = sums[0], sums[1]  # demand of classes below the link from v up, and of those that cross it
    below[:] = 0.0
    across[:] = 0.0
    total = 0.0
    for j in range(demand.of_start[c], demand.of_start[c + 1]):
        k = demand.of_class[j]
        if demand.start[k + 1] - demand.start[k] < 2:
            continue
        work[4, 0] += 1
        stamp = work[4, 0]
        count = class_homes(demand, seats, k, c, seen, stamp, terminals)
        size = span(tree, terminals, count, mark, stamp, nodes)
        for i in range(size - 1):
            across[nodes[i]] += demand.demand[k]
        below[nodes[size - 1]] += demand.demand[k]
        total += demand.demand[k]
    root = tree.order[0]
    out[root] = 0.0
    for i in range(n - 1, 0, -1):
        v = tree.order[i]
        p = tree.parent[v]
        out[root] += below[v] * (tree.up[v] + node[p])
        below[p] += below[v]
    for i in range(1, n):
        v = tree.order[i]
        p = tree.parent[v]
        above = total - below[v] - across[v]
        out[v] = out[p] + above * (tree.up[v] + node[v]) - below[v] * (tree.up[v] + node[p])


@kernel
def fits(load: Floats, cap: Floats) -> bool:
    """Whether no load is above its cap, rounding aside."""
    return bool((load <= cap * (1 + 1e-12) + 1e-9).all())
