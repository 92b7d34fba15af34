"""The system while it is searched: homes, tree, what each class spans, and what each broker bears.

A class pays demand x (links + brokers) of the minimal subtree that joins the homes of its clients; costs come
scaled by alpha and beta. Everything is asked by difference: what it costs a client to be elsewhere, what it
costs the classes to have a link replaced.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
    for k in range(1, count):
        a, b = top, terminals[k]
        while a != b:
            if tree.depth[a] >= tree.depth[b]:
                a = tree.parent[a]
            else:
                b = tree.parent[b]
        top = a
    mark[top] = stamp
    filled = 0
    for k in range(count):
        v = terminals[k]
        while mark[v] != stamp:
            mark[v] = stamp
            nodes[filled] = v
            filled += 1
            v = tree.parent[v]
    nodes[filled] = top
    return filled + 1


@kernel
def class_homes(demand: Demand, home: Ints, k: int, without: int, seen: Ints, stamp: int, out: Ints) -> int:
    """The distinct homes of a class, one client left out; how many."""
    count = 0
    for i in range(demand.start[k], demand.start[k + 1]):
        c = demand.member[i]
        if c != without and seen[home[c]] != stamp:
            seen[home[c]] = stamp
            out[count] = home[c]
            count += 1
    return count


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
        count = class_homes(demand, home, k, -1, seen, k, terminals)
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
def add_client(demand: Demand, home: Ints, tree: Tree, c: int, sign: float, handled: Floats, work: Ints) -> None:
    """Add (or take away) what the classes of a client make each broker handle."""
    mark, seen, terminals, nodes = work[0], work[1], work[2], work[3]
    for j in range(demand.of_start[c], demand.of_start[c + 1]):
        k = demand.of_class[j]
        work[4, 0] += 1
        stamp = work[4, 0]
        count = class_homes(demand, home, k, -1, seen, stamp, terminals)
        size = span(tree, terminals, count, mark, stamp, nodes)
        for i in range(size):
            handled[nodes[i]] += sign * demand.demand[k]


@kernel
def apart(tree: Tree, node: Floats) -> Floats:
    """Matrix: what the way from one broker to another costs, the first broker's own cost left out."""
    n = len(node)
    way = np.zeros((n, n), dtype=np.float64)
    for i in range(1, n):
        v = tree.order[i]
        p = tree.parent[v]
        for j in range(i):
            x = tree.order[j]
            way[x, v] = way[x, p] + tree.up[v] + node[v]
            way[v, x] = way[p, x] + tree.up[v] + node[p]
    return way


@kernel
def prices(
    demand: Demand, home: Ints, tree: Tree, node: Floats, way: Floats, c: int, work: Ints, near: Floats, out: Floats
) -> None:
    """out[b]: what the classes of a client pay more for it to be at home at b than for it to be gone."""
    n = len(node)
    mark, seen, terminals, nodes = work[0], work[1], work[2], work[3]
    for b in range(n):
        out[b] = 0.0
    touched = work[5]
    alone = 0
    for j in range(demand.of_start[c], demand.of_start[c + 1]):
        k = demand.of_class[j]
        if demand.start[k + 1] - demand.start[k] < 2:
            continue
        work[4, 0] += 1
        stamp = work[4, 0]
        count = class_homes(demand, home, k, c, seen, stamp, terminals)
        if count == 1:
            x = terminals[0]
            if near[x] == 0.0:
                touched[alone] = x
                alone += 1
            near[x] += demand.demand[k]
            continue
        size = span(tree, terminals, count, mark, stamp, nodes)
        top = nodes[size - 1]
        far = near[n:]
        far[top] = 0.0
        v = top
        while tree.parent[v] >= 0:
            p = tree.parent[v]
            far[p] = far[v] + tree.up[v] + node[p]
            mark[p] = -stamp
            v = p
        for i in range(n):
            v = tree.order[i]
            if mark[v] == stamp:
                far[v] = 0.0
            elif mark[v] != -stamp:
                far[v] = far[tree.parent[v]] + tree.up[v] + node[v]
            out[v] += demand.demand[k] * far[v]
    for i in range(alone):
        x = touched[i]
        weight = near[x]
        near[x] = 0.0
        for b in range(n):
            out[b] += weight * way[x, b]


@kernel
def fits(load: Floats, cap: Floats) -> bool:
    """Whether no load is above its cap, rounding aside."""
    return bool((load <= cap * (1 + 1e-12) + 1e-9).all())
