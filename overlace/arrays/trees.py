"""Trees rooted once, then asked millions of times: distances, common ancestors, minimal subtrees.

A tree is cut into heavy paths (each node's largest child continues its path), so that a walk to the
root crosses at most log2(n) of them. Nodes are numbered along the paths in preorder: that one
numbering gives common ancestors without further tables and the order in which the terminals of a
subtree are visited.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import neighbours
from overlace.arrays.jit import Floats, Ints, Pairs, kernel, size


class Rooted(NamedTuple):
    """A tree with its root chosen; one entry a node."""

    parent: Ints  # -1 at the root
    link: Ints  # the row of the link to the parent; -1 at the root
    depth: Ints  # links to the root
    head: Ints  # the top of the heavy path it lies on
    position: Ints  # its preorder number
    order: Ints  # nodes from the root down: order[position[v]] == v


@kernel
def go_down(start: Ints, other: Ints, root: int, parent: Ints, depth: Ints, order: Ints, at: Ints) -> None:
    """Fill in what a root makes of a tree: each node's parent (-1 at the root), its depth, an order with parents before
    children, and where among the neighbours of its parent it stands."""
    parent[root], depth[root], order[0], at[root] = -1, 0, root, -1
    filled = 1
    for i in range(len(parent)):
        v = order[i]
        for k in range(start[v], start[v + 1]):
            w = other[k]
            if w != parent[v]:
                parent[w], depth[w], order[filled], at[w] = v, depth[v] + 1, w, k
                filled += 1


@kernel(work=lambda n, links, root: 8 * n)
def root_at(n: int, links: Pairs, root: int) -> Rooted:
    """Root the tree of n nodes. Call it only on trees: n - 1 links that join all nodes."""
    start, other, link_at = neighbours(n, links)
    parent = np.empty(n, dtype=np.int64)
    depth = np.empty(n, dtype=np.int64)
    queue = np.empty(n, dtype=np.int64)
    at = np.empty(n, dtype=np.int64)
    go_down(start, other, root, parent, depth, queue, at)
    link = np.full(n, -1, dtype=np.int64)
    for i in range(1, n):
        link[queue[i]] = link_at[at[queue[i]]]
    size = np.ones(n, dtype=np.int64)
    heavy = np.full(n, -1, dtype=np.int64)
    for i in range(n - 1, 0, -1):
        v = queue[i]
        up = parent[v]
        size[up] += size[v]
        if heavy[up] < 0 or size[v] > size[heavy[up]] or (size[v] == size[heavy[up]] and v < heavy[up]):
            heavy[up] = v
    head = np.empty(n, dtype=np.int64)
    position = np.empty(n, dtype=np.int64)
    head[root] = root
    position[root] = 0
    for i in range(n):
        v = queue[i]
        if heavy[v] < 0:
            continue
        head[heavy[v]] = head[v]
        position[heavy[v]] = position[v] + 1
        free = position[v] + 1 + size[heavy[v]]
        for k in range(start[v], start[v + 1]):
            w = other[k]
            if w != parent[v] and w != heavy[v]:
                head[w] = w
                position[w] = free
                free += size[w]
    order = np.empty(n, dtype=np.int64)
    for v in range(n):
        order[position[v]] = v
    return Rooted(parent, link, depth, head, position, order)


@kernel
def common_ancestor(tree: Rooted, a: int, b: int) -> int:
    """The deepest node that both a and b hang from."""
    while tree.head[a] != tree.head[b]:
        if tree.depth[tree.head[a]] >= tree.depth[tree.head[b]]:
            a = tree.parent[tree.head[a]]
        else:
            b = tree.parent[tree.head[b]]
    return a if tree.depth[a] <= tree.depth[b] else b


@kernel
def hops_between(tree: Rooted, left: Ints, right: Ints) -> Ints:
    """Links on the path between each left[i] and right[i]."""
    hops = np.empty(len(left), dtype=np.int64)
    for i in range(len(left)):
        top = common_ancestor(tree, left[i], right[i])
        hops[i] = tree.depth[left[i]] + tree.depth[right[i]] - 2 * tree.depth[top]
    return hops


@kernel
def from_root(tree: Rooted, weight: Floats) -> Floats:
    """For each node the sum of weight over it and all nodes above it but the root."""
    total = np.zeros(len(weight), dtype=np.float64)
    for v in tree.order[1:]:
        total[v] = total[tree.parent[v]] + weight[v]
    return total


@kernel(work=size)
def lengths_between(tree: Rooted, length: Floats, left: Ints, right: Ints) -> Floats:
    """Length of the path between each left[i] and right[i]; length[v] is that of v's link up."""
    total = from_root(tree, length)
    found = np.empty(len(left), dtype=np.float64)
    for i in range(len(left)):
        top = common_ancestor(tree, left[i], right[i])
        found[i] = total[left[i]] + total[right[i]] - 2 * total[top]
    return found


@kernel(work=lambda tree, link, node, start, terminals: 8 * len(terminals) + 4 * len(start))
def subtree_costs(tree: Rooted, link_cost: Floats, node_cost: Floats, start: Ints, terminals: Ints) -> Floats:
    """Cost of the minimal subtree that joins each group of terminals, one node being a subtree too.

    link_cost[v] is that of v's link up. Terminals are visited in preorder: each adds the path from
    its common ancestor with the one before it, and the first the path from the top of them all.
    """
    total = from_root(tree, link_cost + node_cost)
    costs = np.zeros(len(start) - 1, dtype=np.float64)
    visit = np.empty(len(terminals), dtype=np.int64)
    for g in range(len(start) - 1):
        size = start[g + 1] - start[g]
        if size == 0:
            continue
        places = visit[:size]
        for k in range(size):
            places[k] = tree.position[terminals[start[g] + k]]
        places.sort()
        before = tree.order[places[0]]
        top = common_ancestor(tree, before, tree.order[places[size - 1]])
        cost = node_cost[top] + total[before] - total[top]
        for k in range(1, size):
            if places[k] != places[k - 1]:
                v = tree.order[places[k]]
                cost += total[v] - total[common_ancestor(tree, before, v)]
                before = v
        costs[g] = cost
    return costs


@kernel
def subtree_links(tree: Rooted, start: Ints, terminals: Ints) -> tuple[Ints, Ints]:
    """(start, node): the links of the minimal subtree of each group, each named by its lower end."""
    bounds = np.zeros(len(start), dtype=np.int64)
    none = np.zeros(len(tree.parent), dtype=np.float64)
    ones = np.ones(len(tree.parent), dtype=np.float64)
    costs = subtree_costs(tree, ones, none, start, terminals)
    for g in range(len(costs)):
        bounds[g + 1] = bounds[g] + np.int64(costs[g])
    node = np.empty(bounds[-1], dtype=np.int64)
    seen = np.full(len(tree.parent), -1, dtype=np.int64)
    for g in range(len(costs)):
        if start[g] == start[g + 1]:
            continue
        top = terminals[start[g]]
        for k in range(start[g] + 1, start[g + 1]):
            top = common_ancestor(tree, top, terminals[k])
        seen[top] = g
        filled = bounds[g]
        for k in range(start[g], start[g + 1]):
            v = terminals[k]
            while seen[v] != g:
                seen[v] = g
                node[filled] = v
                filled += 1
                v = tree.parent[v]
        node[bounds[g] : filled].sort()
    return bounds, node
