"""A neighbourhood rearranged without chance: exactly where it is small, by prune and regraft where it is large.

Up to `EXACT` nodes the cheapest tree is found (`exact.py`); above, swaps are taken until no swap inside the
neighbourhood pays (`search/links.py`), which takes a hub of a thousand links apart as well.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.csr import group
from overlace.arrays.jit import Ints, kernel
from overlace.planners.search.links import Rules, descend, stand
from overlace.planners.search.spans import Spans
from overlace.planners.search.wires import FULL, Wires, price_of
from overlace.planners.tree.exact import best_tree, price_matrix, tree_total
from overlace.planners.tree.view import BITS, LocalView

EXACT = 9


@kernel
def improve(p: Spans, view: LocalView, least: float) -> tuple[float, Ints]:
    """(gain, parent): a better tree over a neighbourhood, hung up at its master, node 0."""
    return exactly(p, view, least) if len(view.nodes) <= EXACT else by_regraft(p, view, least)


@kernel
def exactly(p: Spans, view: LocalView, least: float) -> tuple[float, Ints]:
    """The cheapest tree over a neighbourhood."""
    k = len(view.nodes)
    star = np.zeros(k, dtype=np.int64)
    star[0] = -1
    price = price_matrix(p, view.nodes)
    toll = np.empty(k)
    kept = np.zeros((k, k), dtype=np.bool_)
    for i in range(k):
        toll[i] = p.toll[view.nodes[i]]
        if view.fixed[i]:
            kept[0, i] = kept[i, 0] = True

    seen = view.masks[:, 0].copy()
    cost, parent = best_tree(price, toll, seen, view.weight, view.room, kept)
    gain = tree_total(price, toll, seen, view.weight, star) - cost
    if gain > least:
        return gain, parent
    return 0.0, star


@kernel
def by_regraft(p: Spans, view: LocalView, least: float) -> tuple[float, Ints]:
    """A tree over a neighbourhood in which no swap pays."""
    k = len(view.nodes)
    star = np.zeros(k, dtype=np.int64)
    star[0] = -1
    links = np.empty((k - 1, 2), dtype=np.int64)
    for i in range(1, k):
        links[i - 1, 0], links[i - 1, 1] = 0, i

    q = own_problem(p, view)
    rules = Rules(view.fixed[1:].copy(), view.room, star, k, 0.0)
    search = stand(q, links, rules)
    gain = descend(q, search, rules, least, True)
    if gain <= least:
        return 0.0, star

    parent = np.full(k, -2, dtype=np.int64)
    parent[0] = -1
    stack = [0]
    while len(stack):
        v = stack.pop()
        half = search.wiring.first[v]
        while half >= 0:
            x = search.wiring.to[half]
            if x != parent[v]:
                parent[x] = v
                stack.append(x)
            half = search.wiring.after[half]
    return gain, parent


@kernel
def own_problem(p: Spans, view: LocalView) -> Spans:
    """The problem of a neighbourhood: its nodes, the classes seen there, the prices between them."""
    nodes, masks, weight = view.nodes, view.masks, view.weight
    k = len(nodes)
    start = np.zeros(len(weight) + 1, dtype=np.int64)
    for c in range(len(weight)):
        start[c + 1] = start[c]
        for word in range(masks.shape[1]):
            mask = masks[c, word]
            while mask > 0:
                mask &= mask - 1
                start[c + 1] += 1

    terminal = np.empty(start[-1], dtype=np.int64)
    owner = np.empty(start[-1], dtype=np.int64)
    filled = 0
    for c in range(len(weight)):
        for i in range(k):
            if start[c + 1] == filled:
                break
            if masks[c, i // BITS] >> (i % BITS) & 1:
                terminal[filled], owner[filled] = i, c
                filled += 1
    at_start, order = group(terminal, k)

    price = np.empty(k * (k - 1) // 2)
    cheapest = np.full(k, np.inf)
    toll = np.empty(k)
    row = 0
    for i in range(k):
        toll[i] = p.toll[nodes[i]]
        for j in range(i + 1, k):
            price[row] = price_of(p.wires, nodes[i], nodes[j])
            cheapest[i] = min(cheapest[i], price[row])
            cheapest[j] = min(cheapest[j], price[row])
            row += 1
    none = np.empty(0, dtype=np.int64)
    wires = Wires(k, FULL, price, none, none, np.empty(0), cheapest)
    return Spans(start, terminal, weight, none, at_start, owner[order], wires, toll, view.room)
