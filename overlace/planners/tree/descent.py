"""Prune and regraft until no swap pays: take a link out, join the two parts where it is cheapest.

Every swap of one link for another is looked at, by difference (`cut.py`). Pairs of nodes are left out by
bounds: a pair cannot be cheaper than the reaches of its two ends and the cheapest link at one of them. After
a swap only the links around the loop that changed are looked at again; when none of them pays, all are, so at
the end no single swap over the whole tree pays.

Keeps: a tree; no broker above its limit; links that must stay; no more than so many links that differ from
the first tree, each of which counts `fee` more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Ints, Pairs, kernel
from overlace.planners.tree.cut import Desk, desk_for, weigh
from overlace.planners.tree.problem import SPARSE, Problem, price_of
from overlace.planners.tree.wiring import Wiring, attach, detach, wire


class Rules(NamedTuple):
    """What a search must keep to."""

    kept: Bools  # per slot: its link must stay
    cap: Ints  # per node: most links
    parent: Ints  # the first tree, hung up at node 0
    most: int  # links that may differ from it
    fee: float  # what each of them counts


class Search(NamedTuple):
    """A tree under search."""

    wiring: Wiring
    desk: Desk
    fresh: Bools  # per slot: its link is not of the first tree
    waiting: Bools  # per slot: to be looked at again
    near: Ints  # room for the nodes that one side's bound leaves
    far: Ints
    state: Ints  # one entry: links that differ from the first tree


@kernel
def search_over(p: Problem, links: Pairs, rules: Rules) -> Search:
    """A search that stands at these links."""
    n = len(p.toll)
    price = np.empty(len(links))
    fresh = np.zeros(len(links), dtype=np.bool_)
    differ = np.zeros(1, dtype=np.int64)
    for k in range(len(links)):
        price[k] = price_of(p, links[k, 0], links[k, 1])
        fresh[k] = not is_first(rules, links[k, 0], links[k, 1])
        differ[0] += fresh[k]
    return Search(
        wire(n, links, price), desk_for(p), fresh, np.ones(len(links), dtype=np.bool_),
        np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), differ,
    )  # fmt: skip


@kernel
def is_first(rules: Rules, a: int, b: int) -> bool:
    """Whether a link is one of the first tree."""
    return bool(rules.parent[a] == b or rules.parent[b] == a)


@kernel
def may_join(s: Search, rules: Rules, slot: int, a: int) -> bool:
    """Whether a node may have one more link once the slot's is out."""
    ends = (s.wiring.to[2 * slot] == a) + (s.wiring.to[2 * slot + 1] == a)
    return bool(s.wiring.degree[a] - ends + 1 <= rules.cap[a])


@kernel
def best_join(p: Problem, s: Search, rules: Rules, slot: int, below: float) -> tuple[float, float, int, int]:
    """(gain, load, a, b): the pair at which to join the parts of a slot's cut, if it gains more than `below`.

    a is -1 where no pair does.
    """
    w, d = s.wiring, s.desk
    load, size, _ = weigh(p, w, d, slot)
    u, v = w.to[2 * slot + 1], w.to[2 * slot]
    current = load * w.price[slot] + d.reach[u] + d.reach[v]
    if s.fresh[slot]:
        current += rules.fee
    limit = current - below
    n = len(d.order)
    more = s.state[0] - s.fresh[slot] < rules.most  # a link that is not of the first tree may come in
    low = np.full(2, np.inf)
    for i in range(n):
        x = d.order[i]
        low[d.side[x]] = min(low[d.side[x]], d.reach[x])
    near = far = 0
    for i in range(n):
        x = d.order[i]
        side = 0 if i < size else 1
        if d.reach[x] + low[1 - side] + load * p.cheapest[x] < limit and may_join(s, rules, slot, x):
            if side == 0:
                s.near[near] = x
                near += 1
            else:
                s.far[far] = x
                far += 1
    best_a, best_b = -1, -1
    for i in range(near):
        a = s.near[i]
        base = d.reach[a]
        if base + low[1] + load * p.cheapest[a] >= limit:
            continue
        if p.kind == SPARSE:
            for j in range(p.link_start[a], p.link_start[a + 1]):
                b = p.link_other[j]
                if d.side[b] == 0 or not may_join(s, rules, slot, b):
                    continue
                value = base + d.reach[b] + load * p.link_price[j]
                if value >= limit:
                    continue
                first = is_first(rules, a, b)
                value += 0.0 if first else rules.fee
                if value < limit and (first or more):
                    limit, best_a, best_b = value, a, b
        else:
            for j in range(far):
                b = s.far[j]
                if base + d.reach[b] + load * p.cheapest[b] >= limit:
                    continue
                value = base + d.reach[b] + load * price_of(p, a, b)
                if value >= limit:
                    continue
                first = is_first(rules, a, b)
                value += 0.0 if first else rules.fee
                if value < limit and (first or more):
                    limit, best_a, best_b = value, a, b
    return current - limit, load, best_a, best_b


@kernel
def swap(p: Problem, s: Search, rules: Rules, slot: int, a: int, b: int) -> None:
    """Put a-b into a slot, and have the links around the loop looked at again; call after weigh."""
    w, d = s.wiring, s.desk
    for end in (a, b):
        x = end
        while x >= 0:
            half = w.first[x]
            while half >= 0:
                s.waiting[half >> 1] = True
                half = w.after[half]
            x = d.up[x]
    detach(w, slot)
    attach(w, slot, a, b, price_of(p, a, b))
    fresh = not is_first(rules, a, b)
    s.state[0] += np.int64(fresh) - np.int64(s.fresh[slot])
    s.fresh[slot] = fresh
    s.waiting[slot] = True


@kernel
def descend(p: Problem, s: Search, rules: Rules, least: float, whole: bool) -> float:
    """Take swaps that pay until none does; with `whole`, none over the whole tree. Returns what was saved."""
    saved = 0.0
    slots = len(s.fresh)
    again = True
    while again:
        again = False
        for slot in range(slots):
            if not s.waiting[slot] or rules.kept[slot]:
                continue
            s.waiting[slot] = False
            gain, _, a, b = best_join(p, s, rules, slot, least)
            if a >= 0:
                swap(p, s, rules, slot, a, b)
                saved += gain
                again = True
        if not again and whole:
            for slot in range(slots):
                if rules.kept[slot]:
                    continue
                gain, _, a, b = best_join(p, s, rules, slot, least)
                if a >= 0:
                    swap(p, s, rules, slot, a, b)
                    saved += gain
                    again = True
    return saved


@kernel
def steepest(p: Problem, s: Search, rules: Rules, least: float) -> float:
    """Take the swap that pays most, again and again. Returns what was saved."""
    saved = 0.0
    while True:
        best, at, best_a, best_b = least, -1, -1, -1
        for slot in range(len(s.fresh)):
            if not rules.kept[slot]:
                gain, _, a, b = best_join(p, s, rules, slot, best)
                if a >= 0:
                    best, at, best_a, best_b = gain, slot, a, b
        if at < 0:
            return saved
        weigh(p, s.wiring, s.desk, at)
        swap(p, s, rules, at, best_a, best_b)
        saved += best


@kernel
def relieve(p: Problem, s: Search, rules: Rules) -> int:
    """Take links away from brokers above their limits, the cheapest way first; a broker it fails at, or -1."""
    for v in range(p.brokers):
        while s.wiring.degree[v] > rules.cap[v]:
            best, at, best_a, best_b = -np.inf, -1, -1, -1
            half = s.wiring.first[v]
            while half >= 0:
                if not rules.kept[half >> 1]:
                    gain, _, a, b = best_join(p, s, rules, half >> 1, best)
                    if a >= 0:
                        best, at, best_a, best_b = gain, half >> 1, a, b
                half = s.wiring.after[half]
            if at < 0:
                return v
            weigh(p, s.wiring, s.desk, at)
            swap(p, s, rules, at, best_a, best_b)
    return -1
