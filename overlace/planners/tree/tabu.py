"""Rearranging a neighbourhood by tabu search: OCBR07 §3.2, Figure 3.

Starts from the star around the master. Every iteration draws `samples` links that could be added, finds for each
the best link to remove from the loop it closes, and makes the best of these swaps even if it costs. What
was just added is not removed and what was just removed is not added again, for `tenure` iterations (R3).

The loop is where a swap is weighed: a class that meets the loop at some of its nodes uses all of the loop but
the gap in which the missing link lies, so one pass over the classes gives the cost of every choice.

Reads: R1, the link that goes lies on the loop and is not the new one. R2, links are drawn without
replacement, until none is left. R5, a client is a leaf: its new link replaces its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import copy
from overlace.arrays.draws import draw_below
from overlace.arrays.jit import Floats, Ints, kernel
from overlace.planners.search.spans import Spans
from overlace.planners.search.wires import price_of
from overlace.planners.tree.view import BITS, LocalView

LISTED = 2_000
"""Pairs of nodes up to which all links are listed before drawing; above, up to 50 N pairs are tried for each draw."""


class TabuEffort(NamedTuple):
    """How long a master searches."""

    iterations: int
    samples: int  # swaps looked at in each
    tenure: int  # iterations for which a swapped link is tabu; -1: endless
    least: float  # what counts as a gain and not as rounding


class Hung(NamedTuple):
    """A tree over a neighbourhood, hung up at its master."""

    parent: Ints
    depth: Ints
    below: Ints  # per node, the mask of what is at or below it
    degree: Ints  # links to brokers


class Pool(NamedTuple):
    """Links from which one iteration draws; those that it has drawn stand first."""

    links: Ints  # each as one number, see `key`
    listed: int  # how many may be drawn; -1: too many to list, each draw tries until one may be added


@kernel
def optimize(p: Spans, view: LocalView, effort: TabuEffort, random: Ints) -> tuple[float, Ints]:
    """(gain, parent): the best tree found over a neighbourhood, hung up at its master, node 0."""
    k, nodes = len(view.nodes), view.nodes
    current = np.zeros(k, dtype=np.int64)  # F3:2
    current[0] = -1
    added = np.full(effort.iterations, -1, dtype=np.int64)  # F3:3
    removed = np.full(effort.iterations, -1, dtype=np.int64)  # F3:4
    best = current.copy()  # F3:5
    saved = most = 0.0
    gain = np.empty(effort.samples)
    move = np.empty((effort.samples, 3), dtype=np.int64)
    degree = np.ones(k, dtype=np.int64)
    degree[0] = 0
    for i in range(1, k):
        degree[0] += nodes[i] < p.wires.brokers
    drawn = np.empty(max(1, k * (k - 1) // 2 if k * (k - 1) // 2 <= LISTED else 50 * effort.samples), dtype=np.int64)

    for step in range(effort.iterations):  # F3:6
        tree = hang(current, degree, view.masks.shape[1])
        first = 0 if effort.tenure < 0 else max(0, step - effort.tenure)
        just_added, just_removed = added[first:step], removed[first:step]
        moves = 0  # F3:7
        pool = Pool(drawn, list_links(p, nodes, current, just_removed, drawn))
        left = 0
        while moves < effort.samples:  # F3:8
            left, u, v = draw_link(p, nodes, current, just_removed, pool, left, random)  # F3:9
            if u < 0:
                break
            fall, goes = best_link_to_remove(p, view, tree, u, v)  # F3:10
            if goes < 0:
                continue
            if key(k, goes, current[goes]) in just_added:  # F3:11
                continue  # F3:12
            gain[moves] = fall  # F3:14
            move[moves, 0], move[moves, 1], move[moves, 2] = u, v, goes
            moves += 1
        if moves == 0:
            break

        top = np.argmax(gain[:moves])  # F3:16
        u, v, goes = move[top]
        added[step] = key(k, u, v)  # F3:17
        removed[step] = key(k, goes, current[goes])  # F3:18
        saved += gain[top]
        if nodes[goes] < p.wires.brokers:
            degree[u] += 1
            degree[v] += 1
            degree[goes] -= 1
            degree[current[goes]] -= 1
        rehang(current, u, v, goes)  # F3:19, F3:20
        if saved > most + effort.least:  # F3:21
            most = saved
            copy(current, best)  # F3:22
    if most > effort.least:  # F3:25
        return most, best  # F3:26: the master wires it
    return 0.0, best


@kernel
def key(k: int, a: int, b: int) -> int:
    """A link of a neighbourhood of k nodes as one number."""
    return min(a, b) * k + max(a, b)


@kernel
def may_add(p: Spans, nodes: Ints, current: Ints, tabu: Ints, u: int, v: int) -> bool:
    """Whether a link could be wired, is not there and was not just removed."""
    if u == v or current[u] == v or current[v] == u or key(len(nodes), u, v) in tabu:
        return False
    return price_of(p.wires, nodes[u], nodes[v]) < np.inf


@kernel
def list_links(p: Spans, nodes: Ints, current: Ints, tabu: Ints, drawn: Ints) -> int:
    """Fill drawn with all links that may be added, where they are few; returns how many, else -1."""
    k = len(nodes)
    if k * (k - 1) // 2 > LISTED:
        return -1
    found = 0
    for u in range(k):
        for v in range(u + 1, k):
            if may_add(p, nodes, current, tabu, u, v):
                drawn[found] = u * k + v
                found += 1
    return found


@kernel
def draw_link(
    p: Spans, nodes: Ints, current: Ints, tabu: Ints, pool: Pool, left: int, random: Ints
) -> tuple[int, int, int]:
    """(left, u, v): a link not drawn before in this iteration; u is -1 where none is left (R2)."""
    k, drawn = len(nodes), pool.links
    if pool.listed >= 0:
        if left == pool.listed:
            return left, -1, -1
        at = left + draw_below(random, pool.listed - left)
        drawn[left], drawn[at] = drawn[at], drawn[left]
        return left + 1, drawn[left] // k, drawn[left] % k

    for _ in range(len(drawn)):
        if left == len(drawn):
            break
        u, v = draw_below(random, k), draw_below(random, k)
        if u > v:
            u, v = v, u
        if u * k + v not in drawn[:left] and may_add(p, nodes, current, tabu, u, v):
            drawn[left] = u * k + v
            return left + 1, u, v
    return left, -1, -1


@kernel
def hang(parent: Ints, degree: Ints, words: int) -> Hung:
    """A tree with how deep each node hangs and what is at or below it."""
    k = len(parent)
    depth = np.zeros(k, dtype=np.int64)
    below = np.zeros((k, words), dtype=np.int64)
    for v in range(k):
        x = v
        while True:
            below[x, v // BITS] |= np.int64(1) << (v % BITS)
            x = parent[x]
            if x < 0:
                break
            depth[v] += 1
    return Hung(parent, depth, below, degree)


@kernel
def rehang(parent: Ints, u: int, v: int, goes: int) -> None:
    """Add u-v and take out the link above goes, which is on the way from u or from v up."""
    x = u
    while x != goes and parent[x] >= 0:
        x = parent[x]
    if x != goes:
        u, v = v, u
    above, x = v, u
    while True:
        up = parent[x]
        parent[x] = above
        if x == goes:
            return
        above, x = x, up


@kernel
def best_link_to_remove(p: Spans, view: LocalView, tree: Hung, u: int, v: int) -> tuple[float, int]:
    """(gain, node): the node below the link whose removal from the loop of u-v saves most; -1 if none may go."""
    nodes, parent, brokers = view.nodes, tree.parent, p.wires.brokers
    loop, goes, ups = loop_of(tree, u, v)
    links = len(goes)
    saves = gaps(p, view, loop, masks_at(tree.below, loop, ups))
    best, most = -1, -np.inf
    for i in range(links):
        low = goes[i]
        high = parent[low]
        if (nodes[u] >= brokers and low != u) or (nodes[v] >= brokers and low != v):
            continue  # a client is a leaf (R5)
        if high == 0 and view.fixed[low]:
            continue
        full_u = tree.degree[u] >= view.room[u] and u != low and u != high
        full_v = tree.degree[v] >= view.room[v] and v != low and v != high
        if nodes[low] < brokers and (full_u or full_v):
            continue
        if saves[i] > most:
            best, most = low, saves[i]
    return most - saves[links], best


@kernel
def loop_of(tree: Hung, u: int, v: int) -> tuple[Ints, Ints, int]:
    """(loop, goes, ups): the nodes from u up to its top, loop[ups], and down to v, and the lower end of each link."""
    a, b = u, v
    ups, downs = 0, 0
    while a != b:  # how many links up from u and from v to where they meet
        if tree.depth[a] >= tree.depth[b]:
            a = tree.parent[a]
            ups += 1
        else:
            b = tree.parent[b]
            downs += 1

    links = ups + downs
    loop = np.empty(links + 1, dtype=np.int64)
    goes = np.empty(links, dtype=np.int64)
    x = u
    for i in range(ups):
        loop[i] = goes[i] = x
        x = tree.parent[x]
    loop[ups] = x
    x = v
    for i in range(downs):
        loop[links - i] = goes[links - 1 - i] = x
        x = tree.parent[x]
    return loop, goes, ups


@kernel
def masks_at(below: Ints, loop: Ints, ups: int) -> Ints:
    """What hangs at each node of a loop whose top is loop[ups], as masks."""
    links, words = len(loop) - 1, below.shape[1]
    hung = np.empty((links + 1, words), dtype=np.int64)
    for word in range(words):
        for i in range(links + 1):
            hung[i, word] = below[loop[i], word]
        top = hung[ups, word]
        if loop[ups] != 0:  # all that is not below the loop hangs at its top
            top = below[0, word]
        if ups > 0:
            top &= ~below[loop[ups - 1], word]
        if ups < links:
            top &= ~below[loop[ups + 1], word]
        hung[ups, word] = top
        for i in range(1, ups):
            hung[i, word] &= ~below[loop[i - 1], word]
        for i in range(ups + 1, links):
            hung[i, word] &= ~below[loop[i + 1], word]
    return hung


@kernel
def gaps(p: Spans, view: LocalView, loop: Ints, hung: Ints) -> Floats:
    """For each link of a loop, the new one last, the cost that its absence spares the classes."""
    nodes, masks, weight = view.nodes, view.masks, view.weight
    links = len(loop) - 1
    words = masks.shape[1]
    price = np.zeros(links + 2)  # sums of the prices before each link of the loop
    toll = np.zeros(links + 2)  # and of the tolls before each node
    for i in range(links + 1):
        price[i + 1] = price[i] + price_of(p.wires, nodes[loop[i]], nodes[loop[0 if i == links else i + 1]])
        toll[i + 1] = toll[i] + p.toll[nodes[loop[i]]]

    steps = np.zeros(links + 2)  # how what is spared differs from link to link
    for c in range(len(weight)):
        first, last = -1, -1
        for i in range(links + 1):
            met = False
            for word in range(words):
                if masks[c, word] & hung[i, word]:
                    met = True
                    break
            if not met:
                continue
            if first < 0:
                first = i
            else:
                spared = weight[c] * (price[i] - price[last] + toll[i] - toll[last + 1])
                steps[last] += spared
                steps[i] -= spared
            last = i
        if first == last:
            continue
        spared = price[links + 1] - price[last] + price[first] + toll[links + 1] - toll[last + 1] + toll[first]
        steps[last] += weight[c] * spared
        steps[0] += weight[c] * spared
        steps[first] -= weight[c] * spared

    total = 0.0
    for i in range(links + 1):
        total += steps[i]
        steps[i] = total
    return steps[: links + 1]
